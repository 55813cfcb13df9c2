//! Parses the state that shells other than bash print.

use std::collections::HashSet;

use vestal_wire::EnvVar;

use super::dump::{DumpBase, DumpSections, find, switches, trap};
use super::environment::{self, EnvironmentBudget};
use super::quoting::{statements, unquote};
use super::saved::{SavedSession, SavedVariable};
use super::script::section;

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
