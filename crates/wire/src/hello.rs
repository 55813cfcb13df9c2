//! The greeting: versions and identities.

use minicbor::{Decode, Encode};

/// Major version of the protocol. Sides of different majors refuse each other.
pub const MAJOR: u16 = 1;

/// Minor version of the protocol. Sides of different minors serve each other
/// and keep to what the older of the two knows.
pub const MINOR: u16 = 0;

/// Why a host process is connecting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Role {
    /// It uses the sandbox: its calls reset the idle clock.
    #[n(0)]
    User,
    /// It only looks (listing, diagnosis, reapers): its calls are not use.
    #[n(1)]
    Observer,
    /// It owns the instance: when the last owner's connection is gone, the
    /// guest ends the instance. Only for sandboxes that die with their process.
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
    /// Why the host connects.
    #[n(2)]
    pub role: Role,
    /// The instance the host means to talk to; the guest refuses to stand in
    /// for another. Absent only when the host is finding out.
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
    /// The instance this guest is the first process of.
    #[n(3)]
    pub instance: String,
    /// Hash of the sandbox's key.
    #[n(4)]
    pub key: String,
    /// Generation of the instance.
    #[n(5)]
    pub generation: u64,
    /// Random, new at each start of the guest: tells whether this is still the
    /// guest a caller talked to before.
    #[n(6)]
    pub incarnation: String,
    /// The kernel's boot id as the guest sees it.
    #[n(7)]
    pub boot: String,
}

/// A greeting that cannot lead to a conversation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// The sides speak different majors.
    #[error("protocol {theirs} is spoken there, {MAJOR} here")]
    Major {
        /// The other side's major.
        theirs: u16,
    },
}

impl Hello {
    /// Returns the hello of this version.
    pub fn new(role: Role, instance: Option<String>) -> Self {
        Self { major: MAJOR, minor: MINOR, role, instance }
    }

    /// Returns the minor both sides know, or why they cannot talk.
    pub fn agree(&self) -> Result<u16, HelloError> {
        agree(self.major, self.minor)
    }
}

impl Welcome {
    /// Returns the minor both sides know, or why they cannot talk.
    pub fn agree(&self) -> Result<u16, HelloError> {
        agree(self.major, self.minor)
    }
}

#[expect(clippy::unnecessary_min_or_max, reason = "minor 0 is only the first of many")]
fn agree(major: u16, minor: u16) -> Result<u16, HelloError> {
    if major == MAJOR { Ok(minor.min(MINOR)) } else { Err(HelloError::Major { theirs: major }) }
}
