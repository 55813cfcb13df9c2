//! What a sandbox of namespaces is made of.
//!
//! Written by the host, read once by the stage, which carries it out step by
//! step and decides nothing. Paths of sources are the host's, whole, and mean
//! what they mean there; paths of targets are the sandbox's, whole, without `.`
//! and `..`, and resolved below its root without following a link.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

/// A sandbox to be built around a guest.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Enclosure {
    /// Who its users are on the host.
    #[n(0)]
    pub users: Users,
    /// Whether it has the host's network.
    #[n(1)]
    pub network: Network,
    /// Its host name.
    #[n(2)]
    pub hostname: String,
    /// What `/` is.
    #[n(3)]
    pub root: Root,
    /// What is mounted and laid out below it, in this order.
    #[n(4)]
    pub places: Vec<Place>,
    /// Files of the host (`cgroup.procs`, `tasks`) that the first process is
    /// written to before anything runs in it.
    #[n(5)]
    pub cgroups: Vec<ByteVec>,
    /// Capabilities that remain, as a mask; all others are given up for good.
    #[n(6)]
    pub capabilities: u64,
    /// Seccomp programs (arrays of `sock_filter`), installed in this order.
    #[n(7)]
    pub filters: Vec<ByteVec>,
    /// Most processes of one user of the sandbox, where no cgroup counts them.
    #[n(8)]
    pub max_processes: Option<u64>,
    /// What becomes of it.
    #[n(9)]
    pub purpose: Purpose,
    /// What it may use of what the kernel counts for the user who makes it;
    /// absent: as much as that user.
    #[n(10)]
    pub user_limits: Option<UserLimits>,
}

/// What a sandbox may use, all its users together, of what the kernel counts
/// for one user of the host. Absent: as much as that user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct UserLimits {
    /// Instances of inotify.
    #[n(0)]
    pub inotify_instances: Option<u64>,
    /// What those watch.
    #[n(1)]
    pub inotify_watches: Option<u64>,
    /// Signals that wait, and timers, which keep one each.
    #[n(2)]
    pub pending_signals: Option<u64>,
    /// Bytes of message queues.
    #[n(3)]
    pub message_queues: Option<u64>,
}

/// Who the users of a sandbox are on the host.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Users {
    /// Users of the sandbox on the host.
    #[n(0)]
    pub uids: Vec<IdRange>,
    /// Groups of the sandbox on the host.
    #[n(1)]
    pub gids: Vec<IdRange>,
    /// Who may say so.
    #[n(2)]
    pub mapping: Mapping,
}

/// Numbers of users or groups and what they are on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct IdRange {
    /// First number in the sandbox.
    #[n(0)]
    pub inside: u32,
    /// First number on the host.
    #[n(1)]
    pub outside: u32,
    /// How many.
    #[n(2)]
    pub count: u32,
}

/// How users are mapped, and so in which order a sandbox is built.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Mapping {
    /// One user of one's own: the user namespace comes first and everything is
    /// mounted in it.
    #[n(0)]
    Own,
    /// By root: everything is mounted first, so that nobody in the sandbox has
    /// a say over the mounts, and the user namespace is entered last.
    #[n(1)]
    Privileged,
    /// By the setuid helpers, which know the ranges that belong to a user.
    /// Otherwise as [`Mapping::Own`].
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

/// Which network a sandbox has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Network {
    /// The host's, loopback included.
    #[n(0)]
    Host,
    /// A loopback of its own and nothing else.
    #[n(1)]
    None,
}

/// What the root of a sandbox is.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Root {
    /// A directory of the host.
    #[n(0)]
    Directory(#[n(0)] ByteVec),
    /// Layers.
    #[n(1)]
    Layers(#[n(0)] Layers),
}

/// A directory that shows another one and keeps what is changed to itself.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Layers {
    /// What is shown and never changed.
    #[n(0)]
    pub lower: ByteVec,
    /// Whether the owners in it are the host's, to be shown as the sandbox's
    /// users of the same number. Only for [`Mapping::Privileged`].
    #[n(1)]
    pub shifted: bool,
    /// What was changed. It belongs to root of the sandbox, and its permissions
    /// are those of the whole.
    #[n(2)]
    pub upper: ByteVec,
    /// A directory beside it that the kernel works in, and that belongs to the
    /// same.
    #[n(3)]
    pub work: ByteVec,
    /// What of the lower one is not shown, by paths relative to it. A directory
    /// is hidden with all that is in it. Only for [`Mapping::Privileged`].
    #[n(4)]
    #[cbor(skip_if = "Vec::is_empty")]
    pub hidden: Vec<ByteVec>,
}

/// Something below the root of a sandbox. Directories on the way to a target
/// are made where they are missing, and belong to its root. What is in the way
/// (a link, or a file in place of a directory) is removed where it is the
/// sandbox's own: in its root, in layers and in memory. In a directory of the
/// host it is an error, because it may be somebody's file.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Place {
    /// A directory or file of the host.
    #[n(0)]
    Bind(#[n(0)] Bind),
    /// Layers.
    #[n(1)]
    Layers {
        /// Where.
        #[n(0)]
        target: ByteVec,
        /// Of what.
        #[n(1)]
        layers: Layers,
    },
    /// Memory.
    #[n(2)]
    Memory {
        /// Where.
        #[n(0)]
        target: ByteVec,
        /// Bytes it may hold.
        #[n(1)]
        size: u64,
        /// Permissions of its top.
        #[n(2)]
        mode: u32,
        /// Whether programs can be run from it.
        #[n(3)]
        exec: bool,
    },
    /// The sandbox's own processes, with what would reach the host masked or
    /// read-only.
    #[n(3)]
    Processes {
        /// Where.
        #[n(0)]
        target: ByteVec,
    },
    /// The few devices that programs expect, terminals of its own and shared
    /// memory.
    #[n(4)]
    Devices {
        /// Where.
        #[n(0)]
        target: ByteVec,
        /// Bytes of shared memory.
        #[n(1)]
        shared_memory: u64,
    },
    /// A symbolic link. What is there stays, unless it is an empty directory,
    /// which something was mounted over once.
    #[n(5)]
    Link {
        /// Where.
        #[n(0)]
        target: ByteVec,
        /// What it says.
        #[n(1)]
        text: ByteVec,
    },
    /// A directory.
    #[n(6)]
    Directory {
        /// Where.
        #[n(0)]
        target: ByteVec,
        /// Permissions, if it has to be made.
        #[n(1)]
        mode: u32,
    },
}

/// A directory or file of the host in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Bind {
    /// What, on the host.
    #[n(0)]
    pub source: ByteVec,
    /// Where.
    #[n(1)]
    pub target: ByteVec,
    /// Whether it can only be read.
    #[n(2)]
    pub read_only: bool,
    /// Whether what is mounted below the source comes along. Without root it
    /// must: nobody may see what somebody else has mounted something over.
    #[n(3)]
    pub recursive: bool,
    /// Whether owners on the host are shown as the sandbox's users of the same
    /// number, and the other way round. Only for [`Mapping::Privileged`].
    #[n(4)]
    pub shifted: bool,
    /// Which file the source has to be; then its path has no link in it.
    /// Absent: whatever the path leads to.
    #[n(5)]
    pub identity: Option<FileIdentity>,
    /// What of a directory is not shown, by paths relative to it. Only for
    /// directories that can only be read, and for [`Mapping::Privileged`].
    #[n(6)]
    #[cbor(skip_if = "Vec::is_empty")]
    pub hidden: Vec<ByteVec>,
}

/// Which file it is, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct FileIdentity {
    /// Number of its device.
    #[n(0)]
    pub device: u64,
    /// Its number there.
    #[n(1)]
    pub inode: u64,
}

/// What becomes of a sandbox once it stands.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Purpose {
    /// A program becomes its first process: the guest.
    #[n(0)]
    Serve {
        /// The program, by its path in the sandbox, and its arguments.
        #[n(0)]
        arguments: Vec<ByteVec>,
        /// Its environment.
        #[n(1)]
        environment: Vec<ByteVec>,
        /// File of the host that is told who the first process is, as the host
        /// sees it, before anything runs in the sandbox.
        #[n(2)]
        record: ByteVec,
    },
    /// Nothing: it was to be seen whether it can be built. Nothing is left but
    /// what is in its directories, of which layers cannot be mounted again.
    #[n(1)]
    Trial,
}
