//! Rules of `.gitignore` files.

use std::ffi::CStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, Mode, OFlags, fstat, openat};

use crate::glob::{Case, Wildcard};

/// Maximum bytes read from a file of rules; the rest is ignored.
const MAX_RULES: u64 = 1 << 20;

const READING: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW);

/// What the rules decide about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IgnoreDecision {
    /// It is left out.
    Ignored,
    /// It is kept, whatever an earlier rule says.
    Kept,
}

/// Rules of one directory. The last matching rule decides.
#[derive(Debug, Default)]
pub struct IgnoreRules {
    rules: Vec<IgnoreRule>,
}

#[derive(Debug)]
struct IgnoreRule {
    wildcard: Wildcard,
    decision: IgnoreDecision,
    directories_only: bool,
    on_path: bool,
}

impl IgnoreRules {
    /// Adds the rules of a file. An unreadable file has none.
    pub fn load(&mut self, directory: BorrowedFd<'_>, name: &CStr) {
        let Ok(file) = openat(directory, name, READING, Mode::empty()) else {
            return;
        };
        let regular = fstat(&file)
            .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile);
        let mut text = Vec::new();
        if regular && File::from(file).take(MAX_RULES).read_to_end(&mut text).is_ok() {
            self.add(&text);
        }
    }

    /// Adds the rules in `text`.
    pub fn add(&mut self, text: &[u8]) {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        self.rules.extend(text.split(|&byte| byte == b'\n').filter_map(IgnoreRule::parse));
    }

    /// Returns whether there are no rules.
    pub const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the decision for a file, given its path below the directory of the
    /// rules and its name, or nothing if no rule matches.
    pub fn decision(&self, path: &[u8], name: &[u8], directory: bool) -> Option<IgnoreDecision> {
        self.rules
            .iter()
            .rev()
            .find(|rule| {
                (directory || !rule.directories_only)
                    && rule.wildcard.matches(if rule.on_path { path } else { name })
            })
            .map(|rule| rule.decision)
    }
}

impl IgnoreRule {
    fn parse(line: &[u8]) -> Option<Self> {
        let line = trim_end(line.strip_suffix(b"\r").unwrap_or(line));
        if line.is_empty() || line[0] == b'#' {
            return None;
        }
        let (decision, line) = match line.strip_prefix(b"!") {
            Some(rest) => (IgnoreDecision::Kept, rest),
            None => (IgnoreDecision::Ignored, line),
        };
        let (directories_only, line) = match line.strip_suffix(b"/") {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let on_path = line.contains(&b'/');
        let line = line.strip_prefix(b"/").unwrap_or(line);
        if line.is_empty() {
            return None;
        }
        // An invalid rule matches nothing.
        let wildcard = Wildcard::new(line, Case::Exact).ok()?;
        Some(Self { wildcard, decision, directories_only, on_path })
    }
}

/// Removes trailing spaces that are not escaped by a backslash.
fn trim_end(mut line: &[u8]) -> &[u8] {
    while let Some(rest) = line.strip_suffix(b" ") {
        if rest.ends_with(b"\\") {
            break;
        }
        line = rest;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(rules: &str, path: &str, directory: bool) -> Option<IgnoreDecision> {
        let mut parsed = IgnoreRules::default();
        parsed.add(rules.as_bytes());
        let name = path.rsplit('/').next().unwrap();
        parsed.decision(path.as_bytes(), name.as_bytes(), directory)
    }

    #[test]
    fn names_fit_at_any_depth_and_paths_at_their_own() {
        assert_eq!(decision("*.o", "a/b/c.o", false), Some(IgnoreDecision::Ignored));
        assert_eq!(decision("/c.o", "a/c.o", false), None);
        assert_eq!(decision("/c.o", "c.o", false), Some(IgnoreDecision::Ignored));
        assert_eq!(decision("doc/*.txt", "doc/a.txt", false), Some(IgnoreDecision::Ignored));
        assert_eq!(decision("doc/*.txt", "x/doc/a.txt", false), None);
        assert_eq!(decision("doc/*.txt", "doc/sub/a.txt", false), None);
        assert_eq!(decision("**/doc/*.txt", "x/doc/a.txt", false), Some(IgnoreDecision::Ignored));
        assert_eq!(decision("abc/**", "abc/x/y", false), Some(IgnoreDecision::Ignored));
        assert_eq!(decision("a/**/b", "a/b", false), Some(IgnoreDecision::Ignored));
        assert_eq!(decision("a/**/b", "a/x/y/b", false), Some(IgnoreDecision::Ignored));
    }

    #[test]
    fn a_trailing_slash_means_directories_only() {
        assert_eq!(decision("build/", "build", true), Some(IgnoreDecision::Ignored));
        assert_eq!(decision("build/", "build", false), None);
        assert_eq!(decision("build/", "x/build", true), Some(IgnoreDecision::Ignored));
    }

    #[test]
    fn the_last_rule_that_fits_decides() {
        let rules = "*.log\n!keep.log\n";
        assert_eq!(decision(rules, "x.log", false), Some(IgnoreDecision::Ignored));
        assert_eq!(decision(rules, "keep.log", false), Some(IgnoreDecision::Kept));
    }

    #[test]
    fn comments_blanks_and_escapes_are_read_as_git_reads_them() {
        let rules = "# note\n\n\\#file\n\\!file\nspaced\\ \ntrailing   \r\n{x}\n";
        for path in ["#file", "!file", "spaced ", "trailing", "{x}"] {
            assert_eq!(decision(rules, path, false), Some(IgnoreDecision::Ignored), "{path}");
        }
        for path in ["# note", "x", "spaced"] {
            assert_eq!(decision(rules, path, false), None, "{path}");
        }
    }

    #[test]
    fn a_rule_that_cannot_be_understood_fits_nothing() {
        assert_eq!(decision("[abc\nok", "ok", false), Some(IgnoreDecision::Ignored));
        assert_eq!(decision("[abc\nok", "a", false), None);
    }
}
