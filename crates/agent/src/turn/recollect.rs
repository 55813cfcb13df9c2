//! What a turn has to do with the memory.

use std::borrow::Cow;

use vestal_model::{Message, Part};

use super::run::Turn;

impl Turn<'_> {
    /// Asks the memory about what was just said.
    pub(super) async fn recollect(&mut self, said: &str) {
        let Some(begin) = self.conversation.seqs.last().copied() else { return };
        let known = tokio::select! {
            biased;
            () = self.cancel.cancelled() => None,
            known = self.conversation.memory.prefetch(said) => known,
        };
        self.begun_by = Some((begin, known));
    }

    /// Returns the messages as the model reads them: what the memory knows stands
    /// with the words it is about, in this turn's requests alone.
    pub(super) fn messages_with_memory(&self) -> Cow<'_, [Message]> {
        let messages = match self.conversation.shortened() {
            Some(shortened) => Cow::Owned(shortened),
            None => Cow::Borrowed(self.conversation.messages.as_slice()),
        };
        let Some((begin, Some(known))) = &self.begun_by else { return messages };
        // Where a summary stands for those words by now, it stands for this, too.
        let place = self.conversation.seqs.iter().position(|seq| seq == begin);
        let Some(place) = place else { return messages };
        let mut messages = messages;
        if matches!(messages.get(place), Some(Message::User(_)))
            && let Some(Message::User(user)) = messages.to_mut().get_mut(place)
        {
            user.parts.push(Part::Text { text: known.clone() });
        }
        messages
    }

    /// Tells the memory of the turn, which is complete.
    pub(super) fn tell_memory(&mut self) {
        let conversation = &mut *self.conversation;
        if let (Some((first, _)), Some(last)) = (&self.begun_by, conversation.seqs.last()) {
            let place = (&conversation.agent.parts.store, &conversation.id);
            conversation.memory.turn_completed(place, *first, *last);
        }
    }
}
