//! Tool calls, put together from their pieces.
//!
//! Pieces should carry an index, but not every server sends one; some send the
//! index 0 for every call, some leave out the id, some send the name in pieces,
//! and some repeat it, whole or as far as it goes, with each piece.

use serde_json::Value;

use crate::message::ToolCall;

#[derive(Default)]
struct CallSlot {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    announced: bool,
}

/// The calls so far.
#[derive(Default)]
pub(super) struct PartialCalls {
    slots: Vec<CallSlot>,
}

impl PartialCalls {
    /// Takes the pieces of one delta and returns the names of the calls whose
    /// name is complete now.
    pub(super) fn take(&mut self, pieces: &[Value]) -> Vec<String> {
        let mut touched = None;
        for piece in pieces {
            touched = Some(self.take_one(piece, touched));
        }
        self.announce(|slot| !slot.arguments.is_empty())
    }

    fn take_one(&mut self, piece: &Value, touched: Option<usize>) -> usize {
        let function = &piece["function"];
        let index = piece["index"].as_u64();
        let id = piece["id"].as_str().unwrap_or_default();
        let name = function["name"].as_str().unwrap_or_default();
        let position = self.find(index, id, name, touched);
        let position = position.unwrap_or_else(|| {
            self.slots.push(CallSlot { index, ..CallSlot::default() });
            self.slots.len() - 1
        });
        let slot = &mut self.slots[position];
        if slot.id.is_empty() {
            id.clone_into(&mut slot.id);
        }
        if slot.arguments.is_empty() {
            // Some repeat what was said of the name, with or without more of it.
            slot.name.push_str(name.strip_prefix(slot.name.as_str()).unwrap_or(name));
        }
        match &function["arguments"] {
            Value::String(more) => slot.arguments.push_str(more),
            Value::Null => {}
            whole => slot.arguments.push_str(&whole.to_string()),
        }
        position
    }

    /// Returns the call that a piece continues with; none: it begins another.
    fn find(
        &self,
        index: Option<u64>,
        id: &str,
        name: &str,
        touched: Option<usize>,
    ) -> Option<usize> {
        if index.is_some() {
            let position = self.slots.iter().rposition(|slot| slot.index == index)?;
            let known = &self.slots[position].id;
            let another = !id.is_empty() && !known.is_empty() && id != known && !name.is_empty();
            return (!another).then_some(position);
        }
        if !id.is_empty() {
            return self.slots.iter().rposition(|slot| slot.id == id);
        }
        let position = self.slots.len().checked_sub(1)?;
        let last = &self.slots[position];
        let repeated = last.name == name && !is_complete(&last.arguments);
        let goes_on = name.is_empty() || last.arguments.is_empty() || repeated;
        // Two entries of one list without id and index are two calls.
        (goes_on && touched != Some(position)).then_some(position)
    }

    /// Returns the names that are complete and were not returned before.
    fn announce(&mut self, is_complete: impl Fn(&CallSlot) -> bool) -> Vec<String> {
        let count = self.slots.len();
        let mut names = Vec::new();
        for (position, slot) in self.slots.iter_mut().enumerate() {
            if !slot.announced && (position + 1 < count || is_complete(slot)) {
                slot.announced = true;
                names.push(slot.name.clone());
            }
        }
        names
    }

    /// Returns the calls, and the names of those that were not returned before.
    pub(super) fn end(mut self) -> (Vec<ToolCall>, Vec<String>) {
        let names = self.announce(|_| true);
        let mut calls: Vec<ToolCall> = Vec::with_capacity(self.slots.len());
        for slot in self.slots {
            let taken = calls.iter().any(|call| call.id == slot.id);
            let id = if slot.id.is_empty() || taken { new_id() } else { slot.id };
            calls.push(ToolCall { id, name: slot.name, arguments: slot.arguments });
        }
        (calls, names)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

fn is_complete(arguments: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(arguments).is_ok()
}

fn new_id() -> String {
    format!("call_{:016x}{:08x}", fastrand::u64(..), fastrand::u32(..))
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
