use tempfile::TempDir;
use vestal_config::{Environment, Home, Override};

use super::*;

fn settings(config: &str, sets: &[&str]) -> (TempDir, Settings) {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("config.yaml"), config).expect("written");
    let sets =
        sets.iter().map(|text| Override::parse(&schema(), text).expect("an assignment")).collect();
    let settings = Settings::load(&schema(), Home::at(dir.path()), Environment::default(), sets);
    (dir, settings)
}

fn policy_of(config: &str) -> (DispatchPolicy, Vec<String>) {
    let (_dir, settings) = settings(config, &[]);
    policy(&settings, host(&settings).expect("a host")).expect("a policy")
}

#[test]
fn without_settings_only_the_host_is_capped() {
    let (policy, warnings) = policy_of("");
    assert_eq!(warnings, [""; 0]);
    assert_eq!(policy.caps, Caps { host: Some(64), ..Caps::default() });
    assert_eq!(policy.default_assignee, None);
    assert_eq!(policy.lease, Duration::from_mins(2));
    assert_eq!(policy.stale_after, Some(Duration::from_hours(4)));
    assert_eq!(policy.failures, FailurePolicy::default());
    assert_eq!(policy.shown, Shown::First(100));
}

#[test]
fn an_invalid_cap_is_reported_and_stops_nothing() {
    for cap in ["0", "-1", "abc", "[2]", "1.5"] {
        let (policy, warnings) =
            policy_of(&format!("kanban: {{max_in_progress_per_profile: {cap}}}"));
        assert_eq!(policy.caps.profile, None, "{cap}");
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        let expected = "; it must be a whole number ≥ 1; cap ignored";
        assert!(warnings[0].starts_with("kanban.max_in_progress_per_profile is "), "{warnings:?}");
        assert!(warnings[0].ends_with(expected), "{warnings:?}");
    }
    let (policy, warnings) = policy_of("kanban: {max_in_progress_per_profile: null}");
    assert_eq!((policy.caps.profile, warnings.len()), (None, 0));
}

#[test]
fn a_cap_in_quotes_counts() {
    let (policy, warnings) = policy_of(
        "kanban: {max_spawn: \"4\", max_in_progress: 6, max_in_progress_per_host: none, \
         max_in_progress_per_tenant: 2}",
    );
    let caps = Caps { global: Some(6), host: None, board: Some(4), profile: None, tenant: Some(2) };
    assert_eq!((policy.caps, warnings.len()), (caps, 0));
}

#[test]
fn the_default_assignee_is_trimmed_and_folded() {
    let name = |text: &str| policy_of(&format!("kanban: {{default_assignee: {text}}}"));
    let (policy, warnings) = name("\"  Alpha \"");
    assert_eq!(policy.default_assignee.as_ref().map(ProfileName::as_str), Some("alpha"));
    assert_eq!(warnings, [""; 0]);
    for nothing in ["\"\"", "\"   \"", "null"] {
        assert_eq!(name(nothing).0.default_assignee, None);
        assert_eq!(name(nothing).1, [""; 0]);
    }
    for wrong in ["\"no name!\"", "[alpha]", "{a: b}"] {
        let (policy, warnings) = name(wrong);
        assert_eq!((policy.default_assignee, warnings.len()), (None, 1), "{wrong}");
    }
}

#[test]
fn the_limit_of_failures_is_that_of_every_cause() {
    let (policy, _) = policy_of(
        "kanban: {failure_limit: 7, no_report_limit: 4, retry_backoff_seconds: 1h, \
         rate_limit_cooldown_seconds: 9, dispatch_stale_timeout_seconds: 0, claim_ttl_seconds: 3}",
    );
    let Budgets { crashed, timed_out, spawn_failed, no_report, stale, .. } =
        policy.failures.budgets;
    assert_eq!([crashed, timed_out, spawn_failed, no_report, stale], [7, 7, 7, 4, 7]);
    let hour = Duration::from_hours(1);
    assert_eq!(policy.failures.backoff, Backoff { first: hour, most: hour });
    assert_eq!(policy.failures.rate_limit_cooldown, Duration::from_secs(9));
    assert_eq!((policy.stale_after, policy.lease), (None, Duration::from_secs(3)));
}

#[test]
fn a_host_has_the_name_it_is_given() {
    let (_dir, own) = settings("kanban: {host: north}", &[]);
    assert_eq!(host(&own).expect("a host").name, HostName::new("north"));
    let (_dir, none) = settings("", &[]);
    assert_eq!(host(&none).expect("a host").name, HostName::of_this_machine());
}

#[test]
fn boards_are_in_the_home_of_all_profiles() {
    let (dir, settings) = settings("kanban: {durability: normal}", &[]);
    let boards = boards(&settings).expect("boards");
    assert_eq!(boards.root(), dir.path().join("kanban"));
    assert_eq!(durability(&settings).expect("fine"), Durability::Normal);
    assert!(!dir.path().join("kanban").exists());
}

#[test]
fn what_is_kept_follows_the_settings() {
    let (_dir, some) = settings("kanban: {event_retention_days: 2, log_retention_days: 3}", &[]);
    assert_eq!(retention(&some).expect("fine").events, DAY * 2);
    assert_eq!(log_retention(&some).expect("fine"), Some(DAY * 3));
    let (_dir, none) = settings("kanban: {event_retention_days: 0, log_retention_days: 0}", &[]);
    assert_eq!(retention(&none).expect("fine").events, FOR_EVER);
    assert_eq!(log_retention(&none).expect("fine"), None);
    let logs = ["kanban.worker_log_rotate_bytes=64K", "kanban.worker_log_backup_count=0"];
    let (_dir, logs) = settings("", &logs);
    assert_eq!(worker_log(&logs).expect("fine"), LogPolicy { rotate_at: 65_536, backups: 0 });
}

#[test]
fn diagnostics_follow_the_limit_of_failures_by_default() {
    let (_dir, none) = settings("", &[]);
    assert_eq!(thresholds(&none).expect("fine"), Thresholds::default());
    let (_dir, follows) = settings("kanban: {failure_limit: 5}", &[]);
    assert_eq!(thresholds(&follows).expect("fine").failures, 5);
    let own = "kanban: {failure_limit: 5, diagnostics: {failure_threshold: 1, \
               blocked_stale_hours: 2}}";
    let (_dir, own) = settings(own, &[]);
    let own = thresholds(&own).expect("fine");
    assert_eq!((own.failures, own.blocked), (1, Duration::from_hours(2)));
}

#[test]
fn workers_get_the_variables_that_are_named() {
    let (_dir, settings) = settings("kanban: {env_passthrough: [A, B]}", &[]);
    assert_eq!(env_passthrough(&settings).expect("fine"), ["A", "B"]);
    assert_eq!(dispatch_interval(&settings).expect("fine"), Duration::from_mins(1));
}
