//! Reaching a server, and what is known when that fails.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    ClientCapabilities, ClientConfig, ErrorCode, Implementation, ProgressNotificationParam,
    ProgressToken, ProtocolVersion,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, NotificationContext, RunningService,
    serve_client_with_lifecycle,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::auth::AuthClient;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use rmcp::{ClientHandler, RoleClient};
use tokio::sync::{Mutex, Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use vestal_agent::redact::Redactor;

use crate::lines::{self, OutputProblems, WatchedLines};
use crate::login;
use crate::plan::{ServerPlan, ServerTarget, find_program, path_of};
use crate::process::{self, ServerProcess, ServerProgram};
use crate::server::ServerError;
use crate::stderr::{ServerLog, StderrTail};
use crate::tool::one_line;
use crate::web;

/// How long to wait for the exit status and last output of a server that closed its connection.
const EXIT_GRACE: Duration = Duration::from_millis(300);

/// How long a connection that is no longer needed may take to close.
pub(crate) const DISCONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// Characters of an error.
const WORDS: usize = 300;

/// A server that answers.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) running: RunningService<RoleClient, NotificationHandler>,
    pub(crate) listener: NotificationHandler,
    pub(crate) remains: ConnectionExtras,
}

/// What there is besides the connection itself.
#[derive(Debug, Default)]
pub(crate) struct ConnectionExtras {
    process: Option<ServerProcess>,
    stderr: Option<JoinHandle<()>>,
    oddities: OutputProblems,
    tail: StderrTail,
    redactor: Redactor,
}

/// Reaches a server, within the time it has for that. What fails leaves
/// nothing behind, also when nobody wants it any more.
pub(crate) async fn connect(
    plan: &ServerPlan,
    log: &ServerLog,
    cancel: &CancellationToken,
) -> Result<Live, ServerError> {
    let reached = reach(plan, log, cancel).await;
    reached.map_err(|trouble| trouble.masked(log.redactor()))
}

/// Ends a connection. A server with an address gets the end of its session.
pub(crate) async fn leave(mut running: RunningService<RoleClient, NotificationHandler>) {
    // It ends by itself if that takes longer, as long as we live.
    drop(running.close_with_timeout(DISCONNECT_TIMEOUT).await);
}

async fn reach(
    plan: &ServerPlan,
    log: &ServerLog,
    cancel: &CancellationToken,
) -> Result<Live, ServerError> {
    let target = plan.target.as_ref().map_err(Clone::clone)?;
    match attempt(plan, target, log, ClientLifecycleMode::Initialize, cancel).await {
        Err(ConnectFailure { wants_discovery: true, .. }) => {
            let preferred_versions = vec![ProtocolVersion::LATEST];
            let newer = ClientLifecycleMode::Discover { preferred_versions };
            attempt(plan, target, log, newer, cancel).await.map_err(|failure| failure.trouble)
        }
        other => other.map_err(|failure| failure.trouble),
    }
}

/// Why an attempt failed.
struct ConnectFailure {
    trouble: ServerError,
    /// Whether the server is one that does without the usual greeting.
    wants_discovery: bool,
}

impl From<ServerError> for ConnectFailure {
    fn from(trouble: ServerError) -> Self {
        Self { trouble, wants_discovery: false }
    }
}

async fn attempt(
    plan: &ServerPlan,
    target: &ServerTarget,
    log: &ServerLog,
    mode: ClientLifecycleMode,
    cancel: &CancellationToken,
) -> Result<Live, ConnectFailure> {
    let listener = NotificationHandler::default();
    let mut remains =
        ConnectionExtras { redactor: log.redactor().clone(), ..ConnectionExtras::default() };
    let within = plan.connect_timeout;
    let opened = match target {
        ServerTarget::Program { .. } => {
            let transport = remains.start(&plan.name, target, log)?;
            let serving = serve_client_with_lifecycle(listener.clone(), transport, mode);
            tokio::select! {
                served = timeout(within, serving) => served,
                () = remains.gone() => {
                    Ok(Err(ClientInitializeError::ConnectionClosed("it ended".to_owned())))
                }
                () = cancel.cancelled() => Ok(Err(ClientInitializeError::Cancelled)),
            }
        }
        ServerTarget::Address { url, headers, proxy, tokens, .. } => {
            let (client, config) = web::client_of(url, headers, proxy.as_deref())?;
            let handler = listener.clone();
            let serving = async move {
                let manager = match tokens {
                    Some(tokens) => login::logged_in(tokens, url).await?,
                    None => None,
                };
                let served = match manager {
                    Some(manager) => {
                        let client = AuthClient::new(client, manager);
                        let transport = StreamableHttpClientTransport::with_client(client, config);
                        serve_client_with_lifecycle(handler, transport, mode).await
                    }
                    None => {
                        let transport = StreamableHttpClientTransport::with_client(client, config);
                        serve_client_with_lifecycle(handler, transport, mode).await
                    }
                };
                Ok::<_, ServerError>(served)
            };
            tokio::select! {
                served = timeout(within, serving) => match served {
                    Ok(Ok(served)) => Ok(served),
                    Ok(Err(trouble)) => return Err(trouble.into()),
                    Err(late) => Err(late),
                },
                () = cancel.cancelled() => Ok(Err(ClientInitializeError::Cancelled)),
            }
        }
    };
    let error = match opened {
        Ok(Ok(running)) => return Ok(Live { running, listener, remains }),
        Ok(Err(error)) => error,
        Err(_) => {
            let hint = remains.end_details().await;
            remains.end().await;
            return Err(ServerError::Late { within, hint }.into());
        }
    };
    let wants_discovery = matches!(
        &error,
        ClientInitializeError::JsonRpcError(error)
            if [ErrorCode::METHOD_NOT_FOUND, ErrorCode::UNSUPPORTED_PROTOCOL_VERSION].contains(&error.code)
    );
    let trouble = remains.trouble(plan, target, &error).await;
    remains.end().await;
    Err(ConnectFailure { trouble, wants_discovery })
}

type ProgramTransport = AsyncRwTransport<
    RoleClient,
    WatchedLines<tokio::process::ChildStdout>,
    tokio::process::ChildStdin,
>;

impl ConnectionExtras {
    /// Starts a program and returns what speaks to it.
    fn start(
        &mut self,
        name: &str,
        target: &ServerTarget,
        log: &ServerLog,
    ) -> Result<ProgramTransport, ServerError> {
        let ServerTarget::Program { command, args, env, cwd, places } = target else {
            return Err(ServerError::Settings("it is not a program".to_owned()));
        };
        let found = find_program(command, path_of(env), places)?;
        let mut env = env.clone();
        env.retain(|(name, _)| name != "PATH");
        env.push(("PATH".into(), found.path));
        if let Some(cwd) = cwd.as_deref().filter(|cwd| !cwd.is_dir()) {
            let text = format!("mcp_servers.{name}.cwd, {}, is not a directory", cwd.display());
            return Err(ServerError::Settings(text));
        }
        let program =
            ServerProgram { file: found.program, args: args.clone(), env, cwd: cwd.clone() };
        let (process, streams) =
            process::start(&program).map_err(|error| ServerError::Failed(error.to_string()))?;
        self.process = Some(process);
        let following = log.clone().follow(name.to_owned(), streams.stderr, self.tail.clone());
        self.stderr = Some(tokio::spawn(following));
        let stdout = WatchedLines::new(streams.stdout, self.oddities.clone());
        // What is too long is the watcher's to decide: here it would be passed over in silence.
        let transport = AsyncRwTransport::new_client(stdout, streams.stdin);
        Ok(transport.with_max_line_length(2 * lines::LONGEST))
    }

    /// Waits until the program is gone and what it said last has arrived. That
    /// its output has ended is not a sign of it: something it started may hold it.
    pub(crate) async fn gone(&mut self) {
        match &mut self.process {
            Some(process) => process.gone().await,
            None => std::future::pending().await,
        }
        tokio::time::sleep(EXIT_GRACE).await;
    }

    /// Returns what is known about an end, in words that follow others.
    pub(crate) async fn end_details(&mut self) -> String {
        let mut words = Vec::new();
        if let Some(process) = &mut self.process
            && let Some(status) = process.ended(EXIT_GRACE).await
        {
            words.push(format!("its program ended ({status})"));
            // What is finished must not be asked again.
            if let Some(stderr) = &mut self.stderr
                && timeout(EXIT_GRACE, stderr).await.is_ok()
            {
                self.stderr = None;
            }
        }
        words.extend(self.oddities.in_words(&self.redactor));
        words.extend(self.tail.in_words(&self.redactor));
        words.iter().flat_map(|words| ["; ", words]).collect()
    }

    async fn trouble(
        &mut self,
        plan: &ServerPlan,
        target: &ServerTarget,
        error: &ClientInitializeError,
    ) -> ServerError {
        let ServerTarget::Address { url, .. } = target else {
            let known = self.end_details().await;
            let gone = matches!(
                error,
                ClientInitializeError::ConnectionClosed(_)
                    | ClientInitializeError::TransportError { .. }
            );
            // That the connection is closed says less than why.
            let text = match known.strip_prefix("; ") {
                Some(known) if gone => known.to_owned(),
                _ => format!("{}{known}", reason(error)),
            };
            return ServerError::Failed(text);
        };
        let public = web::public(url);
        if error.is_authorization_required() {
            return ServerError::Unauthorized(format!(
                "{public} requires authorization; log in with vestal mcp login {0}, or set a key in \
                 mcp_servers.{0}.headers, such as Authorization: Bearer ${{NAME_OF_A_VARIABLE}}",
                plan.name
            ));
        }
        ServerError::Failed(format!("{public} does not answer as an MCP server: {}", reason(error)))
    }

    /// Ends what was started. Afterwards nothing of it is left.
    pub(crate) async fn end(self) {
        if let Some(process) = self.process {
            process.end().await;
        }
        if let Some(stderr) = self.stderr {
            // Something that left the group may hold the stream.
            let abort = stderr.abort_handle();
            drop(timeout(EXIT_GRACE, stderr).await);
            abort.abort();
        }
    }
}

/// Returns why no connection came about. What the SDK calls its parts is of no
/// use to anybody here.
fn reason(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => chain(error.error.as_ref()),
        ClientInitializeError::JsonRpcError(error) => one_line(&error.message, WORDS),
        other => chain(other),
    }
}

type WebError = StreamableHttpError<reqwest::Error>;

/// Returns an error and what caused it, each thing once.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(StreamableHttpError::Client(own)) = error.downcast_ref::<WebError>() {
            // It does not name its cause as such.
            cause = Some(own);
            continue;
        }
        let text = one_line(&error.to_string(), WORDS);
        if !texts.iter().any(|known| known.contains(&text)) {
            texts.push(text);
        }
        cause = error.source();
    }
    texts.join(": ")
}

/// Progress notifications of one call that wait to be read; later ones are dropped.
pub(crate) const PROGRESS_QUEUE: usize = 64;

/// The receivers of progress notifications, by call. The lock is held while a call is sent,
/// so that no notification comes before its receiver is there.
pub(crate) type Watchers =
    Arc<Mutex<HashMap<ProgressToken, mpsc::Sender<ProgressNotificationParam>>>>;

/// The client's side of a connection: receives notifications. It offers the server
/// nothing: no sampling, no roots, no elicitation.
#[derive(Debug, Clone, Default)]
pub(crate) struct NotificationHandler {
    pub(crate) watchers: Watchers,
    /// Notified when the server's tools have changed.
    pub(crate) changed: Arc<Notify>,
}

impl ClientHandler for NotificationHandler {
    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        if let Some(watcher) = self.watchers.lock().await.get(&progress.progress_token) {
            // A full queue drops the notification: progress is only shown.
            drop(watcher.try_send(progress));
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("vestal", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), own)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}
