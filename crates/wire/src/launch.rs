//! What the stage does for a container that another program builds: starting that
//! program, and giving up rights in the container.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

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
