//! Sockets and networks of the host.

use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use crate::cell::{Cell, attempt_in, run_in};
use crate::support::marker;

/// Abstract sockets can be kept apart from this version of Landlock on.
const SCOPES_SINCE: u32 = 6;

pub(crate) async fn sockets_of_the_host_cannot_be_reached(cell: &Cell) {
    let path = cell.fixture.scratch("engine.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let ways = ["", "/proc/1/root", "/proc/self/cwd/../../.."]
        .map(|way| format!("connect-path={way}{}", path.display()));
    let outcomes = cell.attempt(&ways.each_ref().map(String::as_str)).await;
    cell.expect_unreached(!outcomes.reached().is_empty(), "a socket of the host");
}

pub(crate) async fn abstract_sockets_of_the_host_cannot_be_reached(cell: &Cell) {
    let name = format!("vestal-escape-{}", marker());
    let attempt = format!("connect-abstract={name}");
    let _listener =
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let version = cell.attempt(&["landlock-version"]).await.0;
    let version =
        version["landlock-version"].strip_prefix("done: ").and_then(|text| text.parse().ok());
    // Before, only a network of its own keeps a sandbox from them.
    if !cell.is_enclosed() || version.unwrap_or(0) >= SCOPES_SINCE {
        let outcomes = cell.attempt(&[&attempt]).await;
        cell.expect_unreached(!outcomes.reached().is_empty(), &attempt);
    }
    if cell.is_enclosed() {
        let apart = cell.another("apart", &["terminal.docker_network=false"]).await;
        assert_eq!(attempt_in(&apart, "", &[&attempt]).await.reached(), Vec::<&str>::new());
    }
}

pub(crate) async fn strange_sockets_cannot_be_made(cell: &Cell) {
    // Bluetooth, AF_ALG, AF_VSOCK, AF_XDP: doors to drivers and to the machine below.
    cell.expect_refused(&[
        "socket=31",
        "socket=38",
        "socket=40",
        "socket=44",
        "packets",
        "raw-socket",
    ])
    .await;
}

pub(crate) async fn without_a_network_there_is_nothing_but_a_loopback(cell: &Cell) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let attempt = format!("connect-port={}", listener.local_addr().unwrap().port());
    // With the network on it is the host's, and so is its loopback.
    assert_eq!(cell.attempt(&[&attempt]).await.reached(), [attempt.as_str()]);
    let apart = cell.another("apart", &["terminal.docker_network=false"]).await;
    assert_eq!(attempt_in(&apart, "", &[&attempt]).await.reached(), Vec::<&str>::new());
    let devices = run_in(&apart, "cat /proc/net/dev").await;
    let names: Vec<&str> =
        devices.lines().skip(2).filter_map(|line| line.split(':').next()).collect();
    assert_eq!(names.iter().map(|name| name.trim()).collect::<Vec<_>>(), ["lo"]);
    // Its own is there, and up.
    let up = run_in(&apart, "cat /proc/net/fib_trie").await;
    assert!(up.contains("127.0.0.1"), "{up}");
}

pub(crate) async fn sockets_of_engines_are_not_there(cell: &Cell) {
    let known = [
        "/run/docker.sock",
        "/var/run/docker.sock",
        "/run/podman/podman.sock",
        "/run/containerd/containerd.sock",
        "/run/crio/crio.sock",
        "/run/dbus/system_bus_socket",
        "/run/systemd/private",
        "/run/user",
    ];
    let printed = cell.run(&format!("ls -d {} 2> /dev/null", known.join(" "))).await;
    assert_eq!(printed, "");
}
