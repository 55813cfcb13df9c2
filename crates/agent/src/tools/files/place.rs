//! Which file a path means, behind all links, so that rules about places hold
//! however a place is reached.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use futures_util::future::join_all;
use vestal_sandbox::files::{FileError, Files, Links};
use vestal_wire::{FaultCode, FileKind};

use super::failure::{is, refused};
use crate::tool::{ToolContext, ToolOutput};

/// Most links on the way to a file, as in the kernel.
const MAX_LINKS: usize = 40;

/// A path in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::tools) struct Place {
    /// The path as it was given, from the sandbox's root.
    pub(in crate::tools) absolute: PathBuf,
    /// The file behind all links, as far as it is there.
    pub(in crate::tools) real: PathBuf,
}

impl Place {
    /// Returns the path for messages and results.
    pub(in crate::tools) fn shown(&self) -> String {
        self.absolute.to_string_lossy().into_owned()
    }
}

/// Finds out which file a path means.
pub(in crate::tools) async fn locate(files: &Files, path: &str) -> Result<Place, FileError> {
    let absolute = absolute(files, path).await?;
    let real = real(files, &absolute).await?;
    Ok(Place { absolute: plain(&absolute), real })
}

/// Returns a path from the root, `~` and the session's directory resolved by
/// the sandbox, which alone knows them.
async fn absolute(files: &Files, path: &str) -> Result<PathBuf, FileError> {
    let (base, rest) = match path.strip_prefix('~') {
        Some("") => ("~", ""),
        Some(rest) if rest.starts_with('/') => ("~", rest.trim_start_matches('/')),
        _ if path.starts_with('/') => return Ok(PathBuf::from(path)),
        _ => (".", path),
    };
    let base = files.stat(base, Links::Follow).await?;
    Ok(Path::new(OsStr::from_bytes(&base.path)).join(rest))
}

/// Follows all links of an absolute path. Everything that is no link is asked
/// about at once, so that a path without links takes one round trip.
async fn real(files: &Files, absolute: &Path) -> Result<PathBuf, FileError> {
    let mut real = PathBuf::from("/");
    let mut ahead: VecDeque<OsString> = names(absolute);
    for _ in 0..=MAX_LINKS {
        while ahead.front().is_some_and(|name| name == "..") {
            ahead.pop_front();
            real.pop();
        }
        if ahead.is_empty() {
            return Ok(real);
        }
        let plain: Vec<OsString> = ahead.iter().take_while(|name| *name != "..").cloned().collect();
        let mut paths = Vec::with_capacity(plain.len());
        for name in &plain {
            let before = paths.last().unwrap_or(&real);
            let path: PathBuf = before.join(name);
            paths.push(path);
        }
        let found = join_all(paths.iter().map(|path| files.stat(path, Links::Keep))).await;
        let mut link = None;
        for (index, found) in found.into_iter().enumerate() {
            match found {
                Ok(metadata) if metadata.kind == FileKind::Symlink => {
                    link = metadata.target.map(|target| (index, target));
                    break;
                }
                Ok(_) => {}
                // What is not there, or cannot be looked at, is no link; what
                // it is asked for will say so.
                Err(error) if is_about_the_path(&error) => break,
                Err(error) => return Err(error),
            }
        }
        match link {
            None => {
                ahead.drain(..plain.len());
                real = paths.pop().unwrap_or(real);
            }
            Some((index, target)) => {
                ahead.drain(..=index);
                if index > 0 {
                    real.clone_from(&paths[index - 1]);
                }
                let target = Path::new(OsStr::from_bytes(&target));
                if target.is_absolute() {
                    real = PathBuf::from("/");
                }
                let mut behind = names(target);
                behind.append(&mut ahead);
                ahead = behind;
            }
        }
    }
    // A circle of links: whatever is done with the path fails by itself.
    Ok(plain(absolute))
}

fn is_about_the_path(error: &FileError) -> bool {
    [FaultCode::NotFound, FaultCode::WrongKind, FaultCode::Denied, FaultCode::Invalid]
        .into_iter()
        .any(|code| is(error, code))
}

fn names(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect()
}

/// Returns a path with `..` taken for the directory before it.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::from("/");
    for name in names(path) {
        if name == ".." {
            plain.pop();
        } else {
            plain.push(name);
        }
    }
    plain
}

/// Asks whether a file may be written, by its name and by where that leads.
/// Returns the words of the person who allowed it, if one was asked.
pub(in crate::tools) async fn cleared(
    context: &ToolContext,
    place: &Place,
) -> Result<Option<String>, ToolOutput> {
    let mut approval = None;
    let mut paths = vec![&place.absolute];
    if place.real != place.absolute {
        paths.push(&place.real);
    }
    for path in paths {
        let clearance = context.guard.write(context, &path.to_string_lossy()).await;
        let clearance = clearance.map_err(|refusal| refused(&refusal))?;
        approval = clearance.approved_by_person.or(approval);
    }
    Ok(approval)
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
