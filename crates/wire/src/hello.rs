//! The greeting: versions and identities.

use minicbor::{Decode, Encode};

/// Major version of the protocol. Sides with different major versions refuse each
/// other.
pub const MAJOR: u16 = 1;

/// Minor version of the protocol. Sides with different minor versions use what
/// the older one knows.
pub const MINOR: u16 = 2;

/// The role of a host process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum HostRole {
    /// It uses the sandbox: its calls reset the idle clock.
    #[n(0)]
    User,
    /// It only observes (listing, diagnosis, reapers): its calls do not count as
    /// use.
    #[n(1)]
    Observer,
    /// It owns the instance: when the last owner disconnects, the guest ends the
    /// instance. Only for sandboxes that end with their process.
    #[n(2)]
    Owner,
}

/// The host's first frame.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Hello {
    /// Protocol major of the host.
    #[n(0)]
    pub major: u16,
    /// Protocol minor of the host.
    #[n(1)]
    pub minor: u16,
    /// The role of the host.
    #[n(2)]
    pub role: HostRole,
    /// The expected instance; a guest of another instance refuses the connection.
    /// Absent only if the host does not know it.
    #[n(3)]
    pub instance: Option<String>,
}

/// The guest's answer to a hello.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Welcome {
    /// Protocol major of the guest.
    #[n(0)]
    pub major: u16,
    /// Protocol minor of the guest.
    #[n(1)]
    pub minor: u16,
    /// Version of the guest program.
    #[n(2)]
    pub program: String,
    /// The guest's instance.
    #[n(3)]
    pub instance: String,
    /// Hash of the sandbox's key.
    #[n(4)]
    pub key: String,
    /// Generation of the instance.
    #[n(5)]
    pub generation: u64,
    /// Random, new at every start of the guest. Shows whether this is still the
    /// guest a caller talked to before.
    #[n(6)]
    pub incarnation: String,
    /// The kernel's boot id as the guest sees it.
    #[n(7)]
    pub boot: String,
}

/// A greeting that was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// The sides have different major versions.
    #[error("the other side speaks protocol {theirs}, this side {MAJOR}")]
    Major {
        /// The other side's major version.
        theirs: u16,
    },
}

impl Hello {
    /// Returns the hello of this version.
    pub fn new(role: HostRole, instance: Option<String>) -> Self {
        Self { major: MAJOR, minor: MINOR, role, instance }
    }

    /// Returns the common minor version, or an error if the major versions
    /// differ.
    pub fn agree(&self) -> Result<u16, HelloError> {
        agree(self.major, self.minor)
    }
}

impl Welcome {
    /// Returns the common minor version, or an error if the major versions
    /// differ.
    pub fn agree(&self) -> Result<u16, HelloError> {
        agree(self.major, self.minor)
    }
}

fn agree(major: u16, minor: u16) -> Result<u16, HelloError> {
    if major == MAJOR { Ok(minor.min(MINOR)) } else { Err(HelloError::Major { theirs: major }) }
}
