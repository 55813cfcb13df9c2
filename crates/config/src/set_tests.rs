use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::*;
use crate::keys;
use crate::testing::TestHome;

fn set_in(home: &TestHome, name: &str, value: &str) -> Result<SetOutcome, SetError> {
    set(&home.settings(&[], &[]), name, value)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").mode() & 0o7777
}

#[test]
fn a_missing_home_and_file_are_made_for_the_user_alone() {
    let home = TestHome::new();
    let deep = crate::Home::at(home.path("a/b"));
    let settings =
        Settings::load(&crate::schema(), deep.clone(), crate::Environment::default(), Vec::new());
    set(&settings, "terminal.timeout", "10m").expect("set");
    assert_eq!(
        fs::read_to_string(deep.config_file()).expect("there"),
        "terminal:\n  timeout: 10m\n"
    );
    assert_eq!((mode(&deep.config_file()), mode(&deep.dir())), (0o600, 0o700));
}

#[test]
fn everything_else_in_the_file_stays() {
    let text = "# mine\nterminal:   # all of it\n  timeout: 5 # short\n\n  # kept\n  cwd: '/x'\nother: {a: [1, 2]}\n";
    let home = TestHome::with_config(text);
    set_in(&home, "terminal.timeout", "2h").expect("set");
    assert_eq!(home.read_config(), text.replace("timeout: 5", "timeout: 2h"));
    set_in(&home, "terminal.env_passthrough", r#"["A", "B"]"#).expect("set");
    let more = "  cwd: '/x'\n  env_passthrough: [\"A\", \"B\"]\n".replace('"', "");
    assert_eq!(
        home.read_config(),
        text.replace("timeout: 5", "timeout: 2h").replace("  cwd: '/x'\n", &more)
    );
}

#[test]
fn every_example_of_every_key_can_be_set_and_read_back() {
    for key in crate::schema().keys() {
        let home = TestHome::new();
        for text in key.examples() {
            let outcome = set_in(&home, key.name(), &text).expect("set");
            assert_eq!(outcome.hidden_by, None);
            let resolved = key.resolve(&home.settings(&[], &[])).expect("readable");
            let expected = key.read_untyped(Override::new(key.name(), &text).input());
            assert_eq!(Ok(Some(resolved.value)), expected, "{} {text}", key.name());
        }
    }
}

#[test]
fn the_name_that_is_in_the_file_is_kept() {
    let home = TestHome::with_config("terminal:\n  docker_orphan_reaper: true\n");
    let outcome = set_in(&home, "terminal.orphan_reaper", "false").expect("set");
    assert_eq!(outcome.name, "terminal.docker_orphan_reaper");
    assert_eq!(home.read_config(), "terminal:\n  docker_orphan_reaper: false\n");
}

#[test]
fn what_hides_the_new_value_is_reported() {
    let home = TestHome::new();
    let settings = home.settings(&[("TERMINAL_TIMEOUT", "9"), ("TERMINAL_CWD", "")], &[]);
    let hidden = set(&settings, "terminal.timeout", "5").expect("set").hidden_by;
    assert_eq!(hidden, Some(ValueSource::Environment { name: "TERMINAL_TIMEOUT".to_owned() }));
    assert_eq!(set(&settings, "terminal.cwd", "/x").expect("set").hidden_by, None);
}

#[test]
fn wrong_keys_and_values_leave_the_file_alone() {
    let text = "terminal:\n  timeout: 5\n";
    let home = TestHome::with_config(text);
    for (name, value) in [
        ("terminal.timeuot", "5"),
        ("terminal.timeout", "soon"),
        ("terminal.timeout", ""),
        ("terminal.modal_image", "x"),
        ("terminal.docker_image", "x\ty"),
        ("terminal.docker_extra_args", "[\" \"]"),
        ("terminal.container_cpu", "many"),
        ("terminal.env_passthrough", "A"),
        ("terminal.backend", "other"),
    ] {
        assert!(set_in(&home, name, value).is_err(), "{name}={value}");
        assert_eq!(home.read_config(), text);
    }
    let error = set_in(&home, "terminal.timeout", "soon").expect_err("wrong").to_string();
    assert!(error.starts_with("terminal.timeout is \"soon\" (as given), which"), "{error}");
}

#[test]
fn a_file_that_cannot_be_edited_safely_is_refused_with_advice() {
    let text = "terminal:\n  timeout: &t 5\n";
    let home = TestHome::with_config(text);
    let error = set_in(&home, "terminal.timeout", "6").expect_err("refused").to_string();
    let expected = "config.yaml was not changed: line 2 has an anchor, an alias or a tag, which is not \
                    edited automatically; set terminal.timeout there by hand";
    assert!(error.ends_with(expected), "{error}");
    assert_eq!(home.read_config(), text);
    let home = TestHome::with_config("terminal: [\n");
    assert!(matches!(set_in(&home, "terminal.timeout", "6"), Err(SetError::Read { .. })));
}

#[test]
fn mode_and_link_of_the_file_stay_and_nothing_is_left_behind() {
    let home = TestHome::new();
    fs::create_dir(home.path("dotfiles")).expect("made");
    let real = home.path("dotfiles/vestal.yaml");
    fs::write(&real, "terminal:\n  timeout: 5\n").expect("written");
    fs::set_permissions(&real, Permissions::from_mode(0o640)).expect("mode set");
    symlink("dotfiles/vestal.yaml", home.path("config.yaml")).expect("linked");
    // What a crash left behind is not an obstacle.
    fs::write(home.path("dotfiles/.vestal.yaml.vestal-new"), "half").expect("written");
    set_in(&home, "terminal.timeout", "6").expect("set");
    assert!(home.path("config.yaml").is_symlink());
    assert_eq!(fs::read_to_string(&real).expect("there"), "terminal:\n  timeout: 6\n");
    assert_eq!(mode(&real), 0o640);
    let names: Vec<_> = fs::read_dir(home.path("dotfiles"))
        .expect("there")
        .flatten()
        .map(|e| e.file_name())
        .collect();
    assert_eq!(names, ["vestal.yaml"]);
}

#[test]
fn a_link_to_nothing_is_not_replaced_by_a_file() {
    let home = TestHome::new();
    symlink("nowhere/config.yaml", home.path("config.yaml")).expect("linked");
    assert!(matches!(set_in(&home, "terminal.timeout", "6"), Err(SetError::Write { .. })));
    assert!(home.path("config.yaml").is_symlink());
}

#[test]
fn sets_at_the_same_time_lose_nothing() {
    let home = TestHome::new();
    let values: Vec<_> =
        crate::schema().keys().map(|key| (key.name(), key.examples().remove(0))).collect();
    std::thread::scope(|scope| {
        for (name, value) in &values {
            scope.spawn(|| set_in(&home, name, value).expect("set"));
        }
    });
    let rows = home.settings(&[], &[]).rows();
    assert!(
        rows.iter().all(|row| matches!(row.source, Some(ValueSource::File { .. }))),
        "{rows:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_directory_can_be_set_and_read_back(text in "[^\0]{1,30}") {
        let home = TestHome::with_config("terminal:\n  cwd: /x # here\n");
        let given = Override::new("terminal.cwd", &text);
        let expected = keys::CWD.read_untyped(given.input());
        match set_in(&home, "terminal.cwd", &text) {
            Ok(_) => {
                let read = keys::CWD.resolve(&home.settings(&[], &[])).expect("readable").value;
                prop_assert_eq!(Ok(Some(read)), expected);
                prop_assert!(home.read_config().ends_with(" # here\n"));
            }
            Err(error) => prop_assert!(!matches!(expected, Ok(Some(_))), "{}", error),
        }
    }
}

#[test]
fn a_key_is_taken_out_under_every_name_and_nothing_else_changes() {
    let home = TestHome::with_config(
        "# mine\nterminal:\n  orphan_reaper: true # own\n  docker_orphan_reaper: true\n  jobs_kept: 7\n",
    );
    let name =
        |name: &str| unset(&home.settings(&[], &[]), name).map(|done| done.map(|done| done.name));
    assert!(name("terminal.orphan_reaper").expect("taken out").is_some());
    assert_eq!(home.read_config(), "# mine\nterminal:\n  jobs_kept: 7\n");
    assert_eq!(name("terminal.orphan_reaper").expect("nothing to do"), None);
    // A misspelt name goes, and one that is not there is a mistake.
    let home = home.config("terminal:\n  docker_netwrok: false\n  jobs_kept: 7\n");
    let name =
        |name: &str| unset(&home.settings(&[], &[]), name).map(|done| done.map(|done| done.name));
    assert_eq!(
        name("terminal.docker_netwrok").expect("taken out").as_deref(),
        Some("terminal.docker_netwrok")
    );
    assert_eq!(home.read_config(), "terminal:\n  jobs_kept: 7\n");
    assert!(matches!(
        name("terminal.docker_netwrok"),
        Err(SetError::Config(ConfigError::UnknownKey { .. }))
    ));
    assert_eq!(name("terminal.timeout").expect("nothing to do"), None);
}

#[test]
fn lists_maps_and_decimals_are_set_as_they_are_given() {
    let home = TestHome::with_config("terminal:\n  docker_network: true # on\n");
    for (name, value) in [
        ("terminal.env", r#"{"A": "x y", "B": 1}"#),
        ("terminal.docker_extra_args", r#"["--cap-add", "SYS_PTRACE", "-p=80:80"]"#),
        ("terminal.env_passthrough", r#"["GH_TOKEN"]"#),
        ("terminal.container_cpu", "0.5"),
        ("terminal.docker_image", "sha256:12"),
    ] {
        set_in(&home, name, value).expect("set");
    }
    assert_eq!(
        home.read_config(),
        "terminal:
  docker_network: true # on
  env: {A: \"x y\", B: 1}
  docker_extra_args: [\"--cap-add\", SYS_PTRACE, \"-p=80:80\"]
  env_passthrough: [GH_TOKEN]
  container_cpu: 0.5
  docker_image: sha256:12
"
    );
    let settings = home.settings(&[], &[]);
    let get = |name| serde_json::to_string(&settings.get_by_name(name).expect("readable").value);
    assert_eq!(get("terminal.env").expect("json"), r#"{"A":"x y","B":"1"}"#);
    assert_eq!(get("terminal.container_cpu").expect("json"), "0.5");
    assert_eq!(settings.check(), []);
}

#[test]
fn a_key_in_a_section_of_a_section_is_read_and_set() {
    let home = TestHome::with_config("kanban:\n  diagnostics:\n    crash_threshold: 5 # mine\n");
    let key = &keys::KANBAN_DIAGNOSTICS_CRASH_THRESHOLD;
    assert_eq!(home.settings(&[], &[]).get(key).expect("fine").value.get(), 5);
    set_in(&home, key.name(), "6").expect("set");
    set_in(&home, "kanban.max_spawn", "2").expect("set");
    assert_eq!(
        home.read_config(),
        "kanban:\n  diagnostics:\n    crash_threshold: 6 # mine\n  max_spawn: 2\n"
    );
}

#[test]
fn what_is_shown_in_place_of_a_secret_is_not_written_in_its_place() {
    let text = "model:\n  api_key: sk-of-the-model\n";
    let home = TestHome::with_config(text);
    for (name, value) in [
        ("model.api_key", "****"),
        ("providers", r#"{"one": {"command": "x", "api_key": "****"}}"#),
    ] {
        let refused = set_in(&home, name, value).expect_err("asterisks");
        assert!(matches!(refused, SetError::Masked { .. }), "{refused}");
    }
    assert_eq!(home.read_config(), text);
}
