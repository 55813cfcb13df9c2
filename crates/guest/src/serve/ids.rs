//! Names of things in the event loop. None is ever used twice, so that a late
//! event about something that is gone meets nothing.

use crate::log::LogStream;

/// A connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ConnId(pub(super) u64);

/// A job; later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct JobKey(pub(super) u64);

/// A supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SupervisorId(pub(super) u64);

/// A channel of a connection: whom an answer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Address {
    pub(super) conn: ConnId,
    pub(super) channel: u32,
}

/// What a file descriptor in the poller belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    Listener,
    Signals,
    Workers,
    Conn(ConnId),
    Supervisor(SupervisorId),
    Output(JobKey, LogStream),
    Input(JobKey),
}

impl Token {
    /// Returns the token as the kernel keeps it.
    pub(super) const fn to_bits(self) -> u64 {
        match self {
            Self::Listener => 0,
            Self::Signals => 1,
            Self::Workers => 2,
            Self::Conn(id) => id.0 << 3 | 3,
            Self::Supervisor(id) => id.0 << 3 | 4,
            Self::Output(key, LogStream::Stdout) => key.0 << 3 | 5,
            Self::Output(key, LogStream::Stderr) => key.0 << 3 | 6,
            Self::Input(key) => key.0 << 3 | 7,
        }
    }

    /// Returns the token that the kernel handed back.
    pub(super) const fn from_bits(bits: u64) -> Self {
        let id = bits >> 3;
        match bits & 7 {
            0 => Self::Listener,
            1 => Self::Signals,
            2 => Self::Workers,
            3 => Self::Conn(ConnId(id)),
            4 => Self::Supervisor(SupervisorId(id)),
            5 => Self::Output(JobKey(id), LogStream::Stdout),
            6 => Self::Output(JobKey(id), LogStream::Stderr),
            _ => Self::Input(JobKey(id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_the_kernel() {
        let key = JobKey(77);
        for token in [
            Token::Listener,
            Token::Signals,
            Token::Workers,
            Token::Conn(ConnId(0)),
            Token::Conn(ConnId(1 << 40)),
            Token::Supervisor(SupervisorId(5)),
            Token::Output(key, LogStream::Stdout),
            Token::Output(key, LogStream::Stderr),
            Token::Input(key),
        ] {
            assert_eq!(Token::from_bits(token.to_bits()), token);
        }
    }
}
