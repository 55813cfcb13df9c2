//! Parses the state that bash prints.

use std::collections::HashSet;

use minicbor::bytes::ByteVec;
use vestal_wire::EnvVar;

use super::dump::{DumpBase, DumpSections, find, switches, trap};
use super::environment::{self, EnvironmentBudget};
use super::quoting::{statements, unquote};
use super::saved::{SavedFunction, SavedSession, SavedVariable};
use super::script::section;

/// Options of `shopt` that are on in a new shell of a session.
const SHOPT_ON: &[&str] = &[
    "checkwinsize",
    "cmdhist",
    "complete_fullquote",
    "expand_aliases",
    "extquote",
    "force_fignore",
    "globasciiranges",
    "globskipdots",
    "hostcomplete",
    "interactive_comments",
    "patsub_replacement",
    "progcomp",
    "promptvars",
    "sourcepath",
];

/// Options of `shopt` that cannot be set.
const SHOPT_FIXED: &[&str] = &["login_shell", "restricted_shell"];

/// Options of `set` that are on in a new shell.
const SET_ON: &[&str] = &["braceexpand", "hashall", "interactive-comments"];

/// Options of `set` that would end the next command before it starts.
const SET_PASSING: &[&str] = &["noexec", "onecmd", "privileged"];

/// Parses the sections that bash wrote.
pub(super) fn parse(sections: &DumpSections<'_>, base: &DumpBase<'_>) -> Option<SavedSession> {
    let mut session = SavedSession::default();
    let mut declared = Vec::new();
    for statement in statements(sections.get(section::STATEMENTS)) {
        if let Some(variable) = Declared::parse(statement) {
            declared.push(variable);
        } else if let Some(alias) = statement.strip_prefix(b"alias ") {
            session.aliases.push(bytes(alias));
        } else if let Some(trap) = trap(statement) {
            session.traps.push(trap);
        }
    }
    let value = |name: &[u8]| declared.iter().find(|var| var.name == name)?.value();
    session.shopt = switches(states(&value(b"BASHOPTS")?, SHOPT_ON), SHOPT_ON, SHOPT_FIXED);
    session.set = switches(states(&value(b"SHELLOPTS")?, SET_ON), SET_ON, SET_PASSING);
    session.previous_cwd = value(b"OLDPWD").map(ByteVec::from);
    session.bash_major = value(b"BASH_VERSION").and_then(|version| major(&version));
    let exported: HashSet<&[u8]> =
        declared.iter().filter(|var| var.is_exported()).map(|var| var.name).collect();
    session.withdrawn = base.withdrawn(|name| exported.contains(name));
    let mut budget = EnvironmentBudget::full();
    for variable in declared.iter().filter(|var| base.is_of_session(var.name)) {
        keep(&mut session, variable, base, &mut budget);
    }
    (session.functions, session.function_attributes) = functions(sections);
    Some(session)
}

/// Keeps a variable in the form that the next shell restores fastest, unless it
/// has it anyway.
fn keep(
    session: &mut SavedSession,
    variable: &Declared<'_>,
    base: &DumpBase<'_>,
    budget: &mut EnvironmentBudget,
) {
    let value = variable.value();
    match (variable.flags, value) {
        (b"x", Some(value)) if base.env.get(variable.name) == Some(&value.as_slice()) => {}
        (b"x", Some(value)) if budget.passes(variable.name, &value) => {
            session.exported.push(EnvVar { name: bytes(variable.name), value: value.into() });
        }
        (b"-" | b"i", Some(value)) if environment::is_default(variable.name, &value) => {}
        // Set by the shell itself while it is in POSIX mode.
        (b"-", _) if variable.name == b"POSIXLY_CORRECT" => {}
        _ => session.variables.push(SavedVariable {
            name: bytes(variable.name),
            statement: bytes(variable.statement),
        }),
    }
}

/// Returns the states of options: those in a list are on; those that are on by
/// default and not in the list are off.
fn states<'a>(list: &'a [u8], default_on: &'a [&str]) -> impl Iterator<Item = (&'a [u8], bool)> {
    let on: Vec<&[u8]> = list.split(|byte| *byte == b':').collect();
    let off: Vec<&[u8]> =
        default_on.iter().map(|name| name.as_bytes()).filter(|name| !on.contains(name)).collect();
    on.into_iter().map(|name| (name, true)).chain(off.into_iter().map(|name| (name, false)))
}

fn major(version: &[u8]) -> Option<u32> {
    std::str::from_utf8(version).ok()?.split('.').next()?.parse().ok()
}

/// Local variables of the functions the shell was in when it ended. `exit` in a
/// function leaves them visible.
pub(super) struct Locals<'a> {
    /// Those of the innermost function.
    innermost: Vec<&'a [u8]>,
    /// The texts of all functions the shell was in.
    callers: Vec<&'a [u8]>,
}

impl<'a> Locals<'a> {
    pub(super) fn of(sections: &DumpSections<'a>) -> Self {
        // The first caller is the epilogue itself.
        let callers = sections.get(section::CALLERS).split(|byte| *byte == b'\n').skip(1);
        let callers: Vec<&[u8]> = callers.filter(|caller| !caller.is_empty()).collect();
        if callers.is_empty() {
            return Self { innermost: vec![], callers: vec![] };
        }
        let innermost = statements(sections.get(section::LOCALS)).filter_map(Declared::parse);
        let texts = split_functions(sections.get(section::FUNCTIONS), &function_names(sections));
        let texts = texts.into_iter().filter(|(name, _)| callers.contains(name));
        Self {
            innermost: innermost.map(|variable| variable.name).collect(),
            callers: texts.map(|(_, text)| text).collect(),
        }
    }

    pub(super) fn contain(&self, name: &[u8]) -> bool {
        self.innermost.contains(&name) || self.callers.iter().any(|text| makes_local(text, name))
    }
}

/// Returns whether a function's text declares a variable local. bash prints one
/// command per line, so a declaration starts a line.
fn makes_local(function: &[u8], name: &[u8]) -> bool {
    function.split(|byte| *byte == b'\n').any(|line| {
        let mut words =
            line.split(|byte| matches!(byte, b' ' | b';' | b'\t')).filter(|w| !w.is_empty());
        let declares = matches!(words.next(), Some(b"local" | b"declare" | b"typeset"));
        let mut words = words.peekable();
        let mut global = false;
        while let Some(option) = words.next_if(|word| word.starts_with(b"-")) {
            global |= option.contains(&b'g');
        }
        declares
            && !global
            && words.any(|word| {
                word.strip_prefix(name)
                    .is_some_and(|rest| matches!(rest.first(), None | Some(b'=')))
            })
    })
}

/// One statement of `declare -p`.
struct Declared<'a> {
    statement: &'a [u8],
    flags: &'a [u8],
    name: &'a [u8],
    /// The text after `=`.
    quoted: Option<&'a [u8]>,
}

impl<'a> Declared<'a> {
    fn parse(statement: &'a [u8]) -> Option<Self> {
        let rest = statement.strip_prefix(b"declare -")?;
        let flags_end = find(rest, b" ")?;
        let (flags, rest) = (&rest[..flags_end], &rest[flags_end + 1..]);
        let (name, quoted) = match find(rest, b"=") {
            Some(at) => (&rest[..at], Some(&rest[at + 1..])),
            None => (rest, None),
        };
        let valid = environment::is_identifier(name)
            && flags.iter().all(|b| b.is_ascii_alphabetic() || *b == b'-');
        valid.then_some(Self { statement, flags, name, quoted })
    }

    fn is_exported(&self) -> bool {
        self.flags.contains(&b'x')
    }

    /// Returns the value, unless it is an array or has none.
    fn value(&self) -> Option<Vec<u8>> {
        if self.flags.iter().any(|flag| matches!(flag, b'a' | b'A')) {
            return None;
        }
        unquote(self.quoted?)
    }
}

/// Returns the names of functions with their attributes, in the order of their
/// definitions.
fn function_names<'a>(sections: &DumpSections<'a>) -> Vec<(&'a [u8], &'a [u8])> {
    let lines = sections.get(section::FUNCTION_NAMES).split(|byte| *byte == b'\n');
    lines
        .filter_map(|line| {
            let rest = line.strip_prefix(b"declare -")?;
            let end = find(rest, b" ")?;
            Some((&rest[..end], &rest[end + 1..]))
        })
        .collect()
}

/// Returns the definitions of functions and the statements that give them
/// attributes.
fn functions(sections: &DumpSections<'_>) -> (Vec<SavedFunction>, Vec<ByteVec>) {
    let names = function_names(sections);
    let mut kept = HashSet::new();
    let mut definitions = Vec::new();
    for (name, text) in split_functions(sections.get(section::FUNCTIONS), &names) {
        let our_trap =
            name == b"trap" && find(text, b"builtin local - && builtin set +x").is_some();
        if !environment::is_ours(name) && !our_trap {
            kept.insert(name);
            definitions.push(SavedFunction { name: bytes(name), definition: bytes(text) });
        }
    }
    let attributes = names
        .iter()
        .filter(|(flags, name)| *flags != b"f" && kept.contains(name))
        .map(|(flags, name)| ByteVec::from([b"declare -", *flags, b" ", *name].concat()));
    (definitions, attributes.collect())
}

/// Splits the output of `declare -f` at the headings of known functions.
fn split_functions<'a>(
    text: &'a [u8],
    names: &[(&'a [u8], &'a [u8])],
) -> Vec<(&'a [u8], &'a [u8])> {
    let mut awaited: HashSet<&[u8]> = names.iter().map(|(_, name)| *name).collect();
    let mut starts: Vec<(&[u8], usize)> = Vec::new();
    let mut at = 0;
    let mut may_begin = true;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let name = heading(line).filter(|_| may_begin);
        if let Some(name) = name.filter(|name| awaited.remove(name)) {
            starts.push((name, at));
        }
        // A function ends with its brace and redirections, or its attributes.
        may_begin = line.starts_with(b"}") || line.starts_with(ATTRIBUTES);
        at += line.len();
    }
    let ends = starts.iter().skip(1).map(|(_, start)| *start).chain([text.len()]);
    let whole = starts.iter().zip(ends).map(|((name, start), end)| (*name, &text[*start..end]));
    whole.map(|(name, text)| (name, without_attributes(text))).collect()
}

/// Returns the name if the line starts a function.
fn heading(line: &[u8]) -> Option<&[u8]> {
    let name = line.strip_suffix(b" () \n")?;
    // Names that are also reserved words are printed with `function`.
    Some(name.strip_prefix(b"function ").unwrap_or(name))
}

/// Removes the statement that bash prints after a function with attributes.
fn without_attributes(function: &[u8]) -> &[u8] {
    let text = function.strip_suffix(b"\n").unwrap_or(function);
    match text.iter().rposition(|byte| *byte == b'\n') {
        Some(at) if text[at + 1..].starts_with(ATTRIBUTES) => &text[..=at],
        _ => function,
    }
}

/// Start of the statement that sets a function's attributes.
const ATTRIBUTES: &[u8] = b"declare -f";

fn bytes(slice: &[u8]) -> ByteVec {
    slice.to_vec().into()
}
