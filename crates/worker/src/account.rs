//! What of a turn goes into the log.

use std::sync::{Arc, Mutex, PoisonError};

use vestal_agent::{Event, EventSink};

use crate::log::Log;
use crate::watch::Activity;

/// Bytes of what the model says at once that are kept for the log.
const MOST: usize = 64 * 1024;

/// Returns the ears that write the log, and take note that something is done.
pub(crate) fn sink(log: Log, activity: Activity) -> EventSink {
    let account = Arc::new(Account { log, activity, words: Mutex::default() });
    EventSink::new(move |event| account.hear(&event, ""))
}

struct Account {
    log: Log,
    activity: Activity,
    /// What the model has said since its last call began; it comes in pieces.
    words: Mutex<String>,
}

impl Account {
    fn hear(&self, event: &Event, who: &str) {
        match event {
            Event::Text { text } => {
                self.activity.note();
                if who.is_empty() {
                    let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
                    if words.len() < MOST {
                        words.push_str(text);
                    }
                }
            }
            Event::Reasoning { .. } | Event::CallAnnounced { .. } | Event::ToolOutput { .. } => {
                self.activity.note();
            }
            Event::ModelCalled { .. } => {
                self.activity.note();
                if who.is_empty() {
                    self.flush();
                }
            }
            Event::ToolStarted { name, summary, .. } => {
                self.activity.note();
                let about = if summary.is_empty() { String::new() } else { format!(": {summary}") };
                self.log.write(&format!("{who}{name}{about}"));
            }
            Event::ToolEnded { name, is_error, took, preview, .. } => {
                self.activity.note();
                let took = took.as_secs_f64();
                if *is_error {
                    let first = preview.lines().next().unwrap_or_default();
                    self.log.write(&format!("{who}{name} failed after {took:.1} s: {first}"));
                } else if took >= 10.0 {
                    self.log.write(&format!("{who}{name} took {took:.0} s"));
                }
            }
            Event::Discarded { reason, retry_after } => {
                if who.is_empty() {
                    self.words.lock().unwrap_or_else(PoisonError::into_inner).clear();
                }
                let again = retry_after
                    .map(|after| format!("; trying again in {:.0} s", after.as_secs_f64()));
                self.log.write(&format!("{who}warning: {reason}{}", again.unwrap_or_default()));
            }
            Event::Warning { text } => self.log.write(&format!("{who}warning: {text}")),
            Event::Compressed { messages, .. } => {
                self.log.write(&format!("{who}summarised {messages} messages"));
            }
            Event::Child { index, event, .. } => {
                self.hear(event, &format!("{who}[helper {}] ", index + 1));
            }
            Event::TurnEnded { .. } => {
                if who.is_empty() {
                    self.flush();
                }
            }
            Event::TurnStarted { .. }
            | Event::Compressing { .. }
            | Event::Steered { .. }
            | Event::FileChanged { .. } => {}
        }
    }

    fn flush(&self) {
        let words = std::mem::take(&mut *self.words.lock().unwrap_or_else(PoisonError::into_inner));
        if !words.trim().is_empty() {
            self.log.write(words.trim());
        }
    }
}
