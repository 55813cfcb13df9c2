//! The words of a stream: what was sent cannot be taken back.

/// The words of a stream. What was sent cannot be taken back: when a model is asked again, what
/// it repeats is not sent a second time, and other words in its place end the stream.
#[derive(Debug, Default)]
pub(super) struct StreamedWords {
    /// What was sent of the running call of the model.
    sent: String,
    /// How much of it the call that is asked again has repeated.
    repeated: Option<usize>,
    is_any: bool,
}

/// Other words came in place of those that were sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Diverged;

impl StreamedWords {
    /// Reports whether nothing was sent.
    pub(super) fn is_empty(&self) -> bool {
        !self.is_any
    }

    /// Returns what of these words is new.
    pub(super) fn add<'a>(&mut self, text: &'a str) -> Result<&'a str, Diverged> {
        let mut new = text;
        if let Some(at) = self.repeated {
            let expected = self.sent.get(at..).ok_or(Diverged)?;
            if let Some(rest) = text.strip_prefix(expected) {
                new = rest;
                self.repeated = None;
            } else if expected.starts_with(text) {
                self.repeated = Some(at + text.len());
                return Ok("");
            } else {
                return Err(Diverged);
            }
        }
        self.sent.push_str(new);
        self.is_any |= !new.is_empty();
        Ok(new)
    }

    /// The words of the running call are void; it is asked again.
    pub(super) fn discard(&mut self) {
        self.repeated = (!self.sent.is_empty()).then_some(0);
    }

    /// The running call is complete.
    pub(super) fn settle(&mut self) {
        self.sent.clear();
        self.repeated = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_repeats_after_a_broken_answer_is_sent_once() {
        let mut words = StreamedWords::default();
        assert_eq!(words.add("one two"), Ok("one two"));
        words.discard();
        assert_eq!(words.add("one"), Ok(""));
        assert_eq!(words.add(" two three"), Ok(" three"));
        assert_eq!(words.add(" four"), Ok(" four"));
        words.settle();
        assert_eq!(words.add("one two"), Ok("one two"));
    }

    #[test]
    fn other_words_in_place_of_those_sent_end_the_stream() {
        let mut words = StreamedWords::default();
        assert_eq!(words.add("one two"), Ok("one two"));
        words.discard();
        assert_eq!(words.add("one three"), Err(Diverged));
    }
}
