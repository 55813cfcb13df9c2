//! What is asked of another machine about the sandboxes that are there: one request and one
//! reply on the standard streams of `vestal-guest machine`.

use std::io::{self, Read, Write};

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::GuestSettings;
use crate::frame::{DecodeError, EncodeError, decode, encode};
use crate::limits::MAX_MESSAGE;

/// A request to a machine. Each may be made again.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum MachineRequest {
    /// Returns what the machine is, as [`MachineReply::Facts`].
    #[n(0)]
    Look,
    /// Starts the guest of an instance, unless it runs. Answered by
    /// [`MachineReply::Launched`] when it listens.
    #[n(1)]
    Launch(#[n(0)] Box<LaunchOrder>),
    /// Returns what an instance is doing, as [`MachineReply::State`].
    #[n(2)]
    State {
        /// The instance.
        #[n(0)]
        instance: String,
    },
    /// Answered by [`MachineReply::Done`]; what follows on the streams is the
    /// connection to the guest.
    #[n(3)]
    Connect {
        /// The instance.
        #[n(0)]
        instance: String,
    },
    /// Kills every process of an instance.
    #[n(4)]
    End {
        /// The instance.
        #[n(0)]
        instance: String,
    },
    /// Does the same and removes the instance, which can never be started again.
    #[n(5)]
    Remove {
        /// The instance.
        #[n(0)]
        instance: String,
    },
    /// Returns the instances of a home or of a key, as [`MachineReply::Found`].
    #[n(6)]
    Find {
        /// The id of a profile home.
        #[n(0)]
        home: Option<String>,
        /// The hash of a sandbox's key.
        #[n(1)]
        key: Option<String>,
    },
    /// Returns where the files of a sandbox are, as [`MachineReply::Files`].
    #[n(7)]
    Files {
        /// The hash of the sandbox's key.
        #[n(0)]
        key: String,
    },
    /// Removes what is kept of a sandbox apart from instances.
    #[n(8)]
    RemoveFiles {
        /// The hash of the sandbox's key.
        #[n(0)]
        key: String,
        /// Keeps workspace and home.
        #[n(1)]
        keep_files: bool,
    },
    /// Returns what sandboxes made of namespaces are planned from, as
    /// [`MachineReply::Surveyed`].
    #[n(9)]
    Survey {
        /// The sha256 of the stage's program, which gathers it.
        #[n(0)]
        stage: String,
    },
    /// Builds a sandbox made of namespaces and removes it again. Answered by
    /// [`MachineReply::Done`] if it can be built.
    #[n(10)]
    Rehearse {
        /// Name of the directory that the plan is made for.
        #[n(0)]
        name: String,
        /// What is built.
        #[n(1)]
        enclosed: EnclosedLaunch,
    },
    /// Answered by [`MachineReply::Done`] if a container engine listens there; what follows on
    /// the streams is a connection to its API.
    #[n(11)]
    Engine,
}

/// An instance to start.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LaunchOrder {
    /// What it is marked with.
    #[n(0)]
    pub label: InstanceLabel,
    /// The settings of its guest. The machine fills in the directories, and the
    /// environment as far as it is not given.
    #[n(1)]
    pub guest: GuestSettings,
    /// Whether it is to be made.
    #[n(2)]
    pub is_new: bool,
    /// Where commands start, unless that is the workspace.
    #[n(3)]
    pub start_dir: Option<ByteVec>,
    /// A step at which a test kills the guest.
    #[n(4)]
    pub failpoint: Option<String>,
    /// The namespaces around it. Absent: none. With them, the guest's settings are
    /// complete, and all its paths are those in the sandbox.
    #[n(5)]
    pub enclosed: Option<EnclosedLaunch>,
}

/// Namespaces around a guest.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct EnclosedLaunch {
    /// The sha256 of the stage's program.
    #[n(0)]
    pub stage: String,
    /// What the stage builds: an [`Enclosure`](crate::Enclosure), encoded.
    #[n(1)]
    pub plan: ByteVec,
    /// Directories of the machine that are made before if they are missing, in this order.
    #[n(2)]
    pub dirs: Vec<PlannedDir>,
}

/// A directory to make.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PlannedDir {
    /// Its path.
    #[n(0)]
    pub path: ByteVec,
    /// Its permissions.
    #[n(1)]
    pub mode: u32,
    /// The number of its user and group. Absent: those of the login.
    #[n(2)]
    pub owner: Option<u32>,
}

/// The mark of an instance on its machine.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct InstanceLabel {
    /// The instance.
    #[n(0)]
    pub instance: String,
    /// Hash of the sandbox's key.
    #[n(1)]
    pub key: String,
    /// Id of the profile home.
    #[n(2)]
    pub home: String,
    /// The task.
    #[n(3)]
    pub task: String,
    /// Number of the instance among the sandbox's.
    #[n(4)]
    pub generation: u64,
    /// The process that the instance ends with, as JSON.
    #[n(5)]
    pub owner: Option<String>,
    /// Hash of the settings it was made with.
    #[n(6)]
    pub spec: String,
    /// The machine, filled in there.
    #[n(7)]
    pub machine: Option<MachineName>,
    /// When it was made, in milliseconds since 1970 by that machine's clock,
    /// filled in there.
    #[n(8)]
    pub created_ms: Option<u64>,
    /// Whether it is in namespaces of its own.
    #[n(9)]
    pub is_enclosed: Option<bool>,
}

/// Which machine it is: several may share a home.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct MachineName {
    /// Its machine id, else the name of the host.
    #[n(0)]
    pub id: String,
    /// The name of the host.
    #[n(1)]
    pub host: String,
}

/// What a machine is.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct MachineFacts {
    /// Which one.
    #[n(0)]
    pub name: MachineName,
    /// Release of its kernel.
    #[n(1)]
    pub kernel: String,
    /// Name of the user, else the number.
    #[n(2)]
    pub user: String,
    /// Its clock, in milliseconds since 1970.
    #[n(3)]
    pub clock_ms: u64,
    /// Bytes free where the sandboxes are.
    #[n(4)]
    pub free_bytes: u64,
    /// The directory of all that is ours there.
    #[n(5)]
    pub root: ByteVec,
    /// Where the guest's program is.
    #[n(6)]
    pub program: ByteVec,
}

/// What an instance is doing.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum MachineState {
    /// Its guest lives.
    #[n(0)]
    Running,
    /// It does not.
    #[n(1)]
    Stopped {
        /// For how many milliseconds; absent: the machine cannot tell.
        #[n(0)]
        for_ms: Option<u64>,
    },
    /// It does not exist.
    #[n(2)]
    Absent,
}

/// An instance that was found by its mark.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct MachineInstance {
    /// Its mark.
    #[n(0)]
    pub label: InstanceLabel,
    /// What it is doing.
    #[n(1)]
    pub state: MachineState,
    /// Where its files are.
    #[n(2)]
    pub places: InstancePlaces,
    /// For how many milliseconds it has existed.
    #[n(3)]
    pub age_ms: Option<u64>,
}

/// Where the files of an instance are on its machine.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct InstancePlaces {
    /// Where work is.
    #[n(0)]
    pub workspace: ByteVec,
    /// The meaning of `~`.
    #[n(1)]
    pub home: ByteVec,
    /// The machine.
    #[n(2)]
    pub machine: MachineName,
    /// Name of the user, else the number.
    #[n(3)]
    pub user: String,
}

/// The reply to a [`MachineRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum MachineReply {
    /// It is done.
    #[n(0)]
    Done,
    /// To [`MachineRequest::Look`].
    #[n(1)]
    Facts(#[n(0)] MachineFacts),
    /// To [`MachineRequest::Launch`].
    #[n(2)]
    Launched(#[n(0)] InstancePlaces),
    /// To [`MachineRequest::State`].
    #[n(3)]
    State(#[n(0)] MachineState),
    /// To [`MachineRequest::Find`].
    #[n(4)]
    Found(#[n(0)] Vec<MachineInstance>),
    /// To [`MachineRequest::Files`].
    #[n(5)]
    Files(#[n(0)] Vec<ByteVec>),
    /// No guest listens.
    #[n(6)]
    NotListening,
    /// The instance is on another machine, which shares this one's home.
    #[n(7)]
    Elsewhere(#[n(0)] MachineName),
    /// The guest did not start.
    #[n(8)]
    NotStarted {
        /// The message of it or of the machine.
        #[n(0)]
        reason: String,
    },
    /// To [`MachineRequest::Survey`].
    #[n(10)]
    Surveyed {
        /// A [`MachineSurvey`](crate::survey::MachineSurvey), encoded.
        #[n(0)]
        survey: ByteVec,
        /// The real path of the directory of all that is ours there.
        #[n(1)]
        root: ByteVec,
    },
    /// The stage's program is not beside the guest's.
    #[n(11)]
    NoStage,
    /// To [`MachineRequest::Engine`]: none can be connected to.
    #[n(12)]
    NoEngine {
        /// Where it was looked for, and what was in the way.
        #[n(0)]
        reason: String,
    },
    /// Something else went wrong.
    #[n(9)]
    Failed {
        /// What.
        #[n(0)]
        reason: String,
    },
}

/// Why a message of a machine could not be read.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The stream failed or ended.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is longer than messages are.
    #[error("a message of {0} bytes is too long")]
    TooLong(usize),
    /// It is no such message.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// It could not be written.
    #[error(transparent)]
    Unwritable(#[from] EncodeError),
}

/// Returns a message as it is sent: its length as four bytes, little-endian, then CBOR.
pub fn pack<T: Encode<()>>(message: &T) -> Result<Vec<u8>, MachineError> {
    let body = encode(message)?;
    let length = u32::try_from(body.len()).map_err(|_| MachineError::TooLong(body.len()))?;
    Ok([&length.to_le_bytes()[..], &body].concat())
}

/// Returns the length of the message that these bytes announce.
pub fn announced(length: [u8; 4]) -> Result<usize, MachineError> {
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > MAX_MESSAGE { Err(MachineError::TooLong(length)) } else { Ok(length) }
}

/// Reads a message.
pub fn read_packed<T>(from: &mut impl Read) -> Result<T, MachineError>
where
    T: for<'b> Decode<'b, ()>,
{
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let mut body = vec![0; announced(length)?];
    from.read_exact(&mut body)?;
    Ok(decode(&body)?)
}

/// Writes a message.
pub fn write_packed<T: Encode<()>>(to: &mut impl Write, message: &T) -> Result<(), MachineError> {
    to.write_all(&pack(message)?)?;
    Ok(to.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_arrives_as_it_was_sent_and_one_that_is_too_long_is_refused() {
        let request = MachineRequest::Find { home: Some("h".into()), key: None };
        let bytes = pack(&request).unwrap();
        let read: MachineRequest = read_packed(&mut &bytes[..]).unwrap();
        assert_eq!(read, request);
        let cut = read_packed::<MachineRequest>(&mut &bytes[..bytes.len() - 1]).unwrap_err();
        assert!(matches!(cut, MachineError::Io(_)), "{cut}");
        let endless = [0xff; 64];
        let error = read_packed::<MachineRequest>(&mut &endless[..]).unwrap_err();
        assert!(matches!(error, MachineError::TooLong(_)), "{error}");
        let noise = [4, 0, 0, 0, b'H', b'e', b'l', b'l'];
        let error = read_packed::<MachineReply>(&mut &noise[..]).unwrap_err();
        assert!(matches!(error, MachineError::Malformed(_)), "{error}");
    }
}
