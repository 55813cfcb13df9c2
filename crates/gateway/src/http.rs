//! The API server: who may ask, what is asked of whom, and how refusals look.

mod catalog;
mod chat;
mod error;
mod health;
mod idempotency;
mod input;
mod mcp;
mod openapi;
mod request_log;
mod responses;
mod routes;
mod runs;
mod sandboxes;
mod schedules;
mod server;
mod sessions;
mod shapes;
mod sse;
mod websocket;
mod words;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::address::{ApiSocket, ApiSocketError};
use crate::questions::OpenQuestions;
use crate::runs::Runs;
use crate::settings::ApiServer;
use crate::state::StateFile;
use crate::store::{GatewayStore, store_path};
use crate::turns::Turns;
pub(crate) use error::ApiError;
pub use routes::openapi_document;

/// The largest body of a request: a long conversation with pictures.
const MAX_BODY: usize = 32 << 20;

/// The header that names the conversation of a request and of its answer.
const SESSION_HEADER: &str = "x-vestal-session-id";

/// What the handlers share.
#[derive(Debug, Clone)]
struct ApiState {
    turns: Turns,
    runs: Runs,
    store: GatewayStore,
    state: Arc<StateFile>,
    server: Arc<ApiServer>,
    /// Requests that continue without their client.
    tasks: TaskTracker,
    sockets: websocket::WebSockets,
    mcp: vestal_mcp_server::HttpEndpoint,
}

/// Why an API server was not started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpStartError {
    /// Its address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] io::Error),
    /// Its socket cannot be listened on.
    #[error(transparent)]
    Socket(#[from] ApiSocketError),
    /// Its store cannot be used.
    #[error(transparent)]
    Store(#[from] vestal_database::Error),
    /// A setting of sessions over WebSocket cannot be used.
    #[error(transparent)]
    Settings(#[from] vestal_config::ConfigError),
}

/// An API server that listens.
#[derive(Debug)]
pub(crate) struct HttpServer {
    addresses: Vec<String>,
    stop: CancellationToken,
    task: JoinHandle<io::Result<()>>,
    runs: Runs,
    tasks: TaskTracker,
    store: GatewayStore,
}

impl HttpServer {
    /// Binds the address, answers requests that a gateway before this one left without an answer,
    /// and begins to serve. Its runs are as that one left them.
    pub(crate) async fn start(
        server: ApiServer,
        turns: Turns,
        state: Arc<StateFile>,
        questions: &OpenQuestions,
        home: &Path,
    ) -> Result<Self, HttpStartError> {
        let mut addresses = Vec::new();
        let port = match &server.host {
            Some(host) => {
                let listener = TcpListener::bind((host.as_str(), server.port)).await?;
                addresses.push(listener.local_addr()?.to_string());
                Some(listener)
            }
            None => None,
        };
        let socket = server.socket.as_deref().map(ApiSocket::listen).transpose()?;
        addresses.extend(socket.iter().map(|socket| format!("unix:{}", socket.path.display())));
        let store = GatewayStore::open(&store_path(home)).await?;
        idempotency::settle_lost(&store).await?;
        let runs = Runs::start(turns.clone(), store.clone(), questions.changes()).await?;
        let tasks = TaskTracker::new();
        let sockets = websocket::WebSockets::new(&server, &turns, questions.changes())?;
        questions.set_sources(runs.clone(), sockets.server().clone());
        let stop = CancellationToken::new();
        // Not `stop`, which begins a drain: what runs then has time to end.
        let ended = CancellationToken::new();
        let mcp = mcp::endpoint(turns.runtime().agent().engine().clone(), ended);
        let app = ApiState {
            turns,
            runs: runs.clone(),
            store: store.clone(),
            state,
            server: Arc::new(server),
            tasks: tasks.clone(),
            sockets,
            mcp,
        };
        let head_within = app.server.timeouts.head;
        let (router, stopping) = (routes::router(app), stop.clone());
        let task = tokio::spawn(async move {
            let on_port = async {
                let Some(port) = port else { return Ok(()) };
                server::serve(port, router.clone(), head_within, stopping.clone()).await
            };
            let on_socket = async {
                let Some(socket) = socket else { return Ok(()) };
                server::serve(socket, router.clone(), head_within, stopping.clone()).await
            };
            tokio::try_join!(on_port, on_socket).map(|_| ())
        });
        Ok(Self { addresses, stop, task, runs, tasks, store })
    }

    /// Returns where it listens.
    pub(crate) fn addresses(&self) -> &[String] {
        &self.addresses
    }

    pub(crate) fn runs(&self) -> &Runs {
        &self.runs
    }

    /// Returns when the server has ended, which it does not do by itself.
    pub(crate) async fn ended(&mut self) -> String {
        match (&mut self.task).await {
            Ok(Ok(())) => "the server ended".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        }
    }

    /// Takes no new connections.
    pub(crate) fn stop_accepting(&self) {
        self.stop.cancel();
    }

    /// Ends every connection. Answers that are complete have been sent, and what happened in runs
    /// is stored. Turns must have ended.
    pub(crate) async fn stop(mut self, grace: Duration) {
        self.stop.cancel();
        self.tasks.close();
        let unfinished = async {
            self.runs.finish().await;
            self.tasks.wait().await;
        };
        if tokio::time::timeout(STORED_WITHIN, unfinished).await.is_err() {
            tracing::warn!("what happened last in some runs was not stored in time");
        }
        if tokio::time::timeout(grace, &mut self.task).await.is_err() {
            self.task.abort();
        }
        self.store.close().await;
    }
}

/// How long the last events of runs and the last answers may take to be stored.
const STORED_WITHIN: Duration = Duration::from_secs(5);
