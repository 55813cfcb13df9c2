//! The server: a thread of its own, from start to drop.

use std::fs::{File, OpenOptions};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::journal::{RequestJournal, lock};
use crate::reply::ScriptedReply;
use crate::request::ReceivedRequest;
use crate::routes::{RouteState, router};
use crate::rule::Chooser;
use crate::script::Script;

/// A running server on a port of the loopback interface.
///
/// It has a thread and a runtime of its own, so it answers whatever the runtime
/// of the test does, also when there is none. Dropping it ends it with all its
/// connections.
pub struct ScriptedModel {
    address: SocketAddr,
    stage: Arc<RouteState>,
    shutdown: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port cannot be obtained.
    #[error("cannot listen on port {port}: {source}")]
    Listen {
        /// The port that was asked for; 0 is any.
        port: u16,
        /// What the system says.
        source: std::io::Error,
    },
    /// The log cannot be opened.
    #[error("cannot open the log {}: {source}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// No thread or runtime could be started.
    #[error("cannot start the server: {0}")]
    Runtime(std::io::Error),
}

impl ScriptedModel {
    /// Starts a server on a free port.
    ///
    /// # Panics
    ///
    /// When the machine has no port or thread left: a test cannot go on then.
    /// [`Self::try_start`] returns the error instead.
    pub fn start(script: Script) -> Self {
        Self::try_start(script, 0, None)
            .unwrap_or_else(|error| panic!("the scripted model did not start: {error}"))
    }

    /// Starts a server on `port` (0: any free one) that appends each request to
    /// the file `log` as a line of JSON, secrets left out.
    pub fn try_start(script: Script, port: u16, log: Option<&Path>) -> Result<Self, StartError> {
        let log = log.map(open_log).transpose()?;
        let listen = |source| StartError::Listen { port, source };
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let journal = Arc::new(RequestJournal::new(script.keep_bodies, log));
        let stage = Arc::new(RouteState {
            models: script.models.clone(),
            models_reply: script.models_reply.clone(),
            strict: script.strict,
            chooser: Mutex::new(Chooser::new(script)),
            journal,
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(StartError::Runtime)?;
        let listener = {
            let _context = runtime.enter();
            TcpListener::from_std(listener).map_err(listen)?
        };
        let (shutdown, stopped) = oneshot::channel();
        let served = Arc::clone(&stage);
        let thread = std::thread::Builder::new()
            .name("scripted-model".to_owned())
            .spawn(move || {
                runtime.block_on(serve(listener, served, stopped));
                // Dropping the runtime here drops every connection with it.
            })
            .map_err(StartError::Runtime)?;
        Ok(Self { address, stage, shutdown: Some(shutdown), thread: Some(thread) })
    }

    /// Returns the base of both APIs, `http://127.0.0.1:PORT/v1`: clients post
    /// to `{base}/chat/completions` or `{base}/messages`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns the base for the Anthropic shape, which is the same one: clients
    /// post to `{base}/messages`.
    pub fn anthropic_url(&self) -> String {
        self.base_url()
    }

    /// Returns where the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn journal(&self) -> &RequestJournal {
        &self.stage.journal
    }

    /// Adds a reply to the end of the script's ordered list.
    pub fn push(&self, reply: ScriptedReply) {
        lock(&self.stage.chooser).push(reply);
    }

    /// Returns all requests for an answer so far, in the order they came.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.journal().requests()
    }

    /// Returns every other request so far: lists of models, and paths that
    /// exist nowhere.
    pub fn other_requests(&self) -> Vec<ReceivedRequest> {
        self.journal().other_requests()
    }

    /// Waits until `count` requests for an answer came, and returns them.
    pub async fn wait_for_requests(&self, count: usize) -> Vec<ReceivedRequest> {
        self.journal().until(|counts| counts.requests >= count).await;
        self.requests()
    }

    /// Returns how many TCP connections were accepted so far.
    pub fn connections(&self) -> usize {
        self.journal().counts().connections
    }

    /// Lets one held reply continue; called before the hold is reached, it opens
    /// the gate in advance.
    pub fn release(&self) {
        self.journal().release(1);
    }

    /// Lets `count` held replies continue.
    pub fn release_many(&self, count: usize) {
        self.journal().release(count);
    }

    /// Waits until replies have reached `count` holds in all, since the start.
    pub async fn wait_for_holds(&self, count: usize) {
        self.journal().until(|counts| counts.holds >= count).await;
    }

    /// Returns how often a client hung up before its answer was complete.
    pub fn hangups(&self) -> usize {
        self.journal().counts().hangups
    }

    /// Waits until a client hung up before its answer was complete.
    pub async fn wait_for_hangup(&self) {
        self.wait_for_hangups(1).await;
    }

    /// Waits until clients hung up `count` times in all.
    pub async fn wait_for_hangups(&self, count: usize) {
        self.journal().until(|counts| counts.hangups >= count).await;
    }

    /// Waits until `count` answers were given to the end.
    pub async fn wait_for_answers(&self, count: usize) {
        self.journal().until(|counts| counts.answers >= count).await;
    }
}

impl std::fmt::Debug for ScriptedModel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ScriptedModel")
            .field("address", &self.address)
            .field("counts", &self.journal().counts())
            .finish_non_exhaustive()
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        drop(self.shutdown.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the server's thread was already printed there.
            thread.join().ok();
        }
    }
}

fn open_log(path: &Path) -> Result<File, StartError> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(|source| StartError::Log { path: path.to_owned(), source })
}

/// Serves until `stopped`.
async fn serve(listener: TcpListener, stage: Arc<RouteState>, stopped: oneshot::Receiver<()>) {
    let journal = Arc::clone(&stage.journal);
    let listener = listener.tap_io(move |stream| {
        // Without this a small delta waits for the acknowledgement of the one
        // before; a stream that cannot have it is slow, not wrong.
        stream.set_nodelay(true).ok();
        journal.connected();
    });
    let service = router(stage).into_make_service_with_connect_info::<SocketAddr>();
    tokio::select! {
        _ = stopped => {}
        _ = axum::serve(listener, service).into_future() => {}
    }
}
