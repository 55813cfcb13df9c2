//! What a sandbox is made of.

use vestal_wire::{
    Bind, ContainerConfinement, Enclosure, IdRange, Mapping, Network, OverlayDirs, Purpose, Root,
    RuntimeLaunch, SandboxMount, UserMapping,
};

use super::bytes;

pub(crate) fn users() -> UserMapping {
    UserMapping {
        uids: vec![IdRange { inside: 1, outside: 2, count: 3 }],
        gids: vec![IdRange { inside: 4, outside: 5, count: 6 }],
        mapping: Mapping::Privileged,
    }
}

pub(crate) fn mappings() -> Vec<Mapping> {
    vec![
        Mapping::Own,
        Mapping::Privileged,
        Mapping::Helpers { newuidmap: bytes("/u"), newgidmap: bytes("/g") },
    ]
}

fn layers() -> OverlayDirs {
    OverlayDirs {
        lower: bytes("/l"),
        shifted: true,
        upper: bytes("/u"),
        work: bytes("/w"),
        hidden: Vec::new(),
        public_only: false,
    }
}

pub(crate) fn roots() -> Vec<Root> {
    vec![Root::Directory(bytes("/d")), Root::Overlay(layers())]
}

pub(crate) fn mounts() -> Vec<SandboxMount> {
    let target = || bytes("/t");
    vec![
        SandboxMount::Bind(Bind {
            source: bytes("/s"),
            target: target(),
            read_only: true,
            recursive: false,
            shifted: true,
            identity: None,
            hidden: Vec::new(),
            public_only: false,
        }),
        SandboxMount::Overlay { target: target(), layers: layers() },
        SandboxMount::Tmpfs { target: target(), size: 1, mode: 0o700, exec: true },
        SandboxMount::Proc { target: target() },
        SandboxMount::Dev { target: target(), shared_memory: 2 },
        SandboxMount::Symlink { target: target(), text: bytes("x") },
        SandboxMount::Directory { target: target(), mode: 0o755 },
    ]
}

pub(crate) fn purposes() -> Vec<Purpose> {
    vec![
        Purpose::Serve {
            arguments: vec![bytes("/p"), bytes("a")],
            environment: vec![bytes("E=e")],
            record: bytes("/r"),
        },
        Purpose::Trial,
    ]
}

pub(crate) fn enclosure() -> Enclosure {
    Enclosure {
        users: users(),
        network: Network::None,
        hostname: "h".into(),
        root: Root::Directory(bytes("/d")),
        mounts: vec![SandboxMount::Proc { target: bytes("/p") }],
        cgroups: vec![bytes("/c")],
        capabilities: 7,
        filters: vec![bytes("filter")],
        max_processes: Some(8),
        purpose: Purpose::Trial,
        user_limits: None,
    }
}

pub(crate) fn launch() -> RuntimeLaunch {
    RuntimeLaunch {
        arguments: vec![bytes("a")],
        environment: vec![bytes("A=b")],
        record: bytes("/r"),
        socket_dir: bytes("/s"),
        socket_name: "g".into(),
        cgroups: vec![bytes("/c")],
        no_new_privileges: true,
        ready_within_ms: 5,
    }
}

pub(crate) fn confinement() -> ContainerConfinement {
    ContainerConfinement {
        capabilities: 0xcb,
        filters: vec![bytes("filter")],
        max_processes: Some(9),
        hidden_variables: vec!["P".into()],
    }
}
