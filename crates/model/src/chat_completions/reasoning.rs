//! What a model thought: how it comes, and how it goes back.
//!
//! There are three ways about: the plain fields `reasoning_content` and
//! `reasoning`, and the list `reasoning_details`, whose entries may be signed
//! or encrypted. A plain text goes back under the field it came in, and only
//! amid the tool calls of the turn that continues, which is where providers want
//! it; a list goes back always and unchanged.

use serde_json::{Map, Value, json};

use crate::message::{Opaque, ProviderApi, Reasoning};

/// The fields that carry plain text.
const PLAIN: [&str; 2] = ["reasoning_content", "reasoning"];

/// What was thought so far.
#[derive(Default)]
pub(super) struct Thoughts {
    text: String,
    field: Option<&'static str>,
    details: Vec<Value>,
}

impl Thoughts {
    /// Takes what a delta holds and returns the words that are new.
    pub(super) fn take(&mut self, delta: &Value) -> String {
        let mut new = String::new();
        for field in PLAIN {
            if let Some(text) = delta[field].as_str()
                && !text.is_empty()
                // A provider that sends both fields says the same in each.
                && *self.field.get_or_insert(field) == field
            {
                new.push_str(text);
            }
        }
        for detail in delta["reasoning_details"].as_array().into_iter().flatten() {
            if self.field.is_none() {
                let words = detail["text"].as_str().or_else(|| detail["summary"].as_str());
                new.push_str(words.unwrap_or_default());
            }
            self.add_detail(detail);
        }
        self.text.push_str(&new);
        new
    }

    /// Takes words of a content list that are marked as thought.
    pub(super) fn push_text(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Entries come in pieces: those of one kind and index belong together.
    fn add_detail(&mut self, piece: &Value) {
        let last = self.details.last_mut().filter(|last| {
            last["type"] == piece["type"] && last["index"] == piece["index"] && last.is_object()
        });
        let (Some(Value::Object(last)), Value::Object(piece)) = (last, piece) else {
            self.details.push(piece.clone());
            return;
        };
        for (key, value) in piece {
            match (last.get_mut(key), value) {
                (_, Value::Null) => {}
                (Some(Value::String(known)), Value::String(more))
                    if matches!(key.as_str(), "text" | "summary" | "data") =>
                {
                    known.push_str(more);
                }
                _ => {
                    last.insert(key.clone(), value.clone());
                }
            }
        }
    }

    /// Returns what was thought, as a message keeps it.
    pub(super) fn end(self, provider: &str) -> Vec<Reasoning> {
        if self.text.is_empty() && self.details.is_empty() {
            return Vec::new();
        }
        let value = if self.details.is_empty() {
            self.field.map(|field| json!({ "field": field }))
        } else {
            Some(json!({ "reasoning_details": self.details }))
        };
        let provider = provider.to_owned();
        let opaque =
            value.map(|value| Opaque { api: ProviderApi::ChatCompletions, provider, value });
        vec![Reasoning { text: self.text, opaque }]
    }
}

/// Puts a block into the fields of a message, if it goes back at all.
pub(super) fn give_back(
    block: &Reasoning,
    provider: &str,
    amid_calls: bool,
    fields: &mut Map<String, Value>,
) {
    let Some(opaque) = &block.opaque else { return };
    if opaque.api != ProviderApi::ChatCompletions || opaque.provider != provider {
        return;
    }
    if let Some(details) = opaque.value["reasoning_details"].as_array() {
        fields.insert("reasoning_details".to_owned(), Value::Array(details.clone()));
    } else if amid_calls
        && let Some(field) = PLAIN.into_iter().find(|f| opaque.value["field"] == **f)
    {
        fields.insert(field.to_owned(), Value::String(block.text.clone()));
    }
}

/// How thoughts begin and end, as the models that write them into their answers
/// were taught to.
const TAGS: [(&str, &str); 2] = [("<think>", "</think>"), ("<thinking>", "</thinking>")];

#[derive(Debug, PartialEq, Eq)]
pub(super) enum AnswerPiece {
    /// A thought.
    Thought(String),
    /// Words for the person.
    Words(String),
}

/// Tells thoughts from words as an answer comes. Only a tag at the very
/// beginning counts: a later one is a word about tags.
#[derive(Default)]
pub(super) struct ThinkTags {
    state: ReasoningState,
    held: String,
}

#[derive(Default)]
enum ReasoningState {
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
    pub(super) fn push(&mut self, text: &str) -> Vec<AnswerPiece> {
        self.held.push_str(text);
        let mut pieces = Vec::new();
        loop {
            match self.state {
                ReasoningState::Beginning => {
                    let begun = self.held.trim_start();
                    if let Some((open, close)) =
                        TAGS.iter().find(|(open, _)| begun.starts_with(open))
                    {
                        let tag_end = self.held.len() - begun.len() + open.len();
                        self.held.drain(..tag_end);
                        self.state = ReasoningState::Thinking(close);
                    } else if TAGS.iter().any(|(open, _)| open.starts_with(begun)) {
                        return pieces;
                    } else {
                        self.state = ReasoningState::Speaking;
                    }
                }
                ReasoningState::Thinking(close) => {
                    let Some(end) = self.held.find(close) else {
                        let safe = self.held.len() - held_back(&self.held, close);
                        let thought = self.held.drain(..safe).collect();
                        add(&mut pieces, AnswerPiece::Thought(thought));
                        return pieces;
                    };
                    let thought = self.held.drain(..end).collect();
                    self.held.drain(..close.len());
                    add(&mut pieces, AnswerPiece::Thought(thought));
                    self.state = ReasoningState::Thought;
                }
                ReasoningState::Thought => {
                    let blank = self.held.len() - self.held.trim_start().len();
                    self.held.drain(..blank);
                    if self.held.is_empty() {
                        return pieces;
                    }
                    self.state = ReasoningState::Speaking;
                }
                ReasoningState::Speaking => {
                    add(&mut pieces, AnswerPiece::Words(std::mem::take(&mut self.held)));
                    return pieces;
                }
            }
        }
    }

    /// Returns what was held back, at the end of the answer.
    pub(super) fn end(self) -> Vec<AnswerPiece> {
        let mut pieces = Vec::new();
        add(
            &mut pieces,
            match self.state {
                ReasoningState::Thinking(_) => AnswerPiece::Thought(self.held),
                ReasoningState::Beginning | ReasoningState::Thought | ReasoningState::Speaking => {
                    AnswerPiece::Words(self.held)
                }
            },
        );
        pieces
    }
}

fn add(pieces: &mut Vec<AnswerPiece>, piece: AnswerPiece) {
    let (AnswerPiece::Thought(text) | AnswerPiece::Words(text)) = &piece;
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
    fn split_text(answer: &str, size: usize) -> (String, String) {
        let mut tags = ThinkTags::default();
        let chars: Vec<char> = answer.chars().collect();
        let mut pieces: Vec<AnswerPiece> =
            chars.chunks(size).flat_map(|piece| tags.push(&String::from_iter(piece))).collect();
        pieces.extend(tags.end());
        let (mut thoughts, mut words) = (String::new(), String::new());
        for piece in pieces {
            match piece {
                AnswerPiece::Thought(text) => thoughts.push_str(&text),
                AnswerPiece::Words(text) => words.push_str(&text),
            }
        }
        (thoughts, words)
    }

    #[test]
    fn thoughts_at_the_beginning_are_distinguished_from_words_however_they_come() {
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
                    split_text(answer, size),
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
            prop_assert_eq!(split_text(&answer, size), (String::new(), answer));
        }
    }
}
