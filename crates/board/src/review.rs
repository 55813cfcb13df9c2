//! A person's review of the work on a task: words about it as a whole, and about lines of it.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::error::Error;
use crate::verbs::limits::MAX_COMMENT;

/// What a reviewer has to say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Review {
    /// About the work as a whole.
    #[serde(default)]
    pub summary: String,
    /// About lines of it.
    #[serde(default)]
    pub comments: Vec<LineComment>,
}

/// Something about a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineComment {
    /// The file.
    pub path: String,
    /// Its line: of the new version, or of the old one where `side` says so; none: the whole file.
    #[serde(default)]
    pub line: Option<u32>,
    /// Which version of the file.
    #[serde(default)]
    pub side: Side,
    /// What the line says, so that it is found again when lines have moved.
    #[serde(default)]
    pub quote: Option<String>,
    /// The comment.
    pub text: String,
}

/// A version of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// As the task changed it.
    #[default]
    New,
    /// As it was before.
    Old,
}

/// Characters of a line that are quoted.
const MAX_QUOTE: usize = 160;

impl Review {
    /// Reports whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.summary.trim().is_empty() && self.comments.iter().all(LineComment::is_empty)
    }

    /// Returns the review as an instruction for the next attempt.
    pub fn instructions(&self) -> Result<String> {
        let mut text = self.summary.trim().to_owned();
        for comment in self.comments.iter().filter(|comment| !comment.is_empty()) {
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(&comment.place());
            if let Some(quote) = comment.quote.as_deref().map(str::trim).filter(|q| !q.is_empty()) {
                let quote: String = quote.chars().take(MAX_QUOTE).collect();
                // Writing to a string cannot fail.
                write!(text, "\n> {quote}").ok();
            }
            text.push('\n');
            text.push_str(comment.text.trim());
        }
        let invalid = |reason: String| Error::Invalid { what: "the review".to_owned(), reason };
        if text.is_empty() {
            return Err(invalid("says nothing".to_owned()));
        }
        if text.len() > MAX_COMMENT {
            let length = text.len();
            return Err(invalid(format!("has {length} bytes; at most {MAX_COMMENT} are allowed")));
        }
        Ok(text)
    }
}

impl LineComment {
    fn is_empty(&self) -> bool {
        self.text.trim().is_empty()
    }

    fn place(&self) -> String {
        let path = self.path.replace(['\n', '\r'], " ");
        match (self.line, self.side) {
            (Some(line), Side::New) => format!("{path}:{line}"),
            (Some(line), Side::Old) => format!("{path}:{line} (as it was before)"),
            (None, _) => path,
        }
    }
}

/// The words above a diff that is about to be reviewed.
const PREAMBLE: &str = "\
# Write what is to be changed below the line that you mean; what stands above the
# first quoted line is about the work as a whole. Lines that begin with > or # are
# left out. Leave everything as it is, or empty the file, to say nothing.
";

/// Returns a diff as a text in which a person writes comments below quoted lines, as in mail.
pub fn quoted_diff(title: &str, patch: &str) -> String {
    let mut text = format!("# {}\n{PREAMBLE}\n", title.replace(['\n', '\r'], " "));
    for line in patch.lines() {
        // Without trailing blanks: editors remove them.
        text.push_str(format!("> {line}").trim_end());
        text.push('\n');
    }
    text
}

/// Reads what a person wrote between the quoted lines of [`quoted_diff`].
pub fn parse_quoted_review(text: &str) -> Review {
    let mut review = Review::default();
    let mut place = DiffPlace::default();
    for line in text.lines() {
        if line.starts_with('#') {
            continue;
        }
        if let Some(quoted) = line.strip_prefix('>') {
            place.pass(quoted.strip_prefix(' ').unwrap_or(quoted));
            continue;
        }
        let Some((path, line_number, side)) = place.at() else {
            push_line(&mut review.summary, line);
            continue;
        };
        match review.comments.last_mut() {
            Some(last) if place.is_commented => push_line(&mut last.text, line),
            _ if line.trim().is_empty() => {}
            _ => {
                place.is_commented = true;
                review.comments.push(LineComment {
                    path,
                    line: line_number,
                    side,
                    quote: place.quote.clone(),
                    text: line.to_owned(),
                });
            }
        }
    }
    let summary = review.summary.trim().to_owned();
    review.summary = summary;
    for comment in &mut review.comments {
        comment.text = comment.text.trim_end().to_owned();
    }
    review
}

fn push_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

/// Where in a patch a reader is.
#[derive(Debug, Default)]
struct DiffPlace {
    old_path: Option<String>,
    path: Option<String>,
    /// The numbers of the next lines of the old and the new version, within a hunk.
    next: Option<(u32, u32)>,
    /// Lines of both that are left in the hunk.
    left: (u32, u32),
    line: Option<(u32, Side)>,
    quote: Option<String>,
    /// Whether the line has a comment already.
    is_commented: bool,
}

impl DiffPlace {
    fn pass(&mut self, line: &str) {
        self.is_commented = false;
        (self.line, self.quote) = (None, None);
        if let Some((old, new)) = self.next.filter(|_| self.left != (0, 0)) {
            let (old_left, new_left) = self.left;
            let (side, number, content) = match line.as_bytes().first() {
                Some(b'-') => (Side::Old, old, line.get(1..)),
                Some(b'\\') => return,
                // A blank line of the context may have lost its blank.
                Some(b'+' | b' ') | None => (Side::New, new, line.get(1..)),
                Some(_) => (Side::New, new, Some(line)),
            };
            self.line = Some((number, side));
            self.quote = content.map(str::to_owned);
            match line.as_bytes().first() {
                Some(b'+') => {
                    self.next = Some((old, new + 1));
                    self.left = (old_left, new_left.saturating_sub(1));
                }
                Some(b'-') => {
                    self.next = Some((old + 1, new));
                    self.left = (old_left.saturating_sub(1), new_left);
                }
                _ => {
                    self.next = Some((old + 1, new + 1));
                    self.left = (old_left.saturating_sub(1), new_left.saturating_sub(1));
                }
            }
        } else if line.starts_with("diff --git ") {
            *self = Self { path: git_path(line), ..Self::default() };
        } else if let Some(path) = line.strip_prefix("--- ") {
            self.old_path = file_name(path, "a/");
        } else if let Some(path) = line.strip_prefix("+++ ") {
            self.path = file_name(path, "b/").or_else(|| self.old_path.clone());
        } else if let Some(hunk) = line.strip_prefix("@@ -") {
            let (next, left) = hunk_start(hunk).unzip();
            (self.next, self.left) = (next, left.unwrap_or_default());
        }
    }

    fn at(&self) -> Option<(String, Option<u32>, Side)> {
        let path = self.path.clone()?;
        Some(match self.line {
            Some((line, side)) => (path, Some(line), side),
            None => (path, None, Side::New),
        })
    }
}

/// Returns the new path of `diff --git a/OLD b/NEW`, where that is clear.
fn git_path(line: &str) -> Option<String> {
    Some(line.rsplit_once(" b/")?.1.to_owned())
}

fn file_name(path: &str, prefix: &str) -> Option<String> {
    // Git puts a tab behind names with blanks.
    let path = path.trim_end_matches('\t');
    (path != "/dev/null").then(|| path.strip_prefix(prefix).unwrap_or(path).to_owned())
}

/// Reads `12,3 +14,5 @@ …`: where the hunk begins, and how many lines it has, in both versions.
fn hunk_start(hunk: &str) -> Option<((u32, u32), (u32, u32))> {
    let mut words = hunk.split(' ');
    let range = |words: &str| -> Option<(u32, u32)> {
        match words.split_once(',') {
            Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
            None => Some((words.parse().ok()?, 1)),
        }
    };
    let (old, old_count) = range(words.next()?)?;
    let (new, new_count) = range(words.next()?.strip_prefix('+')?)?;
    Some(((old, new), (old_count, new_count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "\
diff --git a/src/a.rs b/src/a.rs
index 1..2 100644
--- a/src/a.rs
+++ b/src/a.rs
@@ -10,3 +10,3 @@ fn main() {
 one
-two
+2

diff --git a/old b/old
deleted file mode 100644
--- a/old
+++ /dev/null
@@ -1 +0,0 @@
---- rule
";

    fn written(after: &[(&str, &str)]) -> Review {
        let mut text = quoted_diff("a task\nwith lines", PATCH);
        for (line, comment) in after {
            let quoted = format!("> {line}\n");
            assert!(text.contains(&quoted), "{line}");
            text = text.replacen(&quoted, &format!("{quoted}{comment}\n"), 1);
        }
        parse_quoted_review(&text)
    }

    fn comment(
        path: &str,
        line: Option<u32>,
        side: Side,
        quote: Option<&str>,
        text: &str,
    ) -> LineComment {
        let quote = quote.map(str::to_owned);
        LineComment { path: path.to_owned(), line, side, quote, text: text.to_owned() }
    }

    #[test]
    fn an_untouched_text_says_nothing() {
        assert!(written(&[]).is_empty());
        assert!(parse_quoted_review("").is_empty());
        assert!(written(&[]).instructions().is_err());
    }

    #[test]
    fn a_comment_belongs_to_the_line_above_it() {
        let review = written(&[
            ("-two", "why?\n\nreally"),
            ("+2", "three\n"),
            ("--- a/old", "keep this file"),
            ("---- rule", "this rule is needed"),
        ]);
        assert_eq!(
            review.comments,
            [
                comment("src/a.rs", Some(11), Side::Old, Some("two"), "why?\n\nreally"),
                comment("src/a.rs", Some(11), Side::New, Some("2"), "three"),
                comment("old", None, Side::New, None, "keep this file"),
                comment("old", Some(1), Side::Old, Some("--- rule"), "this rule is needed"),
            ]
        );
    }

    #[test]
    fn what_stands_above_the_diff_is_about_the_whole() {
        let text =
            quoted_diff("a task", PATCH).replace("\n\n> diff", "\nAll in all good.\n\n> diff");
        let review = parse_quoted_review(&text);
        assert_eq!((review.summary.as_str(), review.comments.len()), ("All in all good.", 0));
    }

    #[test]
    fn a_review_becomes_an_instruction_with_places_and_quotes() {
        let mut review = written(&[("+2", "three")]);
        review.summary = "Nearly there.".to_owned();
        assert_eq!(review.instructions().unwrap(), "Nearly there.\n\nsrc/a.rs:11\n> 2\nthree");
        review.summary = "x".repeat(MAX_COMMENT);
        assert!(review.instructions().is_err());
    }
}
