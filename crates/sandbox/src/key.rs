//! What identifies a sandbox: home id, profile and task.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// Longest task name in bytes.
const MAX_TASK: usize = 200;

/// Longest label value, and longest task name used as a directory name as it is.
const MAX_LABEL: usize = 63;

/// The exact name of the work a sandbox belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskName(String);

/// A text that cannot name a task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} cannot name a task: {reason}")]
pub struct InvalidTask {
    name: String,
    reason: &'static str,
}

impl TaskName {
    /// Returns the task used when none is named.
    pub fn default_task() -> Self {
        Self("default".to_owned())
    }

    /// Returns the exact name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TaskName {
    type Err = InvalidTask;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let refuse = |reason| {
            let shown = name.chars().take(80).collect();
            Err(InvalidTask { name: shown, reason })
        };
        if name.is_empty() {
            refuse("it is empty")
        } else if name.len() > MAX_TASK {
            refuse("it is longer than 200 bytes")
        } else if name.contains('\0') {
            refuse("it contains a NUL byte")
        } else {
            Ok(Self(name.to_owned()))
        }
    }
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A random id made once per profile home, so that two homes never meet on one
/// engine even if everything else about them is alike.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HomeId(pub(crate) String);

impl HomeId {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The identity of a sandbox. Nothing else decides which one a caller gets.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    home: HomeId,
    profile: String,
    task: TaskName,
}

impl Key {
    /// Returns the key of `task` in the profile `profile` of a home.
    pub fn new(home: HomeId, profile: impl Into<String>, task: TaskName) -> Self {
        Self { home, profile: profile.into(), task }
    }

    /// Returns the task.
    pub fn task(&self) -> &TaskName {
        &self.task
    }

    /// Returns the id of the home.
    pub fn home(&self) -> &HomeId {
        &self.home
    }

    /// Returns the profile's name.
    pub fn profile(&self) -> &str {
        &self.profile
    }

    /// Returns the hash that labels and guests carry. The parts are framed by
    /// their lengths, so no two keys can run into the same text.
    pub fn hash(&self) -> String {
        let mut hasher = Sha256::new();
        for part in [self.home.as_str(), &self.profile, self.task.as_str()] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hex(&hasher.finalize()[..16])
    }

    /// Returns the name of the sandbox's directory: the task's own name where
    /// that is a plain file name, else a readable beginning and a hash.
    pub fn dir_name(&self) -> String {
        dir_name(&self.task)
    }

    /// Returns the labels for people and scripts.
    pub fn labels(&self) -> [(&'static str, String); 3] {
        [
            ("vestal-agent", "1".to_owned()),
            ("vestal-task-id", label_value(self.task.as_str())),
            ("vestal-profile", label_value(&self.profile)),
        ]
    }
}

/// Returns a value that fits a label: `[A-Za-z0-9_.-]`, at most 63 characters.
pub fn label_value(text: &str) -> String {
    let value: String = text
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' })
        .take(MAX_LABEL)
        .collect();
    if value.is_empty() { "unknown".to_owned() } else { value }
}

fn dir_name(task: &TaskName) -> String {
    let name = task.as_str();
    let plain = label_value(name) == name && !name.starts_with('.');
    if plain {
        return name.to_owned();
    }
    // `~` is in no plain name, so the two kinds cannot meet.
    let readable: String = label_value(name).trim_start_matches('.').chars().take(40).collect();
    let hash = Sha256::digest(name.as_bytes());
    format!("{readable}~{}", hex(&hash[..6]))
}

/// Returns `bytes` in lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        write!(text, "{byte:02x}").ok();
        text
    })
}

/// Returns `N` random bytes in hexadecimal.
pub(crate) fn random_hex<const N: usize>() -> std::io::Result<String> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(hex(&bytes))
}

/// Returns a task's name as a shell takes it.
pub(crate) fn quoted(name: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./@:".contains(letter);
    if name.chars().all(plain) {
        name.to_owned()
    } else {
        format!("'{}'", name.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(home: &str, profile: &str, task: &str) -> Key {
        Key::new(HomeId(home.into()), profile, task.parse().unwrap())
    }

    #[test]
    fn keys_that_differ_in_any_part_have_different_hashes() {
        let base = key("h", "p", "t");
        assert_eq!(base.hash(), key("h", "p", "t").hash());
        for other in
            [key("x", "p", "t"), key("h", "x", "t"), key("h", "p", "x"), key("hp", "", "t")]
        {
            assert_ne!(base.hash(), other.hash());
        }
    }

    #[test]
    fn label_values_are_sanitised_as_promised() {
        assert_eq!(label_value("a/b:c"), "a_b_c");
        assert_eq!(label_value("🦀"), "_");
        assert_eq!(label_value(""), "unknown");
        assert_eq!(label_value(&"x".repeat(100)).len(), 63);
    }

    #[test]
    fn directory_names_never_collide_nor_escape() {
        let names = [
            "a",
            "a/b",
            "a_b",
            "..",
            ".",
            "../../etc",
            ".hidden",
            "a~b",
            "ä",
            &"x".repeat(64),
            &"x".repeat(63),
        ];
        let dirs: Vec<String> = names.iter().map(|name| dir_name(&name.parse().unwrap())).collect();
        for (index, dir) in dirs.iter().enumerate() {
            assert!(!dir.contains('/') && !dir.starts_with('.') && dir.len() <= MAX_LABEL, "{dir}");
            assert!(!dirs[..index].contains(dir), "{dir} stands for two tasks");
        }
        assert_eq!(dirs[0], "a");
    }

    #[test]
    fn tasks_are_1_to_200_bytes_without_nul() {
        assert!("x".parse::<TaskName>().is_ok());
        assert!("x".repeat(200).parse::<TaskName>().is_ok());
        for bad in ["", &"x".repeat(201), "a\0b"] {
            assert!(bad.parse::<TaskName>().is_err());
        }
    }
}
