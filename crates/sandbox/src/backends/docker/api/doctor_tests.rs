use std::collections::BTreeSet;

use bollard::models::SystemInfo;
use serde_json::json;

use super::super::fake_engine::{FakeEngine, answer};
use super::super::info::Flavour;
use super::*;

fn container(name: &str, labels: &[(&str, &str)]) -> ContainerSummary {
    let labels: HashMap<_, _> = labels.iter().copied().collect();
    let value = json!({"Names": [format!("/{name}")], "State": "exited", "Labels": labels});
    serde_json::from_value(value).unwrap()
}

/// Returns a container of this home with all its labels.
fn made(name: &str, task: &str, instance: &str) -> ContainerSummary {
    let labels = [
        ("vestal-agent", "1"),
        ("vestal-home", "mine"),
        ("vestal-instance", instance),
        ("vestal-key", "k"),
        ("vestal-task-id", task),
        ("vestal-spec", "s"),
        ("vestal-persist", "1"),
        ("vestal-generation", "1"),
    ];
    container(name, &labels)
}

fn containers() -> Vec<ContainerSummary> {
    let home = ("vestal-home", "mine");
    vec![
        made("vestal-own-k", "own", "i1"),
        made("vestal-lost-k", "lost", "i2"),
        made("of-a-committed-image", "own", "i1"),
        container("bare", &[home]),
        container("errand", &[home, ("vestal-errand", "erase")]),
        container("other", &[("vestal-home", "theirs"), ("vestal-instance", "i1")]),
        container("old", &[]),
    ]
}

#[test]
fn containers_are_distinguished_by_whose_they_are() {
    let known = BTreeSet::from(["i1".to_owned()]);
    let groups =
        |instances| ContainerGroups::new(&containers(), DoctorScope { home: "mine", instances });
    let names = |names: &[&str]| -> Vec<String> {
        names.iter().map(|name| format!("{name} (exited)")).collect()
    };
    let expected = ContainerGroups {
        own: names(&["vestal-own-k"]),
        foreign: names(&["other", "old"]),
        leaked: names(&["vestal-lost-k"]),
        helpers: names(&["errand"]),
        label_only: names(&["of-a-committed-image", "bare"]),
    };
    assert_eq!(groups(Some(&known)), expected);
    let unsure = groups(None);
    assert_eq!(unsure.own, names(&["vestal-own-k", "vestal-lost-k"]));
    assert_eq!(unsure.leaked, names(&[]));
}

#[test]
fn what_is_wrong_comes_with_what_to_do() {
    let known = BTreeSet::new();
    let scope = DoctorScope { home: "mine", instances: Some(&known) };
    let notes = ContainerGroups::new(&containers(), scope).notes();
    let advised: Vec<_> =
        notes.iter().filter(|note| note.advice.is_some()).map(|note| note.topic.as_str()).collect();
    assert_eq!(advised, ["leaked", "errands"]);
    assert_eq!(
        notes[1].text,
        "2 of this home that no sandbox knows: vestal-own-k (exited), vestal-lost-k (exited)"
    );
    assert_eq!(ContainerGroups::default().notes().len(), 1, "nothing wrong, no note");
}

#[test]
fn a_long_list_is_cut_short() {
    let many: Vec<_> = (0..9).map(|number| container(&number.to_string(), &[])).collect();
    let groups = ContainerGroups::new(&many, DoctorScope { home: "mine", instances: None });
    let foreign = &groups.notes()[1].text;
    assert!(foreign.starts_with("9 of other homes, left alone: 0 (exited), 1"), "{foreign}");
    assert!(foreign.ends_with("4 (exited), …"), "{foreign}");
}

fn info(value: serde_json::Value) -> EngineInfo {
    let response: SystemInfo = serde_json::from_value(value).unwrap();
    EngineInfo::new(response, Flavour::Docker, "1.41".to_owned())
}

#[test]
fn limits_that_hold_and_limits_that_do_not_are_named() {
    let some = info(json!({
        "MemoryLimit": true, "PidsLimit": true, "CpuCfsPeriod": true, "CpuCfsQuota": true,
        "Driver": "overlay2", "DriverStatus": [["Backing Filesystem", "extfs"]],
    }));
    let note = limits(&some);
    assert_eq!(
        note.text,
        "enforced: terminal.container_memory, terminal.container_cpu, terminal.container_pids; \
         cannot be, so left out: terminal.container_disk"
    );
    assert!(note.advice.unwrap().starts_with("disk needs"));
    let none = limits(&info(json!({})));
    assert!(none.text.starts_with("none can be enforced"), "{}", none.text);
}

#[tokio::test]
async fn a_report_speaks_of_the_engine_and_of_our_containers() {
    let engine = FakeEngine::start(|head| {
        if head.contains("/info") {
            let response = json!({
                "ServerVersion": "20.10", "Driver": "overlay2", "CgroupVersion": "2",
                "CgroupDriver": "systemd", "SecurityOptions": ["name=seccomp", "name=rootless"],
                "DriverStatus": [["Backing Filesystem", "extfs"]],
            });
            return answer("200 OK", &response.to_string());
        }
        answer("200 OK", r#"[{"Names": ["/x"], "Labels": {"vestal-home": "theirs"}}]"#)
    });
    let client = EngineClient::connect(&engine.settings(), &engine.path("run")).await.unwrap();
    let notes = report(&client, DoctorScope { home: "mine", instances: None }).await;
    let text =
        |topic: &str| notes.iter().find(|note| note.topic == topic).map(|note| note.text.as_str());
    assert!(text("engine").unwrap().starts_with("Docker 20.10, rootless, API 1.41, at unix://"));
    assert_eq!(text("storage"), Some("overlay2 on extfs"));
    assert_eq!(text("cgroups"), Some("version 2, driver systemd"));
    assert_eq!(text("containers"), Some("0 of this home"));
    assert_eq!(text("foreign"), Some("1 of other homes, left alone: x"));
    let list = &engine.requests()[1];
    assert!(list.contains("all=true") && list.contains("vestal-agent"), "{list}");
}

#[tokio::test]
async fn an_engine_that_refuses_is_part_of_the_report() {
    let engine = FakeEngine::start(|_| answer("500 Oops", r#"{"message": "no"}"#));
    let client = EngineClient::connect(&engine.settings(), &engine.path("run")).await.unwrap();
    let notes = report(&client, DoctorScope { home: "mine", instances: None }).await;
    let topics: Vec<_> = notes.iter().map(|note| note.topic.as_str()).collect();
    assert_eq!(topics, ["engine", "containers"]);
    assert!(notes.iter().all(|note| note.advice.is_some()));
}
