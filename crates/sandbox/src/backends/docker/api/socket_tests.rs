use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use proptest::prelude::*;
use tempfile::TempDir;
use tokio::net::UnixListener;

use super::*;

#[test]
fn a_deep_home_gets_a_short_socket_elsewhere() {
    let deep = PathBuf::from(format!("/{}/run", "d".repeat(120)));
    let runtime = Environment::from_pairs([("XDG_RUNTIME_DIR", "/run/user/7")]);
    let dir = private_dir(&deep, 11, &runtime);
    assert!(dir.starts_with("/run/user/7"), "{dir:?}");
    assert_eq!(dir, private_dir(&deep, 11, &runtime), "the same for every process");
    assert_ne!(dir, private_dir(&deep.join("x"), 11, &runtime), "another for every home");
    assert!(private_dir(&deep, 11, &Environment::default()).starts_with("/tmp"));
    let long = format!("/{}", "r".repeat(100));
    let long = Environment::from_pairs([("XDG_RUNTIME_DIR", long)]);
    assert!(private_dir(&deep, 11, &long).starts_with("/tmp"));
    assert_eq!(private_dir(Path::new("/home/me/run"), 11, &runtime), Path::new("/home/me/run"));
}

#[test]
fn a_directory_for_sockets_is_this_users_alone() {
    let dir = tempfile::tempdir().unwrap();
    let made = dir.path().join("a/b");
    let mode = || fs::metadata(&made).unwrap().permissions().mode() & 0o777;
    make_private(&made).unwrap();
    assert_eq!(mode(), 0o700);
    fs::set_permissions(&made, fs::Permissions::from_mode(0o775)).unwrap();
    make_private(&made).unwrap();
    assert_eq!(mode(), 0o755, "others may not write to it");
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(dir.path(), &link).unwrap();
    assert!(make_private(&link).is_err(), "the maker of the link decides where it leads");
}

const DOCKER: &str = "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nServer: Docker/20.10 (linux)\r\n\
                      Content-Length: 2\r\n\r\nOK";

const TEST_TIMEOUT: Duration = Duration::from_mins(1);

/// A listener that treats its one caller as the test says.
struct Engine {
    _dir: TempDir,
    path: PathBuf,
    listener: UnixListener,
}

fn engine() -> Engine {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("engine.sock");
    let listener = UnixListener::bind(&path).unwrap();
    Engine { _dir: dir, path, listener }
}

/// Returns what a caller makes of an engine that answers so.
async fn pinged(pieces: &[&[u8]]) -> Result<Ping, PingError> {
    let engine = engine();
    let serve = async {
        let (mut stream, _) = engine.listener.accept().await.unwrap();
        // A listener that hangs up on unread words would reset the connection.
        let mut request = [0; REQUEST.len()];
        stream.read_exact(&mut request).await.unwrap();
        assert_eq!(request, *REQUEST);
        for piece in pieces {
            // The caller may have heard enough.
            stream.write_all(piece).await.ok();
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(ping(&engine.path, TEST_TIMEOUT), serve).0
}

fn version(minor_version: usize) -> ClientVersion {
    ClientVersion { major_version: 1, minor_version }
}

#[tokio::test]
async fn docker_and_podman_say_who_they_are() {
    let docker = pinged(&[DOCKER.as_bytes()]).await.unwrap();
    assert_eq!(docker, Ping { api: version(41), flavour: Flavour::Docker });
    let podman = pinged(&[
        b"HTTP/1.0 200 OK\r\napi-version:1.40\r\nLibpod-Api-Vers",
        b"ion: 4.3.1\r\n\r",
        b"\nOK",
    ])
    .await
    .unwrap();
    assert_eq!(podman, Ping { api: version(40), flavour: Flavour::Podman });
}

#[tokio::test]
async fn what_is_no_engine_is_distinguished_from_one() {
    let flood = vec![b'x'; 1 << 16];
    let header = format!("HTTP/1.1 200 OK\r\nX: {}\r\n", "y".repeat(1 << 16));
    for (pieces, part) in [
        (&[b"SSH-2.0-OpenSSH_9\r\n\r\n".as_slice()][..], "is not HTTP"),
        (&[b"HTTP/1.1 403 Forbidden\r\nApi-Version: 1.41\r\n\r\n"], "status 403"),
        (&[b"HTTP/1.1 200 OK\r\n\r\n"], "no API version"),
        (&[b"HTTP/1.1 200 OK\r\nApi-Version: 1.41.\r\n\r\n"], "cannot be parsed"),
        (&[b"HTTP/1.1 200 OK\r\nApi-Version: 99999.1\r\n\r\n"], "cannot be parsed"),
        (
            &[b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nApi-Version: 1.41\r\n\r\n"],
            "no API version",
        ),
        (&[b"HTTP/1.1 200 OK\r\nApi-Ver"], "closed the connection"),
        (&[], "closed the connection"),
        (&[&flood], "too long"),
        (&[header.as_bytes()], "too long"),
        (&[b"\xff\xfe\x00\r\n\r\n"], "is not HTTP"),
    ] {
        let error = pinged(pieces).await.unwrap_err();
        assert!(matches!(error, PingError::NotAnEngine(_)), "{error:?}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[tokio::test]
async fn an_engine_that_stays_silent_is_not_waited_for() {
    let engine = engine();
    let timeout = Duration::from_millis(50);
    let error = ping(&engine.path, timeout).await.unwrap_err();
    assert!(matches!(error, PingError::TimedOut(_)), "{error:?}");
    assert_eq!(error.to_string(), "it did not answer within 0.05 s");
}

#[tokio::test]
async fn an_engine_that_trickles_is_not_waited_for() {
    let engine = engine();
    let trickle = async {
        let (mut stream, _) = engine.listener.accept().await.unwrap();
        let mut line = b"HTTP/1.1 200 OK\r\nX: ".to_vec();
        while stream.write_all(&line).await.is_ok() {
            line = b"x".to_vec();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let error = tokio::join!(ping(&engine.path, Duration::from_millis(100)), trickle).0;
    assert!(matches!(error, Err(PingError::TimedOut(_))), "{error:?}");
}

#[tokio::test]
async fn nobody_and_nothing_there_are_an_absent_engine() {
    let dir = tempfile::tempdir().unwrap();
    let absent = ping(&dir.path().join("none.sock"), TEST_TIMEOUT).await.unwrap_err();
    assert!(matches!(absent, PingError::NotListening(_)), "{absent:?}");

    let stale = dir.path().join("stale.sock");
    drop(UnixListener::bind(&stale).unwrap());
    let refused = ping(&stale, TEST_TIMEOUT).await.unwrap_err();
    assert!(matches!(refused, PingError::NotListening(_)), "{refused:?}");

    let file = dir.path().join("file.sock");
    std::fs::write(&file, "").unwrap();
    let no_socket = ping(&file, TEST_TIMEOUT).await.unwrap_err();
    assert!(matches!(no_socket, PingError::NotListening(_)), "{no_socket:?}");
}

#[test]
fn versions_are_read_strictly() {
    assert_eq!(parse_version("1.41"), Some(version(41)));
    for text in ["", "1", "1.", ".1", "1.+4", "1.-4", "1.4.1", " 1.4", "1.4a", "1.99999", "½.1"] {
        assert_eq!(parse_version(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn no_answer_breaks_the_reader(answer in proptest::collection::vec(any::<u8>(), 0..600)) {
        if let Ok(ping) = parse(&answer) {
            prop_assert!(ping.api.minor_version <= 9999);
        }
    }

    #[test]
    fn no_header_breaks_the_reader(headers in "([a-zA-Z:. -]{0,12}\r?\n?){0,20}") {
        let ping = parse(format!("HTTP/1.1 200 OK\r\n{headers}").as_bytes());
        prop_assert!(ping.is_err() || headers.to_ascii_lowercase().contains("api-version"));
    }
}
