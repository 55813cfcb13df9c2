//! What a shell command does, as far as its text tells.
//!
//! The text is taken apart as the shell would do it (`scan`, `word`, `script`),
//! expanded as far as that can be known beforehand (`expand`), looked through
//! for the programs that are really run (`walk`, `simple_command`, `prefix`, `run`, `code`), and
//! each of them is held against the rules (`rules`), against what is known to
//! be harmless (`uses`) and against where it writes (`places`); the rest is not understood (`understand`). This guards against
//! mistakes, not against a program written to get around it: what
//! must be kept from the host belongs into a sandbox with isolation.

mod code;
mod expand;
mod invocation;
mod places;
mod prefix;
mod rules;
mod run;
mod scan;
mod script;
mod secrets;
mod simple_command;
mod sums;
mod understand;
mod uses;
mod walk;
mod word;

#[cfg(test)]
#[path = "shell/danger_tests.rs"]
mod danger_tests;
#[cfg(test)]
#[path = "shell/hardline_tests.rs"]
mod hardline_tests;
#[cfg(test)]
#[path = "shell/harmless_tests.rs"]
mod harmless_tests;
#[cfg(test)]
#[path = "shell/hostile_tests.rs"]
mod hostile_tests;
#[cfg(test)]
#[path = "shell/places_tests.rs"]
mod places_tests;
#[cfg(test)]
#[path = "shell/secrets_tests.rs"]
mod secrets_tests;
#[cfg(test)]
#[path = "shell/sums_tests.rs"]
mod sums_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
#[path = "shell/understand_tests.rs"]
mod understand_tests;

use std::collections::HashSet;

use super::path_context::PathContext;

/// Name and reason of the rule for whole scripts.
pub(super) const SCRIPT: (&str, &str) =
    ("script", "runs with your rights on this machine, and its effects were not checked");

/// The reason of that rule where a sandbox has walls that do not hold.
pub(super) const WEAKENED_SCRIPT: &str =
    "runs in a sandbox whose isolation is weakened, and its effects were not checked";

/// Rules that hold within walls, for what is mounted from the host, and what
/// they say there.
pub(super) const MOUNT_REASONS: [(&str, &str); 4] = [
    (
        "write-sensitive",
        "changes a file in a mounted directory of your machine that holds credentials or is run \
         there by itself",
    ),
    ("empty-mount", "removes all of a directory of your machine that is mounted in the sandbox"),
    (
        "git-discard",
        "throws away work in a mounted directory of your machine that git does not keep",
    ),
    ("git-settings", "sets what git runs by itself in a mounted directory of your machine"),
];

/// Name and reason of the rule for tools that work outside the sandbox.
pub(super) const OUTSIDE: (&str, &str) =
    ("outside", "may destroy something outside the sandbox, by its own account");

/// How bad something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Risk {
    /// A person is asked.
    Dangerous,
    /// It is never done on the host.
    BlockedOnHost,
    /// It is never done.
    Hardline,
}

/// Something that is wrong with a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShellFinding {
    /// Name of the rule.
    pub(super) rule: &'static str,
    /// What it does, to be read after "this".
    pub(super) reason: &'static str,
    /// How bad that is.
    pub(super) severity: Risk,
    /// The part of the command that does it.
    pub(super) form: String,
    /// What an approval is kept for, where that is not the whole form: a program
    /// or a file, whatever its arguments.
    pub(super) subject: Option<String>,
    /// Whether an approval of that part means the same another time.
    pub(super) definite: bool,
}

/// What was found out about a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Examined {
    /// What is wrong with it.
    pub(super) findings: Vec<ShellFinding>,
    /// Every command in it, with and without what runs it.
    pub(super) commands: Vec<String>,
    /// Variables that it sets to something that may run where it is taken for a number.
    pub(super) suspects: HashSet<String>,
}

/// Examines a command.
pub(super) fn examine(command: &str, path_context: &PathContext) -> Examined {
    walk::ScriptWalk::new(path_context).whole(command)
}

/// Examines a Python script: the commands it starts by their text.
pub(super) fn examine_code(code: &str, path_context: &PathContext) -> Examined {
    walk::ScriptWalk::new(path_context).whole_code(code)
}

/// Examines the write of a file, its path absolute, by the rules for redirections of commands.
pub(super) fn examine_write(path: &str, path_context: &PathContext) -> Examined {
    walk::ScriptWalk::new(path_context).whole_file(path)
}

/// Reports whether a rule has this name.
pub(super) fn is_rule(name: &str) -> bool {
    rules::names().any(|rule| rule == name)
}
