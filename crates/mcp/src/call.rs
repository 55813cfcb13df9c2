//! One call of a tool.

use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam,
    ClientRequest, ContentBlock, JsonObject, ProgressNotificationParam, ProgressToken, RequestId,
    ResourceContents, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, ServiceError};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use vestal_agent::tools::{ShownPicture, shown_base64};
use vestal_agent::{ToolContext, ToolOutput};

use crate::connect::{PROGRESS_QUEUE, Watchers, chain};
use crate::server::{ConnectedServer, ServerConnection};
use crate::tool::one_line;

/// How long the reason for a lost connection is waited for.
const REASON: Duration = Duration::from_secs(2);

/// How often over a call may be given its time again because it shows signs of life.
const MOST_TIMES: u32 = 12;

/// Characters of what a server says about its progress.
const WORDS: usize = 300;

/// Calls a tool. Errors are worded so that a model can continue with them.
pub(crate) async fn call(
    server: &ConnectedServer,
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
    /// Whether nobody needs to be notified any more that the answer is not waited for.
    is_settled: bool,
    progress: mpsc::Receiver<ProgressNotificationParam>,
}

impl Calling {
    async fn begin(
        connection: &ServerConnection,
        tool: &str,
        arguments: JsonObject,
    ) -> Result<Self, ServiceError> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let (sender, progress) = mpsc::channel(PROGRESS_QUEUE);
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
            progress,
        })
    }

    async fn finish(
        mut self,
        server: &ConnectedServer,
        connection: &ServerConnection,
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
                Some(progress) = self.progress.recv() => {
                    deadline = (Instant::now() + within).min(last);
                    if let Some(line) = progress_line(&progress) {
                        context.emit_output(line);
                    }
                }
                () = sleep_until(deadline) => {
                    self.cancel("it took too long").await;
                    return late(server);
                }
            }
        };
        self.is_settled = true;
        while let Ok(progress) = self.progress.try_recv() {
            if let Some(line) = progress_line(&progress) {
                context.emit_output(line);
            }
        }
        self.forget().await;
        match answer {
            Ok(Ok(ServerResult::CallToolResult(result))) => output(result).await,
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
        let notification = self.peer.notify_cancelled(abandoned(self.id.clone(), why));
        drop(tokio::time::timeout(Duration::from_secs(1), notification).await);
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
fn progress_line(progress: &ProgressNotificationParam) -> Option<String> {
    let share = progress.total.filter(|total| *total > 0.0).map(|total| progress.progress / total);
    let share = share.filter(|share| (0.0..=1.0).contains(share));
    let share = share.map(|share| format!("{:.0} %", share * 100.0));
    let words = progress.message.as_deref().map(|words| one_line(words, WORDS));
    let parts: Vec<String> =
        share.into_iter().chain(words.filter(|words| !words.is_empty())).collect();
    (!parts.is_empty()).then(|| format!("{}\n", parts.join(" ")))
}

fn not_begun() -> ToolOutput {
    ToolOutput::error("interrupted by the user before the call was made; nothing was done")
}

fn interrupted() -> ToolOutput {
    ToolOutput::error("interrupted by the user; the server was asked to stop")
}

fn closed(name: &str) -> ToolOutput {
    ToolOutput::error(format!("the MCP server {name} is being closed"))
}

fn late(server: &ConnectedServer) -> ToolOutput {
    let (name, within) = (&server.plan.name, server.plan.timeout.as_secs());
    ToolOutput::error(format!(
        "the MCP server {name} did not answer within {within} s and was asked to stop; what the call \
         has done until then is not known (mcp_servers.{name}.timeout sets the time)"
    ))
}

/// Says why a call failed that the server did not answer with a result.
async fn failed(
    server: &ConnectedServer,
    connection: &ServerConnection,
    error: &ServiceError,
) -> ToolOutput {
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

/// Characters of a name or an address in a description.
const NAME: usize = 200;

/// Pictures of one result.
const MOST_PICTURES: usize = 10;

/// Values of a structured content that are looked for in its text.
const MOST_VALUES: usize = 1000;

/// Returns what the model reads, and the pictures that it sees.
pub(crate) async fn output(result: CallToolResult) -> ToolOutput {
    let mut parts: Vec<String> = Vec::with_capacity(result.content.len());
    let mut images = Vec::new();
    for block in &result.content {
        match encoded_picture(block) {
            None => parts.push(words(block)),
            Some((base64, about)) => match picture(base64, images.len()).await {
                Ok(shown) => {
                    parts.push(format!("[image: {}]", shown.about()));
                    images.push(shown.image);
                }
                Err(why) => parts.push(format!("[image: {about}, which is not shown: {why}]")),
            },
        }
    }
    if let Some(structured) = &result.structured_content
        && !is_same_content(&result.content, structured)
    {
        parts.push(structured.to_string());
    }
    parts.retain(|part| !part.is_empty());
    let is_error = result.is_error == Some(true);
    let content = match (parts.is_empty(), is_error) {
        (false, _) => parts.join("\n"),
        (true, true) => "the tool failed and did not say why".to_owned(),
        (true, false) => "(done; the tool returned nothing)".to_owned(),
    };
    ToolOutput { is_error, images, ..ToolOutput::ok(content) }
}

/// Returns the base64 of a picture, alone or in a resource, and what it is said to be.
fn encoded_picture(block: &ContentBlock) -> Option<(&str, String)> {
    match block {
        ContentBlock::Image(image) => Some((&image.data, size_of(&image.mime_type, &image.data))),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::BlobResourceContents { mime_type: Some(kind), blob, .. }
                if kind.starts_with("image/") =>
            {
                Some((blob, size_of(kind, blob)))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns a picture, if it is one that models take and not one too many. What is none would have
/// the provider refuse the whole conversation.
async fn picture(base64: &str, before: usize) -> Result<ShownPicture, String> {
    if before >= MOST_PICTURES {
        return Err(format!("a result shows {MOST_PICTURES} pictures at most"));
    }
    shown_base64(base64).await
}

/// Servers repeat what is structured as text for clients that know only text: as
/// JSON, item by item, or in words. Then each value stands in the text.
fn is_same_content(content: &[ContentBlock], structured: &Value) -> bool {
    let texts = content.iter().filter_map(|block| match block {
        ContentBlock::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    if text.trim().is_empty() {
        return false;
    }
    let mut values = Vec::new();
    collect(structured, &mut values);
    values.iter().all(|value| is_in_text(&text, value))
}

/// Collects the values at the ends of a structure.
fn collect<'a>(value: &'a Value, values: &mut Vec<&'a Value>) {
    match value {
        _ if values.len() >= MOST_VALUES => {}
        Value::Array(items) => {
            for item in items {
                collect(item, values);
            }
        }
        Value::Object(fields) => {
            for field in fields.values() {
                collect(field, values);
            }
        }
        end => values.push(end),
    }
}

fn is_in_text(shown: &str, value: &Value) -> bool {
    match value {
        Value::String(text) if text.trim().is_empty() => true,
        Value::String(text) => {
            let json = value.to_string();
            shown.contains(text.trim()) || shown.contains(&json[1..json.len() - 1])
        }
        // As a word of its own: 10 does not show 1.
        other => {
            let word = other.to_string();
            let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            shown.match_indices(&word).any(|(at, _)| {
                !is_part(shown[..at].chars().next_back())
                    && !is_part(shown[at + word.len()..].chars().next())
            })
        }
    }
}

fn words(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => {
            format!("[image: {}]", size_of(&image.mime_type, &image.data))
        }
        ContentBlock::Audio(audio) => {
            format!(
                "[audio: {}, which cannot be played here]",
                size_of(&audio.mime_type, &audio.data)
            )
        }
        ContentBlock::Resource(embedded) => resource(&embedded.resource),
        ContentBlock::ResourceLink(link) => {
            let (name, uri) = (one_line(&link.name, NAME), one_line(&link.uri, NAME));
            let about = link.description.as_deref().map(|about| one_line(about, NAME));
            let about = about.map(|about| format!(": {about}")).unwrap_or_default();
            format!("[resource {name} at {uri}{about}]")
        }
        _ => "[content of a kind that is not known here]".to_owned(),
    }
}

fn resource(resource: &ResourceContents) -> String {
    match resource {
        ResourceContents::TextResourceContents { uri, text, .. } => {
            format!("[resource {}]\n{text}", one_line(uri, NAME))
        }
        ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
            let kind = mime_type.as_deref().unwrap_or("application/octet-stream");
            format!("[resource {}: {}]", one_line(uri, NAME), size_of(kind, blob))
        }
        _ => "[resource of a kind that is not known here]".to_owned(),
    }
}

/// Returns the kind and the size of what base64 stands for.
fn size_of(mime_type: &str, base64: &str) -> String {
    let padding = base64.bytes().rev().take_while(|byte| *byte == b'=').count();
    let bytes = (base64.len() / 4 * 3).saturating_sub(padding);
    format!("{}, {bytes} bytes", one_line(mime_type, 80))
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
