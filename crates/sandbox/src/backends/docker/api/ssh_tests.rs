use std::fs;

use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;

use super::super::client::EngineClient;
use super::super::fake_engine::{PING, settings, write_program};
use super::super::info::Flavour;
use super::*;

/// Answers one request with what is in `answer`, then waits for the end.
const ANSWERS: &str = r#"
while read -r line; do [ "$line" = "$(printf '\r')" ] && break; done
cat answer
exec cat > rest
"#;

/// An `ssh` of the test's own, and an engine behind it.
struct FakeSsh {
    dir: TempDir,
}

impl FakeSsh {
    fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("ssh");
        let script =
            format!("cd '{}'\nprintf '%s\\n' \"$@\" > arguments\n{script}", dir.path().display());
        write_program(&program, &script);
        fs::write(dir.path().join("answer"), PING).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn environment(&self) -> Environment {
        let path = format!("{}:/usr/bin:/bin", self.dir.path().display());
        Environment::from_pairs([("PATH", path.as_str())])
    }

    fn tunnel(&self) -> EngineTunnel {
        let login =
            SshLogin { user: Some("me".to_owned()), host: "far".to_owned(), port: Some(2222) };
        open(&login, &self.path("run"), &self.environment()).unwrap()
    }

    async fn connect(&self, host: &str) -> Result<EngineClient, BackendError> {
        let path = format!("{}:/usr/bin:/bin", self.dir.path().display());
        let variables = [("DOCKER_HOST", host), ("PATH", &path)];
        let settings = settings(self.dir.path(), variables, &[]);
        EngineClient::connect(&settings, &self.path("run")).await
    }
}

#[tokio::test]
async fn an_engine_behind_a_login_greets() {
    let ssh = FakeSsh::new(ANSWERS);
    let client = ssh.connect("ssh://me@far:2222").await.unwrap();
    assert_eq!((client.flavour(), client.is_remote()), (Flavour::Docker, true));
    assert_eq!(client.address(), "ssh://me@far:2222 (DOCKER_HOST)");
    let arguments = fs::read_to_string(ssh.path("arguments")).unwrap();
    assert!(arguments.contains("BatchMode=yes"), "{arguments}");
    assert!(arguments.contains("\n-l\nme\n-p\n2222\n--\nfar\nsh -c 'command -v"), "{arguments}");
    let left: Vec<_> = fs::read_dir(ssh.path("run")).unwrap().collect();
    assert!(left.is_empty(), "the socket has no name: {left:?}");
}

#[tokio::test]
async fn a_login_that_fails_says_why_and_what_to_try() {
    let ssh = FakeSsh::new("echo 'me@far: Permission denied (publickey).' >&2; exit 255");
    let error = ssh.connect("ssh://me@far:2222").await.unwrap_err();
    let problem = error.to_string();
    assert!(problem.ends_with("me@far: Permission denied (publickey)"), "{problem}");
    assert!(problem.contains("ssh://me@far:2222 (DOCKER_HOST) cannot be reached"), "{problem}");
    assert!(error.advice().unwrap().contains("`ssh -p 2222 me@far docker version`"));
}

#[tokio::test]
async fn without_an_ssh_the_error_advises_to_install_one() {
    let dir = tempfile::tempdir().unwrap();
    let login = SshLogin { user: None, host: "far".to_owned(), port: None };
    let environment = Environment::from_pairs([("PATH", "/nowhere")]);
    let error = open(&login, dir.path(), &environment).unwrap_err();
    assert!(error.to_string().contains("ssh is not on PATH"), "{error}");
}

#[tokio::test]
async fn each_direction_may_end_by_itself() {
    let ssh = FakeSsh::new("cat > heard; printf 'said after all was heard'; exec 1>&-; exit 0");
    let tunnel = ssh.tunnel();
    let mut stream = UnixStream::connect(tunnel.path()).await.unwrap();
    stream.write_all(b"all of it").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "said after all was heard");
    assert_eq!(fs::read_to_string(ssh.path("heard")).unwrap(), "all of it");
    assert_eq!(tunnel.last_failure(), None);
}

/// Starts an `ssh` that reads for ever, and returns a pipe that ends with it.
async fn endless(
    ssh: &FakeSsh,
    tunnel: &EngineTunnel,
) -> (UnixStream, tokio::net::unix::pipe::Receiver) {
    let fifo = ssh.path("alive");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let mut alive = tokio::net::unix::pipe::OpenOptions::new().open_receiver(&fifo).unwrap();
    let stream = UnixStream::connect(tunnel.path()).await.unwrap();
    let mut word = [0; 3];
    alive.read_exact(&mut word).await.unwrap();
    (stream, alive)
}

const ENDLESS: &str = "exec 9> alive; echo up >&9; read -r _; while :; do read -r _ < hold; done";

#[tokio::test]
async fn an_ssh_whose_caller_left_is_ended() {
    let ssh = FakeSsh::new(ENDLESS);
    hold(&ssh);
    let tunnel = ssh.tunnel();
    let (stream, mut alive) = endless(&ssh, &tunnel).await;
    drop(stream);
    assert_eq!(alive.read_to_end(&mut Vec::new()).await.unwrap(), 0);
}

#[tokio::test]
async fn every_ssh_ends_with_its_bridge() {
    let ssh = FakeSsh::new(ENDLESS);
    hold(&ssh);
    let tunnel = ssh.tunnel();
    let (_stream, mut alive) = endless(&ssh, &tunnel).await;
    drop(tunnel);
    assert_eq!(alive.read_to_end(&mut Vec::new()).await.unwrap(), 0);
}

/// Makes what the script waits for when its input has ended: nobody ever
/// writes to it.
fn hold(ssh: &FakeSsh) {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let path = ssh.path("hold");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

#[test]
fn a_place_that_cannot_be_written_down_is_not_shared() {
    let login = SshLogin { user: None, host: "far".to_owned(), port: None };
    let arguments = |dir: &str| {
        let ssh = SshCommand::new("ssh".into(), &login, Path::new(dir), &Environment::default());
        ssh.arguments.join(" ")
    };
    assert!(arguments("/a b%c").contains("ControlPath=\"/a b%%c/ssh-%C\""));
    assert!(!arguments("/a\"b").contains("Control"));
}

#[tokio::test]
async fn ssh_may_say_much_and_the_end_is_kept() {
    let flood = format!("{}\none\n\ntwo.\nthree.\n", "x".repeat(100_000));
    assert_eq!(stderr_tail(flood.as_bytes()).await.unwrap(), "one; two.; three");
    assert_eq!(stderr_tail(&b" \n"[..]).await, None);
}
