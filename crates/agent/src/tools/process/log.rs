//! Reading what a job has printed.

use vestal_sandbox::job::JobEvent;
use vestal_sandbox::{Error, Sandbox};
use vestal_wire::{AttachJob, Delivery, JobInfo, JobState};

use super::super::printed::Plain;

/// Gives the plain text of a job's log, from `back` bytes before its end or
/// from its beginning, to `take`, piece by piece.
pub(super) async fn read(
    sandbox: &Sandbox,
    info: &JobInfo,
    back: Option<u64>,
    mut take: impl FnMut(&str),
) -> Result<(), Error> {
    let from = |total: u64| back.map_or(0, |back| total.saturating_sub(back));
    let request = AttachJob {
        id: info.id.clone(),
        stdout_from: from(info.stdout_bytes),
        stderr_from: from(info.stderr_bytes),
        follow: false,
        // A job that has ended cannot be slowed down.
        delivery: match info.state {
            JobState::Ended(_) => Delivery::EveryByte,
            JobState::Starting | JobState::Running => Delivery::Lossy,
        },
    };
    let mut plain = [Plain::default(), Plain::default()];
    let mut piece = String::new();
    let mut reading = sandbox.attach(request).await?;
    while let Some(event) = reading.next().await? {
        piece.clear();
        match event {
            JobEvent::Stdout(bytes) => plain[0].push(&bytes, &mut piece),
            JobEvent::Stderr(bytes) => plain[1].push(&bytes, &mut piece),
            JobEvent::Gap { bytes, .. } => {
                piece = format!("\n[… {bytes} bytes are no longer on record …]\n");
            }
            JobEvent::Started { .. } | JobEvent::Ended(_) => {}
        }
        take(&piece);
    }
    Ok(())
}

/// Returns the last characters of a job's log.
pub(super) async fn tail(
    sandbox: &Sandbox,
    info: &JobInfo,
    characters: usize,
) -> Result<String, Error> {
    // Escape sequences and long characters take more bytes than they show.
    let back = 4 * characters as u64;
    let mut text = String::new();
    read(sandbox, info, Some(back), |piece| text.push_str(piece)).await?;
    Ok(last_characters(&text, characters).replace("\r\n", "\n"))
}

/// Returns the end of a text.
pub(super) fn last_characters(text: &str, characters: usize) -> &str {
    match characters.checked_sub(1).and_then(|last| text.char_indices().rev().nth(last)) {
        Some((start, _)) => &text[start..],
        None => text,
    }
}

/// Which lines of a log are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lines {
    /// The last ones.
    Last(usize),
    /// Those from this one on, counted from 0.
    From(usize, usize),
}

/// Keeps the lines wanted of a text that comes in pieces, each no longer than
/// allowed, and counts all.
#[derive(Debug)]
pub(super) struct LineWindow {
    wanted: Lines,
    longest: usize,
    kept: std::collections::VecDeque<String>,
    complete: usize,
    line: String,
    cut: usize,
    is_open: bool,
}

impl LineWindow {
    pub(super) fn new(wanted: Lines, longest: usize) -> Self {
        Self {
            wanted,
            longest,
            kept: std::collections::VecDeque::new(),
            complete: 0,
            line: String::new(),
            cut: 0,
            is_open: false,
        }
    }

    pub(super) fn push(&mut self, text: &str) {
        for part in text.split_inclusive('\n') {
            self.is_open = true;
            let (part, ends) = match part.strip_suffix('\n') {
                Some(part) => (part, true),
                None => (part, false),
            };
            let room = self.longest.saturating_sub(self.line.len());
            let (now, rest) = part.split_at(part.floor_char_boundary(room));
            self.line.push_str(now);
            self.cut += rest.len();
            if ends {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let mut line = std::mem::take(&mut self.line);
        let cut = std::mem::take(&mut self.cut);
        if cut > 0 {
            let marker = format!(" [… {cut} more bytes in this line]");
            line.push_str(&marker);
        } else if line.ends_with('\r') {
            line.pop();
        }
        match self.wanted {
            Lines::Last(most) => {
                self.kept.push_back(line);
                if self.kept.len() > most {
                    self.kept.pop_front();
                }
            }
            Lines::From(first, most) => {
                if self.complete >= first && self.kept.len() < most {
                    self.kept.push_back(line);
                }
            }
        }
        self.complete += 1;
        self.is_open = false;
    }

    /// Returns the lines wanted, the number of the first, and how many there are.
    pub(super) fn finish(mut self) -> (Vec<String>, usize, usize) {
        if self.is_open {
            self.end_line();
        }
        let first = match self.wanted {
            Lines::Last(_) => self.complete - self.kept.len(),
            Lines::From(first, _) => first,
        };
        (self.kept.into(), first, self.complete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(wanted: Lines, pieces: &[&str]) -> (Vec<String>, usize, usize) {
        let mut window = LineWindow::new(wanted, 5);
        for piece in pieces {
            window.push(piece);
        }
        window.finish()
    }

    #[test]
    fn lines_are_found_from_either_end() {
        let text = ["a\nb", "b\r\nc\n", "d"];
        let all = || vec!["a".to_owned(), "bb".into(), "c".into(), "d".into()];
        assert_eq!(lines(Lines::Last(9), &text), (all(), 0, 4));
        assert_eq!(lines(Lines::Last(2), &text), (all()[2..].to_vec(), 2, 4));
        assert_eq!(lines(Lines::From(0, 2), &text), (all()[..2].to_vec(), 0, 4));
        assert_eq!(lines(Lines::From(3, 2), &text), (all()[3..].to_vec(), 3, 4));
        assert_eq!(lines(Lines::From(9, 2), &text), (vec![], 9, 4));
        assert_eq!(lines(Lines::Last(2), &[]), (vec![], 0, 0));
    }

    #[test]
    fn long_lines_are_cut_and_say_so() {
        let (lines, ..) = lines(Lines::Last(1), &["abcd", "efgh\n"]);
        assert_eq!(lines, ["abcde [… 3 more bytes in this line]"]);
    }

    #[test]
    fn the_end_of_a_text_is_counted_in_characters() {
        assert_eq!(last_characters("aä€", 2), "ä€");
        assert_eq!(last_characters("aä€", 9), "aä€");
        assert_eq!(last_characters("aä€", 0), "aä€");
    }
}
