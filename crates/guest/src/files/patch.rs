//! Replaces pieces of a file, byte for byte, all of them or none.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use memchr::{memchr_iter, memmem};
use vestal_wire::{CreateMode, Fault, FaultCode, FileEdit, FileReply, FileVersion};

use super::metadata::{ExactVersion, size, version};
use super::paths::ParentDirs;
use super::perform::{OrFault, PathRoots, check, refused, shown};
use super::read::{open_regular, read_at};
use super::write::{Precondition, ReplaceRequest, replace, resolve_file};

/// Maximum size of a patched file, before and after. It is held in memory.
const MAX_SIZE: u64 = 64 << 20;

/// Number of matches that are listed if a text is ambiguous.
const LINES_NAMED: usize = 5;

/// Applies `edits` in order to the file at path `raw`.
pub(super) fn patch(
    raw: &[u8],
    edits: &[FileEdit],
    expect: Option<FileVersion>,
    roots: &PathRoots,
    cancelled: &AtomicBool,
) -> Result<FileReply, Fault> {
    let path = resolve_file(raw, roots)?;
    if edits.is_empty() {
        return Err(refused(FaultCode::Invalid, "patch", &path, "there are no edits"));
    }
    if edits.iter().any(|edit| edit.old.is_empty()) {
        let why = "an edit has no text to look for";
        return Err(refused(FaultCode::Invalid, "patch", &path, why));
    }
    let (mut content, exact, found) = load(&path, cancelled)?;
    if expect.is_some_and(|expected| expected != found) {
        let why = "it has changed since it was read";
        return Err(refused(FaultCode::Conflict, "patch", &path, why));
    }
    let mut replaced = 0_u32;
    for (index, edit) in edits.iter().enumerate() {
        check(cancelled)?;
        let location = EditLocation { path: &path, number: index + 1, total: edits.len() };
        let (edited, count) = apply(&content, edit, &location)?;
        content = edited;
        replaced = replaced.saturating_add(count);
    }
    let replacement = ReplaceRequest {
        path: &path,
        create: CreateMode::Existing,
        parents: ParentDirs::Expect,
        mode: None,
        precondition: Precondition::ExactVersion(exact),
    };
    let done = replace(&replacement, &mut &content[..], cancelled)?;
    Ok(FileReply::Written {
        metadata: done.metadata,
        created: done.created,
        in_place: done.in_place,
        replaced,
    })
}

/// Reads a whole file and its version.
fn load(
    path: &Path,
    cancelled: &AtomicBool,
) -> Result<(Vec<u8>, ExactVersion, FileVersion), Fault> {
    let (file, found) = open_regular(path)?;
    let mut content = Vec::new();
    let expected = size(&found);
    if expected <= MAX_SIZE {
        content.reserve_exact(usize::try_from(expected).unwrap_or(0) + 1);
    }
    let mut piece = vec![0; 64 << 10];
    loop {
        check(cancelled)?;
        if expected > MAX_SIZE || content.len() as u64 > MAX_SIZE {
            return Err(too_large(path));
        }
        match read_at(&file, &mut piece, content.len() as u64).or_fault("read", path)? {
            0 => return Ok((content, ExactVersion::of(&found), version(&found))),
            got => content.extend_from_slice(&piece[..got]),
        }
    }
}

fn too_large(path: &Path) -> Fault {
    let why = format!("files of more than {} MiB are not patched", MAX_SIZE >> 20);
    refused(FaultCode::NoSpace, "patch", path, &why)
}

/// An edit of a file, for faults.
struct EditLocation<'a> {
    path: &'a Path,
    number: usize,
    total: usize,
}

impl EditLocation<'_> {
    fn conflict(&self, why: &str) -> Fault {
        let Self { path, number, total } = self;
        Fault::new(
            FaultCode::Conflict,
            format!("cannot patch {}: edit {number} of {total}: {why}", shown(path)),
        )
    }
}

/// Returns the content with one edit applied, and the number of replacements.
fn apply(
    content: &[u8],
    edit: &FileEdit,
    location: &EditLocation<'_>,
) -> Result<(Vec<u8>, u32), Fault> {
    let spots: Vec<usize> = memmem::find_iter(content, &edit.old[..]).collect();
    if spots.is_empty() {
        return Err(location.conflict(&format!("text not found{}", hint(content, &edit.old))));
    }
    if spots.len() > 1 && !edit.all {
        return Err(location.conflict(&ambiguous(content, &spots)));
    }
    let kept = content.len() - spots.len() * edit.old.len();
    let length = spots.len().checked_mul(edit.new.len()).and_then(|new| new.checked_add(kept));
    let Some(length) = length.filter(|length| *length as u64 <= MAX_SIZE) else {
        return Err(too_large(location.path));
    };
    let mut edited = Vec::with_capacity(length);
    let mut from = 0;
    for spot in &spots {
        edited.extend_from_slice(&content[from..*spot]);
        edited.extend_from_slice(&edit.new);
        from = spot + edit.old.len();
    }
    edited.extend_from_slice(&content[from..]);
    Ok((edited, u32::try_from(spots.len()).unwrap_or(u32::MAX)))
}

fn ambiguous(content: &[u8], spots: &[usize]) -> String {
    let mut lines = Vec::new();
    let (mut line, mut counted) = (1, 0);
    for &spot in spots.iter().take(LINES_NAMED) {
        line += memchr_iter(b'\n', &content[counted..spot]).count();
        counted = spot;
        lines.push(line.to_string());
    }
    let more = if spots.len() > LINES_NAMED { ", …" } else { "" };
    format!("text found {} times, in lines {}{more}", spots.len(), lines.join(", "))
}

/// Returns a hint why a text was not found.
fn hint(content: &[u8], old: &[u8]) -> &'static str {
    let unix = |bytes: &[u8]| trim_lines(bytes, b"\r");
    if memmem::find(&unix(content), &unix(old)).is_some() {
        return "; it matches except for line endings (CRLF or LF)";
    }
    let trimmed = |bytes: &[u8]| trim_lines(bytes, b" \t\r");
    let text = trimmed(old);
    if !text.is_empty() && memmem::find(&trimmed(content), &text).is_some() {
        return "; it matches except for spaces at the ends of lines";
    }
    ""
}

/// Returns the text with `blanks` removed from the end of every line.
fn trim_lines(text: &[u8], blanks: &[u8]) -> Vec<u8> {
    let mut trimmed = Vec::with_capacity(text.len());
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        if index > 0 {
            trimmed.push(b'\n');
        }
        let length = line.iter().rposition(|byte| !blanks.contains(byte)).map_or(0, |at| at + 1);
        trimmed.extend_from_slice(&line[..length]);
    }
    trimmed
}

#[cfg(test)]
#[path = "patch_tests.rs"]
mod tests;
