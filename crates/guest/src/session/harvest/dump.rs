//! The file a shell dumps its state into.
//!
//! The shell writes its sections; when it has ended well, the supervisor puts a
//! footer behind them that says what is needed to read them.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use vestal_wire::EnvVar;

use super::super::saved::{SavedSession, ShellKind, Variable};
use super::super::script::{Token, section};

/// Largest dump that is taken. A session beyond it keeps the state it had.
const MAX_DUMP: u64 = 64 << 20;

/// What stands behind the sections.
#[derive(Encode, Decode)]
#[cbor(map)]
struct EncodedFooter {
    #[n(0)]
    token: String,
    #[n(1)]
    shell: ShellKind,
    #[n(2)]
    before: Before,
}

/// What the session had before, for what the dump cannot show.
#[derive(Encode, Decode)]
pub(super) struct Before {
    #[n(0)]
    pub(super) variables: Vec<Variable>,
    #[n(1)]
    pub(super) exported: Vec<EnvVar>,
    #[n(2)]
    pub(super) withdrawn: Vec<ByteVec>,
}

/// The footer of a dump.
pub(super) struct Footer {
    pub(super) token: Token,
    pub(super) shell: ShellKind,
    pub(super) before: Before,
}

/// A dump in the making.
#[derive(Debug)]
pub(crate) struct Dump {
    /// The file the shell writes to.
    pub(crate) file: OwnedFd,
    /// What marks its sections.
    pub(crate) token: Token,
    /// The shell that writes it.
    pub(crate) shell: ShellKind,
}

impl Dump {
    /// Finishes the dump of a shell that started from `session` and has ended.
    /// `None`: it has not written all of it.
    pub(crate) fn finish(self, session: SavedSession) -> io::Result<Option<OwnedFd>> {
        let file = File::from(self.file);
        let size = file.metadata()?.len();
        let end = [&self.token.mark(), section::END.as_bytes(), b"\n"].concat();
        let Some(end_at) = size.checked_sub(end.len() as u64) else {
            return Ok(None);
        };
        let mut tail = vec![0; end.len()];
        file.read_exact_at(&mut tail, end_at)?;
        if tail != end || size > MAX_DUMP {
            return Ok(None);
        }
        let footer = EncodedFooter {
            token: self.token.as_str().to_owned(),
            shell: self.shell,
            before: Before {
                variables: session.variables,
                exported: session.exported,
                withdrawn: session.withdrawn,
            },
        };
        let mut bytes = minicbor::to_vec(footer).map_err(io::Error::other)?;
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        bytes.extend_from_slice(&length.to_be_bytes());
        file.write_all_at(&bytes, size)?;
        Ok(Some(file.into()))
    }
}

/// Takes a finished dump apart: its footer, and what the shell wrote.
pub(super) fn split_footer(dump: &[u8]) -> Option<(Footer, &[u8])> {
    let (rest, length) = dump.split_last_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (raw, encoded) = rest.split_at_checked(rest.len().checked_sub(length)?)?;
    let footer: EncodedFooter = minicbor::decode(encoded).ok()?;
    let token = Token::from_text(footer.token);
    let EncodedFooter { shell, before, .. } = footer;
    Some((Footer { token, shell, before }, raw))
}

/// The sections of a dump.
pub(super) struct Sections<'a>(Vec<(&'a [u8], &'a [u8])>);

impl<'a> Sections<'a> {
    /// Finds the sections. `None`: the last one is missing.
    pub(super) fn parse(raw: &'a [u8], token: &Token) -> Option<Self> {
        let mark = token.mark();
        let mut sections = Vec::new();
        let mut rest = &raw[find(raw, &mark)? + mark.len()..];
        loop {
            let name_end = find(rest, b"\n")?;
            let (name, after) = (&rest[..name_end], &rest[name_end + 1..]);
            if name == section::END.as_bytes() {
                return Some(Self(sections));
            }
            let end = find(after, &mark)?;
            sections.push((name, &after[..end]));
            rest = &after[end + mark.len()..];
        }
    }

    /// Returns the text of a section; empty when there is none.
    pub(super) fn get(&self, name: &str) -> &'a [u8] {
        let found = self.0.iter().find(|(known, _)| *known == name.as_bytes());
        found.map_or(&[], |(_, text)| *text)
    }
}

/// Returns where `needle` first is in `haystack`.
pub(super) fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(haystack, needle)
}
