use crate::{Environment, Home, Settings};

fn settings(dir: &std::path::Path) -> Settings {
    let env = Environment::from_pairs([("TOKEN", "from-env"), ("EMPTY", "")]);
    Settings::load(&crate::schema(), Home::at(dir), env, Vec::new())
}

#[test]
fn references_are_taken_from_the_environment_then_from_the_env_file() {
    let dir = tempfile::tempdir().expect("made");
    std::fs::write(dir.path().join(".env"), "TOKEN=hidden\nEMPTY=from-file\n").expect("written");
    let settings = settings(dir.path());
    for (text, resolved) in [
        ("Bearer ${TOKEN}", "Bearer from-env"),
        ("${EMPTY}/${TOKEN}", "from-file/from-env"),
        ("plain", "plain"),
        ("", ""),
        ("costs 5$ or $HOME", "costs 5$ or $HOME"),
        ("$${TOKEN} $$", "${TOKEN} $"),
        ("ends with $", "ends with $"),
    ] {
        assert_eq!(settings.resolve(text).expect(text), resolved);
    }
}

#[test]
fn what_cannot_be_resolved_names_the_variable_and_where_to_set_it() {
    let dir = tempfile::tempdir().expect("made");
    let settings = settings(dir.path());
    let error = settings.resolve("secret-prefix ${MISSING}").expect_err("unset").to_string();
    assert!(error.contains("variable MISSING") && error.contains(".env"), "{error}");
    assert!(!error.contains("secret-prefix"), "{error}");
    for text in ["${", "${}", "${a b}", "${TOKEN", "${1}"] {
        let error = settings.resolve(text).expect_err(text).to_string();
        assert!(error.contains("no name of a variable"), "{text}: {error}");
    }
}
