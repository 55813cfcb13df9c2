//! What may lie in the place of a guest's socket.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode};
use tempfile::TempDir;

use super::fake_guest::soon;
use super::socket::{PeerExpectation, SOCKET_NAME, SocketError, connect};

fn me() -> PeerExpectation {
    PeerExpectation::process_of_user(std::process::id(), rustix::process::getuid().as_raw())
}

fn listen(dir: &Path) -> UnixListener {
    UnixListener::bind(dir.join(SOCKET_NAME)).unwrap()
}

#[tokio::test]
async fn the_expected_listener_is_connected_to() {
    let dir = TempDir::new().unwrap();
    let _listener = listen(dir.path());
    connect(dir.path(), me()).await.unwrap();
    connect(dir.path(), PeerExpectation::process(std::process::id())).await.unwrap();
    let uid = rustix::process::getuid().as_raw();
    connect(dir.path(), PeerExpectation::user(uid)).await.unwrap();
}

#[tokio::test]
async fn paths_longer_than_a_socket_address_work() {
    let dir = TempDir::new().unwrap();
    let short = dir.path().join("s");
    std::fs::create_dir(&short).unwrap();
    let _listener = listen(&short);
    let long = dir.path().join("d".repeat(200));
    std::fs::rename(short, &long).unwrap();
    connect(&long, me()).await.unwrap();
}

#[tokio::test]
async fn no_directory_no_socket_and_no_listener_are_absent() {
    let dir = TempDir::new().unwrap();
    let missing = connect(&dir.path().join("missing"), me()).await;
    assert!(matches!(missing, Err(SocketError::Absent)), "{missing:?}");
    let empty = connect(dir.path(), me()).await;
    assert!(matches!(empty, Err(SocketError::Absent)), "{empty:?}");
    drop(listen(dir.path()));
    let refused = connect(dir.path(), me()).await;
    assert!(matches!(refused, Err(SocketError::Absent)), "{refused:?}");
}

#[tokio::test]
async fn a_planted_symlink_is_not_followed() {
    let dir = TempDir::new().unwrap();
    let elsewhere = TempDir::new().unwrap();
    let _listener = listen(elsewhere.path());
    symlink(elsewhere.path().join(SOCKET_NAME), dir.path().join(SOCKET_NAME)).unwrap();
    let found = connect(dir.path(), me()).await;
    assert!(matches!(found, Err(SocketError::NotASocket)), "{found:?}");
}

#[tokio::test]
async fn a_symlink_in_the_place_of_the_directory_is_not_followed() {
    let dir = TempDir::new().unwrap();
    let elsewhere = TempDir::new().unwrap();
    let _listener = listen(elsewhere.path());
    let link = dir.path().join("link");
    symlink(elsewhere.path(), &link).unwrap();
    let found = connect(&link, me()).await;
    assert!(matches!(found, Err(SocketError::Io(_))), "{found:?}");
}

#[tokio::test]
async fn a_regular_file_is_no_socket() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join(SOCKET_NAME), "x").unwrap();
    let found = connect(dir.path(), me()).await;
    assert!(matches!(found, Err(SocketError::NotASocket)), "{found:?}");
}

#[tokio::test]
async fn a_pipe_is_no_socket_and_does_not_block() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join(SOCKET_NAME);
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let found = soon(connect(dir.path(), me())).await;
    assert!(matches!(found, Err(SocketError::NotASocket)), "{found:?}");
}

#[tokio::test]
async fn the_socket_of_another_process_is_refused() {
    let dir = TempDir::new().unwrap();
    let _listener = listen(dir.path());
    let found = connect(dir.path(), PeerExpectation::process(1)).await;
    let own = std::process::id();
    assert!(
        matches!(found, Err(SocketError::WrongPeer { pid: Some(pid), .. }) if pid == own),
        "{found:?}"
    );
}

#[tokio::test]
async fn the_socket_of_another_user_is_refused() {
    let dir = TempDir::new().unwrap();
    let _listener = listen(dir.path());
    let other = rustix::process::getuid().as_raw() + 1;
    let found = connect(dir.path(), PeerExpectation::user(other)).await;
    assert!(matches!(found, Err(SocketError::WrongPeer { .. })), "{found:?}");
}

#[tokio::test]
async fn a_full_backlog_is_waited_for() {
    let dir = TempDir::new().unwrap();
    let listener = listen(dir.path());
    rustix::net::listen(&listener, 1).unwrap();
    let mut held = Vec::new();
    loop {
        let limit = std::time::Duration::from_millis(200);
        match tokio::time::timeout(limit, connect(dir.path(), me())).await {
            Ok(stream) => held.push(stream.unwrap()),
            Err(_) => break,
        }
    }
    let late = tokio::spawn({
        let dir = dir.path().to_owned();
        async move { connect(&dir, me()).await }
    });
    tokio::task::yield_now().await;
    let accepted = listener.accept().unwrap();
    soon(late).await.unwrap().unwrap();
    drop(accepted);
}
