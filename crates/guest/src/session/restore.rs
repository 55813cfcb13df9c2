//! The part of a prologue that restores a saved state.

use vestal_wire::EnvVar;

use super::environment;
use super::quoting::{dense_elements, push_quoted};
use super::saved::ShellKind;
use super::script::Prologue;

/// A variable that changes how bash parses everything after it.
const POSIXLY_CORRECT: &[u8] = b"POSIXLY_CORRECT";

/// Returns whether the launch, and not the session, decides about a variable.
pub(crate) fn is_decided(job_env: &[EnvVar], name: &[u8]) -> bool {
    environment::is_foreign(name) || job_env.iter().any(|var| var.name.as_slice() == name)
}

/// Appends the statements that restore a state in bash.
pub(super) fn bash(script: &mut Vec<u8>, prologue: &Prologue<'_>) {
    let session = prologue.session;
    let mut posixly_correct = None;
    if session.shell == ShellKind::Bash {
        posixly_correct = variables(script, prologue);
        functions(script, prologue);
        aliases(script, prologue);
        if let Some(mask) = &session.umask {
            line(script, &[b"builtin umask ", mask]);
        }
        options(script, b"builtin shopt -s ", &session.shopt.on);
        options(script, b"builtin shopt -u ", &session.shopt.off);
        for trap in &session.traps {
            line(script, &[b"builtin trap ", trap]);
        }
    }
    last_line(script, prologue, posixly_correct);
}

/// Appends variables, and returns the statement that must come last.
fn variables<'a>(script: &mut Vec<u8>, prologue: &Prologue<'a>) -> Option<&'a [u8]> {
    let mut posixly_correct = None;
    let mut statements = Vec::new();
    let begun = script.len();
    for variable in &prologue.session.variables {
        if (prologue.decided)(&variable.name) {
            continue;
        }
        let statement = variable.statement.as_slice();
        if variable.name.as_slice() == POSIXLY_CORRECT {
            posixly_correct = Some(statement);
        } else if !push_assignment(script, statement) {
            statements.push(statement);
        }
    }
    if script.len() > begun {
        script.push(b'\n');
    }
    // Plain `declare`: after `builtin`, bash does not parse an array's value. So
    // this comes before any function of that name.
    for statement in statements {
        line(script, &[statement]);
    }
    posixly_correct
}

/// Appends a variable without `declare` if possible. All such assignments form
/// one command, which is faster. Returns whether it was possible.
fn push_assignment(script: &mut Vec<u8>, statement: &[u8]) -> bool {
    if let Some(assignment) = statement.strip_prefix(b"declare -- ")
        && assignment.contains(&b'=')
    {
        script.extend_from_slice(assignment);
    } else if let Some((name, elements)) = dense_array(statement) {
        script.extend_from_slice(name);
        script.extend_from_slice(b"=(");
        script.extend_from_slice(&elements.join(&b' '));
        script.push(b')');
    } else {
        return false;
    }
    script.push(b' ');
    true
}

/// Returns the name and the quoted elements of an array without attributes or
/// gaps. Without subscripts, bash needs no arithmetic for them.
fn dense_array(statement: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let assignment = statement.strip_prefix(b"declare -a ")?;
    let at = assignment.iter().position(|byte| *byte == b'=')?;
    Some((&assignment[..at], dense_elements(&assignment[at + 1..])?))
}

fn functions(script: &mut Vec<u8>, prologue: &Prologue<'_>) {
    let attributes = &prologue.session.function_attributes;
    if !prologue.imported.is_empty() {
        script.extend_from_slice(b"builtin declare -f +x");
        for function in prologue.imported {
            script.push(b' ');
            push_quoted(script, &function.name);
        }
        script.push(b'\n');
    }
    if !prologue.defined.is_empty() {
        // Patterns in functions may need it to be parsed.
        script.extend_from_slice(b"builtin shopt -s extglob\n");
        for function in prologue.defined {
            // One by one, so that a function which bash cannot parse does not
            // affect the others.
            script.extend_from_slice(b"builtin eval ");
            push_quoted(script, &function.definition);
            script.push(b'\n');
        }
        script.extend_from_slice(b"builtin shopt -u extglob\n");
    }
    for statement in attributes {
        line(script, &[b"builtin ", statement]);
    }
}

fn aliases(script: &mut Vec<u8>, prologue: &Prologue<'_>) {
    let aliases = &prologue.session.aliases;
    if aliases.is_empty() {
        return;
    }
    // An alias that needs `--` has it as its first word.
    let (dashed, plain): (Vec<_>, Vec<_>) =
        aliases.iter().partition(|alias| alias.starts_with(b"-- "));
    for alias in dashed {
        line(script, &[b"builtin alias ", alias]);
    }
    if !plain.is_empty() {
        script.extend_from_slice(b"builtin alias");
        for alias in plain {
            script.push(b' ');
            script.extend_from_slice(alias);
        }
        script.push(b'\n');
    }
}

/// Appends what must be one line, because it changes how the next line would be
/// parsed, echoed or traced.
fn last_line(script: &mut Vec<u8>, prologue: &Prologue<'_>, posixly_correct: Option<&[u8]>) {
    let session = prologue.session;
    if !session.shopt.off.iter().any(|name| name.as_slice() == b"expand_aliases") {
        // Users expect an alias to work in the next command.
        script.extend_from_slice(b"builtin shopt -s expand_aliases; ");
    }
    if let Some(value) = prologue.posixly_correct {
        script.extend_from_slice(b"builtin export POSIXLY_CORRECT=");
        push_quoted(script, value);
        script.extend_from_slice(b"; ");
    } else if let Some(statement) = posixly_correct {
        script.extend_from_slice(statement);
        script.extend_from_slice(b"; ");
    }
    // This sets `$_` to its value at the start of any bash.
    script.extend_from_slice(b"builtin : ");
    push_quoted(script, prologue.shell_path);
    for (verb, names) in [(&b"+o "[..], &session.set.off), (b"-o ", &session.set.on)] {
        for name in names {
            script.extend_from_slice(b"; builtin set ");
            script.extend_from_slice(verb);
            script.extend_from_slice(name);
        }
    }
    script.push(b'\n');
}

/// Appends the statements that restore a state in a POSIX shell.
pub(super) fn posix(script: &mut Vec<u8>, prologue: &Prologue<'_>) {
    let session = prologue.session;
    if session.shell != ShellKind::Posix {
        return;
    }
    for variable in &session.variables {
        if !(prologue.decided)(&variable.name) {
            line(script, &[&variable.statement]);
        }
    }
    for alias in &session.aliases {
        line(script, &[b"alias ", alias]);
    }
    if let Some(mask) = &session.umask {
        line(script, &[b"umask ", mask]);
    }
    for trap in &session.traps {
        line(script, &[b"trap ", trap]);
    }
    for (verb, names) in [(&b"set +o "[..], &session.set.off), (b"set -o ", &session.set.on)] {
        for name in names {
            line(script, &[verb, name]);
        }
    }
}

fn line(script: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        script.extend_from_slice(part);
    }
    script.push(b'\n');
}

fn options(script: &mut Vec<u8>, verb: &[u8], names: &[minicbor::bytes::ByteVec]) {
    if names.is_empty() {
        return;
    }
    script.extend_from_slice(verb);
    for name in names {
        script.extend_from_slice(name);
        script.push(b' ');
    }
    // An older bash may not know an option that a newer one has.
    script.extend_from_slice(b"2>&-\n");
}
