//! A guest that is root, with no more power than a container gives it, and jobs
//! that are somebody else's.

#![expect(clippy::unwrap_used, reason = "a helper of a test may panic as the test may")]

mod support;

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use support::confined::{APP, As, CAPABILITIES, STRANGER, confined, for_app, try_confined};
use support::{Client, TestGuest, code, fault, id, processes_of, shell};
use vestal_testkit::namespaces::is_root;
use vestal_testkit::wait_until;
use vestal_wire::{
    CallReply, CallRequest, CreateMode, FaultCode, FileCall, FileOp, FileReply, OutputDelivery,
    StartJob, Stream, WindowSize,
};

fn output_of(client: &mut Client, name: &str, text: &str) -> String {
    let (output, info) = client.run(shell(name, text));
    assert_eq!(code(&info), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn file(client: &mut Client, op: FileOp) -> CallReply {
    client.call(&CallRequest::File(FileCall { session: None, start_dir: None, op }))
}

fn write(client: &mut Client, path: &Path, content: &[u8]) -> CallReply {
    let op = FileOp::Write {
        path: bytes(path),
        create: CreateMode::Any,
        parents: true,
        mode: None,
        expect: None,
    };
    let call = CallRequest::File(FileCall { session: None, start_dir: None, op });
    let channel = client.open(&call);
    client.send_data(channel, Stream::Input, content);
    client.send_end(channel, Stream::Input);
    client.reply(channel)
}

fn read(client: &mut Client, path: &Path) -> CallReply {
    file(client, FileOp::Read { path: bytes(path), offset: 0, limit: None })
}

fn bytes(path: &Path) -> minicbor::bytes::ByteVec {
    path.as_os_str().as_encoded_bytes().to_vec().into()
}

/// Returns the process that a guest which is the first of its namespace is.
fn pid_of(guest: &TestGuest) -> u32 {
    children_of(guest.pid())[0]
}

fn children_of(pid: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    list.split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// Returns whose process it is; nobody's, when it has ended.
fn owner_of(pid: u32) -> u32 {
    std::fs::metadata(format!("/proc/{pid}")).map_or(u32::MAX, |metadata| metadata.uid())
}

#[test]
fn jobs_are_the_users_and_the_guest_stays_root() {
    if !is_root() {
        return;
    }
    let guest = for_app(As::PidOne);
    let mut client = guest.client();
    assert_eq!(
        output_of(&mut client, "who", "whoami; id -u; id -g; id -G"),
        "app\n54321\n54321\n54321 29\n"
    );
    let env = output_of(&mut client, "env", "echo $USER $LOGNAME $HOME $SHELL $FROM_IMAGE $PATH");
    let home = guest.work_dir().display().to_string();
    assert_eq!(env, format!("app app {home} /bin/sh yes /usr/local/bin:/usr/bin:/bin\n"));
    assert_eq!(
        output_of(&mut client, "caps", "grep CapPrm /proc/self/status"),
        "CapPrm:\t0000000000000000\n"
    );
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid_of(&guest))).unwrap();
    assert!(status.contains("\nUid:\t0\t0\t0\t0\n"), "{status}");
}

#[test]
fn directories_are_handed_over_and_the_guests_own_is_closed() {
    if !is_root() {
        return;
    }
    let guest = for_app(As::PidOne);
    let owner = |path: &Path| {
        let metadata = path.metadata().unwrap();
        (metadata.uid(), metadata.gid(), metadata.mode() & 0o777)
    };
    assert_eq!(owner(&guest.work_dir()), (APP, APP, 0o755));
    assert_eq!(owner(&guest.state_dir()), (STRANGER, STRANGER, 0o700));
    assert_eq!(guest.socket().metadata().unwrap().mode() & 0o777, 0o666);
    let mut client = guest.client();
    output_of(&mut client, "touch", "echo mine > file");
    let text = format!("ls {}", guest.state_dir().display());
    let (output, info) = client.run(shell("look", &text));
    assert_ne!(code(&info), Some(0), "{output:?}");
}

#[test]
fn file_operations_have_the_rights_of_the_user_and_no_others() {
    if !is_root() {
        return;
    }
    let guest = for_app(As::PidOne);
    let mut client = guest.client();
    let path = guest.work_dir().join("new/dir/file");
    for content in [&b"one"[..], b"two"] {
        let CallReply::File(FileReply::Written { metadata, in_place, .. }) =
            write(&mut client, &path, content)
        else {
            panic!("it was not written");
        };
        assert_eq!((metadata.uid, metadata.gid, in_place), (APP, APP, false));
        assert_eq!(std::fs::read(&path).unwrap(), content);
    }
    assert_eq!(path.parent().unwrap().metadata().unwrap().uid(), APP);
    let secret = guest.dir.path().join("secret");
    std::fs::write(&secret, "x").unwrap();
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let own = guest.state_dir().join("journal");
    for private in [&secret, &own] {
        assert_eq!(fault(read(&mut client, private)).code, FaultCode::Denied);
        assert_eq!(fault(write(&mut client, private, b"y")).code, FaultCode::Denied);
    }
    let delete = FileOp::Delete { path: bytes(&secret), recursive: false };
    assert_eq!(fault(file(&mut client, delete)).code, FaultCode::Denied);
    assert_eq!(std::fs::read(&secret).unwrap(), b"x");
    // The guest itself continues with its own rights.
    assert_eq!(output_of(&mut client, "after", "echo on"), "on\n");
}

#[test]
fn relative_paths_of_a_session_are_the_users_too() {
    if !is_root() {
        return;
    }
    let guest = for_app(As::PidOne);
    let mut client = guest.client();
    let start =
        |name: &str, text: &str| StartJob { session: Some("main".into()), ..shell(name, text) };
    let (_, info) =
        client.run(start("set", "mkdir d; cd d; X=1; f() { echo \"f $X $PWD\"; }; alias a=b"));
    assert_eq!(info.session_state, vestal_wire::SessionState::Saved);
    let (output, _) = client.run(start("get", "f; alias a"));
    let expected = format!("f 1 {}/d\nalias a='b'\n", guest.work_dir().display());
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    // The session's state is the guest's own file; where it is counts all the same.
    let op = FileOp::Stat { path: b".".to_vec().into(), follow: true };
    let call = FileCall { session: Some("main".into()), start_dir: None, op };
    let CallReply::File(FileReply::Stat(found)) = client.call(&CallRequest::File(call)) else {
        panic!("no such directory");
    };
    assert_eq!(found.path, bytes(&guest.work_dir().join("d")));
}

#[test]
fn a_kill_ends_the_whole_tree_of_the_user() {
    if !is_root() {
        return;
    }
    for how in [As::PidOne, As::Service] {
        let guest = for_app(how);
        let mut client = guest.client();
        let text =
            "for i in 1 2 3; do setsid sh -c 'sleep 1000 & sleep 1000' & done; : > up; sleep 1000";
        client.background(shell("job", text));
        wait_until("all of it runs", || processes_of(&guest, "job").len() >= 10);
        client.kill(&id("job"));
        assert_eq!(processes_of(&guest, "job"), Vec::<u32>::new());
    }
}

#[test]
fn what_a_killed_supervisor_leaves_is_killed_too() {
    if !is_root() {
        return;
    }
    for how in [As::PidOne, As::Service] {
        let guest = for_app(how);
        let mut client = guest.client();
        let text = "setsid sleep 1000 & setsid sleep 1000 & kill -9 $PPID; sleep 1000";
        let info = client.background(shell("job", text));
        client.wait(&info.id);
        wait_until("all are dead", || processes_of(&guest, "job").is_empty());
        assert_eq!(output_of(&mut client, "next", "echo on"), "on\n");
    }
}

#[test]
fn an_orphan_that_may_not_be_killed_keeps_nothing_waiting() {
    if !is_root() {
        return;
    }
    let guest = for_app(As::PidOne);
    let first = pid_of(&guest);
    // As `docker exec` with another user does it, whose process the guest inherits.
    let stranger = STRANGER.to_string();
    let entered = std::process::Command::new("nsenter")
        .args(["--pid", "--mount", "--target", &first.to_string(), "setpriv", "--reuid", &stranger])
        .args(["--clear-groups", "sh", "-c", "sleep 1000 > /dev/null 2>&1 &"])
        .status()
        .unwrap();
    assert!(entered.success());
    wait_until("the stranger is a child", || {
        children_of(first).iter().any(|child| owner_of(*child) == STRANGER)
    });
    let mut client = guest.client();
    client.background(shell("job", "setsid sleep 1000 & kill -9 $PPID; sleep 1000"));
    // It is answered when no process of the job is left.
    client.kill(&id("job"));
    assert_eq!(processes_of(&guest, "job"), Vec::<u32>::new());
    assert!(children_of(first).iter().any(|child| owner_of(*child) == STRANGER));
}

#[test]
fn the_user_can_neither_signal_nor_look_into_the_guest() {
    if !is_root() {
        return;
    }
    let guest = for_app(As::PidOne);
    let mut client = guest.client();
    // Leaves a thread that has the user's rights.
    assert!(matches!(write(&mut client, &guest.work_dir().join("x"), b"x"), CallReply::File(_)));
    let text = "test $(ls /proc/1/task | wc -l) -gt 1 || echo alone
        for tid in $(ls /proc/1/task); do
            for signal in 0 TERM KILL; do kill -$signal $tid 2>/dev/null && echo signalled $tid; done
            for f in environ fd/0 mem; do cat /proc/1/task/$tid/$f >/dev/null 2>&1 && echo read $f; done
        done; true";
    assert_eq!(output_of(&mut client, "attack", text), "");
    assert_eq!(output_of(&mut client, "after", "echo on"), "on\n");
}

#[test]
fn a_terminal_and_the_standard_streams_are_the_users() {
    if !is_root() {
        return;
    }
    let guest = for_app(As::PidOne);
    let mut client = guest.client();
    let text = "echo again > /dev/stdout; echo more > /dev/stderr; cat /dev/stdin; echo x > /proc/self/fd/1";
    let start = StartJob { stdin: vestal_wire::Stdin::Piped, ..shell("pipes", text) };
    let channel = client.open(&CallRequest::Start(Box::new(start)));
    client.send_data(channel, Stream::Input, b"in\n");
    client.send_end(channel, Stream::Input);
    let (output, _) = client.follow(channel);
    assert_eq!(
        (output.stdout.as_slice(), output.stderr.as_slice()),
        (&b"again\nin\nx\n"[..], &b"more\n"[..])
    );
    let text = "stat -c %u $(tty); echo again > $(tty); echo ctty > /dev/tty; stty size";
    let pty = Some(WindowSize { rows: 24, cols: 80 });
    let (output, info) = client.run(StartJob { pty, ..shell("pty", text) });
    let shown = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    assert_eq!((code(&info), shown.as_str()), (Some(0), "54321\nagain\nctty\n24 80\n"));
}

#[test]
fn jobs_get_the_file_limit_that_the_guest_was_started_with() {
    if !is_root() {
        return;
    }
    let guest = for_app(As::PidOne);
    let mut client = guest.client();
    let hard = output_of(&mut client, "limit", "ulimit -Sn; ulimit -Hn");
    let hard = hard.strip_prefix("99\n").unwrap().trim();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", pid_of(&guest))).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(line.split_ascii_whitespace().nth(3), Some(hard));
}

#[test]
fn the_first_process_ends_in_order_with_jobs_of_the_user() {
    if !is_root() {
        return;
    }
    let mut guest = for_app(As::PidOne);
    let mut client = guest.client();
    client.background(shell(
        "job",
        "trap 'echo bye > ended; exit' TERM; : > ready; while :; do sleep 0.05; done",
    ));
    client.background(shell("deaf", "trap '' TERM; setsid sleep 1000 & : > deaf; sleep 1000"));
    wait_until("both jobs run", || {
        ["ready", "deaf"].iter().all(|name| guest.work_dir().join(name).exists())
    });
    let first = i32::try_from(pid_of(&guest)).unwrap();
    kill_process(Pid::from_raw(first).unwrap(), Signal::TERM).unwrap();
    assert!(guest.wait().success());
    assert_eq!(std::fs::read(guest.work_dir().join("ended")).unwrap(), b"bye\n");
    assert!(!guest.socket().exists());
    assert_eq!(processes_of(&guest, "deaf"), Vec::<u32>::new());
}

#[test]
fn what_an_earlier_instance_left_of_the_user_is_killed_at_the_start() {
    if !is_root() {
        return;
    }
    let earlier = format!("earlier-{}", std::process::id());
    let mark = format!("VESTAL_INSTANCE={earlier}");
    let mut left = [APP, 0].map(|uid| LeftBehind::start(uid, &mark));
    wait_until("both run", || {
        left.iter().all(|left| {
            let name = std::fs::read_to_string(format!("/proc/{}/comm", left.0.id()));
            name.unwrap().trim() == "sleep"
        })
    });
    let _guest = confined(As::Service, |settings| settings.previous_instances = vec![earlier]);
    for LeftBehind(child) in &mut left {
        let status = vestal_testkit::programs::wait(child);
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    }
}

/// A process as a confined guest would have had it run.
struct LeftBehind(std::process::Child);

impl LeftBehind {
    fn start(uid: u32, mark: &str) -> Self {
        let id = uid.to_string();
        let mut program = std::process::Command::new("setpriv");
        program.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--inh-caps=-all"]).args([
            "--bounding-set",
            CAPABILITIES,
            "env",
            mark,
            "sleep",
            "1000",
        ]);
        Self(program.spawn().unwrap())
    }
}

impl Drop for LeftBehind {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn a_user_that_the_image_does_not_know_is_a_number_or_an_error() {
    if !is_root() {
        return;
    }
    let guest = confined(As::PidOne, |settings| {
        settings.user = Some("4711".into());
        settings.home = Vec::new().into();
        settings.hand_over.clear();
        settings.start_dir = b"/".to_vec().into();
    });
    let mut client = guest.client();
    assert_eq!(
        output_of(&mut client, "who", "id -u; id -G; echo $HOME ~ [$USER]"),
        "4711\n0\n/ / []\n"
    );
    drop(client);
    drop(guest);
    let mut guest = try_confined(As::PidOne, |settings| settings.user = Some("nobody".into()));
    assert_eq!(guest.ready, "error: there is no user \"nobody\" in /etc/passwd of the image");
    assert_eq!(guest.wait().code(), Some(1));
}

#[test]
fn a_guest_that_is_not_root_is_its_own_user_or_says_that_it_cannot_be_another() {
    let own = rustix::process::geteuid().as_raw();
    let guest = TestGuest::with(|settings| settings.user = Some(own.to_string()));
    assert_eq!(output_of(&mut guest.client(), "who", "id -u"), format!("{own}\n"));
    if !is_root() {
        let settings = |settings: &mut vestal_wire::GuestSettings| settings.user = Some("0".into());
        let dir = tempfile::tempdir().unwrap();
        let mut refused = support::settings_in(dir.path());
        settings(&mut refused);
        let (status, printed) = TestGuest::second(&refused);
        assert_eq!(status.code(), Some(1));
        assert!(printed.contains(&format!("the guest is uid {own} and not root")), "{printed}");
    }
}

#[test]
fn detached_jobs_outlive_their_callers_under_another_user_too() {
    if !is_root() {
        return;
    }
    let guest = for_app(As::Service);
    let mut client = guest.client();
    let start = StartJob {
        background: true,
        delivery: OutputDelivery::Detached,
        ..shell("job", "sleep 0.1; id -u")
    };
    client.run(start);
    drop(client);
    let info = guest.client().wait(&id("job"));
    assert_eq!((code(&info), info.stdout_bytes), (Some(0), 6));
}
