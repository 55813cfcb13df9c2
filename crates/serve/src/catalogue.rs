//! The catalogue of the protocol, for people who write a front end: made from the types.

use serde_json::{Value, json};

use crate::connection::PROTOCOL;
use crate::error::CODES;
use crate::events::EventBody;
use crate::methods::{AnswerPace, METHODS, schema};

/// Returns all methods, events and error codes, with the JSON schemas of what goes over the wire.
pub fn catalogue() -> Value {
    let methods: Vec<Value> = METHODS
        .iter()
        .map(|method| {
            json!({
                "name": method.name,
                "about": method.about,
                "answered": match method.pace {
                    AnswerPace::Inline => "in order",
                    AnswerPace::Beside => "when done",
                },
                "params": (method.params)(),
                "result": (method.result)(),
            })
        })
        .collect();
    let errors: Vec<Value> =
        CODES.iter().map(|(code, about)| json!({ "code": code, "about": about.trim() })).collect();
    json!({
        "protocol": PROTOCOL,
        "methods": methods,
        "events": schema::<EventBody>(),
        "errors": errors,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_catalogue_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/serve.json");
        let committed: Value =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert!(
            committed == catalogue(),
            "run `cargo run -p vestal-serve --example catalogue > docs/serve.json`"
        );
    }

    #[test]
    fn every_method_has_a_name_of_its_own_and_objects_for_params_and_result() {
        for (at, method) in METHODS.iter().enumerate() {
            assert!(METHODS[..at].iter().all(|known| known.name != method.name), "{}", method.name);
            assert_eq!((method.params)()["type"], "object", "{}", method.name);
        }
    }
}
