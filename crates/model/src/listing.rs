//! What models a provider offers.

use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::sleep;

use crate::attempt::{Attempt, Failed};
use crate::backoff::{self, Next, Patience};
use crate::endpoint::Endpoint;
use crate::error::ModelError;
use crate::message::Api;
use crate::models::Models;
use crate::wire::Fault;

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
            let next = backoff::next(&error, number, &shared.options, Patience::Short);
            let Next::Again(after) = next else {
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

async fn pages(attempt: &Attempt<'_>) -> Result<Vec<ModelInfo>, Failed> {
    let mut models = Vec::new();
    let mut after: Option<String> = None;
    for _ in 0..MOST_PAGES {
        let mut url = attempt.endpoint.url(&["models"])?;
        if attempt.endpoint.api == Api::AnthropicMessages {
            url.query_pairs_mut().append_pair("limit", "1000");
        }
        if let Some(after) = &after {
            url.query_pairs_mut().append_pair("after_id", after);
        }
        let response = attempt.send(Method::GET, url, None).await?;
        let body = attempt.read(response, MAX_LIST).await?;
        let garbage = |message: String| attempt.fault(Fault::Garbage(message));
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

#[cfg(test)]
#[path = "listing_tests.rs"]
mod tests;
