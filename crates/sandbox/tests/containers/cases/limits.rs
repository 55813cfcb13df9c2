//! What a container may use and do.

use std::time::Duration;

use serde_json::Value;
use vestal_sandbox::backend::BackendError;
use vestal_sandbox::{Command, Error, FilesOnRemoval, Notice, Sandbox, TaskName};

use crate::support::{
    EngineFixture, Fate, Hold, kill_tree, marker, out, processes_with, run, until,
};

fn remarks(sandbox: &Sandbox) -> Vec<String> {
    let remark = |notice: &Notice| match notice {
        Notice::Remark(text) => Some(text.clone()),
        _ => None,
    };
    sandbox.notices().iter().filter_map(remark).collect()
}

async fn description(fixture: &EngineFixture) -> vestal_sandbox::backend::Description {
    fixture.engine().list().await.unwrap().remove(0).description
}

pub(crate) async fn the_defaults_confine_and_the_engine_says_so(fixture: EngineFixture) {
    let sandbox = fixture.sandbox().await;
    let container = fixture.container();
    let host = &container["HostConfig"];
    assert_eq!(host["Memory"], 5120_i64 << 20);
    assert_eq!(host["PidsLimit"], 256);
    let cpu = host["NanoCpus"].as_i64().unwrap_or(0);
    // Podman says it in the kernel's terms.
    let (quota, period) = (host["CpuQuota"].as_i64(), host["CpuPeriod"].as_i64());
    assert!(cpu == 1_000_000_000 || (quota.is_some() && quota == period), "{host:#}");
    assert_ne!(host["Privileged"], true);
    assert_eq!(host["AutoRemove"], false);
    assert!(["", "no"].contains(&host["RestartPolicy"]["Name"].as_str().unwrap_or("")));
    // As the kernel has it: CHOWN, DAC_OVERRIDE, FOWNER, SETGID, SETUID, and
    // nothing that a program could add.
    let status = out(&sandbox, "grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status").await;
    assert_eq!(status, {
        "CapEff:\t00000000000000cb\nCapBnd:\t00000000000000cb\nNoNewPrivs:\t1\n"
    });
    let mounted = out(&sandbox, "cat /proc/mounts").await;
    let options = |place: &str| -> Vec<String> {
        let line = mounted.lines().rfind(|line| line.split(' ').nth(1) == Some(place));
        let line = line.unwrap_or_else(|| panic!("{place} is not a mount: {mounted}"));
        let mut words = line.split(' ');
        assert_eq!(words.nth(2), Some("tmpfs"), "{line}");
        words.next().unwrap().split(',').map(str::to_owned).collect()
    };
    let has = |place: &str, wanted: &[&str]| {
        let options = options(place);
        assert!(wanted.iter().all(|word| options.contains(&(*word).to_owned())), "{options:?}");
    };
    has("/tmp", &["rw", "nosuid", "nodev", "size=524288k"]);
    has("/var/tmp", &["rw", "nosuid", "nodev", "noexec", "size=262144k"]);
    has("/run", &["rw", "nosuid", "nodev", "noexec", "size=65536k"]);
    assert!(!options("/tmp").contains(&"noexec".to_owned()), "programs run from /tmp");
    fixture.finish().await;
}

pub(crate) async fn a_required_limit_holds_or_is_an_error(fixture: EngineFixture) {
    let engine =
        fixture.engine_with(&["terminal.container_disk=100", "terminal.require_limits=true"]);
    match engine.sandbox(&TaskName::default_task()).await {
        Ok(_) => assert_eq!(fixture.container()["HostConfig"]["StorageOpt"]["size"], "100m"),
        Err(error) => {
            let Error::Backend { source: BackendError::Unenforceable { key, advice, .. }, .. } =
                &error
            else {
                panic!("{error:?}");
            };
            assert_eq!(*key, "terminal.container_disk");
            assert!(advice.contains("container_disk"), "{advice}");
            assert_eq!(fixture.containers(), Vec::<Value>::new(), "nothing is left");
        }
    }
    fixture.finish().await;
}

pub(crate) async fn a_limit_that_cannot_be_enforced_is_left_out_and_reported_if_it_was_set(
    fixture: EngineFixture,
) {
    // A default is one, also when it stands in the settings.
    let engine = fixture.engine_with(&["terminal.container_disk=51200"]);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    let limited = !fixture.container()["HostConfig"]["StorageOpt"]["size"].is_null();
    let unenforced = description(&fixture).await.unenforced;
    assert_eq!(remarks(&sandbox), Vec::<String>::new());
    engine.remove(&TaskName::default_task(), FilesOnRemoval::Remove).await.unwrap();
    let engine = fixture.engine_with(&["terminal.container_disk=100"]);
    let reported = remarks(&engine.sandbox(&TaskName::default_task()).await.unwrap());
    if limited {
        assert_eq!((unenforced.len(), reported.len()), (0, 0));
    } else {
        assert_eq!(unenforced, ["terminal.container_disk"]);
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert!(
            reported[0].starts_with("terminal.container_disk cannot be enforced"),
            "{reported:?}"
        );
    }
    fixture.finish().await;
}

pub(crate) async fn a_fork_bomb_hits_the_limit_and_the_sandbox_survives(fixture: EngineFixture) {
    let fixture = fixture.set("terminal.container_pids=64");
    let sandbox = fixture.sandbox().await;
    let first = fixture.first_process();
    let mark = marker();
    let bomb = format!(": {mark}; bomb() {{ bomb | bomb & }}; bomb; sleep 1000");
    let job = sandbox.spawn(Command::shell(&*bomb)).await.unwrap();
    until("it hits the limit", || async { processes_with(&mark).len() > 50 }).await;
    sandbox.kill(&job.id).await.unwrap();
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    let output = sandbox.run(Command::shell(bomb).timeout(Duration::from_secs(1))).await.unwrap();
    assert_eq!(output.exit.code, Some(124));
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    kill_tree(&sandbox).await;
    assert_eq!(out(&sandbox, "echo ok").await, "ok\n");
    assert_eq!(fixture.first_process(), first, "the guest has survived");
    fixture.finish().await;
}

pub(crate) async fn a_memory_hog_is_killed_and_the_guest_is_not(fixture: EngineFixture) {
    let fixture = fixture.set("terminal.container_memory=48");
    let sandbox = fixture.sandbox().await;
    run(&sandbox, "x=1").await;
    let first = fixture.first_process();
    let other = sandbox.spawn(Command::shell("sleep 1000")).await.unwrap();
    // A shell that keeps all of it in one variable.
    let hog = "hog=$(tr '\\0' x < /dev/zero)";
    let output = sandbox.run(Command::shell(hog).timeout(Duration::from_mins(1))).await.unwrap();
    assert_ne!(output.exit.code, Some(0));
    assert_ne!(output.exit.code, Some(124), "nothing stopped it");
    assert_eq!(out(&sandbox, "echo $x").await, "1\n");
    assert_eq!(fixture.first_process(), first, "the guest has survived");
    let info = sandbox.wait(&other.id, Some(Duration::ZERO)).await.unwrap();
    assert_eq!(info.state, vestal_wire::JobState::Running, "and so has another job");
    fixture.finish().await;
}

pub(crate) async fn settings_that_weaken_isolation_work_and_are_shown(fixture: EngineFixture) {
    let fixture = fixture.set(r#"terminal.docker_extra_args=["--cap-add", "SYS_PTRACE"]"#);
    let sandbox = fixture.sandbox().await;
    let status = out(&sandbox, "grep CapEff /proc/self/status").await;
    assert_eq!(status, "CapEff:\t00000000000800cb\n");
    let weakened = description(&fixture).await.weakened;
    assert_eq!(weakened.len(), 1, "{weakened:?}");
    assert!(weakened[0].contains("SYS_PTRACE"), "{weakened:?}");
    assert!(remarks(&sandbox).iter().any(|remark| remark.contains("SYS_PTRACE")));
    fixture.finish().await;
}

pub(crate) async fn an_unknown_argument_for_the_engine_is_an_error_that_names_it(
    fixture: EngineFixture,
) {
    let settings = fixture.settings(&[r#"terminal.docker_extra_args=["--no-such-flag"]"#]);
    let error = match vestal_sandbox::Engine::open(settings) {
        Ok(engine) => engine.sandbox(&TaskName::default_task()).await.unwrap_err().to_string(),
        Err(error) => error.to_string(),
    };
    assert!(error.contains("--no-such-flag"), "{error}");
    assert_eq!(fixture.containers(), Vec::<Value>::new());
    fixture.finish().await;
}

/// Returns the network mode of a container, which is `none` by one of its names.
fn network(container: &Value) -> String {
    container["HostConfig"]["NetworkMode"].as_str().unwrap().to_owned()
}

pub(crate) async fn no_network_means_none_on_every_path(fixture: EngineFixture) {
    let (fixture, proxy) = fixture.proxied();
    let fixture = fixture.set("terminal.docker_network=false");
    // The container that looks into the image is met before it starts.
    let hold = Hold::new();
    let held = hold.clone();
    proxy.rule(move |request| {
        if request.is("POST", "/containers/vestal-errand-", "/start") {
            return Fate::Await(held.clone());
        }
        Fate::Pass
    });
    let engine = fixture.engine();
    let making = tokio::spawn(async move { engine.sandbox(&TaskName::default_task()).await });
    hold.reached().await;
    let errand = fixture.container();
    assert!(errand["Name"].as_str().unwrap().contains("vestal-errand-"));
    assert_eq!(network(&errand), "none");
    hold.release();
    let sandbox = making.await.unwrap().unwrap();
    assert_eq!(network(&fixture.container()), "none");
    assert_eq!(out(&sandbox, "ls /sys/class/net").await, "lo\n");
    fixture.engine().remove(&TaskName::default_task(), FilesOnRemoval::Remove).await.unwrap();

    // With a network there is one, but for errands.
    let fixture = fixture.set("terminal.docker_network=true");
    let interfaces = fixture.out("ls /sys/class/net | wc -l").await;
    assert_ne!(interfaces, "1\n");
    fixture.finish().await;
}

pub(crate) async fn a_network_that_is_taken_away_is_gone_for_the_next_caller(
    fixture: EngineFixture,
) {
    fixture.out("echo 1 > ~/kept; echo 2 > kept").await;
    let sandbox = fixture.sandbox().await;
    let job = sandbox.spawn(Command::shell("sleep 1000")).await.unwrap();
    let tight = || fixture.engine_with(&["terminal.docker_network=false"]);
    let error = tight().sandbox(&TaskName::default_task()).await.unwrap_err();
    let Error::Tightened { jobs, .. } = &error else { panic!("{error:?}") };
    assert_eq!(jobs.len(), 1, "{error:?}");
    sandbox.kill(&job.id).await.unwrap();
    drop(sandbox);
    let sandbox = tight().sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(network(&fixture.container()), "none");
    assert_eq!(out(&sandbox, "ls /sys/class/net; cat ~/kept kept").await, "lo\n1\n2\n");
    fixture.finish().await;
}

pub(crate) async fn changed_limits_and_mounts_are_named_and_applied_on_request(
    fixture: EngineFixture,
) {
    fixture.out("echo 2 > kept").await;
    let dir = fixture.scratch("mounted");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("file"), "mounted\n").unwrap();
    let volumes = format!(r#"terminal.docker_volumes=["{}:/mounted:ro"]"#, dir.display());
    let changed =
        ["terminal.container_memory=6144", "terminal.docker_image=vestal-test/debian:latest"];
    let sandbox = fixture.engine_with(&changed).sandbox(&TaskName::default_task()).await.unwrap();
    let Some(Notice::Drift(drift)) =
        sandbox.notices().iter().find(|notice| matches!(notice, Notice::Drift(_)))
    else {
        panic!("{:?}", sandbox.notices());
    };
    let keys: Vec<&str> = drift.iter().map(|drift| &*drift.key).collect();
    assert_eq!(keys, ["terminal.container_memory", "terminal.docker_image"]);
    assert_eq!(fixture.container()["HostConfig"]["Memory"], 5120_i64 << 20, "it goes on as it is");
    drop(sandbox);
    let recreate =
        ["terminal.on_config_change=recreate", "terminal.container_memory=6144", &volumes];
    let sandbox = fixture.engine_with(&recreate).sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(fixture.container()["HostConfig"]["Memory"], 6144_i64 << 20);
    assert_eq!(out(&sandbox, "cat /mounted/file kept").await, "mounted\n2\n");
    assert_ne!(run(&sandbox, "echo x > /mounted/x").await.exit.code, Some(0));
    fixture.finish().await;
}

pub(crate) async fn secrets_reach_jobs_and_nothing_that_can_be_inspected(fixture: EngineFixture) {
    let secret = marker();
    let fixture =
        fixture.set(&format!(r#"terminal.docker_env={{"SECRET": "{secret}", "PLAIN": "a b"}}"#));
    let sandbox = fixture.sandbox().await;
    // What it prints would be in the job's log.
    let printed = out(&sandbox, "echo ${#SECRET}; echo $PLAIN; touch used-$SECRET").await;
    assert_eq!(printed, "10\na b\n");
    assert!(fixture.workspace().join(format!("used-{secret}")).exists());
    let container = fixture.container();
    assert!(!container.to_string().contains(&secret));
    let cmdline = std::fs::read(format!("/proc/{}/cmdline", fixture.first_process())).unwrap();
    assert!(!String::from_utf8_lossy(&cmdline).contains(&secret));
    // A session keeps what was set in it, not what it was given.
    run(&sandbox, "own=1").await;
    let state = fixture.sandbox_dir("default").join("state");
    assert!(!tree_contains(&state, secret.as_bytes()));
    let without = fixture.engine_with(&["terminal.docker_env={}"]);
    let sandbox = without.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(out(&sandbox, "echo [$SECRET] $own").await, "[] 1\n");
    fixture.finish().await;
}

fn tree_contains(dir: &std::path::Path, text: &[u8]) -> bool {
    std::fs::read_dir(dir).unwrap().flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return tree_contains(&path, text);
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        bytes.windows(text.len()).any(|part| part == text)
    })
}
