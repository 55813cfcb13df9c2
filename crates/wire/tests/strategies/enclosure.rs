//! What a sandbox is made of.

use proptest::prelude::*;
use vestal_wire::{
    Bind, Enclosure, FileIdentity, IdRange, Mapping, Network, OverlayDirs, Purpose, Root,
    SandboxMount, UserLimits, UserMapping,
};

use super::{bytes, few, maybe, text};

pub(crate) fn enclosure() -> impl Strategy<Value = Enclosure> {
    fields!(Enclosure {
        users: users(),
        network: prop_oneof![Just(Network::Host), Just(Network::None)],
        hostname: text(),
        root: root(),
        mounts: few(mount()),
        cgroups: few(bytes()),
        capabilities: any::<u64>(),
        filters: few(bytes()),
        max_processes: maybe(any::<u64>()),
        purpose: purpose(),
        user_limits: maybe(user_limits()),
    })
}

pub(crate) fn users() -> impl Strategy<Value = UserMapping> {
    fields!(UserMapping { uids: few(range()), gids: few(range()), mapping: mapping() })
}

fn range() -> impl Strategy<Value = IdRange> {
    fields!(IdRange { inside: any::<u32>(), outside: any::<u32>(), count: any::<u32>() })
}

fn mapping() -> impl Strategy<Value = Mapping> {
    prop_oneof![
        Just(Mapping::Own),
        Just(Mapping::Privileged),
        fields!(Mapping::Helpers { newuidmap: bytes(), newgidmap: bytes() }),
    ]
}

fn layers() -> impl Strategy<Value = OverlayDirs> {
    fields!(OverlayDirs {
        lower: bytes(),
        shifted: any::<bool>(),
        upper: bytes(),
        work: bytes(),
        hidden: few(bytes()),
        public_only: any::<bool>(),
    })
}

fn root() -> impl Strategy<Value = Root> {
    prop_oneof![bytes().prop_map(Root::Directory), layers().prop_map(Root::Overlay)]
}

fn bind() -> impl Strategy<Value = Bind> {
    fields!(Bind {
        source: bytes(),
        target: bytes(),
        read_only: any::<bool>(),
        recursive: any::<bool>(),
        shifted: any::<bool>(),
        identity: maybe(identity()),
        hidden: few(bytes()),
        public_only: any::<bool>(),
    })
}

fn identity() -> impl Strategy<Value = FileIdentity> {
    fields!(FileIdentity { device: any::<u64>(), inode: any::<u64>() })
}

fn user_limits() -> impl Strategy<Value = UserLimits> {
    fields!(UserLimits {
        inotify_instances: maybe(any::<u64>()),
        inotify_watches: maybe(any::<u64>()),
        pending_signals: maybe(any::<u64>()),
        message_queues: maybe(any::<u64>()),
    })
}

fn mount() -> impl Strategy<Value = SandboxMount> {
    prop_oneof![
        bind().prop_map(SandboxMount::Bind),
        fields!(SandboxMount::Overlay { target: bytes(), layers: layers() }),
        fields!(SandboxMount::Tmpfs {
            target: bytes(),
            size: any::<u64>(),
            mode: any::<u32>(),
            exec: any::<bool>(),
        }),
        fields!(SandboxMount::Proc { target: bytes() }),
        fields!(SandboxMount::Dev { target: bytes(), shared_memory: any::<u64>() }),
        fields!(SandboxMount::Symlink { target: bytes(), text: bytes() }),
        fields!(SandboxMount::Directory { target: bytes(), mode: any::<u32>() }),
    ]
}

fn purpose() -> impl Strategy<Value = Purpose> {
    prop_oneof![
        fields!(Purpose::Serve {
            arguments: few(bytes()),
            environment: few(bytes()),
            record: bytes(),
        }),
        Just(Purpose::Trial),
    ]
}
