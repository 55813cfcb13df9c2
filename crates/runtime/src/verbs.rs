//! Verbs of the command line that are typed in a conversation, as in `/kanban list`.

use std::fmt::Debug;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::timeout;

/// How long a verb may take: a person waits for it, and one that serves or follows would go on for
/// ever.
const VERB_WITHIN: Duration = Duration::from_mins(2);

/// Bytes of what it prints that are kept.
const VERB_OUTPUT: u64 = 1 << 20;

/// What a verb printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerbOutput {
    /// What it printed, data and messages together.
    pub text: String,
    /// Whether it succeeded.
    pub is_success: bool,
}

/// Carries out verbs of the command line for front ends without a terminal.
#[async_trait]
pub trait Verbs: Debug + Send + Sync {
    /// Runs a verb, such as `["kanban", "list"]`, without a terminal, or says why it cannot.
    async fn run(&self, words: Vec<String>) -> Result<VerbOutput, String>;

    /// Returns completions for the last word of a verb.
    async fn complete(&self, words: &[String]) -> Vec<String>;
}

/// No verbs: what is assembled by a program that is not `vestal`.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoVerbs;

#[async_trait]
impl Verbs for NoVerbs {
    async fn run(&self, words: Vec<String>) -> Result<VerbOutput, String> {
        Err(format!("use the command line: vestal {}", words.join(" ")))
    }

    async fn complete(&self, _: &[String]) -> Vec<String> {
        Vec::new()
    }
}

/// Verbs of the program, each in a process of its own: they print as they like, and may end as they
/// like. The process has the environment of this one, so that it finds the same home.
#[derive(Debug, Clone)]
pub struct ProgramVerbs {
    program: PathBuf,
    profile: Option<String>,
}

impl ProgramVerbs {
    /// Returns the verbs of a program, about a profile; without one, about the active profile.
    pub fn new(program: PathBuf, profile: Option<&str>) -> Self {
        Self { program, profile: profile.map(str::to_owned) }
    }
}

#[async_trait]
impl Verbs for ProgramVerbs {
    async fn run(&self, words: Vec<String>) -> Result<VerbOutput, String> {
        let mut command = tokio::process::Command::new(&self.program);
        if let Some(profile) = &self.profile {
            command.args(["-p", profile]);
        }
        command.args(&words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let name = || format!("vestal {}", words.join(" "));
        let failed = |error: std::io::Error| format!("{} could not be run: {error}", name());
        let mut child = command.kill_on_drop(true).spawn().map_err(failed)?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let printed = async { tokio::join!(read(stdout), read(stderr), child.wait()) };
        let done = timeout(VERB_WITHIN, printed).await;
        let (stdout, stderr, status) =
            done.map_err(|_| format!("{} took too long and was ended", name()))?;
        let is_success = status.map_err(failed)?.success();
        Ok(VerbOutput { text: stdout + &stderr, is_success })
    }

    async fn complete(&self, words: &[String]) -> Vec<String> {
        let asked = ["completions", "--words", "--"].map(str::to_owned);
        let words = asked.into_iter().chain(words.iter().cloned()).collect();
        match self.run(words).await {
            Ok(VerbOutput { text, is_success: true }) => text.lines().map(str::to_owned).collect(),
            // The person continues without it.
            Ok(_) | Err(_) => Vec::new(),
        }
    }
}

/// Reads what fits, and drops the rest, so that the program that prints it can end.
async fn read(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut pipe) = pipe else { return String::new() };
    let mut kept = Vec::new();
    let read = (&mut pipe).take(VERB_OUTPUT).read_to_end(&mut kept).await;
    let rest = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
    if let Err(error) = read.and(rest.map(|_| 0)) {
        tracing::debug!(%error, "the output of a verb was cut off");
    }
    String::from_utf8_lossy(&kept).into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn a_verb_is_run_for_its_profile_and_what_it_prints_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("vestal");
        let script = "#!/bin/sh\n[ \"$3\" = big ] && exec head -c 3000000 /dev/zero\n\
                      [ \"$3\" = fail ] && { echo no >&2; exit 3; }\necho \"$@\"\n";
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let verbs = ProgramVerbs::new(program.clone(), Some("work"));
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let done = verbs.run(words("kanban list")).await.unwrap();
        let text = "-p work kanban list\n".to_owned();
        assert_eq!(done, VerbOutput { text, is_success: true });
        let failed = verbs.run(words("fail")).await.unwrap();
        assert_eq!(failed, VerbOutput { text: "no\n".to_owned(), is_success: false });
        let big = verbs.run(words("big")).await.unwrap();
        assert_eq!((big.text.len() as u64, big.is_success), (VERB_OUTPUT, true));
        let offered = verbs.complete(&words("kanban li")).await;
        assert_eq!(offered, ["-p work completions --words -- kanban li"]);
        let missing = ProgramVerbs::new(dir.path().join("nothing"), None);
        assert!(missing.run(words("ps")).await.unwrap_err().contains("could not be run"));
    }
}
