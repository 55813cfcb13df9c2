use super::*;
use crate::message::Api;

fn endpoint(context_length: Option<u64>) -> Endpoint {
    Endpoint {
        name: "there".to_owned(),
        api: Api::ChatCompletions,
        base_url: "http://h/v1".to_owned(),
        key: None,
        model: "m".to_owned(),
        context_length,
        prices: None,
    }
}

#[test]
fn a_limit_is_the_providers_word_or_as_configured_or_unknown() {
    let memory = QuirkMemory::default();
    assert_eq!(memory.context_limit(&endpoint(None)), ContextLimit::Unknown);
    assert_eq!(memory.context_limit(&endpoint(Some(7))), ContextLimit::Configured(7));
    memory.listed(&endpoint(None), "m", 100);
    memory.listed(&endpoint(None), "other", 5);
    assert_eq!(memory.context_limit(&endpoint(None)), ContextLimit::Learned(100));
    assert_eq!(memory.context_limit(&endpoint(Some(70))), ContextLimit::Configured(70));
    assert_eq!(memory.context_limit(&endpoint(Some(170))), ContextLimit::Learned(100));
    memory.refused_beyond(&endpoint(None), 90);
    assert_eq!(memory.context_limit(&endpoint(None)), ContextLimit::Learned(90));
}
