//! Turns that nobody's words begin: a background job has ended, or printed what
//! the model watches for.

use super::Conversation;
use crate::event::EventSink;
use crate::tools::{JobWatch, job_news};
use crate::turn::{Begin, TurnResult};

impl Conversation {
    /// Returns what waits for news of the jobs that the model wants to hear of;
    /// nothing if there are none.
    pub fn job_watch(&self) -> Option<JobWatch> {
        let watched = self.notebook.read().watched;
        (!watched.is_empty()).then(|| JobWatch {
            engine: self.workshop.engine().clone(),
            task: self.workshop.sandbox_task(),
            watched,
            line_length: self.agent.parts.options.limits.line_length,
        })
    }

    /// Returns what is new about those jobs, each in words for the model. It is
    /// told once: whoever takes the news has to pass it on.
    pub async fn take_job_news(&mut self, events: &EventSink) -> Vec<String> {
        let running = self.control.begin(self.parent_cancel.as_ref());
        let context = self.tool_context("", &running.token, events);
        tokio::select! {
            biased;
            () = running.token.cancelled() => Vec::new(),
            news = job_news(&context) => news,
        }
    }

    /// Tells the model the news and has it work on that, as on somebody's words.
    /// The turn belongs to what was said last: it is taken back with that.
    pub async fn run_news(&mut self, news: Vec<String>, events: &EventSink) -> TurnResult {
        crate::turn::run(self, Begin::News(news), events).await
    }
}
