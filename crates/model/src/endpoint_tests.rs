use super::*;

mod endpoint {
    use super::*;

    fn endpoint(base_url: &str) -> Endpoint {
        Endpoint {
            name: "there".to_owned(),
            api: ProviderApi::ChatCompletions,
            base_url: base_url.to_owned(),
            key: Some(ApiKey::new("sk-very-secret")),
            model: "m".to_owned(),
            context_length: None,
            prices: None,
            reasoning: crate::effort::ReasoningOptions::AUTO,
        }
    }

    #[test]
    fn a_resource_is_appended_to_the_path_and_the_query_stays() {
        let url =
            |base: &str| endpoint(base).url(&["chat", "completions"]).map(|url| url.to_string());
        let wanted = "http://h:1/v1/chat/completions".to_owned();
        assert_eq!(url("http://h:1/v1"), Ok(wanted.clone()));
        assert_eq!(url(" http://h:1/v1/ "), Ok(wanted));
        assert_eq!(url("https://h/?v=1"), Ok("https://h/chat/completions?v=1".to_owned()));
    }

    #[test]
    fn what_is_no_http_address_is_refused_without_showing_it() {
        for base in ["", "h:1/v1", "ftp://sk-very-secret@h", "unix:/x", "not a url"] {
            let error = endpoint(base).url(&["models"]).unwrap_err();
            assert!(matches!(error, ModelError::NotConfigured { .. }), "{base}: {error:?}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn debug_shows_neither_key_nor_what_an_address_hides() {
        let text = format!("{:?}", endpoint("https://user:pa55word@h/v1?token=t0ken-secret#frag"));
        assert!(text.contains("https://h/v1"), "{text}");
        for hidden in ["sk-very-secret", "user", "pa55word", "t0ken-secret"] {
            assert!(!text.contains(hidden), "{text}");
        }
    }

    #[test]
    fn prices_are_for_a_million_tokens() {
        let usage = TokenUsage {
            input: 1000,
            output: 100,
            cache_read: 500,
            cache_write: 10,
            reasoning: 50,
        };
        let prices =
            ModelPrices { input: 3.0, output: 15.0, cache_read: Some(0.3), cache_write: None };
        let wanted = Cost::Known { micro_usd: 3000 + 1500 + 150 + 30, source: CostSource::Prices };
        assert_eq!(prices.cost(&usage), wanted);
        let nonsense =
            ModelPrices { input: f64::NAN, output: -1.0, cache_read: None, cache_write: None };
        assert_eq!(nonsense.cost(&usage), Cost::Unknown);
    }
}

mod secret {
    use super::*;

    #[test]
    fn a_key_is_not_in_its_debug_text() {
        assert_eq!(format!("{:?}", ApiKey::new(" sk-1234567890\n")), "Secret");
    }

    #[test]
    fn blanks_around_a_key_are_no_part_of_it() {
        assert_eq!(ApiKey::new(" sk-1234567890\n").expose(), "sk-1234567890");
    }

    #[test]
    fn a_message_is_masked_before_it_is_cut() {
        let mut mask = Mask::default();
        mask.add("sk-secret\"quoted");
        mask.add("sk-secret");
        let text = "bad key sk-secret\"quoted and sk-secret\\\"quoted\nand\u{1b}[31m sk-secret.";
        assert_eq!(mask.clean(text, 500), "bad key *** and *** and [31m ***.");
        assert_eq!(mask.clean("key sk-secret", 6), "key **…");
    }
}
