use std::fs;

use tempfile::TempDir;
use vestal_config::{
    EnvName, Home, Override, ProfileName, Seconds, SecondsOrNever, SetError, SettingFinding,
    Settings, Severity, set,
};

use super::super::{keys, schema};
use super::*;

/// A home in a temporary directory.
struct TestHome(TempDir);

impl TestHome {
    fn with_config(text: impl AsRef<[u8]>) -> Self {
        let home = Self(tempfile::tempdir().expect("a directory"));
        fs::write(home.home().config_file(), text).expect("written");
        home
    }

    fn home(&self) -> Home {
        Home::at(self.0.path())
    }

    fn settings(&self, env: &[(&str, &str)]) -> Settings {
        let env = Environment::from_pairs(env.iter().copied());
        Settings::load(&schema(), self.home(), env, Vec::<Override>::new())
    }

    fn read_config(&self) -> String {
        fs::read_to_string(self.home().config_file()).expect("read")
    }
}

#[test]
fn keys_of_the_board_have_the_promised_defaults() {
    let settings = TestHome::with_config("").settings(&[]);
    macro_rules! value {
        ($key:ident) => {
            settings.get(&keys::$key).expect("a default").value
        };
    }
    assert_eq!(value!(KANBAN_DISPATCH_INTERVAL_SECONDS).as_secs(), 60);
    assert_eq!(value!(KANBAN_DEFAULT_ASSIGNEE).get(), None);
    assert_eq!(value!(KANBAN_MAX_IN_PROGRESS), Cap::None);
    assert!(value!(KANBAN_MAX_IN_PROGRESS_PER_HOST).is_auto());
    assert_eq!(value!(KANBAN_MAX_SPAWN), Cap::None);
    assert_eq!(value!(KANBAN_MAX_IN_PROGRESS_PER_PROFILE), Cap::None);
    assert_eq!(value!(KANBAN_MAX_IN_PROGRESS_PER_TENANT), Cap::None);
    assert_eq!(value!(KANBAN_FAILURE_LIMIT).get(), 2);
    assert_eq!(value!(KANBAN_NO_REPORT_LIMIT).get(), 3);
    assert_eq!(value!(KANBAN_RETRY_BACKOFF_SECONDS).as_secs(), 10);
    assert_eq!(value!(KANBAN_RATE_LIMIT_COOLDOWN_SECONDS).as_secs(), 300);
    assert_eq!(value!(KANBAN_CLAIM_TTL_SECONDS).as_secs(), 120);
    assert_eq!(
        value!(KANBAN_DISPATCH_STALE_TIMEOUT_SECONDS),
        SecondsOrNever::After(Seconds::new(14_400))
    );
    assert_eq!(value!(KANBAN_DURABILITY), DurabilityChoice::Full);
    assert_eq!(value!(KANBAN_HOST).get(), None);
    assert_eq!(value!(KANBAN_ENV_PASSTHROUGH).iter().map(EnvName::as_str).count(), 0);
    assert_eq!(value!(KANBAN_WORKER_LOG_ROTATE_BYTES).get(), 2 << 20);
    assert_eq!(value!(KANBAN_WORKER_LOG_BACKUP_COUNT).get(), 1);
    assert_eq!(value!(KANBAN_EVENT_RETENTION_DAYS).get(), Some(30));
    assert_eq!(value!(KANBAN_LOG_RETENTION_DAYS).get(), Some(30));
    assert_eq!(
        value!(KANBAN_DIAGNOSTICS_FAILURE_THRESHOLD),
        CountOrSame::Same("kanban.failure_limit")
    );
    assert_eq!(value!(KANBAN_DIAGNOSTICS_CRASH_THRESHOLD).get(), 2);
    assert_eq!(value!(KANBAN_DIAGNOSTICS_BLOCKED_STALE_HOURS).get(), 24);
    assert_eq!(value!(KANBAN_DIAGNOSTICS_STRANDED_THRESHOLD_SECONDS).as_secs(), 1800);
    assert_eq!(value!(KANBAN_DIAGNOSTICS_BLOCK_CYCLE_THRESHOLD).get(), 3);
    assert_eq!(value!(KANBAN_DIAGNOSTICS_BLOCK_CYCLE_WINDOW_SECONDS).as_secs(), 86_400);
}

#[test]
fn a_cap_in_quotes_counts_and_one_that_is_none_never_stops_anything() {
    let cap = |text: &str| {
        let home = TestHome::with_config(format!("kanban:\n  max_spawn: {text}\n"));
        home.settings(&[]).get(&keys::KANBAN_MAX_SPAWN).expect("never an error").value
    };
    assert_eq!(cap("\"4\""), Cap::At(4));
    assert_eq!(cap("4"), Cap::At(4));
    assert_eq!(cap("null"), Cap::None);
    for text in ["0", "-1", "abc", "[4]", "{a: 1}", "1.5", "!!binary x", "yes"] {
        assert!(cap(text).invalid().is_some(), "{text}");
    }
    let home = TestHome::with_config("kanban:\n  max_in_progress_per_host: null\n");
    let host = home.settings(&[]).get(&keys::KANBAN_MAX_IN_PROGRESS_PER_HOST).expect("fine");
    assert!(host.value.is_auto());
}

#[test]
fn a_cap_that_is_none_is_a_warning_and_cannot_be_set() {
    let home = TestHome::with_config("kanban:\n  max_spawn: 0\n");
    let found = home.settings(&[("VESTAL_KANBAN_MAX_IN_PROGRESS", "lots")]).check();
    let printed: Vec<_> = found.iter().map(|own| (own.severity, own.message.clone())).collect();
    let expected = |key: &str, text: &str, place: String| {
        let why = "is not a whole number ≥ 1, so the cap is ignored";
        let allowed = "allowed: 1 or more; none for no cap";
        (Severity::Warning, format!("{key} is \"{text}\" ({place}), which {why}; {allowed}"))
    };
    let variable = "environment variable VESTAL_KANBAN_MAX_IN_PROGRESS".to_owned();
    let place = format!("{}:2:14", home.home().config_file().display());
    assert_eq!(
        printed,
        [
            expected("kanban.max_in_progress", "lots", variable),
            expected("kanban.max_spawn", "0", place)
        ]
    );
    let refused = set(&home.settings(&[]), "kanban.max_spawn", "-3").expect_err("refused");
    assert!(matches!(refused, SetError::Config(_)), "{refused}");
    assert_eq!(home.read_config(), "kanban:\n  max_spawn: 0\n");
    set(&home.settings(&[]), "kanban.max_spawn", "3").expect("set");
    assert_eq!(home.read_config(), "kanban:\n  max_spawn: 3\n");
}

#[test]
fn keys_of_the_board_that_mean_nothing_yet_are_distinguished_from_misspelt_ones() {
    let home = TestHome::with_config(
        "kanban:\n  auto_promote_children: true\n  auto_decompose: true\n  max_spwan: 3\n  \
         diagnostics:\n    crash_treshold: 2\n",
    );
    let root = format!("{}:", home.home().config_file().display());
    let printed = |own: SettingFinding| own.message.replace(&root, "");
    let found: Vec<_> = home.settings(&[]).check().into_iter().map(printed).collect();
    assert_eq!(
        found,
        [
            "4:3: there is no key kanban.max_spwan; did you mean kanban.max_spawn?",
            "6:5: there is no key kanban.diagnostics.crash_treshold; did you mean \
             kanban.diagnostics.crash_threshold?",
            "2:3: kanban.auto_promote_children has no meaning in this version",
            "3:3: kanban.auto_decompose has no meaning in this version",
        ]
    );
}

#[test]
fn the_board_is_chosen_by_a_variable_of_the_environment_only() {
    let home = TestHome::with_config("");
    fs::write(home.home().env_file(), "VESTAL_KANBAN_BOARD=other\n").expect("written");
    let settings = home.settings(&[("VESTAL_KANBAN_BOARD", "Mine")]);
    assert_eq!(board_variable(settings.environment()).as_deref(), Some("Mine"));
    let printed: Vec<_> = settings.check().into_iter().map(|own| own.message).collect();
    let expected = "VESTAL_KANBAN_BOARD has no effect here; set it in the environment";
    assert!(printed.iter().any(|message| message.ends_with(expected)), "{printed:?}");
    let empty = TestHome::with_config("").settings(&[("VESTAL_KANBAN_BOARD", "")]);
    assert_eq!(board_variable(empty.environment()), None);
}

#[test]
fn boards_are_shared_by_all_profiles() {
    let home = TestHome::with_config("").home();
    let other = home.sibling(ProfileName::new("other").expect("a name"));
    let shared = [&home, &other].map(crate::settings::boards_dir);
    assert_eq!(shared, [home.root().join("kanban"), home.root().join("kanban")]);
    assert_eq!(TestHome::with_config("").settings(&[]).work_dirs().len(), 1);
}

#[test]
fn what_a_dispatcher_tells_a_worker_is_no_mistake() {
    let set = VARIABLES.iter().filter(|own| own.scope == VariableScope::Environment);
    let env: Vec<_> = set.map(|own| (own.name, "1")).collect();
    assert_eq!(TestHome::with_config("").settings(&env).check(), []);
}
