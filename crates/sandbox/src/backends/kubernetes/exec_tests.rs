use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use futures_util::SinkExt as _;
use futures_util::stream::StreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::*;

type Server = WebSocketStream<DuplexStream>;

/// Returns a stream and the API server at its other end.
async fn pair() -> (PodExecStream, Server) {
    pair_with(PULSE).await
}

/// A pulse that is felt at once.
const FAST: Pulse = Pulse {
    every: Duration::from_millis(10),
    silent: Duration::from_millis(100),
    congested: Duration::from_millis(100),
};

async fn pair_with(pulse: Pulse) -> (PodExecStream, Server) {
    let (here, there) = tokio::io::duplex(1 << 20);
    let client = WebSocketStream::from_raw_socket(here, Role::Client, None).await;
    let server = WebSocketStream::from_raw_socket(there, Role::Server, None).await;
    (PodExecStream::over(Box::new(client), pulse), server)
}

async fn say(server: &mut Server, channel: u8, bytes: &[u8]) {
    let message = [&[channel], bytes].concat();
    server.send(Message::Binary(message.into())).await.unwrap();
}

async fn outcome(mut stream: PodExecStream) -> (Vec<u8>, Option<io::ErrorKind>) {
    let mut read = Vec::new();
    let ended = stream.read_to_end(&mut read).await;
    (read, ended.err().map(|error| error.kind()))
}

#[tokio::test]
async fn bytes_come_and_go_as_they_are_and_the_end_is_the_programs() {
    let (mut stream, mut server) = pair().await;
    stream.write_all(b"to the program").await.unwrap();
    stream.flush().await.unwrap();
    let sent = server.next().await.unwrap().unwrap();
    assert_eq!(sent, Message::Binary(b"\0to the program".as_slice().into()));
    say(&mut server, STDOUT, b"a\0b").await;
    say(&mut server, STDOUT, b"").await;
    say(&mut server, STDOUT, b"c").await;
    say(&mut server, STATUS, br#"{"status":"Success"}"#).await;
    assert_eq!(outcome(stream).await, (b"a\0bc".to_vec(), None));
}

#[tokio::test]
async fn a_connection_that_is_lost_is_no_end_and_says_nothing_of_the_program() {
    // Without a status, whichever way it ends.
    let (stream, server) = pair().await;
    drop(server);
    assert_eq!(outcome(stream).await.1, Some(io::ErrorKind::UnexpectedEof));
    let (stream, mut server) = pair().await;
    server.close(None).await.unwrap();
    assert_eq!(outcome(stream).await.1, Some(io::ErrorKind::UnexpectedEof));
    // The server has lost the node.
    let (stream, mut server) = pair().await;
    let status =
        br#"{"status":"Failure","reason":"InternalError","message":"error dialing backend"}"#;
    say(&mut server, STATUS, status).await;
    assert_eq!(outcome(stream).await.1, Some(io::ErrorKind::ConnectionAborted));
    let (stream, mut server) = pair().await;
    say(&mut server, STATUS, b"\xff nonsense").await;
    assert_eq!(outcome(stream).await.1, Some(io::ErrorKind::ConnectionAborted));
}

#[tokio::test]
async fn a_program_that_reached_no_guest_says_so() {
    let (mut stream, mut server) = pair().await;
    say(&mut server, STDERR, b"error: connect: \x1b[2J No such file or directory").await;
    let status = br#"{"status":"Failure","reason":"NonZeroExitCode","message":"exit code 1"}"#;
    say(&mut server, STATUS, status).await;
    let error = stream.read_u8().await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    assert!(error.to_string().contains("No such file"), "{error}");
    assert!(!error.to_string().contains('\x1b'), "{error:?}");
    let (stream, mut server) = pair().await;
    let status = br#"{"status":"Failure","reason":"InternalError","message":"OCI runtime exec failed: exec failed"}"#;
    say(&mut server, STATUS, status).await;
    assert_eq!(outcome(stream).await.1, Some(io::ErrorKind::ConnectionRefused));
}

#[tokio::test]
async fn a_server_that_falls_silent_is_noticed() {
    let (stream, server) = pair_with(FAST).await;
    // It holds the connection and answers nothing.
    assert_eq!(outcome(stream).await.1, Some(io::ErrorKind::TimedOut));
    drop(server);
}

#[tokio::test]
async fn a_server_that_answers_pings_is_waited_for() {
    let (stream, mut server) = pair_with(Pulse { silent: Duration::from_mins(1), ..FAST }).await;
    let answering = tokio::spawn(async move {
        // Reading answers pings.
        for _ in 0..20 {
            let received = server.next().await.unwrap().unwrap();
            assert!(received.is_ping(), "{received:?}");
        }
        say(&mut server, STDOUT, b"late").await;
        say(&mut server, STATUS, br#"{"status":"Success"}"#).await;
        server
    });
    assert_eq!(outcome(stream).await, (b"late".to_vec(), None));
    answering.await.unwrap();
}

#[tokio::test]
async fn what_a_program_complains_about_is_bounded() {
    struct Nobody;
    impl Wake for Nobody {
        fn wake(self: Arc<Self>) {}
    }
    let (mut stream, mut server) = pair().await;
    for _ in 0..4 {
        say(&mut server, STDERR, &vec![b'x'; 128 << 10]).await;
    }
    let waker = Waker::from(Arc::new(Nobody));
    let mut buffer = [0; 8];
    let read = Pin::new(&mut stream)
        .poll_read(&mut Context::from_waker(&waker), &mut ReadBuf::new(&mut buffer));
    assert!(read.is_pending());
    assert!(stream.complaint().len() <= MAX_COMPLAINT);
}

/// How often the task of a test was woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_writer_that_waits_for_room_is_woken_although_the_reader_has_pinged() {
    let (here, mut there) = tokio::io::duplex(1 << 10);
    let client = WebSocketStream::from_raw_socket(here, Role::Client, None).await;
    let pulse = Pulse { silent: Duration::from_mins(1), congested: Duration::from_mins(1), ..FAST };
    let mut stream = PodExecStream::over(Box::new(client), pulse);
    let (reader, writer) = (Arc::new(Wakes::default()), Arc::new(Wakes::default()));
    let (reader_waker, writer_waker) = (Waker::from(reader), Waker::from(Arc::clone(&writer)));
    // The writer fills the line, and waits.
    let piece = vec![0_u8; 64 << 10];
    while Pin::new(&mut stream)
        .poll_write(&mut Context::from_waker(&writer_waker), &piece)
        .is_ready()
    {}
    // It is time for many a ping meanwhile.
    let ticked = Instant::now() + FAST.every * 5;
    tokio::time::sleep_until(ticked).await;
    let mut buffer = [0; 8];
    let read = Pin::new(&mut stream)
        .poll_read(&mut Context::from_waker(&reader_waker), &mut ReadBuf::new(&mut buffer));
    assert!(read.is_pending());
    let before = writer.0.load(Ordering::SeqCst);
    // There is room again.
    there.read_exact(&mut [0; 1 << 10]).await.unwrap();
    assert!(writer.0.load(Ordering::SeqCst) > before, "the writer waits for ever");
}
