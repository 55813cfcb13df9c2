//! The environment a shell starts with, and which variables belong to a session.

use std::borrow::Cow;
use std::collections::HashMap;

use vestal_wire::EnvVar;

use super::restore::is_decided;
use super::saved::{SavedFunction, SavedSession, ShellKind};

/// Maximum size of a variable or function passed in the environment: the kernel
/// refuses more than 128 KiB.
const MAX_PASSED: usize = 32 << 10;

/// Maximum total size of variables, and of functions, that a session passes in
/// the environment. The kernel's limit depends on the stack size.
const MAX_PASSED_TOTAL: usize = 128 << 10;

/// The oldest bash whose builds all import functions from variables of the form
/// used here.
const IMPORTING_BASH: u32 = 5;

/// Variables that a shell acts on when it starts, or does not import. They are
/// set in the running shell instead.
const NOT_PASSED: &[&str] = &["ENV", "GCONV_PATH", "IFS", "LOCPATH", "PS1", "PS2"];

/// Prefixes of further such variables: those of bash, the loader and the C
/// library. A library path for the user's programs may break the shell.
const NOT_PASSED_PREFIXES: &[&str] = &["BASH", "GLIBC_", "LD_", "MALLOC_", "POSIX"];

/// Variables that the shell sets itself. They are never saved, and their absence
/// from a dump does not mean `unset`.
const SHELL_OWNED: &[&str] = &[
    "_",
    "BASH",
    "BASHOPTS",
    "BASHPID",
    "COLUMNS",
    "DIRSTACK",
    "EPOCHREALTIME",
    "EPOCHSECONDS",
    "ERRNO",
    "EUID",
    "FUNCNAME",
    "GROUPS",
    "HISTCMD",
    "HOSTTYPE",
    "LINENO",
    "LINES",
    "MACHTYPE",
    "OLDPWD",
    "OPTARG",
    "OPTIND",
    "OSTYPE",
    "PIPESTATUS",
    "PPID",
    "PWD",
    "RANDOM",
    "SECONDS",
    "SHELLOPTS",
    "SHLVL",
    "SRANDOM",
    "UID",
];

/// Variables with the prefix `BASH_` that belong to the user.
const BASH_SETTINGS: &[&str] = &["BASH_COMPAT", "BASH_ENV"];

/// Default values of unexported variables in a new shell.
const DEFAULTS: &[(&str, &[u8])] = &[
    ("IFS", b" \t\n"),
    ("OPTERR", b"1"),
    ("PS1", b"$ "),
    ("PS1", b"# "),
    ("PS1", b"\\w \\$ "),
    ("PS2", b"> "),
    ("PS4", b"+ "),
    ("TERM", b"dumb"),
];

/// Marks of the instance and the job, which every launch sets itself.
const MARKS: &[&str] = &["VESTAL_INSTANCE", "VESTAL_JOB"];

/// Prefix of our own functions and variables in a shell.
const OURS: &[u8] = b"__vestal_";

/// Remaining bytes that may be passed in the environment of the next shell, which
/// is the fastest way.
pub(super) struct EnvironmentBudget(usize);

impl EnvironmentBudget {
    /// Returns the full budget.
    pub(super) fn full() -> Self {
        Self(MAX_PASSED_TOTAL)
    }

    /// Returns whether a variable is passed in the environment, and subtracts its
    /// size.
    pub(super) fn passes(&mut self, name: &[u8], value: &[u8]) -> bool {
        let special = NOT_PASSED.iter().any(|known| known.as_bytes() == name)
            || NOT_PASSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix.as_bytes()));
        !special && self.takes(name.len() + value.len())
    }

    fn takes(&mut self, size: usize) -> bool {
        let fits = size <= MAX_PASSED.min(self.0);
        if fits {
            self.0 -= size;
        }
        fits
    }
}

/// Functions that must not exist while the prologue runs: it calls the first and
/// defines the second.
const NOT_IMPORTED: &[&[u8]] = &[b"declare", b"trap"];

/// Variables in order, with access by name.
#[derive(Debug, Default)]
pub(crate) struct SessionEnvironment<'a> {
    entries: Vec<(Bytes<'a>, Bytes<'a>)>,
    places: HashMap<Bytes<'a>, usize>,
}

type Bytes<'a> = Cow<'a, [u8]>;

impl<'a> SessionEnvironment<'a> {
    /// Returns the caller's environment for a launch without a session.
    pub(crate) fn from_caller(env: &'a [EnvVar], job_env: &'a [EnvVar]) -> Self {
        let mut environment = Self::default();
        for var in env.iter().chain(job_env) {
            environment.set(var.name.as_slice(), var.value.as_slice());
        }
        environment
    }

    /// Returns the environment of a shell in a session: the caller's, changed by
    /// the session, and overridden by the launch.
    pub(crate) fn of_session(
        session: &'a SavedSession,
        env: &'a [EnvVar],
        job_env: &'a [EnvVar],
    ) -> Self {
        let mut environment = Self::from_caller(env, &[]);
        for name in &session.withdrawn {
            environment.take(name);
        }
        for var in &session.exported {
            if !is_decided(job_env, &var.name) {
                environment.set(var.name.as_slice(), var.value.as_slice());
            }
        }
        for var in job_env {
            environment.set(var.name.as_slice(), var.value.as_slice());
        }
        environment
    }

    /// Adds the session's functions that bash can import from its environment,
    /// and returns them and the others.
    pub(crate) fn add_functions(
        &mut self,
        session: &'a SavedSession,
    ) -> (Vec<&'a SavedFunction>, Vec<&'a SavedFunction>) {
        let usable = session.shell == ShellKind::Bash
            && session.bash_major.is_some_and(|major| major >= IMPORTING_BASH);
        let mut budget = EnvironmentBudget::full();
        session.functions.iter().partition(|function| {
            let Some(value) = function.importable().filter(|_| usable) else {
                return false;
            };
            let fits = budget.takes(function.name.len() + value.len());
            if fits {
                let name = [b"BASH_FUNC_", function.name.as_slice(), b"%%"].concat();
                self.set(name, value);
            }
            fits
        })
    }

    /// Sets a variable.
    pub(crate) fn set(&mut self, name: impl Into<Bytes<'a>>, value: impl Into<Bytes<'a>>) {
        let name = name.into();
        if let Some(place) = self.places.get(&name) {
            self.entries[*place].1 = value.into();
        } else {
            self.places.insert(name.clone(), self.entries.len());
            self.entries.push((name, value.into()));
        }
    }

    /// Returns a variable's value.
    pub(crate) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.places.get(name).map(|place| &*self.entries[*place].1)
    }

    /// Removes a variable.
    pub(crate) fn take(&mut self, name: &[u8]) -> Option<Bytes<'a>> {
        let place = self.places.remove(name)?;
        let (_, value) = self.entries.remove(place);
        for later in self.places.values_mut().filter(|later| **later > place) {
            *later -= 1;
        }
        Some(value)
    }

    /// Returns the variables as `NAME=value`.
    pub(crate) fn to_strings(&self) -> Vec<Vec<u8>> {
        self.entries.iter().map(|(name, value)| [&**name, &**value].join(&b'=')).collect()
    }
}

impl SavedFunction {
    /// Returns the definition in the form that bash imports, if possible.
    fn importable(&self) -> Option<Vec<u8>> {
        let text = self.definition.strip_prefix(self.name.as_slice())?;
        let body = text.strip_prefix(b" () \n{")?;
        let odd_name = self.name.iter().any(|byte| matches!(byte, b'/' | b'=' | b'%'))
            || NOT_IMPORTED.contains(&self.name.as_slice());
        // Extended patterns can only be parsed with their option on.
        let extended =
            body.windows(2).any(|pair| matches!(pair, [b'@' | b'!' | b'+' | b'*' | b'?', b'(']));
        (!odd_name && !extended).then(|| [b"() {", body.trim_ascii_end()].concat())
    }
}

/// Returns whether a variable belongs to the shell, to our scripts or to the
/// launch.
pub(super) fn is_foreign(name: &[u8]) -> bool {
    let listed = |list: &[&str]| list.iter().any(|entry| entry.as_bytes() == name);
    let of_bash = (name.starts_with(b"BASH_") && !listed(BASH_SETTINGS))
        || name.starts_with(b"COMP_")
        || name == b"COMPREPLY";
    of_bash || listed(SHELL_OWNED) || listed(MARKS) || is_ours(name)
}

/// Returns whether a function or variable belongs to our scripts.
pub(super) fn is_ours(name: &[u8]) -> bool {
    name.starts_with(OURS)
}

/// Returns whether an unexported variable has its default value.
pub(super) fn is_default(name: &[u8], value: &[u8]) -> bool {
    // The shell sets these itself in every instance.
    matches!(name, b"HOSTNAME" | b"SHELL")
        || DEFAULTS.iter().any(|(known, default)| known.as_bytes() == name && *default == value)
}

/// Returns whether a shell can have a variable of this name.
pub(super) fn is_identifier(name: &[u8]) -> bool {
    let first = name.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    first && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}
