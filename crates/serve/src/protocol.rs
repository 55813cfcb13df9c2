//! Frames: what is read as a request, and how answers and events are written.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::{self, RpcError};
use crate::events::EventBody;

/// Members of a request that are shown in an error.
const SHOWN: usize = 80;

/// A request that was understood.
#[derive(Debug, PartialEq)]
pub(crate) struct RpcRequest {
    /// What the answer carries; none for a notification, which has no answer.
    pub(crate) id: Option<Value>,
    pub(crate) method: String,
    pub(crate) params: Map<String, Value>,
}

/// A frame that is not a request, and the id it is answered with.
#[derive(Debug, PartialEq)]
pub(crate) struct MalformedRequest {
    pub(crate) id: Value,
    pub(crate) error: RpcError,
}

/// Reads a frame.
pub(crate) fn read(text: &str) -> Result<RpcRequest, MalformedRequest> {
    let malformed = |id: Value, code: i32, message: &str| MalformedRequest {
        id,
        error: RpcError::new(code, message.to_owned()),
    };
    let value: Value = serde_json::from_str(text).map_err(|error| MalformedRequest {
        id: Value::Null,
        error: RpcError::new(error::PARSE, format!("the frame is not JSON: {error}")),
    })?;
    let mut object = match value {
        Value::Object(object) => object,
        Value::Array(_) => {
            let message = "batches are not taken; send one object per frame";
            return Err(malformed(Value::Null, error::INVALID_REQUEST, message));
        }
        _ => {
            let message = "a request is an object";
            return Err(malformed(Value::Null, error::INVALID_REQUEST, message));
        }
    };
    let id = match object.remove("id") {
        None => None,
        Some(id @ (Value::Null | Value::String(_) | Value::Number(_))) => Some(id),
        Some(_) => {
            let message = "an id is a string, a number or null";
            return Err(malformed(Value::Null, error::INVALID_REQUEST, message));
        }
    };
    let answered = || id.clone().unwrap_or(Value::Null);
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        let message = "\"jsonrpc\" must be \"2.0\"";
        return Err(malformed(answered(), error::INVALID_REQUEST, message));
    }
    let Some(Value::String(method)) = object.remove("method") else {
        let message = "\"method\" must be a string";
        return Err(malformed(answered(), error::INVALID_REQUEST, message));
    };
    let params = match object.remove("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => {
            let message = "\"params\" must be an object";
            return Err(malformed(answered(), error::BAD_PARAMS, message));
        }
    };
    Ok(RpcRequest { id, method, params })
}

/// Returns a name from a client, short enough to be repeated to it.
pub(crate) fn shown(name: &str) -> String {
    name.chars().take(SHOWN).collect()
}

/// Writes the answer to a request.
pub(crate) fn answer(id: &Value, result: Result<Value, RpcError>) -> String {
    #[derive(Serialize)]
    struct RpcAnswer<'a> {
        jsonrpc: &'static str,
        id: &'a Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<RpcError>,
    }
    let (result, error) = match result {
        Ok(result) => (Some(result), None),
        Err(error) => (None, Some(error)),
    };
    line(&RpcAnswer { jsonrpc: "2.0", id, result, error })
}

/// Writes an event, of a session or of the connection as a whole.
pub(crate) fn event(session: Option<(&str, u64)>, body: &EventBody) -> String {
    #[derive(Serialize)]
    struct RpcEvent<'a> {
        jsonrpc: &'static str,
        method: &'static str,
        params: Params<'a>,
    }
    #[derive(Serialize)]
    struct Params<'a> {
        #[serde(flatten)]
        body: &'a EventBody,
        #[serde(skip_serializing_if = "Option::is_none")]
        session_id: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        seq: Option<u64>,
    }
    let (session_id, seq) = session.unzip();
    line(&RpcEvent { jsonrpc: "2.0", method: "event", params: Params { body, session_id, seq } })
}

pub(crate) fn line(frame: &impl Serialize) -> String {
    // Maps with keys of text and plain values are all that frames are made of.
    serde_json::to_string(frame).unwrap_or_else(|error| {
        tracing::error!(%error, "a frame could not be written");
        String::from(
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"a frame could not be written"}}"#,
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn code(text: &str) -> (Value, i32) {
        let MalformedRequest { id, error } = read(text).unwrap_err();
        (id, error.code)
    }

    #[test]
    fn a_frame_that_is_no_request_is_distinguished_from_one_that_is() {
        assert_eq!(code("{"), (Value::Null, -32700));
        assert_eq!(code(&"[".repeat(100_000)), (Value::Null, -32700));
        assert_eq!(code("[]"), (Value::Null, -32600));
        assert_eq!(code("7"), (Value::Null, -32600));
        assert_eq!(code(r#"{"id":1,"method":"a"}"#), (json!(1), -32600));
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":{},"method":"a"}"#), (Value::Null, -32600));
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":"x"}"#), (json!("x"), -32600));
        assert_eq!(
            code(r#"{"jsonrpc":"2.0","id":"x","method":"a","params":[1]}"#),
            (json!("x"), -32602)
        );
        let request = read(r#"{"jsonrpc":"2.0","id":7,"method":"a","params":{"b":1}}"#).unwrap();
        let params = json!({ "b": 1 }).as_object().unwrap().clone();
        assert_eq!(request, RpcRequest { id: Some(json!(7)), method: "a".to_owned(), params });
        assert_eq!(read(r#"{"jsonrpc":"2.0","method":"a"}"#).unwrap().id, None);
    }

    #[test]
    fn an_answer_has_a_result_or_an_error() {
        assert_eq!(answer(&json!(1), Ok(Value::Null)), r#"{"jsonrpc":"2.0","id":1,"result":null}"#);
        assert_eq!(
            answer(&Value::Null, Err(RpcError::new(4001, "no"))),
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":4001,"message":"no"}}"#
        );
    }
}
