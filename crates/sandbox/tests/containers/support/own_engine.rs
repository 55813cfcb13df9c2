//! An engine of a test's own, to be killed and started again.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use tokio::process::Command as Process;

use super::given;

/// An engine that nobody else uses.
#[derive(Debug)]
pub(crate) struct OwnEngine {
    script: String,
    kind: &'static str,
    root: tempfile::TempDir,
    host: String,
}

impl OwnEngine {
    /// Starts a Docker engine with the small test images.
    pub(crate) async fn docker(options: &[&str]) -> Self {
        Self::start("docker", options).await
    }

    /// Starts a Podman engine with the small test images.
    pub(crate) async fn podman(options: &[&str]) -> Self {
        Self::start("podman", options).await
    }

    async fn start(kind: &'static str, options: &[&str]) -> Self {
        let script = given("VESTAL_TEST_ENGINE");
        let root = tempfile::tempdir().unwrap();
        // Other users can reach its socket, if they may use that.
        let mode = std::fs::Permissions::from_mode(0o711);
        std::fs::set_permissions(root.path(), mode).unwrap();
        let mut engine = Self { script, kind, root, host: String::new() };
        let pid = std::process::id().to_string();
        let mut words = vec!["--images", "small", "--until", &pid];
        words.extend(options);
        engine.host = engine.command("start", &words).await;
        engine
    }

    /// Returns where it listens.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Lets everyone use it.
    pub(crate) fn open_to_everyone(&self) {
        let socket = self.host.strip_prefix("unix://").unwrap();
        let mode = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(socket, mode).unwrap();
    }

    /// Kills the daemon; containers are left to themselves.
    pub(crate) async fn kill(&self) {
        self.command("kill", &[]).await;
    }

    /// Ends the daemon as a service manager does.
    pub(crate) async fn halt(&self) {
        self.command("halt", &[]).await;
    }

    /// Starts the daemon again.
    pub(crate) async fn again(&self) {
        self.command("start", &[]).await;
    }

    async fn command(&self, verb: &str, words: &[&str]) -> String {
        let output = Process::new(&self.script)
            .args([self.kind, verb])
            .arg(self.root.path().join("e"))
            .args(words)
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        assert!(output.status.success(), "{verb}: {}", text(&output.stderr));
        text(&output.stdout)
    }
}

impl Drop for OwnEngine {
    fn drop(&mut self) {
        let ended = std::process::Command::new(&self.script)
            .args([self.kind, "stop"])
            .arg(self.root.path().join("e"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status();
        assert!(
            ended.is_ok_and(|status| status.success()) || std::thread::panicking(),
            "the engine of this test does not stop"
        );
    }
}
