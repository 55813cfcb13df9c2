//! Secrets that a command reads, whatever program it is that reads them.

use super::Risk;
use super::expand::Argument;
use super::invocation::ProgramRun;
use super::walk::ScriptWalk;
use crate::approvals::paths;

pub(super) const READ_SECRET: (&str, &str) =
    ("read-secret", "reads keys or passwords of yours, which could then be shown or sent");

/// Programs that are handed names of files and read no contents, or use a key for what it is for.
const NAMES_ONLY: [&str; 30] = [
    "ls", "dir", "vdir", "exa", "eza", "tree", "stat", "test", "[", "echo", "printf", "file", "du",
    "df", "realpath", "readlink", "dirname", "basename", "cd", "pushd", "popd", "mkdir", "rmdir",
    "rm", "unlink", "chmod", "touch", "which", "type", "ssh",
];

/// Programs that print a file as it is, so that what is secret in it is masked.
const PRINTS: [&str; 10] =
    ["cat", "head", "tail", "grep", "egrep", "fgrep", "rg", "less", "more", "wc"];

impl ScriptWalk<'_> {
    /// Asks about a program that is handed a file of secrets.
    pub(super) fn reads_secrets(&mut self, it: &ProgramRun<'_>) {
        let hands_on = it.program == "find"
            && !it.texts().any(|text| text.starts_with("-exec") || text.starts_with("-ok"));
        if hands_on || NAMES_ONLY.contains(&it.program) {
            return;
        }
        let found = it.arguments.iter().any(|argument| {
            named(&argument.text).into_iter().any(|text| self.is_secret(text, argument, it.program))
        });
        if found {
            self.find(READ_SECRET, Risk::Dangerous, it.form(), it.is_definite());
        }
    }

    /// Asks about a redirection from a file of secrets, or from another machine.
    pub(super) fn reads_file(&mut self, source: &Argument) {
        let path = paths::canonical(&source.text, None, self.path_context);
        if path.starts_with("/dev/tcp/") || path.starts_with("/dev/udp/") {
            let rule = ("send-out", "sends something of yours to another machine");
            self.find(rule, Risk::Dangerous, format!("< {path}"), !source.is_unknown());
        } else if self.is_secret(&source.text, source, "<") {
            self.find(READ_SECRET, Risk::Dangerous, format!("< {path}"), !source.is_unknown());
        }
    }

    fn is_secret(&self, text: &str, argument: &Argument, program: &str) -> bool {
        let context = self.path_context;
        if text.is_empty() || text.contains("://") || context.mounts.is_some() {
            return false;
        }
        let base =
            self.cwd.as_deref().map(|cwd| paths::canonical(cwd, context.dir.as_deref(), context));
        let path = paths::canonical(text, base.as_deref().or(context.dir.as_deref()), context);
        let masked = PRINTS.contains(&program);
        let own = |path: &str| {
            // The project's own are part of the work.
            let own = context.own_dir().is_some_and(|dir| paths::is_below(path, dir));
            masked && (own || paths::is_temporary(path))
        };
        let secret = |path: &str| paths::is_secret(path, context) && !own(path);
        secret(&path)
            || context.sees_files
                && !argument.is_unknown()
                && self.real(&path, argument, false).is_some_and(|real| secret(&real))
    }
}

/// Returns what of a word may be the name of a file.
fn named(text: &str) -> Vec<&str> {
    let text = text.strip_prefix("file://").unwrap_or(text);
    let value = text.split_once('=').map(|(_, value)| value.trim_start_matches('@'));
    let joined = text.strip_prefix('-').and_then(|short| short.get(1..));
    let joined = joined.filter(|value| value.starts_with(['/', '~', '.']));
    let whole = (!text.starts_with('-')).then(|| text.trim_start_matches('@'));
    whole.into_iter().chain(value).chain(joined).collect()
}
