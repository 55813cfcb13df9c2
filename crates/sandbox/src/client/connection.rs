//! A connection to one guest, shared by any number of callers, and the calls that
//! have one answer.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout, timeout_at};
use vestal_wire::limits::MAX_CHANNELS;
use vestal_wire::{
    CallReply, CallRequest, Fault, FaultCode, FrameKind, HEADER_LEN, Header, Hello, HostRole,
    SandboxStats, Status, Stream, Welcome, decode, encode,
};

use super::channel::{Channel, ChannelCore};
use super::error::{CallError, Closed, ConnectError, Expectation, Violation};
use super::outbox;
use super::outbox::{CloseOnDrop, GuestWriter, Outbox};

/// How long a guest may take to answer the greeting by default.
pub const DEFAULT_GREETING_LIMIT: Duration = Duration::from_secs(10);

/// Longest text a guest may give in its greeting.
const MAX_GREETING_TEXT: usize = 256;

/// A connection to a guest. Clones share it; it closes when the last clone and
/// the last [`Channel`] are gone.
#[derive(Clone)]
pub struct Connection {
    handle: Arc<CloseWhenUnused>,
}

/// Closes the connection when nobody holds it any more. The driver holds the
/// shared part only.
struct CloseWhenUnused {
    shared: Arc<ConnectionShared>,
}

/// What callers and the driver share.
pub(crate) struct ConnectionShared {
    welcome: Welcome,
    pub(crate) outbox: Outbox,
    table: Mutex<ChannelTable>,
    places: Arc<Semaphore>,
    closed: watch::Sender<Option<Closed>>,
}

#[derive(Default)]
struct ChannelTable {
    channels: HashMap<u32, Arc<ChannelCore>>,
    last_id: u32,
    closed: Option<Closed>,
}

impl Connection {
    /// Greets the guest at the other end of `stream` and returns the
    /// connection, within [`DEFAULT_GREETING_LIMIT`]. Must be called within a
    /// tokio runtime, which drives the connection from then on.
    pub async fn open(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        role: HostRole,
        instance: Option<String>,
    ) -> Result<Self, ConnectError> {
        Self::open_within(stream, role, instance, DEFAULT_GREETING_LIMIT).await
    }

    /// As [`Connection::open`], with the time the guest has to answer.
    pub async fn open_within(
        mut stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        role: HostRole,
        instance: Option<String>,
        limit: Duration,
    ) -> Result<Self, ConnectError> {
        let welcome = timeout(limit, greet(&mut stream, role, instance))
            .await
            .map_err(|_| ConnectError::Timeout(limit))??;
        let (reader, writer) = tokio::io::split(stream);
        let shared = Arc::new(ConnectionShared::new(welcome, Box::new(writer)));
        tokio::spawn(outbox::drive(reader, CloseOnDrop(Arc::clone(&shared))));
        Ok(Self { handle: Arc::new(CloseWhenUnused { shared }) })
    }

    /// Returns the guest's answer to the greeting.
    pub fn welcome(&self) -> &Welcome {
        &self.shared().welcome
    }

    /// Returns whether the connection is over.
    pub fn is_closed(&self) -> bool {
        self.shared().closed.borrow().is_some()
    }

    /// Waits until the connection is over and returns why.
    pub async fn closed(&self) -> Closed {
        self.shared().closed().await
    }

    /// Sends a request that has one answer, and waits for it. A fault is an
    /// error.
    pub async fn call(&self, request: CallRequest) -> Result<CallReply, CallError> {
        self.channel(request).await?.reply().await
    }

    /// As [`Connection::call`], but gives up when `limit` has passed.
    pub async fn call_within(
        &self,
        request: CallRequest,
        limit: Duration,
    ) -> Result<CallReply, CallError> {
        let Some(deadline) = Instant::now().checked_add(limit) else {
            return self.call(request).await;
        };
        let mut channel = timeout_at(deadline, self.channel(request))
            .await
            .map_err(|_| CallError::Deadline { sent: false })??;
        match timeout_at(deadline, channel.reply()).await {
            Ok(reply) => reply,
            // Even if the transport has not taken it yet, it still may.
            Err(_) => Err(CallError::Deadline { sent: true }),
        }
    }

    /// Sends a request and returns the channel its answers come on. Waits while
    /// as many channels are open as the protocol allows.
    pub async fn channel(&self, request: CallRequest) -> Result<Channel, CallError> {
        let payload = encode(&request)?;
        let shared = self.shared();
        let unsent = |reason| CallError::closed(reason, false);
        let Ok(permit) = Arc::clone(&shared.places).acquire_owned().await else {
            return Err(unsent(shared.closed().await));
        };
        poll_fn(|context| shared.outbox.poll_space(context)).await.map_err(unsent)?;
        // From here on nothing waits, so that a dropped call leaves nothing behind.
        let core = shared
            .register(|id| ChannelCore::new(id, Expectation::of(&request), permit))
            .map_err(unsent)?;
        let opened = core.open(&shared.outbox, &payload);
        let channel = Channel::new(self.clone(), core);
        opened.map_err(unsent)?;
        Ok(channel)
    }

    pub(crate) fn shared(&self) -> &ConnectionShared {
        &self.handle.shared
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("instance", &self.welcome().instance)
            .field("incarnation", &self.welcome().incarnation)
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

impl Drop for CloseWhenUnused {
    fn drop(&mut self) {
        self.shared.release();
    }
}

impl ConnectionShared {
    fn new(welcome: Welcome, writer: GuestWriter) -> Self {
        Self {
            welcome,
            outbox: Outbox::new(writer),
            table: Mutex::default(),
            places: Arc::new(Semaphore::new(MAX_CHANNELS)),
            closed: watch::Sender::new(None),
        }
    }

    /// Waits until the connection is over and returns why.
    pub(crate) async fn closed(&self) -> Closed {
        let mut closed = self.closed.subscribe();
        match closed.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or(Closed::Released),
            Err(_) => Closed::Released,
        }
    }

    /// Ends the connection: every open channel learns why, promptly.
    pub(crate) fn close(&self, reason: &Closed) {
        // First of all nothing more is sent, so that what channels learn about
        // their requests stays true.
        self.outbox.close(reason.clone());
        if self.mark_closed(reason)
            && let Closed::Violation(violation) = reason
        {
            tracing::warn!(
                instance = %self.welcome.instance,
                %violation,
                "the guest broke the protocol; its connection is closed"
            );
        }
    }

    /// Ends the connection because nobody holds it; the driver still sends what
    /// is pending.
    fn release(&self) {
        self.mark_closed(&Closed::Released);
    }

    fn mark_closed(&self, reason: &Closed) -> bool {
        let channels = {
            let mut table = self.lock();
            if table.closed.is_some() {
                return false;
            }
            table.closed = Some(reason.clone());
            std::mem::take(&mut table.channels)
        };
        self.places.close();
        self.closed.send_replace(Some(reason.clone()));
        for core in channels.values() {
            core.fail(reason, &self.outbox);
        }
        true
    }

    /// Sends a frame that must not wait: credit, end, cancellation.
    pub(crate) fn send_control(
        &self,
        channel: u32,
        kind: FrameKind,
        stream: Stream,
        payload: &[u8],
    ) {
        // A failure is the driver's to deal with: it learns of it from the
        // outbox and ends the connection.
        drop(self.outbox.send(channel, kind, stream, payload));
    }

    /// Returns the channel with this number.
    pub(crate) fn find(&self, id: u32) -> Option<Arc<ChannelCore>> {
        self.lock().channels.get(&id).map(Arc::clone)
    }

    /// Frees a channel's number.
    pub(crate) fn forget(&self, id: u32) {
        self.lock().channels.remove(&id);
    }

    fn register(&self, make: impl FnOnce(u32) -> ChannelCore) -> Result<Arc<ChannelCore>, Closed> {
        let mut table = self.lock();
        let ChannelTable { channels, last_id, closed } = &mut *table;
        if let Some(reason) = closed {
            return Err(reason.clone());
        }
        // At most MAX_CHANNELS numbers are taken, so a free one is near.
        loop {
            *last_id = last_id.checked_add(1).unwrap_or(1);
            if let Entry::Vacant(place) = channels.entry(*last_id) {
                return Ok(Arc::clone(place.insert(Arc::new(make(*last_id)))));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, ChannelTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many channels are open or wait for their last reply.
    #[cfg(test)]
    pub(crate) fn channels(&self) -> usize {
        self.lock().channels.len()
    }
}

async fn greet(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    role: HostRole,
    instance: Option<String>,
) -> Result<Welcome, ConnectError> {
    let hello = encode(&Hello::new(role, instance.clone()))
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let len = u32::try_from(hello.len()).unwrap_or(u32::MAX);
    let header = Header { len, channel: 0, kind: FrameKind::Hello, stream: Stream::Input };
    stream.write_all(&[&header.to_bytes(), hello.as_slice()].concat()).await?;
    stream.flush().await?;

    let mut header = [0; HEADER_LEN];
    read_whole(stream, &mut header).await?;
    let header = Header::from_bytes(header).map_err(|error| Violation::Frame(error.to_string()))?;
    if header.kind != FrameKind::Welcome || header.channel != 0 {
        return Err(Violation::UnexpectedKind(header.kind).into());
    }
    let mut payload = vec![0; header.len as usize];
    read_whole(stream, &mut payload).await?;
    let welcome = understand(&payload, instance.as_deref())?;
    check_welcome(&welcome)?;
    match instance {
        Some(wanted) if wanted != welcome.instance => {
            Err(ConnectError::WrongInstance { wanted, found: welcome.instance })
        }
        _ => Ok(welcome),
    }
}

async fn read_whole(
    stream: &mut (impl AsyncRead + Unpin),
    bytes: &mut [u8],
) -> Result<(), ConnectError> {
    match stream.read_exact(bytes).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(ConnectError::Vanished),
        Err(error) => Err(error.into()),
    }
}

/// Decodes the answer to a hello, which is a welcome or a fault.
fn understand(payload: &[u8], wanted: Option<&str>) -> Result<Welcome, ConnectError> {
    let error = match decode::<Welcome>(payload) {
        Ok(welcome) => return Ok(welcome),
        Err(error) => error.to_string(),
    };
    match (decode::<Fault>(payload), wanted) {
        (Ok(fault), Some(wanted)) if fault.code == FaultCode::WrongInstance => {
            Err(ConnectError::WrongInstance { wanted: wanted.to_owned(), found: fault.message })
        }
        (Ok(fault), _) => Err(ConnectError::Refused(fault)),
        (Err(_), _) => Err(Violation::Undecodable { kind: FrameKind::Welcome, error }.into()),
    }
}

fn check_welcome(welcome: &Welcome) -> Result<(), ConnectError> {
    welcome.agree()?;
    let Welcome { program, instance, key, incarnation, boot, .. } = welcome;
    if [program, instance, key, incarnation, boot].iter().any(|t| t.len() > MAX_GREETING_TEXT) {
        return Err(Violation::Claim("a name in the greeting is too long").into());
    }
    Ok(())
}

impl Connection {
    /// Returns the guest's state. Not use of the sandbox.
    pub async fn status(&self, limit: Duration) -> Result<Status, CallError> {
        match self.call_within(CallRequest::Status, limit).await? {
            CallReply::Status(status) => Ok(status),
            _ => Err(self.wrong_reply()),
        }
    }

    /// Returns what the sandbox consumes. Not use of the sandbox.
    pub async fn stats(&self, limit: Duration) -> Result<SandboxStats, CallError> {
        match self.call_within(CallRequest::Stats, limit).await? {
            CallReply::Stats(stats) => Ok(stats),
            _ => Err(self.wrong_reply()),
        }
    }

    /// Resets the idle clock.
    pub async fn touch(&self, limit: Duration) -> Result<(), CallError> {
        self.done_within(CallRequest::Touch, limit).await
    }

    /// Changes after how much idleness the guest ends by itself; `None`: never.
    pub async fn retain(
        &self,
        retention: Option<Duration>,
        limit: Duration,
    ) -> Result<(), CallError> {
        let retention_ms = retention.map(millis);
        self.done_within(CallRequest::Retain { retention_ms }, limit).await
    }

    /// Forgets a session's saved state.
    pub async fn reset_session(&self, name: &str, limit: Duration) -> Result<(), CallError> {
        self.done_within(CallRequest::ResetSession { name: name.to_owned() }, limit).await
    }

    /// Ends the guest: jobs get SIGTERM and, after `grace`, SIGKILL. Returns
    /// when no process of a job is left.
    pub async fn shutdown(&self, grace: Duration, limit: Duration) -> Result<(), CallError> {
        let request = CallRequest::Shutdown { grace_ms: millis(grace), if_idle: false };
        self.done_within(request, limit).await
    }

    /// Ends the guest unless a job runs or another call is open; then it is a
    /// fault with [`vestal_wire::FaultCode::Busy`].
    pub async fn shutdown_if_idle(
        &self,
        grace: Duration,
        limit: Duration,
    ) -> Result<(), CallError> {
        let request = CallRequest::Shutdown { grace_ms: millis(grace), if_idle: true };
        self.done_within(request, limit).await
    }

    async fn done_within(&self, request: CallRequest, limit: Duration) -> Result<(), CallError> {
        self.call_within(request, limit).await.map(drop)
    }

    /// Cuts off a guest whose reply fits the request's type but not its sense.
    pub(crate) fn wrong_reply(&self) -> CallError {
        self.violate(Violation::WrongReply)
    }

    /// Cuts off a guest after an answer that breaks the protocol.
    pub(crate) fn violate(&self, violation: Violation) -> CallError {
        self.shared().close(&Closed::Violation(violation.clone()));
        CallError::Protocol { sent: true, violation }
    }
}

/// Returns a duration in whole milliseconds, as far as they can be counted.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
