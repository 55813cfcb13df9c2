use crate::{Environment, Home, Settings};

#[test]
fn secrets_are_found_wherever_they_are_set_and_addresses_are_none() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("config.yaml"),
        "model:\n  api_key: sk-of-the-model\nproviders:\n  mine:\n    base_url: http://127.0.0.1:1/v1\n    api_key_env: ODDLY_NAMED\n",
    )
    .unwrap();
    std::fs::write(dir.path().join(".env"), "ODDLY_NAMED=from-dot-env\nCOLOUR=not-secret\n")
        .unwrap();
    let env = Environment::from_pairs([
        ("OPENAI_API_KEY", "sk-from-environment"),
        ("OPENAI_BASE_URL", "https://example.org/v1"),
        ("GROQ_API_KEY", "short"),
        ("EDITOR", "not-secret-either"),
    ]);
    let settings = Settings::load(&crate::schema(), Home::at(dir.path()), env, Vec::new());
    assert_eq!(
        settings.known_secrets(),
        ["from-dot-env", "sk-from-environment", "sk-of-the-model"]
    );
}
