//! The catalogue of the protocol, for people who write a client: made from the types.

use schemars::JsonSchema;
use serde_json::{Value, json};

use super::connection::PROTOCOL;
use super::events::SandboxEvent;
use super::failure::{CANCELLED, FailureKind};
use super::methods::{METHODS, MethodPace};
use crate::error::CODES;
use crate::methods::schema;

/// Returns all methods, events and errors of `vestal serve --sandboxes`, with the JSON schemas of what goes
/// over the wire.
pub fn sandbox_catalogue() -> Value {
    let methods: Vec<Value> = METHODS
        .iter()
        .map(|method| {
            json!({
                "name": method.name,
                "about": method.about,
                "answered": match method.pace {
                    MethodPace::AtOnce => "in order",
                    MethodPace::Brief | MethodPace::Long | MethodPace::Minded => "when done",
                },
                "params": (method.params)(),
                "result": (method.result)(),
            })
        })
        .collect();
    let used =
        [-32700, -32600, -32601, -32602, -32603, -32000, 4002, 4003, 4007, 4009, 4018, 4044, 5019];
    let mut errors: Vec<Value> = CODES
        .iter()
        .filter(|(code, _)| used.contains(code))
        .map(|(code, about)| json!({ "code": code, "about": about.trim() }))
        .collect();
    errors.push(json!({ "code": CANCELLED, "about": "The request was cancelled." }));
    json!({
        "protocol": PROTOCOL,
        "methods": methods,
        "events": schema::<SandboxEvent>(),
        "errors": errors,
        "error_data": schema::<ErrorData>(),
    })
}

/// `data` of an error of a method.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is looked at")]
struct ErrorData {
    /// What kind of failure it is. Codes are shared by several kinds.
    kind: Option<FailureKind>,
    /// What to do about it, a sentence each.
    advice: Vec<String>,
    /// The job that it is about.
    job: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_catalogue_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/serve-sandboxes.json");
        let committed: Value =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert!(
            committed == sandbox_catalogue(),
            "run `cargo run -p vestal-serve --example sandbox-catalogue > docs/serve-sandboxes.json`"
        );
    }

    #[test]
    fn every_method_has_a_name_of_its_own_and_objects_for_params_and_result() {
        for (at, method) in METHODS.iter().enumerate() {
            assert!(METHODS[..at].iter().all(|known| known.name != method.name), "{}", method.name);
            assert_eq!((method.params)()["type"], "object", "{}", method.name);
            assert_eq!((method.result)()["type"], "object", "{}", method.name);
        }
    }
}
