//! Which sandbox is whose: the task that a client works in.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use vestal_sandbox::{InvalidTask, TaskName};

/// Characters of a client's name that are in the name of its task.
const NAME_CHARACTERS: usize = 40;

/// What a client is called that does not say its name.
const NAMELESS: &str = "client";

/// Which task a client works in unless a call names another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskChoice {
    /// This one.
    Named(TaskName),
    /// One of its own, named by the client and by the directory that it works in, where that is
    /// known: the same client finds its sandbox again in the same directory.
    PerClient {
        /// The directory.
        directory: Option<PathBuf>,
    },
}

impl TaskChoice {
    /// Returns the task of a client that calls itself `client`.
    pub(crate) fn task(&self, client: Option<&str>) -> Result<TaskName, InvalidTask> {
        let directory = match self {
            Self::Named(task) => return Ok(task.clone()),
            Self::PerClient { directory } => directory.as_deref(),
        };
        let name = short_name(client.unwrap_or(NAMELESS));
        match directory {
            Some(directory) => format!("mcp-{name}-{}", fingerprint(directory)).parse(),
            None => format!("mcp-{name}").parse(),
        }
    }
}

/// Returns a client's name in letters, digits and single hyphens.
pub(crate) fn short_name(client: &str) -> String {
    let words = client.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let joined = words.collect::<Vec<_>>().join("-").to_ascii_lowercase();
    let name: String = joined.chars().take(NAME_CHARACTERS).collect();
    let name = name.trim_end_matches('-');
    if name.is_empty() { NAMELESS.to_owned() } else { name.to_owned() }
}

/// Tells directories apart in a few characters.
fn fingerprint(directory: &Path) -> String {
    let digest = Sha256::digest(directory.as_os_str().as_bytes());
    let first = digest.iter().take(4).fold(0, |number, byte| number << 8 | u32::from(*byte));
    format!("{first:08x}")
}

/// Between the name of a task and that of a copy that a client has made of its sandbox.
const FORK: &str = ".fork.";

/// Returns the task of a copy that a client makes of the sandbox of its task, without the directory
/// that is mounted in both.
pub(crate) fn fork_name(base: &TaskName, name: &str) -> Result<TaskName, InvalidTask> {
    format!("{base}{FORK}{name}").parse()
}

/// Reports whether a sandbox is a copy that was made by [`fork_name`] of the one of `own`. That is the
/// task `base` with the directory that is mounted, which the copy has too: a client in another
/// directory has the same `base`.
pub(crate) fn is_fork_of(base: &TaskName, own: &TaskName, task: &TaskName) -> bool {
    let directory = own.as_str().strip_prefix(base.as_str());
    let name = task
        .as_str()
        .strip_prefix(base.as_str())
        .and_then(|rest| rest.strip_prefix(FORK))
        .zip(directory)
        .and_then(|(rest, directory)| rest.strip_suffix(directory));
    name.is_some_and(|name| !name.is_empty() && !name.contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(client: Option<&str>, directory: &str) -> String {
        let directory = Some(PathBuf::from(directory));
        TaskChoice::PerClient { directory }.task(client).unwrap().to_string()
    }

    #[test]
    fn a_client_has_the_same_task_in_a_directory_and_another_one_elsewhere() {
        let first = task(Some("claude-code"), "/home/ada/site");
        assert!(first.starts_with("mcp-claude-code-"), "{first}");
        assert_eq!(task(Some("claude-code"), "/home/ada/site"), first);
        assert_ne!(task(Some("claude-code"), "/home/ada/other"), first);
        assert_ne!(task(Some("codex"), "/home/ada/site"), first);
        let anywhere = TaskChoice::PerClient { directory: None };
        assert_eq!(anywhere.task(None).unwrap().as_str(), "mcp-client");
    }

    #[test]
    fn whatever_a_client_calls_itself_its_task_is_a_plain_name() {
        for (client, name) in [
            ("Claude Desktop/1.0", "claude-desktop-1-0"),
            ("../../etc", "etc"),
            ("a@/home/ada", "a-home-ada"),
            ("\0\u{1b}[2J", "2j"),
            ("…", "client"),
        ] {
            assert_eq!(short_name(client), name, "{client:?}");
        }
        assert_eq!(short_name(&"x".repeat(5000)).len(), NAME_CHARACTERS);
    }

    #[test]
    fn a_fork_is_known_by_its_name_and_no_neighbour_is_taken_for_one() {
        let own: TaskName = "mcp-x-1".parse().unwrap();
        let fork = fork_name(&own, "try").unwrap();
        assert!(is_fork_of(&own, &own, &fork));
        let others = ["mcp-x-1", "mcp-x-10", "mcp-x-1.", "mcp-x-1.try", "mcp-x-10.fork.try", "web"];
        for other in others {
            assert!(!is_fork_of(&own, &own, &other.parse().unwrap()), "{other}");
        }
    }

    #[test]
    fn a_fork_with_a_mounted_directory_belongs_to_clients_in_that_directory_only() {
        let base: TaskName = "mcp-x".parse().unwrap();
        let (here, there) =
            ("mcp-x@/home/ada/a".parse().unwrap(), "mcp-x@/home/ada/b".parse().unwrap());
        let fork = "mcp-x.fork.try@/home/ada/a".parse().unwrap();
        assert!(is_fork_of(&base, &here, &fork));
        assert!(!is_fork_of(&base, &there, &fork));
        assert!(!is_fork_of(&base, &base, &fork), "nor to one without a directory");
        assert!(!is_fork_of(&base, &here, &fork_name(&base, "try").unwrap()));
    }
}
