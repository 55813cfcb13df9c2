//! Summarises what is long past when a conversation grows too long.

use super::outcome::TurnError;
use super::run::Turn;
use crate::compress::from_what_is_known;
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
        compression.enabled && self.conversation.request_tokens() > compression.ceiling(context)
    }

    /// Replaces the earlier part of the conversation by a summary, here and in
    /// the store. Does nothing when that would gain nothing, or when somebody
    /// interrupts. Where no model gives a summary, what is known has to do: the
    /// work goes on either way.
    pub(super) async fn shrink(&mut self) -> Result<(), TurnError> {
        self.shrunk += 1;
        let Some(start) = self.conversation.cut_for_room() else { return Ok(()) };
        let tokens = self.conversation.request_tokens();
        self.events.tell(Event::Compressing { tokens });
        let gone = self.conversation.giving_way(start);
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
            Summarised::Empty => from_what_is_known(&gone),
            Summarised::Failed(error) => {
                let text = format!("no summary could be had, so the essentials were kept: {error}");
                self.events.tell(Event::Warning { text });
                from_what_is_known(&gone)
            }
        };
        self.conversation.give_way(&gone, &summary, self.events).await?;
        Ok(())
    }
}
