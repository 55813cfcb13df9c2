//! The process that owns an instance which is not to outlive it.

use std::io;

use serde::{Deserialize, Serialize};

use vestal_process::ProcessId;

/// Version of the form.
pub(crate) const VERSION: u64 = 1;

/// Who owns an instance: kept in its mark on disk, and in
/// `vestal-owner` where there are labels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    version: u64,
    /// The backend of the instance.
    pub backend: String,
    /// Name of the host.
    pub host: String,
    /// The pid namespace its pid counts in.
    pub pid_namespace: String,
    /// The process.
    pub process: ProcessId,
}

impl Owner {
    /// Returns this process as the owner.
    pub(crate) fn current(backend: &str) -> io::Result<Self> {
        Ok(Self {
            version: VERSION,
            backend: backend.to_owned(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            pid_namespace: pid_namespace()?,
            process: ProcessId::current()?,
        })
    }

    /// Returns whether the owner may be alive. An owner in another pid
    /// namespace, or on another host, cannot be looked at and counts as alive.
    pub fn may_be_alive(&self) -> bool {
        let here = Self::current(&self.backend);
        let comparable = here
            .is_ok_and(|here| here.host == self.host && here.pid_namespace == self.pid_namespace);
        !comparable || self.process.is_alive()
    }
}

fn pid_namespace() -> io::Result<String> {
    Ok(std::fs::read_link("/proc/self/ns/pid")?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_in_another_pid_namespace_counts_as_alive() {
        let me = Owner::current("local").unwrap();
        assert!(me.may_be_alive());
        let dead = Owner { process: ProcessId { start: 1, ..me.process.clone() }, ..me };
        assert!(!dead.may_be_alive());
        let elsewhere = Owner { pid_namespace: "pid:[1]".into(), ..dead };
        assert!(elsewhere.may_be_alive());
    }
}
