//! The model to talk to by hand: it runs what it is told to, and repeats the rest.

use serde_json::json;

use crate::reply::Reply;
use crate::request::Request;

/// What a user message starts with to have the rest run.
const COMMAND: &str = "$ ";

/// Returns the reply to a request: what the tools said, a call of `terminal`
/// for a message that starts with `$ `, else the message itself.
pub(crate) fn reply(request: &Request) -> Reply {
    let results = request.last_tool_results();
    if !results.is_empty() {
        return Reply::text(results.join("\n"));
    }
    let said = request.last_user_text().unwrap_or_default();
    match said.strip_prefix(COMMAND) {
        Some(command) => Reply::tool_call("terminal", json!({"command": command})),
        None => Reply::text(said),
    }
}
