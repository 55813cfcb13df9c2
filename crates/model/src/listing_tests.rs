use super::*;

mod listing {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_context_length_is_found_wherever_providers_put_it() {
        let cases = [
            json!({"id": "m", "context_length": 5}),
            json!({"id": "m", "max_model_len": 5}),
            json!({"id": "m", "context_window": 5}),
            json!({"id": "m", "max_input_tokens": 5}),
            json!({"id": "m", "context_length": 9, "top_provider": {"context_length": 5}}),
            json!({"id": "m", "meta": {"n_ctx": 5, "n_ctx_train": 9}}),
        ];
        for model in cases {
            assert_eq!(info(&model).unwrap().context_length, Some(5), "{model}");
        }
        let without = info(&json!({"id": "m", "context_length": null, "display_name": "M"}));
        let name = Some("M".to_owned());
        assert_eq!(without, Some(ModelInfo { id: "m".to_owned(), name, context_length: None }));
        assert_eq!(info(&json!({"object": "model"})), None);
    }
}

mod cache {
    use super::*;
    use crate::message::ProviderApi;
    use crate::models::ModelOptions;

    /// An endpoint where nobody listens, so that only the file can answer.
    fn endpoint() -> Endpoint {
        Endpoint {
            name: "there".to_owned(),
            api: ProviderApi::ChatCompletions,
            base_url: "http://127.0.0.1:1/v1".to_owned(),
            key: None,
            model: "m".to_owned(),
            context_length: None,
            prices: None,
            reasoning: crate::effort::ReasoningOptions::AUTO,
        }
    }

    fn models() -> Models {
        Models::new(ModelOptions { retries: 0, ..ModelOptions::default() }).unwrap()
    }

    fn info(id: &str) -> ModelInfo {
        ModelInfo { id: id.to_owned(), name: None, context_length: Some(77) }
    }

    fn keep(cache: &ListCache, fetched_at: Timestamp) {
        let key = "there http://127.0.0.1:1/v1".to_owned();
        cache.keep(key, ListingEntry { fetched_at, models: vec![info("m")] });
    }

    fn file_names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    #[tokio::test]
    async fn a_young_list_is_taken_from_the_file_and_teaches_the_limits() {
        let directory = tempfile::tempdir().unwrap();
        let cache =
            ListCache::new(directory.path().join("sub/models.json"), Duration::from_mins(1));
        let now = Timestamp::now();
        keep(&cache, now);
        let models = models();
        let listed = cache.list(&models, &endpoint(), Freshness::Cached).await;
        let wanted =
            ModelList { models: vec![info("m")], fetched_at: now, from: ListedFrom::Cache };
        assert_eq!(listed, Ok(wanted));
        let limit = models.chat(vec![endpoint()]).context_length();
        assert_eq!(limit, crate::endpoint::ContextLimit::Learned(77));
        assert_eq!(file_names(&directory.path().join("sub")), ["models.json"]);
    }

    #[tokio::test]
    async fn an_old_list_serves_only_when_the_provider_does_not_answer_and_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let cache = ListCache::new(directory.path().join("models.json"), Duration::from_mins(1));
        let hour = jiff::SignedDuration::from_hours(1);
        for fetched_at in [Timestamp::now() - hour, Timestamp::now() + hour] {
            keep(&cache, fetched_at);
            let listed = cache.list(&models(), &endpoint(), Freshness::Cached).await.unwrap();
            assert_eq!(listed.models, [info("m")]);
            let unreachable = matches!(
                listed.from,
                ListedFrom::Outdated { error: ModelError::Unreachable { .. } }
            );
            assert!(unreachable, "{:?}", listed.from);
        }
    }

    #[tokio::test]
    async fn an_unreadable_file_is_replaced_and_a_newer_one_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("models.json");
        let cache = ListCache::new(&path, Duration::from_mins(1));
        for garbage in ["", "{", "[]", r#"{"version":1,"providers":[]}"#] {
            std::fs::write(&path, garbage).unwrap();
            let listed = cache.list(&models(), &endpoint(), Freshness::Cached).await;
            assert!(matches!(listed, Err(ModelError::Unreachable { .. })), "{garbage}: {listed:?}");
            keep(&cache, Timestamp::now());
            let listed = cache.list(&models(), &endpoint(), Freshness::Cached).await;
            assert!(listed.is_ok(), "{garbage}: {listed:?}");
        }
        let newer = r#"{"version":2,"shape":"unknown"}"#;
        std::fs::write(&path, newer).unwrap();
        keep(&cache, Timestamp::now());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), newer);
    }

    #[test]
    fn a_kept_list_says_what_a_model_holds_and_nobody_is_asked() {
        let directory = tempfile::tempdir().unwrap();
        let cache = ListCache::new(directory.path().join("models.json"), Duration::from_mins(1));
        keep(&cache, Timestamp::now());
        let models =
            Models::new(ModelOptions { lists: Some(cache), ..ModelOptions::default() }).unwrap();
        let limit = models.chat(vec![endpoint()]).context_length();
        assert_eq!(limit, crate::endpoint::ContextLimit::Learned(77));
        let small = Endpoint { context_length: Some(9), ..endpoint() };
        let limit = models.chat(vec![small]).context_length();
        assert_eq!(limit, crate::endpoint::ContextLimit::Configured(9));
    }
}
