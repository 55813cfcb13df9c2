//! A sandbox with an attacker in it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use vestal_sandbox::files::WriteOptions;
use vestal_sandbox::{Command, Engine, Sandbox, TaskName};

use crate::planted::Planted;
use crate::support::BackendFixture;

/// What the attacker runs.
const ATTACK: &str = include_str!("attack.c");

/// No directory of the fixture is in a sandbox by itself.
const NOTHING_ELSE: &str = "terminal.docker_volumes=[]";

/// A sandbox with an attacker in it, and what was planted on the host for it.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) fixture: BackendFixture,
    pub(crate) planted: Planted,
    settings: Vec<String>,
    sandbox: Sandbox,
}

impl Cell {
    /// Returns a cell without walls.
    pub(crate) async fn local() -> Self {
        Self::with_fixture(BackendFixture::local(), Vec::new()).await
    }

    /// Returns a cell with the host's system, as far as that is shown.
    pub(crate) async fn native() -> Self {
        Self::with_fixture(BackendFixture::native(), Vec::new()).await
    }

    /// Returns the same for somebody who can hand out no subordinate ids.
    pub(crate) async fn alone() -> Self {
        // The programs that do it are set-uid.
        rustix::thread::set_no_new_privs(true).unwrap();
        let cell = Self::native().await;
        assert!(!cell.has_several_users().await);
        cell
    }

    /// Returns a cell with a system of its own.
    pub(crate) async fn rootfs() -> Self {
        let fixture = BackendFixture::native();
        let rootfs = fixture.scratch("rootfs");
        make_system(&rootfs);
        let setting = format!("terminal.native_rootfs={}", rootfs.display());
        Self::with_fixture(fixture, vec![setting]).await
    }

    async fn with_fixture(fixture: BackendFixture, mut settings: Vec<String>) -> Self {
        settings.push(NOTHING_ELSE.to_owned());
        let planted = Planted::around(&fixture);
        let sandbox =
            engine(&fixture, &settings, &[]).sandbox(&TaskName::default_task()).await.unwrap();
        let cell = Self { fixture, planted, settings, sandbox };
        cell.arm(&cell.sandbox).await;
        cell
    }

    /// Returns whether there are walls at all.
    pub(crate) fn is_enclosed(&self) -> bool {
        self.fixture.is_contained()
    }

    /// Returns whether there is anybody but root.
    pub(crate) async fn has_several_users(&self) -> bool {
        self.run("awk '{ count += $3 } END { print count }' /proc/self/uid_map").await != "1\n"
    }

    /// Returns another engine on the same home, with further settings.
    pub(crate) fn engine(&self, further: &[&str]) -> Engine {
        engine(&self.fixture, &self.settings, further)
    }

    /// Returns the sandbox of a task with further settings, with an attacker in
    /// it.
    pub(crate) async fn another(&self, task: &str, further: &[&str]) -> Sandbox {
        let task = task.parse().unwrap();
        let sandbox = self.engine(further).sandbox(&task).await.unwrap();
        self.arm(&sandbox).await;
        sandbox
    }

    /// Gives a sandbox its attacker.
    async fn arm(&self, sandbox: &Sandbox) {
        let program = std::fs::read(program(&self.fixture)).unwrap();
        let files = sandbox.files(None).await.unwrap();
        let options = WriteOptions { mode: Some(0o755), ..WriteOptions::default() };
        files.write("~/attack", &program, options).await.unwrap();
    }

    /// Runs shell text and returns what it prints, whatever else it complains of.
    pub(crate) async fn run(&self, text: &str) -> String {
        run_in(&self.sandbox, text).await
    }

    /// Makes attempts and returns what came of each.
    pub(crate) async fn attempt(&self, attempts: &[&str]) -> Outcomes {
        attempt_in(&self.sandbox, "", attempts).await
    }

    /// The same for attempts that change mounts: without walls, in a mount
    /// namespace of their own.
    pub(crate) async fn attempt_apart(&self, attempts: &[&str]) -> Outcomes {
        let apart = if self.is_enclosed() { "" } else { "unshare --mount " };
        attempt_in(&self.sandbox, apart, attempts).await
    }

    /// Checks that each attempt was refused, or, where there are no walls, was
    /// not: then it is the walls that refuse it.
    pub(crate) async fn expect_refused(&self, attempts: &[&str]) {
        self.judge(&self.attempt(attempts).await);
    }

    /// Checks the same of attempts that were made.
    pub(crate) fn judge(&self, outcomes: &Outcomes) {
        let wrong: Vec<_> =
            outcomes.0.iter().filter(|(_, outcome)| !self.is_right(outcome)).collect();
        assert!(wrong.is_empty(), "enclosed: {}, yet {wrong:?}", self.is_enclosed());
    }

    fn is_right(&self, outcome: &str) -> bool {
        let refused = ["EPERM", "EACCES", "EROFS", "SIGSYS"].contains(&outcome);
        // Without walls this is said by a kernel that really has no such thing.
        let missing = ["ENOSYS", "EAFNOSUPPORT"].contains(&outcome);
        if self.is_enclosed() { refused || missing } else { !refused }
    }

    /// Checks whether something of the host was reached.
    pub(crate) fn expect_unreached(&self, reached: bool, what: &str) {
        assert_eq!(reached, !self.is_enclosed(), "reached: {what}");
    }

    /// Returns the directory of the sandbox's instance on the host.
    pub(crate) async fn instance_dir(&self) -> PathBuf {
        let instances = self.fixture.sandbox_dir("default").join("instances");
        instances.join(self.sandbox.instance().await)
    }

    /// Removes everything and checks that nothing is left.
    pub(crate) async fn finish(self) {
        let Self { fixture, planted, sandbox, .. } = self;
        drop(sandbox);
        planted.assert_untouched();
        fixture.finish().await;
    }
}

/// Runs shell text and returns what it prints.
pub(crate) async fn run_in(sandbox: &Sandbox, text: &str) -> String {
    sandbox.run(Command::shell(text)).await.unwrap().stdout.text()
}

/// Makes attempts and returns what came of each.
pub(crate) async fn attempt_in(sandbox: &Sandbox, prefix: &str, attempts: &[&str]) -> Outcomes {
    let quoted: Vec<String> = attempts.iter().map(|attempt| format!("\"{attempt}\"")).collect();
    let text = format!("cd; {prefix}./attack {}", quoted.join(" "));
    let printed = run_in(sandbox, &text).await;
    let parse = |line: &str| {
        let (asked, outcome) = line.rsplit_once(' ').unwrap();
        // What was found is said after what was asked for.
        match line.split_once(" done: ") {
            Some((asked, found)) => (asked.to_owned(), format!("done: {found}")),
            None => (asked.to_owned(), outcome.to_owned()),
        }
    };
    let outcomes: BTreeMap<String, String> = printed.lines().map(parse).collect();
    assert_eq!(outcomes.len(), attempts.len(), "{printed}");
    let unknown = |outcome: &String| outcome == "unknown";
    assert!(!outcomes.values().any(unknown), "{printed}");
    Outcomes(outcomes)
}

/// What came of attempts: `done`, the name of an error or of a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcomes(pub(crate) BTreeMap<String, String>);

impl Outcomes {
    /// Returns the attempts that reached what they were after.
    pub(crate) fn reached(&self) -> Vec<&str> {
        let done = self.0.iter().filter(|(_, outcome)| outcome.starts_with("done"));
        done.map(|(asked, _)| asked.as_str()).collect()
    }
}

fn engine(fixture: &BackendFixture, settings: &[String], further: &[&str]) -> Engine {
    let all: Vec<&str> =
        settings.iter().map(String::as_str).chain(further.iter().copied()).collect();
    fixture.engine_with(&all)
}

/// Returns the attacker's program.
fn program(fixture: &BackendFixture) -> PathBuf {
    let program = fixture.scratch("attack");
    if !program.exists() {
        let mut compiler = Process::new("cc")
            .args(["-x", "c", "-O1", "-Wall", "-Wextra", "-Werror", "-static", "-o"])
            .arg(&program)
            .arg("-")
            .stdin(Stdio::piped())
            .spawn()
            .expect("cc is there, which links Rust programs, too");
        compiler.stdin.take().unwrap().write_all(ATTACK.as_bytes()).unwrap();
        assert!(compiler.wait().unwrap().success(), "the C library can be linked statically");
    }
    program
}

/// Makes a system of a static shell and its tools.
fn make_system(dir: &Path) {
    let bin = dir.join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].iter().find(|path| Path::new(path).exists());
    std::fs::copy(busybox.expect("busybox-static is installed"), bin.join("busybox")).unwrap();
    for tool in
        ["sh", "cat", "chmod", "cp", "ln", "ls", "mkdir", "mkfifo", "mv", "rm", "tr", "truncate"]
    {
        std::os::unix::fs::symlink("busybox", bin.join(tool)).unwrap();
    }
}
