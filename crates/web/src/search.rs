//! The search of a `SearXNG` instance.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use reqwest::{Client, StatusCode, Url};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::fetch::{chain, client, failure, read};

/// Bytes of an answer.
const MOST_BYTES: usize = 4 << 20;

/// Characters of a title, of an address, and of what is quoted of a page.
const TITLE: usize = 200;
const URL: usize = 1000;
const SNIPPET: usize = 600;

/// Asks one search engine.
pub struct Searcher {
    base: String,
    timeout: Duration,
    client: OnceLock<Result<Client, String>>,
}

/// A page that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SearchResult {
    /// Its title.
    pub title: String,
    /// Its address.
    pub url: String,
    /// What the search engine quotes of it.
    pub snippet: String,
    /// When it was published, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<String>,
}

/// Why nothing was searched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// The instance does not give JSON.
    #[error(
        "the search engine refuses the format json (status {0}); whoever runs it adds json to search.formats in its settings.yml"
    )]
    NoJson(u16),
    /// It answers with another status.
    #[error("the search engine answered with status {0}")]
    Status(u16),
    /// It answers too late.
    #[error("the search engine did not answer within {0} s (web.timeout)")]
    Timeout(u64),
    /// Something failed.
    #[error("the search engine cannot be asked: {0}")]
    Failed(String),
}

#[derive(Deserialize)]
struct SearchAnswer {
    #[serde(default)]
    results: Vec<FoundPage>,
}

#[derive(Deserialize)]
struct FoundPage {
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    content: Option<String>,
    #[serde(default, rename = "publishedDate")]
    published: Option<String>,
}

impl Searcher {
    /// Returns what asks the instance at an address.
    pub fn new(base: &str, timeout: Duration) -> Self {
        Self { base: base.to_owned(), timeout, client: OnceLock::new() }
    }

    /// Searches, and returns so many results at most.
    pub async fn search(&self, query: &str, most: usize) -> Result<Vec<SearchResult>, SearchError> {
        let late = SearchError::Timeout(self.timeout.as_secs());
        timeout(self.timeout, self.ask(query, most)).await.unwrap_or(Err(late))
    }

    async fn ask(&self, query: &str, most: usize) -> Result<Vec<SearchResult>, SearchError> {
        let base = format!("{}/search", self.base.trim_end_matches('/'));
        let mut url = Url::parse(&base).map_err(|error| SearchError::Failed(error.to_string()))?;
        url.query_pairs_mut().append_pair("q", query).append_pair("format", "json");
        let client = self.client()?;
        let failed = |error: reqwest::Error| SearchError::Failed(failure(error).to_string());
        let response = client.get(url).send().await.map_err(failed)?;
        let status = response.status();
        if status == StatusCode::FORBIDDEN {
            return Err(SearchError::NoJson(status.as_u16()));
        }
        if !status.is_success() {
            return Err(SearchError::Status(status.as_u16()));
        }
        let (body, _) = read(response, MOST_BYTES)
            .await
            .map_err(|error| SearchError::Failed(error.to_string()))?;
        let answer: SearchAnswer = serde_json::from_slice(&body).map_err(|error| {
            SearchError::Failed(format!("its answer is not as expected: {error}"))
        })?;
        Ok(answer.results.into_iter().filter_map(SearchResult::of).take(most).collect())
    }

    fn client(&self) -> Result<&Client, SearchError> {
        let made =
            self.client.get_or_init(|| client(self.timeout).build().map_err(|error| chain(&error)));
        made.as_ref().map_err(|why| SearchError::Failed(why.clone()))
    }
}

impl SearchResult {
    fn of(found: FoundPage) -> Option<Self> {
        let url = found.url.filter(|url| !url.is_empty() && url.len() <= URL)?;
        let text = |text: Option<String>, most: usize| {
            let text = text.unwrap_or_default();
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            words.chars().take(most).collect::<String>()
        };
        let published = text(found.published, 40);
        Some(Self {
            title: text(found.title, TITLE),
            url,
            snippet: text(found.content, SNIPPET),
            published: (!published.is_empty()).then_some(published),
        })
    }
}

/// Shows everything but the address, which may be private.
impl fmt::Debug for Searcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Searcher").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}
