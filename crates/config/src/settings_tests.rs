use proptest::prelude::*;

use super::*;
use crate::keys;
use crate::keys::Backend;
use crate::kinds::Seconds;
use crate::testing::{Directory, TestHome};

#[test]
fn a_wrong_value_breaks_only_its_own_key() {
    let home = TestHome::with_config("terminal:\n  timeout: soon\n  jobs_kept: 7\n");
    let settings = home.settings(&[("TERMINAL_JOB_LOG_BYTES", "lots")], &[]);
    assert!(settings.get(&keys::TIMEOUT).is_err());
    assert!(settings.get(&keys::JOB_LOG_BYTES).is_err());
    assert_eq!(settings.get(&keys::JOBS_KEPT).expect("fine").value.get(), 7);
    assert_eq!(settings.get(&keys::BACKEND).expect("fine").value, Backend::Auto);
    let broken: Vec<_> =
        settings.rows().into_iter().filter(|r| r.error.is_some()).map(|r| r.key).collect();
    assert_eq!(broken, ["terminal.timeout", "terminal.job_log_bytes"]);
}

#[test]
fn an_error_names_key_value_source_and_what_is_allowed() {
    let home =
        TestHome::with_config("terminal:\n  timeout: soon\n").dotenv("\nTERMINAL_ISOLATION=tsk\n");
    let settings = home.settings(&[("TERMINAL_ENV", "lcal")], &["terminal.jobs_kept=0"]);
    let message = |name: &str| settings.get_by_name(name).expect_err("wrong").to_string();
    let (config, dotenv) = (home.path("config.yaml"), home.path(".env"));
    assert_eq!(
        message("terminal.timeout"),
        format!(
            "terminal.timeout is \"soon\" ({}:2:12), which is not a duration in whole seconds; \
             allowed: 1s to 7d, in seconds or with s, m, h or d",
            config.display()
        )
    );
    assert_eq!(
        message("terminal.isolation"),
        format!(
            "terminal.isolation is \"tsk\" ({}:2 (TERMINAL_ISOLATION)), which is not a known isolation; \
             allowed: shared, task; did you mean task?",
            dotenv.display()
        )
    );
    assert_eq!(
        message("terminal.backend"),
        "terminal.backend is \"lcal\" (environment variable TERMINAL_ENV), which is not a backend; \
         allowed: auto, local; did you mean local?"
    );
    assert_eq!(
        message("terminal.jobs_kept"),
        "terminal.jobs_kept is \"0\" (--set terminal.jobs_kept), which is less than 1; \
         allowed: 1 to 100000"
    );
    assert_eq!(
        message("terminal.timout"),
        "there is no key terminal.timout; did you mean terminal.timeout?"
    );
    assert_eq!(message("timeout"), "there is no key timeout; did you mean terminal.timeout?");
    assert_eq!(
        message("terminal.env.A"),
        "there is no key terminal.env.A; did you mean terminal.env?"
    );
    assert_eq!(
        message("terminal.modal_image"),
        "terminal.modal_image has no meaning in this version"
    );
}

#[test]
fn a_secret_value_is_in_no_error_and_no_table() {
    let wrong = [
        "hunter2",
        "[\"hunter2\"]",
        "{hunter2}",
        "{\"hunter2 x\": 1}",
        "{\"A\": [\"hunter2\"]}",
        "{\"A\": \"hunter2",
    ];
    for text in wrong {
        let settings = TestHome::new().settings(&[("TERMINAL_JOB_ENV", text)], &[]);
        let error = settings.get(&keys::ENV).expect_err("wrong");
        assert!(!error.to_string().contains("hunter2"), "{error}");
        assert!(!format!("{error:?} {settings:?} {:?}", settings.check()).contains("hunter2"));
    }
    let value = "{\"TOKEN\": \"hunter2\"}";
    let settings = TestHome::new()
        .settings(&[("TERMINAL_JOB_ENV", value), ("TERMINAL_DOCKER_ENV", value)], &[]);
    let shown = format!("{:?} {:?}", settings.rows(), settings.check());
    assert!(!shown.contains("hunter2"), "{shown}");
    let rows = settings.rows();
    let row = rows.iter().find(|row| row.key == "terminal.env").expect("a row");
    assert_eq!(
        row.value.as_ref().map(SettingValue::to_string).as_deref(),
        Some("{TOKEN: \"****\"}")
    );
    assert_eq!(
        settings.get_by_name("terminal.env").expect("fine").value.to_string(),
        "{TOKEN: hunter2}"
    );
}

#[test]
fn two_names_of_one_key_must_agree() {
    let home = TestHome::new();
    let both = |a, b| home.settings(&[("TERMINAL_ENV", a), ("TERMINAL_BACKEND", b)], &[]);
    assert_eq!(both("local", "LOCAL").get(&keys::BACKEND).expect("agree").value, Backend::Local);
    assert_eq!(both("", "local").get(&keys::BACKEND).expect("one").value, Backend::Local);
    assert_eq!(
        both("local", "auto").get(&keys::BACKEND).expect_err("differ").to_string(),
        "terminal.backend is set twice and differently: \"local\" (environment variable TERMINAL_ENV) \
         and \"auto\" (environment variable TERMINAL_BACKEND); remove one of them"
    );
    let home = TestHome::with_config(
        "terminal:\n  persist_across_processes: true\n  docker_persist_across_processes: no\n",
    );
    let settings = home.settings(&[], &[]);
    assert!(matches!(settings.get(&keys::PERSIST_ACROSS_PROCESSES), Err(ConfigError::Conflict(_))));
    // A higher place that speaks with one voice settles it.
    let settings = home.settings(&[("TERMINAL_DOCKER_PERSIST_ACROSS_PROCESSES", "0")], &[]);
    assert!(!settings.get(&keys::PERSIST_ACROSS_PROCESSES).expect("settled").value);
    let settings =
        home.settings(&[], &["terminal.orphan_reaper=yes", "terminal.docker_orphan_reaper=no"]);
    assert!(matches!(settings.get(&keys::ORPHAN_REAPER), Err(ConfigError::Conflict(_))));
}

#[test]
fn the_last_set_of_a_name_wins() {
    let settings = TestHome::new().settings(&[], &["terminal.timeout=1", "terminal.timeout=2m"]);
    assert_eq!(settings.get(&keys::TIMEOUT).expect("fine").value, Seconds::new(120));
}

#[test]
fn a_place_that_says_nothing_is_passed_over() {
    let home = TestHome::with_config("terminal:\n  timeout: 7\n  jobs_kept: ~\n  cwd: ~\nother:\n")
        .dotenv("TERMINAL_TIMEOUT=\n");
    let settings = home.settings(&[("TERMINAL_TIMEOUT", "")], &["terminal.timeout="]);
    assert_eq!(settings.get(&keys::TIMEOUT).expect("fine").value, Seconds::new(7));
    assert_eq!(settings.get(&keys::JOBS_KEPT).expect("fine").source, ValueSource::Default);
    assert_eq!(settings.get(&keys::CWD).expect("fine").value, Directory("~".into()));
}

#[test]
fn a_broken_file_matters_only_to_keys_that_need_it() {
    let broken: [&[u8]; 6] =
        [b"a: [", b"a:\n\tb: 1\n", b"- a\n", b"just text\n", b"a: \xff\n", b"a: 1\n---\nb: 1\n"];
    for text in broken {
        let home = TestHome::with_config(text);
        let settings = home.settings(&[("TERMINAL_TIMEOUT", "5")], &[]);
        assert_eq!(settings.get(&keys::TIMEOUT).expect("not needed").value, Seconds::new(5));
        let error = settings.get(&keys::JOBS_KEPT).expect_err("needed");
        assert!(matches!(error, ConfigError::File { .. }), "{error}");
        assert!(error.to_string().contains("config.yaml: "), "{error}");
    }
}

#[test]
fn odd_files_are_errors_and_odd_text_is_not() {
    let settings = TestHome::with_config(vec![b'#'; (1 << 20) + 1]).settings(&[], &[]);
    let error = settings.get(&keys::TIMEOUT).expect_err("too large").to_string();
    assert!(error.contains("config.yaml: larger than 1048576 bytes;"), "{error}");
    let home = TestHome::new();
    std::fs::create_dir(home.path("config.yaml")).expect("made");
    let error = home.settings(&[], &[]).get(&keys::TIMEOUT).expect_err("a directory").to_string();
    assert!(error.contains("config.yaml: not a regular file;"), "{error}");
    for text in ["", "\n", "# c\n", "---\n", "null\n", "\u{feff}", "terminal:\n", "terminal: {}\n"]
    {
        let settings = TestHome::with_config(text).settings(&[], &[]);
        assert_eq!(
            settings.get(&keys::TIMEOUT).expect("fine").source,
            ValueSource::Default,
            "{text:?}"
        );
    }
    let bom = "\u{feff}terminal:\r\n  timeout: 5\r\n";
    let settings = TestHome::with_config(bom).settings(&[], &[]);
    assert_eq!(settings.get(&keys::TIMEOUT).expect("fine").value, Seconds::new(5));
}

#[test]
fn a_key_or_section_that_is_there_twice_is_an_error_for_who_needs_it() {
    let home = TestHome::with_config("terminal:\n  timeout: 1\n  timeout: 1\n  jobs_kept: 3\n");
    let settings = home.settings(&[], &[]);
    let path = home.path("config.yaml");
    let shown = path.display();
    assert_eq!(
        settings.get(&keys::TIMEOUT).expect_err("twice").to_string(),
        format!(
            "terminal.timeout is there twice, at {shown}:2:3 and {shown}:3:3; remove one of them"
        )
    );
    assert_eq!(settings.get(&keys::JOBS_KEPT).expect("fine").value.get(), 3);
    let settings = TestHome::with_config("terminal:\n  timeout: 1\nterminal:\n").settings(&[], &[]);
    assert!(
        matches!(settings.get(&keys::TIMEOUT), Err(ConfigError::Duplicate(twice)) if twice.name == "terminal")
    );
}

#[test]
fn a_section_that_is_no_map_is_an_error() {
    let home = TestHome::with_config("terminal: local\n");
    let error = home.settings(&[], &[]).get(&keys::BACKEND).expect_err("no map").to_string();
    let expected = format!(
        "terminal ({}:1:11) is a single value where a map of settings is expected, \
         so terminal.backend cannot be read",
        home.path("config.yaml").display()
    );
    assert_eq!(error, expected);
}

#[test]
fn assignments_on_the_command_line_are_checked_at_once_for_their_key() {
    let error = |text| Override::parse(&crate::schema(), text).expect_err("wrong").to_string();
    assert_eq!(
        error("terminal.timeout"),
        "--set \"terminal.timeout\" is not an assignment; write --set key=value"
    );
    assert_eq!(
        error("terminal.timeuot=1"),
        "there is no key terminal.timeuot; did you mean terminal.timeout?"
    );
    assert_eq!(error("=1"), "there is no key ");
    let settings = TestHome::new()
        .settings(&[], &["terminal.cwd=/a=b # c", "terminal.env_passthrough=[A, B]"]);
    assert_eq!(settings.get(&keys::CWD).expect("fine").value, Directory("/a=b # c".into()));
    assert_eq!(
        settings.get_by_name("terminal.env_passthrough").expect("fine").value.to_string(),
        "[A, B]"
    );
    let settings = TestHome::new().settings(&[], &["terminal.cwd='/x y'"]);
    assert_eq!(settings.get(&keys::CWD).expect("fine").value, Directory("/x y".into()));
}

#[test]
fn two_profiles_in_one_process_differ() {
    let one = TestHome::with_config("terminal: {timeout: 1}\n");
    let two = TestHome::with_config("terminal: {timeout: 2}\n");
    let (one, two) = (one.settings(&[], &[]), two.settings(&[], &[]));
    assert_eq!(one.get(&keys::TIMEOUT).expect("fine").value, Seconds::new(1));
    assert_eq!(two.get(&keys::TIMEOUT).expect("fine").value, Seconds::new(2));
}

#[test]
fn a_value_that_was_set_is_distinguished_from_the_same_default() {
    let settings = TestHome::new().settings(&[("TERMINAL_CONTAINER_CPU", "1")], &[]);
    let cpu = settings.get(&keys::CONTAINER_CPU).expect("fine");
    let pids = settings.get(&keys::CONTAINER_PIDS).expect("fine");
    assert_eq!(&cpu.value, keys::CONTAINER_CPU.default_value());
    assert!(!cpu.is_default());
    assert!(pids.is_default());
}

#[test]
fn a_model_may_be_named_in_short() {
    let home = TestHome::with_config("model: some/model\n");
    let settings = home.settings(&[], &[]);
    let model = settings.get(&keys::MODEL_DEFAULT).expect("fine");
    assert_eq!(model.value.get(), Some("some/model"));
    assert!(matches!(model.source, ValueSource::File { line: 1, column: 8, .. }));
    assert!(settings.get(&keys::MODEL_PROVIDER).expect("fine").is_default());
    let settings = home.settings(&[], &["model=other"]);
    assert_eq!(settings.get(&keys::MODEL_DEFAULT).expect("fine").value.get(), Some("other"));
    crate::set(&settings, "model.default", "third").expect("set");
    assert_eq!(home.read_config(), "model: third\n");
    let whole = TestHome::with_config("model:\n  provider: here\n");
    assert!(whole.settings(&[], &[]).get(&keys::MODEL_DEFAULT).expect("fine").is_default());
    crate::set(&whole.settings(&[], &[]), "model", "mine").expect("set");
    assert_eq!(whole.read_config(), "model:\n  provider: here\n  default: mine\n");
    let list = TestHome::with_config("model: [x]\n").settings(&[], &[]);
    assert!(list.get(&keys::MODEL_DEFAULT).is_err());
    assert!(list.get(&keys::MODEL_PROVIDER).is_err());
}

#[test]
fn a_named_key_is_looked_up_in_the_environment_before_the_file() {
    let home = TestHome::new().dotenv("OPENAI_API_KEY=file\nOTHER_KEY=file\n");
    let settings = home.settings(&[("OPENAI_API_KEY", "process"), ("OTHER_KEY", "")], &[]);
    let look = |name| {
        let found = settings.variable(&EnvName::new(name).expect("a name")).expect("readable");
        found.map(|own| own.value.into_string().expect("text"))
    };
    assert_eq!(look("OPENAI_API_KEY").as_deref(), Some("process"));
    assert_eq!(look("OTHER_KEY").as_deref(), Some("file"));
    assert_eq!(look("NO_KEY"), None);
}

proptest! {
    #[test]
    fn no_file_panics(config in any::<Vec<u8>>(), dotenv in any::<Vec<u8>>()) {
        let home = TestHome::with_config(config).dotenv(dotenv);
        let settings = home.settings(&[], &[]);
        drop((settings.rows(), settings.check()));
    }

    #[test]
    fn no_assignment_panics(text in "(terminal\\.(timeout|env|cwd)=)?.{0,40}") {
        if let Ok(given) = Override::parse(&crate::schema(), &text) {
            let settings = Settings::load(&crate::schema(), TestHome::new().home(), Environment::default(), vec![given]);
            drop((settings.rows(), settings.check()));
        }
    }
}
