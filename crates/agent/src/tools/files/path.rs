//! Resolves paths behind all links, so that rules about files hold
//! however a file is reached.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use futures_util::future::join_all;
use serde_json::json;
use vestal_sandbox::client::CallError;
use vestal_sandbox::files::{FileError, Files, Links};
use vestal_sandbox::{FaultCode, FileKind, SearchQuery};

use crate::approvals::ApprovalRefusal;
use crate::tool::{ToolContext, ToolOutput};

/// Most links on the way to a file, as in the kernel.
const MAX_LINKS: usize = 40;

/// A path in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::tools) struct ResolvedPath {
    /// The path as it was given, from the sandbox's root.
    pub(in crate::tools) absolute: PathBuf,
    /// The file behind all links, as far as it is there.
    pub(in crate::tools) real: PathBuf,
}

impl ResolvedPath {
    /// Returns the path for messages and results.
    pub(in crate::tools) fn shown(&self) -> String {
        self.absolute.to_string_lossy().into_owned()
    }
}

/// Finds out which file a path means.
pub(in crate::tools) async fn resolve(
    files: &Files,
    path: &str,
) -> Result<ResolvedPath, FileError> {
    let absolute = absolute(files, path).await?;
    let real = real(files, &absolute).await?;
    Ok(ResolvedPath { absolute: plain(&absolute), real })
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

/// Follows all links of an absolute path. Everything that is not a link is asked
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
                // What is not there, or cannot be looked at, is not a link; what
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
        .any(|code| has_code(error, code))
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
pub(in crate::tools) async fn check_write(
    context: &ToolContext,
    target: &ResolvedPath,
) -> Result<Option<String>, ToolOutput> {
    let mut approval = None;
    let mut paths = vec![&target.absolute];
    if target.real != target.absolute {
        paths.push(&target.real);
    }
    for path in paths {
        let clearance = context.guard.write(context, &path.to_string_lossy()).await;
        let clearance = clearance.map_err(|refusal| refused(&refusal))?;
        approval = clearance.approved_by_person.or(approval);
    }
    Ok(approval)
}

/// Most names that are offered.
const OFFERED: usize = 5;

/// Most names of a directory that are looked at.
const LOOKED_AT: u32 = 2_000;

/// How alike names must be.
const ALIKE: f64 = 0.7;

/// Returns paths that may be meant by one that leads nowhere: names like it
/// beside it, else the same name elsewhere below the session's directory.
async fn names_like(files: &Files, target: &ResolvedPath) -> Vec<String> {
    let (Some(dir), Some(name)) = (target.absolute.parent(), target.absolute.file_name()) else {
        return Vec::new();
    };
    let name = name.to_string_lossy();
    if let Ok(page) = files.list(dir, LOOKED_AT).await {
        let names = page.entries.iter().map(|entry| String::from_utf8_lossy(&entry.name));
        let beside = most_alike(&name, names.map(std::borrow::Cow::into_owned));
        if !beside.is_empty() {
            return beside.iter().map(|name| dir.join(name).to_string_lossy().into()).collect();
        }
    }
    let query = SearchQuery {
        root: b".".to_vec().into(),
        glob: Some(escaped(&name)),
        regex: None,
        ignore_case: true,
        hidden: false,
        ignored: false,
        skip: 0,
        limit: u32::try_from(OFFERED).unwrap_or(u32::MAX),
        context: 0,
    };
    let found = files.search(query).await.map(|found| found.matches).unwrap_or_default();
    let path =
        |bytes: &[u8]| Path::new(std::ffi::OsStr::from_bytes(bytes)).to_string_lossy().into();
    found.iter().map(|hit| path(&hit.path)).collect()
}

/// Says that a file is not there, and which ones may be meant.
pub(in crate::tools) async fn not_found(files: &Files, target: &ResolvedPath) -> serde_json::Value {
    let similar = names_like(files, target).await;
    let mut error = format!("file not found: {}", target.shown());
    if !similar.is_empty() {
        error.push_str("; did you mean one of `similar_files`?");
    }
    serde_json::json!({ "error": error, "similar_files": similar })
}

/// Returns the names most like one, the best first.
fn most_alike(name: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    let name = name.to_lowercase();
    let stem = |name: &str| name.rsplit_once('.').map_or(name, |(stem, _)| stem).to_owned();
    let score = |other: &str| {
        let other = other.to_lowercase();
        let contains = name.len() > 2 && (other.contains(&name) || name.contains(&other));
        let same_stem = stem(&name) == stem(&other);
        let alike = strsim::normalized_damerau_levenshtein(&name, &other);
        if contains || same_stem { alike.max(ALIKE) } else { alike }
    };
    let mut alike: Vec<(f64, String)> =
        names.map(|other| (score(&other), other)).filter(|(score, _)| *score >= ALIKE).collect();
    alike.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    alike.into_iter().take(OFFERED).map(|(_, name)| name).collect()
}

/// Returns a glob that matches just this name.
fn escaped(name: &str) -> String {
    let mut glob = String::with_capacity(name.len());
    for character in name.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '{' | '}' | '\\' | ',') {
            glob.push('\\');
        }
        glob.push(character);
    }
    glob
}

/// Says what failed.
pub(in crate::tools) fn message_of(error: &FileError) -> String {
    match error {
        FileError::Call(CallError::Fault(fault)) => fault.message.clone(),
        other => other.to_string(),
    }
}

/// Reports whether an operation failed for this reason.
pub(in crate::tools) fn has_code(error: &FileError, code: FaultCode) -> bool {
    matches!(error, FileError::Call(CallError::Fault(fault)) if fault.code == code)
}

/// Returns what the model reads when it may not do something.
pub(in crate::tools) fn refused(refusal: &ApprovalRefusal) -> ToolOutput {
    let content = json!({ "error": refusal.message, "status": refusal.status.as_str() });
    ToolOutput { is_error: true, ..ToolOutput::json(&content) }
}

/// Whether a path may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tools) enum Readable {
    Yes,
    /// It may not, and this is why.
    No(&'static str),
}

/// Files of a process that show its memory, environment or arguments.
const OF_PROCESSES: &[&str] = &[
    "auxv",
    "cmdline",
    "environ",
    "fd",
    "fdinfo",
    "map_files",
    "maps",
    "mem",
    "numa_maps",
    "pagemap",
    "smaps",
    "smaps_rollup",
    "stack",
    "syscall",
];

/// Files of the kernel that show memory or never end.
const OF_THE_KERNEL: &[&str] = &["kcore", "kmsg", "kpagecount", "kpageflags"];

/// Reports whether a path, behind all links, may be read.
pub(in crate::tools) fn readable(path: &Path) -> Readable {
    let names: Vec<&str> = path
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => name.to_str().or(Some("?")),
            _ => None,
        })
        .collect();
    match names[..] {
        ["dev", "shm", _, ..] => Readable::Yes,
        ["dev", ..] => Readable::No("devices are not read as files"),
        ["proc", name] if OF_THE_KERNEL.contains(&name) => {
            Readable::No("it shows the kernel's memory")
        }
        ["proc", _, "task", _, name, ..] | ["proc", _, name, ..]
            if OF_PROCESSES.contains(&name) =>
        {
            Readable::No("it shows the memory, environment or arguments of a process")
        }
        _ => Readable::Yes,
    }
}

#[cfg(test)]
#[path = "path_tests.rs"]
mod tests;
