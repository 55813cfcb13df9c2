//! One connection: lines in both directions, and the requests in them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use vestal_api::{MessageLine, MessageLines};
use vestal_runtime::panics::caught;

use crate::client::EditorClient;
use crate::content::PromptContent;
use crate::error::AcpError;
use crate::limits;
use crate::outbox::EditorOutbox;
use crate::protocol::{
    CancelRequestParams, Incoming, InitializeParams, ListSessionsParams, LoadSessionParams,
    NamedSession, NewSessionParams, PromptParams, RequestId, SetModeParams, SetOptionParams,
    VERSION,
};
use crate::replay;
use crate::server::{AcpServer, EditorSessions, OpenedSession};
use crate::session::{EditorSession, EnteredPrompt, checked_dir, opened, opened_again};

/// How long requests may take to end whose client is gone.
const ENDED_WITHIN: Duration = Duration::from_millis(700);

/// Why serving a client ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditorEnd {
    /// It closed its end, or the server was asked to stop.
    Gone,
    /// It does not read what it is sent.
    NotReading,
}

impl AcpServer {
    /// Serves one client until it is gone, or until `stop`. What runs is interrupted then, and every
    /// session is closed.
    pub async fn serve<R, W>(&self, input: R, output: W, stop: CancellationToken) -> EditorEnd
    where
        R: AsyncRead + Send + Unpin,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let client = EditorClient::default();
        let life = CancellationToken::new();
        let connection = Arc::new(Connection {
            sessions: self.connect(client.clone()),
            client: client.clone(),
            life: life.clone(),
            tasks: TaskTracker::new(),
            unanswered: Mutex::default(),
        });
        let mut writer = tokio::spawn(write(output, client.outbox().clone()));
        let end = tokio::select! {
            biased;
            () = stop.cancelled() => EditorEnd::Gone,
            // Only a client that is gone, or was given up, ends it.
            _ = &mut writer => {
                if client.outbox().is_given_up() { EditorEnd::NotReading } else { EditorEnd::Gone }
            }
            () = connection.read(input) => EditorEnd::Gone,
        };
        life.cancel();
        client.gone();
        connection.tasks.close();
        let closing = async {
            connection.tasks.wait().await;
            connection.sessions.close_all().await;
            client.outbox().close();
            if !writer.is_finished() {
                writer.await.ok();
            }
        };
        if tokio::time::timeout(ENDED_WITHIN, closing).await.is_err() {
            tracing::warn!("the end of the sessions was not waited for");
        }
        end
    }
}

/// Writes lines until there are no more, or nobody reads them.
async fn write<W: AsyncWrite + Unpin>(mut output: W, outbox: EditorOutbox) {
    while let Some(mut line) = outbox.next().await {
        line.push('\n');
        let written = async {
            output.write_all(line.as_bytes()).await?;
            output.flush().await
        };
        tokio::select! {
            biased;
            () = outbox.given_up() => return,
            written = written => if let Err(error) = written {
                tracing::info!(%error, "nobody reads the answers any more");
                return outbox.forget();
            },
        }
    }
}

/// A connection.
struct Connection {
    sessions: Arc<EditorSessions>,
    client: EditorClient,
    /// Cancelled when the client is gone.
    life: CancellationToken,
    tasks: TaskTracker,
    unanswered: Mutex<Unanswered>,
}

/// Requests that have no answer yet: how long they are, and what cancels them.
#[derive(Debug, Default)]
struct Unanswered {
    requests: HashMap<RequestId, (usize, CancellationToken)>,
    bytes: usize,
}

/// A request that is being answered.
struct Request {
    id: RequestId,
    method: String,
    params: Value,
    /// Cancelled by `$/cancel_request` and when the client is gone.
    token: CancellationToken,
    /// Of a prompt, its place in the session.
    prompt: Option<Result<EnteredPrompt, AcpError>>,
}

impl Connection {
    /// Reads messages until there are no more.
    async fn read<R: AsyncRead + Unpin>(self: &Arc<Self>, input: R) {
        let mut lines = MessageLines::new(input, limits::MESSAGE_BYTES);
        let mut is_initialized = false;
        loop {
            // A client that reads nothing says no more either.
            self.client.outbox().room().await;
            let line = match lines.next().await {
                // What is unfinished at the end is no message.
                Ok(None) | Err(_) => return,
                Ok(Some(MessageLine::Whole(line))) => line,
                Ok(Some(MessageLine::TooLong(id))) => {
                    let id: Option<RequestId> = id.and_then(|id| serde_json::from_value(id).ok());
                    let most = limits::MESSAGE_BYTES >> 20;
                    let error = AcpError::request(format!("the message is longer than {most} MiB"));
                    self.client.answer(id.as_ref(), Err(error));
                    continue;
                }
            };
            let length = line.len();
            let Ok(message) = serde_json::from_slice(&line) else {
                self.client.answer(None, Err(AcpError::parse("a line is not JSON")));
                continue;
            };
            drop(line);
            match Incoming::read(message) {
                Incoming::Request { id, method, params } => {
                    is_initialized |= method == "initialize";
                    if is_initialized {
                        self.request(id, method, params, length);
                    } else {
                        let error = AcpError::request("the first request is `initialize`");
                        self.client.answer(Some(&id), Err(error));
                    }
                }
                Incoming::Notification { method, params } => self.notified(&method, params),
                Incoming::Response { id, result } => self.client.answered(&id, result),
                Incoming::Bad(id) => {
                    let error = AcpError::request("a line is not a JSON-RPC message");
                    self.client.answer(id.as_ref(), Err(error));
                }
            }
        }
    }

    fn notified(&self, method: &str, params: Value) {
        match method {
            "session/cancel" => {
                if let Ok(NamedSession { session_id }) = serde_json::from_value(params)
                    && let Ok(session) = self.sessions.get(&session_id)
                {
                    session.cancel();
                }
            }
            "$/cancel_request" => {
                if let Ok(CancelRequestParams { request_id }) = serde_json::from_value(params)
                    && let Some((_, token)) = self.unanswered().requests.get(&request_id)
                {
                    token.cancel();
                }
            }
            // Those that are not known mean nothing.
            _ => {}
        }
    }

    /// Begins to answer a request, or refuses it.
    fn request(self: &Arc<Self>, id: RequestId, method: String, params: Value, length: usize) {
        let token = self.life.child_token();
        let refused = {
            let mut unanswered = self.unanswered();
            if unanswered.requests.contains_key(&id) {
                // With the id, it would be taken for the answer to the first request.
                Some((None, "the id of a request is that of an earlier one without an answer"))
            } else if unanswered.requests.len() >= limits::REQUESTS
                || unanswered.bytes + length > limits::REQUEST_BYTES
            {
                Some((Some(&id), "too many requests at once; wait for answers to earlier ones"))
            } else {
                unanswered.requests.insert(id.clone(), (length, token.clone()));
                unanswered.bytes += length;
                None
            }
        };
        if let Some((id, reason)) = refused {
            return self.client.answer(id, Err(AcpError::request(reason)));
        }
        // At once, so that what cancels a session meets the prompts that came before it.
        let (prompt, params) = if method == "session/prompt" {
            (Some(self.enter(&token, params)), Value::Null)
        } else {
            (None, params)
        };
        let request = Request { id, method, params, token, prompt };
        let connection = Arc::clone(self);
        self.tasks.spawn(async move {
            let id = request.id.clone();
            let answering = connection.handle(request);
            let answer = caught("a request of an editor has failed", answering).await;
            let answer = answer.unwrap_or_else(|| {
                let bug = "the request met a bug in vestal; the log says which";
                Some(Err(AcpError::internal(bug)))
            });
            // First the place, so that a client with the answer has it.
            connection.end(&id);
            if let Some(answer) = answer {
                connection.client.answer(Some(&id), answer);
            }
        });
    }

    fn enter(&self, token: &CancellationToken, params: Value) -> Result<EnteredPrompt, AcpError> {
        let PromptParams { session_id, prompt } = read(params)?;
        let session = self.sessions.get(&session_id)?;
        let content = PromptContent::read(prompt, session.view.shared())?;
        Ok(session.enter(token, content))
    }

    fn end(&self, id: &RequestId) {
        let mut unanswered = self.unanswered();
        if let Some((length, _)) = unanswered.requests.remove(id) {
            unanswered.bytes -= length;
        }
    }

    /// Answers a request; none if it was answered on the way, because something has to follow.
    async fn handle(&self, request: Request) -> Option<Result<Value, AcpError>> {
        let Request { id, method, params, token, prompt } = request;
        let answered = match method.as_str() {
            "initialize" => initialize(params),
            "authenticate" => Err(AcpError::params(
                "nobody has to log in; models have their keys in the settings",
            )),
            "session/new" => return self.new_session(&id, params).await.err().map(Err),
            "session/load" => return self.load(&id, params, &token).await.err().map(Err),
            "session/resume" => return self.resume(&id, params).await.err().map(Err),
            "session/list" => match read::<ListSessionsParams>(params) {
                Ok(params) => self.sessions.list(params).await,
                Err(error) => Err(error),
            },
            "session/prompt" => self.prompt(prompt).await,
            "session/set_mode" => self.set_mode(params),
            "session/set_config_option" => self.set_option(params, &token).await,
            "session/close" => self.close(params).await,
            other => Err(AcpError::method(other)),
        };
        Some(answered)
    }

    async fn new_session(&self, id: &RequestId, params: Value) -> Result<(), AcpError> {
        let NewSessionParams { cwd, mcp_servers } = read(params)?;
        let OpenedSession { session, notices } =
            self.sessions.create(checked_dir(cwd)?, mcp_servers).await?;
        // The client learns of the session before it hears from it.
        self.client.answer(Some(id), Ok(opened(&session)));
        session.introduce(&notices);
        Ok(())
    }

    async fn load(
        &self,
        id: &RequestId,
        params: Value,
        token: &CancellationToken,
    ) -> Result<(), AcpError> {
        let (session, notices) = self.reopen(params).await?;
        let history = self.sessions.history(&session).await?;
        for update in replay::updates(history, session.view.shared()) {
            session.view.send(update);
            tokio::select! {
                biased;
                () = token.cancelled() => return Err(AcpError::request("cancelled")),
                () = self.client.outbox().room() => {}
            }
        }
        // The answer says that all of it was shown.
        self.client.answer(Some(id), Ok(opened_again(&session)));
        session.introduce(&notices);
        Ok(())
    }

    async fn resume(&self, id: &RequestId, params: Value) -> Result<(), AcpError> {
        let (session, notices) = self.reopen(params).await?;
        self.client.answer(Some(id), Ok(opened_again(&session)));
        session.introduce(&notices);
        Ok(())
    }

    async fn reopen(&self, params: Value) -> Result<(Arc<EditorSession>, Vec<String>), AcpError> {
        let LoadSessionParams { session_id, cwd, mcp_servers } = read(params)?;
        let OpenedSession { session, notices } =
            self.sessions.resume(&session_id, checked_dir(cwd)?, mcp_servers).await?;
        Ok((session, notices))
    }

    async fn prompt(
        &self,
        prompt: Option<Result<EnteredPrompt, AcpError>>,
    ) -> Result<Value, AcpError> {
        let missing = || AcpError::internal("the prompt has no place");
        let stop = prompt.ok_or_else(missing)??.carry_out().await?;
        Ok(json!({ "stopReason": stop }))
    }

    fn set_mode(&self, params: Value) -> Result<Value, AcpError> {
        let SetModeParams { session_id, mode_id } = read(params)?;
        let session = self.sessions.get(&session_id)?;
        session.set_mode(&mode_id)?;
        session.show_options();
        Ok(json!({}))
    }

    async fn set_option(
        &self,
        params: Value,
        token: &CancellationToken,
    ) -> Result<Value, AcpError> {
        let SetOptionParams { session_id, config_id, value } = read(params)?;
        let session = self.sessions.get(&session_id)?;
        session.set_option(token, &config_id, &value).await?;
        Ok(json!({ "configOptions": session.config_options() }))
    }

    async fn close(&self, params: Value) -> Result<Value, AcpError> {
        let NamedSession { session_id } = read(params)?;
        let session = self.sessions.get(&session_id)?;
        self.sessions.close(&session).await;
        Ok(json!({}))
    }

    fn unanswered(&self) -> MutexGuard<'_, Unanswered> {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, AcpError> {
    serde_json::from_value(params)
        .map_err(|error| AcpError::params(format!("the parameters have the wrong form: {error}")))
}

fn initialize(params: Value) -> Result<Value, AcpError> {
    let InitializeParams { client_info, .. } = read(params)?;
    let client = client_info.map(|info| crate::error::shown(&info.name));
    tracing::info!(client, "an editor has connected");
    Ok(json!({
        "protocolVersion": VERSION,
        "agentInfo": {
            "name": "vestal",
            "title": "Vestal",
            "version": env!("CARGO_PKG_VERSION"),
        },
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": { "image": true, "audio": false, "embeddedContext": true },
            "mcpCapabilities": { "http": true, "sse": false },
            "sessionCapabilities": { "list": {}, "resume": {}, "close": {} },
        },
        "authMethods": [],
    }))
}
