//! Thoughts that a model writes into its answer, between tags.

/// How thoughts begin and end, as the models that write them into their answers
/// were taught to.
const TAGS: [(&str, &str); 2] = [("<think>", "</think>"), ("<thinking>", "</thinking>")];

/// A piece of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A thought.
    Thought(String),
    /// Words for the person.
    Words(String),
}

/// Tells thoughts from words as an answer comes. Only a tag at the very
/// beginning counts: a later one is a word about tags.
#[derive(Default)]
pub(super) struct ThinkTags {
    state: State,
    held: String,
}

#[derive(Default)]
enum State {
    /// Nothing but white space, or the beginning of a tag, has come.
    #[default]
    Beginning,
    /// Inside, until this tag.
    Thinking(&'static str),
    /// After them, before the first word.
    Thought,
    Speaking,
}

impl ThinkTags {
    /// Takes more of the answer and returns what is known of it now.
    pub(super) fn push(&mut self, text: &str) -> Vec<Piece> {
        self.held.push_str(text);
        let mut pieces = Vec::new();
        loop {
            match self.state {
                State::Beginning => {
                    let begun = self.held.trim_start();
                    if let Some((open, close)) =
                        TAGS.iter().find(|(open, _)| begun.starts_with(open))
                    {
                        let tag_end = self.held.len() - begun.len() + open.len();
                        self.held.drain(..tag_end);
                        self.state = State::Thinking(close);
                    } else if TAGS.iter().any(|(open, _)| open.starts_with(begun)) {
                        return pieces;
                    } else {
                        self.state = State::Speaking;
                    }
                }
                State::Thinking(close) => {
                    let Some(end) = self.held.find(close) else {
                        let safe = self.held.len() - held_back(&self.held, close);
                        let thought = self.held.drain(..safe).collect();
                        add(&mut pieces, Piece::Thought(thought));
                        return pieces;
                    };
                    let thought = self.held.drain(..end).collect();
                    self.held.drain(..close.len());
                    add(&mut pieces, Piece::Thought(thought));
                    self.state = State::Thought;
                }
                State::Thought => {
                    let blank = self.held.len() - self.held.trim_start().len();
                    self.held.drain(..blank);
                    if self.held.is_empty() {
                        return pieces;
                    }
                    self.state = State::Speaking;
                }
                State::Speaking => {
                    add(&mut pieces, Piece::Words(std::mem::take(&mut self.held)));
                    return pieces;
                }
            }
        }
    }

    /// Returns what was held back, at the end of the answer.
    pub(super) fn end(self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        add(
            &mut pieces,
            match self.state {
                State::Thinking(_) => Piece::Thought(self.held),
                State::Beginning | State::Thought | State::Speaking => Piece::Words(self.held),
            },
        );
        pieces
    }
}

fn add(pieces: &mut Vec<Piece>, piece: Piece) {
    let (Piece::Thought(text) | Piece::Words(text)) = &piece;
    if !text.is_empty() {
        pieces.push(piece);
    }
}

/// Returns how many bytes at the end may be the beginning of the tag.
fn held_back(text: &str, tag: &str) -> usize {
    (1..tag.len()).rev().find(|length| text.ends_with(&tag[..*length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns thoughts and words of an answer that comes in pieces of a size.
    fn told(answer: &str, size: usize) -> (String, String) {
        let mut tags = ThinkTags::default();
        let chars: Vec<char> = answer.chars().collect();
        let mut pieces: Vec<Piece> =
            chars.chunks(size).flat_map(|piece| tags.push(&String::from_iter(piece))).collect();
        pieces.extend(tags.end());
        let (mut thoughts, mut words) = (String::new(), String::new());
        for piece in pieces {
            match piece {
                Piece::Thought(text) => thoughts.push_str(&text),
                Piece::Words(text) => words.push_str(&text),
            }
        }
        (thoughts, words)
    }

    #[test]
    fn thoughts_at_the_beginning_are_told_from_words_however_they_come() {
        let cases = [
            ("<think>hm, é</think>\n\nYes.", "hm, é", "Yes."),
            ("\n<thinking>a < b </thin</thinking>Yes.", "a < b </thin", "Yes."),
            ("<think>never ends", "never ends", ""),
            ("Use <think>tags</think>.", "", "Use <think>tags</think>."),
            ("<thin", "", "<thin"),
            ("  two", "", "  two"),
            ("<think></think>", "", ""),
        ];
        for (answer, thoughts, words) in cases {
            for size in 1..=answer.len() {
                assert_eq!(
                    told(answer, size),
                    (thoughts.into(), words.into()),
                    "{answer} by {size}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn an_answer_without_a_tag_is_not_changed(answer in "[a-z <>/\n]{0,40}", size in 1_usize..9) {
            prop_assume!(!TAGS.iter().any(|(open, _)| answer.trim_start().starts_with(open)));
            prop_assert_eq!(told(&answer, size), (String::new(), answer));
        }
    }
}
