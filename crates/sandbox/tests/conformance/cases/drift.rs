//! Settings that changed since the instance was made.

use vestal_sandbox::{Command, Engine, Error, Notice, Sandbox, TaskName};

use crate::support::BackendFixture;

const CHANGED: &str = "terminal.jobs_kept=7";

/// Returns the settings that notices name as changed.
pub(super) fn drifted(notices: &[Notice]) -> Vec<String> {
    notices
        .iter()
        .filter_map(|notice| match notice {
            Notice::Drift(drift) => Some(drift.iter().map(|drift| drift.key.clone())),
            _ => None,
        })
        .flatten()
        .collect()
}

pub(crate) async fn changed_settings_are_named_and_the_sandbox_goes_on(fixture: &BackendFixture) {
    let first = fixture.sandbox().await;
    let changed = fixture.engine_with(&[CHANGED]);
    let sandbox = changed.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(sandbox.instance().await, first.instance().await);
    assert_eq!(drifted(sandbox.notices()), ["terminal.jobs_kept"]);
    assert_eq!(changed.list().await.unwrap()[0].drift.len(), 1);
    assert_eq!(drifted(fixture.sandbox().await.notices()), Vec::<String>::new());
}

pub(crate) async fn changed_settings_are_applied_to_an_idle_sandbox_on_request(
    fixture: &BackendFixture,
) {
    fixture.run("kept=1").await;
    let guests = fixture.guests();
    let engine = fixture.engine_with(&[CHANGED, "terminal.on_config_change=recreate"]);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    assert_ne!(fixture.guests(), guests, "it was started anew");
    assert_eq!(drifted(sandbox.notices()), Vec::<String>::new());
    let output = sandbox.run(Command::shell("echo $kept").session("main")).await.unwrap();
    assert_eq!(output.stdout.bytes(), b"1\n");
    let again = fixture.engine_with(&[CHANGED]).sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(drifted(again.notices()), Vec::<String>::new());
}

pub(crate) async fn changed_settings_are_not_applied_under_a_running_job(fixture: &BackendFixture) {
    let first = fixture.sandbox().await;
    let job = first.spawn(Command::shell("sleep 1000")).await.unwrap();
    let guests = fixture.guests();
    let engine = fixture.engine_with(&[CHANGED, "terminal.on_config_change=recreate"]);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(fixture.guests(), guests);
    assert_eq!(drifted(sandbox.notices()), ["terminal.jobs_kept"]);
    sandbox.kill(&job.id).await.unwrap();
}

pub(crate) async fn kept_settings_are_not_mentioned(fixture: &BackendFixture) {
    let first = fixture.sandbox().await;
    let engine = fixture.engine_with(&[CHANGED, "terminal.on_config_change=keep"]);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(sandbox.instance().await, first.instance().await);
    assert_eq!(sandbox.notices(), []);
}

pub(crate) async fn another_backend_is_refused_with_both_names(fixture: &BackendFixture) {
    fixture.run("true").await;
    // As if the sandbox had been made on a backend of another version.
    let path = fixture.sandbox_dir("default").join("sandbox.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let recorded = format!(r#""backend": "{}""#, fixture.backend());
    let elsewhere = text.replace(&recorded, r#""backend": "elsewhere""#);
    std::fs::write(&path, elsewhere).unwrap();
    let error = Engine::sandbox(&fixture.engine(), &TaskName::default_task()).await.unwrap_err();
    assert!(matches!(error, Error::BackendChanged { .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains("elsewhere") && message.contains(fixture.backend()), "{message}");
    std::fs::write(&path, text).unwrap();
}

/// Leaves something behind wherever a sandbox keeps something.
const FURNISH: &str = "kept=1; echo 2 > /workspace/kept; echo 3 > ~/kept";

const SHOW: &str = "echo $kept; cat /workspace/kept ~/kept";

const SHOWN: &str = "1\n2\n3\n";

/// Starts processes of a group of their own until there are 150 of them, or no
/// more can be, and ends them all.
const CROWD: &str = "(
    set -m
    sh -c 'i=0; while [ $i -lt 150 ]; do sleep 1000 & i=$((i+1)); done' 2>/dev/null &
    crowd=$!
    wait $crowd && echo many || echo few
    kill -KILL -- -$crowd
    # A killed process counts until it is reaped, for this job too.
    while kill -0 -- -$crowd 2>/dev/null; do :; done
)";

async fn run(sandbox: &Sandbox, text: &str) -> String {
    sandbox.run(Command::shell(text).session("main")).await.unwrap().stdout.text()
}

/// A change that isolates more.
struct Change<'a> {
    task: &'static str,
    key: &'static str,
    before: &'a [&'a str],
    after: &'a [&'a str],
    /// Shell text that shows the difference.
    probe: &'a str,
    was: &'a str,
    is: &'a str,
}

/// Makes the sandbox with the settings before, changes them, and checks that it
/// is rebuilt with its files.
async fn tighten(fixture: &BackendFixture, change: &Change<'_>) {
    let Change { task, key, before, after, probe, was, is } = change;
    let task: TaskName = task.parse().unwrap();
    let first = fixture.engine_with(before).sandbox(&task).await.unwrap();
    run(&first, FURNISH).await;
    assert_eq!(run(&first, probe).await, *was, "{key}");
    // It is refused under a job, although others may go on to use it.
    let job = first.spawn(Command::shell("sleep 1000")).await.unwrap();
    let refused = fixture.engine_with(after).sandbox(&task).await.unwrap_err();
    let Error::Tightened { drift, jobs } = &refused else { panic!("{key}: {refused}") };
    let keys: Vec<&str> = drift.iter().map(|drift| &*drift.key).collect();
    assert_eq!((keys, jobs), (vec![*key], &vec![job.id.clone()]));
    assert!(refused.to_string().contains(job.id.as_str()), "{refused}");
    assert_eq!(run(&first, "echo still here").await, "still here\n", "{key}");
    first.kill(&job.id).await.unwrap();
    // Idle, it is rebuilt, or started with what is mounted now.
    let was_in = first.instance().await;
    let second = fixture.engine_with(after).sandbox(&task).await.unwrap();
    assert_eq!(second.instance().await == was_in, fixture.keeps_instances(), "{key}");
    assert_eq!(second.generation().await, if fixture.keeps_instances() { 1 } else { 2 }, "{key}");
    assert_eq!(drifted(second.notices()), Vec::<String>::new(), "{key}");
    assert_eq!(run(&second, probe).await, *is, "{key}");
    assert_eq!(run(&second, SHOW).await, SHOWN, "{key}");
    // No more than one is left of the two.
    let labelled = |container: &serde_json::Value| {
        container["Labels"]["vestal-key"] == fixture.engine().key(&task).hash()
    };
    assert_eq!(fixture.own_containers().iter().filter(|found| labelled(found)).count(), 1, "{key}");
}

pub(crate) async fn a_network_that_is_switched_off_is_off(fixture: &BackendFixture) {
    // What a sandbox of namespaces has is the host's own, loopback included.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let knock =
        format!("(exec 3<> /dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo open || echo shut");
    let (probe, was, is) = if fixture.kind().is_of_its_user() {
        (&*knock, "open\n", "shut\n")
    } else {
        ("ls /sys/class/net", "eth0\nlo\n", "lo\n")
    };
    tighten(
        fixture,
        &Change {
            task: "network",
            key: "terminal.docker_network",
            before: &[],
            after: &["terminal.docker_network=false"],
            probe,
            was,
            is,
        },
    )
    .await;
}

pub(crate) async fn a_limit_that_is_lowered_holds(fixture: &BackendFixture) {
    // Where it is depends on the version of the kernel's control groups. Where
    // none of them can be seen, more processes than allowed are tried.
    let (probe, was, is) = if fixture.kind().is_of_its_user() {
        (CROWD, "many\n", "few\n")
    } else {
        let files = "cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max 2>/dev/null";
        (files, "256\n", "100\n")
    };
    tighten(
        fixture,
        &Change {
            task: "limit",
            key: "terminal.container_pids",
            before: &[],
            after: &["terminal.container_pids=100"],
            probe,
            was,
            is,
        },
    )
    .await;
}

pub(crate) async fn a_mount_that_is_removed_is_gone(fixture: &BackendFixture) {
    let mounted = fixture.scratch("mounted");
    std::fs::create_dir(&mounted).unwrap();
    std::fs::write(mounted.join("file"), "content\n").unwrap();
    let volume = format!(r#"terminal.docker_volumes=["{}:/mounted"]"#, mounted.display());
    tighten(
        fixture,
        &Change {
            task: "mount",
            key: "terminal.docker_volumes",
            before: &[&volume],
            after: &["terminal.docker_volumes=[]"],
            probe: "cat /mounted/file 2>/dev/null || echo none",
            was: "content\n",
            is: "none\n",
        },
    )
    .await;
    assert_eq!(std::fs::read(mounted.join("file")).unwrap(), b"content\n", "it is the user's");
}

pub(crate) async fn settings_that_isolate_less_are_only_named(fixture: &BackendFixture) {
    let task = TaskName::default_task();
    let strict = [
        "terminal.docker_network=false",
        "terminal.container_pids=100",
        "terminal.docker_volumes=[]",
    ];
    let first = fixture.engine_with(&strict).sandbox(&task).await.unwrap();
    let second = fixture.engine().sandbox(&task).await.unwrap();
    assert_eq!(second.instance().await, first.instance().await);
    let keys = ["terminal.container_pids", "terminal.docker_network", "terminal.docker_volumes"];
    assert_eq!(drifted(second.notices()), keys);
}

pub(crate) async fn settings_that_isolate_less_wait_while_others_tighten(fixture: &BackendFixture) {
    // What a sandbox of namespaces has is the host's own, loopback included.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let knock = format!("(exec 3<> /dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo open || echo no");
    let (probe, without) = if fixture.kind().is_of_its_user() {
        (&*knock, "no\n")
    } else {
        ("ls /sys/class/net", "lo\n")
    };
    let tighter = "terminal.container_pids=100";
    for (policy, named) in [("warn", &["terminal.docker_network"][..]), ("keep", &[])] {
        let task: TaskName = policy.parse().unwrap();
        let off = fixture.engine_with(&["terminal.docker_network=false"]);
        let first = off.sandbox(&task).await.unwrap();
        run(&first, FURNISH).await;
        assert_eq!(run(&first, probe).await, without);
        drop(first);
        let policy = format!("terminal.on_config_change={policy}");
        let engine = fixture.engine_with(&[tighter, &policy]);
        let second = engine.sandbox(&task).await.unwrap();
        let applied = second.notices().iter().find_map(|notice| match notice {
            Notice::Applied(drift) => Some(drift.iter().map(|drift| &*drift.key).collect()),
            _ => None,
        });
        assert_eq!(applied, Some(vec!["terminal.container_pids"]), "{policy}");
        assert_eq!(drifted(second.notices()), named, "{policy}");
        assert_eq!(run(&second, probe).await, without, "{policy}");
        assert_eq!(run(&second, SHOW).await, SHOWN, "{policy}");
        let drift = &engine.inspect(&task).await.unwrap()[0].drift;
        let drift: Vec<&str> = drift.iter().map(|drift| &*drift.key).collect();
        assert_eq!(drift, ["terminal.docker_network"], "{policy}");
    }
}

pub(crate) async fn an_instance_stays_until_the_one_in_its_place_answers(fixture: &BackendFixture) {
    let task = TaskName::default_task();
    let first = fixture.sandbox().await;
    run(&first, "mkdir -p /opt && echo installed > /opt/tool").await;
    let was = first.instance().await;
    drop(first);
    let impossible = r#"terminal.docker_extra_args=["--network", "no-such-network"]"#;
    let refused = fixture.engine_with(&[impossible]).sandbox(&task).await.unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("docker_extra_args") && text.contains("kept as it was"), "{text}");
    let again = fixture.sandbox().await;
    assert_eq!(again.instance().await, was);
    assert_eq!(run(&again, "cat /opt/tool").await, "installed\n");
    assert_eq!(fixture.own_containers().len(), 1);
}

pub(crate) async fn settings_that_nobody_remembers_are_those_there_are_or_replaced(
    fixture: &BackendFixture,
) {
    let task = TaskName::default_task();
    let record = fixture.sandbox_dir("default").join("sandbox.json");
    let strict = ["terminal.docker_network=false"];
    let first = fixture.engine_with(&strict).sandbox(&task).await.unwrap();
    run(&first, FURNISH).await;
    std::fs::remove_file(&record).unwrap();
    let same = fixture.engine_with(&strict).sandbox(&task).await.unwrap();
    assert_eq!(same.instance().await, first.instance().await);
    assert_eq!(drifted(same.notices()), Vec::<String>::new());
    // What they were is not known now, so they may have been looser.
    std::fs::remove_file(&record).unwrap();
    let other = fixture.sandbox().await;
    let same = other.instance().await == first.instance().await;
    assert_eq!(same, fixture.keeps_instances());
    assert_eq!(run(&other, SHOW).await, SHOWN);
    assert_eq!(fixture.own_containers().len(), 1);
}

pub(crate) async fn another_image_is_named_and_taken_on_request(fixture: &BackendFixture) {
    let task = TaskName::default_task();
    let image = "terminal.docker_image=vestal-test/entrypoint:latest";
    let first = fixture.sandbox().await;
    run(&first, FURNISH).await;
    let named = fixture.engine_with(&[image]).sandbox(&task).await.unwrap();
    assert_eq!(named.instance().await, first.instance().await);
    assert_eq!(drifted(named.notices()), ["terminal.docker_image"]);
    let probe = "[ -e /entry.sh ] && echo new || echo old";
    assert_eq!(run(&named, probe).await, "old\n");

    let applying = [image, "terminal.on_config_change=recreate"];
    let job = first.spawn(Command::shell("sleep 1000")).await.unwrap();
    let busy = fixture.engine_with(&applying).sandbox(&task).await.unwrap();
    assert_eq!(busy.instance().await, first.instance().await, "not under a job");
    assert_eq!(drifted(busy.notices()), ["terminal.docker_image"]);
    first.kill(&job.id).await.unwrap();
    drop((first, named, busy));

    let engine = fixture.engine_with(&applying);
    let applied = engine.sandbox(&task).await.unwrap();
    assert_eq!(applied.generation().await, 2);
    assert_eq!(drifted(applied.notices()), Vec::<String>::new());
    assert_eq!(run(&applied, probe).await, "new\n");
    assert_eq!(run(&applied, SHOW).await, SHOWN);
    let listed = &engine.list().await.unwrap()[0];
    assert_eq!(listed.image.as_deref(), Some("vestal-test/entrypoint:latest"));
    assert_eq!(fixture.own_containers().len(), 1);
}
