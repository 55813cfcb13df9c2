//! Machines that share a board.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use serde::{Serialize, Serializer};

/// The name of a host, as people know it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

impl HostName {
    /// Returns a name; what no name can hold is left out.
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

/// A host from one boot to the next, as its processes see it. Only within the
/// same one does a process number mean anything.
///
/// Two containers may have one name, and one machine may be several hosts of a
/// board: so name, boot and process namespace all count.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Host {
    /// Its name.
    #[serde(rename = "host")]
    pub name: HostName,
    /// The kernel's boot id and the process namespace.
    pub boot: String,
}

impl Host {
    /// Returns this machine under a name.
    pub fn this(name: HostName) -> io::Result<Self> {
        let boot = vestal_process::boot_id()?;
        let namespace = std::fs::metadata("/proc/self/ns/pid")?.ino();
        Ok(Self { name, boot: format!("{boot}/{namespace}") })
    }
}
