//! Variables that are not a session's to keep.

/// Variables the shell makes or computes itself. They are never saved, and
/// their absence from a dump is no `unset`.
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

/// The variables with the prefix `BASH_` that are the user's.
const BASH_SETTINGS: &[&str] = &["BASH_COMPAT", "BASH_ENV"];

/// Values a fresh shell starts with by itself, unexported.
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

/// Marks of the instance and the job, which every launch brings itself.
const MARKS: &[&str] = &["VESTAL_INSTANCE", "VESTAL_JOB"];

/// What the names of our own functions and variables in a shell begin with.
const OURS: &[u8] = b"__vestal_";

/// Tells whether a variable belongs to the shell, to us or to the launch.
pub(super) fn is_foreign(name: &[u8]) -> bool {
    let listed = |list: &[&str]| list.iter().any(|entry| entry.as_bytes() == name);
    let of_bash = (name.starts_with(b"BASH_") && !listed(BASH_SETTINGS))
        || name.starts_with(b"COMP_")
        || name == b"COMPREPLY";
    of_bash || listed(SHELL_OWNED) || listed(MARKS) || is_ours(name)
}

/// Tells whether a function or variable is part of our scripts.
pub(super) fn is_ours(name: &[u8]) -> bool {
    name.starts_with(OURS)
}

/// Tells whether an unexported variable is as a fresh shell makes it.
pub(super) fn is_default(name: &[u8], value: &[u8]) -> bool {
    // The shell finds these out by itself, in each instance anew.
    matches!(name, b"HOSTNAME" | b"SHELL")
        || DEFAULTS.iter().any(|(known, default)| known.as_bytes() == name && *default == value)
}

/// Tells whether a shell can have a variable of this name.
pub(super) fn is_identifier(name: &[u8]) -> bool {
    let first = name.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    first && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}
