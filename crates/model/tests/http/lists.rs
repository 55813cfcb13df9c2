//! Lists of models, from the provider and from the file that keeps them.

use std::time::Duration;

use vestal_model::{Freshness, ListCache, ListedFrom, ModelInfo};
use vestal_scripted_model::{Model, Reply, Script, ScriptedModel};

use crate::support::{APIS, assert_keyless, endpoint, label, models};

fn names(models: &[ModelInfo]) -> Vec<&str> {
    models.iter().map(|model| model.id.as_str()).collect()
}

#[tokio::test]
async fn a_list_is_fetched_once_and_again_when_asked_for() {
    for api in APIS {
        let server = ScriptedModel::start(Script::new().models([Model::new("b"), Model::new("a")]));
        let directory = tempfile::tempdir().unwrap();
        let cache = ListCache::new(directory.path().join("models.json"), Duration::from_hours(1));
        let endpoint = endpoint(api, &server.base_url());
        let models = models();
        let mut origins = Vec::new();
        for freshness in [Freshness::Cached, Freshness::Cached, Freshness::Refresh] {
            let listed = cache.list(&models, &endpoint, freshness).await.unwrap();
            assert_eq!(names(&listed.models), ["a", "b"], "{}", label(api));
            origins.push(listed.from);
        }
        assert_eq!(origins, [ListedFrom::Provider, ListedFrom::Cache, ListedFrom::Provider]);
        assert_eq!(server.other_requests().len(), 2);
        let file = std::fs::read_to_string(directory.path().join("models.json")).unwrap();
        assert!(!file.contains(crate::support::KEY), "{file}");
    }
}

#[tokio::test]
async fn a_refused_list_is_an_error() {
    let refused = Script::new().models_reply(Reply::error(401, "no"));
    let server = ScriptedModel::start(refused);
    let endpoint = endpoint(APIS[0], &server.base_url());
    let error = models().list(&endpoint).await.unwrap_err();
    assert_eq!(error.code(), "authentication");
    assert_keyless(&error);
}
