//! Files of text that words mention: `@notes.txt`.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use vestal_model::Part;
use vestal_tui::mentioned_paths;

use crate::program::Trouble;
use crate::text;

/// Bytes of a file that go with what is said. The rest is the tools' to read.
const MOST: u64 = 64 << 10;

/// A file that goes with what is said.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) part: Part,
    /// The file, in words.
    pub(crate) about: String,
}

/// Reports whether words mention a file of text.
pub(crate) fn names_any(text: &str) -> bool {
    mentioned_paths(text).iter().any(|(_, path)| path.is_file() && !super::image::is_one(path))
}

/// Reads the files that words mention, pictures aside. What looks like a file
/// and cannot be taken is told, so that nobody believes it was read.
pub(crate) fn texts(words: &str) -> Vec<Result<Attached, Trouble>> {
    let mut seen = Vec::new();
    let mut found = Vec::new();
    for (_, path) in mentioned_paths(words) {
        if super::image::is_one(&path) || seen.contains(&path) {
            continue;
        }
        if let Some(read) = read(&path) {
            found.push(read);
        }
        seen.push(path);
    }
    found
}

fn read(path: &Path) -> Option<Result<Attached, Trouble>> {
    let name = path.display();
    let trouble = |problem: String, advice: &str| {
        let advice = if advice.is_empty() { Vec::new() } else { vec![advice.to_owned()] };
        Some(Err(Trouble { problem, advice }))
    };
    let Ok(metadata) = std::fs::metadata(path) else {
        // `@somebody` is a word; `@notes.txt` and `@src/main.rs` are meant as files.
        let is_file = path.extension().is_some() || path.components().count() > 1;
        let problem = format!("nothing is attached for @{name}: there is no such file here");
        return if is_file { trouble(problem, "") } else { None };
    };
    if metadata.is_dir() {
        let problem = format!("nothing is attached for @{name}: it is a directory");
        return trouble(problem, "name a file in it");
    }
    // Before it is opened: opening a pipe would wait for a writer.
    if !metadata.is_file() {
        return trouble(format!("nothing is attached for @{name}: it is not a regular file"), "");
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MOST).read_to_end(&mut bytes));
    if let Err(error) = read {
        return trouble(format!("nothing is attached for @{name}: {error}"), "");
    }
    let whole = text::bytes(metadata.len());
    let valid = match std::str::from_utf8(&bytes) {
        Ok(text) => text,
        // The end may have cut a character in two.
        Err(error) if bytes.len() - error.valid_up_to() < 4 => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => {
            let problem = format!("nothing is attached for @{name}: it is not text");
            return trouble(problem, "copy it into the sandbox with `vestal cp`");
        }
    };
    let is_cut = metadata.len() > valid.len() as u64;
    let (about, cut) = if is_cut {
        let shown = text::bytes(valid.len() as u64);
        (
            format!("{name}, the first {shown} of {whole}"),
            format!(" (the first {shown} of {whole})"),
        )
    } else {
        (format!("{name}, {whole}"), String::new())
    };
    let text = format!("[The file {name}, attached by the user{cut}:]\n{valid}");
    Some(Ok(Attached { part: Part::Text { text }, about }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_mentioned_is_attached_and_what_cannot_be_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("notes.txt"), "buy milk\n").unwrap();
        std::fs::write(at("long.txt"), "x".repeat(70_000)).unwrap();
        std::fs::write(at("raw.bin"), [0xff, 0xfe, 0x00, 0x80, 0x81]).unwrap();
        std::fs::create_dir(at("src.d")).unwrap();
        let say = |name: &str| {
            let mut found = texts(&format!("look at @{} please", at(name).display()));
            assert_eq!(found.len(), 1, "{name}");
            found.remove(0)
        };
        let path = at("notes.txt").display().to_string();
        let notes = say("notes.txt").unwrap();
        let text = format!("[The file {path}, attached by the user:]\nbuy milk\n");
        assert_eq!(notes.part, Part::Text { text });
        let long = say("long.txt").unwrap();
        let Part::Text { text } = &long.part else { panic!("{long:?}") };
        assert_eq!(
            text.matches('x').count() - text.lines().next().unwrap().matches('x').count(),
            65_536
        );
        assert!(long.about.contains("the first"), "{}", long.about);
        for (name, why) in [
            ("raw.bin", "it is not text"),
            ("src.d", "it is a directory"),
            ("missing.txt", "there is no such file here"),
        ] {
            let trouble = say(name).unwrap_err();
            assert!(trouble.problem.ends_with(why), "{}", trouble.problem);
        }
        assert!(texts("mail @somebody about it").is_empty());
    }
}
