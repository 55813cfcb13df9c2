//! Files of a skill: where they may be, and how they are opened.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::error::SkillError;
use crate::skill::MAX_DEPTH;

/// Longest part of a path.
const MAX_PART: usize = 128;

/// Opens a file that is one, and no link to one. Opening a pipe waits for
/// nobody.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
    let file = opened.map_err(|error| match rustix::io::Errno::from_io_error(&error) {
        Some(rustix::io::Errno::LOOP) => io::Error::other("it is a link, which is not followed"),
        _ => error,
    })?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(file)
}

/// Returns the path of a file of a skill, below the skill's folder: relative,
/// without a way out of it, with nothing hidden.
pub(crate) fn inner_path(text: &str) -> Result<PathBuf, SkillError> {
    let wrong = |reason| SkillError::Path { path: text.to_owned(), reason };
    if text.starts_with('/') {
        return Err(wrong("it must be relative to the skill's folder"));
    }
    let parts: Vec<&str> = text.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.is_empty() {
        return Err(wrong("it names no file"));
    }
    for part in &parts {
        if *part == ".." {
            return Err(wrong("it leads out of the skill's folder"));
        }
        if part.starts_with('.') {
            return Err(wrong("hidden files cannot be part of a skill"));
        }
        if part.len() > MAX_PART || part.contains(char::is_control) || part.contains('\\') {
            return Err(wrong("a name in it is too long or has characters that make trouble"));
        }
    }
    if parts.len() > MAX_DEPTH {
        return Err(wrong("it is nested too deep"));
    }
    Ok(parts.iter().collect())
}

/// Returns the place of a file of a skill, once nothing on the way to it is a
/// link or something else that is not a folder. What is not there yet is fine.
pub(crate) fn within(dir: &Path, inner: &Path) -> Result<PathBuf, SkillError> {
    let mut at = dir.to_owned();
    let above = inner.parent().map(Path::components).into_iter().flatten();
    for part in above {
        at.push(part);
        match fs::symlink_metadata(&at) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                let path = inner.display().to_string();
                return Err(SkillError::Path {
                    path,
                    reason: "a part of the path is not a folder",
                });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(SkillError::io("look at", &at)(error)),
        }
    }
    Ok(dir.join(inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_leads_out_of_a_skill() {
        for wrong in [
            "",
            ".",
            "/etc/passwd",
            "..",
            "../x",
            "a/../../x",
            "a/..",
            ".env",
            "a/.git/config",
            "a\0b",
            "a\nb",
            "a\\..\\b",
            &"a/".repeat(40),
            &"x".repeat(200),
        ] {
            assert!(inner_path(wrong).is_err(), "{wrong:?}");
        }
        for (text, path) in [("a/b.md", "a/b.md"), ("./a//b", "a/b"), ("ä ö", "ä ö")] {
            assert_eq!(inner_path(text).unwrap(), Path::new(path));
        }
    }

    #[test]
    fn a_link_on_the_way_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", dir.path().join("out")).unwrap();
        assert!(within(dir.path(), Path::new("out/passwd")).is_err());
        assert!(within(dir.path(), Path::new("new/deep/file")).is_ok());
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("file")).unwrap();
        let error = open_file(&dir.path().join("file")).unwrap_err().to_string();
        assert!(error.contains("a link"), "{error}");
    }
}
