//! The tools of the server for tests.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, JsonObject, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
    ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};

/// A picture of one pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Tools that one page of the list has.
const PAGE: usize = 4;

#[derive(Clone)]
pub(crate) struct Workbench {
    notes: Option<PathBuf>,
    grown: Arc<AtomicBool>,
    /// Whether the list of tools is no longer told.
    stalled: Arc<AtomicBool>,
}

impl Workbench {
    pub(crate) fn new(notes: Option<PathBuf>) -> Self {
        Self { notes, grown: Arc::default(), stalled: Arc::default() }
    }

    fn note(&self, text: &str) {
        let Some(path) = &self.notes else { return };
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        writeln!(file.expect("opened"), "{text}").expect("noted");
    }

    fn tools(&self) -> Vec<Tool> {
        let plain = |name: &'static str, about: &'static str| {
            Tool::new(name, about, schema(json!({"type": "object", "properties": {}})))
        };
        let mut tools = vec![
            Tool::new(
                "echo",
                "Repeats its input.\u{1b}[31m",
                schema(json!({
                    "$schema": "https://json-schema.org/draft/2020-12/schema",
                    "type": "object",
                    "properties": {"text": {"$ref": "#/$defs/Text"}},
                    "required": ["text"],
                    "$defs": {"Text": {"type": "string", "description": "what to say"}},
                })),
            ),
            plain("fail", "Fails."),
            plain("refuse", "Answers with an error of the protocol."),
            plain("hang", "Never answers."),
            plain("crash", "Ends the server."),
            plain("large", "Returns 10 MB."),
            plain("too_large", "Returns more than is taken."),
            plain("image", "Returns an image."),
            plain("structured", "Returns something structured."),
            plain("progress", "Tells how far it has come."),
            plain("grow", "Gives the server one more tool."),
            plain("environment", "Returns the variables of the server."),
            plain("process", "Returns the server's process id."),
            plain("look", "Changes nothing.")
                .with_annotations(ToolAnnotations::new().read_only(true)),
            plain("destroy", "Destroys something.")
                .with_annotations(ToolAnnotations::new().destructive(true)),
            plain("odd name/ü", "Has an odd name."),
        ];
        if self.grown.load(Ordering::SeqCst) {
            tools.push(plain("grown", "Was not there before."));
        }
        tools
    }
}

fn schema(value: Value) -> JsonObject {
    match value {
        Value::Object(map) => map,
        _ => JsonObject::new(),
    }
}

fn printed(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

impl ServerHandler for Workbench {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("workbench", "1.2.3"))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let from: usize = cursor.map_or(0, |cursor| cursor.parse().expect("our own cursor"));
        if from == 0 {
            self.note("listed");
        }
        if self.stalled.load(Ordering::SeqCst) {
            self.note("stalled");
            std::future::pending::<()>().await;
        }
        let tools = self.tools();
        let page: Vec<Tool> = tools.iter().skip(from).take(PAGE).cloned().collect();
        let mut result = ListToolsResult::with_all_items(page);
        result.next_cursor = (from + PAGE < tools.len()).then(|| (from + PAGE).to_string());
        Ok(result)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let result = match request.name.as_ref() {
            "echo" => printed(arguments["text"].as_str().unwrap_or("nothing")),
            "fail" => CallToolResult::error(vec![ContentBlock::text("it did not work")]),
            "refuse" => return Err(ErrorData::invalid_params("that is not a city", None)),
            "hang" => {
                self.note("hanging");
                context.ct.cancelled().await;
                self.note("cancelled");
                printed("too late")
            }
            "crash" => {
                eprintln!("the disk is on fire");
                std::process::exit(3);
            }
            "large" => printed("0123456789".repeat(1_000_000)),
            "too_large" => printed("0123456789".repeat(1_800_000)),
            "image" => CallToolResult::success(vec![ContentBlock::image(PIXEL, "image/png")]),
            "structured" => CallToolResult::structured(json!({"degrees": 21})),
            "progress" => {
                let token = context.meta.get_progress_token().expect("a token");
                for step in 1..=3_u32 {
                    let news = ProgressNotificationParam::new(token.clone(), f64::from(step))
                        .with_total(4.0)
                        .with_message(format!("step {step}"));
                    context.peer.notify_progress(news).await.expect("told");
                    // An answer may overtake a notification from just before it.
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
                printed("done")
            }
            "grow" if arguments.contains_key("restless") => {
                for _ in 0..200 {
                    context.peer.notify_tool_list_changed().await.expect("told");
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                }
                printed("grown")
            }
            "grow" => {
                self.grown.store(true, Ordering::SeqCst);
                self.stalled.store(arguments.contains_key("stall"), Ordering::SeqCst);
                context.peer.notify_tool_list_changed().await.expect("told");
                printed("grown")
            }
            "environment" => {
                let own = vestal_config::Environment::capture();
                let text = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
                let all: std::collections::BTreeMap<String, String> =
                    own.iter().map(|(name, value)| (text(name), text(value))).collect();
                printed(json!(all).to_string())
            }
            "process" => printed(std::process::id().to_string()),
            "look" | "destroy" => {
                self.note(&request.name);
                printed(request.name.to_string())
            }
            other => printed(format!("called {other}")),
        };
        Ok(result.into())
    }
}
