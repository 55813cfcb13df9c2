//! Lists of models, from the provider and from the file that keeps them.

use std::time::Duration;

use vestal_model::{
    ContextLimit, Freshness, ListCache, ListedFrom, ModelInfo, ModelOptions, Models,
};
use vestal_scripted_model::{Model, Script, ScriptedModel, ScriptedReply};

use crate::support::{APIS, KEY, assert_keyless, endpoint, label, models, options};

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
    let refused = Script::new().models_reply(ScriptedReply::error(401, "no"));
    let server = ScriptedModel::start(refused);
    let endpoint = endpoint(APIS[0], &server.base_url());
    let error = models().list(&endpoint).await.unwrap_err();
    assert_eq!(error.code(), "authentication");
    assert_keyless(&error);
}

#[tokio::test]
async fn a_missing_list_is_fetched_from_who_is_asked_without_being_waited_for() {
    let listed = Model::new("scripted-1").context_length(8000);
    let server = ScriptedModel::start(Script::new().models([listed]));
    let directory = tempfile::tempdir().unwrap();
    let cache = ListCache::new(directory.path().join("models.json"), Duration::from_hours(1));
    let models = Models::new(ModelOptions { lists: Some(cache), ..options() }).unwrap();
    let chat = models.chat(vec![endpoint(APIS[0], &server.base_url())]);
    assert_eq!(chat.context_length(), ContextLimit::Unknown);
    let known = async {
        while chat.context_length() == ContextLimit::Unknown {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), known).await.unwrap();
    assert_eq!(chat.context_length(), ContextLimit::Learned(8000));
    // Another chat of the process knows it, and asks nobody.
    let again = models.chat(vec![endpoint(APIS[0], &server.base_url())]);
    assert_eq!(again.context_length(), ContextLimit::Learned(8000));
    let asked = server.other_requests();
    let keys: Vec<_> = asked.iter().map(|request| request.header("authorization")).collect();
    assert_eq!(keys, [Some(&*format!("Bearer {KEY}"))]);
}
