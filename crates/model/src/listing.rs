//! Lists of models, as providers give them and as they are kept on disk.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use jiff::Timestamp;
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::sleep;

use crate::attempt::{Attempt, FailedAnswer, NextAttempt, RetryLimit, next_attempt};
use crate::endpoint::Endpoint;
use crate::error::ModelError;
use crate::message::ProviderApi;
use crate::models::Models;
use crate::wire::AnswerFault;

/// The most bytes of a list that are read.
const MAX_LIST: usize = 16 << 20;

/// More pages than any list has.
const MOST_PAGES: usize = 20;

/// A model that a provider offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// What the provider calls it.
    pub id: String,
    /// What it calls it for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Tokens it can hold, where the provider says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_length: Option<u64>,
}

impl Models {
    /// Returns the models that an endpoint's provider offers, by name, and
    /// keeps in mind how much each can hold.
    #[boxed]
    pub async fn list(&self, endpoint: &Endpoint) -> Result<Vec<ModelInfo>, ModelError> {
        let shared = self.shared();
        let attempt = Attempt { shared, endpoint };
        let mut number = 1;
        let mut models = loop {
            let mut error = match pages(&attempt).await {
                Ok(models) => break models,
                Err(failed) => failed.error,
            };
            if let Some(detail) = error.detail_mut() {
                detail.attempts = number;
            }
            let next = next_attempt(&error, number, &shared.options, RetryLimit::Short);
            let NextAttempt::Again(after) = next else {
                return Err(error);
            };
            number += 1;
            sleep(after).await;
        };
        models.sort_by(|a, b| a.id.cmp(&b.id));
        models.dedup_by(|a, b| a.id == b.id);
        self.remember(endpoint, &models);
        Ok(models)
    }

    /// Keeps in mind how much each model can hold.
    pub(crate) fn remember(&self, endpoint: &Endpoint, models: &[ModelInfo]) {
        for model in models {
            if let Some(limit) = model.context_length {
                self.shared().memory.listed(endpoint, &model.id, limit);
            }
        }
    }
}

async fn pages(attempt: &Attempt<'_>) -> Result<Vec<ModelInfo>, FailedAnswer> {
    let mut models = Vec::new();
    let mut after: Option<String> = None;
    for _ in 0..MOST_PAGES {
        let mut url = attempt.endpoint.url(&["models"])?;
        if attempt.endpoint.api == ProviderApi::AnthropicMessages {
            url.query_pairs_mut().append_pair("limit", "1000");
        }
        if let Some(after) = &after {
            url.query_pairs_mut().append_pair("after_id", after);
        }
        let response = attempt.send(Method::GET, url, None).await?;
        let body = attempt.read(response, MAX_LIST).await?;
        let garbage = |message: String| attempt.fault(AnswerFault::Garbage(message));
        let value: Value = serde_json::from_slice(&body)
            .map_err(|error| garbage(format!("the list of models is not JSON: {error}")))?;
        let list = [&value["data"], &value["models"], &value].into_iter().find_map(Value::as_array);
        let list = list.ok_or_else(|| garbage("there is no list of models in it".to_owned()))?;
        models.extend(list.iter().filter_map(info));
        let last = value["last_id"].as_str().map(str::to_owned);
        if value["has_more"] != Value::Bool(true) || last.is_none() || last == after {
            return Ok(models);
        }
        after = last;
    }
    Ok(models)
}

fn info(model: &Value) -> Option<ModelInfo> {
    let id = model["id"].as_str().or_else(|| model["name"].as_str())?.to_owned();
    let name = model["display_name"].as_str().or_else(|| model["name"].as_str());
    let sizes = [
        &model["top_provider"]["context_length"],
        &model["context_length"],
        &model["max_model_len"],
        &model["context_window"],
        &model["max_context_length"],
        &model["max_input_tokens"],
        &model["meta"]["n_ctx"],
    ];
    Some(ModelInfo {
        name: name.filter(|name| *name != id).map(str::to_owned),
        context_length: sizes.into_iter().find_map(Value::as_u64).filter(|size| *size > 0),
        id,
    })
}

/// The version of the file that is written.
const VERSION: u32 = 1;

/// Whether a kept list will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// One that is young enough will.
    Cached,
    /// The provider is asked.
    Refresh,
}

/// Where a list comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListedFrom {
    /// The provider, just now.
    Provider,
    /// The file, and it is young enough.
    Cache,
    /// The file, though it is too old, since the provider did not answer.
    Outdated {
        /// Why it did not.
        error: ModelError,
    },
}

/// A list of models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelList {
    /// The models, by name.
    pub models: Vec<ModelInfo>,
    /// When the provider was asked.
    pub fetched_at: Timestamp,
    /// Where the list comes from.
    pub from: ListedFrom,
}

/// A file of lists, one for each provider. It is only a cache: whatever is
/// wrong with it, the provider is asked.
#[derive(Debug, Clone)]
pub struct ListCache {
    path: PathBuf,
    max_age: Duration,
}

#[derive(Serialize, Deserialize)]
struct ListingFile {
    version: u32,
    #[serde(default)]
    providers: BTreeMap<String, ListingEntry>,
}

#[derive(Serialize, Deserialize)]
struct ListingEntry {
    fetched_at: Timestamp,
    models: Vec<ModelInfo>,
}

/// All that is read of a file before its version is known.
#[derive(Deserialize)]
struct ListingVersion {
    version: u32,
}

/// What is at the file's place.
enum CachedListing {
    /// A file of ours, or none yet.
    Usable(ListingFile),
    /// Nothing that can be read; it may be replaced.
    Unreadable,
    /// A file of a newer version of the program, which is left alone.
    Newer,
}

impl ListCache {
    /// Keeps lists in a file, each for so long.
    pub fn new(path: impl Into<PathBuf>, max_age: Duration) -> Self {
        Self { path: path.into(), max_age }
    }

    /// Returns the models that an endpoint's provider offers.
    #[boxed]
    pub async fn list(
        &self,
        models: &Models,
        endpoint: &Endpoint,
        freshness: Freshness,
    ) -> Result<ModelList, ModelError> {
        let key = key(endpoint);
        let kept = match self.read() {
            CachedListing::Usable(mut file) => file.providers.remove(&key),
            CachedListing::Unreadable | CachedListing::Newer => None,
        };
        if freshness == Freshness::Cached
            && let Some(kept) = kept.as_ref().filter(|kept| self.is_young(kept))
        {
            models.remember(endpoint, &kept.models);
            let fetched_at = kept.fetched_at;
            return Ok(ModelList {
                models: kept.models.clone(),
                fetched_at,
                from: ListedFrom::Cache,
            });
        }
        match (models.list(endpoint).await, kept) {
            (Ok(list), _) => {
                let fetched_at = Timestamp::now();
                self.keep(key, ListingEntry { fetched_at, models: list.clone() });
                Ok(ModelList { models: list, fetched_at, from: ListedFrom::Provider })
            }
            (Err(error), Some(kept)) => {
                models.remember(endpoint, &kept.models);
                let from = ListedFrom::Outdated { error };
                Ok(ModelList { models: kept.models, fetched_at: kept.fetched_at, from })
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Returns the list that is kept of an endpoint's provider, however old;
    /// nobody is asked.
    pub fn kept(&self, endpoint: &Endpoint) -> Option<ModelList> {
        let key = key(endpoint);
        let CachedListing::Usable(mut file) = self.read() else { return None };
        let ListingEntry { fetched_at, models } = file.providers.remove(&key)?;
        Some(ModelList { models, fetched_at, from: ListedFrom::Cache })
    }

    /// Has `models` know how much an endpoint's model can hold: from the kept
    /// list at once and, where that is missing or too old, from the provider in
    /// the background. Each provider is looked up once in a process. Nobody is
    /// asked where the number is configured, or outside of a runtime.
    pub(crate) fn look_up(&self, models: &Models, endpoint: &Endpoint) {
        if !models.shared().memory.begin_lookup(endpoint) {
            return;
        }
        let kept = match self.read() {
            CachedListing::Usable(mut file) => file.providers.remove(&key(endpoint)),
            CachedListing::Unreadable | CachedListing::Newer => None,
        };
        if let Some(kept) = &kept {
            models.remember(endpoint, &kept.models);
        }
        let is_known = kept.is_some_and(|kept| self.is_young(&kept));
        if is_known || endpoint.context_length.is_some() {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (lists, models, endpoint) = (self.clone(), models.clone(), endpoint.clone());
        runtime.spawn(async move {
            if let Err(error) = lists.list(&models, &endpoint, Freshness::Cached).await {
                // Many servers have no list; what their model holds shows when it is too much.
                tracing::debug!(provider = endpoint.name, %error, "no list of models");
            }
        });
    }

    /// A list from the future is one from a clock that was wrong.
    fn is_young(&self, entry: &ListingEntry) -> bool {
        let age = Duration::try_from(Timestamp::now().duration_since(entry.fetched_at));
        age.is_ok_and(|age| age <= self.max_age)
    }

    fn read(&self) -> CachedListing {
        let empty = ListingFile { version: VERSION, providers: BTreeMap::new() };
        let bytes = match std::fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return CachedListing::Usable(empty);
            }
            Err(_) => return CachedListing::Unreadable,
        };
        match serde_json::from_slice::<ListingVersion>(&bytes) {
            Ok(ListingVersion { version }) if version > VERSION => return CachedListing::Newer,
            Ok(_) => {}
            Err(_) => return CachedListing::Unreadable,
        }
        serde_json::from_slice(&bytes).map_or(CachedListing::Unreadable, CachedListing::Usable)
    }

    /// Keeps a list beside those of other providers. Failing to is not a reason to
    /// withhold the list.
    fn keep(&self, key: String, entry: ListingEntry) {
        let mut file = match self.read() {
            CachedListing::Usable(file) => file,
            CachedListing::Unreadable => {
                ListingFile { version: VERSION, providers: BTreeMap::new() }
            }
            CachedListing::Newer => return,
        };
        file.providers.insert(key, entry);
        if let Err(error) = write(&self.path, &file) {
            tracing::debug!(path = %self.path.display(), %error, "the list of models was not kept");
        }
    }
}

/// Returns what a provider's list is kept under.
fn key(endpoint: &Endpoint) -> String {
    format!("{} {}", endpoint.name, endpoint.public_url())
}

/// Writes the file by rename, so that no reader ever sees half of it.
fn write(path: &Path, file: &ListingFile) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = directory.join(format!(".{name}.{:016x}", fastrand::u64(..)));
    let written = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&aside)
        .and_then(|mut out| out.write_all(&serde_json::to_vec(file)?))
        .and_then(|()| std::fs::rename(&aside, path));
    if written.is_err() {
        drop(std::fs::remove_file(&aside));
    }
    written
}

#[cfg(test)]
#[path = "listing_tests.rs"]
mod tests;
