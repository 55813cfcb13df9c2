//! The file into which a shell dumps its state, and what a session keeps of it.
//!
//! The shell writes sections. When it has exited normally, the supervisor appends a
//! footer with what is needed to read them.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use vestal_wire::EnvVar;

use super::bash;
use super::environment::{self, EnvironmentBudget};
use super::quoting::{statements, unquote};
use super::saved::{SavedSession, SavedVariable, ShellKind, Switches};
use super::script::{DumpToken, section};

/// Maximum size of a dump. A larger one is ignored, and the session keeps its
/// state.
const MAX_DUMP: u64 = 64 << 20;

impl SavedSession {
    /// Returns the state to keep from the dump of a shell launched with `env` and
    /// `job_env`, or `None` if the dump is incomplete.
    ///
    /// Variables equal to those in `env` are left out, so that the caller's
    /// environment applies again each time. Variables that the shell unset are
    /// remembered. Variables of `job_env` are never taken from the dump: the
    /// session keeps what it had.
    pub fn from_dump(dump: &[u8], env: &[EnvVar], job_env: &[EnvVar]) -> Option<Self> {
        let (footer, raw) = split_footer(dump)?;
        let sections = DumpSections::parse(raw, &footer.token)?;
        let base = DumpBase::new(env, job_env);
        let mut session = match footer.shell {
            ShellKind::Bash => bash::parse(&sections, &base),
            ShellKind::Posix => parse(&sections, &base),
        }?;
        session.shell = footer.shell;
        (session.umask, session.cwd) = umask_and_cwd(&sections)?;
        let locals = bash::Locals::of(&sections);
        restore_hidden(&mut session, footer.before, |name| {
            base.is_of_job(name) || locals.contain(name)
        });
        Some(session)
    }
}

/// The environment that a shell was launched with.
pub(super) struct DumpBase<'a> {
    pub(super) env: HashMap<&'a [u8], &'a [u8]>,
    job: HashMap<&'a [u8], &'a [u8]>,
}

impl<'a> DumpBase<'a> {
    fn new(env: &'a [EnvVar], job_env: &'a [EnvVar]) -> Self {
        let map = |vars: &'a [EnvVar]| {
            vars.iter().map(|var| (var.name.as_slice(), var.value.as_slice())).collect()
        };
        Self { env: map(env), job: map(job_env) }
    }

    fn is_of_job(&self, name: &[u8]) -> bool {
        self.job.contains_key(name)
    }

    /// Returns whether a session may keep a variable.
    pub(super) fn is_of_session(&self, name: &[u8]) -> bool {
        !environment::is_foreign(name) && !self.is_of_job(name)
    }

    /// Returns the variables of the environment that the shell no longer exports.
    pub(super) fn withdrawn(&self, is_exported: impl Fn(&[u8]) -> bool) -> Vec<ByteVec> {
        let mut names: Vec<ByteVec> = self
            .env
            .keys()
            .filter(|name| {
                environment::is_identifier(name) && self.is_of_session(name) && !is_exported(name)
            })
            .map(|name| ByteVec::from(name.to_vec()))
            .collect();
        names.sort_unstable();
        names
    }
}

/// Restores what the session had and the dump could not show.
fn restore_hidden(
    session: &mut SavedSession,
    before: PreviousState,
    hidden: impl Fn(&[u8]) -> bool,
) {
    session.variables.retain(|variable| !hidden(&variable.name));
    session.exported.retain(|variable| !hidden(&variable.name));
    session.withdrawn.retain(|name| !hidden(name));
    let PreviousState { variables, exported, withdrawn } = before;
    session.variables.extend(variables.into_iter().filter(|variable| hidden(&variable.name)));
    session.exported.extend(exported.into_iter().filter(|variable| hidden(&variable.name)));
    session.withdrawn.extend(withdrawn.into_iter().filter(|name| hidden(name)));
}

/// Returns the umask and the directory.
fn umask_and_cwd(sections: &DumpSections<'_>) -> Option<(Option<ByteVec>, Vec<u8>)> {
    let text = sections.get(section::PLACE);
    let end = find(text, b"\n")?;
    let (mask, cwd) = (&text[..end], text[end + 1..].strip_suffix(b"\n")?);
    let octal = (1..=5).contains(&mask.len()) && mask.iter().all(|b| matches!(b, b'0'..=b'7'));
    let mask = octal.then(|| ByteVec::from(mask.to_vec()));
    cwd.starts_with(b"/").then(|| (mask, cwd.to_vec()))
}

/// Compares options with their defaults in a new shell.
pub(super) fn switches<'a>(
    states: impl Iterator<Item = (&'a [u8], bool)>,
    default_on: &[&str],
    skipped: &[&str],
) -> Switches {
    let mut switches = Switches::default();
    for (name, is_on) in states {
        let listed = |names: &[&str]| names.iter().any(|known| known.as_bytes() == name);
        let plain =
            name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        if plain && !name.is_empty() && !listed(skipped) && listed(default_on) != is_on {
            let list = if is_on { &mut switches.on } else { &mut switches.off };
            list.push(name.to_vec().into());
        }
    }
    switches
}

/// Returns the arguments of a `trap` statement that is kept after its command.
pub(super) fn trap(statement: &[u8]) -> Option<ByteVec> {
    let arguments = statement.strip_prefix(b"trap ")?;
    let signal = arguments.rsplit(|byte| *byte == b' ').next()?;
    let action = arguments.strip_prefix(b"-- ")?;
    // A shell in POSIX mode also lists signals without a trap. Emptied traps of
    // events that are not signals count as none.
    let none = action.starts_with(b"- ")
        || (action.starts_with(b"'' ") && matches!(signal, b"ERR" | b"RETURN"));
    let passing = matches!(signal, b"EXIT" | b"DEBUG" | b"0");
    (!none && !passing).then(|| arguments.to_vec().into())
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct EncodedFooter {
    #[n(0)]
    token: String,
    #[n(1)]
    shell: ShellKind,
    #[n(2)]
    before: PreviousState,
}

/// The previous state of the session, for what the dump cannot show.
#[derive(Encode, Decode)]
pub(super) struct PreviousState {
    #[n(0)]
    pub(super) variables: Vec<SavedVariable>,
    #[n(1)]
    pub(super) exported: Vec<EnvVar>,
    #[n(2)]
    pub(super) withdrawn: Vec<ByteVec>,
}

/// The footer of a dump.
pub(super) struct Footer {
    pub(super) token: DumpToken,
    pub(super) shell: ShellKind,
    pub(super) before: PreviousState,
}

/// A dump that is being written.
#[derive(Debug)]
pub(crate) struct Dump {
    /// The file the shell writes to.
    pub(crate) file: OwnedFd,
    /// The token that marks its sections.
    pub(crate) token: DumpToken,
    /// The shell that writes it.
    pub(crate) shell: ShellKind,
}

impl Dump {
    /// Finishes the dump of a shell that started from `session` and has ended.
    /// Returns `None` if the dump is incomplete.
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
            before: PreviousState {
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

/// Splits a finished dump into its footer and the shell's output.
fn split_footer(dump: &[u8]) -> Option<(Footer, &[u8])> {
    let (rest, length) = dump.split_last_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (raw, encoded) = rest.split_at_checked(rest.len().checked_sub(length)?)?;
    let footer: EncodedFooter = minicbor::decode(encoded).ok()?;
    let token = DumpToken::from_text(footer.token);
    let EncodedFooter { shell, before, .. } = footer;
    Some((Footer { token, shell, before }, raw))
}

pub(super) struct DumpSections<'a>(Vec<(&'a [u8], &'a [u8])>);

impl<'a> DumpSections<'a> {
    /// Finds the sections. Returns `None` if the last one is missing.
    pub(super) fn parse(raw: &'a [u8], token: &DumpToken) -> Option<Self> {
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

    /// Returns the text of a section; empty if it is missing.
    pub(super) fn get(&self, name: &str) -> &'a [u8] {
        let found = self.0.iter().find(|(known, _)| *known == name.as_bytes());
        found.map_or(&[], |(_, text)| *text)
    }
}

/// Returns the position of `needle` in `haystack`.
pub(super) fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(haystack, needle)
}

/// Options of `set` that belong to the shell or would end the next command before
/// it starts.
const SET_PASSING: &[&str] = &["interactive", "noexec", "privileged", "stdin"];

/// Parses the sections that a POSIX shell wrote.
pub(super) fn parse(sections: &DumpSections<'_>, base: &DumpBase<'_>) -> Option<SavedSession> {
    let mut session = SavedSession::default();
    let exported = names_after(sections.get(section::EXPORTED), b"export ");
    let readonly = names_after(sections.get(section::READONLY), b"readonly ");
    let mut budget = EnvironmentBudget::full();
    let mut any = false;
    for statement in statements(sections.get(section::STATEMENTS)) {
        if let Some((name, quoted)) = assignment(statement) {
            any = true;
            // A value that is not a literal word would run as a command.
            let Some(value) = unquote(quoted) else {
                continue;
            };
            if name == b"OLDPWD" {
                session.previous_cwd = Some(value.into());
            } else if base.is_of_session(name) {
                let attributes = (exported.contains(name), readonly.contains(name));
                keep(&mut session, base, &mut budget, (name, quoted, value), attributes);
            }
        } else if let Some(trap) = trap(statement) {
            session.traps.push(trap);
        }
    }
    session.withdrawn = base.withdrawn(|name| exported.contains(name));
    session.aliases = statements(sections.get(section::ALIASES))
        .map(|statement| statement.strip_prefix(b"alias ").unwrap_or(statement))
        .filter(|statement| statement.contains(&b'='))
        .map(|statement| statement.to_vec().into())
        .collect();
    session.set = switches(options(sections.get(section::OPTIONS)), &[], SET_PASSING);
    any.then_some(session)
}

/// Keeps a variable, unless the next shell has it anyway.
fn keep(
    session: &mut SavedSession,
    base: &DumpBase<'_>,
    budget: &mut EnvironmentBudget,
    (name, quoted, value): (&[u8], &[u8], Vec<u8>),
    (exported, readonly): (bool, bool),
) {
    match (exported, readonly) {
        (true, false) if base.env.get(name) == Some(&value.as_slice()) => return,
        (true, false) if budget.passes(name, &value) => {
            session.exported.push(EnvVar { name: name.to_vec().into(), value: value.into() });
            return;
        }
        (false, false) if environment::is_default(name, &value) => return,
        _ => {}
    }
    let mut statement = [name, b"=", quoted].concat();
    for (applies, verb) in [(exported, &b"; export "[..]), (readonly, b"; readonly ")] {
        if applies {
            statement.extend_from_slice(verb);
            statement.extend_from_slice(name);
        }
    }
    session
        .variables
        .push(SavedVariable { name: name.to_vec().into(), statement: statement.into() });
}

/// Parses lines like `set -o name`.
fn options(text: &[u8]) -> impl Iterator<Item = (&[u8], bool)> {
    text.split(|byte| *byte == b'\n').filter_map(|line| {
        let on = line.strip_prefix(b"set -o ").map(|name| (name, true));
        on.or_else(|| line.strip_prefix(b"set +o ").map(|name| (name, false)))
    })
}

/// Splits `name='value'`.
fn assignment(statement: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = find(statement, b"=")?;
    let name = &statement[..at];
    environment::is_identifier(name).then(|| (name, &statement[at + 1..]))
}

/// Returns the names in statements like `export name='value'`.
fn names_after<'a>(text: &'a [u8], verb: &[u8]) -> HashSet<&'a [u8]> {
    let names = statements(text).filter_map(|statement| {
        let rest = statement.strip_prefix(verb)?;
        Some(find(rest, b"=").map_or(rest, |at| &rest[..at]))
    });
    names.collect()
}

#[cfg(test)]
#[path = "dump_tests.rs"]
mod tests;
