//! One call of a tool.

use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientRequest, JsonObject,
    ProgressNotificationParam, ProgressToken, RequestId, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, ServiceError};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use vestal_agent::{ToolContext, ToolOutput};

use crate::answer;
use crate::client::{NEWS, Watchers};
use crate::connect::chain;
use crate::printable::one_line;
use crate::server::{Connection, Server};

/// How long the reason for a lost connection is waited for.
const REASON: Duration = Duration::from_secs(2);

/// How often over a call may be given its time again because it shows signs of life.
const MOST_TIMES: u32 = 12;

/// Characters of what a server says about its progress.
const WORDS: usize = 300;

/// Calls a tool. Whatever happens is said such that a model can go on with it.
pub(crate) async fn call(
    server: &Server,
    tool: &str,
    arguments: JsonObject,
    context: &ToolContext,
) -> ToolOutput {
    let name = &server.plan.name;
    let connected = tokio::select! {
        biased;
        () = context.cancel.cancelled() => return not_begun(),
        () = server.shared.cancel.cancelled() => return closed(name),
        connected = server.connection() => connected,
    };
    let connection = match connected {
        Ok(connection) => connection,
        Err(trouble) => {
            let text = format!("the MCP server {name} cannot be used now: {trouble}");
            return ToolOutput::error(text);
        }
    };
    match Calling::begin(&connection, tool, arguments).await {
        Ok(calling) => calling.finish(server, &connection, context).await,
        Err(error) => failed(server, &connection, &error).await,
    }
}

/// A call under way. If it is dropped before it has its answer, the server is
/// told that nobody waits for it any more.
struct Calling {
    peer: Peer<RoleClient>,
    watchers: Watchers,
    id: RequestId,
    token: ProgressToken,
    response: tokio::sync::oneshot::Receiver<Result<ServerResult, ServiceError>>,
    /// Whether nobody need be told any more that the answer is not waited for.
    is_settled: bool,
    news: mpsc::Receiver<ProgressNotificationParam>,
}

impl Calling {
    async fn begin(
        connection: &Connection,
        tool: &str,
        arguments: JsonObject,
    ) -> Result<Self, ServiceError> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let (sender, news) = mpsc::channel(NEWS);
        let mut watchers = connection.watchers.lock().await;
        let options = PeerRequestOptions::no_options();
        let handle = connection.peer.send_cancellable_request(request, options).await?;
        watchers.insert(handle.progress_token.clone(), sender);
        Ok(Self {
            peer: connection.peer.clone(),
            watchers: std::sync::Arc::clone(&connection.watchers),
            id: handle.id,
            token: handle.progress_token,
            response: handle.rx,
            is_settled: false,
            news,
        })
    }

    async fn finish(
        mut self,
        server: &Server,
        connection: &Connection,
        context: &ToolContext,
    ) -> ToolOutput {
        let within = server.plan.timeout;
        let last = Instant::now() + within * MOST_TIMES;
        let mut deadline = Instant::now() + within;
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut self.response => break answer,
                () = context.cancel.cancelled() => {
                    self.cancel("the user interrupted").await;
                    return interrupted();
                }
                Some(news) = self.news.recv() => {
                    deadline = (Instant::now() + within).min(last);
                    if let Some(line) = progress(&news) {
                        context.tell_output(line);
                    }
                }
                () = sleep_until(deadline) => {
                    self.cancel("it took too long").await;
                    return late(server);
                }
            }
        };
        self.is_settled = true;
        while let Ok(news) = self.news.try_recv() {
            if let Some(line) = progress(&news) {
                context.tell_output(line);
            }
        }
        self.forget().await;
        match answer {
            Ok(Ok(ServerResult::CallToolResult(result))) => answer::output(result),
            Ok(Ok(ServerResult::InputRequiredResult(_))) => ToolOutput::error(
                "the tool asks for input from a person over MCP, which is not supported here",
            ),
            Ok(Ok(_)) => ToolOutput::error("the server answered something else than a result"),
            Ok(Err(error)) => failed(server, connection, &error).await,
            Err(_) => failed(server, connection, &ServiceError::TransportClosed).await,
        }
    }

    /// Tells the server that nobody waits for the answer any more.
    async fn cancel(mut self, why: &str) {
        self.is_settled = true;
        let told = self.peer.notify_cancelled(abandoned(self.id.clone(), why));
        drop(tokio::time::timeout(Duration::from_secs(1), told).await);
        self.forget().await;
    }

    async fn forget(&mut self) {
        self.watchers.lock().await.remove(&self.token);
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        if self.is_settled {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (peer, watchers) = (self.peer.clone(), std::sync::Arc::clone(&self.watchers));
        let (id, token) = (self.id.clone(), self.token.clone());
        runtime.spawn(async move {
            watchers.lock().await.remove(&token);
            drop(peer.notify_cancelled(abandoned(id, "it was given up")).await);
        });
    }
}

fn abandoned(id: RequestId, why: &str) -> CancelledNotificationParam {
    CancelledNotificationParam::new(Some(id), Some(why.to_owned()))
}

/// Returns a line about how far a call has come.
fn progress(news: &ProgressNotificationParam) -> Option<String> {
    let share = news.total.filter(|total| *total > 0.0).map(|total| news.progress / total);
    let share = share.filter(|share| (0.0..=1.0).contains(share));
    let share = share.map(|share| format!("{:.0} %", share * 100.0));
    let words = news.message.as_deref().map(|words| one_line(words, WORDS));
    let parts: Vec<String> =
        share.into_iter().chain(words.filter(|words| !words.is_empty())).collect();
    (!parts.is_empty()).then(|| format!("{}\n", parts.join(" ")))
}

fn not_begun() -> ToolOutput {
    ToolOutput::error("interrupted by the user before the call was made; nothing was done")
}

fn interrupted() -> ToolOutput {
    ToolOutput::error("interrupted by the user; the server was told to stop")
}

fn closed(name: &str) -> ToolOutput {
    ToolOutput::error(format!("the MCP server {name} is being closed"))
}

fn late(server: &Server) -> ToolOutput {
    let (name, within) = (&server.plan.name, server.plan.timeout.as_secs());
    ToolOutput::error(format!(
        "the MCP server {name} did not answer within {within} s and was told to stop; what the call \
         has done until then is not known (mcp_servers.{name}.timeout sets the time)"
    ))
}

/// Says why a call failed that the server did not answer with a result.
async fn failed(server: &Server, connection: &Connection, error: &ServiceError) -> ToolOutput {
    let name = &server.plan.name;
    if let ServiceError::McpError(error) = error {
        let text = one_line(&error.message, 2000);
        let data =
            error.data.as_ref().map(|data| format!(" {}", one_line(&data.to_string(), 1000)));
        return ToolOutput::error(format!("{text}{}", data.unwrap_or_default()));
    }
    if matches!(error, ServiceError::TransportClosed) {
        drop(tokio::time::timeout(REASON, connection.lost.cancelled()).await);
        let why = connection.why();
        let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
        return ToolOutput::error(format!(
            "the MCP server {name} went away during the call{why}; whether the call did anything is \
             not known; the next call starts it again"
        ));
    }
    let text = match error {
        ServiceError::TransportSend(error) => chain(error.error.as_ref()),
        other => chain(other),
    };
    ToolOutput::error(format!("the MCP server {name} could not be asked: {text}"))
}
