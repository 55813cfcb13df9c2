//! Images and text files that are sent along with a message.

use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use vestal_model::{Image, Part, UserMessage};
use vestal_tui::{format, mentioned_paths, pasted_path};

use crate::host::ChatError;

const MOST_IMAGE_BYTES: u64 = Image::MOST_BYTES;

/// File extensions of images.
const ENDINGS: [&str; 5] = [".png", ".jpg", ".jpeg", ".gif", ".webp"];

/// A message with its attachments.
#[derive(Debug)]
pub struct WithImages {
    /// The message; its text is the first part.
    pub message: UserMessage,
    /// Descriptions of the attached files.
    pub attached: Vec<String>,
    /// Files that could not be attached.
    pub errors: Vec<ChatError>,
}

/// Files that go with one message.
const MOST_FILES: usize = 20;

/// Bytes of text files that go with one message.
const MOST_TEXT_TOGETHER: u64 = 256 << 10;

/// Attaches the files that a text names: images as `@path` or as a plain path, as terminals
/// write dragged files, and text files as `@path`. Names of missing files stay plain text.
pub fn attach(text: String, home: Option<&Path>) -> WithImages {
    let typed = text.clone();
    attach_typed(text, &typed, home)
}

/// Attaches the files that `typed` names to `text`, which also has what was pasted: somebody else
/// may have written that, and names what it likes.
pub(crate) fn attach_typed(text: String, typed: &str, home: Option<&Path>) -> WithImages {
    let mut found = WithImages {
        message: UserMessage { parts: Vec::new() },
        attached: Vec::new(),
        errors: Vec::new(),
    };
    let mut parts = Vec::new();
    for path in paths(typed, home).into_iter().filter(|path| is_image(path)) {
        if parts.len() >= MOST_FILES {
            found.errors.push(too_many(&path));
            continue;
        }
        match read_image(&path) {
            Ok((image, size)) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                found.attached.push(format!("{name}, {}", format::bytes(size)));
                parts.push(Part::Image(image));
            }
            Err(failure) => found.errors.push(failure),
        }
    }
    let mut left = MOST_TEXT_TOGETHER;
    for path in mentioned_text_paths(typed) {
        if parts.len() >= MOST_FILES {
            found.errors.push(too_many(&path));
            continue;
        }
        match read_text_file(&path, left.min(MOST_TEXT_BYTES)) {
            Some(Ok(file)) => {
                left = left.saturating_sub(file.size);
                found.attached.push(file.about);
                parts.push(file.part);
            }
            Some(Err(failure)) => found.errors.push(failure),
            None => {}
        }
    }
    found.message.parts.push(Part::Text { text });
    found.message.parts.extend(parts);
    found
}

/// Returns what the user wrote of a message, without the files that went with it.
pub(crate) fn written_text(message: &UserMessage) -> String {
    let texts = message.parts.iter().filter_map(|part| match part {
        Part::Text { text } if !text.starts_with(ATTACHED) => Some(text.as_str()),
        Part::Text { .. } | Part::Image(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

/// How the text of an attached file begins.
const ATTACHED: &str = "[The file ";

fn too_many(path: &Path) -> ChatError {
    ChatError {
        problem: format!(
            "@{} was not attached: a message takes {MOST_FILES} files",
            path.display()
        ),
        advice: vec!["name it in the next message".to_owned()],
    }
}

/// Reports whether a text names a file to attach.
pub(crate) fn names_any(typed: &str, home: Option<&Path>) -> bool {
    paths(typed, home).iter().any(|path| is_image(path)) || names_text_file(typed)
}

/// Reads an image; its format is detected from its content.
pub fn read_image(path: &Path) -> Result<(Image, u64), ChatError> {
    let name = path.display();
    let unreadable = |error: std::io::Error| ChatError {
        problem: format!("failed to read the image {name}: {error}"),
        advice: Vec::new(),
    };
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(MOST_IMAGE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    let size = bytes.len() as u64;
    if size > MOST_IMAGE_BYTES {
        return Err(ChatError {
            problem: format!(
                "the image {name} is larger than the limit of {}",
                format::bytes(MOST_IMAGE_BYTES)
            ),
            advice: vec!["make it smaller".to_owned()],
        });
    }
    let Some(image) = Image::from_bytes(&bytes) else {
        return Err(ChatError {
            problem: format!("{name} is not an image that models can read"),
            advice: vec!["supported formats: PNG, JPEG, GIF, WebP".to_owned()],
        });
    };
    Ok((image, size))
}

/// Reports whether a path is a file with the extension of an image.
pub(crate) fn is_image(path: &Path) -> bool {
    let name = path.to_string_lossy().to_ascii_lowercase();
    ENDINGS.iter().any(|ending| name.ends_with(ending)) && path.is_file()
}

/// Returns the paths that a text may name, without duplicates.
fn paths(text: &str, home: Option<&Path>) -> Vec<PathBuf> {
    let mentioned = mentioned_paths(text).into_iter().map(|(_, path)| path);
    let mut paths: Vec<PathBuf> = mentioned.chain(pasted_path(text)).collect();
    for word in words(text) {
        let path = match (word.strip_prefix("~/"), home) {
            (Some(below), Some(home)) => home.join(below),
            _ => PathBuf::from(word.strip_prefix("file://").unwrap_or(&word)),
        };
        if path.is_absolute() {
            paths.push(path);
        }
    }
    let mut once = Vec::new();
    for path in paths {
        if !once.contains(&path) {
            once.push(path);
        }
    }
    once
}

/// Splits text into words as terminals write dragged paths: quoted, or with escaped blanks.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', None) => word.extend(chars.next()),
            ('\'' | '"', None) if word.is_empty() => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (c, None) if c.is_whitespace() => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            (c, _) => word.push(c),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Bytes of a text file that are attached; tools can read the rest.
const MOST_TEXT_BYTES: u64 = 64 << 10;

/// An attached file.
#[derive(Debug)]
pub(crate) struct AttachedText {
    pub(crate) part: Part,
    /// A description of the file.
    pub(crate) about: String,
    /// Bytes of it that are attached.
    size: u64,
}

/// Reports whether a text mentions a text file.
pub(crate) fn names_text_file(text: &str) -> bool {
    mentioned_paths(text).iter().any(|(_, path)| path.is_file() && !is_image(path))
}

/// Returns the paths that a text mentions and that name no image, each once.
fn mentioned_text_paths(text: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for (_, path) in mentioned_paths(text) {
        if !is_image(&path) && !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

/// Reads a text file that is mentioned, up to `most` bytes. A path that cannot be attached is an
/// error, so that nobody believes it was read; nothing is what names no file.
fn read_text_file(path: &Path, most: u64) -> Option<Result<AttachedText, ChatError>> {
    let name = path.display();
    let failure = |why: &str, advice: &str| {
        let advice = if advice.is_empty() { Vec::new() } else { vec![advice.to_owned()] };
        Some(Err(ChatError { problem: format!("@{name} was not attached: {why}"), advice }))
    };
    let Ok(metadata) = std::fs::metadata(path) else {
        // `@somebody` is plain text; `@notes.txt` and `@src/main.rs` are paths.
        let is_file = path.extension().is_some() || path.components().count() > 1;
        return if is_file { failure("no such file", "") } else { None };
    };
    if metadata.is_dir() {
        return failure("it is a directory", "name a file in it");
    }
    // Checked before opening: opening a pipe would wait for a writer.
    if !metadata.is_file() {
        return failure("it is not a regular file", "");
    }
    if let Some(real) = leads_outside(path) {
        let why = format!("it is a link that leads out of this directory, to {}", real.display());
        return failure(&why, "to attach it, name that file itself");
    }
    if most == 0 {
        let most = format::bytes(MOST_TEXT_TOGETHER);
        return failure(
            &format!("the other files of this message take up the {most} that it may have"),
            "name it in the next message",
        );
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
    if let Err(error) = read {
        return failure(&error.to_string(), "");
    }
    let whole = format::bytes(metadata.len());
    let valid = match std::str::from_utf8(&bytes) {
        Ok(text) => text,
        // The limit may have cut a character in two.
        Err(error) if bytes.len() - error.valid_up_to() < 4 => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => {
            return failure("it is not text", "copy it into the sandbox with `vestal cp`");
        }
    };
    if valid.contains('\0') {
        return failure("it is not text", "copy it into the sandbox with `vestal cp`");
    }
    if is_private_key(valid) {
        return failure(
            "it has a private key in it, which models need not see",
            "copy it into the sandbox with `vestal cp` if a program there needs it",
        );
    }
    let is_cut = metadata.len() > valid.len() as u64;
    let (about, cut) = if is_cut {
        let shown = format::bytes(valid.len() as u64);
        (
            format!("{name}, the first {shown} of {whole}"),
            format!(" (the first {shown} of {whole})"),
        )
    } else {
        (format!("{name}, {whole}"), String::new())
    };
    let size = valid.len() as u64;
    let text = format!("{ATTACHED}{name}, attached by the user{cut}:]\n{valid}");
    Some(Ok(AttachedText { part: Part::Text { text }, about, size }))
}

/// Returns where a path leads that reads as one below the directory that the user is in and is not:
/// whoever wrote the link chose that file, and not whoever typed the path.
fn leads_outside(path: &Path) -> Option<PathBuf> {
    let reads_as_below =
        path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !reads_as_below {
        return None;
    }
    let here = std::env::current_dir().and_then(|here| here.canonicalize()).ok()?;
    let real = path.canonicalize().ok()?;
    (!real.starts_with(here)).then_some(real)
}

/// Reports whether a text has a private key in it, by the line that begins one.
fn is_private_key(text: &str) -> bool {
    text.lines().any(|line| {
        let label = line.trim().strip_prefix("-----BEGIN ").and_then(|it| it.strip_suffix("-----"));
        label.is_some_and(|label| label.contains("PRIVATE KEY"))
            || line.starts_with("PuTTY-User-Key-File-")
    })
}

#[cfg(test)]
#[path = "attachments_tests.rs"]
mod tests;
