//! Pictures, and files of text, that go with what is said.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use vestal_model::{Image, Part, UserMessage};
use vestal_tui::{mentioned_paths, pasted_path};

use crate::mentions;
use crate::program::Trouble;
use crate::text;

const MOST: u64 = Image::MOST_BYTES;

/// How names of pictures end.
const ENDINGS: [&str; 5] = [".png", ".jpg", ".jpeg", ".gif", ".webp"];

/// What is said, with the pictures and files it names.
#[derive(Debug)]
pub struct WithImages {
    /// What is said; its words are the first part.
    pub message: UserMessage,
    /// The files, in words.
    pub attached: Vec<String>,
    /// Files that were named and could not be taken.
    pub troubles: Vec<Trouble>,
}

/// Finds the pictures that words name: `@path`, or a path that ends like a
/// picture's does, as it is when a file is dragged into the terminal; and the
/// files of text that are mentioned with an `@`. What names no file stays what
/// it is: words.
pub fn attach(text: String, home: Option<&Path>) -> WithImages {
    let mut found = WithImages {
        message: UserMessage { parts: Vec::new() },
        attached: Vec::new(),
        troubles: Vec::new(),
    };
    let mut images = Vec::new();
    for path in paths(&text, home).into_iter().filter(|path| is_one(path)) {
        match read(&path) {
            Ok((image, size)) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                found.attached.push(format!("{name}, {}", text::bytes(size)));
                images.push(Part::Image(image));
            }
            Err(trouble) => found.troubles.push(trouble),
        }
    }
    for mentioned in mentions::texts(&text) {
        match mentioned {
            Ok(file) => {
                found.attached.push(file.about);
                images.push(file.part);
            }
            Err(trouble) => found.troubles.push(trouble),
        }
    }
    found.message.parts.push(Part::Text { text });
    found.message.parts.extend(images);
    found
}

/// Reports whether words name something that goes with them.
pub(crate) fn names_any(text: &str, home: Option<&Path>) -> bool {
    paths(text, home).iter().any(|path| is_one(path)) || mentions::names_any(text)
}

/// Reads a picture, whose kind its content tells, whatever it is called.
pub fn read(path: &Path) -> Result<(Image, u64), Trouble> {
    let name = path.display();
    let unreadable = |error: std::io::Error| Trouble {
        problem: format!("failed to read the image {name}: {error}"),
        advice: Vec::new(),
    };
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    let size = bytes.len() as u64;
    if size > MOST {
        return Err(Trouble {
            problem: format!(
                "the image {name} is larger than {}, the most that can be sent",
                text::bytes(MOST)
            ),
            advice: vec!["make it smaller first".to_owned()],
        });
    }
    let Some(image) = Image::from_bytes(&bytes) else {
        return Err(Trouble {
            problem: format!("{name} is none of the images that models read"),
            advice: vec!["they read PNG, JPEG, GIF and WebP".to_owned()],
        });
    };
    Ok((image, size))
}

/// Reports whether a path is a file that is called like a picture.
pub(crate) fn is_one(path: &Path) -> bool {
    let name = path.to_string_lossy().to_ascii_lowercase();
    ENDINGS.iter().any(|ending| name.ends_with(ending)) && path.is_file()
}

/// Returns the paths that words may name, each once.
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

/// Cuts text into words, as terminals write dragged paths: in quotes, or with
/// `\` before blanks.
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

#[cfg(test)]
#[path = "image_tests.rs"]
mod tests;
