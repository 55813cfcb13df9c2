//! A guest for tests: speaks the protocol frame by frame, well or badly.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;
use vestal_wire::{
    CallEvent, CallReply, CallRequest, Cause, FrameKind, HEADER_LEN, Header, Hello, HostRole,
    JobExit, JobId, JobInfo, JobState, MAJOR, MINOR, SessionState, Stream, Welcome, decode, encode,
};

use super::Connection;

/// The guest's end of a connection.
pub(crate) struct FakeGuest {
    pub(crate) io: UnixStream,
}

/// Returns a connection and the guest at its other end.
pub(crate) async fn connected() -> (Connection, FakeGuest) {
    let (host, io) = UnixStream::pair().unwrap();
    let mut guest = FakeGuest { io };
    let welcome = welcome();
    let (connection, ()) = tokio::join!(
        Connection::open(host, HostRole::User, Some("instance".to_owned())),
        guest.greet(&welcome)
    );
    (connection.unwrap(), guest)
}

/// Fails a test that would hang.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_mins(1), future).await.expect("the test hangs")
}

pub(crate) fn welcome() -> Welcome {
    Welcome {
        major: MAJOR,
        minor: MINOR,
        program: "0.0.0".to_owned(),
        instance: "instance".to_owned(),
        key: "key".to_owned(),
        generation: 1,
        incarnation: "incarnation".to_owned(),
        boot: "boot".to_owned(),
    }
}

/// Returns what is known of a job that ended with code 0.
pub(crate) fn ended(id: &JobId) -> JobInfo {
    JobInfo {
        id: id.clone(),
        state: JobState::Ended(JobExit { code: Some(0), cause: Cause::Exited }),
        summary: "true".to_owned(),
        session: None,
        cwd: b"/workspace".to_vec().into(),
        background: false,
        pty: false,
        pid: Some(7),
        pid_start: Some(1),
        started_ms: 1,
        ended_ms: Some(2),
        stdout_bytes: 0,
        stderr_bytes: 0,
        stdout_omitted: 0,
        stderr_omitted: 0,
        processes: 0,
        stdin_open: false,
        session_state: SessionState::Saved,
        duration_us: Some(1500),
        session_error: None,
    }
}

impl FakeGuest {
    /// Reads the hello and answers it.
    pub(crate) async fn greet(&mut self, welcome: &Welcome) {
        let (header, payload) = self.frame().await;
        assert_eq!(header.kind, FrameKind::Hello);
        decode::<Hello>(&payload).unwrap();
        self.send(0, FrameKind::Welcome, Stream::Input, &encode(welcome).unwrap()).await;
    }

    /// Reads a frame; `None` when the host has closed.
    pub(crate) async fn try_frame(&mut self) -> Option<(Header, Vec<u8>)> {
        let mut header = [0; HEADER_LEN];
        self.io.read_exact(&mut header).await.ok()?;
        let header = Header::from_bytes(header).unwrap();
        let mut payload = vec![0; header.len as usize];
        self.io.read_exact(&mut payload).await.ok()?;
        Some((header, payload))
    }

    pub(crate) async fn frame(&mut self) -> (Header, Vec<u8>) {
        self.try_frame().await.expect("the host closed the connection")
    }

    /// Reads a request and returns its channel.
    pub(crate) async fn request(&mut self) -> (u32, CallRequest) {
        let (header, payload) = self.frame().await;
        assert_eq!(header.kind, FrameKind::Open);
        (header.channel, decode(&payload).unwrap())
    }

    /// Reads the request to start a job.
    pub(crate) async fn start(&mut self) -> (u32, vestal_wire::StartJob) {
        match self.request().await {
            (channel, CallRequest::Start(start)) => (channel, *start),
            other => panic!("no start: {other:?}"),
        }
    }

    /// Reads a frame of a kind and returns its payload.
    pub(crate) async fn expect(
        &mut self,
        channel: u32,
        kind: FrameKind,
        stream: Stream,
    ) -> Vec<u8> {
        let (header, payload) = self.frame().await;
        assert_eq!((header.channel, header.kind, header.stream), (channel, kind, stream));
        payload
    }

    /// Waits until the host has closed the connection.
    pub(crate) async fn closed(&mut self) {
        let mut buffer = [0; 4096];
        while self.io.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
    }

    /// Sends a frame; a host that has cut the guest off is not an error.
    pub(crate) async fn send(
        &mut self,
        channel: u32,
        kind: FrameKind,
        stream: Stream,
        bytes: &[u8],
    ) {
        let len = u32::try_from(bytes.len()).unwrap();
        let header = Header { len, channel, kind, stream }.to_bytes();
        self.raw(&[&header, bytes].concat()).await;
    }

    pub(crate) async fn raw(&mut self, bytes: &[u8]) {
        drop(self.io.write_all(bytes).await);
    }

    pub(crate) async fn data(&mut self, channel: u32, stream: Stream, bytes: &[u8]) {
        self.send(channel, FrameKind::Data, stream, bytes).await;
    }

    pub(crate) async fn event(&mut self, channel: u32, event: &CallEvent) {
        self.send(channel, FrameKind::Event, Stream::Input, &encode(event).unwrap()).await;
    }

    pub(crate) async fn reply(&mut self, channel: u32, reply: &CallReply) {
        self.send(channel, FrameKind::Reply, Stream::Input, &encode(reply).unwrap()).await;
    }

    pub(crate) async fn credit(&mut self, channel: u32, stream: Stream, bytes: u32) {
        self.send(channel, FrameKind::Credit, stream, &bytes.to_le_bytes()).await;
    }

    /// Ends a job as a guest does.
    pub(crate) async fn end_job(&mut self, channel: u32, id: &JobId) {
        self.event(channel, &CallEvent::Ended(Box::new(ended(id)))).await;
        self.reply(channel, &CallReply::Job(Box::new(ended(id)))).await;
    }
}
