//! How far a copy is.

use std::time::{Duration, Instant};

use super::text;

/// Blanks and blocks of a bar.
const BAR: usize = 16;

/// A rate is told of what took at least this long: of less it would be a guess.
const RATE_AFTER: Duration = Duration::from_millis(200);

/// A copy that is under way.
#[derive(Debug)]
pub(super) struct Copying {
    what: String,
    begun: Instant,
    files: u64,
    bytes: u64,
    total: Option<u64>,
}

impl Copying {
    pub(super) fn new(what: String) -> Self {
        Self { what, begun: Instant::now(), files: 0, bytes: 0, total: None }
    }

    /// Reports whether this is the copy of that.
    pub(super) fn is_of(&self, what: &str) -> bool {
        self.what == what
    }

    /// Takes how far it has come.
    pub(super) fn advance(&mut self, files: u64, bytes: u64, total: Option<u64>) {
        (self.files, self.bytes, self.total) = (files, bytes, total);
    }

    pub(super) fn line(&self) -> String {
        self.line_after(self.begun.elapsed())
    }

    fn line_after(&self, elapsed: Duration) -> String {
        let Self { what, files, bytes, total, .. } = self;
        let what = text::printable(what);
        if *files == 0 && *bytes == 0 {
            return format!("copying {what} …");
        }
        let mut line = "copying ".to_owned();
        let size = match total.filter(|total| *total > 0) {
            Some(total) => {
                let full = u128::from(*bytes) * BAR as u128 / u128::from(total);
                let full = usize::try_from(full).unwrap_or(BAR).min(BAR);
                line.extend(std::iter::repeat_n('█', full));
                line.extend(std::iter::repeat_n('░', BAR - full));
                line.push(' ');
                format!("{} of {}", text::bytes(*bytes), text::bytes(total))
            }
            None => text::bytes(*bytes),
        };
        line.extend([size, ", ".to_owned(), text::count(*files, "file")]);
        if elapsed >= RATE_AFTER {
            line.extend([" (".to_owned(), rate(*bytes, elapsed), ")".to_owned()]);
        }
        // The name may be long, and what does not fit is cut.
        line.extend([" of ".to_owned(), what]);
        line
    }
}

fn rate(bytes: u64, elapsed: Duration) -> String {
    let per_second = u128::from(bytes) * 1000 / elapsed.as_millis().max(1);
    format!("{}/s", text::bytes(u64::try_from(per_second).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(files: u64, bytes: u64, total: Option<u64>, millis: u64) -> String {
        let mut copying = Copying::new("the workspace\x1b[2J".to_owned());
        copying.advance(files, bytes, total);
        copying.line_after(Duration::from_millis(millis))
    }

    #[test]
    fn a_copy_tells_files_bytes_of_the_total_and_its_rate() {
        assert_eq!(line(0, 0, None, 0), "copying the workspace\\x1b[2J …");
        assert_eq!(
            line(3, 512 << 20, Some(1 << 30), 2000),
            format!(
                "copying {}{} 512.0 MiB of 1.0 GiB, 3 files (256.0 MiB/s) of the workspace\\x1b[2J",
                "█".repeat(8),
                "░".repeat(8)
            )
        );
    }

    #[test]
    fn what_is_not_known_yet_is_not_told() {
        assert_eq!(line(1, 1536, None, 0), "copying 1.5 KiB, 1 file of the workspace\\x1b[2J");
        assert_eq!(
            line(1, 0, Some(0), 1000),
            "copying 0 B, 1 file (0 B/s) of the workspace\\x1b[2J"
        );
    }

    #[test]
    fn a_tree_that_grows_while_it_is_copied_breaks_no_line() {
        let line = line(u64::MAX, u64::MAX, Some(1), 0);
        assert!(line.contains(&"█".repeat(BAR)) && !line.contains('░'), "{line}");
        assert!(rate(u64::MAX, Duration::ZERO).ends_with("/s"));
    }
}
