//! Ids of tasks and runs, hosts, and authorities that change them.

use std::os::unix::fs::MetadataExt as _;
use std::str::FromStr;
use std::{fmt, io};

use serde::{Serialize, Serializer};
use vestal_config::ProfileName;

/// The prefix of every task id.
const PREFIX: &str = "t_";
/// Letters after the prefix: 60 bits, so that a million tasks collide once in two million boards. The
/// primary key catches that, and another id is generated.
const LETTERS: usize = 12;
/// Without letters that are mistaken for others when read aloud.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The id of a task: `t_` and twelve letters or digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(String);

/// A text that is not a task id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not the name of a task; they look like t_4x7k2m9qwe3r")]
pub struct InvalidTaskId {
    /// The text, shortened.
    pub text: String,
}

impl TaskId {
    /// Generates a random id.
    pub fn generate() -> Result<Self, std::io::Error> {
        let mut random = getrandom::u64().map_err(std::io::Error::other)?;
        let mut name = String::with_capacity(PREFIX.len() + LETTERS);
        name.push_str(PREFIX);
        for _ in 0..LETTERS {
            let letter = usize::try_from(random & 31).unwrap_or_default();
            name.push(char::from(ALPHABET[letter]));
            random >>= 5;
        }
        Ok(Self(name))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reports whether a text can be a prefix of an id.
    pub fn is_prefix(text: &str) -> bool {
        text.strip_prefix(PREFIX).is_some_and(|rest| {
            rest.len() <= LETTERS && rest.bytes().all(|byte| ALPHABET.contains(&byte))
        })
    }
}

impl FromStr for TaskId {
    type Err = InvalidTaskId;

    fn from_str(text: &str) -> Result<Self, InvalidTaskId> {
        if text.len() == PREFIX.len() + LETTERS && Self::is_prefix(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidTaskId { text: text.chars().take(40).collect() })
        }
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for TaskId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// The number of a run. It grows with every claim on a board, so it is also the fencing token: of two
/// runs of a task the larger number is the valid one, and the store refuses writes of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RunId(i64);

impl RunId {
    /// Returns the run with this number.
    pub const fn new(number: i64) -> Self {
        Self(number)
    }

    /// Returns the number.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The name of a host, as people know it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

impl HostName {
    /// Returns a name, without control characters and of bounded length.
    pub fn new(name: &str) -> Self {
        let clean: String = name.trim().chars().filter(|c| !c.is_control()).take(128).collect();
        Self(if clean.is_empty() { "localhost".to_owned() } else { clean })
    }

    /// Returns the name of this machine.
    pub fn of_this_machine() -> Self {
        Self::new(&rustix::system::uname().nodename().to_string_lossy())
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Serialize for HostName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// A host from one boot to the next. A pid is meaningful only within the same one.
///
/// Two containers may have the same name, and one machine may be several hosts of a board, so name,
/// boot id and process namespace together identify it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct HostId {
    /// Its name.
    #[serde(rename = "host")]
    pub name: HostName,
    /// The kernel's boot id and the process namespace.
    pub boot: String,
}

impl HostId {
    /// Returns this machine under a name.
    pub fn this(name: HostName) -> io::Result<Self> {
        let boot = vestal_process::boot_id()?;
        let namespace = std::fs::metadata("/proc/self/ns/pid")?.ino();
        Ok(Self { name, boot: format!("{boot}/{namespace}") })
    }
}

/// A worker's hold on its task. The store takes what a worker writes only while
/// this is the task's current run, so one that was taken for dead and woke up
/// can write nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The task.
    pub task: TaskId,
    /// The run, whose number is the fencing token.
    pub run: RunId,
    /// The profile that works.
    pub profile: ProfileName,
}

/// Who asks for a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authority {
    /// A person, or a program in their name, who may do anything.
    Person(String),
    /// A worker, who may change its own task while it holds it, and otherwise
    /// only add: comments, tasks, links between tasks it made.
    Worker(Fence),
    /// A dispatcher.
    Dispatcher(HostName),
}

impl Authority {
    /// Returns the name that is written down.
    pub fn name(&self) -> &str {
        match self {
            Self::Person(name) => name,
            Self::Worker(fence) => fence.profile.as_str(),
            Self::Dispatcher(_) => "dispatcher",
        }
    }

    /// Returns the worker's hold, where a worker asks.
    pub fn fence(&self) -> Option<&Fence> {
        match self {
            Self::Worker(fence) => Some(fence),
            Self::Person(_) | Self::Dispatcher(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_name_that_was_made_reads_as_itself() {
        for _ in 0..100 {
            let id = TaskId::generate().unwrap();
            assert_eq!(id.as_str().parse(), Ok(id.clone()), "{id}");
            assert!(TaskId::is_prefix(&id.as_str()[..5]));
        }
    }

    #[test]
    fn names_use_all_of_their_bits() {
        let letters: BTreeSet<(usize, char)> = (0..2000)
            .map(|_| TaskId::generate().unwrap())
            .flat_map(|id| id.as_str()[2..].char_indices().collect::<Vec<_>>())
            .collect();
        assert_eq!(letters.len(), LETTERS * ALPHABET.len(), "each letter at each place");
    }

    #[test]
    fn what_names_no_task_is_refused() {
        let unlike = [
            "",
            "t_",
            "t_123",
            "x_000000000000",
            "t_00000000000u",
            "t_0000000000000",
            "t_../../../ab",
            "T_000000000000",
            "t_00000000000é",
        ];
        for text in unlike {
            assert!(text.parse::<TaskId>().is_err(), "{text}");
        }
        let long = "t_".to_owned() + &"0".repeat(10_000);
        assert!(long.parse::<TaskId>().unwrap_err().text.len() <= 40);
    }
}
