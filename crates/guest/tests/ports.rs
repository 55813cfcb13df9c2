//! Ports that jobs listen on: listed, and connected to.

#![expect(clippy::unwrap_used, reason = "a helper of a test may panic as the test may")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener};

use support::{Client, GuestMessage, TestGuest, fault, id, shell};
use vestal_testkit::wait_for;
use vestal_wire::{CallReply, CallRequest, FaultCode, FileReply, ListeningPort, Stream};

/// What a job of the tests below runs: listens, and gives back what it is sent, twice.
#[test]
#[ignore = "it is the job of another test"]
fn listens_and_gives_back() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let mut buf = vec![0; 100_000];
    loop {
        let read = stream.read(&mut buf).unwrap();
        if read == 0 {
            break;
        }
        stream.write_all(&buf[..read]).unwrap();
        stream.write_all(&buf[..read]).unwrap();
    }
    stream.write_all(b"bye").unwrap();
    stream.shutdown(Shutdown::Both).unwrap();
}

/// Starts a job that listens, and waits until it is listed.
fn listening(client: &mut Client) -> ListeningPort {
    let own = std::env::current_exe().unwrap();
    let run = format!("{} --exact listens_and_gives_back --ignored", own.display());
    client.background(shell("server", &run));
    let found = wait_for("a job listens", || match client.call(&CallRequest::Ports) {
        CallReply::Ports(ports) => ports.into_iter().next(),
        other => panic!("{other:?}"),
    });
    assert_eq!((found.address.as_str(), &found.job), ("127.0.0.1", &Some(id("server"))));
    found
}

#[test]
fn a_port_that_a_job_listens_on_is_listed_and_reached_byte_for_byte() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let found = listening(&mut client);
    let channel = client.open(&CallRequest::Connect { port: found.port });
    let sent: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    for piece in sent.chunks(40_000) {
        client.send_data(channel, Stream::Input, piece);
    }
    let mut came = 0;
    while came < 2 * sent.len() {
        if let GuestMessage::Data(Stream::Content, bytes) = client.next_on(channel) {
            came += bytes.len();
        }
    }
    // The end of the input is passed to the port, which may still have something to say.
    client.send_end(channel, Stream::Input);
    let (output, reply) = client.follow(channel);
    assert_eq!(output.stdout, b"bye");
    assert_eq!(reply, CallReply::File(FileReply::Done));
}

#[test]
fn a_port_of_another_program_of_the_machine_is_neither_listed_nor_reached() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let foreign = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = foreign.local_addr().unwrap().port();
    let found = listening(&mut client);
    assert_ne!(found.port, port);
    assert_eq!(client.call(&CallRequest::Ports), CallReply::Ports(vec![found]));
    let refused = fault(client.call(&CallRequest::Connect { port }));
    assert_eq!(refused.code, FaultCode::NotFound, "{refused}");
    client.kill(&id("server"));
    assert_eq!(client.call(&CallRequest::Ports), CallReply::Ports(Vec::new()));
}
