//! `web_search`, against the JSON of a `SearXNG` instance.

use std::collections::HashMap;

use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

use crate::fixture::{Site, WebFixture};

/// Answers as `SearXNG` does.
async fn search(Query(asked): Query<HashMap<String, String>>) -> axum::response::Response {
    if asked.get("format").map(String::as_str) != Some("json") {
        return (StatusCode::BAD_REQUEST, "").into_response();
    }
    let query = asked.get("q").cloned().unwrap_or_default();
    let results = if query == "nothing" {
        json!([])
    } else {
        json!([
            {"title": "First\n page", "url": "https://example.org/1", "content": "about  it", "engine": "x",
             "publishedDate": "2026-01-02T00:00:00", "score": 1.5},
            {"title": "No address", "content": "lost"},
            {"url": "https://example.org/2", "title": null, "content": "y".repeat(5000)},
            {"url": "https://example.org/3", "title": query},
        ])
    };
    Json(json!({"query": query, "number_of_results": 0, "results": results, "answers": []}))
        .into_response()
}

#[tokio::test]
async fn what_is_found_comes_with_titles_addresses_and_quotes() {
    let site = Site::start(Router::new().route("/base/search", get(search))).await;
    let fixture = WebFixture::new(&[]).with(&format!("web.search_url={}", site.url("/base")));
    let read = fixture.read("web_search", json!({"query": "a & b = c?"})).await;
    let results = read["results"].as_array().unwrap();
    assert_eq!(results.len(), 3, "{read}");
    let first = json!({"title": "First page", "url": "https://example.org/1", "snippet": "about it",
        "published": "2026-01-02T00:00:00"});
    assert_eq!(results[0], first);
    assert_eq!(results[1]["snippet"].as_str().unwrap().len(), 600);
    assert_eq!(results[2]["title"], "a & b = c?");
    assert!(read["note"].as_str().unwrap().contains("untrusted"));
    let two = fixture.read("web_search", json!({"query": "x", "limit": 2})).await;
    assert_eq!(two["results"].as_array().unwrap().len(), 2);
    let none = fixture.read("web_search", json!({"query": "nothing"})).await;
    assert_eq!(none["results"], json!([]));
}

#[tokio::test]
async fn without_an_address_there_is_no_search() {
    let fixture = WebFixture::new(&[]);
    assert!(fixture.tool("web_search").is_none());
    assert!(fixture.tool("web_fetch").is_some());
}

#[tokio::test]
async fn a_search_engine_that_fails_is_told_apart() {
    let routes = Router::new()
        .route("/forbidden/search", get(|| async { StatusCode::FORBIDDEN }))
        .route("/broken/search", get(|| async { StatusCode::BAD_GATEWAY }))
        .route("/page/search", get(|| async { "<html>" }))
        .route("/silent/search", get(|| async { std::future::pending::<&str>().await }));
    let site = Site::start(routes).await;
    for (base, words) in [
        ("/forbidden", "search.formats"),
        ("/broken", "status 502"),
        ("/page", "not as expected"),
        ("/silent", "within 1 s"),
    ] {
        let fixture =
            WebFixture::new(&["web.timeout=1"]).with(&format!("web.search_url={}", site.url(base)));
        let read = fixture.read("web_search", json!({"query": "x"})).await;
        assert!(read["error"].as_str().unwrap().contains(words), "{base}: {read}");
    }
}
