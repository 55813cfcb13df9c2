//! What can happen to pods, and what a cluster can refuse. Some of it happens to the whole
//! cluster, so these run one at a time.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use vestal_config::{Environment, Home, Override, Settings};
use vestal_sandbox::backend::{Availability, BackendError};
use vestal_sandbox::{
    Command, Engine, Error, FilesOnRemoval, Notice, StateBefore, SummaryState, TaskName,
};
use vestal_wire::{Cause, JobState};

use crate::support::{BackendFixture, Gate, until};

/// What is done with each of many sandboxes.
type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Returns the error of a sandbox that cannot be had, with its advice.
async fn refusal(fixture: &BackendFixture, overrides: &[&str]) -> (String, String) {
    let engine = fixture.engine_with(overrides);
    match engine.sandbox(&TaskName::default_task()).await {
        Err(Error::Backend { source, .. }) => {
            let advice = source.advice().unwrap_or_default().to_owned();
            (source.to_string(), advice)
        }
        other => panic!("{other:?}"),
    }
}

/// Checks that nothing of the default task was left by what failed.
async fn nothing_was_made(fixture: &BackendFixture) {
    let mut left = fixture.left_of("default");
    left.retain(|name| name != "lock");
    assert_eq!(left, Vec::<String>::new());
    assert_eq!(fixture.machine().instances(), Vec::<String>::new());
    let namespace = fixture.machine().namespace();
    until("the claim is gone that was made for it", || async { namespace.claims().is_empty() })
        .await;
    assert_eq!(namespace.get("networkpolicy"), Vec::<Value>::new());
}

fn remarks(notices: &[Notice]) -> Vec<String> {
    let remarks = notices.iter().filter_map(|notice| match notice {
        Notice::Remark(text) => Some(text.clone()),
        _ => None,
    });
    remarks.collect()
}

#[tokio::test]
async fn an_api_server_that_is_restarted_takes_no_command_along() {
    let fixture = BackendFixture::kubernetes();
    let gate = Gate::new(&fixture);
    let sandbox = fixture.sandbox().await;
    let (instance, guests) = (sandbox.instance().await, fixture.guests());
    let text = format!("echo ran >> runs; {}; echo done", gate.pass());
    let running = tokio::spawn({
        let sandbox = sandbox.clone();
        async move { sandbox.run(Command::shell(text)).await }
    });
    gate.reached().await;
    fixture.machine().namespace().control("restart", &["apiserver"]);
    gate.open().await;
    let output = running.await.unwrap().unwrap();
    assert_eq!((output.exit.code, output.stdout.text()), (Some(0), "done\n".into()));
    let runs = std::fs::read_to_string(fixture.start_files().join("runs")).unwrap();
    assert_eq!(runs, "ran\n");
    assert_eq!((sandbox.instance().await, fixture.guests()), (instance, guests));
    fixture.finish().await;
}

#[tokio::test]
async fn a_pod_that_is_deleted_under_a_job_comes_back_with_workspace_home_and_sessions() {
    let fixture = BackendFixture::kubernetes();
    let sandbox = fixture.sandbox().await;
    fixture.run("kept=1; cd /usr; echo home > ~/file; echo work > /workspace/file").await;
    let job = sandbox.spawn(Command::shell("sleep 1000")).await.unwrap();
    drop(sandbox);
    let namespace = fixture.machine().namespace();
    let pod = namespace.pods()[0]["metadata"]["name"].as_str().unwrap().to_owned();
    namespace.admin(&["delete", "pod", &pod, "--grace-period=1"], "");
    let sandbox = fixture.sandbox().await;
    let output = fixture.run("echo $kept; pwd; cat ~/file /workspace/file").await;
    assert_eq!(output.stdout.text(), "1\n/usr\nhome\nwork\n");
    let info = sandbox.wait(&job.id, Some(Duration::ZERO)).await.unwrap();
    let is_told = matches!(info.state, JobState::Ended(_));
    assert!(is_told, "{info:?}");
    assert_eq!(fixture.guests().len(), 1);
    fixture.finish().await;
}

#[tokio::test]
async fn after_a_reboot_of_the_node_files_and_sessions_are_there_and_it_is_reported() {
    let fixture = BackendFixture::kubernetes();
    let sandbox = fixture.sandbox().await;
    fixture.run("kept=1; cd /usr; echo file > ~/file").await;
    let job = sandbox.spawn(Command::shell("sleep 1000")).await.unwrap();
    let instance = sandbox.instance().await;
    drop(sandbox);
    let namespace = fixture.machine().namespace();
    namespace.control("stop", &["--keep"]);
    namespace.control("start", &[]);
    fixture.end_is_reported().await;
    let sandbox = fixture.sandbox().await;
    assert_eq!(
        (sandbox.state_before(), sandbox.instance().await),
        (StateBefore::Stopped, instance)
    );
    let told = remarks(sandbox.notices());
    assert!(told.iter().any(|told| told.contains("its node node was restarted")), "{told:?}");
    let output = fixture.run("echo $kept; pwd; cat ~/file").await;
    assert_eq!(output.stdout.text(), "1\n/usr\nfile\n");
    let info = sandbox.wait(&job.id, Some(Duration::ZERO)).await.unwrap();
    assert!(matches!(info.state, JobState::Ended(exit) if exit.cause == Cause::Lost), "{info:?}");
    fixture.finish().await;
}

#[tokio::test]
async fn a_node_that_is_lost_is_waited_for_and_its_pod_not_presumed_dead() {
    let fixture = BackendFixture::kubernetes();
    let sandbox = fixture.sandbox().await;
    let (instance, guests) = (sandbox.instance().await, fixture.guests());
    drop(sandbox);
    let namespace = fixture.machine().namespace();
    // As when its node has lost power or the network: nothing answers there.
    let stop = "kill -STOP $(cat \"$HOME/kubelet.pid\")";
    namespace.control("run", &["sh", "-c", stop]);
    let task = TaskName::default_task();
    let used = fixture.engine().sandbox(&task).await.unwrap_err();
    let removed = fixture.engine().remove(&task, FilesOnRemoval::Remove).await.unwrap_err();
    assert_eq!(fixture.guests(), guests, "it runs on");
    assert_eq!(namespace.pods().len(), 1, "and its pod is not forgotten");
    let is_out_of_reach = match &used {
        Error::OutOfReach { .. } => true,
        Error::Backend { source, .. } => matches!(source, BackendError::HostUnreachable { .. }),
        _ => false,
    };
    assert!(is_out_of_reach, "{used:?}");
    let told = removed.to_string();
    assert!(told.contains("its node node has not said"), "{removed:?}");
    namespace.control("restart", &["kubelet"]);
    // The removal that was begun is finished.
    until("its pod has ended", || async { fixture.guests().is_empty() }).await;
    fixture.engine().remove(&task, FilesOnRemoval::Remove).await.ok();
    assert!(!fixture.instances_of("default").contains(&instance));
    fixture.finish().await;
}

#[tokio::test]
async fn an_image_that_cannot_be_pulled_is_named_with_what_to_do_and_leaves_nothing() {
    let fixture = BackendFixture::kubernetes();
    let image = "terminal.kubernetes_image=vestal-test/nonesuch:1";
    let (problem, advice) = refusal(&fixture, &[image]).await;
    assert!(
        problem
            .starts_with("image vestal-test/nonesuch:1 is not available: the node cannot pull it"),
        "{problem}"
    );
    assert!(advice.contains("terminal.kubernetes_image_pull_secret"), "{advice}");
    until("its pod is gone", || async { fixture.machine().instances().is_empty() }).await;
    nothing_was_made(&fixture).await;
    fixture.finish().await;
}

#[tokio::test]
async fn an_exceeded_quota_is_reported_with_advice_and_leaves_nothing() {
    let fixture = BackendFixture::kubernetes();
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "none" },
        "spec": { "hard": { "pods": "0" } },
    });
    fixture.machine().namespace().admin(&["apply", "-f", "-"], &quota.to_string());
    until("the quota counts", || async {
        let quotas = fixture.machine().namespace().get("resourcequota");
        quotas.iter().any(|quota| quota["status"]["hard"]["pods"] == "0")
    })
    .await;
    let (problem, advice) = refusal(&fixture, &[]).await;
    assert!(problem.contains("does not allow to make a pod"), "{problem}");
    assert!(problem.contains("exceeded quota"), "{problem}");
    assert!(advice.contains("larger quota"), "{advice}");
    nothing_was_made(&fixture).await;
    fixture.finish().await;
}

#[tokio::test]
async fn a_pod_for_which_there_is_no_room_is_given_up_with_the_schedulers_words() {
    let fixture = BackendFixture::kubernetes();
    let wanted = [
        "terminal.kubernetes_node_selector=[\"disk=none\"]",
        "terminal.kubernetes_start_timeout=3",
    ];
    let (problem, advice) = refusal(&fixture, &wanted).await;
    assert!(problem.contains("did not run within 3 s: no node takes it: 0/1 nodes"), "{problem}");
    assert!(advice.contains("kubernetes_node_selector"), "{advice}");
    nothing_was_made(&fixture).await;
    fixture.finish().await;
}

/// Returns what `vestal doctor` shows of the backend.
async fn probed(fixture: &BackendFixture) -> Availability {
    let backends = fixture.engine().backends().await;
    backends.into_iter().find(|(name, _)| *name == "kubernetes").unwrap().1
}

#[tokio::test]
async fn a_missing_permission_is_named_in_the_error() {
    let fixture = BackendFixture::kubernetes();
    let namespace = fixture.machine().namespace();
    namespace.admin(&["delete", "rolebinding", "vestal"], "");
    until("it is taken away", || async {
        matches!(probed(&fixture).await, Availability::Missing { reason, advice }
            if reason.contains("you may not") && advice.contains("docs/kubernetes.md"))
    })
    .await;
    let (problem, advice) = refusal(&fixture, &[]).await;
    assert!(problem.starts_with("you may not"), "{problem}");
    assert!(advice.contains("docs/kubernetes.md"), "{advice}");
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": "vestal" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "vestal" },
        "subjects": [{ "kind": "ServiceAccount", "name": "vestal", "namespace": namespace.name() }],
    });
    namespace.admin(&["apply", "-f", "-"], &binding.to_string());
    until("it may again", || async {
        matches!(probed(&fixture).await, Availability::Works { .. })
    })
    .await;
    nothing_was_made(&fixture).await;
    fixture.finish().await;
}

/// Returns an engine on another home that uses the same namespace.
fn other_home(fixture: &BackendFixture) -> Engine {
    let namespace = fixture.machine().namespace();
    let schema = vestal_sandbox::schema();
    let overrides = [
        "terminal.backend=kubernetes".to_owned(),
        format!("terminal.kubernetes_namespace={}", namespace.name()),
        format!("terminal.kubernetes_config={}", namespace.kubeconfig().display()),
        "terminal.kubernetes_image=vestal-test/base:latest".to_owned(),
        format!(
            "terminal.kubernetes_claims=[\"fixture:{}\"]",
            fixture.home().parent().unwrap().display()
        ),
        "terminal.kubernetes_storage_size=64".to_owned(),
    ];
    let overrides = overrides.iter().map(|text| Override::parse(&schema, text).unwrap()).collect();
    let environment = Environment::from_pairs(vec![(
        "HOME".to_owned(),
        fixture.user_home().display().to_string(),
    )]);
    let settings =
        Settings::load(&schema, Home::at(fixture.scratch("other-home")), environment, overrides);
    Engine::open(settings).unwrap()
}

#[tokio::test]
async fn two_homes_in_one_namespace_never_meet() {
    let fixture = BackendFixture::kubernetes();
    let task = TaskName::default_task();
    let (ours, theirs) = (fixture.engine(), other_home(&fixture));
    let first = ours.sandbox(&task).await.unwrap();
    let second = theirs.sandbox(&task).await.unwrap();
    assert_eq!(fixture.guests().len(), 2);
    first.run(Command::shell("echo ours > file")).await.unwrap();
    let looked = second.run(Command::shell("ls")).await.unwrap();
    assert_eq!(looked.stdout.text(), "");
    assert_eq!((ours.list().await.unwrap().len(), theirs.list().await.unwrap().len()), (1, 1));
    drop(first);
    ours.remove(&task, FilesOnRemoval::Remove).await.unwrap();
    let looked = second.run(Command::shell("echo still here")).await.unwrap();
    assert_eq!(looked.stdout.text(), "still here\n");
    drop(second);
    theirs.remove(&task, FilesOnRemoval::Remove).await.unwrap();
    fixture.finish().await;
}

#[tokio::test]
async fn a_network_that_is_switched_off_has_a_policy_before_its_pod_and_the_caveat_is_reported() {
    let fixture = BackendFixture::kubernetes();
    let engine = fixture.engine_with(&["terminal.docker_network=false"]);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    let told = remarks(sandbox.notices());
    assert!(told.iter().any(|told| told.contains("enforces policies")), "{told:?}");
    let namespace = fixture.machine().namespace();
    let (policies, pods) = (namespace.get("networkpolicy"), namespace.pods());
    for label in ["vestal-instance", "vestal-start"] {
        let selector = &policies[0]["spec"]["podSelector"]["matchLabels"][label];
        assert_eq!(*selector, pods[0]["metadata"]["labels"][label]);
    }
    assert_eq!(policies[0]["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    let made =
        |object: &Value| object["metadata"]["creationTimestamp"].as_str().unwrap().to_owned();
    assert!(made(&policies[0]) <= made(&pods[0]));
    drop(sandbox);
    engine.remove(&TaskName::default_task(), FilesOnRemoval::Remove).await.unwrap();
    assert_eq!(namespace.get("networkpolicy"), Vec::<Value>::new());
    fixture.finish().await;
}

#[tokio::test]
async fn where_a_pod_may_connect_to_is_in_its_policy_and_a_narrower_list_is_never_ignored() {
    let fixture = BackendFixture::kubernetes();
    let task = TaskName::default_task();
    let wide =
        fixture.engine_with(&[r#"terminal.kubernetes_egress=["10.0.0.0/8", "192.0.2.7:443"]"#]);
    let sandbox = wide.sandbox(&task).await.unwrap();
    let told = remarks(sandbox.notices());
    assert!(
        told.iter().any(|told| told.contains("where it may connect to is limited")),
        "{told:?}"
    );
    let rules = |policy: &Value| policy["spec"]["egress"].as_array().unwrap().len();
    let namespace = fixture.machine().namespace();
    assert_eq!(rules(&namespace.get("networkpolicy")[0]), 3, "names, a network and a place");
    let instance = sandbox.instance().await;
    drop(sandbox);
    // The next one who asks for less gets less: a new pod, with its own policy.
    let narrow = fixture.engine_with(&[r#"terminal.kubernetes_egress=["192.0.2.7:443"]"#]);
    let sandbox = narrow.sandbox(&task).await.unwrap();
    assert_eq!(sandbox.instance().await, instance);
    let policies = namespace.get("networkpolicy");
    assert_eq!((policies.len(), rules(&policies[0])), (1, 2));
    drop((sandbox, wide, narrow));
    fixture.finish().await;
}

#[tokio::test]
async fn pods_hold_no_token_and_commands_no_capabilities_beyond_the_documented() {
    let fixture = BackendFixture::kubernetes();
    let text =
        "ls /var/run/secrets 2>/dev/null; grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status";
    let output = fixture.run(text).await;
    // CHOWN 0, DAC_OVERRIDE 1, FOWNER 3, SETGID 6, SETUID 7.
    assert_eq!(output.stdout.text(), "CapEff:\t00000000000000cb\nNoNewPrivs:\t1\nSeccomp:\t2\n");
    fixture.finish().await;
}

#[tokio::test]
async fn a_user_that_is_not_root_has_a_sandbox_that_fits_the_level_restricted() {
    let fixture = BackendFixture::kubernetes();
    let engine = fixture.engine_with(&[
        "terminal.kubernetes_run_as_user=1234",
        // The volumes of this cluster's class are root's, whatever a pod asks for.
        "terminal.container_persistent=false",
    ]);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    let text = "id -u; echo x > ~/file && cat ~/file; grep CapEff /proc/self/status";
    let output = sandbox.run(Command::shell(text)).await.unwrap();
    assert_eq!(output.stdout.text(), "1234\nx\nCapEff:\t0000000000000000\n");
    drop(sandbox);
    engine.remove(&TaskName::default_task(), FilesOnRemoval::Remove).await.unwrap();
    fixture.finish().await;
}

#[tokio::test]
async fn a_stopped_sandbox_is_a_pod_that_ended_and_is_listed_with_one_request() {
    let fixture = BackendFixture::kubernetes();
    let engine = fixture.engine();
    engine.sandbox(&TaskName::default_task()).await.unwrap();
    engine.stop(&TaskName::default_task()).await.unwrap();
    let listed = engine.list().await.unwrap();
    assert_eq!((listed.len(), listed[0].state), (1, SummaryState::Stopped));
    let pods = fixture.machine().namespace().pods();
    assert_eq!(pods.len(), 1);
    assert_eq!(pods[0]["spec"]["restartPolicy"], "Never");
    fixture.finish().await;
}

#[tokio::test]
async fn a_hundred_sandboxes_live_in_one_namespace() {
    let fixture = BackendFixture::kubernetes();
    let (engine, turns) = (fixture.engine(), Arc::new(Semaphore::new(8)));
    let each = async |what: fn(Engine, TaskName) -> BoxFuture| {
        let mut all = JoinSet::new();
        for number in 0..100 {
            let (turns, engine) = (Arc::clone(&turns), engine.clone());
            let task: TaskName = format!("task-{number}").parse().unwrap();
            all.spawn(async move {
                let _turn = turns.acquire_owned().await.unwrap();
                what(engine, task).await;
            });
        }
        all.join_all().await;
    };
    each(|engine, task| {
        Box::pin(async move {
            let sandbox = engine.sandbox(&task).await.unwrap();
            let text = format!("echo {task} > ~/file; cat ~/file");
            let output = sandbox.run(Command::shell(text)).await.unwrap();
            assert_eq!(output.stdout.text(), format!("{task}\n"));
        })
    })
    .await;
    let listed = engine.list().await.unwrap();
    // Each is greeted, and a listing does not wait for those who take long to answer.
    let is_right =
        |state: SummaryState| matches!(state, SummaryState::Running | SummaryState::Unknown);
    let right = listed.iter().filter(|found| is_right(found.state)).count();
    assert_eq!((listed.len(), right, fixture.guests().len()), (100, 100, 100));
    let sandbox = engine.sandbox(&"task-99".parse().unwrap()).await.unwrap();
    assert_eq!(sandbox.state_before(), StateBefore::Running);
    let output = sandbox.run(Command::shell("cat ~/file")).await.unwrap();
    assert_eq!(output.stdout.text(), "task-99\n");
    drop(sandbox);
    each(|engine, task| {
        Box::pin(async move {
            engine.remove(&task, FilesOnRemoval::Remove).await.unwrap();
        })
    })
    .await;
    let namespace = fixture.machine().namespace();
    assert_eq!((namespace.pods().len(), namespace.claims().len()), (0, 0));
    fixture.finish().await;
}

#[tokio::test]
async fn a_line_that_falls_silent_is_given_up_and_the_command_is_followed_to_its_end() {
    let fixture = BackendFixture::kubernetes();
    let gate = Gate::new(&fixture);
    let sandbox = fixture.sandbox().await;
    let (instance, guests) = (sandbox.instance().await, fixture.guests());
    let text = format!("echo ran >> runs; {}; echo done", gate.pass());
    let running = tokio::spawn({
        let sandbox = sandbox.clone();
        async move { sandbox.run(Command::shell(text)).await }
    });
    gate.reached().await;
    let connection = sandbox.connection().await.unwrap();
    let namespace = fixture.machine().namespace();
    // As when a cable is pulled: nothing comes, and nobody says so.
    namespace.freeze(true);
    connection.closed().await;
    namespace.freeze(false);
    gate.open().await;
    let output = running.await.unwrap().unwrap();
    assert_eq!((output.exit.code, output.stdout.text()), (Some(0), "done\n".into()));
    let runs = std::fs::read_to_string(fixture.start_files().join("runs")).unwrap();
    assert_eq!(runs, "ran\n");
    assert_eq!((sandbox.instance().await, fixture.guests()), (instance, guests));
    fixture.finish().await;
}

#[tokio::test]
async fn what_fills_the_disk_of_its_node_is_evicted_and_comes_back_with_its_files() {
    let fixture = BackendFixture::kubernetes();
    let settings = ["terminal.container_disk=16"];
    let engine = fixture.engine_with(&settings);
    let task = TaskName::default_task();
    let sandbox = engine.sandbox(&task).await.unwrap();
    let text = "echo kept > ~/file; head -c 67108864 /dev/zero > /big; sleep 1000";
    sandbox.spawn(Command::shell(text)).await.unwrap();
    drop(sandbox);
    until("it is evicted", || async {
        let pods = fixture.machine().namespace().pods();
        pods.iter().any(|pod| pod["status"]["reason"] == "Evicted")
    })
    .await;
    fixture.end_is_reported().await;
    let sandbox = fixture.engine_with(&settings).sandbox(&task).await.unwrap();
    let told = remarks(sandbox.notices());
    assert!(told.iter().any(|told| told.contains("evicted it")), "{told:?}");
    let output = sandbox.run(Command::shell("cat ~/file; ls /big")).await.unwrap();
    assert_eq!(output.stdout.text(), "kept\n");
    fixture.finish().await;
}
