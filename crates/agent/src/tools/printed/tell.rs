//! Telling those who watch what a command prints.

use std::time::{Duration, Instant};

use super::HeadTail;
use crate::redact;
use crate::tool::ToolContext;

/// Nobody reads faster than [`SHARE`] bytes in this time.
const WINDOW: Duration = Duration::from_millis(100);

/// Bytes told in each window.
const SHARE: usize = 8 << 10;

/// Bytes of what was passed over that are shown after all when there is time.
const REST: usize = 2 << 10;

/// Tells what comes as it comes, secrets masked, and no faster than anybody
/// can watch. What is passed over costs next to nothing: secrets are looked
/// for only in what is shown.
pub(crate) struct Teller<'a> {
    context: &'a ToolContext,
    redacting: redact::Stream,
    window: Instant,
    spent: usize,
    passed_over: Option<HeadTail>,
}

impl<'a> Teller<'a> {
    /// Returns a teller for the output of a call.
    pub(crate) fn new(context: &'a ToolContext) -> Self {
        Self {
            context,
            redacting: context.redactor.stream(),
            window: Instant::now(),
            spent: 0,
            passed_over: None,
        }
    }

    /// Tells what comes next, or keeps the end of it for when there is time.
    pub(crate) fn push(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.window.elapsed() >= WINDOW {
            self.window = Instant::now();
            self.spent = 0;
            self.catch_up();
        }
        if let Some(passed_over) = &mut self.passed_over {
            passed_over.push(text);
            return;
        }
        let room = SHARE.saturating_sub(self.spent);
        if text.len() <= room {
            self.spent += text.len();
            self.show(text);
            return;
        }
        // A secret is not cut in two where lines end.
        let cut = text.floor_char_boundary(room);
        let cut = text[..cut].rfind('\n').map_or(cut, |end| end + 1);
        let (now, later) = text.split_at(cut);
        self.spent = SHARE;
        self.show(now);
        self.flush();
        self.passed_over.get_or_insert_with(|| HeadTail::new(REST)).push(later);
    }

    /// Tells what is left.
    pub(crate) fn finish(mut self) {
        self.catch_up();
        self.flush();
    }

    fn show(&mut self, text: &str) {
        let text = self.redacting.push(text);
        self.tell(text);
    }

    /// Tells what was held back because it might have been the beginning of a
    /// secret.
    fn flush(&mut self) {
        let stream = std::mem::replace(&mut self.redacting, self.context.redactor.stream());
        self.tell(stream.finish());
    }

    fn catch_up(&mut self) {
        if let Some(passed_over) = self.passed_over.take() {
            let text = passed_over.finish().text;
            self.spent += text.len();
            self.show(&text);
        }
    }

    fn tell(&self, text: String) {
        if !text.is_empty() {
            self.context.tell_output(text);
        }
    }
}
