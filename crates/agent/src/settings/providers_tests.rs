use std::ffi::OsStr;

use super::*;
use crate::settings::{PriceTable, TokenPrice};

fn read<T: Setting<Limits = ()>>(text: &str) -> Result<T, String> {
    T::read(SettingInput::Text(OsStr::new(text)), &()).map_err(|refusal| refusal.reason)
}

#[test]
fn a_provider_has_an_address_and_what_else_is_known_of_it() {
    let providers = read::<Providers>(
        r#"{"Work": {"base_url": "https://m.example.com/v1/", "api_key_env": "WORK_KEY",
            "api_mode": "anthropic_messages", "default_model": "large", "context_length": 200000},
            "here": {"base_url": "http://127.0.0.1:8000", "api_key": "hunter2"}}"#,
    )
    .expect("providers");
    let names: Vec<_> = providers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["here", "work"]);
    let work = providers.get(&ProviderName::new("WORK").expect("a name")).expect("there");
    assert_eq!(work.base_url.get(), Some("https://m.example.com/v1"));
    assert_eq!(work.api_key_env.as_ref().map(EnvName::as_str), Some("WORK_KEY"));
    assert_eq!(work.api_mode, ApiMode::AnthropicMessages);
    assert_eq!(work.default_model.get(), Some("large"));
    assert_eq!(work.context_length, TokensOrAuto::Tokens(200_000));
    let here = providers.get(&ProviderName::new("here").expect("a name")).expect("there");
    assert_eq!(here.api_key.expose(), Some("hunter2"));
    assert_eq!(here.api_mode, ApiMode::Auto);
    assert!(!format!("{providers:?}").contains("hunter2"));
}

#[test]
fn a_wrong_provider_is_refused_without_repeating_it() {
    for (text, reason) in [
        ("[]", "is a list, not a map"),
        (r#"{"a": "https://hunter2"}"#, "gives a a single value, not a map"),
        (r#"{"a": {}}"#, "gives a no base_url"),
        (r#"{"a": {"base_url": ""}}"#, "gives a an empty base_url"),
        (r#"{"a": {"base_url": "x", "hunter2": 1}}"#, "gives a an entry that does not exist"),
        (
            r#"{"a": {"base_url": "ftp://hunter2"}}"#,
            "gives a an entry base_url that does not begin with http:// or https://",
        ),
        (
            r#"{"a": {"base_url": "http://x", "api_key_env": "hunter2-key"}}"#,
            "gives a an entry api_key_env that is not the name of a variable",
        ),
        (r#"{"a b": {"base_url": "http://x"}}"#, "holds a key that is not the name of a provider"),
        (r#"{"auto": {"base_url": "http://x"}}"#, "holds a key that is not the name of a provider"),
        (r#"{"a": {"base_url": "http://x"}, "A": {"base_url": "http://y"}}"#, "has a twice"),
    ] {
        let error = read::<Providers>(text).expect_err(text);
        assert_eq!(error, reason, "{text}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn fallbacks_are_tried_in_the_order_given() {
    let fallbacks = read::<Fallbacks>(
        r#"[{"provider": "Here", "model": "small"}, {"model": "x/large", "provider": "work"}]"#,
    )
    .expect("fallbacks");
    let shown: Vec<_> =
        fallbacks.iter().map(|own| format!("{} {}", own.provider, own.model)).collect();
    assert_eq!(shown, ["here small", "work x/large"]);
    for wrong in [
        r#"["work"]"#,
        r#"[{"provider": "work"}]"#,
        r#"[{"model": "x"}]"#,
        r#"[{"provider": "auto", "model": "x"}]"#,
        r#"[{"provider": "work", "model": ""}]"#,
        r#"{"provider": "work", "model": "x"}"#,
    ] {
        assert!(read::<Fallbacks>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn prices_are_kept_exactly() {
    let prices = read::<PriceTable>(
        r#"{"a/b": {"input": 0.0375, "output": 15, "cache_read": 0}, "c": {"input": 1.5, "output": 2}}"#,
    )
    .expect("prices");
    let own = prices.get("a/b").expect("there");
    assert_eq!(own.input.millionths(), 37_500);
    assert_eq!(own.output, TokenPrice::from_millionths(15_000_000));
    assert_eq!((own.cache_read, own.cache_write), (Some(TokenPrice::from_millionths(0)), None));
    assert_eq!(
        serde_json::to_string(&prices.to_value()).expect("json"),
        r#"{"a/b":{"cache_read":0,"input":0.0375,"output":15},"c":{"input":1.5,"output":2}}"#
    );
    for wrong in [
        r#"{"a": {"input": -1, "output": 1}}"#,
        r#"{"a": {"input": "1e3", "output": 1}}"#,
        r#"{"a": {"input": 1}}"#,
        r#"{"a": {"input": 99999999999, "output": 1}}"#,
        r#"{"": {"input": 1, "output": 1}}"#,
        r#"{"a": 3}"#,
    ] {
        assert!(read::<PriceTable>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn tokens_are_a_number_or_left_to_the_model() {
    let tokens = |text: &str| {
        let range = Range { min: 1024, max: 2_000_000 };
        let read = TokensOrAuto::read(SettingInput::Text(OsStr::new(text)), &range);
        read.map_err(|refusal| refusal.reason)
    };
    for text in ["0", "auto", "AUTO"] {
        assert_eq!(tokens(text).expect(text).get(), None, "{text}");
    }
    assert_eq!(tokens("200000"), Ok(TokensOrAuto::Tokens(200_000)));
    assert_eq!(tokens("5"), Err("is less than 1024".to_owned()));
    assert!(tokens("200k").is_err());
}

#[test]
fn an_address_is_one_of_the_web_without_secrets() {
    for (text, kept) in [
        ("https://api.example.com/v1/", Some("https://api.example.com/v1")),
        (" HTTP://Localhost:8000 ", Some("HTTP://Localhost:8000")),
        ("http://[::1]:80/x", Some("http://[::1]:80/x")),
        ("http://my_host.internal.:65535", Some("http://my_host.internal.:65535")),
        ("", None),
    ] {
        assert_eq!(read::<BaseUrl>(text).expect(text).get(), kept, "{text}");
    }
    for text in [
        "api.example.com",
        "ftp://x",
        "https://",
        "https:///v1",
        "https://x:0",
        "https://x:70000",
        "https://x:y",
        "https://[::1",
        "https://a b",
        "https://x/?key=1",
        "https://x/#a",
        "https://user:pw@x",
        "https://-\u{fc}.example",
        "https://x..y",
    ] {
        assert!(read::<BaseUrl>(text).is_err(), "{text}");
    }
    let refusal =
        BaseUrl::read(SettingInput::Text(OsStr::new("https://u:p@x")), &()).expect_err("user");
    assert!(refusal.secret);
    let refusal =
        BaseUrl::read(SettingInput::Text(OsStr::new("x.example/v1")), &()).expect_err("bare");
    assert_eq!(refusal.suggestion.as_deref(), Some("did you mean https://x.example/v1?"));
}
