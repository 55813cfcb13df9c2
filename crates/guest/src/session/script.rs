//! The scripts that restore a session's state in a shell and dump it at the end.
//!
//! Both are in anonymous files that the shell opens as `/proc/<supervisor>/fd/N`, so
//! that it inherits no descriptor. bash reads the prologue as its `BASH_ENV`: the
//! user's text stays the argument of `-c`, and `$0`, line numbers and messages are
//! those of a plain `bash -c`. Other shells have no such hook; their text starts with
//! a `.` of the prologue.
//!
//! The epilogue runs from an EXIT trap and prints the whole state; the reader of the
//! dump decides what to keep. It must not fail under the user's `set -e`, must not be
//! visible to `set -x`, and calls every builtin as `\builtin name`, to bypass the
//! user's functions and aliases.

use std::fmt::Write as _;
use std::io;

use super::quoting::push_quoted;
use super::restore;
use super::saved::{SavedFunction, SavedSession, ShellKind};

/// Names of the sections of a dump.
pub(super) mod section {
    /// Everything that is printed as statements: variables, aliases, traps.
    pub(in crate::session) const STATEMENTS: &str = "statements";
    pub(in crate::session) const EXPORTED: &str = "exported";
    pub(in crate::session) const READONLY: &str = "readonly";
    pub(in crate::session) const ALIASES: &str = "aliases";
    pub(in crate::session) const OPTIONS: &str = "options";
    pub(in crate::session) const FUNCTION_NAMES: &str = "function-names";
    pub(in crate::session) const FUNCTIONS: &str = "functions";
    /// Functions the shell was in, innermost first.
    pub(in crate::session) const CALLERS: &str = "callers";
    /// Variables of the innermost of them.
    pub(in crate::session) const LOCALS: &str = "locals";
    /// The umask on the first line, then the directory.
    pub(in crate::session) const PLACE: &str = "place";
    pub(in crate::session) const END: &str = "end";
}

/// A secret of one launch that marks the sections of its dump.
///
/// The epilogue contains it only in two halves, so the output of a shell that
/// prints its own scripts cannot contain it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DumpToken(String);

impl DumpToken {
    /// Returns a token that cannot be guessed.
    pub(crate) fn random() -> io::Result<Self> {
        let mut bytes = [0_u8; 16];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        let mut text = String::with_capacity(32);
        for byte in bytes {
            write!(text, "{byte:02x}").map_err(io::Error::other)?;
        }
        Ok(Self(text))
    }

    /// Returns a token with this text.
    pub(super) fn from_text(text: String) -> Self {
        Self(text)
    }

    /// Returns the token as text.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns what precedes the name of a section. It starts with a newline,
    /// because the previous output may not end with one.
    pub(super) fn mark(&self) -> Vec<u8> {
        format!("\n{} ", self.0).into_bytes()
    }

    fn halves(&self) -> (&str, &str) {
        self.0.split_at(self.0.len() / 2)
    }
}

/// Paths of the files needed for saving.
#[derive(Debug, Clone)]
pub(crate) struct Saving {
    pub(crate) epilogue: String,
    /// The file to dump into.
    pub(crate) dump: String,
    /// The text of the `trap` function; only for bash.
    pub(crate) trap: String,
}

/// The parts of a prologue.
pub(crate) struct Prologue<'a> {
    pub(crate) shell: ShellKind,
    /// The state to restore.
    pub(crate) session: &'a SavedSession,
    /// Returns whether the launch alone decides about a variable.
    pub(crate) decided: &'a dyn Fn(&[u8]) -> bool,
    /// The value of `BASH_ENV` in the launch's environment.
    pub(crate) bash_env: Option<&'a [u8]>,
    /// The value of `POSIXLY_CORRECT` in the launch's environment.
    pub(crate) posixly_correct: Option<&'a [u8]>,
    /// Functions passed in the environment.
    pub(crate) imported: &'a [&'a SavedFunction],
    /// The other functions.
    pub(crate) defined: &'a [&'a SavedFunction],
    /// The shell's own file.
    pub(crate) shell_path: &'a [u8],
    /// Where to save the state at the end.
    pub(crate) saving: Option<&'a Saving>,
}

impl Prologue<'_> {
    /// Returns the prologue's text.
    pub(crate) fn text(&self) -> Vec<u8> {
        match self.shell {
            ShellKind::Bash => self.bash(),
            ShellKind::Posix => self.posix(),
        }
    }

    fn bash(&self) -> Vec<u8> {
        let mut script = Vec::with_capacity(4096);
        match self.bash_env {
            None => script.extend_from_slice(b"builtin unset -v BASH_ENV\n"),
            Some(path) => {
                script.extend_from_slice(b"BASH_ENV=");
                push_quoted(&mut script, path);
                script.extend_from_slice(b"\n[[ ! -r $BASH_ENV ]] || builtin . \"$BASH_ENV\"\n");
            }
        }
        if let Some(saving) = self.saving {
            let Saving { epilogue, dump, trap } = saving;
            let run = run_epilogue(epilogue, dump, "end");
            // The long part of the function is read when it is called. Local
            // options hide it from `set -x`.
            let lines = format!(
                "trap() {{ {{ builtin local - && builtin set +x; }} 2>&-; builtin . {trap} \"$@\"; }}\n\
                 builtin trap -- '{run}' EXIT\n"
            );
            script.extend_from_slice(lines.as_bytes());
        }
        restore::bash(&mut script, self);
        script
    }

    fn posix(&self) -> Vec<u8> {
        let mut script = Vec::with_capacity(4096);
        if let Some(saving) = self.saving {
            let Saving { epilogue, dump, .. } = saving;
            let trap = format!("trap '{{ . {epilogue}; }} >|{dump} 2>&-' EXIT\n");
            script.extend_from_slice(trap.as_bytes());
        }
        restore::posix(&mut script, self);
        script
    }
}

/// Returns the command that dumps the state. It closes standard error to hide
/// itself from `set -x`, whose line is printed after redirections.
///
/// A background process that is killed before it has reset its traps runs them
/// too. Its pid is not the shell's, which makes its path invalid, so it cannot
/// damage the dump.
fn run_epilogue(epilogue: &str, dump: &str, phase: &str) -> String {
    format!("{{ \\builtin . {epilogue} {phase}; }} 2>&- >|\"${{BASHPID#$$}}\"{dump}")
}

/// Returns the text of a `trap` function that keeps the user's EXIT trap apart
/// from ours.
///
/// The user's trap runs between two dumps: one in case it calls `exit` or fails,
/// and one with its changes. It sees the same `$?` as without us. Other signals
/// are passed to the builtin. That happens inside a function, where a removed
/// ERR, DEBUG or RETURN trap would return, so these are emptied instead of
/// removed.
pub(crate) fn trap_function(epilogue: &str, dump: &str) -> Vec<u8> {
    let before = run_epilogue(epilogue, dump, "before");
    let end = run_epilogue(epilogue, dump, "end");
    TRAP_FUNCTION.replace("@BEFORE@", &before).replace("@END@", &end).into_bytes()
}

const TRAP_FUNCTION: &str = r#"case ${1-} in
-l*) builtin trap "$@"; builtin return;;
''|-p)
if [[ $# == 0 || $# == 1 && $1 == -p ]]; then
[[ ! ${__vestal_trap+x} ]] || builtin printf 'trap -- %s EXIT\n' "${__vestal_trap@Q}"
builtin trap -p {1..31} {34..64} ERR DEBUG RETURN 2>&-
builtin return 0
fi;;
esac
if [[ $1 == -p ]]; then
builtin shift
builtin local __vestal_spec
for __vestal_spec; do
case $__vestal_spec in
0|[Ee][Xx][Ii][Tt]|[Ss][Ii][Gg][Ee][Xx][Ii][Tt])
[[ ! ${__vestal_trap+x} ]] || builtin printf 'trap -- %s EXIT\n' "${__vestal_trap@Q}";;
*) builtin trap -p "$__vestal_spec";;
esac
done
builtin return
fi
if [[ $BASHPID != "$$" ]]; then builtin trap "$@"; builtin return; fi
[[ $1 != -- ]] || builtin shift
builtin local __vestal_action=- __vestal_spec __vestal_status=0
if [[ $# -gt 1 && $1 != [0-9] && $1 != [0-9][0-9] ]]; then __vestal_action=$1; builtin shift; fi
for __vestal_spec; do
case $__vestal_spec in
0|[Ee][Xx][Ii][Tt]|[Ss][Ii][Gg][Ee][Xx][Ii][Tt])
if [[ $__vestal_action == - ]]; then
builtin unset -v __vestal_trap
builtin trap -- '@END@' EXIT
else
builtin declare -g __vestal_trap="$__vestal_action"
builtin trap -- '@BEFORE@ && { \builtin :; } 2>&-'$'\n'"$__vestal_trap"$'\n''@END@' EXIT
fi;;
ERR|DEBUG|RETURN|err|debug|return)
if [[ $__vestal_action == - ]]; then builtin trap -- '' "$__vestal_spec"
else builtin trap -- "$__vestal_action" "$__vestal_spec"; fi;;
*) builtin trap -- "$__vestal_action" "$__vestal_spec" || __vestal_status=$?;;
esac
done
builtin return "$__vestal_status"
"#;

/// Returns the epilogue's text.
pub(crate) fn epilogue(shell: ShellKind, token: &DumpToken) -> Vec<u8> {
    match shell {
        ShellKind::Bash => bash_epilogue(token),
        ShellKind::Posix => posix_epilogue(token),
    }
}

fn bash_epilogue(token: &DumpToken) -> Vec<u8> {
    let (first, second) = token.halves();
    let mark =
        |section: &str| format!("\\builtin printf '\\n%s%s %s\\n' {first} {second} {section}\n");
    let mut script = String::with_capacity(1024);
    // A DEBUG trap fires once more before it is removed; its output comes before
    // the first section and is ignored.
    script.push_str("__vestal_status=$?\n[[ $1 == before ]] || \\builtin trap - DEBUG\n");
    script.push_str(&mark(section::STATEMENTS));
    script.push_str("\\builtin declare -p\n\\builtin alias -p\n\\builtin trap -p\n");
    script.push_str(&mark(section::FUNCTION_NAMES));
    script.push_str("\\builtin declare -F\n");
    script.push_str(&mark(section::FUNCTIONS));
    script.push_str("\\builtin declare -f\n");
    script.push_str("if [[ ${FUNCNAME+x} ]]; then\n");
    script.push_str(&mark(section::CALLERS));
    script.push_str("\\builtin printf '%s\\n' \"${FUNCNAME[@]}\"\n");
    script.push_str(&mark(section::LOCALS));
    script.push_str("\\builtin local -p || \\builtin :\nfi\n");
    script.push_str(&mark(section::PLACE));
    script.push_str("\\builtin umask\n\\builtin pwd || \\builtin pwd -P || \\builtin :\n");
    script.push_str(&mark(section::END));
    // A RETURN trap would print after the end.
    script.push_str("[[ $1 == before ]] || \\builtin trap - RETURN\n");
    script.push_str("\\builtin return \"$__vestal_status\"\n");
    script.into_bytes()
}

fn posix_epilogue(token: &DumpToken) -> Vec<u8> {
    let (first, second) = token.halves();
    let mut script = String::with_capacity(512);
    let parts = [
        (section::STATEMENTS, "\\set || \\:\n\\trap || \\:"),
        (section::EXPORTED, "\\export -p || \\:"),
        (section::READONLY, "\\readonly -p || \\:"),
        (section::ALIASES, "\\alias || \\:"),
        (section::OPTIONS, "\\set +o || \\:"),
        (section::PLACE, "\\umask || \\:\n\\pwd || \\pwd -P || \\:"),
        (section::END, "\\:"),
    ];
    for (section, commands) in parts {
        let lines = format!("\\echo\n\\echo '{first}''{second} {section}'\n{commands}\n");
        script.push_str(&lines);
    }
    script.into_bytes()
}
