//! From the dump of a shell to what a session keeps of it.

mod bash;
mod dump;
mod posix;

pub(crate) use dump::Dump;

use std::collections::HashMap;

use minicbor::bytes::ByteVec;
use vestal_wire::EnvVar;

use self::dump::{Before, Sections};
use super::names;
use super::saved::{SavedSession, ShellKind, Switches};
use super::script::section;

impl SavedSession {
    /// Makes the state to keep from the dump of a shell that was launched with
    /// `env` and `job_env`. `None`: the dump is not whole.
    ///
    /// What equals `env` is left out, so that the caller's environment counts
    /// anew each time; what the shell unset of it is remembered. Variables of
    /// `job_env` are never taken from the dump: the session has what it had.
    pub fn harvest(dump: &[u8], env: &[EnvVar], job_env: &[EnvVar]) -> Option<Self> {
        let (footer, raw) = dump::split_footer(dump)?;
        let sections = Sections::parse(raw, &footer.token)?;
        let base = Base::new(env, job_env);
        let mut session = match footer.shell {
            ShellKind::Bash => bash::harvest(&sections, &base),
            ShellKind::Posix => posix::harvest(&sections, &base),
        }?;
        session.shell = footer.shell;
        (session.umask, session.cwd) = place(&sections)?;
        let locals = bash::Locals::of(&sections);
        carry_over(&mut session, footer.before, |name| {
            base.is_of_job(name) || locals.contain(name)
        });
        Some(session)
    }
}

/// The environment that a shell was launched with.
struct Base<'a> {
    env: HashMap<&'a [u8], &'a [u8]>,
    job: HashMap<&'a [u8], &'a [u8]>,
}

impl<'a> Base<'a> {
    fn new(env: &'a [EnvVar], job_env: &'a [EnvVar]) -> Self {
        let map = |vars: &'a [EnvVar]| {
            vars.iter().map(|var| (var.name.as_slice(), var.value.as_slice())).collect()
        };
        Self { env: map(env), job: map(job_env) }
    }

    fn is_of_job(&self, name: &[u8]) -> bool {
        self.job.contains_key(name)
    }

    /// Tells whether a session may have its own word on a variable.
    fn is_of_session(&self, name: &[u8]) -> bool {
        !names::is_foreign(name) && !self.is_of_job(name)
    }

    /// Returns the variables of the environment that the shell no longer exports.
    fn withdrawn(&self, is_exported: impl Fn(&[u8]) -> bool) -> Vec<ByteVec> {
        let mut names: Vec<ByteVec> = self
            .env
            .keys()
            .filter(|name| {
                names::is_identifier(name) && self.is_of_session(name) && !is_exported(name)
            })
            .map(|name| ByteVec::from(name.to_vec()))
            .collect();
        names.sort_unstable();
        names
    }
}

/// Puts back what the session had and the dump could not show.
fn carry_over(session: &mut SavedSession, before: Before, hidden: impl Fn(&[u8]) -> bool) {
    session.variables.retain(|variable| !hidden(&variable.name));
    session.exported.retain(|variable| !hidden(&variable.name));
    session.withdrawn.retain(|name| !hidden(name));
    let Before { variables, exported, withdrawn } = before;
    session.variables.extend(variables.into_iter().filter(|variable| hidden(&variable.name)));
    session.exported.extend(exported.into_iter().filter(|variable| hidden(&variable.name)));
    session.withdrawn.extend(withdrawn.into_iter().filter(|name| hidden(name)));
}

/// Returns the mask and the directory.
fn place(sections: &Sections<'_>) -> Option<(Option<ByteVec>, Vec<u8>)> {
    let text = sections.get(section::PLACE);
    let end = dump::find(text, b"\n")?;
    let (mask, cwd) = (&text[..end], text[end + 1..].strip_suffix(b"\n")?);
    let octal = (1..=5).contains(&mask.len()) && mask.iter().all(|b| matches!(b, b'0'..=b'7'));
    let mask = octal.then(|| ByteVec::from(mask.to_vec()));
    cwd.starts_with(b"/").then(|| (mask, cwd.to_vec()))
}

/// Compares options that are on or off with those a fresh shell has on.
fn switches<'a>(
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

/// Returns the arguments of a `trap` statement that outlives its command.
fn trap(statement: &[u8]) -> Option<ByteVec> {
    let arguments = statement.strip_prefix(b"trap ")?;
    let signal = arguments.rsplit(|byte| *byte == b' ').next()?;
    let action = arguments.strip_prefix(b"-- ")?;
    // A shell in POSIX mode also lists signals that are not trapped. The
    // emptied traps of events that are no signals are as good as none.
    let none = action.starts_with(b"- ")
        || (action.starts_with(b"'' ") && matches!(signal, b"ERR" | b"RETURN"));
    let passing = matches!(signal, b"EXIT" | b"DEBUG" | b"0");
    (!none && !passing).then(|| arguments.to_vec().into())
}

#[cfg(test)]
#[path = "harvest_tests.rs"]
mod tests;
