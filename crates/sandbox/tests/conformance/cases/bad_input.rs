//! Files that are not ours, disks that are full, sockets that are planted.

use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;

use vestal_sandbox::job::JobError;
use vestal_sandbox::{Command, Engine, Error, StoreError, TaskName};
use vestal_wire::FaultCode;

use crate::support::{Kind, World};

pub(crate) async fn a_newer_record_is_refused_and_left_alone(world: &World) {
    world.run("true").await;
    let path = world.sandbox_dir("default").join("sandbox.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let newer = text.replace(r#""version": 1"#, r#""version": 99"#);
    std::fs::write(&path, &newer).unwrap();
    let error = Engine::sandbox(&world.engine(), &TaskName::default_task()).await.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::Newer { found: 99, .. })), "{error}");
    assert!(error.to_string().contains("newer Vestal"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), newer);
    assert_eq!(world.guests().len(), 1, "what runs goes on");
    std::fs::write(&path, text).unwrap();
}

pub(crate) async fn a_damaged_record_is_an_error_that_names_the_file(world: &World) {
    let dir = world.sandbox_dir("default");
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("sandbox.json");
    std::fs::write(&path, b"\x00\xff garbage").unwrap();
    let error = Engine::sandbox(&world.engine(), &TaskName::default_task()).await.unwrap_err();
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    std::fs::remove_dir_all(dir).unwrap();
}

pub(crate) async fn a_home_that_cannot_be_written_is_an_error_that_names_it(world: &World) {
    // A file in the way stops root as well as anybody.
    std::fs::write(world.home(), "not a directory").unwrap();
    let error = Engine::open(world.settings(&[], &[])).unwrap_err();
    assert!(error.to_string().contains(world.home().to_str().unwrap()), "{error}");
    std::fs::remove_file(world.home()).unwrap();
}

pub(crate) async fn a_full_disk_stops_nothing_and_loses_nothing_saved(world: &World) {
    world.run("kept=before").await;
    // The guest may make no file larger than this: what a full disk does to it.
    limit_guest(world, 64 << 10);
    let output = world.run("echo $kept; kept=after; head -c 3000000 /dev/zero >&2").await;
    assert_eq!(output.exit.code, Some(0));
    assert_eq!(output.stdout.bytes(), b"before\n");
    let held = u64::try_from(output.stderr.bytes().len()).unwrap();
    assert_eq!(held + output.stderr.omitted, 3_000_000, "what is not held is counted");
    // Not a byte more: then nothing is started that could not be recorded.
    limit_guest(world, 0);
    let refused =
        world.sandbox().await.run(Command::shell("echo ran >> ~/ran").session("main")).await;
    let error = refused.unwrap_err();
    assert!(
        matches!(&error, Error::Job(JobError::Fault(fault)) if fault.code == FaultCode::NoSpace),
        "{error}"
    );
    assert!(!world.home_files().join("ran").exists());
    world.engine().stop(&TaskName::default_task()).await.unwrap();
    assert_eq!(world.run("echo $kept").await.stdout.bytes(), b"after\n");
}

fn limit_guest(world: &World, bytes: u64) {
    let guest = world.guests()[0].to_string();
    let limited = std::process::Command::new("prlimit")
        .args(["--pid", &guest, &format!("--fsize={bytes}:unlimited")])
        .status()
        .unwrap();
    assert!(limited.success());
}

pub(crate) async fn a_planted_socket_is_not_talked_to(world: &World) {
    let sandbox = world.sandbox().await;
    let instance = sandbox.instance().await;
    drop(sandbox);
    let io = world.sandbox_dir("default").join("instances").join(instance).join("io");
    // Another process listens where the guest did.
    let socket = io.join("guest.sock");
    std::fs::rename(&socket, io.join("real.sock")).unwrap();
    // By this name, because the path of a socket must be short.
    let dir = std::fs::File::open(&io).unwrap();
    let short = format!("/proc/self/fd/{}/guest.sock", dir.as_raw_fd());
    let planted = std::os::unix::net::UnixListener::bind(short).unwrap();
    planted.set_nonblocking(true).unwrap();
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o666)).unwrap();
    let output = world.run("echo served").await;
    assert_eq!(output.stdout.bytes(), b"served\n");
    while let Ok((mut connection, _)) = planted.accept() {
        use std::io::Read as _;
        let mut said = Vec::new();
        connection.set_nonblocking(true).unwrap();
        connection.read_to_end(&mut said).ok();
        assert_eq!(said, b"", "not a word is said to a stranger");
    }
    std::fs::remove_file(io.join("real.sock")).ok();
    assert_eq!(world.guests().len(), 1);
}

pub(crate) async fn a_sandbox_is_private_to_its_user(world: &World) {
    let sandbox = world.sandbox().await;
    let command = Command::shell("echo out").session("main");
    sandbox.run(command).await.unwrap();
    let dir = world.sandbox_dir("default");
    let instance = dir.join("instances").join(sandbox.instance().await);
    let io = instance.join("io");
    let mut private = vec![
        (world.home(), 0o700),
        (dir.clone(), 0o700),
        (dir.join("sandbox.json"), 0o600),
        (dir.join("lock"), 0o600),
        (instance.clone(), 0o700),
    ];
    if matches!(world.kind(), Kind::Toy) {
        // Its socket is on another machine.
        private.push((instance.join("instance.json"), 0o600));
    } else if matches!(world.kind(), Kind::Native) {
        // Whoever runs the sandbox is its root.
        private.push((instance.join("instance.json"), 0o600));
        private.push((io.clone(), 0o700));
        private.push((io.join("guest.sock"), 0o600));
        private.push((dir.join("state"), 0o700));
    } else if world.is_contained() {
        // Whoever a user of the container is out here can write where the
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
    world: &World,
) {
    let sandbox = world.sandbox().await;
    let guests = world.guests();
    // Directories have no quota.
    let required = ["terminal.container_disk=100", "terminal.require_limits=true"];
    let limited = world.engine_with(&required);
    for task in ["default", "another"] {
        let refused = limited.sandbox(&task.parse().unwrap()).await.unwrap_err();
        assert!(matches!(refused, Error::Backend { .. }), "{refused}");
        // Which of them is named first depends on whose sandbox it is.
        assert!(refused.to_string().contains("cannot be enforced here"), "{refused}");
    }
    assert_eq!(world.guests(), guests);
    let output = sandbox.run(Command::shell("echo still here")).await.unwrap();
    assert_eq!(output.stdout.bytes(), b"still here\n");
    assert_eq!(world.own_containers().len(), 1);
    // One that nobody has asked for is left out, and that is said.
    let shown = world.engine().inspect(&TaskName::default_task()).await.unwrap();
    let unenforced = &shown[0].description.unenforced;
    assert!(unenforced.iter().any(|key| key == "terminal.container_disk"), "{unenforced:?}");
}

pub(crate) async fn a_stale_lock_file_is_no_obstacle(world: &World) {
    let dir = world.sandbox_dir("default");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("lock"), "pid 1 of a machine long gone").unwrap();
    std::fs::set_permissions(dir.join("lock"), std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(world.run("echo ok").await.stdout.bytes(), b"ok\n");
}
