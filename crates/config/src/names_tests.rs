use crate::error::ConfigError;
use crate::key::AnyKey;
use crate::keys;
use crate::testing::TestHome;

/// The answer to a question for the network, without the path of the home.
fn network(home: &TestHome, env: &[(&str, &str)], sets: &[&str]) -> Result<bool, String> {
    let root = format!("{}/", home.path("").display()).replace("//", "/");
    home.settings(env, sets)
        .get(&keys::DOCKER_NETWORK)
        .map(|resolved| resolved.value)
        .map_err(|error| error.to_string().replace(&root, ""))
}

#[test]
fn a_misspelling_of_a_key_that_protects_is_an_error_to_who_asks_for_it() {
    let meant = "did you mean terminal.docker_network?";
    for (text, reported) in [
        (
            "terminal:\n  docker_netwrok: false\n",
            format!("terminal.docker_netwrok (config.yaml:2:3) is not a setting; {meant}"),
        ),
        (
            "terminal:\n  docker-network: false\n",
            format!("terminal.docker-network (config.yaml:2:3) is not a setting; {meant}"),
        ),
        (
            "docker_network: false\n",
            format!("docker_network (config.yaml:1:1) is not a setting; {meant}"),
        ),
        (
            "terminl:\n  docker_network: false\n",
            format!("terminl.docker_network (config.yaml:1:1) is not a setting; {meant}"),
        ),
        (
            "terminal.docker_network: false\n",
            "terminal.docker_network (config.yaml:1:1) is not a setting; write docker_network below terminal:"
                .to_owned(),
        ),
    ] {
        assert_eq!(network(&TestHome::with_config(text), &[], &[]), Err(reported), "{text}");
    }
    let slip = [("TERMINAL_DOCKER_NETWROK", "false")];
    let reported = "did you mean TERMINAL_DOCKER_NETWORK?";
    assert_eq!(
        network(&TestHome::new(), &slip, &[]),
        Err(format!(
            "TERMINAL_DOCKER_NETWROK (environment variable TERMINAL_DOCKER_NETWROK) is not a setting; {reported}"
        ))
    );
    assert_eq!(
        network(&TestHome::new().dotenv("TERMINAL_DOCKER_NETWROK=false\n"), &[], &[]),
        Err(format!(
            "TERMINAL_DOCKER_NETWROK (.env:1 (TERMINAL_DOCKER_NETWROK)) is not a setting; {reported}"
        ))
    );
}

/// Returns the keys that cannot be read because of these settings.
fn stopped(text: &str, env: &[(&str, &str)]) -> Vec<&'static str> {
    let settings = TestHome::with_config(text).settings(env, &[]);
    let is_stopped =
        |key: &&dyn AnyKey| matches!(key.resolve(&settings), Err(ConfigError::Misspelt(_)));
    crate::schema().keys().filter(is_stopped).map(AnyKey::name).collect()
}

#[test]
fn every_key_that_protects_is_guarded_against_its_near_misses() {
    for (text, key) in [
        ("terminal: {network: false}", "terminal.docker_network"),
        ("terminal: {docker_images: x}", "terminal.docker_image"),
        ("terminal: {rootfs: /srv/root}", "terminal.native_rootfs"),
        ("approvals: {dney: [rm *]}", "approvals.deny"),
        ("aprovals: {mode: manual}", "approvals.mode"),
        ("security: {redact_secret: true}", "security.redact_secrets"),
    ] {
        assert_eq!(stopped(text, &[]), [key], "{text}");
    }
    for (name, key) in [
        ("TERMINAL_ENVV", "terminal.backend"),
        ("TERMINAL_EVN", "terminal.backend"),
        ("TERMINAL_NETWORK", "terminal.docker_network"),
        ("VESTAL_APROVALS_MODE", "approvals.mode"),
    ] {
        assert_eq!(stopped("", &[(name, "x")]), [key], "{name}");
    }
}

#[test]
fn what_is_asked_before_the_misspelt_place_decides() {
    let home = TestHome::with_config("terminal:\n  docker_netwrok: false\n");
    assert_eq!(network(&home, &[("TERMINAL_DOCKER_NETWORK", "false")], &[]), Ok(false));
    assert_eq!(network(&home, &[], &["terminal.docker_network=true"]), Ok(true));
}

#[test]
fn other_names_stop_nobody() {
    for text in [
        "terminal:\n  timeuot: 5\n  docker_netwrok:\n",
        "web:\n  backend: other\n",
        "terminal:\n  whatever: 1\n  memory: 512\n",
        "somewhere:\n  docker_network: false\n",
    ] {
        let home = TestHome::with_config(text);
        assert_eq!(network(&home, &[], &[]), Ok(true), "{text}");
        let all =
            crate::schema().keys().filter_map(|key| key.resolve(&home.settings(&[], &[])).err());
        let stopped = all.filter(|error| matches!(error, ConfigError::Misspelt(_))).count();
        assert_eq!(stopped, 0, "{text}");
    }
    let env = [("TERMINAL_END", "x"), ("TERMINAL_EMULATOR", "x"), ("VESTAL_DENY", "x")];
    assert_eq!(TestHome::new().settings(&env, &[]).misspellings(), []);
}
