//! What several test files judge commands with.

use super::*;

/// Returns the paths of a user who works in `~/project`.
pub(super) fn path_context() -> PathContext {
    PathContext {
        user_home: Some("/home/me".to_owned()),
        vestal_home: Some("/home/me/.vestal".to_owned()),
        dir: Some("~/project".to_owned()),
        ..PathContext::default()
    }
}

/// Returns those of the commands that run unasked.
pub(super) fn unasked<'a>(path_context: &PathContext, commands: &[&'a str]) -> Vec<&'a str> {
    let harmless = |command: &&&str| examine(command, path_context).findings.is_empty();
    commands.iter().filter(harmless).copied().collect()
}
