//! The whole schema: what every key of every owner keeps, and that the committed documentation says so.

#![expect(clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;
use vestal_api::schema;
use vestal_config::{
    AnyKey, ConfigError, EnvName, Environment, Home, Override, SettingFinding, SettingValue,
    Settings, ValueSource, set,
};
use vestal_sandbox::SandboxSettings as _;
use vestal_sandbox::settings::CommandEnvironment;

/// A home in a temporary directory, removed when dropped.
struct TestHome(TempDir);

impl TestHome {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    fn with_config(text: &str) -> Self {
        Self::new().file("config.yaml", text)
    }

    fn file(self, name: &str, text: &str) -> Self {
        fs::write(self.0.path().join(name), text).expect("written");
        self
    }

    fn settings(&self, env: &[(&str, &str)], sets: &[&str]) -> Settings {
        let sets = sets.iter().map(|text| Override::parse(&schema(), text).expect("an assignment"));
        let env = Environment::from_pairs(env.iter().copied());
        Settings::load(&schema(), Home::at(self.0.path()), env, sets.collect())
    }
}

/// Findings as text, with the path of the home taken out.
fn findings(home: &TestHome, env: &[(&str, &str)]) -> Vec<String> {
    let root = format!("{}/", home.0.path().display());
    let text = |finding: SettingFinding| {
        format!("{:?}: {}", finding.severity, finding.message.replace(&root, ""))
    };
    home.settings(env, &[]).check().into_iter().map(text).collect()
}

fn pairs(environment: &CommandEnvironment) -> Vec<String> {
    let text = |(n, v): &(OsString, OsString)| format!("{}={}", n.display(), v.display());
    environment.variables.iter().map(text).collect()
}

/// Returns the value of a key that is set in no place but the command line.
fn assigned(key: &dyn AnyKey, text: &str) -> SettingValue {
    let settings = TestHome::new().settings(&[], &[&format!("{}={text}", key.name())]);
    key.resolve(&settings).expect("examples are allowed").value
}

/// A file that sets a key, below its section if it is in one.
fn in_file(name: &str, value: &str) -> String {
    let last = name.split('.').count() - 1;
    let line = |(depth, part): (usize, &str)| {
        let value = if depth == last { format!(" {value}") } else { String::new() };
        format!("{}{part}:{value}\n", "  ".repeat(depth))
    };
    name.split('.').enumerate().map(line).collect()
}

#[test]
fn the_committed_documentation_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let committed = std::fs::read_to_string(path).expect("docs/configuration.md");
    assert!(
        committed == schema().markdown(),
        "run `cargo run -p vestal-api --example docs > docs/configuration.md`"
    );
}

#[test]
fn the_documentation_has_a_line_for_every_key() {
    let text = schema().markdown();
    for key in schema().keys() {
        let name = key.name();
        let line = text.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let line = line.unwrap_or_else(|| panic!("{name} is not documented"));
        assert!(key.env().iter().all(|variable| line.contains(variable)), "{line}");
    }
}

#[test]
fn the_json_schema_has_every_key_with_its_default() {
    let json = schema().json_schema();
    for key in schema().keys() {
        let below = |entry: &serde_json::Value, part: &str| entry["properties"][part].clone();
        let entry = key.name().split('.').fold(json.clone(), |entry, part| below(&entry, part));
        assert_eq!(entry["description"], key.doc(), "{}", key.name());
    }
    assert_eq!(json["properties"]["terminal"]["properties"]["timeout"]["default"], 180);
}

#[test]
fn every_key_is_taken_from_the_highest_place_that_has_it() {
    for key in schema().keys() {
        let name = key.name();
        let [first, second] = [0, 1].map(|at| key.examples()[at].clone());
        let values = [assigned(key, &first), assigned(key, &second)];
        assert_ne!(values[0], values[1], "{name}");
        let file = TestHome::with_config(&in_file(name, &first));
        let resolved = |settings: &Settings| key.resolve(settings).expect("examples are allowed");
        let found = resolved(&file.settings(&[], &[]));
        assert!(matches!(found.source, ValueSource::File { .. }), "{name}");
        assert_eq!(found.value, values[0], "{name}");
        let dotenv = file.file(".env", &format!("{}='{second}'\n", key.env()[0]));
        let found = resolved(&dotenv.settings(&[], &[]));
        assert!(matches!(found.source, ValueSource::DotEnv { .. }), "{name}");
        assert_eq!(found.value, values[1], "{name}");
        let env = [(key.env()[0], first.as_str())];
        let found = resolved(&dotenv.settings(&env, &[]));
        assert!(matches!(found.source, ValueSource::Environment { .. }), "{name}");
        assert_eq!(found.value, values[0], "{name}");
        let found = resolved(&dotenv.settings(&env, &[&format!("{name}={second}")]));
        assert!(matches!(found.source, ValueSource::CommandLine { .. }), "{name}");
        assert_eq!(found.value, values[1], "{name}");
    }
}

#[test]
fn every_name_of_every_key_works() {
    for key in schema().keys() {
        let value = key.examples()[0].clone();
        for name in key.env() {
            let settings = TestHome::new().settings(&[(name, &value)], &[]);
            let source = key.resolve(&settings).expect("allowed").source;
            assert_eq!(source, ValueSource::Environment { name: (*name).to_owned() });
        }
        for alias in key.aliases() {
            let home = TestHome::with_config(&in_file(alias, &value));
            let source = key.resolve(&home.settings(&[], &[])).expect("allowed").source;
            assert!(matches!(source, ValueSource::File { .. }), "{alias}");
        }
    }
}

#[test]
fn no_two_keys_share_a_name_or_a_variable() {
    let keys: Vec<&dyn AnyKey> = schema().keys().collect();
    let mut names: Vec<&str> =
        keys.iter().flat_map(|key| key.aliases().iter().copied().chain([key.name()])).collect();
    let mut variables: Vec<&str> = keys.iter().flat_map(|key| key.env().iter().copied()).collect();
    for list in [&mut names, &mut variables] {
        let count = list.len();
        list.sort_unstable();
        list.dedup();
        assert_eq!(list.len(), count, "a name is declared twice");
    }
    assert!(keys.iter().all(|key| !key.env().is_empty() && !key.doc().is_empty()));
}

#[test]
fn every_example_of_every_key_can_be_set_and_read_back() {
    for key in schema().keys() {
        let home = TestHome::new();
        for text in key.examples() {
            let outcome = set(&home.settings(&[], &[]), key.name(), &text).expect("set");
            assert_eq!(outcome.hidden_by, None);
            let resolved = key.resolve(&home.settings(&[], &[])).expect("readable");
            assert_eq!(resolved.value, assigned(key, &text), "{} {text}", key.name());
        }
    }
}

#[test]
fn every_key_that_protects_is_guarded_against_its_near_misses() {
    for (text, key) in [
        ("terminal: {network: false}", "terminal.docker_network"),
        ("terminal: {docker_images: x}", "terminal.docker_image"),
        ("terminal: {rootfs: /srv/root}", "terminal.native_rootfs"),
        ("approvals: {dney: [rm *]}", "approvals.deny"),
        ("approvals: {unatended: deny}", "approvals.unattended"),
        ("aprovals: {mode: manual}", "approvals.mode"),
        ("security: {redact_secret: true}", "security.redact_secrets"),
    ] {
        let settings = TestHome::with_config(text).settings(&[], &[]);
        let is_stopped =
            |key: &&dyn AnyKey| matches!(key.resolve(&settings), Err(ConfigError::Misspelt(_)));
        let stopped: Vec<&str> = schema().keys().filter(is_stopped).map(AnyKey::name).collect();
        assert_eq!(stopped, [key], "{text}");
    }
}

#[test]
fn sections_that_later_versions_will_have_are_distinguished_from_mistakes() {
    let home =
        TestHome::with_config("terminal: {modal_image: x}\ngateway: {port: 1}\nkanbna: {}\n");
    assert_eq!(
        findings(&home, &[]),
        [
            "Warning: config.yaml:3:1: there is no key kanbna; did you mean kanban?",
            "Note: config.yaml:1:12: terminal.modal_image has no meaning in this version",
            "Note: config.yaml:2:1: gateway has no meaning in this version",
        ]
    );
}

#[test]
fn keys_of_the_agent_have_the_promised_defaults() {
    let rows = TestHome::new().settings(&[], &[]).rows();
    let of = |name: &str| {
        let row = rows.iter().find(|row| row.key == name).expect("a key");
        row.value.as_ref().expect("a value").to_string()
    };
    for (name, default) in [
        ("model.default", ""),
        ("model.provider", "auto"),
        ("model.base_url", ""),
        ("model.api_mode", "auto"),
        ("model.context_length", "auto"),
        ("model.max_output_tokens", "auto"),
        ("model.prices", "{}"),
        ("providers", "{}"),
        ("fallback_providers", "[]"),
        ("agent.max_turns", "90"),
        ("agent.api_max_retries", "8"),
        ("agent.request_timeout", "120"),
        ("agent.system_prompt", ""),
        ("agent.clarify_timeout", "3600"),
        ("toolsets", "[all]"),
        ("agent.disabled_toolsets", "[]"),
        ("agent.disabled_tools", "[]"),
        ("compression.enabled", "true"),
        ("compression.threshold", "0.5"),
        ("compression.target_ratio", "0.2"),
        ("compression.protect_first_n", "3"),
        ("compression.protect_last_n", "20"),
        ("delegation.max_iterations", "50"),
        ("delegation.max_concurrent_children", "3"),
        ("delegation.max_spawn_depth", "1"),
        ("delegation.subagent_auto_approve", "false"),
        ("delegation.max_summary_chars", "24000"),
        ("approvals.mode", "manual"),
        ("approvals.timeout", "60"),
        ("approvals.deny", "[]"),
        ("approvals.unattended", "deny"),
        ("command_allowlist", "[]"),
        ("security.redact_secrets", "true"),
        ("tool_output.max_bytes", "50000"),
        ("tool_output.max_lines", "2000"),
        ("tool_output.max_line_length", "2000"),
        ("tool_loop_guardrails.warn_after", "3"),
        ("tool_loop_guardrails.stop_after", "8"),
        ("code_execution.timeout", "300"),
        ("code_execution.max_tool_calls", "50"),
    ] {
        assert_eq!(of(name), default, "{name}");
    }
}

#[test]
fn keys_of_providers_are_in_no_table_and_no_error_and_their_addresses_are() {
    let home = TestHome::with_config(
        "model:\n  api_key: hunter2\nproviders:\n  here: {base_url: \"http://h\", api_key: hunter2}\n",
    );
    let settings = home.settings(&[], &[]);
    let shown = format!("{:?} {:?}", settings.rows(), settings.check());
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("http://h"), "{shown}");
    let key = settings.get(&vestal_agent::keys::MODEL_API_KEY).expect("fine").value;
    assert_eq!((key.expose(), format!("{key:?}")), (Some("hunter2"), "****".to_owned()));
    for wrong in ["model: {api_key: \"hun ter2\"}\n", "providers: {a: {api_key: hunter2}}\n"] {
        let settings = TestHome::with_config(wrong).settings(&[], &[]);
        let shown = format!("{:?} {:?}", settings.rows(), settings.check());
        assert!(!shown.contains("ter2"), "{shown}");
    }
}

#[test]
fn commands_get_no_key_of_a_provider_whatever_its_variable_is_called() {
    let home = TestHome::with_config(
        "providers:\n  here: {base_url: \"http://h\", api_key_env: MY_MODEL}\n\
         terminal: {env_passthrough: [MY_MODEL, VESTAL_PROVIDERS]}\n",
    );
    let env = [("MY_MODEL", "hunter2"), ("VESTAL_API_KEY", "hunter2"), ("A", "b")];
    let settings = home.settings(&env, &[]);
    let job = settings.job_environment().expect("fine");
    assert_eq!(pairs(&job), ["A=b"]);
    let refused: Vec<_> = job.refused.iter().map(EnvName::as_str).collect();
    assert_eq!(refused, ["MY_MODEL", "VESTAL_PROVIDERS"]);
    let container = settings.container_environment().expect("fine");
    assert_eq!((pairs(&container).len(), container.refused.len()), (0, 2));
    // Who names it for containers wants it there.
    let asked = home.settings(&env, &["terminal.docker_forward_env=[\"MY_MODEL\"]"]);
    assert_eq!(pairs(&asked.container_environment().expect("fine")), ["MY_MODEL=hunter2"]);
    // The agent itself finds it.
    let name = EnvName::new("MY_MODEL").expect("a name");
    let found = settings.variable(&name).expect("readable").expect("set");
    assert_eq!(found.source, ValueSource::Environment { name: "MY_MODEL".to_owned() });
}

#[test]
fn a_key_of_a_provider_that_would_be_passed_on_is_found() {
    let home = TestHome::with_config(
        "providers: {here: {base_url: \"http://h\", api_key_env: MY_MODEL}}\n\
         terminal: {env_passthrough: [MY_MODEL]}\n",
    );
    assert_eq!(
        findings(&home, &[]),
        [
            "Warning: terminal.env_passthrough (config.yaml:2:29) names MY_MODEL, which is never passed on to commands"
        ]
    );
}

#[test]
fn the_skills_of_a_broken_configuration_get_no_variable() {
    let home = TestHome::with_config("providers: [broken]\n");
    let settings = home.settings(&[("MINE", "m")], &[]);
    let names = [EnvName::new("MINE").expect("a name")];
    assert_eq!(settings.handed(&names), []);
}

#[test]
fn the_variables_that_a_process_of_the_program_reads_are_known() {
    let names = vestal_api::inherited_variables();
    for name in ["DOCKER_HOST", "XDG_RUNTIME_DIR", "HTTPS_PROXY", "https_proxy", "all_proxy"] {
        assert!(names.iter().any(|own| own == name), "{name}: {names:?}");
    }
    assert!(names.iter().all(|name| !name.starts_with("VESTAL_")), "{names:?}");
}

proptest! {
    #[test]
    fn no_key_panics_on_any_text(text in any::<String>()) {
        for key in schema().keys() {
            if let Ok(given) = Override::parse(&schema(), &format!("{}={text}", key.name())) {
                let home = Home::at("/nowhere");
                let env = Environment::default();
                drop(key.resolve(&Settings::load(&schema(), home, env, vec![given])));
            }
        }
    }
}
