//! What is supervised: named children, and who says which there are.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::state::OrderResult;

const MAX_NAME: usize = 64;

/// What the name of a slot that the home has once begins with. No profile can be called so.
const OF_HOME: char = '@';

/// The name of a slot, which is safe as a file name: that of a profile, or `@` and the name of a
/// service that the home has once, such as `@dashboard`.
///
/// A name has lower-case letters, digits, `_` and `-`, 64 at most, a letter or a digit first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SlotName(String);

impl SlotName {
    /// Makes a name.
    pub fn new(name: &str) -> Result<Self, BadSlotName> {
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let own = name.strip_prefix(OF_HOME).unwrap_or(name);
        let valid = own.len() <= MAX_NAME
            && own.bytes().next().is_some_and(letter)
            && own.bytes().all(|byte| letter(byte) || byte == b'_' || byte == b'-');
        if valid { Ok(Self(name.to_owned())) } else { Err(BadSlotName(shortened(name))) }
    }

    /// Returns the service if it is one that the home has once; nothing for a profile's.
    pub fn service_of_home(&self) -> Option<&str> {
        self.0.strip_prefix(OF_HOME)
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SlotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for SlotName {
    type Error = BadSlotName;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        Self::new(&name)
    }
}

impl From<SlotName> for String {
    fn from(name: SlotName) -> Self {
        name.0
    }
}

/// A name that no slot can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a name for a slot: up to {MAX_NAME} of a-z, 0-9, _ and -, a letter or a digit first"
)]
pub struct BadSlotName(String);

fn shortened(name: &str) -> String {
    name.chars().take(2 * MAX_NAME).collect()
}

/// A named child that is kept running while it is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Its name.
    pub name: SlotName,
    /// What runs in it.
    pub service: SlotService,
}

/// A program that can run in a slot: how it is started, how long it may take, and where what is
/// known of it is kept. What it must do itself is the [seam](crate#the-seam), the same for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotService {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// All variables of its environment but those of the seam.
    pub env: BTreeMap<OsString, OsString>,
    /// Its working directory.
    pub dir: PathBuf,
    /// The file with the desired state, which the supervisor writes.
    pub desired: PathBuf,
    /// The file with the actual state, which only the child writes.
    pub actual: PathBuf,
    /// The directory of its log.
    pub log_dir: PathBuf,
    /// When a supervisor that begins starts it.
    pub boot: BootRule,
    /// From SIGTERM to SIGKILL.
    pub stop_within: Duration,
    /// From the start to the byte that announces readiness. A child that is not ready by then is
    /// ended and started again.
    pub ready_within: Duration,
}

/// When a supervisor that begins starts a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootRule {
    /// If it is desired to run, or, where nothing is on record, its child says that it ran.
    AsBefore,
    /// If it is desired to run.
    IfDesired,
    /// Always: the supervisor's environment asks for it. A stop holds until the next supervisor.
    Always,
}

/// What a source found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundSlot {
    /// A slot.
    Slot(Box<Slot>),
    /// Something that should be a slot and cannot be one. The others are not affected.
    Broken {
        /// What it is called; any text.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Says which slots there are. It is asked at the start and whenever something changed.
pub trait SlotSource: Send + Sync + 'static {
    /// Returns all slots there are now.
    fn slots(&self) -> Vec<FoundSlot>;

    /// Returns directories whose entries decide which slots there are. It is asked again after each
    /// change, so that a directory that is yet to be made is found by watching the one above.
    fn watched(&self) -> Vec<PathBuf>;
}

/// Where the result of an order goes.
pub(crate) type OrderReply = oneshot::Sender<Result<OrderResult, String>>;

/// What a slot is to do.
#[derive(Debug)]
pub(crate) enum SlotOrder {
    Start(OrderReply),
    Stop(OrderReply),
    Restart(OrderReply),
    /// The slot no longer exists.
    Remove(OrderReply),
    /// The supervisor ends; what is desired stays as it is.
    Leave(OrderReply),
    /// Passed on to the child.
    Signal(Signal),
    /// In effect from the next start on.
    Update(Box<Slot>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_safe_as_a_file_name() {
        for good in ["default", "a", "0", "a-b_c", &"x".repeat(64), "@dashboard"] {
            assert_eq!(SlotName::new(good).unwrap().as_str(), good);
        }
        let bad = ["", ".", "..", "-a", "_a", "A", "a/b", "a b", "a\n", "ä", &"x".repeat(65)];
        for bad in bad.into_iter().chain(["@", "@@a", "@/a", "a@", "@."]) {
            assert!(SlotName::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_service_of_the_home_has_no_name_that_a_profile_can_have() {
        let service =
            |name: &str| SlotName::new(name).unwrap().service_of_home().map(str::to_owned);
        assert_eq!(service("@dashboard").as_deref(), Some("dashboard"));
        assert_eq!(service("dashboard"), None);
    }
}
