use std::collections::HashSet;

use super::*;

fn every_kind() -> Vec<ModelError> {
    let detail = FailureDetail {
        provider: "there".to_owned(),
        model: "m".to_owned(),
        status: Some(418),
        message: "their words".to_owned(),
        attempts: 3,
    };
    let d = || detail.clone();
    vec![
        ModelError::NotConfigured { message: "no model is configured".to_owned() },
        ModelError::Unreachable { detail: d() },
        ModelError::Timeout { detail: d(), after: Duration::from_millis(1500) },
        ModelError::RateLimited { detail: d(), retry_after: Some(Duration::from_secs(7)) },
        ModelError::RateLimited { detail: d(), retry_after: None },
        ModelError::Authentication { detail: d() },
        ModelError::Quota { detail: d() },
        ModelError::NotFound { detail: d() },
        ModelError::BadRequest { detail: d() },
        ModelError::ContextOverflow { detail: d(), limit: Some(9) },
        ModelError::ContextOverflow { detail: d(), limit: None },
        ModelError::Refused { detail: d() },
        ModelError::Server { detail: d(), retry_after: None },
        ModelError::Cut { detail: d() },
        ModelError::Protocol { detail: d() },
    ]
}

#[test]
fn every_error_says_who_what_and_what_to_do_in_its_own_words() {
    let errors = every_kind();
    let texts: HashSet<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), errors.len(), "{texts:?}");
    for error in errors.iter().filter(|error| error.detail().is_some()) {
        let text = error.to_string();
        for part in ["there (model m) ", "(HTTP 418, 3 attempts): their words"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!error.advice().is_empty());
    }
}

#[test]
fn numbers_people_need_are_in_the_text() {
    let texts: Vec<String> = every_kind().iter().map(ToString::to_string).collect();
    assert!(texts[2].contains("for 2 s"), "{}", texts[2]);
    assert!(texts[3].contains("7 s"), "{}", texts[3]);
    assert!(texts[9].contains("9 tokens"), "{}", texts[9]);
}

#[test]
fn a_failed_chain_names_each_reason_and_each_advice_once() {
    let [first, second] = [1, 13].map(|index| every_kind().remove(index));
    let failures = vec![first.clone(), second.clone(), second.clone()];
    let error = ModelError::Exhausted { failures };
    assert_eq!(error.to_string(), format!("every model failed: {first}; {second}; {second}"));
    assert_eq!(error.advice(), format!("{}; {}", first.advice(), second.advice()));
    assert!(error.is_retryable());
}
