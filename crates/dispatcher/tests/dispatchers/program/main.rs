//! What the tests of dispatchers start: a worker that does what the body of its
//! task says, or a dispatcher in a process of its own.

mod dispatcher;
mod worker;

use std::process::ExitCode;

use vestal_config::Environment;

fn main() -> ExitCode {
    let environment = Environment::capture();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return ExitCode::from(70) };
    if let [verb, path] = arguments.as_slice()
        && verb == "hold-lock"
    {
        return hold_lock(path).map_or(ExitCode::from(70), |()| ExitCode::SUCCESS);
    }
    let is_dispatcher = arguments.first().is_some_and(|first| first == "dispatch");
    let done = runtime.block_on(async {
        if is_dispatcher {
            dispatcher::run(&environment, &arguments).await
        } else {
            worker::run(&environment, &arguments).await
        }
    });
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            say(&format!("failed: {error}"));
            ExitCode::from(70)
        }
    }
}

/// Locks a file and stops.
fn hold_lock(path: &str) -> std::io::Result<()> {
    let file = std::fs::File::create(path)?;
    file.lock()?;
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP)?;
    file.unlock()
}

/// Any error, in words.
type Anything = Box<dyn std::error::Error + Send + Sync>;

/// Writes a line to standard output.
fn say(text: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).ok();
}

/// Returns the value after a flag.
fn value<'a>(arguments: &'a [String], flag: &str) -> Option<&'a str> {
    let at = arguments.iter().position(|argument| argument == flag)?;
    arguments.get(at + 1).map(String::as_str)
}
