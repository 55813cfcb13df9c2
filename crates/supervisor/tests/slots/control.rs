//! The control socket and hostile clients.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;

use vestal_supervisor::{OrderResult, SlotState, SupervisorRequest};

use crate::fixture::SupervisorFixture;

#[tokio::test]
async fn a_thousand_garbage_connections_keep_nobody_out() {
    let fixture = SupervisorFixture::new();
    fixture.profile("work", "");
    let mut supervisor = fixture.supervise();
    let socket = fixture.run_dir().join("supervisor.sock");
    let mode = socket.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut silent = Vec::new();
    for n in 0..1000 {
        let mut stream = UnixStream::connect(&socket).unwrap();
        match n % 4 {
            // Says nothing, and stays.
            0 => silent.push(stream),
            1 => stream.write_all(&vec![b'x'; 100 << 10]).unwrap_or_default(),
            2 => stream.write_all(b"{\"command\":\"format\"}\n\0\0").unwrap_or_default(),
            // Half a request, and gone.
            _ => stream.write_all(b"{\"command\":").unwrap_or_default(),
        }
    }
    assert_eq!(fixture.start("work").await.done, Some(OrderResult::Started));
    assert_eq!(fixture.status("work").await.state, SlotState::Running);
    drop(silent);
    assert!(supervisor.terminate().success());
}

#[tokio::test]
async fn a_request_that_is_none_is_refused_with_a_reason() {
    let fixture = SupervisorFixture::new();
    let mut supervisor = fixture.supervise();
    let mut stream = UnixStream::connect(fixture.run_dir().join("supervisor.sock")).unwrap();
    stream.write_all(b"{\"command\":\"format\"}\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("unknown variant `format`"), "{text}");
    assert_eq!(fixture.ask(SupervisorRequest::List { slots: None }).await.slots, []);
    assert!(supervisor.terminate().success());
}
