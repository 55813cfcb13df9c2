//! What only containers that Apptainer builds have to be asked: what runs beside them, what
//! Apptainer would add of this machine, and images.

use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode};
use rustix::process::{Pid, Signal, kill_process};
use vestal_sandbox::{Command, Error, FilesOnRemoval, TaskName};
use vestal_testkit::engines::given;
use vestal_testkit::files::names;

use crate::support::{BackendFixture, alive, living, marker, parent_of, processes_with, until};

/// Returns the process that keeps the container of the fixture's only guest.
fn keeper(fixture: &BackendFixture) -> u32 {
    let guests = fixture.guests();
    assert_eq!(guests.len(), 1, "{guests:?}");
    parent_of(guests[0]).unwrap()
}

/// Returns that process and what it runs beside the container.
fn beside(fixture: &BackendFixture) -> Vec<u32> {
    let (keeper, guests) = (keeper(fixture), fixture.guests());
    let children = living(|pid| parent_of(pid) == Some(keeper) && !guests.contains(&pid));
    children.into_iter().chain([keeper]).collect()
}

/// Returns the names of processes, sorted.
fn programs(pids: &[u32]) -> Vec<String> {
    let name = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
    };
    let mut names: Vec<String> = pids.iter().map(name).collect();
    names.sort();
    names
}

/// Checks that an ordinary user's container of a file has the programs behind its mounts.
fn assert_fuse(pids: &[u32]) {
    if !rustix::process::getuid().is_root() {
        let programs = programs(pids);
        for program in ["fuse-overlayfs", "squashfuse_ll"] {
            assert!(programs.iter().any(|found| found == program), "{programs:?}");
        }
    }
}

fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
}

pub(crate) async fn a_killed_guest_takes_what_mounts_for_it_along(fixture: &BackendFixture) {
    fixture.run("kept=1").await;
    let beside = beside(fixture);
    assert_fuse(&beside);
    kill(fixture.guests()[0]);
    until("nothing is left beside it", || async { !beside.iter().any(|pid| alive(*pid)) }).await;
    assert_eq!(fixture.run("echo $kept").await.stdout.bytes(), b"1\n");
}

pub(crate) async fn what_a_killed_runtime_leaves_behind_is_ended(fixture: &BackendFixture) {
    let task = TaskName::default_task();
    for ends in ["start", "remove"] {
        fixture.run("echo installed > /usr/tool").await;
        let (guest, keeper, beside) = (fixture.guests()[0], keeper(fixture), beside(fixture));
        kill(keeper);
        until("the guest goes with it", || async { !alive(guest) }).await;
        if !rustix::process::getuid().is_root() {
            assert!(beside.iter().any(|pid| alive(*pid)), "nothing was left behind");
        }
        if ends == "start" {
            let output = fixture.run("cat /usr/tool").await;
            assert_eq!(output.stdout.bytes(), b"installed\n");
        } else {
            fixture.engine().remove(&task, FilesOnRemoval::Remove).await.unwrap();
        }
        let left: Vec<u32> = beside.into_iter().filter(|pid| alive(*pid)).collect();
        assert_eq!(left, Vec::<u32>::new(), "after {ends}");
    }
}

pub(crate) async fn installed_files_outlive_a_stop_and_a_later_process(fixture: &BackendFixture) {
    let words = ["run", "default", "echo tool > /usr/bin/tool; rm /bin/tac; mkdir -p /opt/a"];
    fixture.worker(&words).finish().await;
    let look = "cat /usr/bin/tool; ls /bin/tac 2>/dev/null; ls -d /opt/a";
    assert_eq!(fixture.run(look).await.stdout.text(), "tool\n/opt/a\n");
    let instance = fixture.sandbox().await.instance().await;
    fixture.engine().stop(&TaskName::default_task()).await.unwrap();
    assert_eq!(fixture.run(look).await.stdout.text(), "tool\n/opt/a\n");
    assert_eq!(fixture.sandbox().await.instance().await, instance);
}

pub(crate) async fn nothing_of_this_machine_is_seen_unasked(fixture: &BackendFixture) {
    let extra = [
        ("SECRET_OF_CALLER", "caller-5fd1"),
        ("APPTAINERENV_LEAK", "leak-5fd1"),
        ("APPTAINER_BIND", "/etc:/leaked-5fd1"),
        ("SINGULARITY_BIND", "/etc:/leaked-5fd1"),
    ];
    let secret = r#"terminal.docker_env={"TOKEN": "token-5fd1"}"#;
    let sandbox =
        fixture.engine_in(&[secret], &extra).sandbox(&TaskName::default_task()).await.unwrap();
    let run = async |text: &str| sandbox.run(Command::shell(text)).await.unwrap().stdout.text();
    // A command gets it, and nobody else.
    assert_eq!(run("echo $TOKEN").await, "token-5fd1\n");
    let guest = fixture.guests()[0];
    for pid in beside(fixture).into_iter().chain([guest]) {
        for file in ["cmdline", "environ"] {
            let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            assert!(!text.contains("5fd1"), "{file} of {pid}: {text}");
        }
    }
    let text = "env | grep -E 'APPTAINER|SINGULARITY|SECRET|LEAK|^PS1'; ls -d /leaked*; ls /sys; \
                grep -c ' /sys\\| /etc/localtime' /proc/mounts; ls -d /.vestal/boot/guest";
    assert_eq!(run(text).await, "0\n/.vestal/boot/guest\n");
    // The machine's own files are not there: its name, its accounts, its programs.
    let accounts = run("cut -d: -f1 /etc/passwd").await;
    let own = std::fs::read_to_string("/etc/passwd").unwrap();
    let daemon = own.lines().any(|line| line.starts_with("daemon:"));
    assert!(daemon && !accounts.contains("daemon"), "{accounts}");
    assert_eq!(run("hostname").await, "vestal\n");
    // What it starts from cannot be changed.
    let change = "echo x > /.vestal/boot/guest || rm -f /.vestal/stage || echo unchanged";
    assert_eq!(run(&format!("({change}) 2>/dev/null")).await, "unchanged\n");
}

pub(crate) async fn commands_have_no_rights_over_this_machine(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    let run = async |text: &str| sandbox.run(Command::shell(text)).await.unwrap().stdout.text();
    let status = run("grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status").await;
    let rights = if rustix::process::getuid().is_root() { "cb" } else { "00" };
    let expected = format!(
        "CapEff:\t00000000000000{rights}\nCapBnd:\t00000000000000{rights}\nNoNewPrivs:\t1\nSeccomp:\t2\n"
    );
    assert_eq!(status, expected);
    for attempt in [
        // What the kernel offers to root by files.
        "printf '%s' \"$(cat /proc/sys/kernel/core_pattern)\" > /proc/sys/kernel/core_pattern",
        "echo 0 > /proc/sys/kernel/randomize_va_space",
        "[ -e /proc/sysrq-trigger ] && echo h > /proc/sysrq-trigger",
        "mount -t tmpfs none /mnt",
        "umount /proc/sys",
        "mount -o remount,rw /proc/sys",
        "unshare -U true",
        "unshare -m true",
        "mknod /tmp/disk b 254 0 && head -c 1 /tmp/disk",
        "chroot / true",
        "hostname other",
        "head -c 1 /proc/kcore | grep -q .",
        "[ -s /proc/keys ]",
        "[ -e /dev/kmsg ]",
        "[ -e /dev/fuse ]",
        "kill -0 2147483",
        "echo x > /etc/hosts",
    ] {
        let answer =
            run(&format!("({attempt}) >/dev/null 2>&1 && echo done || echo refused")).await;
        assert_eq!(answer, "refused\n", "{attempt}");
    }
    // Processes of this machine are not seen, whoever runs them.
    let first = run("tr '\\0' ' ' < /proc/1/cmdline").await;
    assert!(first.starts_with("/.vestal/boot/guest serve"), "{first}");
}

pub(crate) async fn a_directory_is_an_image_too(_fixture: &BackendFixture) {
    let fixture = BackendFixture::apptainer_directory();
    let text = "echo kept > /var/kept; cat /root/.image-marker 2>/dev/null || ls /bin/bash";
    let output = fixture.run(text).await;
    assert!(["from the image\n", "/bin/bash\n"].contains(&&*output.stdout.text()), "{output:?}");
    fixture.engine().stop(&TaskName::default_task()).await.unwrap();
    // An ordinary user cannot change what is root's in it, but its own.
    let output = fixture.run("cat /var/kept 2>/dev/null || echo none").await;
    let expected = if rustix::process::getuid().is_root() { "kept\n" } else { "none\n" };
    assert_eq!(output.stdout.text(), expected);
    fixture.finish().await;
}

/// Returns the setting of an image.
fn image(path: &Path) -> String {
    format!("terminal.singularity_image={}", path.display())
}

/// Returns the directory with the images of the tests.
fn images() -> PathBuf {
    given("VESTAL_TEST_APPTAINER_IMAGES").into()
}

pub(crate) async fn an_image_that_was_replaced_is_refused_by_name(fixture: &BackendFixture) {
    let (task, sif, aside) =
        (TaskName::default_task(), fixture.scratch("own.sif"), fixture.scratch("aside.sif"));
    std::fs::copy(images().join("base.sif"), &sif).unwrap();
    let setting = image(&sif);
    let sandbox = fixture.engine_with(&[&setting]).sandbox(&task).await.unwrap();
    sandbox.run(Command::shell("echo kept > /usr/kept")).await.unwrap();
    drop(sandbox);
    fixture.engine_with(&[&setting]).stop(&task).await.unwrap();
    std::fs::rename(&sif, &aside).unwrap();
    std::fs::copy(&aside, &sif).unwrap();
    let refused = fixture.engine_with(&[&setting]).sandbox(&task).await.unwrap_err();
    assert!(refused.to_string().contains("own.sif"), "{refused}");
    // The one that it was made of is taken as before.
    std::fs::rename(&aside, &sif).unwrap();
    let sandbox = fixture.engine_with(&[&setting]).sandbox(&task).await.unwrap();
    let output = sandbox.run(Command::shell("cat /usr/kept")).await.unwrap();
    assert_eq!(output.stdout.bytes(), b"kept\n");
    assert_eq!(sandbox.generation().await, 1);
}

pub(crate) async fn an_image_that_cannot_be_had_is_an_error_with_advice(fixture: &BackendFixture) {
    let empty = fixture.scratch("empty");
    std::fs::create_dir(&empty).unwrap();
    let none = fixture.scratch("none.sif");
    let text = fixture.scratch("text.sif");
    std::fs::write(&text, "this is no image").unwrap();
    // Nobody listens on port 1 of this machine.
    let nowhere = "terminal.singularity_image=docker://127.0.0.1:1/none:latest".to_owned();
    for setting in [image(&none), image(&empty), image(&text), nowhere] {
        let engine = fixture.engine_with(&[&setting]);
        let refused = engine.sandbox(&TaskName::default_task()).await.unwrap_err();
        let Error::Backend { source, .. } = &refused else { panic!("{setting}: {refused:?}") };
        if !setting.ends_with("text.sif") {
            assert!(source.advice().is_some(), "{setting}: {refused}");
        }
        assert_eq!(fixture.own_containers(), Vec::<serde_json::Value>::new(), "{setting}");
        assert_eq!(fixture.guests(), Vec::<u32>::new(), "{setting}");
    }
    let kept = names(&fixture.home().join("run/apptainer/images"));
    assert!(kept.iter().all(|name| name.strip_suffix(".lock").is_some()), "{kept:?}");
}

pub(crate) async fn an_archive_is_converted_once(fixture: &BackendFixture) {
    let archive = images().join("base.tar");
    let setting = format!("terminal.singularity_image=docker-archive:{}", archive.display());
    let kept = fixture.home().join("run/apptainer/images");
    let mut seen = Vec::new();
    for task in ["one", "two"] {
        let task: TaskName = task.parse().unwrap();
        let sandbox = fixture.engine_with(&[&setting]).sandbox(&task).await.unwrap();
        let output = sandbox.run(Command::shell("ls /bin/bash")).await.unwrap();
        assert_eq!(output.stdout.bytes(), b"/bin/bash\n");
        let images: Vec<String> =
            names(&kept).into_iter().filter(|name| name.strip_suffix(".lock").is_none()).collect();
        assert_eq!(images.len(), 1, "{images:?}");
        seen.push(std::fs::metadata(kept.join(&images[0])).unwrap().modified().unwrap());
    }
    assert_eq!(seen[0], seen[1]);
}

pub(crate) async fn a_fetch_that_is_given_up_leaves_no_process_and_no_file(
    fixture: &BackendFixture,
) {
    // Apptainer reads it for as long as nobody writes to it.
    let mark = marker();
    let archive = fixture.scratch(&format!("{mark}.tar"));
    rustix::fs::mknodat(rustix::fs::CWD, &archive, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let setting = format!("terminal.singularity_image=docker-archive:{}", archive.display());
    let engine = fixture.engine_with(&[&setting]);
    let opening =
        tokio::spawn(async move { engine.sandbox(&TaskName::default_task()).await.map(drop) });
    until("it is being fetched", || async { !processes_with(&mark).is_empty() }).await;
    opening.abort();
    assert!(opening.await.unwrap_err().is_cancelled());
    until("nothing of it runs", || async { processes_with(&mark).is_empty() }).await;
    let images = fixture.home().join("run/apptainer/images");
    until("and nothing is left but the lock", || async {
        names(&images).iter().all(|name| name.strip_suffix(".lock").is_some())
    })
    .await;
}
