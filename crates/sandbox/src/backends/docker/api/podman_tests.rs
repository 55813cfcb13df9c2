use std::fs;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;

use super::super::fake_engine::write_program;
use super::*;

/// A `podman` of the test's own: the script says that it was started and stays
/// until the test lets it go; the test itself listens on the socket.
struct FakePodman {
    dir: TempDir,
}

impl FakePodman {
    fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("podman");
        write_program(&program, &format!("cd '{}'\n{script}", dir.path().display()));
        let fifo = dir.path().join("stay");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn service(&self) -> PodmanService {
        self.service_in(&self.path("run"))
    }

    fn service_in(&self, run_dir: &Path) -> PodmanService {
        let environment = Environment::from_pairs([
            ("PATH", "/usr/bin:/bin"),
            ("HOME", "/home/me"),
            ("API_TOKEN", "hunter2"),
        ]);
        PodmanService::new(self.path("podman"), run_dir, &environment)
    }

    /// Waits until the script has written a file.
    async fn written(&self, name: &str) -> String {
        loop {
            match fs::read_to_string(self.path(name)) {
                Ok(text) if text.ends_with('\n') => return text,
                _ => sleep(Duration::from_millis(5)).await,
            }
        }
    }

    /// Answers pings on the service's socket once the script was started.
    async fn serve(&self) {
        self.written("started").await;
        let listener = UnixListener::bind(self.path("run").join(SOCKET)).unwrap();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 16];
            stream.read_exact(&mut request).await.ok();
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nLibpod-Api-Version: 4\r\n\r\n")
                .await
                .ok();
        }
    }
}

impl Drop for FakePodman {
    fn drop(&mut self) {
        // A process that still waits is released; without a reader this fails at once.
        let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
        rustix::fs::open(self.path("stay"), flags, rustix::fs::Mode::empty()).ok();
    }
}

const STAYS: &str = r#"echo "$@" >> started; read -r _ < stay"#;

#[tokio::test]
async fn a_stampede_starts_one_service_past_a_stale_socket() {
    let podman = FakePodman::new(STAYS);
    fs::create_dir(podman.path("run")).unwrap();
    drop(UnixListener::bind(podman.path("run").join(SOCKET)).unwrap());
    let service = podman.service();
    let stampede = futures_util::future::join_all((0..8).map(|_| service.ensure()));
    let greetings = tokio::select! {
        greetings = stampede => greetings,
        () = podman.serve() => unreachable!("the service listens for ever"),
    };
    for ping in greetings {
        assert_eq!(ping.unwrap().flavour, super::super::info::Flavour::Podman);
    }
    let socket = podman.path("run").join(SOCKET);
    let expected =
        format!("--log-level error system service --time 30 unix://{}\n", socket.display());
    assert_eq!(podman.written("started").await, expected);
}

#[tokio::test]
async fn a_service_that_answers_is_not_started_again() {
    let podman = FakePodman::new(STAYS);
    fs::create_dir(podman.path("run")).unwrap();
    fs::write(podman.path("started"), "before\n").unwrap();
    let service = podman.service();
    let pinged = async {
        while !service.socket().exists() {
            tokio::task::yield_now().await;
        }
        service.ensure().await
    };
    tokio::select! {
        ping = pinged => drop(ping.unwrap()),
        () = podman.serve() => unreachable!("the service listens for ever"),
    }
    assert_eq!(podman.written("started").await, "before\n");
}

#[tokio::test]
async fn a_service_that_fails_says_why() {
    let podman = FakePodman::new("echo noise >&2; echo 'cannot set up namespace' >&2; exit 3");
    let error = podman.service().ensure().await.unwrap_err();
    let problem = error.to_string();
    assert!(problem.contains("podman.sock (started on demand)"), "{problem}");
    assert!(problem.ends_with("(exit status: 3): cannot set up namespace"), "{problem}");
    assert!(error.advice().unwrap().contains("podman info"));
}

#[tokio::test]
async fn a_service_gets_a_session_of_its_own_and_none_of_the_callers_secrets() {
    let podman = FakePodman::new(
        "env > environment; cut -d' ' -f6 /proc/$$/stat > session; echo $$ > pid; \
         stdio=$(readlink /proc/$$/fd/0 /proc/$$/fd/1); echo \"$stdio\" > stdio; exit 1",
    );
    podman.service().ensure().await.unwrap_err();
    let environment = podman.written("environment").await;
    assert!(environment.contains("HOME=/home/me"), "{environment}");
    assert!(!environment.contains("hunter2"), "{environment}");
    assert_eq!(podman.written("session").await, podman.written("pid").await);
    assert_eq!(podman.written("stdio").await, "/dev/null\n/dev/null\n");
}

#[tokio::test]
async fn what_is_no_socket_is_not_removed() {
    let podman = FakePodman::new(STAYS);
    fs::create_dir(podman.path("run")).unwrap();
    let path = podman.path("run").join(SOCKET);
    fs::write(&path, "precious").unwrap();
    let error = podman.service().ensure().await.unwrap_err();
    assert!(error.to_string().contains("is not a socket"), "{error}");
    assert_eq!(fs::read_to_string(path).unwrap(), "precious");
}
