//! The items of a response as they come about, and the events that tell of them.

use serde_json::{Value, json};

/// The output of a response, and the events of it that are to be sent.
#[derive(Debug, Default)]
pub(super) struct ResponseOutput {
    /// Items that are complete.
    items: Vec<Value>,
    /// The message that is being said.
    open: Option<OpenMessage>,
    events: Vec<Value>,
    messages: usize,
}

#[derive(Debug)]
struct OpenMessage {
    id: String,
    text: String,
}

impl ResponseOutput {
    /// Returns the items.
    pub(super) fn items(&self) -> &[Value] {
        &self.items
    }

    /// Takes the events that are to be sent, in order.
    pub(super) fn take_events(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.events)
    }

    /// Adds words of the answer.
    pub(super) fn say(&mut self, response: &str, words: &str) {
        if words.is_empty() {
            return;
        }
        let index = self.items.len();
        if self.open.is_none() {
            self.messages += 1;
            let id = format!("msg_{}_{}", response.trim_start_matches("resp_"), self.messages);
            let item = message(&id, "in_progress", None);
            self.event(
                "response.output_item.added",
                json!({ "output_index": index, "item": item }),
            );
            self.event(
                "response.content_part.added",
                json!({ "item_id": id, "output_index": index, "content_index": 0, "part": part("") }),
            );
            self.open = Some(OpenMessage { id, text: String::new() });
        }
        let Some(open) = &mut self.open else { return };
        open.text.push_str(words);
        let delta = json!({
            "item_id": open.id, "output_index": index, "content_index": 0, "delta": words,
            "logprobs": [],
        });
        self.event("response.output_text.delta", delta);
    }

    /// Completes the message that is being said.
    pub(super) fn close_message(&mut self) {
        let Some(OpenMessage { id, text }) = self.open.take() else { return };
        let index = self.items.len();
        let place = json!({ "item_id": id, "output_index": index, "content_index": 0 });
        let mut done = place.clone();
        done["text"] = json!(text);
        done["logprobs"] = json!([]);
        self.event("response.output_text.done", done);
        let mut done = place;
        done["part"] = part(&text);
        self.event("response.content_part.done", done);
        self.complete(message(&id, "completed", Some(&text)));
    }

    /// Adds a call of a tool.
    pub(super) fn call(&mut self, call: &str, name: &str, arguments: &str) {
        self.close_message();
        let index = self.items.len();
        let id = format!("fc_{call}");
        let item = |status: &str, arguments: &str| {
            json!({
                "id": id, "type": "function_call", "status": status, "call_id": call,
                "name": name, "arguments": arguments,
            })
        };
        let added = json!({ "output_index": index, "item": item("in_progress", "") });
        self.event("response.output_item.added", added);
        let place = json!({ "item_id": id, "output_index": index });
        let mut delta = place.clone();
        delta["delta"] = json!(arguments);
        self.event("response.function_call_arguments.delta", delta);
        let mut done = place;
        done["name"] = json!(name);
        done["arguments"] = json!(arguments);
        self.event("response.function_call_arguments.done", done);
        let item = item("completed", arguments);
        self.complete(item);
    }

    /// Adds what a tool answered.
    pub(super) fn called(&mut self, call: &str, output: &str) {
        self.close_message();
        let item = |status: &str| {
            json!({
                "id": format!("fco_{call}"), "type": "function_call_output", "status": status,
                "call_id": call, "output": output,
            })
        };
        let added = json!({ "output_index": self.items.len(), "item": item("in_progress") });
        self.event("response.output_item.added", added);
        self.complete(item("completed"));
    }

    fn complete(&mut self, item: Value) {
        let index = self.items.len();
        self.event("response.output_item.done", json!({ "output_index": index, "item": item }));
        self.items.push(item);
    }

    fn event(&mut self, kind: &str, mut event: Value) {
        event["type"] = json!(kind);
        self.events.push(event);
    }
}

fn part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
}

fn message(id: &str, status: &str, text: Option<&str>) -> Value {
    let content: Vec<Value> = text.into_iter().map(part).collect();
    json!({
        "id": id, "type": "message", "status": status, "role": "assistant", "content": content,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_added_and_done_at_its_place() {
        let mut output = ResponseOutput::default();
        output.say("resp_1", "let me ");
        output.say("resp_1", "look");
        output.call("c1", "terminal", "{}");
        output.called("c1", "done");
        output.say("resp_1", "ok");
        output.close_message();
        let kinds: Vec<(String, Value)> = output
            .take_events()
            .iter()
            .map(|event| {
                (
                    event["type"].as_str().unwrap_or_default().to_owned(),
                    event["output_index"].clone(),
                )
            })
            .collect();
        let expected = [
            ("response.output_item.added", 0),
            ("response.content_part.added", 0),
            ("response.output_text.delta", 0),
            ("response.output_text.delta", 0),
            ("response.output_text.done", 0),
            ("response.content_part.done", 0),
            ("response.output_item.done", 0),
            ("response.output_item.added", 1),
            ("response.function_call_arguments.delta", 1),
            ("response.function_call_arguments.done", 1),
            ("response.output_item.done", 1),
            ("response.output_item.added", 2),
            ("response.output_item.done", 2),
            ("response.output_item.added", 3),
            ("response.content_part.added", 3),
            ("response.output_text.delta", 3),
            ("response.output_text.done", 3),
            ("response.content_part.done", 3),
            ("response.output_item.done", 3),
        ];
        let expected: Vec<(String, Value)> =
            expected.iter().map(|(kind, at)| ((*kind).to_owned(), json!(at))).collect();
        assert_eq!(kinds, expected);
        assert_eq!(output.items().len(), 4);
        assert_eq!(output.items()[0]["content"][0]["text"], "let me look");
    }
}
