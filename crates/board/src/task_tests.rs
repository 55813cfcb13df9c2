use super::*;
use crate::testing;

fn task(status: Status, priority: i64, queued_at: i64) -> Task {
    let assignee = Some(testing::profile("ada"));
    let queued_at = Some(Time::from_millis(queued_at));
    Task { assignee, status, priority, queued_at, ..testing::task("a task") }
}

fn lane(profile: &str) -> LaneKey {
    LaneKey { profile: profile.to_owned(), tenant: String::new(), host: String::new() }
}

#[test]
fn a_point_of_priority_is_worth_ten_minutes_of_waiting_and_no_more() {
    let old = task(Status::Ready, 0, 0);
    let nine_minutes = task(Status::Ready, 1, 9 * 60 * 1000);
    let eleven_minutes = task(Status::Ready, 1, 11 * 60 * 1000);
    assert!(nine_minutes.rank() < old.rank());
    assert!(eleven_minutes.rank() > old.rank());
}

#[test]
fn no_priority_makes_a_rank_overflow() {
    assert!(task(Status::Ready, i64::MAX, i64::MIN).rank() < task(Status::Ready, 0, 0).rank());
    assert!(task(Status::Ready, i64::MIN, i64::MAX).rank() > task(Status::Ready, 0, 0).rank());
}

#[test]
fn a_task_waits_for_whoever_would_run_it_next() {
    let mut task = task(Status::Ready, 0, 0);
    assert_eq!(task.queue_as(), Some("ada"));
    task.assignee = None;
    assert_eq!(task.queue_as(), Some(""), "a task of nobody is queued, too");
    task.status = Status::Review;
    assert_eq!(task.queue_as(), None, "without a reviewer a person looks at it");
    task.reviewer = Some(ProfileName::new("Grace").unwrap());
    assert_eq!(task.queue_as(), Some("grace"));
    assert_eq!(task.lane_share(), Some((lane("grace"), LaneShare::Queued)));
}

#[test]
fn a_task_that_waits_for_its_moment_is_counted_and_not_queued() {
    let waiting = Task { wake_at: Some(Time::from_millis(1)), ..task(Status::Ready, 0, 0) };
    assert_eq!(waiting.queue_as(), None);
    assert_eq!(waiting.lane_share(), Some((lane("ada"), LaneShare::Guarded)));
}

#[test]
fn a_running_task_counts_for_the_profile_that_runs_it() {
    let reviewer = Some(ProfileName::new("grace").unwrap());
    let running = Task { running_as: reviewer, ..task(Status::Running, 0, 0) };
    assert_eq!(running.lane_share(), Some((lane("grace"), LaneShare::Running)));
    assert_eq!(running.queue_as(), None);
}

#[test]
fn a_task_that_nobody_could_start_counts_nowhere() {
    let idle = [
        Status::Triage,
        Status::Todo,
        Status::Scheduled,
        Status::Blocked,
        Status::Done,
        Status::Archived,
    ];
    for status in idle {
        assert_eq!(task(status, 0, 0).lane_share(), None, "{status}");
    }
}

#[test]
fn a_task_that_only_one_host_can_run_stands_in_a_lane_of_its_host() {
    let host = HostName::new("mill");
    let there = Task { workspace_host: Some(host), ..task(Status::Ready, 0, 0) };
    let key = LaneKey { host: "mill".to_owned(), ..lane("ada") };
    assert_eq!(there.lane_share(), Some((key, LaneShare::Queued)));
}
