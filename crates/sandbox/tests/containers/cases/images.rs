//! The guest in any image.

use std::os::unix::fs::MetadataExt as _;

use vestal_sandbox::client::CallError;
use vestal_sandbox::files::{FileError, WriteOptions};
use vestal_sandbox::{FilesOnRemoval, TaskName};
use vestal_wire::FaultCode;

use crate::support::{EngineFixture, kill, kill_tree, out, restarted, run, use_all};

pub(crate) async fn a_system_without_bash_is_as_good_as_any(fixture: EngineFixture) {
    let fixture = fixture.image("busybox");
    let sandbox = fixture.sandbox().await;
    use_all(&sandbox).await;
    kill_tree(&sandbox).await;
    assert_eq!(
        out(&restarted(&fixture).await, "echo $kept; cat ~/note").await,
        "two words\nneedle\n"
    );
    fixture.finish().await;
}

pub(crate) async fn a_debian_system_is_as_good_as_any(fixture: EngineFixture) {
    let fixture = fixture.image("debian");
    let sandbox = fixture.sandbox().await;
    use_all(&sandbox).await;
    // Bash is there, so functions and arrays are kept; and what is installed
    // into the system is there after a restart.
    run(&sandbox, "f() { echo f $1; }; a=(x y); printf '#!/bin/sh\\necho tool' > /usr/bin/tool")
        .await;
    run(&sandbox, "chmod +x /usr/bin/tool").await;
    let sandbox = restarted(&fixture).await;
    assert_eq!(out(&sandbox, "f 1; echo ${a[1]}; tool; whoami").await, "f 1\ny\ntool\nroot\n");
    fixture.finish().await;
}

pub(crate) async fn jobs_and_files_are_those_of_the_images_user(fixture: EngineFixture) {
    let fixture = fixture.image("nonroot");
    let sandbox = fixture.sandbox().await;
    use_all(&sandbox).await;
    let printed = out(&sandbox, "id -u; id -g; id -un; echo ~ $HOME $USER; cat ~/note.txt").await;
    assert_eq!(printed, "1000\n1000\napp\n/home/app /home/app app\na file of app\n");
    let owners = "stat -c %u:%g /workspace ~ ~/note ~/note.txt /workspace/deep/here";
    assert_eq!(out(&sandbox, owners).await, "1000:1000\n".repeat(5));
    // Calls may do what the user may, and no more.
    let files = sandbox.files(None).await.unwrap();
    for place in ["/root/x", "/etc/x", "/.vestal/state/x"] {
        let written = files.write(place, b"x", WriteOptions::default()).await;
        let Err(FileError::Call(CallError::Fault(fault))) = written else {
            panic!("{place}: {written:?}");
        };
        assert_eq!(fault.code, FaultCode::Denied, "{place}: {fault:?}");
    }
    assert!(files.read("/.vestal/state/journal", 10).await.is_err());
    assert_eq!(run(&sandbox, "echo x > /etc/x").await.exit.code, Some(1));
    assert_ne!(run(&sandbox, "ls /.vestal/state").await.exit.code, Some(0));
    // The guest itself is root, so that jobs cannot touch it.
    let status = std::fs::metadata(format!("/proc/{}", fixture.first_process())).unwrap();
    assert_eq!(status.uid(), 0);
    assert_ne!(run(&sandbox, "kill -9 1").await.exit.code, Some(0));
    let sandbox = restarted(&fixture).await;
    assert_eq!(out(&sandbox, "id -u; cat ~/note; echo $kept").await, "1000\nneedle\ntwo words\n");
    fixture.finish().await;
}

pub(crate) async fn a_tree_of_the_images_user_can_be_killed(fixture: EngineFixture) {
    let fixture = fixture.image("nonroot");
    kill_tree(&fixture.sandbox().await).await;
    fixture.finish().await;
}

pub(crate) async fn a_user_that_the_image_does_not_know_has_a_home(fixture: EngineFixture) {
    let fixture = fixture.image("numeric");
    let sandbox = fixture.sandbox().await;
    use_all(&sandbox).await;
    let printed =
        out(&sandbox, "id -u; id -g; echo ~ $HOME; touch ~/x /workspace/y; cd; pwd").await;
    assert_eq!(printed, "1234\n1234\n/home/vestal /home/vestal\n/home/vestal\n");
    assert_eq!(out(&sandbox, "stat -c %u:%g ~ ~/x /workspace /workspace/y").await, {
        "1234:1234\n".repeat(4)
    });
    fixture.finish().await;
}

pub(crate) async fn the_home_is_filled_from_the_image_once(fixture: EngineFixture) {
    let fixture = fixture.image("nonroot");
    assert_eq!(fixture.out("cat ~/.image-marker").await, "from the image\n");
    fixture.out("rm ~/.image-marker; echo mine > ~/note.txt").await;
    let sandbox = restarted(&fixture).await;
    assert_eq!(out(&sandbox, "ls -A ~; cat ~/note.txt").await, "note.txt\nmine\n");
    fixture.engine().remove(&TaskName::default_task(), FilesOnRemoval::Keep).await.unwrap();
    assert_eq!(fixture.out("ls -A ~; cat ~/note.txt").await, "note.txt\nmine\n");
    fixture.engine().remove(&TaskName::default_task(), FilesOnRemoval::Remove).await.unwrap();
    assert_eq!(
        fixture.out("cat ~/.image-marker ~/note.txt").await,
        "from the image\na file of app\n"
    );
    fixture.finish().await;
}

pub(crate) async fn an_entrypoint_is_overridden_unless_it_is_to_be_kept(fixture: EngineFixture) {
    let fixture = fixture.image("entrypoint");
    assert_eq!(fixture.out("echo [$MARK]").await, "[]\n");
    fixture.engine().remove(&TaskName::default_task(), FilesOnRemoval::Remove).await.unwrap();
    let fixture = fixture.set("terminal.docker_keep_entrypoint=true");
    assert_eq!(fixture.out("echo [$MARK]").await, "[entry]\n");
    let sandbox = restarted(&fixture).await;
    use_all(&sandbox).await;
    assert_eq!(out(&sandbox, "echo [$MARK]").await, "[entry]\n");
    fixture.finish().await;
}

pub(crate) async fn an_init_of_the_image_stays_the_first_process(fixture: EngineFixture) {
    let fixture = fixture.image("s6");
    let sandbox = fixture.sandbox().await;
    use_all(&sandbox).await;
    kill_tree(&sandbox).await;
    let first = "tr '\\0' ' ' < /proc/1/cmdline | cut -d' ' -f1-2; echo $MARK";
    assert_eq!(out(&sandbox, first).await, "/bin/sh /init\ninit\n");
    let sandbox = restarted(&fixture).await;
    assert_eq!(out(&sandbox, "cat ~/note; echo $kept").await, "needle\ntwo words\n");
    // The guest is a child of the init; its death is the container's.
    let guest = guest_below(fixture.first_process());
    kill(guest);
    assert_eq!(out(&sandbox, "cat ~/note; echo $kept").await, "needle\ntwo words\n");
    assert_ne!(guest_below(fixture.first_process()), guest);
    // What the init forwards ends the guest in order.
    fixture.api.post(&format!("/containers/{}/stop", fixture.container_id()));
    assert_eq!(fixture.container()["State"]["ExitCode"], 0);
    fixture.finish().await;
}

fn guest_below(first: u32) -> u32 {
    let children = std::fs::read_to_string(format!("/proc/{first}/task/{first}/children")).unwrap();
    let mut children = children.split_whitespace().map(|pid| pid.parse::<u32>().unwrap());
    let is_guest = |pid: &u32| {
        let cmdline = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        cmdline.starts_with(b"/.vestal/boot/guest\0serve\0")
    };
    children.find(is_guest).unwrap()
}

pub(crate) async fn what_an_image_keeps_in_a_volume_goes_with_the_container(
    fixture: EngineFixture,
) {
    let fixture = fixture.image("volume");
    let volumes = |fixture: &EngineFixture| -> Vec<String> {
        let container = fixture.container();
        let mounts = container["Mounts"].as_array().unwrap().iter();
        let volumes = mounts.filter(|mount| mount["Type"] == "volume");
        volumes.map(|mount| mount["Name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(fixture.out("cat /data/seed; echo more > /data/more").await, "from the image\n");
    let anonymous = volumes(&fixture);
    assert_eq!(anonymous.len(), 1);
    assert_eq!(out(&restarted(&fixture).await, "cat /data/more").await, "more\n");
    fixture.engine().remove(&TaskName::default_task(), FilesOnRemoval::Keep).await.unwrap();
    let left = fixture.api.ask("GET", &format!("/volumes/{}", anonymous[0]), None);
    assert_eq!(left.status, 404, "{}", left.body);
    assert_eq!(fixture.out("ls /data").await, "seed\n");
    fixture.finish().await;
}

pub(crate) async fn a_read_only_system_leaves_work_home_and_memory_writable(
    fixture: EngineFixture,
) {
    let fixture = fixture.set(r#"terminal.docker_extra_args=["--read-only"]"#);
    let sandbox = fixture.sandbox().await;
    use_all(&sandbox).await;
    assert_ne!(run(&sandbox, "echo x > /etc/x").await.exit.code, Some(0));
    out(&sandbox, "touch ~/x /workspace/x /tmp/x /var/tmp/x /run/x").await;
    assert_eq!(out(&restarted(&fixture).await, "ls ~/x /workspace/x; ls /tmp").await, {
        "/root/x\n/workspace/x\n"
    });
    fixture.finish().await;
}
