//! Summarises what is long past when a conversation grows too long.

use super::outcome::TurnError;
use super::run::Turn;
use crate::compress::{Room, from_what_is_known};
use crate::conversation::Summarised;
use crate::event::Event;

impl Turn<'_> {
    /// Reports whether the next request would be longer than it should be. As
    /// long as nobody has said what the model can hold, nothing is too long
    /// before the provider says so.
    pub(super) fn is_too_long(&self) -> bool {
        let compression = self.conversation.agent.parts.options.compression;
        let Some(context) = self.conversation.chat.context_length().tokens() else {
            return false;
        };
        let ceiling = compression.ceiling(context, self.conversation.fixed_tokens());
        compression.enabled && self.conversation.request_tokens() > ceiling
    }

    /// Replaces the earlier part of the conversation by a summary, here and in
    /// the store. Does nothing when that would gain nothing, or when somebody
    /// interrupts. Where no model gives a summary, what is known has to do: the
    /// work goes on either way.
    pub(super) async fn shrink(&mut self) -> Result<(), TurnError> {
        let Some(start) = self.conversation.cut_for_room() else { return Ok(()) };
        self.shrunk += 1;
        let tokens = self.conversation.request_tokens();
        self.events.tell(Event::Compressing { tokens });
        let gone = self.conversation.giving_way(start);
        let room = Room::of(self.conversation.chat.context_length().tokens());
        let summarised = self.conversation.summarise(&gone, &self.cancel).await;
        self.model_calls += u32::from(!matches!(summarised, Summarised::Interrupted));
        let summary = match summarised {
            Summarised::By(completion) => {
                self.usage += completion.usage;
                self.cost.add(completion.cost);
                completion.message.text
            }
            // The turn ends here, and the next one may ask for a summary again.
            Summarised::Interrupted => return Ok(()),
            Summarised::Empty => from_what_is_known(&gone, &room),
            Summarised::Failed(error) => {
                let text = format!("no summary could be had, so the essentials were kept: {error}");
                self.events.tell(Event::Warning { text });
                from_what_is_known(&gone, &room)
            }
        };
        self.conversation.give_way(&gone, &summary, self.events).await?;
        Ok(())
    }

    /// Makes a conversation shorter that the model has refused: what is long past
    /// is summarised and, where that gains nothing, the model sees no picture that
    /// words do without, then less of the longest results. Reports whether it is
    /// shorter now.
    pub(super) async fn make_room(&mut self) -> Result<bool, TurnError> {
        let before = self.conversation.messages.len();
        if self.may_shrink() {
            self.shrink().await?;
        }
        if self.conversation.messages.len() != before || self.cancel.is_cancelled() {
            return Ok(true);
        }
        if let Some(count) = self.conversation.leave_out_pictures() {
            let text = format!("the model cannot hold {count} pictures; it reads the words alone");
            self.events.tell(Event::Warning { text });
            return Ok(true);
        }
        let Some(shown) = self.conversation.shorten_results() else { return Ok(false) };
        let text = format!(
            "the model cannot hold the results of its tools; it sees {shown} bytes of each that is longer"
        );
        self.events.tell(Event::Warning { text });
        Ok(true)
    }
}
