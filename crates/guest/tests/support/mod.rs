//! A real guest in a temporary directory, and a small client that blocks.

#![allow(
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, of which each test program uses its own part"
)]

pub(crate) mod confined;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, ExitStatus, Stdio};

use vestal_testkit::processes::with_variable;
use vestal_testkit::{TEST_TIMEOUT, wait_until};
use vestal_wire::limits::MAX_DATA;
use vestal_wire::{
    CallEvent, CallReply, CallRequest, EnvVar, Fault, FrameKind, GuestSettings, Header, Hello,
    HostRole, JobCommand, JobExit, JobId, JobInfo, JobState, OutputDelivery, ShellText, StartJob,
    Stdin, Stream, Welcome, decode, encode, read_frame, write_frame,
};

/// A guest that runs, in directories of its own.
pub(crate) struct TestGuest {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) settings: GuestSettings,
    pub(crate) ready: String,
    pub(crate) child: Child,
}

impl TestGuest {
    pub(crate) fn start() -> Self {
        Self::with(|_| {})
    }

    /// Starts a guest whose settings are changed first.
    pub(crate) fn with(change: impl FnOnce(&mut GuestSettings)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = settings_in(dir.path());
        change(&mut settings);
        let (child, ready) = launch(&settings, None);
        assert!(ready.starts_with('{'), "the guest did not start: {ready}");
        Self { dir, settings, ready, child }
    }

    /// Starts a guest as the first process of a pid namespace, as it is in a
    /// container.
    pub(crate) fn as_pid_one() -> Self {
        Self::as_pid_one_with(None)
    }

    /// Starts one that dies at a failpoint after it was ready.
    pub(crate) fn as_pid_one_with(failpoint: Option<&str>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings_in(dir.path());
        let (child, ready) = launch_by(pid_one(), &settings, failpoint);
        assert!(ready.starts_with('{'), "the guest did not start: {ready}");
        Self { dir, settings, ready, child }
    }

    /// Starts a guest that dies at a failpoint, perhaps before it is ready.
    pub(crate) fn failing(failpoint: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings_in(dir.path());
        let (child, ready) = launch(&settings, Some(failpoint));
        Self { dir, settings, ready, child }
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("io/guest.sock")
    }

    pub(crate) fn work_dir(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn client(&self) -> Client {
        self.client_as(HostRole::User)
    }

    pub(crate) fn client_as(&self, role: HostRole) -> Client {
        Client::connect(&self.socket(), role, Some(self.settings.instance.clone()))
    }

    /// Kills the guest with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends the guest a signal.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits until the guest has ended by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        vestal_testkit::programs::wait(&mut self.child)
    }

    /// Starts another guest in the same directories after this one has ended.
    pub(crate) fn restart(&mut self) {
        self.restart_with(|_| {});
    }

    pub(crate) fn restart_with(&mut self, change: impl FnOnce(&mut GuestSettings)) {
        change(&mut self.settings);
        let (child, ready) = launch(&self.settings, None);
        assert!(ready.starts_with('{'), "the guest did not start again: {ready}");
        self.child = child;
        self.ready = ready;
    }

    /// Tries to start another guest with these settings; returns its output.
    pub(crate) fn second(settings: &GuestSettings) -> (ExitStatus, String) {
        let (mut child, ready) = launch(settings, None);
        if ready.starts_with('{') {
            child.kill().unwrap();
        }
        (child.wait().unwrap(), ready)
    }
}

impl Drop for TestGuest {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        // What it started dies with it, but not in the same moment; the
        // directory can only be removed when nobody writes to it any more.
        wait_until("nothing of it runs", || {
            processes_of_instance(&self.settings.instance).is_empty()
        });
    }
}

/// Returns the living processes of an instance.
pub(crate) fn processes_of_instance(instance: &str) -> Vec<u32> {
    with_variable(&format!("VESTAL_INSTANCE={instance}"))
}

/// Returns the living processes of a job.
pub(crate) fn processes_of(guest: &TestGuest, job: &str) -> Vec<u32> {
    let marked = with_variable(&format!("VESTAL_JOB={job}"));
    let own = processes_of_instance(&guest.settings.instance);
    marked.into_iter().filter(|pid| own.contains(pid)).collect()
}

/// Returns settings of a guest that lives in `dir`.
pub(crate) fn settings_in(dir: &Path) -> GuestSettings {
    for name in ["io", "work"] {
        std::fs::create_dir_all(dir.join(name)).unwrap();
    }
    let bytes = |path: PathBuf| path.into_os_string().into_encoded_bytes().into();
    let unique = dir.file_name().unwrap().to_string_lossy().replace('.', "");
    GuestSettings {
        instance: format!("test-{}-{unique}", std::process::id()),
        key: "key".into(),
        generation: 1,
        state_dir: bytes(dir.join("state")),
        socket_dir: bytes(dir.join("io")),
        retention_ms: None,
        owner_grace_ms: None,
        env: vec![
            var("PATH", "/usr/local/bin:/usr/bin:/bin"),
            var("HOME", dir.join("work").to_str().unwrap()),
        ],
        home: bytes(dir.join("work")),
        start_dir: bytes(dir.join("work")),
        log_bytes: 4 << 20,
        jobs_kept: 100,
        previous_instances: Vec::new(),
        ephemeral: false,
        user: None,
        socket_mode: None,
        inherit_env: false,
        hand_over: Vec::new(),
    }
}

/// Starts a guest and returns its first word.
fn launch(settings: &GuestSettings, failpoint: Option<&str>) -> (Child, String) {
    launch_by(Program::new(env!("CARGO_BIN_EXE_vestal-guest")), settings, failpoint)
}

/// Returns what starts a guest in namespaces of its own.
fn pid_one() -> Program {
    let mut program = Program::new("unshare");
    program
        .args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"])
        .arg(env!("CARGO_BIN_EXE_vestal-guest"));
    program
}

fn launch_by(
    program: Program,
    settings: &GuestSettings,
    failpoint: Option<&str>,
) -> (Child, String) {
    let settings_file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(settings_file.path(), encode(settings).unwrap()).unwrap();
    let (ready_read, ready_write) = rustix::pipe::pipe().unwrap();
    let child = spawn(program, settings_file.path(), &ready_write, failpoint);
    drop(ready_write);
    let mut ready = String::new();
    BufReader::new(File::from(ready_read)).read_line(&mut ready).unwrap();
    (child, ready.trim_end().to_owned())
}

fn spawn(mut program: Program, settings: &Path, ready: &OwnedFd, failpoint: Option<&str>) -> Child {
    program
        .args(["serve", "--ready-fd", &ready.as_raw_fd().to_string()])
        .arg("--settings")
        .arg(settings)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .envs(failpoint.map(|name| ("VESTAL_GUEST_FAILPOINT", name)))
        .process_group(0);
    // The pipe of this test is inherited; those of tests that run at the same
    // time in other threads are closed when their own child has been started.
    program.spawn().unwrap()
}

/// A connection to a guest.
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    pub(crate) welcome: Welcome,
    next: u32,
    waiting: HashMap<u32, VecDeque<GuestMessage>>,
    /// Whether the client takes every byte at once.
    pub(crate) grants: bool,
}

/// A message of a guest on a channel.
#[derive(Debug)]
pub(crate) enum GuestMessage {
    Event(CallEvent),
    Data(Stream, Vec<u8>),
    Credit(Stream, u32),
    Reply(CallReply),
}

/// All messages and output of a job.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    /// Gaps as stream, offset in the bytes received, and length.
    pub(crate) gaps: Vec<(u8, usize, u64)>,
    pub(crate) started: Option<u32>,
    pub(crate) ended: Option<JobInfo>,
}

impl Client {
    pub(crate) fn connect(socket: &Path, role: HostRole, instance: Option<String>) -> Self {
        Self::try_connect(socket, &Hello::new(role, instance)).unwrap()
    }

    /// Connects; the guest may refuse.
    pub(crate) fn try_connect(socket: &Path, hello: &Hello) -> Result<Self, Fault> {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TEST_TIMEOUT)).unwrap();
        write_frame(&mut stream, 0, FrameKind::Hello, Stream::Input, &encode(hello).unwrap())
            .unwrap();
        let (header, payload) = read_frame(&mut stream).unwrap();
        assert_eq!(header.kind, FrameKind::Welcome);
        match decode(&payload) {
            Ok(welcome) => {
                Ok(Self { stream, welcome, next: 1, waiting: HashMap::new(), grants: true })
            }
            Err(_) => Err(decode(&payload).unwrap()),
        }
    }

    /// Opens a channel.
    pub(crate) fn open(&mut self, request: &CallRequest) -> u32 {
        let channel = self.next;
        self.next += 1;
        self.send(channel, FrameKind::Open, Stream::Input, &encode(request).unwrap());
        channel
    }

    pub(crate) fn send(&mut self, channel: u32, kind: FrameKind, stream: Stream, payload: &[u8]) {
        write_frame(&mut self.stream, channel, kind, stream, payload).unwrap();
    }

    /// Sends bytes, within the window.
    pub(crate) fn send_data(&mut self, channel: u32, stream: Stream, bytes: &[u8]) {
        let mut window = vestal_wire::limits::WINDOW as usize;
        for piece in bytes.chunks(MAX_DATA) {
            while window < piece.len() {
                match self.next_on(channel) {
                    GuestMessage::Credit(_, granted) => window += granted as usize,
                    other => self.waiting.entry(channel).or_default().push_back(other),
                }
            }
            window -= piece.len();
            self.send(channel, FrameKind::Data, stream, piece);
        }
    }

    pub(crate) fn send_end(&mut self, channel: u32, stream: Stream) {
        self.send(channel, FrameKind::End, stream, &[]);
    }

    pub(crate) fn grant(&mut self, channel: u32, stream: Stream, bytes: u32) {
        self.send(channel, FrameKind::Credit, stream, &bytes.to_le_bytes());
    }

    /// Calls and waits for the reply.
    pub(crate) fn call(&mut self, request: &CallRequest) -> CallReply {
        let channel = self.open(request);
        self.reply(channel)
    }

    /// Waits for the reply on a channel, passing over what comes before.
    pub(crate) fn reply(&mut self, channel: u32) -> CallReply {
        loop {
            if let GuestMessage::Reply(reply) = self.next_on(channel) {
                return reply;
            }
        }
    }

    /// Returns the next message on a channel.
    pub(crate) fn next_on(&mut self, channel: u32) -> GuestMessage {
        if let Some(message) = self.waiting.get_mut(&channel).and_then(VecDeque::pop_front) {
            return message;
        }
        loop {
            let (from, message) = self.read();
            if from == channel {
                return message;
            }
            self.waiting.entry(from).or_default().push_back(message);
        }
    }

    fn read(&mut self) -> (u32, GuestMessage) {
        let (header, payload) = read_frame(&mut self.stream).expect("the guest hung up");
        (header.channel, self.understand(header, payload))
    }

    fn understand(&mut self, header: Header, payload: Vec<u8>) -> GuestMessage {
        match header.kind {
            FrameKind::Event => GuestMessage::Event(decode(&payload).unwrap()),
            FrameKind::Reply => GuestMessage::Reply(decode(&payload).unwrap()),
            FrameKind::Credit => {
                GuestMessage::Credit(header.stream, u32::from_le_bytes(payload.try_into().unwrap()))
            }
            FrameKind::Data => {
                if self.grants {
                    let len = u32::try_from(payload.len()).unwrap();
                    // The guest may be gone by now.
                    let bytes = len.to_le_bytes();
                    write_frame(
                        &mut self.stream,
                        header.channel,
                        FrameKind::Credit,
                        header.stream,
                        &bytes,
                    )
                    .ok();
                }
                GuestMessage::Data(header.stream, payload)
            }
            other => panic!("a guest never sends {other:?}"),
        }
    }

    /// Follows a channel to its reply.
    pub(crate) fn follow(&mut self, channel: u32) -> (Output, CallReply) {
        let mut output = Output::default();
        loop {
            match self.next_on(channel) {
                GuestMessage::Event(CallEvent::Started { pid }) => output.started = Some(pid),
                GuestMessage::Event(CallEvent::Ended(info)) => output.ended = Some(*info),
                GuestMessage::Event(CallEvent::Gap { stream, bytes }) => {
                    let at = if stream == 1 { output.stdout.len() } else { output.stderr.len() };
                    output.gaps.push((stream, at, bytes));
                }
                GuestMessage::Data(Stream::Stderr, bytes) => output.stderr.extend(bytes),
                GuestMessage::Data(_, bytes) => output.stdout.extend(bytes),
                GuestMessage::Credit(..) => {}
                GuestMessage::Reply(reply) => return (output, reply),
            }
        }
    }

    /// Runs a command to its end.
    pub(crate) fn run(&mut self, start: StartJob) -> (Output, JobInfo) {
        let channel = self.open(&CallRequest::Start(Box::new(start)));
        match self.follow(channel) {
            (output, CallReply::Job(info)) => (output, *info),
            (_, other) => panic!("{other:?}"),
        }
    }

    /// Starts a background job and returns what is known of it.
    pub(crate) fn background(&mut self, start: StartJob) -> JobInfo {
        let start = StartJob { background: true, delivery: OutputDelivery::Detached, ..start };
        self.run(start).1
    }

    /// Waits for a job's end.
    pub(crate) fn wait(&mut self, id: &JobId) -> JobInfo {
        job(self.call(&CallRequest::Wait { id: id.clone(), timeout_ms: None }))
    }

    pub(crate) fn kill(&mut self, id: &JobId) -> JobInfo {
        job(self.call(&CallRequest::Kill { id: id.clone() }))
    }
}

/// Returns the job of a reply.
pub(crate) fn job(reply: CallReply) -> JobInfo {
    match reply {
        CallReply::Job(info) => *info,
        other => panic!("{other:?}"),
    }
}

/// Returns the fault of a reply.
pub(crate) fn fault(reply: CallReply) -> Fault {
    match reply {
        CallReply::Fault(fault) => fault,
        other => panic!("{other:?}"),
    }
}

/// Returns how a job ended.
pub(crate) fn exit(info: &JobInfo) -> JobExit {
    match info.state {
        JobState::Ended(exit) => exit,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn code(info: &JobInfo) -> Option<u8> {
    exit(info).code
}

pub(crate) fn id(text: &str) -> JobId {
    text.parse().unwrap()
}

pub(crate) fn var(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.as_bytes().to_vec().into(), value: value.as_bytes().to_vec().into() }
}

/// Returns the start of a foreground shell command without a session, every
/// byte of whose output is wanted.
pub(crate) fn shell(name: &str, text: &str) -> StartJob {
    StartJob {
        id: id(name),
        command: JobCommand::Shell(ShellText::Inline(text.as_bytes().to_vec().into())),
        session: None,
        workdir: None,
        start_dir: None,
        env: None,
        job_env: Vec::new(),
        stdin: Stdin::Null,
        pty: None,
        merge: false,
        timeout_ms: None,
        background: false,
        delivery: OutputDelivery::EveryByte,
    }
}
