//! The plan of a sandbox made of namespaces.
//!
//! The host writes it; the stage reads it once and carries it out step by step
//! without decisions of its own. Paths of sources are absolute paths on the host.
//! Paths of targets are absolute paths in the sandbox, without `.` and `..`, and are
//! resolved below its root without following a link.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::settings::is_false;

/// A plan for a sandbox around a guest.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Enclosure {
    /// The users of the sandbox.
    #[n(0)]
    pub users: UserMapping,
    /// The network of the sandbox.
    #[n(1)]
    pub network: Network,
    /// Its host name.
    #[n(2)]
    pub hostname: String,
    /// The root filesystem.
    #[n(3)]
    pub root: Root,
    /// Mounts and files below the root, in this order.
    #[n(4)]
    pub mounts: Vec<SandboxMount>,
    /// Files of the host (`cgroup.procs`, `tasks`) to which the first process is
    /// added before anything runs in it.
    #[n(5)]
    pub cgroups: Vec<ByteVec>,
    /// Mask of the capabilities to keep; all others are dropped permanently.
    #[n(6)]
    pub capabilities: u64,
    /// Seccomp programs (arrays of `sock_filter`), installed in this order.
    #[n(7)]
    pub filters: Vec<ByteVec>,
    /// Maximum number of processes of one user of the sandbox, if no cgroup
    /// limits them.
    #[n(8)]
    pub max_processes: Option<u64>,
    /// What happens to the sandbox.
    #[n(9)]
    pub purpose: Purpose,
    /// Limits for what the kernel counts against the user who creates the
    /// sandbox. Absent: no own limits.
    #[n(10)]
    pub user_limits: Option<UserLimits>,
}

/// Limits for all users of a sandbox together, for what the kernel counts against
/// one user of the host. Absent: no own limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct UserLimits {
    /// Instances of inotify.
    #[n(0)]
    pub inotify_instances: Option<u64>,
    /// Watches of inotify.
    #[n(1)]
    pub inotify_watches: Option<u64>,
    /// Pending signals; each timer reserves one.
    #[n(2)]
    pub pending_signals: Option<u64>,
    /// Bytes of message queues.
    #[n(3)]
    pub message_queues: Option<u64>,
}

/// The mapping of a sandbox's users to host users.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct UserMapping {
    /// User ids.
    #[n(0)]
    pub uids: Vec<IdRange>,
    /// Group ids.
    #[n(1)]
    pub gids: Vec<IdRange>,
    /// How the mapping is set up.
    #[n(2)]
    pub mapping: Mapping,
}

/// A range of user or group ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct IdRange {
    /// First id in the sandbox.
    #[n(0)]
    pub inside: u32,
    /// First id on the host.
    #[n(1)]
    pub outside: u32,
    /// Number of ids.
    #[n(2)]
    pub count: u32,
}

/// How users are mapped, which decides the order in which a sandbox is built.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Mapping {
    /// Only the user's own id: the user namespace comes first, and everything is
    /// mounted in it.
    #[n(0)]
    Own,
    /// By root: everything is mounted first, so that nobody in the sandbox can
    /// change the mounts, and the user namespace is entered last.
    #[n(1)]
    Privileged,
    /// By setuid helpers, which know the ranges of a user. Otherwise like
    /// [`Mapping::Own`].
    #[n(2)]
    Helpers {
        /// Path of `newuidmap`.
        #[n(0)]
        newuidmap: ByteVec,
        /// Path of `newgidmap`.
        #[n(1)]
        newgidmap: ByteVec,
    },
}

/// The network of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Network {
    /// The host's network, including its loopback.
    #[n(0)]
    Host,
    /// Only a loopback of its own.
    #[n(1)]
    None,
}

/// The root filesystem of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Root {
    /// A directory of the host.
    #[n(0)]
    Directory(#[n(0)] ByteVec),
    /// An overlay.
    #[n(1)]
    Overlay(#[n(0)] OverlayDirs),
}

/// An overlay: shows a directory and keeps changes in another one.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct OverlayDirs {
    /// The directory that is shown and never changed.
    #[n(0)]
    pub lower: ByteVec,
    /// Whether owners on disk are shown as the sandbox's users of the same
    /// number. Only for [`Mapping::Privileged`].
    #[n(1)]
    pub shifted: bool,
    /// The directory with the changes. It must belong to root of the sandbox; its
    /// permissions are those of the overlay.
    #[n(2)]
    pub upper: ByteVec,
    /// The kernel's work directory, beside the upper one and with the same owner.
    #[n(3)]
    pub work: ByteVec,
    /// Paths in the lower directory that are hidden. A directory is hidden with
    /// its content. Only for [`Mapping::Privileged`].
    #[n(4)]
    #[cbor(skip_if = "Vec::is_empty")]
    pub hidden: Vec<ByteVec>,
    /// Whether only what everyone on the host may read can be read in the lower
    /// directory, whoever its owner is in the sandbox. Only if it is shifted.
    #[n(5)]
    #[cbor(skip_if = "is_false")]
    pub public_only: bool,
}

/// A mount or file below the root of a sandbox. Missing parent directories of a
/// target are created, and belong to root of the sandbox. An obstacle (a link, or
/// a file in place of a directory) is removed if it belongs to the sandbox: in
/// its root, in overlays and in tmpfs. In a host directory it is an error,
/// because it may be a user's file.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum SandboxMount {
    /// A directory or file of the host.
    #[n(0)]
    Bind(#[n(0)] Bind),
    /// An overlay.
    #[n(1)]
    Overlay {
        /// Path in the sandbox.
        #[n(0)]
        target: ByteVec,
        /// Its directories.
        #[n(1)]
        layers: OverlayDirs,
    },
    /// A tmpfs.
    #[n(2)]
    Tmpfs {
        /// Path in the sandbox.
        #[n(0)]
        target: ByteVec,
        /// Maximum size in bytes.
        #[n(1)]
        size: u64,
        /// Permissions of its root.
        #[n(2)]
        mode: u32,
        /// Whether programs can be executed from it.
        #[n(3)]
        exec: bool,
    },
    /// `/proc` with the sandbox's own processes; what would reach the host is
    /// masked or read-only.
    #[n(3)]
    Proc {
        /// Path in the sandbox.
        #[n(0)]
        target: ByteVec,
    },
    /// `/dev` with the few devices that programs expect, its own terminals and
    /// shared memory.
    #[n(4)]
    Dev {
        /// Path in the sandbox.
        #[n(0)]
        target: ByteVec,
        /// Bytes of shared memory.
        #[n(1)]
        shared_memory: u64,
    },
    /// A symbolic link. An existing entry is kept, unless it is an empty
    /// directory that was a mount point before.
    #[n(5)]
    Symlink {
        /// Path in the sandbox.
        #[n(0)]
        target: ByteVec,
        /// Target of the link.
        #[n(1)]
        text: ByteVec,
    },
    /// A directory.
    #[n(6)]
    Directory {
        /// Path in the sandbox.
        #[n(0)]
        target: ByteVec,
        /// Permissions, if it is created.
        #[n(1)]
        mode: u32,
    },
}

/// A directory or file of the host in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of its own on the wire")]
pub struct Bind {
    /// Path on the host.
    #[n(0)]
    pub source: ByteVec,
    /// Path in the sandbox.
    #[n(1)]
    pub target: ByteVec,
    /// Whether it is read-only.
    #[n(2)]
    pub read_only: bool,
    /// Whether mounts below the source are included. Without root they must be,
    /// because a user may not uncover what is below a mount.
    #[n(3)]
    pub recursive: bool,
    /// Whether owners on disk are shown as the sandbox's users of the same
    /// number. Only for [`Mapping::Privileged`].
    #[n(4)]
    pub shifted: bool,
    /// The file that the source must be; its path then must not contain a link.
    /// Absent: any file.
    #[n(5)]
    pub identity: Option<FileIdentity>,
    /// Paths in a directory that are hidden. Only for read-only directories, and
    /// for [`Mapping::Privileged`].
    #[n(6)]
    #[cbor(skip_if = "Vec::is_empty")]
    pub hidden: Vec<ByteVec>,
    /// Whether only what everyone on the host may read can be read, whoever its
    /// owner is in the sandbox. Only for read-only directories that are shifted.
    #[n(7)]
    #[cbor(skip_if = "is_false")]
    pub public_only: bool,
}

/// Identifies a file independently of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct FileIdentity {
    /// Its device.
    #[n(0)]
    pub device: u64,
    /// Its inode.
    #[n(1)]
    pub inode: u64,
}

/// What happens to a sandbox once it is built.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Purpose {
    /// A program becomes its first process: the guest.
    #[n(0)]
    Serve {
        /// The program by its path in the sandbox, and its arguments.
        #[n(0)]
        arguments: Vec<ByteVec>,
        /// Its environment.
        #[n(1)]
        environment: Vec<ByteVec>,
        /// File on the host that records the first process, as the host sees it,
        /// before anything runs in the sandbox.
        #[n(2)]
        record: ByteVec,
    },
    /// Nothing: this only tests whether the sandbox can be built. Overlays used
    /// for it cannot be mounted again.
    #[n(1)]
    Trial,
}

/// A program to start that builds a container around a guest.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct RuntimeLaunch {
    /// The program by its path on the host, and its arguments.
    #[n(0)]
    pub arguments: Vec<ByteVec>,
    /// Its environment.
    #[n(1)]
    pub environment: Vec<ByteVec>,
    /// File on the host that records the session of the program before it is
    /// executed, and the guest when it listens.
    #[n(2)]
    pub record: ByteVec,
    /// Directory on the host in which the guest makes its socket.
    #[n(3)]
    pub socket_dir: ByteVec,
    /// Name of the socket.
    #[n(4)]
    pub socket_name: String,
    /// Files of the host (`cgroup.procs`, `tasks`) to which the program is added.
    #[n(5)]
    pub cgroups: Vec<ByteVec>,
    /// Whether nothing that the program starts may gain privileges.
    #[n(6)]
    pub no_new_privileges: bool,
    /// Milliseconds that the guest may take until it listens.
    #[n(7)]
    pub ready_within_ms: u64,
}

/// The rights that a program in a container gives up for good.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ContainerConfinement {
    /// Mask of the capabilities to keep.
    #[n(0)]
    pub capabilities: u64,
    /// Seccomp programs (arrays of `sock_filter`), installed in this order.
    #[n(1)]
    pub filters: Vec<ByteVec>,
    /// Maximum number of processes of the user, if no cgroup limits them.
    #[n(2)]
    pub max_processes: Option<u64>,
    /// How the names of variables begin that the program does not get.
    #[n(3)]
    pub hidden_variables: Vec<String>,
}
