//! The fixed workload: a session that holds 60 variables, 20 functions and 10
//! aliases.

use std::fmt::Write as _;

use vestal_sandbox::{CapturedOutput, Command, Sandbox};

use crate::Result;

/// The session that holds the workload. It is the one `vestal run` uses.
pub(crate) const SESSION: &str = "main";

const VARIABLES: usize = 60;
const FUNCTIONS: usize = 20;
const ALIASES: usize = 10;

/// What counts the workload from within.
const COUNT: &str = "printf '%s %s %s' \
    $(compgen -v W_ | wc -l) $(compgen -A function w_ | wc -l) $(compgen -a w | wc -l)";

/// Fills the session and checks that it stays filled.
pub(crate) async fn prepare(sandbox: &Sandbox) -> Result<()> {
    in_session(sandbox, &script()).await?;
    let output = in_session(sandbox, COUNT).await?;
    let held = output.stdout.text();
    if held == format!("{VARIABLES} {FUNCTIONS} {ALIASES}") {
        Ok(())
    } else {
        Err(format!("the session holds {held} of the workload").into())
    }
}

/// Runs a command in the session that holds the workload.
pub(crate) async fn in_session(sandbox: &Sandbox, text: &str) -> Result<CapturedOutput> {
    check(sandbox.run(Command::shell(text).session(SESSION)).await?)
}

/// Runs a command that starts from nothing and leaves nothing.
pub(crate) async fn stateless(sandbox: &Sandbox, text: &str) -> Result<CapturedOutput> {
    check(sandbox.run(Command::shell(text).stateless()).await?)
}

fn check(output: CapturedOutput) -> Result<CapturedOutput> {
    if output.exit.code == Some(0) {
        return Ok(output);
    }
    Err(format!("a command ended with {:?}: {}", output.exit, output.stderr.text()).into())
}

/// A third of the variables is exported, a few are arrays; functions have a few
/// lines each.
fn script() -> String {
    let mut script = String::new();
    for n in 0..VARIABLES {
        let line = match n % 6 {
            0 | 1 => format!("export W_{n}='an exported value, number {n}'"),
            2 => format!("W_{n}=(one two 'number {n}')"),
            _ => format!("W_{n}=\"a plain value, number {n}\""),
        };
        writeln!(script, "{line}").ok();
    }
    for n in 0..FUNCTIONS {
        writeln!(
            script,
            "w_{n}() {{ local name=$1; if [ -n \"$name\" ]; then echo \"{n}: $name\"; \
             else return 1; fi; }}"
        )
        .ok();
    }
    for n in 0..ALIASES {
        writeln!(script, "alias w{n}='ls -l --color=auto number-{n}'").ok();
    }
    script
}
