//! Engines that do not share the files of this machine: a stream of the
//! engine's leads to the guest, and volumes hold the files.

use serde_json::Value;
use vestal_sandbox::{Command, CommandInput, FilesOnRemoval, TaskName};
use vestal_wire::JobState;

use crate::support::{
    ClearOnDrop, EngineFixture, kill, kill_tree, marker, out, restarted, run, until, use_all,
};

fn apart(fixture: EngineFixture) -> EngineFixture {
    fixture.set("terminal.docker_transport=exec")
}

fn mounts(container: &Value, kind: &str) -> Vec<String> {
    let mounts = container["Mounts"].as_array().unwrap().iter();
    let mut targets: Vec<String> = mounts
        .filter(|mount| mount["Type"] == kind)
        .map(|mount| mount["Destination"].as_str().unwrap().to_owned())
        .collect();
    targets.sort();
    targets
}

pub(crate) async fn through_the_engine_everything_works_as_by_a_socket(fixture: EngineFixture) {
    let fixture = apart(fixture);
    let sandbox = fixture.sandbox().await;
    use_all(&sandbox).await;
    kill_tree(&sandbox).await;
    let container = fixture.container();
    assert_eq!(mounts(&container, "bind"), Vec::<String>::new());
    assert_eq!(mounts(&container, "volume"), {
        ["/.vestal/boot", "/.vestal/io", "/.vestal/state", "/root", "/workspace"]
    });
    let summary = fixture.engine().list().await.unwrap().remove(0);
    assert_eq!(summary.description.transport.as_deref(), Some("exec"));
    assert_eq!(out(&sandbox, "cat ~/.image-marker").await, "from the image\n");
    // Files, sessions and the system itself are there after a restart.
    run(&sandbox, "echo own > /usr/own").await;
    let sandbox = restarted(&fixture).await;
    let printed = out(&sandbox, "pwd; cat ~/note /usr/own; echo $kept").await;
    assert_eq!(printed, "/workspace/deep\nneedle\nown\ntwo words\n");
    fixture.finish().await;
}

pub(crate) async fn much_goes_both_ways_through_the_engine_unharmed(fixture: EngineFixture) {
    let fixture = apart(fixture);
    let sandbox = fixture.sandbox().await;
    let bytes: Vec<u8> =
        (0..8_u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let command = Command::argv(["cat"]).stdin(CommandInput::Bytes(bytes.clone()));
    let output = sandbox.run(command.capture(16 << 20, 0)).await.unwrap();
    assert!(output.stdout.is_complete());
    assert!(output.stdout.bytes() == bytes, "not the same bytes");
    fixture.finish().await;
}

pub(crate) async fn a_caller_that_dies_leaves_its_job_to_the_next(fixture: EngineFixture) {
    let fixture = apart(fixture);
    let text = "echo ran >> runs; until [ -e go ]; do sleep 0.05; done; exit 3";
    let mut worker = fixture.worker(&["spawn", "default", text]);
    let job = worker.line().await["job"].as_str().unwrap().parse().unwrap();
    worker.crash().await;
    let foreground = fixture.worker(&["run", "default", "echo foreground >> runs; sleep 1000"]);
    until("the command runs", || async { fixture.out("cat runs").await.contains("foreground") })
        .await;
    foreground.crash().await;
    let sandbox = fixture.sandbox().await;
    run(&sandbox, "touch go").await;
    let info = sandbox.wait(&job, None).await.unwrap();
    assert!(matches!(info.state, JobState::Ended(exit) if exit.code == Some(3)), "{info:?}");
    assert_eq!(out(&sandbox, "cat runs").await, "ran\nforeground\n");
    // The death of the guest is the container's, and the next use starts it.
    kill(fixture.first_process());
    assert_eq!(out(&sandbox, "cat runs").await, "ran\nforeground\n");
    fixture.finish().await;
}

pub(crate) async fn a_removal_keeps_the_volumes_unless_the_files_go_too(fixture: EngineFixture) {
    let fixture = apart(fixture);
    fixture.out("echo 1 > ~/kept; echo 2 > kept").await;
    let engine = fixture.engine();
    let removal = engine.remove(&TaskName::default_task(), FilesOnRemoval::Keep).await.unwrap();
    assert_eq!(removal.instances, 1);
    let mut volumes = fixture.volumes();
    volumes.sort();
    assert!(!volumes.is_empty());
    for volume in &volumes {
        assert!(removal.kept_volumes.contains(volume), "{removal:?}");
    }
    assert_eq!(fixture.containers(), Vec::<Value>::new());
    assert_eq!(fixture.out("cat ~/kept kept").await, "1\n2\n");
    fixture.engine().remove(&TaskName::default_task(), FilesOnRemoval::Remove).await.unwrap();
    assert_eq!(fixture.volumes(), Vec::<String>::new());
    assert_eq!(fixture.out("cat ~/kept || echo gone").await, "gone\n");
    fixture.finish().await;
}

pub(crate) async fn an_instance_of_one_process_leaves_no_volume(fixture: EngineFixture) {
    let fixture = apart(fixture).set("terminal.container_persistent=false");
    let engine = fixture.engine_with(&["terminal.persist_across_processes=false"]);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(out(&sandbox, "echo 1 > ~/x; cat ~/x").await, "1\n");
    let names: Vec<String> = fixture.container()["Mounts"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|mount| mount["Name"].as_str().map(str::to_owned))
        .collect();
    assert!(engine.close(std::time::Duration::from_mins(1)).await);
    for name in names {
        assert_eq!(fixture.api.ask("GET", &format!("/volumes/{name}"), None).status, 404, "{name}");
    }
    fixture.finish().await;
}

pub(crate) async fn where_files_are_not_shared_a_stream_is_used(fixture: EngineFixture) {
    // The home is on a filesystem that only this process and its children see,
    // as it is for one that runs in a container and talks to the host's engine.
    let task = format!("apart-{}", marker());
    let script = format!(
        "mount -t tmpfs tmpfs \"$2\" && \"$@\" run {task} 'echo 1 > ~/kept; id -u' && \
         \"$@\" run {task} 'cat ~/kept' && \"$@\" attach {task} </dev/null && \
         read line && \"$@\" remove {task} --files"
    );
    std::fs::create_dir(fixture.home()).unwrap();
    let _guard =
        ClearOnDrop { engine: fixture.api.clone(), label: format!("vestal-task-id={task}") };
    let unshare = ["--mount", "--propagation", "private", "sh", "-c", &script, "sh"];
    let mut worker = fixture.worker_under("unshare", &unshare, &[]);
    assert_eq!(worker.line().await["stdout"], "0\n");
    assert_eq!(worker.line().await["stdout"], "1\n");
    assert_eq!(worker.line().await["before"], "running");
    let listed = fixture.api.containers_with(&format!("vestal-task-id={task}"));
    assert_eq!(listed.len(), 1);
    let container = fixture.api.inspect(listed[0]["Id"].as_str().unwrap()).unwrap();
    assert_eq!(mounts(&container, "bind"), Vec::<String>::new());
    worker.send("go on\n").await;
    assert_eq!(worker.line().await["removed"], 1);
    worker.finish().await;
    assert_eq!(fixture.api.containers_with(&format!("vestal-task-id={task}")), Vec::<Value>::new());
    assert_eq!(fixture.api.volumes_with(&format!("vestal-task-id={task}")), Vec::<String>::new());
}

pub(crate) async fn published_files_are_sent_and_replaced(fixture: EngineFixture) {
    let fixture = apart(fixture);
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("scripts")).unwrap();
    let script = dir.path().join("scripts/run");
    std::fs::write(&script, "#!/bin/sh\ncat \"${0%/*}/../text\"\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    std::os::unix::fs::symlink("scripts/run", dir.path().join("link")).unwrap();
    std::fs::write(dir.path().join("text"), "one\n").unwrap();
    let sandbox = fixture.sandbox().await;
    let shown = sandbox.publish("skills/one", dir.path()).await.unwrap();
    let at = shown.display();
    let look = format!("cat {at}/text; {at}/scripts/run; readlink {at}/link; stat -c %a {at}/text");
    assert_eq!(out(&sandbox, &look).await, "one\none\nscripts/run\n444\n");
    std::fs::write(dir.path().join("text"), "two\n").unwrap();
    std::fs::remove_file(dir.path().join("link")).unwrap();
    assert_eq!(sandbox.publish("skills/one", dir.path()).await.unwrap(), shown);
    let look = format!("{at}/scripts/run; ls {at}");
    assert_eq!(out(&sandbox, &look).await, "two\nscripts\ntext\n");
    // Of the version before nothing is left that takes room.
    let files = "find /.vestal/boot/skills -type f | wc -l";
    assert_eq!(out(&sandbox, files).await.trim(), "2");
    // They outlive a restart, and come with a container that is rebuilt.
    let sandbox = restarted(&fixture).await;
    assert_eq!(out(&sandbox, &look).await, "two\nscripts\ntext\n");
    out(&sandbox, "echo kept > ~/kept").await;
    drop(sandbox);
    fixture.engine().remove(&TaskName::default_task(), FilesOnRemoval::Keep).await.unwrap();
    let sandbox = fixture.sandbox().await;
    assert_eq!(out(&sandbox, &look).await, "two\nscripts\ntext\n");
    fixture.finish().await;
}
