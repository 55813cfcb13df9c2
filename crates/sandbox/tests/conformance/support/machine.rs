//! The machine that the sandboxes of a fixture are on, where that is another one.

use std::path::{Path, PathBuf};

use vestal_testkit::TestHome;
use vestal_testkit::engines::EngineApi;
use vestal_testkit::files::names;
use vestal_testkit::kubernetes::KubernetesNamespace;
use vestal_testkit::ssh::{HOST, SshMachine};

use super::fixture::Kind;
use super::guest_process;
use super::toy_machine::ToyMachine;

/// Another machine.
#[derive(Debug)]
pub(crate) enum Machine {
    /// One of the tests' own, reached over TCP.
    Toy(ToyMachine),
    /// One with an ssh server.
    Ssh(SshMachine),
    /// One with an ssh server, and a container engine.
    Containers(EngineHost),
    /// A namespace of a Kubernetes cluster.
    Kubernetes(KubernetesNamespace),
}

/// A machine with an ssh server and a container engine.
#[derive(Debug)]
pub(crate) struct EngineHost {
    host: SshMachine,
    engine: EngineApi,
    /// The directory of the fixture, which its containers have mounted.
    root: PathBuf,
    /// Links to the volumes of sandboxes.
    volumes: PathBuf,
}

impl EngineHost {
    /// Starts a machine whose engine is this one.
    fn start(root: &TestHome, engine: EngineApi) -> Self {
        let socket = Path::new(engine.address().strip_prefix("unix://").unwrap()).to_owned();
        let shared = socket.parent().unwrap().to_str().unwrap();
        let options = ["--user", "root", "--share", shared];
        let host = SshMachine::start(root.beside("far"), &options);
        host.run(&["mkdir", "-p", "/var/run"]);
        host.run(&["ln", "-s", socket.to_str().unwrap(), "/var/run/docker.sock"]);
        let volumes = root.beside("volumes");
        Self { host, engine, root: root.path().to_owned(), volumes }
    }

    /// Returns a directory in which the volumes of a sandbox are links.
    fn files_dir(&self, key: &str) -> PathBuf {
        let dir = self.volumes.join(key);
        std::fs::remove_dir_all(&dir).ok();
        std::fs::create_dir_all(&dir).unwrap();
        for name in self.engine.volumes_with(&format!("vestal-key={key}")) {
            let what = name.rsplit('-').next().unwrap();
            let volume = self.engine.get(&format!("/volumes/{name}"));
            let place = volume["Mountpoint"].as_str().unwrap();
            std::os::unix::fs::symlink(place, dir.join(what)).unwrap();
        }
        dir
    }

    /// Returns the ids of the instances that the engine has containers of.
    fn instances(&self) -> Vec<String> {
        let is_ours = |container: &&serde_json::Value| {
            let mut mounts = container["Mounts"].as_array().into_iter().flatten();
            mounts.any(|mount| mount["Source"].as_str() == self.root.to_str())
        };
        let containers = self.engine.containers_with("vestal-agent=1");
        let ours: Vec<_> = containers.iter().filter(is_ours).cloned().collect();
        text_of(&ours, "/Labels/vestal-instance")
    }
}

impl Machine {
    /// Starts the machine of a fixture of this kind, if it has one.
    pub(super) fn of(kind: &Kind, root: &TestHome) -> Option<Self> {
        match kind {
            Kind::Toy => Some(Self::Toy(ToyMachine::start(root.beside("far")))),
            Kind::Ssh => Some(Self::with_ssh(root, &[])),
            Kind::SshIsolated => Some(Self::isolating(root, "tester")),
            Kind::SshContainers(engine) => {
                Some(Self::Containers(EngineHost::start(root, engine.clone())))
            }
            Kind::Local | Kind::Native | Kind::Containers(_) | Kind::Apptainer(_) => None,
            Kind::Kubernetes => Some(Self::Kubernetes(KubernetesNamespace::create(
                root.path(),
                root.beside("kubeconfig"),
            ))),
        }
    }

    /// Starts a machine with an ssh server and these options.
    pub(super) fn with_ssh(root: &TestHome, options: &[&str]) -> Self {
        // Cases meet commands in files of the fixture, which are root's.
        let shared = ["--user", "root", "--share", root.path().to_str().unwrap()];
        Self::Ssh(SshMachine::start(root.beside("far"), &[&shared, options].concat()))
    }

    /// Starts a machine that keeps sandboxes apart from itself, for this user of it.
    pub(super) fn isolating(root: &TestHome, user: &str) -> Self {
        Self::Ssh(SshMachine::start(root.beside("far"), &["--user", user]))
    }

    /// Returns the machine with an ssh server.
    pub(crate) fn host(&self) -> &SshMachine {
        match self {
            Self::Ssh(host) | Self::Containers(EngineHost { host, .. }) => host,
            Self::Toy(_) | Self::Kubernetes(_) => panic!("it has no ssh server"),
        }
    }

    /// Returns the namespace of a Kubernetes cluster.
    pub(crate) fn namespace(&self) -> &KubernetesNamespace {
        match self {
            Self::Kubernetes(namespace) => namespace,
            Self::Toy(_) | Self::Ssh(_) | Self::Containers(_) => panic!("it is no cluster"),
        }
    }

    /// Returns the directory of all that is ours there.
    fn root(host: &SshMachine) -> PathBuf {
        host.home().join(".vestal-ssh")
    }

    /// Returns the settings that lead there.
    pub(super) fn settings(&self, root: &Path) -> Vec<String> {
        match self {
            Self::Kubernetes(namespace) => vec![
                format!("terminal.kubernetes_namespace={}", namespace.name()),
                format!("terminal.kubernetes_config={}", namespace.kubeconfig().display()),
                "terminal.kubernetes_image=vestal-test/base:latest".to_owned(),
                format!("terminal.kubernetes_claims=[\"fixture:{}\"]", root.display()),
                "terminal.kubernetes_storage_size=64".to_owned(),
            ],
            Self::Toy(_) => Vec::new(),
            Self::Ssh(host) | Self::Containers(EngineHost { host, .. }) => vec![
                format!("terminal.ssh_host={HOST}"),
                format!("terminal.ssh_config={}", host.config().display()),
            ],
        }
    }

    /// Returns the address that leads there.
    pub(super) fn address(&self) -> Option<String> {
        match self {
            Self::Toy(toy) => Some(toy.link.address()),
            Self::Ssh(_) | Self::Containers(_) | Self::Kubernetes(_) => None,
        }
    }

    /// Returns the directory of an instance, as this machine sees it.
    pub(crate) fn instance_dir(&self, id: &str) -> PathBuf {
        match self {
            Self::Toy(toy) => toy.files.instance_dir(id),
            Self::Ssh(host) => Self::root(host).join("instances").join(id),
            Self::Containers(_) | Self::Kubernetes(_) => panic!("an instance is in no directory"),
        }
    }

    /// Returns the directory of a sandbox's files, by the hash of its key.
    pub(crate) fn files_dir(&self, key: &str) -> PathBuf {
        match self {
            Self::Toy(toy) => toy.files.files_dir(key),
            Self::Ssh(host) => Self::root(host).join("sandboxes").join(key),
            Self::Containers(machine) => machine.files_dir(key),
            Self::Kubernetes(namespace) => namespace.files_dir(key),
        }
    }

    /// Returns a path as the machine itself sees it.
    pub(crate) fn seen_there(&self, path: &Path) -> PathBuf {
        match self {
            Self::Toy(_) | Self::Containers(_) | Self::Kubernetes(_) => path.to_owned(),
            Self::Ssh(host) => host.home_there().join(path.strip_prefix(host.home()).unwrap()),
        }
    }

    /// Returns the names of all sandboxes that have files there.
    pub(super) fn files(&self) -> Vec<String> {
        match self {
            Self::Toy(toy) => names(toy.files.files_dir("any").parent().unwrap()),
            Self::Ssh(host) => names(&Self::root(host).join("sandboxes")),
            // Who knows the home asks the engine.
            Self::Containers(_) => Vec::new(),
            Self::Kubernetes(namespace) => text_of(&namespace.claims(), "/metadata/name"),
        }
    }

    /// Returns the ids of the instances there are.
    pub(crate) fn instances(&self) -> Vec<String> {
        match self {
            Self::Toy(toy) => names(toy.files.instance_dir("any").parent().unwrap()),
            Self::Ssh(host) => names(&Self::root(host).join("instances")),
            Self::Containers(machine) => machine.instances(),
            Self::Kubernetes(namespace) => {
                // A pod that has ended may be there beside the one that took its place.
                let mut ids = text_of(&namespace.pods(), "/metadata/labels/vestal-instance");
                ids.sort();
                ids.dedup();
                ids
            }
        }
    }

    /// Returns the guest of an instance, if it lives.
    pub(crate) fn guest(&self, id: &str) -> Option<u32> {
        match self {
            Self::Toy(toy) => guest_process::pid(&toy.files.instance_dir(id)),
            Self::Ssh(host) => {
                let dir = self.instance_dir(id);
                match guest_process::recorded_number(&dir.join("init.json")) {
                    Some(first) => host.process_of_machine(first),
                    None => host.process(guest_process::number(&dir)?),
                }
            }
            Self::Containers(_) | Self::Kubernetes(_) => {
                panic!("guests are found by what they see")
            }
        }
    }

    /// Returns the processes there, where they can be distinguished from those of this machine.
    pub(super) fn processes(&self) -> Option<Vec<u32>> {
        match self {
            Self::Toy(_) | Self::Containers(_) | Self::Kubernetes(_) => None,
            Self::Ssh(host) => Some(host.processes()),
        }
    }

    /// Returns the process that has this number there.
    pub(super) fn process(&self, there: u32) -> u32 {
        match self {
            Self::Toy(_) => there,
            Self::Ssh(host) => host.process(there).unwrap(),
            Self::Containers(_) | Self::Kubernetes(_) => {
                panic!("processes are found by what they see")
            }
        }
    }

    /// Cuts every connection to a guest.
    pub(crate) fn cut(&self) {
        match self {
            Self::Toy(toy) => toy.link.cut(),
            Self::Ssh(host) | Self::Containers(EngineHost { host, .. }) => host.control("cut", &[]),
            Self::Kubernetes(namespace) => namespace.cut(),
        }
    }

    /// Cuts every new connection to a guest from now on.
    pub(crate) fn refuse_connections(&self) {
        match self {
            Self::Toy(toy) => toy.link.refuse_streams(),
            Self::Ssh(host) | Self::Containers(EngineHost { host, .. }) => {
                host.control("close", &[]);
            }
            Self::Kubernetes(namespace) => namespace.refuse_connections(),
        }
    }

    /// Ends that.
    pub(crate) fn accept_connections(&self) {
        match self {
            Self::Toy(toy) => toy.link.accept_streams(),
            Self::Ssh(host) | Self::Containers(EngineHost { host, .. }) => {
                host.control("open", &[]);
            }
            Self::Kubernetes(namespace) => namespace.accept_connections(),
        }
    }
}

/// Returns what objects say at a place.
fn text_of(objects: &[serde_json::Value], place: &str) -> Vec<String> {
    let texts = objects.iter().filter_map(|object| object.pointer(place)?.as_str());
    texts.map(str::to_owned).collect()
}
