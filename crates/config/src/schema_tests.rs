use super::*;
use crate::testing::TestHome;
use crate::{Environment, Settings};

#[test]
fn secrets_are_found_wherever_they_are_set_and_addresses_are_none() {
    let home = TestHome::with_config(
        "model:\n  api_key: sk-of-the-model\nproviders:\n  mine: {api_key_env: ODDLY_NAMED}\n",
    )
    .dotenv("ODDLY_NAMED=from-dot-env\nCOLOUR=not-secret\n");
    let env = [
        ("OPENAI_API_KEY", "sk-from-environment"),
        ("OPENAI_BASE_URL_API_KEY", "https://example.org/v1"),
        ("GROQ_API_KEY", "short"),
        ("EDITOR", "not-secret-either"),
    ];
    assert_eq!(
        home.settings(&env, &[]).known_secrets(),
        ["from-dot-env", "sk-from-environment", "sk-of-the-model"]
    );
}

static UNREADABLE: Group = Group {
    secret_variables: |settings| settings.get_by_name("no.such.key").map(|_| Vec::new()),
    ..Group::of(&[])
};

static NAMING: Group = Group {
    secret_variables: |_| Ok(EnvName::new("ODDLY_NAMED").into_iter().collect()),
    ..Group::of(&[])
};

#[test]
fn a_group_that_cannot_be_read_hides_no_secret_of_another() {
    let home = TestHome::new();
    for groups in [[&UNREADABLE, &NAMING], [&NAMING, &UNREADABLE]] {
        let env = Environment::from_pairs([("ODDLY_NAMED", "sk-oddly-named")]);
        let settings = Settings::load(&Schema::new(groups), home.home(), env, Vec::new());
        assert_eq!(settings.known_secrets(), ["sk-oddly-named"]);
        // Whoever must have all of them is told that they are not known.
        let error = settings.secret_variables().complete().expect_err("one is unreadable");
        assert_eq!(error.to_string(), "there is no key no.such.key");
    }
}
