//! Tools that come and go: looked at when a turn begins, never during one.

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::Conversation;
use crate::event::{Event, EventSink};

/// Which of the sources' tools a conversation has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Looked {
    /// What the sources' versions were; none before the first turn.
    versions: Option<Vec<u64>>,
}

impl Conversation {
    /// Takes the tools that the sources have now. Before the first turn, those
    /// that are still being asked are waited for, as long as each of them
    /// thinks right. A child keeps what it was given.
    pub(crate) async fn look_at_sources(&mut self, events: &EventSink, cancel: &CancellationToken) {
        if self.inherited.is_some() {
            return;
        }
        let sources = &self.agent.parts.sources;
        if self.looked.versions.is_none() {
            let settled = join_all(sources.iter().map(|source| source.settle()));
            tokio::select! {
                _ = settled => {}
                () = cancel.cancelled() => {}
            }
        }
        // Before the tools: what changes in between is taken the next time.
        let versions: Vec<u64> = sources.iter().map(|source| source.version()).collect();
        for text in sources.iter().flat_map(|source| source.take_news()) {
            let text = self.agent.parts.redactor.redact(&text).into_owned();
            events.tell(Event::Warning { text });
        }
        if self.looked.versions.as_ref() != Some(&versions) {
            // Without sources, the tools are those it was opened with.
            if !versions.is_empty() {
                self.choose_tools();
            }
            self.looked.versions = Some(versions);
        }
    }
}
