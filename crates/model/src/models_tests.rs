use super::*;

#[test]
fn a_proxy_that_is_no_address_is_refused_without_showing_it() {
    let options = ModelOptions {
        proxy: Some("pa55word at nowhere:::".to_owned()),
        ..ModelOptions::default()
    };
    assert!(!format!("{options:?}").contains("pa55word"));
    let error = Models::new(options).map(|_| ()).unwrap_err();
    assert_eq!(error, SetupError::Proxy);
}

#[test]
fn certificates_are_read_for_the_first_https_address_and_not_before() {
    let models = Models::new(ModelOptions::default()).unwrap();
    let url = |text: &str| Url::parse(text).unwrap();
    models.shared.client(&url("http://127.0.0.1:1/v1")).unwrap();
    assert!(models.shared.secure.get().is_none());
    // A machine may have none; then the error says so instead of a panic.
    drop(models.shared.client(&url("https://127.0.0.1:1/v1")));
    assert!(models.shared.secure.get().is_some());
}
