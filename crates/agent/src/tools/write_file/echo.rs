//! Keeps what a tool said about a file from being written into one.

use crate::tools::files::numbered_lines;
use crate::tools::read_file::UNCHANGED;

/// Fewest lines with numbers that are taken for what reading a file shows.
const LINES: usize = 2;

/// Refuses content that is not a file's but a tool's words about it. A file
/// that has such lines already may have them again.
pub(super) fn demand_original(before: Option<&str>, content: &str) -> Result<(), String> {
    if content.trim() == UNCHANGED {
        return Err("`content` is a remark of read_file, not the content of a file".to_owned());
    }
    let is_numbered = |text: &str| numbered_lines(text).is_some_and(|lines| lines >= LINES);
    if is_numbered(content) && !before.is_some_and(is_numbered) {
        return Err("every line of `content` starts with a line number and `|`, as read_file \
             shows them; they are not part of the file. Write it without them. A file that is \
             meant to have them can be written by a command"
            .to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reading_shows_is_not_taken_for_content() {
        assert!(demand_original(None, "1|a\n2|b\n3|\n").is_err());
        assert!(demand_original(Some("a\nb\n"), "1|a\n2|b\n").is_err());
        assert!(demand_original(None, UNCHANGED).is_err());
    }

    #[test]
    fn files_that_have_such_lines_or_only_look_like_it_are_written() {
        assert_eq!(demand_original(Some("1|ann\n2|bob\n"), "1|ann\n2|bob\n3|cid\n"), Ok(()));
        for content in ["", "1|a", "1|a\nb\n", "a|b\nc|d\n"] {
            assert_eq!(demand_original(None, content), Ok(()), "{content:?}");
        }
    }
}
