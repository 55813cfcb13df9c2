//! The document that describes the API.

use std::path::Path;

use serde_json::Value;
use vestal_gateway::{ShutdownCause, openapi_document};
use vestal_scripted_model::Script;

use crate::support::{TestGateway, answer};

#[test]
fn the_committed_document_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let committed: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert!(
        committed == openapi_document(),
        "docs/openapi.json is not current; regenerate it with: cargo run -p vestal-gateway --example openapi > docs/openapi.json"
    );
}

#[test]
fn every_reference_in_it_leads_somewhere() {
    let document = openapi_document();
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"").skip(1) {
        let reference = reference.split('"').next().unwrap();
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
}

#[test]
fn every_answer_in_it_has_a_type_with_members() {
    let document = openapi_document();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            for (status, answer) in operation["responses"].as_object().unwrap() {
                let schema = &answer["content"]["application/json"]["schema"];
                if answer["content"]["application/json"].is_null() {
                    continue;
                }
                let pointer = schema["$ref"].as_str().and_then(|to| to.strip_prefix('#'));
                let schema = pointer.and_then(|to| document.pointer(to)).unwrap_or(schema);
                let has_members =
                    ["properties", "oneOf", "allOf"].iter().any(|name| !schema[name].is_null());
                assert!(has_members, "{method} {path} {status}: {schema}");
            }
        }
    }
}

#[tokio::test]
async fn every_route_in_it_is_served_and_needs_the_key_as_it_says() {
    let gateway = TestGateway::start(Script::replies([])).await;
    let served = gateway.get_without_key("/openapi.json").await;
    assert_eq!(served.body, openapi_document());
    for (path, methods) in served.body["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let is_open = operation["security"].as_array().is_some_and(Vec::is_empty);
            let method = reqwest::Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let request = reqwest::Client::new().request(method.clone(), gateway.url(path));
            let status = answer(request).await.status;
            let expected = if is_open { 200 } else { 401 };
            assert_eq!(status, expected, "{method} {path}");
        }
    }
    gateway.end(ShutdownCause::Planned).await;
}
