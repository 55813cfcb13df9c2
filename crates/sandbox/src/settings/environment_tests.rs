use std::os::unix::ffi::OsStringExt;

use vestal_config::{Group, Home, Override, ValueSource};

use super::*;
use crate::settings::testing::TestHome;

fn names(list: &[&str]) -> Vec<EnvName> {
    list.iter().map(|name| EnvName::new(name).expect("a name")).collect()
}

fn handed(home: &TestHome, env: &[(&str, &str)], sets: &[&str], asked: &[&str]) -> Vec<String> {
    let settings = home.settings(env, sets);
    let pairs = settings.handed(&names(asked));
    pairs.iter().map(|(name, value)| format!("{name}={}", value.display())).collect()
}

#[test]
fn what_is_asked_for_comes_from_the_environment_else_from_the_file() {
    let home = TestHome::new().dotenv("NOTION_TOKEN=file\nONLY_FILE=f\n");
    let env = [("NOTION_TOKEN", "env"), ("EMPTY", "")];
    assert_eq!(
        handed(&home, &env, &[], &["NOTION_TOKEN", "ONLY_FILE", "EMPTY", "NOT_SET", "ONLY_FILE"]),
        ["NOTION_TOKEN=env", "ONLY_FILE=f"]
    );
}

#[test]
fn keys_of_model_providers_are_not_handed_to_what_asks_for_them() {
    let home = TestHome::new();
    let env = [
        ("OPENAI_API_KEY", "o"),
        ("SUDO_PASSWORD", "s"),
        ("VESTAL_API_KEY", "v"),
        ("PATH", "/bin"),
        ("LD_PRELOAD", "x.so"),
        ("TAVILY_API_KEY", "t"),
    ];
    let asked: Vec<&str> = env.iter().map(|(name, _)| *name).collect();
    assert_eq!(handed(&home, &env, &[], &asked), ["TAVILY_API_KEY=t"]);
    // Unless the user names it.
    let named = ["terminal.docker_forward_env=[\"OPENAI_API_KEY\"]"];
    assert_eq!(handed(&home, &env, &named, &asked), ["OPENAI_API_KEY=o", "TAVILY_API_KEY=t"]);
    let settings = home.settings(&env, &[]);
    let handing = |name: &str| settings.handing(&names(&[name])[0]);
    assert_eq!(handing("anthropic_api_key"), VariableForwarding::Withheld);
    assert_eq!(handing("home"), VariableForwarding::OfTheMachine);
}

#[test]
fn a_file_that_cannot_be_read_hands_out_nothing_and_fails_nothing() {
    let home = TestHome::with_config("[broken").dotenv("A=1\n");
    let schema = crate::schema().with([&NAMING]);
    let env = Environment::from_pairs([("B", "2")]);
    let settings = Settings::load(&schema, Home::at(home.path("")), env, Vec::new());
    // Which of the names hold secrets is not known then.
    assert_eq!(settings.handed(&names(&["A", "B"])), []);
}

/// A group of another owner that says which variables hold secrets.
static NAMING: Group = Group {
    secret_variables: |settings| {
        settings.get(&keys::TIMEOUT)?;
        Ok(EnvName::new("MINE").into_iter().collect())
    },
    ..Group::of(&[])
};

#[test]
fn a_variable_that_another_owner_calls_secret_is_neither_passed_on_nor_handed_out() {
    let schema = crate::schema().with([&NAMING]);
    let set = Override::parse(&schema, "terminal.env_passthrough=[\"MINE\"]").unwrap();
    let env = Environment::from_pairs([("MINE", "m"), ("A", "b")]);
    let home = Home::at(TestHome::new().path(""));
    let settings = Settings::load(&schema, home, env, vec![set]);
    let job = settings.job_environment().unwrap();
    assert_eq!(pairs(&job), ["A=b"]);
    assert_eq!(job.refused, names(&["MINE"]));
    assert_eq!(settings.handing(&names(&["MINE"])[0]), VariableForwarding::Withheld);
}

fn pairs(job: &CommandEnvironment) -> Vec<String> {
    let text = |(n, v): &(OsString, OsString)| format!("{}={}", n.display(), v.display());
    job.variables.iter().map(text).collect()
}

#[test]
fn sandboxes_are_in_the_home_by_default() {
    let home = TestHome::new();
    let default = home.settings(&[], &[]).sandboxes_dir().expect("fine");
    assert_eq!(default, Resolved { value: home.path("sandboxes"), source: ValueSource::Default });
    let env = [("HOME", "/home/ada"), ("TERMINAL_SANDBOX_DIR", "~/boxes")];
    let moved = home.settings(&env, &[]).sandboxes_dir().expect("fine");
    assert_eq!(moved.value, PathBuf::from("/home/ada/boxes"));
}

#[test]
fn commands_get_the_environment_without_secrets_and_with_what_was_asked_for() {
    let home = TestHome::with_config(
        "terminal:\n  env_passthrough: [GH_TOKEN, TAVILY_API_KEY, OPENAI_API_KEY, EXTRA]\n  env: {LANG: C, PORT: 80}\n",
    )
    .dotenv("TAVILY_API_KEY=from-file\nEXTRA=x\nOPENAI_API_KEY=no\nHIDDEN=no\n");
    let env = [
        ("PATH", "/bin"),
        ("LANG", "en"),
        ("GH_TOKEN", "g"),
        ("SLACK_BOT_TOKEN", "s"),
        ("OPENAI_API_KEY", "o"),
        ("AWS_ACCESS_KEY_ID", "a"),
        ("SSH_AUTH_SOCK", "/s"),
    ];
    let job = home.settings(&env, &[]).job_environment().expect("fine");
    let text =
        |(name, value): &(OsString, OsString)| format!("{}={}", name.display(), value.display());
    assert_eq!(
        job.variables.iter().map(text).collect::<Vec<_>>(),
        [
            "AWS_ACCESS_KEY_ID=a",
            "EXTRA=x",
            "GH_TOKEN=g",
            "LANG=C",
            "PATH=/bin",
            "PORT=80",
            "SSH_AUTH_SOCK=/s",
            "TAVILY_API_KEY=from-file"
        ]
    );
    assert_eq!(job.refused.iter().map(EnvName::as_str).collect::<Vec<_>>(), ["OPENAI_API_KEY"]);
    assert!(!format!("{job:?}").contains("from-file"));
}

#[test]
fn commands_get_variables_that_are_not_utf8() {
    let odd = OsString::from_vec(b"\xff".to_vec());
    let env = Environment::from_pairs([(odd.clone(), odd.clone())]);
    let settings =
        Settings::load(&crate::schema(), Home::at(TestHome::new().path("")), env, Vec::new());
    assert_eq!(settings.job_environment().expect("fine").variables, [(odd.clone(), odd)]);
}

#[test]
fn commands_in_containers_get_only_what_was_asked_for() {
    let home = TestHome::with_config(
        "terminal:
  env_passthrough: [GH_TOKEN, OPENAI_API_KEY, ANTHROPIC_API_KEY, FROM_FILE]
  docker_forward_env: [OPENAI_API_KEY, SLACK_BOT_TOKEN, NOT_SET, EMPTY, FROM_FILE_TOO]
  env: {LANG: C, PORT: 80}
  docker_env: {PORT: 8080, ON: true, NOTHING: null, HALF: 0.5}
",
    )
    .dotenv("FROM_FILE=f\nFROM_FILE_TOO=g\nOPENAI_API_KEY=hidden\nOTHER=no\n");
    let env = [
        ("PATH", "/bin"),
        ("HOME", "/home/ada"),
        ("AWS_ACCESS_KEY_ID", "a"),
        ("GH_TOKEN", "g"),
        ("OPENAI_API_KEY", "o"),
        ("ANTHROPIC_API_KEY", "never"),
        ("SLACK_BOT_TOKEN", "s"),
        ("EMPTY", ""),
    ];
    let job = home.settings(&env, &[]).container_environment().expect("fine");
    assert_eq!(
        pairs(&job),
        [
            "FROM_FILE=f",
            "FROM_FILE_TOO=g",
            "GH_TOKEN=g",
            "HALF=0.5",
            "LANG=C",
            "NOTHING=",
            "ON=true",
            "OPENAI_API_KEY=o",
            "PORT=8080",
            "SLACK_BOT_TOKEN=s",
        ]
    );
    let refused: Vec<_> = job.refused.iter().map(EnvName::as_str).collect();
    assert_eq!(refused, ["ANTHROPIC_API_KEY"]);
    assert!(!format!("{job:?}").contains("8080"));
}

#[test]
fn of_one_name_in_a_container_the_last_place_counts() {
    let steps = [
        ("terminal.env_passthrough=[\"A\"]", "A=here"),
        ("terminal.env={\"A\": \"env\"}", "A=env"),
        ("terminal.docker_env={\"A\": \"docker\"}", "A=docker"),
    ];
    let env = [("A", "here")];
    let mut sets = Vec::new();
    for (set, expected) in steps {
        sets.push(set);
        let job = TestHome::new().settings(&env, &sets).container_environment().expect("fine");
        assert_eq!(pairs(&job), [expected]);
    }
    let forwarded = ["terminal.docker_forward_env=[\"A\"]", "terminal.env={\"A\": \"env\"}"];
    let job = TestHome::new().settings(&env, &forwarded).container_environment().expect("fine");
    assert_eq!(pairs(&job), ["A=env"]);
}

#[test]
fn a_broken_dotenv_is_an_error_for_a_name_that_must_be_looked_up_there() {
    let home = TestHome::new();
    std::fs::create_dir(home.path(".env")).expect("made");
    let vars = |env: &[(&str, &str)]| {
        home.settings(env, &[]).container_environment().map(|job| pairs(&job))
    };
    // Whatever is not in the environment would be in the file.
    let whole = [
        ("TERMINAL_DOCKER_FORWARD_ENV", "[\"A\"]"),
        ("TERMINAL_ENV_PASSTHROUGH", "[]"),
        ("TERMINAL_JOB_ENV", "{}"),
        ("TERMINAL_DOCKER_ENV", "{}"),
    ];
    let error = vars(&whole).expect_err("needed").to_string();
    assert!(error.contains("; terminal.docker_forward_env cannot be read until"), "{error}");
    let here: Vec<_> = whole.into_iter().chain([("A", "x")]).collect();
    assert_eq!(vars(&here).expect("not needed"), ["A=x"]);
}

#[test]
fn keys_of_containers_have_the_promised_defaults() {
    let rows = TestHome::new().settings(&[], &[]).rows();
    let of = |name: &str| {
        let row = rows.iter().find(|row| row.key == format!("terminal.{name}")).expect("a key");
        row.value.as_ref().expect("a value").to_string()
    };
    for (name, default) in [
        ("docker_image", "nikolaik/python-nodejs:python3.11-nodejs20"),
        ("docker_forward_env", "[]"),
        ("docker_env", "{}"),
        ("docker_volumes", "[]"),
        ("docker_extra_args", "[]"),
        ("docker_mount_cwd_to_workspace", "false"),
        ("docker_network", "true"),
        ("docker_run_as_host_user", "false"),
        ("docker_keep_entrypoint", "false"),
        ("docker_transport", "auto"),
        ("docker_binary", ""),
        ("container_cpu", "1"),
        ("container_memory", "5120"),
        ("container_disk", "51200"),
        ("container_pids", "256"),
        ("container_persistent", "true"),
    ] {
        assert_eq!(of(name), default, "{name}");
    }
}

#[test]
fn variables_of_engines_are_read_from_the_environment_as_they_are() {
    let env: Vec<_> = crate::settings::ENGINE_VARIABLES.iter().map(|v| (v.name, "x")).collect();
    let home = TestHome::new().dotenv("DOCKER_HOST=unix:///elsewhere\n");
    let settings = home.settings(&env, &[]);
    for variable in crate::settings::ENGINE_VARIABLES {
        assert_eq!(settings.environment().get(variable.name), Some("x".as_ref()));
    }
    assert_eq!(home.settings(&[], &[]).environment().get("DOCKER_HOST"), None);
}
