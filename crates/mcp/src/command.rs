//! Which file a command means.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::trouble::Trouble;

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;

/// Programs that are often installed where a service's `PATH` does not lead.
const OF_NODE: &[&str] = &["npx", "npm", "node"];

/// Where a command is looked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Whereabouts {
    /// The profile's directory, and the one of all profiles.
    pub(crate) homes: Vec<PathBuf>,
    /// The user's home.
    pub(crate) user_home: Option<PathBuf>,
    /// Where the program is started, if that is said: its path may begin there.
    pub(crate) cwd: Option<PathBuf>,
}

/// A command that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// The file.
    pub(crate) program: PathBuf,
    /// The `PATH` of the server: where the program is comes first, if the `PATH`
    /// did not lead there; `npx` looks for `node` in it.
    pub(crate) path: OsString,
}

/// Finds the file that a command means: a path is itself, a name is looked up
/// in the server's own `PATH`, and the programs of Node.js beyond it.
pub(crate) fn find(command: &str, path: &OsStr, places: &Whereabouts) -> Result<Found, Trouble> {
    if command.contains('/') {
        let program = match (command.strip_prefix("~/"), &places.user_home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(command),
        };
        // It is started elsewhere than where we are, perhaps.
        let program = match &places.cwd {
            Some(cwd) => cwd.join(program),
            None => std::path::absolute(&program).unwrap_or(program),
        };
        if !is_program(&program) {
            return Err(Trouble::NotFound(no_program(&program)));
        }
        let path = match program.parent() {
            Some(dir) => with_first(dir, path),
            None => path.to_owned(),
        };
        return Ok(Found { program, path });
    }
    let in_path = std::env::split_paths(path).filter(|dir| !dir.as_os_str().is_empty());
    if let Some(program) = in_path.map(|dir| dir.join(command)).find(|file| is_program(file)) {
        return Ok(Found { program, path: path.to_owned() });
    }
    let beyond = if OF_NODE.contains(&command) { beyond(places) } else { Vec::new() };
    for dir in &beyond {
        let program = dir.join(command);
        if is_program(&program) {
            return Ok(Found { program, path: with_first(dir, path) });
        }
    }
    Err(Trouble::NotFound(not_found(command, path, &beyond)))
}

fn no_program(file: &Path) -> String {
    let why = match std::fs::metadata(file) {
        Ok(about) if about.is_file() => {
            "may not be run by you; if it is a program: chmod +x".to_owned()
        }
        Ok(_) => "is a directory; write the program in it into mcp_servers".to_owned(),
        Err(error) => format!("cannot be started ({error}); correct it in mcp_servers"),
    };
    format!("{} {why}", file.display())
}

fn beyond(places: &Whereabouts) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = places.homes.iter().map(|home| home.join("node/bin")).collect();
    dirs.extend(places.user_home.iter().map(|home| home.join(".local/bin")));
    dirs.push(PathBuf::from("/usr/local/bin"));
    dirs.dedup();
    dirs
}

fn not_found(command: &str, path: &OsStr, beyond: &[PathBuf]) -> String {
    let beyond: Vec<String> = beyond.iter().map(|dir| dir.display().to_string()).collect();
    let also =
        if beyond.is_empty() { String::new() } else { format!(", nor in {}", beyond.join(", ")) };
    let next = if OF_NODE.contains(&command) {
        "install Node.js, or write the whole path into mcp_servers"
    } else {
        "install it, or write its whole path into mcp_servers"
    };
    format!("the program {command} is not in the PATH ({}){also}; {next}", path.display())
}

fn with_first(dir: &Path, path: &OsStr) -> OsString {
    let rest = std::env::split_paths(path).filter(|other| other != dir);
    let dirs = std::iter::once(dir.to_owned()).chain(rest);
    // A directory with a colon in its name cannot be in a PATH.
    std::env::join_paths(dirs).unwrap_or_else(|_| path.to_owned())
}

fn is_program(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|about| about.is_file())
        && access(file, Access::EXEC_OK).is_ok()
}
