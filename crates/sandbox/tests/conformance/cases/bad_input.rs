//! Files that are not ours, disks that are full, sockets that are planted.

use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;

use vestal_sandbox::job::JobError;
use vestal_sandbox::{Command, Engine, Error, StoreError, TaskName};
use vestal_wire::FaultCode;

use crate::support::BackendFixture;

pub(crate) async fn a_newer_record_is_refused_and_left_alone(fixture: &BackendFixture) {
    fixture.run("true").await;
    let path = fixture.sandbox_dir("default").join("sandbox.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let newer = text.replace(r#""version": 1"#, r#""version": 99"#);
    std::fs::write(&path, &newer).unwrap();
    let error = Engine::sandbox(&fixture.engine(), &TaskName::default_task()).await.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::Newer { found: 99, .. })), "{error}");
    assert!(error.to_string().contains("newer Vestal"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), newer);
    assert_eq!(fixture.guests().len(), 1, "what runs goes on");
    std::fs::write(&path, text).unwrap();
}

pub(crate) async fn a_damaged_record_is_an_error_that_names_the_file(fixture: &BackendFixture) {
    let dir = fixture.sandbox_dir("default");
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("sandbox.json");
    std::fs::write(&path, b"\x00\xff garbage").unwrap();
    let error = Engine::sandbox(&fixture.engine(), &TaskName::default_task()).await.unwrap_err();
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    std::fs::remove_dir_all(dir).unwrap();
}

pub(crate) async fn a_home_that_cannot_be_written_is_an_error_that_names_it(
    fixture: &BackendFixture,
) {
    // A file in the way stops root as well as anybody.
    std::fs::write(fixture.home(), "not a directory").unwrap();
    let error = Engine::open(fixture.settings(&[], &[])).unwrap_err();
    assert!(error.to_string().contains(fixture.home().to_str().unwrap()), "{error}");
    std::fs::remove_file(fixture.home()).unwrap();
}

pub(crate) async fn a_full_disk_stops_nothing_and_loses_nothing_saved(fixture: &BackendFixture) {
    fixture.run("kept=before").await;
    // The guest may make no file larger than this: what a full disk does to it.
    limit_guest(fixture, 64 << 10);
    let output = fixture.run("echo $kept; kept=after; head -c 3000000 /dev/zero >&2").await;
    assert_eq!(output.exit.code, Some(0));
    assert_eq!(output.stdout.bytes(), b"before\n");
    let held = u64::try_from(output.stderr.bytes().len()).unwrap();
    assert_eq!(held + output.stderr.omitted, 3_000_000, "what is not held is counted");
    // Not a byte more: then nothing is started that could not be recorded.
    limit_guest(fixture, 0);
    let refused =
        fixture.sandbox().await.run(Command::shell("echo ran >> ~/ran").session("main")).await;
    let error = refused.unwrap_err();
    assert!(
        matches!(&error, Error::Job(JobError::Fault(fault)) if fault.code == FaultCode::NoSpace),
        "{error}"
    );
    assert!(!fixture.home_files().join("ran").exists());
    fixture.engine().stop(&TaskName::default_task()).await.unwrap();
    assert_eq!(fixture.run("echo $kept").await.stdout.bytes(), b"after\n");
}

fn limit_guest(fixture: &BackendFixture, bytes: u64) {
    let guest = fixture.guests()[0].to_string();
    // As its own user: others may not in every place where tests run.
    let status = std::fs::read_to_string(format!("/proc/{guest}/status")).unwrap();
    let id = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse::<u32>().unwrap()
    };
    let limited = std::process::Command::new("prlimit")
        .args(["--pid", &guest, &format!("--fsize={bytes}:unlimited")])
        .uid(id("Uid:"))
        .gid(id("Gid:"))
        .status()
        .unwrap();
    assert!(limited.success());
}

pub(crate) async fn a_planted_socket_is_not_talked_to(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    let instance = sandbox.instance().await;
    drop(sandbox);
    let io = fixture.sandbox_dir("default").join("instances").join(instance).join("io");
    // Another process listens where the guest did.
    let socket = io.join("guest.sock");
    std::fs::rename(&socket, io.join("real.sock")).unwrap();
    // By this name, because the path of a socket must be short.
    let dir = std::fs::File::open(&io).unwrap();
    let short = format!("/proc/self/fd/{}/guest.sock", dir.as_raw_fd());
    let planted = std::os::unix::net::UnixListener::bind(short).unwrap();
    planted.set_nonblocking(true).unwrap();
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o666)).unwrap();
    let output = fixture.run("echo served").await;
    assert_eq!(output.stdout.bytes(), b"served\n");
    while let Ok((mut connection, _)) = planted.accept() {
        use std::io::Read as _;
        let mut printed = Vec::new();
        connection.set_nonblocking(true).unwrap();
        connection.read_to_end(&mut printed).ok();
        assert_eq!(printed, b"", "not a word is said to a stranger");
    }
    std::fs::remove_file(io.join("real.sock")).ok();
    assert_eq!(fixture.guests().len(), 1);
}

pub(crate) async fn a_sandbox_is_private_to_its_user(fixture: &BackendFixture) {
    let sandbox = fixture.sandbox().await;
    let command = Command::shell("echo out").session("main");
    sandbox.run(command).await.unwrap();
    let dir = fixture.sandbox_dir("default");
    let instance = dir.join("instances").join(sandbox.instance().await);
    let io = instance.join("io");
    let mut private = vec![
        (fixture.home(), 0o700),
        (dir.clone(), 0o700),
        (dir.join("sandbox.json"), 0o600),
        (dir.join("lock"), 0o600),
        (instance.clone(), 0o700),
    ];
    if fixture.is_elsewhere() {
        // Its socket is on another machine.
        private.push((instance.join("instance.json"), 0o600));
    } else if fixture.kind().is_of_its_user() {
        // The user who runs the sandbox is its root.
        private.push((instance.join("instance.json"), 0o600));
        private.push((io.clone(), 0o700));
        private.push((io.join("guest.sock"), 0o600));
        private.push((dir.join("state"), 0o700));
    } else if fixture.is_contained() {
        // The user that a container's user is out here can write where the
        // container does; what keeps others out is above.
        private.push((instance.join("instance.json"), 0o600));
        private.push((io, 0o777));
        private.push((dir.join("state"), 0o777));
    } else {
        private.push((io.clone(), 0o700));
        private.push((io.join("guest.sock"), 0o600));
    }
    for (path, expected) in private {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, expected, "{}", path.display());
    }
}

pub(crate) async fn a_required_limit_that_cannot_be_enforced_is_refused_before_anything_ends(
    fixture: &BackendFixture,
) {
    let sandbox = fixture.sandbox().await;
    let guests = fixture.guests();
    // Directories have no quota.
    let required = ["terminal.container_disk=100", "terminal.require_limits=true"];
    let limited = fixture.engine_with(&required);
    for task in ["default", "another"] {
        let refused = limited.sandbox(&task.parse().unwrap()).await.unwrap_err();
        assert!(matches!(refused, Error::Backend { .. }), "{refused}");
        // Which of them is named first depends on whose sandbox it is.
        assert!(refused.to_string().contains("cannot be enforced here"), "{refused}");
    }
    assert_eq!(fixture.guests(), guests);
    let output = sandbox.run(Command::shell("echo still here")).await.unwrap();
    assert_eq!(output.stdout.bytes(), b"still here\n");
    assert_eq!(fixture.own_containers().len(), 1);
    // One that nobody has asked for is left out, and that is said.
    let shown = fixture.engine().inspect(&TaskName::default_task()).await.unwrap();
    let unenforced = &shown[0].description.unenforced;
    assert!(unenforced.iter().any(|key| key == "terminal.container_disk"), "{unenforced:?}");
}

pub(crate) async fn a_stale_lock_file_is_no_obstacle(fixture: &BackendFixture) {
    let dir = fixture.sandbox_dir("default");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("lock"), "pid 1 of a machine long gone").unwrap();
    std::fs::set_permissions(dir.join("lock"), std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(fixture.run("echo ok").await.stdout.bytes(), b"ok\n");
}
