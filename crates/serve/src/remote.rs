//! What a client over a network may not do.
//!
//! Whoever holds the key of a gateway may use its agent and its sandboxes. What decides how far these
//! are kept from the machine, and what runs on the machine itself, is for whoever sits at it. Settings
//! say themselves whether clients may change them ([`ChangedBy`]); of verbs there is a list of what is
//! open. What is new is closed until somebody has thought about it.

use std::path::Path;

use vestal_config::{ChangedBy, Secrecy};

use crate::error::{self, RpcError};

/// Where the clients of a server are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientLocation {
    /// They are processes of the user whose profile it is, which could do anything themselves.
    Local,
    /// They come over a network, and have a key or a ticket and nothing else.
    Remote,
}

/// Verbs of the command line that are open: they show what the profile has, or do what the API
/// allows as well.
const VERBS: &[&[&str]] = &[
    &["config", "check"],
    &["config", "show"],
    &["conversations", "list"],
    &["conversations", "search"],
    &["conversations", "show"],
    &["cron", "list"],
    &["cron", "runs"],
    &["cron", "show"],
    &["cron", "status"],
    &["fork"],
    &["inspect"],
    &["jobs"],
    &["kanban", "assignees"],
    &["kanban", "boards", "list"],
    &["kanban", "comment"],
    &["kanban", "create"],
    &["kanban", "diagnostics"],
    &["kanban", "list"],
    &["kanban", "ls"],
    &["kanban", "log"],
    &["kanban", "runs"],
    &["kanban", "show"],
    &["kanban", "stats"],
    &["logs"],
    &["mcp", "list"],
    &["memory", "add"],
    &["memory", "remove"],
    &["memory", "replace"],
    &["memory", "show"],
    &["model", "list"],
    &["profile", "list"],
    &["ps"],
    &["rebuild"],
    &["restore"],
    &["rm"],
    &["skills", "list"],
    &["skills", "show"],
    &["snapshot"],
    &["snapshots", "list"],
    &["stop"],
    &["usage"],
];

/// Flags that are open, whichever verb they belong to. Others name backends, profiles, settings or
/// files of the machine.
const FLAGS: &[&str] = &[
    "--all", "--body", "--files", "--help", "--json", "--limit", "--name", "--note", "--status",
    "--stop", "--task", "--yes", "-a", "-h", "-n", "-t", "-y",
];

impl ClientLocation {
    /// Refuses to change a setting of the profile that guards the machine.
    pub(crate) fn check_setting(
        self,
        settings: &vestal_config::Settings,
        name: &str,
    ) -> Result<(), RpcError> {
        // What is no key is answered as that.
        let Some(key) = settings.schema().find(name) else { return Ok(()) };
        if self == Self::Local || key.changed_by() == ChangedBy::Clients {
            return Ok(());
        }
        let message =
            format!("{} cannot be set over a network: it is for who is at the machine", key.name());
        let profile = settings.home().profile();
        let advice = format!("there: vestal -p {profile} config set {} VALUE", key.name());
        Err(RpcError::new(error::NOT_PERMITTED, message).advise(advice))
    }

    /// Returns how a setting is shown: a secret that is asked for by name is shown only to who could
    /// read the file.
    pub(crate) fn secrecy(self, settings: &vestal_config::Settings, name: &str) -> Secrecy {
        match (self, settings.schema().find(name)) {
            (Self::Remote, Some(key)) => key.secrecy(),
            (Self::Local, _) | (Self::Remote, None) => Secrecy::Public,
        }
    }

    /// Refuses a verb of the command line that does more than the API allows.
    pub(crate) fn check_verb(self, words: &[String]) -> Result<(), RpcError> {
        if self == Self::Local || is_open_verb(words) {
            return Ok(());
        }
        let line = crate::protocol::shown(&words.join(" "));
        let message = format!(
            "`vestal {line}` is not for clients over a network, but for who is at the machine"
        );
        let advice = match words.first().map(String::as_str) {
            Some("config") => "config.set sets what is open; docs/serve.md says what that is",
            _ => "run it there; docs/serve.md says which verbs and flags are open",
        };
        Err(RpcError::new(error::NOT_PERMITTED, message).advise(advice))
    }

    /// Refuses to look at a file or directory of the machine.
    pub(crate) fn check_host_path(self, path: &Path, instead: &str) -> Result<(), RpcError> {
        if self == Self::Local {
            return Ok(());
        }
        let message = format!(
            "{} is on the server's machine, whose files are not for clients over a network",
            crate::protocol::shown(&path.display().to_string())
        );
        Err(RpcError::new(error::NOT_PERMITTED, message).advise(instead))
    }
}

/// Reports whether a verb and all its flags are open. A word that looks like a flag counts as one,
/// also where it would be the value of another: the two readings must not differ.
fn is_open_verb(words: &[String]) -> bool {
    let is_flag = |word: &&String| word.starts_with('-') && word.len() > 1;
    let is_open_flag = |word: &String| {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        FLAGS.contains(&name)
    };
    let is_verb = |verb: &&&[&str]| {
        words.len() >= verb.len() && words.iter().zip(**verb).all(|(word, own)| word == own)
    };
    VERBS.iter().any(|verb| is_verb(&verb)) && words.iter().filter(is_flag).all(is_open_flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_open(line: &str) -> bool {
        is_open_verb(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_verb_is_open_only_by_its_name_and_with_open_flags() {
        for line in [
            "kanban list --json",
            "kanban create tidy --body=all",
            "rebuild -t web -y",
            "snapshot -t web --name before --stop",
            "config show",
        ] {
            assert!(is_open(line), "{line}");
        }
        for line in [
            "",
            "run id",
            "config set terminal.backend local",
            "-b local ps",
            "-p other ps",
            "ps -p other",
            "ps --set=terminal.backend=local",
            "ps --",
            "rebuild -t web --backend local",
            "rebuild -t web --backend=local",
            "rebuild -yb local",
            "fork web copy --mount-cwd",
            "kanban create tidy --workspace dir:/etc",
            "kanban create tidy --body --workspace",
            "kanban assign t_1 other",
            "kanban boards create x",
            "mcp add x -- sh",
            "profile create x",
            "conversations export x /etc/cron.d/x",
            "model set x",
            "gateway stop",
            "kanban",
        ] {
            assert!(!is_open(line), "{line}");
        }
    }
}
