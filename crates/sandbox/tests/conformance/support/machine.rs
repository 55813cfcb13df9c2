//! The machine that the sandboxes of a world are on, where that is another one.

use std::path::{Path, PathBuf};

use vestal_testkit::TestHome;
use vestal_testkit::files::names;
use vestal_testkit::ssh::{HOST, SshHost};

use super::toy_machine::ToyMachine;
use super::world::{Kind, guest_number};

/// Another machine.
#[derive(Debug)]
pub(crate) enum Machine {
    /// One of the tests' own, reached over TCP.
    Toy(ToyMachine),
    /// One with an ssh server.
    Ssh(SshHost),
}

impl Machine {
    /// Starts the machine of a world of this kind, if it has one.
    pub(super) fn of(kind: &Kind, root: &TestHome) -> Option<Self> {
        match kind {
            Kind::Toy => Some(Self::Toy(ToyMachine::start(root.beside("far")))),
            Kind::Ssh => Some(Self::with_ssh(root, &[])),
            Kind::Local | Kind::Native | Kind::Containers(_) => None,
        }
    }

    /// Starts a machine with an ssh server and these options.
    pub(super) fn with_ssh(root: &TestHome, options: &[&str]) -> Self {
        // Cases meet commands in files of the world, which are root's.
        let shared = ["--user", "root", "--share", root.path().to_str().unwrap()];
        Self::Ssh(SshHost::start(root.beside("far"), &[&shared, options].concat()))
    }

    /// Returns the machine with an ssh server.
    pub(crate) fn host(&self) -> &SshHost {
        match self {
            Self::Ssh(host) => host,
            Self::Toy(_) => panic!("a toy has no ssh server"),
        }
    }

    /// Returns the directory of all that is ours there.
    fn root(host: &SshHost) -> PathBuf {
        host.home().join(".vestal-ssh")
    }

    /// Returns the settings that lead there.
    pub(super) fn settings(&self) -> Vec<String> {
        match self {
            Self::Toy(_) => Vec::new(),
            Self::Ssh(host) => vec![
                format!("terminal.ssh_host={HOST}"),
                format!("terminal.ssh_config={}", host.config().display()),
            ],
        }
    }

    /// Returns the address that leads there.
    pub(super) fn address(&self) -> Option<String> {
        match self {
            Self::Toy(toy) => Some(toy.address()),
            Self::Ssh(_) => None,
        }
    }

    /// Returns the directory of an instance, as this machine sees it.
    pub(crate) fn instance_dir(&self, id: &str) -> PathBuf {
        match self {
            Self::Toy(toy) => toy.instance_dir(id),
            Self::Ssh(host) => Self::root(host).join("instances").join(id),
        }
    }

    /// Returns the directory of a sandbox's files, by the hash of its key.
    pub(crate) fn files_dir(&self, key: &str) -> PathBuf {
        match self {
            Self::Toy(toy) => toy.files_dir(key),
            Self::Ssh(host) => Self::root(host).join("sandboxes").join(key),
        }
    }

    /// Returns a path as the machine itself sees it.
    pub(crate) fn seen_there(&self, path: &Path) -> PathBuf {
        match self {
            Self::Toy(_) => path.to_owned(),
            Self::Ssh(host) => host.home_there().join(path.strip_prefix(host.home()).unwrap()),
        }
    }

    /// Returns the names of all sandboxes that have files there.
    pub(super) fn files(&self) -> Vec<String> {
        match self {
            Self::Toy(toy) => names(toy.files_dir("any").parent().unwrap()),
            Self::Ssh(host) => names(&Self::root(host).join("sandboxes")),
        }
    }

    /// Returns the ids of the instances there are.
    pub(crate) fn instances(&self) -> Vec<String> {
        match self {
            Self::Toy(toy) => toy.instances(),
            Self::Ssh(host) => names(&Self::root(host).join("instances")),
        }
    }

    /// Returns the guest of an instance, if it lives.
    pub(crate) fn guest(&self, id: &str) -> Option<u32> {
        match self {
            Self::Toy(toy) => toy.guest(id),
            Self::Ssh(host) => host.process(guest_number(&self.instance_dir(id))?),
        }
    }

    /// Returns the processes there, where they can be told from those of this machine.
    pub(super) fn processes(&self) -> Option<Vec<u32>> {
        match self {
            Self::Toy(_) => None,
            Self::Ssh(host) => Some(host.processes()),
        }
    }

    /// Returns the process that has this number there.
    pub(super) fn process(&self, there: u32) -> u32 {
        match self {
            Self::Toy(_) => there,
            Self::Ssh(host) => host.process(there).unwrap(),
        }
    }

    /// Cuts every connection to a guest.
    pub(crate) fn cut(&self) {
        match self {
            Self::Toy(toy) => toy.cut(),
            Self::Ssh(host) => host.tell("cut", &[]),
        }
    }

    /// Cuts every new connection to a guest from now on.
    pub(crate) fn refuse_connections(&self) {
        match self {
            Self::Toy(toy) => toy.refuse_connections(),
            Self::Ssh(host) => host.tell("close", &[]),
        }
    }

    /// Ends that.
    pub(crate) fn accept_connections(&self) {
        match self {
            Self::Toy(toy) => toy.accept_connections(),
            Self::Ssh(host) => host.tell("open", &[]),
        }
    }
}
