//! The scripts that bring a session's state into a shell and out of it again.
//!
//! Both live in anonymous files that the shell opens as
//! `/proc/<supervisor>/fd/N`, so that it inherits no descriptor. bash reads the
//! prologue as its `BASH_ENV`: the user's text stays the argument of `-c`, and
//! `$0`, line numbers and messages are those of a plain `bash -c`. Other shells
//! have no such hook; their text begins with a `.` of the prologue.
//!
//! The epilogue runs from an EXIT trap and prints the state as it is; what is
//! worth keeping is decided when the dump is read. It must not fail, since the
//! user's `set -e` is in force, must not be seen by `set -x`, and calls every
//! builtin as `\builtin name`, past the user's functions and aliases.

use std::fmt::Write as _;
use std::io;

use super::quoting::push_quoted;
use super::restore;
use super::saved::{Function, SavedSession, ShellKind};

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
    /// The mask on its first line, then the directory.
    pub(in crate::session) const PLACE: &str = "place";
    pub(in crate::session) const END: &str = "end";
}

/// A secret of one launch that marks the sections of its dump.
///
/// It stands in the epilogue in two halves only: no output of a shell that
/// shows its own scripts can contain it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

impl Token {
    /// Makes a token that nobody can guess.
    pub(crate) fn random() -> io::Result<Self> {
        let mut bytes = [0_u8; 16];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        let mut text = String::with_capacity(32);
        for byte in bytes {
            write!(text, "{byte:02x}").map_err(io::Error::other)?;
        }
        Ok(Self(text))
    }

    /// Takes a text as a token.
    pub(super) fn from_text(text: String) -> Self {
        Self(text)
    }

    /// Returns the token as text.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns what stands before the name of a section. An empty line comes
    /// first, since what was printed before may lack the end of its line.
    pub(super) fn mark(&self) -> Vec<u8> {
        format!("\n{} ", self.0).into_bytes()
    }

    fn halves(&self) -> (&str, &str) {
        self.0.split_at(self.0.len() / 2)
    }
}

/// Where the shell finds the files that saving needs.
#[derive(Debug, Clone)]
pub(crate) struct Saving {
    /// The epilogue.
    pub(crate) epilogue: String,
    /// The file to dump into.
    pub(crate) dump: String,
    /// What `trap` does; only bash needs it.
    pub(crate) trap: String,
}

/// What a prologue is made from.
pub(crate) struct Prologue<'a> {
    /// The shell it is for.
    pub(crate) shell: ShellKind,
    /// The state to bring back.
    pub(crate) session: &'a SavedSession,
    /// Tells whether the launch alone decides about a variable.
    pub(crate) decided: &'a dyn Fn(&[u8]) -> bool,
    /// What the launch's environment has as `BASH_ENV`.
    pub(crate) bash_env: Option<&'a [u8]>,
    /// What the launch's environment has as `POSIXLY_CORRECT`.
    pub(crate) posixly_correct: Option<&'a [u8]>,
    /// Functions that come with the environment.
    pub(crate) imported: &'a [&'a Function],
    /// The other functions.
    pub(crate) defined: &'a [&'a Function],
    /// The shell's own file.
    pub(crate) shell_path: &'a [u8],
    /// Where to save to at the end.
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
            // The long part of the function is read when it is called. Options
            // local to it hide it from `set -x`.
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

/// Returns the command that dumps the state. Closing standard error within it
/// hides it from `set -x`, whose own line is printed only after redirections.
///
/// A background process that is killed before it has put its traps aside runs
/// them too. Its id is not the shell's, which makes a path for it that leads
/// nowhere, so that it cannot spoil the dump.
fn run_epilogue(epilogue: &str, dump: &str, phase: &str) -> String {
    format!("{{ \\builtin . {epilogue} {phase}; }} 2>&- >|\"${{BASHPID#$$}}\"{dump}")
}

/// Returns what a `trap` does that keeps the user's EXIT trap and ours apart.
///
/// The user's runs between two dumps: one in case it calls `exit` or fails, one
/// with what it changed. It finds the `$?` that it would find without us. All
/// other signals go to the builtin; since that now happens in a function, where
/// a removed ERR, DEBUG or RETURN trap would come back on return, these are
/// emptied instead of removed.
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
pub(crate) fn epilogue(shell: ShellKind, token: &Token) -> Vec<u8> {
    match shell {
        ShellKind::Bash => bash_epilogue(token),
        ShellKind::Posix => posix_epilogue(token),
    }
}

fn bash_epilogue(token: &Token) -> Vec<u8> {
    let (first, second) = token.halves();
    let mark =
        |section: &str| format!("\\builtin printf '\\n%s%s %s\\n' {first} {second} {section}\n");
    let mut script = String::with_capacity(1024);
    // A DEBUG trap fires once more before it is gone; what it prints comes
    // before the first section and is not looked at.
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

fn posix_epilogue(token: &Token) -> Vec<u8> {
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
