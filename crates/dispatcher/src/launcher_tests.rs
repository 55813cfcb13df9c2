use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use vestal_board::{HostName, RunId, TaskId};

use super::*;
use crate::workspace::WorkspaceDir;

fn spec(workspace: WorkspaceDir) -> LaunchSpec {
    LaunchSpec {
        board: "work".into(),
        dir: "/boards/work".into(),
        task: "t_0123456789ab".parse::<TaskId>().unwrap(),
        run: RunId::new(7),
        profile: vestal_config::ProfileName::new("ada").unwrap(),
        host: HostName::new("h1"),
        tenant: Some("acme".into()),
        workspace,
        lease: Duration::from_mins(2),
        failures: None,
    }
}

fn text(variables: &BTreeMap<OsString, OsString>, name: &str) -> Option<String> {
    Some(variables.get(OsStr::new(name))?.to_str()?.to_owned())
}

#[test]
fn a_worker_gets_none_of_the_dispatchers_secrets() {
    let dispatcher = Environment::from_pairs([
        ("PATH", "/bin"),
        ("HOME", "/home/u"),
        ("LC_TIME", "C"),
        ("https_proxy", "http://proxy"),
        ("DOCKER_HOST", "unix:///d"),
        ("CHOSEN", "yes"),
        ("OPENAI_API_KEY", "secret-1"),
        ("ANTHROPIC_API_KEY", "secret-2"),
        ("AWS_SECRET_ACCESS_KEY", "secret-3"),
        ("VESTAL_KANBAN_MAX_SPAWN", "9"),
        ("TERMINAL_ENV", "docker"),
        ("LD_PRELOAD", "/evil.so"),
        ("VESTAL_PROFILE", "boss"),
        ("VESTAL_HOME", "/elsewhere"),
        ("VESTAL_KANBAN_TASK", "t_other"),
    ]);
    let variables = environment(
        &dispatcher,
        &["CHOSEN", "DOCKER_HOST", "https_proxy"].map(str::to_owned),
        Path::new("/root"),
        &spec(WorkspaceDir::default()),
    );
    let names: BTreeSet<&str> = variables.keys().map(|name| name.to_str().unwrap()).collect();
    assert_eq!(
        names,
        BTreeSet::from([
            "PATH",
            "HOME",
            "LC_TIME",
            "https_proxy",
            "DOCKER_HOST",
            "CHOSEN",
            "VESTAL_HOME",
            "VESTAL_PROFILE",
            "VESTAL_KANBAN_TASK",
            "VESTAL_KANBAN_RUN",
            "VESTAL_KANBAN_BOARD",
            "VESTAL_KANBAN_HOST",
            "VESTAL_KANBAN_LEASE_SECONDS",
            "VESTAL_TENANT",
        ])
    );
    assert_eq!(text(&variables, "VESTAL_PROFILE").as_deref(), Some("ada"));
    assert_eq!(text(&variables, "VESTAL_HOME").as_deref(), Some("/root"));
    assert_eq!(text(&variables, "VESTAL_KANBAN_TASK").as_deref(), Some("t_0123456789ab"));
}

#[test]
fn a_worker_knows_its_task_and_where_it_works() {
    let place = WorkspaceDir { path: Some(PathBuf::from("/src/x")), branch: Some("wt/x".into()) };
    let variables = environment(&Environment::default(), &[], Path::new("/root"), &spec(place));
    for (name, value) in [
        ("VESTAL_KANBAN_RUN", "7"),
        ("VESTAL_KANBAN_BOARD", "work"),
        ("VESTAL_KANBAN_HOST", "h1"),
        ("VESTAL_KANBAN_LEASE_SECONDS", "120"),
        ("VESTAL_KANBAN_WORKSPACE", "/src/x"),
        ("VESTAL_KANBAN_BRANCH", "wt/x"),
        ("VESTAL_TENANT", "acme"),
    ] {
        assert_eq!(text(&variables, name).as_deref(), Some(value), "{name}");
    }
}

/// The variables are those of the settings, so they count before the profile's own.
#[test]
fn a_worker_says_about_its_failure_what_its_dispatcher_would() {
    let mut failures = vestal_board::dispatch::FailurePolicy::default();
    failures.budgets.crashed = 7;
    failures.budgets.no_report = 8;
    failures.backoff.first = Duration::from_secs(9);
    failures.rate_limit_cooldown = Duration::from_secs(11);
    let spec = LaunchSpec { failures: Some(failures), ..spec(WorkspaceDir::default()) };
    let variables = environment(&Environment::default(), &[], Path::new("/root"), &spec);
    let dir = tempfile::tempdir().unwrap();
    let pairs = variables.iter().map(|(name, value)| (name.clone(), value.clone()));
    let home = vestal_config::Home::at(dir.path());
    std::fs::write(home.config_file(), "kanban: {failure_limit: 3}").unwrap();
    let settings = vestal_config::Settings::load(
        &vestal_board::schema(),
        home,
        Environment::from_pairs(pairs),
        Vec::new(),
    );
    let reported = vestal_board::settings::failures(&settings).unwrap();
    assert_eq!((reported.budgets.crashed, reported.budgets.no_report), (7, 8));
    assert_eq!(reported.backoff.first, failures.backoff.first);
    assert_eq!(reported.rate_limit_cooldown, failures.rate_limit_cooldown);
}

#[test]
fn the_marks_of_a_run_are_in_its_workers_environment() {
    let spec = spec(WorkspaceDir::default());
    let variables = environment(&Environment::default(), &[], Path::new("/root"), &spec);
    let entries: BTreeSet<OsString> = variables
        .into_iter()
        .map(|(name, value)| {
            let mut entry = name;
            entry.push("=");
            entry.push(value);
            entry
        })
        .collect();
    for mark in marks(&spec.task, spec.run) {
        assert!(entries.contains(&mark), "{}", mark.display());
    }
}
