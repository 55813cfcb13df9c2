use super::*;
use vestal_config::{Environment, Home};

fn settings(config: &str, env: &[(&str, &str)]) -> (tempfile::TempDir, Settings) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("config.yaml"), config).unwrap();
    let env = Environment::from_pairs(env.iter().copied());
    let settings = Settings::load(&crate::schema(), Home::at(dir.path()), env, Vec::new());
    (dir, settings)
}

fn asked(config: &str, env: &[(&str, &str)], model: Option<&str>) -> Vec<(String, String, String)> {
    let (_dir, settings) = settings(config, env);
    let chain = endpoints(&settings, model).unwrap();
    chain.into_iter().map(|endpoint| (endpoint.name, endpoint.base_url, endpoint.model)).collect()
}

fn one(name: &str, url: &str, model: &str) -> Vec<(String, String, String)> {
    vec![(name.into(), url.into(), model.into())]
}

const OWN: &str = "model:\n  default: m\n  base_url: http://127.0.0.1:1/v1\n";

#[test]
fn an_address_alone_makes_a_provider() {
    assert_eq!(asked(OWN, &[], None), one("custom", "http://127.0.0.1:1/v1", "m"));
}

#[test]
fn a_key_at_hand_names_the_provider() {
    let env = [("ANTHROPIC_API_KEY", "k")];
    let url = "https://api.anthropic.com/v1";
    assert_eq!(asked("model: {default: m}", &env, None), one("anthropic", url, "m"));
}

#[test]
fn a_provider_before_the_colon_is_asked_and_any_other_colon_belongs_to_the_model() {
    let env = [("OPENAI_API_KEY", "k")];
    let url = "https://api.openai.com/v1";
    assert_eq!(asked(OWN, &env, Some("openai:gpt")), one("openai", url, "gpt"));
    assert_eq!(
        asked(OWN, &env, Some("llama3:8b")),
        one("custom", "http://127.0.0.1:1/v1", "llama3:8b")
    );
}

#[test]
fn a_key_of_a_known_provider_never_goes_to_another_address() {
    let (_dir, settings) = settings(OWN, &[("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k")]);
    assert!(endpoints(&settings, None).unwrap()[0].key.is_none());
}

/// Returns each server that could be asked, with the key it would get.
fn keys_sent(config: &str, env: &[(&str, &str)]) -> Vec<(String, Option<ApiKey>)> {
    let (_dir, settings) = settings(config, env);
    let listed = provider_rows(&settings).unwrap().into_iter().map(|row| row.endpoint.unwrap());
    let asked = endpoints(&settings, None).unwrap();
    let mut sent: Vec<(String, Option<ApiKey>)> =
        listed.chain(asked).map(|endpoint| (endpoint.base_url, endpoint.key)).collect();
    sent.sort_by(|(one, _), (other, _)| one.cmp(other));
    sent.dedup();
    sent
}

#[test]
fn a_key_is_sent_to_its_own_address_only() {
    let own = ("VESTAL_API_KEY", "own");
    let sent = |pairs: &[(&str, &str)]| -> Vec<(String, Option<ApiKey>)> {
        pairs.iter().map(|(url, key)| ((*url).to_owned(), Some(ApiKey::new(*key)))).collect()
    };
    let (mine, openai) = ("http://127.0.0.1:1/v1", "https://api.openai.com/v1");
    // A server of one's own: nobody else is even asked.
    assert_eq!(keys_sent(OWN, &[own]), sent(&[(mine, "own")]));
    // Beside it a provider with a key of its own, also as the one to fall back on.
    let both = [own, ("OPENAI_API_KEY", "sk")];
    let fallback = format!("{OWN}fallback_providers: [{{provider: openai, model: n}}]\n");
    for config in [OWN, &fallback] {
        assert_eq!(keys_sent(config, &both), sent(&[(mine, "own"), (openai, "sk")]), "{config}");
    }
    let (_dir, alone) = settings(&fallback, &[own]);
    assert_eq!(
        endpoints(&alone, None).unwrap_err().to_string(),
        "the provider openai needs a key, and OPENAI_API_KEY is not set"
    );
    // The address is still one's own while another provider is the usual one.
    let chosen = format!("{OWN}  provider: openai\n");
    assert_eq!(keys_sent(&chosen, &both), sent(&[(mine, "own"), (openai, "sk")]));
    // Without an address it is for the provider that is named, and for no other.
    let named = "model: {default: m, provider: openai}";
    assert_eq!(keys_sent(named, &[own]), sent(&[(openai, "own")]));
    let anthropic = ("ANTHROPIC_API_KEY", "ak");
    let expected = sent(&[("https://api.anthropic.com/v1", "ak"), (openai, "own")]);
    assert_eq!(keys_sent(named, &[own, anthropic]), expected);
    // Where nothing says whose it is, it is nobody's.
    let expected = sent(&[("https://api.anthropic.com/v1", "ak")]);
    assert_eq!(keys_sent("model: {default: m}", &[own, anthropic]), expected);
    // A provider of one's own by a known name has the key that it names.
    let replaced = "model: {default: m, provider: openai}\nproviders:\n  openai: {base_url: 'http://127.0.0.1:1/v1'}\n";
    assert_eq!(keys_sent(replaced, &both), [(mine.to_owned(), None)]);
}

#[test]
fn the_key_of_a_known_provider_is_not_sent_unencrypted() {
    let env = [("OPENAI_API_KEY", "sk")];
    let key_at = |url: &str| {
        let (_dir, settings) = settings(&format!("model: {{default: m, base_url: '{url}'}}"), &env);
        endpoints(&settings, None).unwrap().remove(0).key
    };
    assert_eq!(key_at("https://API.openai.com/v1"), Some(ApiKey::new("sk")));
    assert_eq!(key_at("http://api.openai.com/v1"), None);
    assert_eq!(key_at("https://api.openai.com:8443/v1"), None);
}

#[test]
fn fallbacks_follow_in_order() {
    let config = "model: {default: m, provider: a}\nproviders:\n  a: {base_url: 'http://a/v1'}\n  b: {base_url: 'http://b/v1', api_mode: anthropic_messages}\nfallback_providers: [{provider: b, model: n}]\n";
    let expected = [one("a", "http://a/v1", "m"), one("b", "http://b/v1", "n")].concat();
    assert_eq!(asked(config, &[], None), expected);
}

#[test]
fn what_is_missing_is_reported_with_what_to_do() {
    let fails = |config, env: &[(&str, &str)], model| {
        let (_dir, settings) = settings(config, env);
        endpoints(&settings, model).unwrap_err()
    };
    let no_model = fails("", &[], None);
    assert!(matches!(no_model, EndpointError::NoModel));
    assert_eq!(no_model.advice().len(), 2);
    assert!(matches!(fails("model: {default: m}", &[], None), EndpointError::NoProvider { .. }));
    let no_key = fails("model: {default: m, provider: openai}", &[], None);
    assert_eq!(
        no_key.to_string(),
        "the provider openai needs a key, and OPENAI_API_KEY is not set"
    );
    let unknown = fails("model: {default: m, provider: opnai}", &[], None);
    assert!(unknown.to_string().contains("there is no provider \"opnai\""), "{unknown}");
}

#[test]
fn a_proxy_is_taken_from_the_environment_in_capitals_or_small_letters() {
    let proxy = |env: &[(&str, &str)]| {
        let (_dir, settings) = settings("", env);
        super::super::model_options(&settings).unwrap().proxy
    };
    assert_eq!(proxy(&[]), None);
    assert_eq!(proxy(&[("https_proxy", "http://p:1")]).as_deref(), Some("http://p:1"));
    let both = [("ALL_PROXY", "http://all:1"), ("HTTPS_PROXY", "http://p:1")];
    assert_eq!(proxy(&both).as_deref(), Some("http://p:1"));
}
