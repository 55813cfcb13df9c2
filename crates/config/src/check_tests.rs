use super::*;
use crate::testing::TestHome;

/// Findings as text, with the path of the home taken out.
fn findings(home: &TestHome, env: &[(&str, &str)]) -> Vec<String> {
    let root = format!("{}/", home.path("").display()).replace("//", "/");
    let text = |finding: SettingFinding| {
        format!("{:?}: {}", finding.severity, finding.message.replace(&root, ""))
    };
    home.settings(env, &[]).check().into_iter().map(text).collect()
}

#[test]
fn a_clean_home_has_no_findings() {
    assert_eq!(findings(&TestHome::new(), &[]), [""; 0]);
    let home = TestHome::with_config("# mine\nterminal:\n  timeout: 10m\n  env: {A: b}\n")
        .dotenv("OPENAI_API_KEY=x\nTERMINAL_ENV=local\nVESTAL_API_TOKEN=x\n");
    let env = [("TERMINAL_EMULATOR", "other"), ("VESTAL_HOME", "/v"), ("PATH", "/bin")];
    assert_eq!(findings(&home, &env), [""; 0]);
}

#[test]
fn unknown_keys_come_with_a_suggestion() {
    let home = TestHome::with_config(
        "terminal:\n  timeuot: 1\n  whatever: 2\n  modal_image: x\ntimeout: 3\nterminl: {}\n\
         terminal.cwd: /\ngateway:\n  timeout: 1\nunknown: 1\n[a, b]: 1\n",
    );
    assert_eq!(
        findings(&home, &[]),
        [
            "Warning: config.yaml:2:3: there is no key terminal.timeuot; did you mean terminal.timeout?",
            "Warning: config.yaml:3:3: there is no key terminal.whatever",
            "Warning: config.yaml:5:1: there is no key timeout; did you mean terminal.timeout?",
            "Warning: config.yaml:6:1: there is no key terminl; did you mean terminal?",
            "Warning: config.yaml:7:1: terminal.cwd has no effect like this; write cwd below terminal:",
            "Warning: config.yaml:10:1: there is no key unknown",
            "Warning: config.yaml:11:1: a key that is a list has no effect",
            "Note: config.yaml:4:3: terminal.modal_image has no meaning in this version",
            "Note: config.yaml:8:1: gateway has no meaning in this version",
        ]
    );
}

#[test]
fn a_misspelling_of_a_key_that_protects_is_an_error() {
    let home = TestHome::with_config("terminal:\n  docker_netwrok: false\n  jobs_keep: 1\n");
    assert_eq!(
        findings(&home, &[]),
        [
            "Error: config.yaml:2:3: there is no key terminal.docker_netwrok; did you mean terminal.docker_network?",
            "Warning: config.yaml:3:3: there is no key terminal.jobs_keep; did you mean terminal.jobs_kept?",
        ]
    );
}

#[test]
fn a_model_named_in_short_is_no_mistake_and_a_misspelt_key_beside_others_is() {
    assert_eq!(findings(&TestHome::with_config("model: some/model\n"), &[]), [""; 0]);
    assert_eq!(
        findings(&TestHome::with_config("model:\n  default: x\n  provder: y\n"), &[]),
        ["Warning: config.yaml:3:3: there is no key model.provder; did you mean model.provider?"]
    );
    assert_eq!(
        findings(&TestHome::with_config("model: [x]\n"), &[]),
        ["Error: model (config.yaml:1:8) is a list where a map of settings is expected"]
    );
}

#[test]
fn wrong_values_are_found_in_every_place_even_when_hidden() {
    let home = TestHome::with_config("terminal:\n  timeout: soon\n  docker_orphan_reaper: true\n")
        .dotenv("TERMINAL_TIMEOUT=later\n");
    let allowed = "allowed: 1s to 7d, in seconds or with s, m, h or d";
    assert_eq!(
        findings(&home, &[("TERMINAL_TIMEOUT", "5"), ("TERMINAL_ENV", "auto"), ("TERMINAL_BACKEND", "local")]),
        [
            "Error: terminal.backend is set twice and differently: \"auto\" (environment variable TERMINAL_ENV) \
             and \"local\" (environment variable TERMINAL_BACKEND); remove one of them".to_owned(),
            format!("Error: terminal.timeout is \"later\" (.env:1 (TERMINAL_TIMEOUT)), which is not a duration in whole seconds; {allowed}"),
            format!("Error: terminal.timeout is \"soon\" (config.yaml:2:12), which is not a duration in whole seconds; {allowed}"),
            "Note: config.yaml:3:3: terminal.docker_orphan_reaper is another name of terminal.orphan_reaper".to_owned(),
        ]
    );
}

#[test]
fn a_broken_file_or_section_is_one_finding() {
    assert_eq!(findings(&TestHome::with_config("terminal: [\n"), &[]).len(), 1);
    assert_eq!(
        findings(&TestHome::with_config("terminal: local\n"), &[]),
        [
            "Error: terminal (config.yaml:1:11) is a single value where a map of settings is expected"
        ]
    );
    assert_eq!(
        findings(&TestHome::with_config("terminal: {}\nterminal: {}\n"), &[]),
        [
            "Error: terminal is there twice, at config.yaml:1:1 and config.yaml:2:1; remove one of them"
        ]
    );
}

#[test]
fn a_dotenv_is_checked_line_by_line_and_for_its_mode() {
    use std::os::unix::fs::PermissionsExt;
    let home = TestHome::new().dotenv(
        "nonsense\nTERMINAL_TIMEOU=1\nVESTAL_HOME=/v\nTERMINAL_MODAL_IMAGE=x\nTERMINAL_OTHER_THING=1\n",
    );
    let mode = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(home.path(".env"), mode).expect("mode set");
    assert_eq!(
        findings(&home, &[]),
        [
            "Warning: .env:1: the line is not NAME=value and is skipped",
            "Warning: .env may be read or changed by others (mode 644); run chmod 600 .env",
            "Warning: .env:2: TERMINAL_TIMEOU has no effect; did you mean TERMINAL_TIMEOUT?",
            "Warning: .env:3: VESTAL_HOME has no effect here; set it in the environment",
            "Warning: .env:5: TERMINAL_OTHER_THING has no effect",
            "Note: .env:4: TERMINAL_MODAL_IMAGE has no meaning in this version",
        ]
    );
}

#[test]
fn misspelt_variables_are_found() {
    assert_eq!(
        findings(&TestHome::new(), &[("TERMINAL_TIMEOT", "1")]),
        [
            "Warning: environment variable TERMINAL_TIMEOT has no effect; did you mean TERMINAL_TIMEOUT?",
        ]
    );
}
