//! What `/sandbox` asks for, in whatever front end it is typed.

use vestal_agent::slash::{find, nearest};
use vestal_sandbox::TaskName;

/// What is to be done about the sandbox of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxCommand {
    /// It is shown.
    Show,
    /// The conversation continues in the sandbox of another task.
    Switch(TaskName),
    /// A verb of the command line is run.
    Run(SandboxVerb),
}

/// A verb of the command line about the sandbox of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxVerb {
    /// The verb with its arguments.
    pub words: Vec<String>,
    /// The notice for the model once it is done, unless the conversation is empty.
    pub remark: Option<&'static str>,
    /// The message for a person once it is done.
    pub hint: Option<String>,
}

/// Words after `/sandbox` that mean nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SandboxCommandError {
    /// Something is missing.
    #[error("{0}")]
    Incomplete(&'static str),
    /// There is no such verb.
    #[error("/sandbox has no verb {word:?}")]
    Unknown {
        /// The word.
        word: String,
        /// What may have been meant.
        nearest: Option<&'static str>,
    },
    /// The name of a task is none.
    #[error("{0}")]
    Task(String),
}

const RESTORED: &str = "The user has put the sandbox back to an earlier state: files, installed tools and the shell are as they were then, and jobs that ran have ended.";
const REBUILT: &str = "The user has rebuilt the sandbox: the workspace and the home directory are as they were; what was installed elsewhere is gone, and jobs that ran have ended.";
const STOPPED: &str = "The user has stopped the sandbox: processes that ran in it have ended; files are as they were. The next command starts it again.";
const REMOVED: &str = "The user has removed the sandbox with all that was in it: files, installed tools, jobs and the shell are gone. The next command begins in a new and empty one.";

impl SandboxCommand {
    /// Reads the words after `/sandbox` in a conversation that works in the sandbox of `task`.
    pub fn parse(words: &[&str], task: &str) -> Result<Self, SandboxCommandError> {
        let missing = |what| Err(SandboxCommandError::Incomplete(what));
        let run = |verb: &[&str], flags: &[&str], remark| {
            let words = verb.iter().chain(flags).map(|word| (*word).to_owned()).collect();
            Ok(Self::Run(SandboxVerb { words, remark, hint: None }))
        };
        match words {
            [] | ["show"] => Ok(Self::Show),
            ["switch", name] => match name.parse() {
                Ok(task) => Ok(Self::Switch(task)),
                Err(error) => Err(SandboxCommandError::Task(format!("{error}"))),
            },
            ["switch", ..] => missing("which task?"),
            ["snapshots", flags @ ..] => run(&["snapshots", "list", "-t", task], flags, None),
            ["snapshot", name, flags @ ..] if !name.starts_with('-') => {
                run(&["snapshot", "-t", task, "--name", name], flags, None)
            }
            ["snapshot", flags @ ..] => run(&["snapshot", "-t", task], flags, None),
            ["restore"] => missing("which snapshot? /sandbox snapshots lists them"),
            ["restore", flags @ ..] => run(&["restore", task], flags, Some(RESTORED)),
            ["fork"] => missing("the new task needs a name"),
            ["fork", new, flags @ ..] => {
                let words = ["fork", task, new].into_iter().chain(flags.iter().copied());
                let words = words.map(str::to_owned).collect();
                let hint = Some(format!("to continue in the copy: /sandbox switch {new}"));
                Ok(Self::Run(SandboxVerb { words, remark: None, hint }))
            }
            ["rebuild", flags @ ..] => run(&["rebuild", "-t", task], flags, Some(REBUILT)),
            ["stop", flags @ ..] => run(&["stop", "-t", task], flags, Some(STOPPED)),
            ["reset", flags @ ..] => run(&["rm", "--files", "-t", task], flags, Some(REMOVED)),
            [other, ..] => {
                let known = find("sandbox").map(|command| command.words).unwrap_or_default();
                let nearest = nearest(other, known.iter().map(|word| word.word));
                Err(SandboxCommandError::Unknown { word: (*other).to_owned(), nearest })
            }
        }
    }

    /// Returns the notice for the model when its conversation has gone on in another sandbox.
    pub fn switch_message(from: &TaskName, to: &TaskName) -> String {
        format!(
            "The user has moved this conversation to another sandbox, that of the task {to}. Files, tools, jobs and the shell that you knew are in the sandbox of the task {from}, which you do not see any more."
        )
    }
}

impl SandboxCommandError {
    /// Returns what to do about it.
    pub fn advice(&self) -> String {
        match self {
            Self::Unknown { nearest: Some(meant), .. } => {
                format!("did you mean /sandbox {meant}?")
            }
            Self::Unknown { nearest: None, .. } | Self::Incomplete(_) | Self::Task(_) => {
                "/help sandbox lists the verbs".to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_of_the_table_is_one_of_the_command_line_for_this_sandbox() {
        let line = |typed: &str| {
            let words: Vec<&str> = typed.split_whitespace().collect();
            match SandboxCommand::parse(&words, "web") {
                Ok(SandboxCommand::Run(verb)) => verb.words.join(" "),
                other => format!("{other:?}"),
            }
        };
        for (typed, expected) in [
            ("snapshots --json", "snapshots list -t web --json"),
            ("snapshot before", "snapshot -t web --name before"),
            ("snapshot", "snapshot -t web"),
            ("restore before -y", "restore web before -y"),
            ("fork copy", "fork web copy"),
            ("rebuild -y", "rebuild -t web -y"),
            ("stop", "stop -t web"),
            ("reset -y", "rm --files -t web -y"),
        ] {
            assert_eq!(line(typed), expected);
        }
        let words = find("sandbox").unwrap().words;
        for verb in words {
            let parsed = SandboxCommand::parse(&[verb.word, "name"], "web");
            assert!(parsed.is_ok(), "{}: {parsed:?}", verb.word);
        }
        let unknown = SandboxCommand::parse(&["rebild"], "web").unwrap_err();
        assert_eq!(unknown.advice(), "did you mean /sandbox rebuild?");
        assert!(SandboxCommand::parse(&["restore"], "web").is_err());
    }
}
