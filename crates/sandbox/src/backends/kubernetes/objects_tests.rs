use serde_json::{Value, json};

use super::*;

fn pod(status: &Value) -> Pod {
    let pod = json!({
        "metadata": {
            "name": "vestal-0123456789abcdef-a1b2c3", "uid": "u",
            "creationTimestamp": "2026-11-19T10:00:00Z",
            "labels": {
                "vestal-agent": "1", "vestal-home": "h", "vestal-key": "k",
                "vestal-instance": "0123456789abcdef", "vestal-generation": "3",
                "vestal-persist": "1", "vestal-spec": "s",
            },
            "annotations": { "vestal-task": "a/task" },
        },
        "spec": {
            "nodeName": "n1",
            "containers": [{ "name": "sandbox", "image": "i" }],
            "volumes": [{ "name": "files", "persistentVolumeClaim": { "claimName": "c" } }],
        },
        "status": status,
    });
    serde_json::from_value(pod).unwrap()
}

fn container(state: &Value) -> Value {
    json!([{ "name": "sandbox", "containerID": "containerd://1", "imageID": "i@sha256:0", "state": state }])
}

fn ended(reason: &str, code: i64) -> Pod {
    let state = json!({ "terminated": {
        "exitCode": code, "reason": reason, "finishedAt": "2026-11-19T11:00:00Z",
    } });
    pod(&json!({ "phase": "Failed", "containerStatuses": container(&state) }))
}

#[test]
fn a_pod_counts_as_running_until_its_node_reports_its_end() {
    let running = pod(&json!({
        "phase": "Running", "containerStatuses": container(&json!({ "running": {} })),
    }));
    assert_eq!(running.state(), InstanceState::Running);
    // An evicted pod may be called failed before its container has ended.
    let evicted = pod(&json!({
        "phase": "Failed", "reason": "Evicted", "containerStatuses": container(&json!({ "running": {} })),
    }));
    assert_eq!((evicted.state(), evicted.has_ended()), (InstanceState::Running, false));
    let mut deleted = pod(&json!({ "phase": "Pending" }));
    deleted.metadata.deletion_timestamp = Some("2026-11-19T11:00:00Z".into());
    assert_eq!(deleted.state(), InstanceState::Running);
    let lost = pod(&json!({ "phase": "Unknown" }));
    assert_eq!(lost.state(), InstanceState::Running);
    let since = "2026-11-19T11:00:00Z".parse().ok();
    assert_eq!(ended("Completed", 0).state(), InstanceState::Stopped { since });
    let created = "2026-11-19T10:00:00Z".parse().ok();
    assert_eq!(
        pod(&json!({ "phase": "Pending" })).state(),
        InstanceState::Broken { since: created }
    );
}

#[test]
fn a_time_that_cannot_be_read_is_no_time() {
    for text in [json!(null), json!(""), json!("yesterday")] {
        let state = json!({ "terminated": { "exitCode": 0, "finishedAt": text } });
        let ended = pod(&json!({ "phase": "Succeeded", "containerStatuses": container(&state) }));
        assert_eq!(ended.state(), InstanceState::Stopped { since: None }, "{text}");
    }
}

#[test]
fn what_a_node_did_to_a_pod_is_described() {
    let evicted = pod(&json!({
        "phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory.",
    }));
    assert_eq!(
        evicted.end_in_words().unwrap(),
        "the node n1 evicted it (The node was low on resource: memory.); lower what it uses, or \
         reserve it: terminal.kubernetes_reserve limits"
    );
    let killed = ended("OOMKilled", 137).end_in_words().unwrap();
    assert!(killed.contains("terminal.container_memory"), "{killed}");
    let restarted = ended("Unknown", 255).end_in_words().unwrap();
    assert_eq!(restarted, "its node n1 was restarted");
    assert_eq!(ended("Completed", 0).end_in_words(), None);
    assert_eq!(ended("Error", 1).end_in_words(), None);
}

#[test]
fn what_keeps_a_pod_from_running_is_reported_with_advice() {
    let waiting = |reason: &str, message: &str| {
        let state = json!({ "waiting": { "reason": reason, "message": message } });
        pod(&json!({ "phase": "Pending", "containerStatuses": container(&state) })).obstacle()
    };
    for reason in ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"] {
        let Some(Obstacle::Stuck(problem)) = waiting(reason, "not found") else {
            panic!("{reason}");
        };
        let error = problem.into_error("an/image");
        assert!(matches!(&error, BackendError::NoImage { image, .. } if image == "an/image"));
        assert!(error.advice().unwrap().contains("terminal.kubernetes_image"));
    }
    let Some(Obstacle::Stuck(problem)) = waiting(
        "RunContainerError",
        "exec: \"/bin/sh\": stat /bin/sh: no such file or directory: unknown",
    ) else {
        panic!("it has no shell");
    };
    assert!(problem.problem.starts_with("its image has no /bin/sh"), "{problem:?}");
    assert_eq!(waiting("ContainerCreating", ""), Some(Obstacle::Waits("ContainerCreating".into())));
    let unscheduled = pod(&json!({ "phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient cpu.",
    }] }));
    let words = "no node takes it: 0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(unscheduled.obstacle(), Some(Obstacle::Waits(words.into())));
}

#[test]
fn a_pod_is_ours_only_if_labels_and_name_agree() {
    let ours = pod(&json!({}));
    assert!(ours.is_of("h", "0123456789abcdef"));
    assert!(!ours.is_of("another", "0123456789abcdef"));
    assert!(!ours.is_of("h", "0123456789abcdee"));
    let found = ours.found(json!({})).unwrap();
    assert_eq!((&*found.key, &*found.task, found.generation), ("k", "a/task", 3));
    let mut copied = pod(&json!({}));
    for name in [
        "my-pod",
        "vestal-0123456789abcdef",
        "vestal-0123456789abcdef-",
        "vestal-0123456789abcdef-a/b",
    ] {
        copied.metadata.name = name.into();
        assert!(!copied.is_of("h", "0123456789abcdef"), "{name}");
        assert!(copied.found(json!({})).is_none(), "{name}");
    }
    let mut owned = pod(&json!({}));
    owned.metadata.labels.insert("vestal-persist".into(), "0".into());
    assert!(owned.found(json!({})).is_none(), "an owner that nobody can read is somebody");
}

#[test]
fn of_several_pods_the_one_that_runs_is_the_instance_and_else_the_one_that_ended() {
    let running = pod(&json!({
        "phase": "Running", "containerStatuses": container(&json!({ "running": {} })),
    }));
    let (stopped, unmade) = (ended("Completed", 0), pod(&json!({ "phase": "Pending" })));
    assert!(running.rank() > stopped.rank());
    assert!(stopped.rank() > unmade.rank());
}
