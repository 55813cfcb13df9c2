//! Tool calls of a script.

use serde_json::{Map, Value, json};

use crate::event::{EventSink, TurnEvent};
use crate::tool::ToolContext;

/// The tools a script can call.
pub(super) const FOR_SCRIPTS: [&str; 5] =
    ["patch", "read_file", "search_files", "terminal", "write_file"];

/// Arguments of `terminal` that a script does not have: its commands run in
/// the foreground.
const NOT_FOR_SCRIPTS: [&str; 4] = ["background", "notify_on_complete", "pty", "watch_patterns"];

/// Longest answer a script gets. It fits into what may be under way to a job
/// that does not read, so answering never waits for one.
const LONGEST_ANSWER: usize = 512 << 10;

/// The tool calls of one script.
pub(super) struct ScriptCalls {
    context: ToolContext,
    most: u32,
    made: u32,
}

impl ScriptCalls {
    /// Lets a script call the conversation's tools. What those print is the
    /// script's to show, and stops with `cancel`.
    pub(super) fn new(context: &ToolContext, cancel: tokio_util::sync::CancellationToken) -> Self {
        let events = context.events.clone();
        let quiet = EventSink::new(move |event| match event {
            TurnEvent::ToolOutput { .. } => {}
            other => events.emit(other),
        });
        let most = context.limits.code_tool_calls;
        let context = ToolContext {
            cancel,
            events: quiet,
            observed_files: std::sync::Arc::default(),
            // They belong to the script, whose job is on record.
            jobs: crate::CallJobs::default(),
            ..context.clone()
        };
        Self { context, most, made: 0 }
    }

    /// Returns the names of the tools it can call.
    pub(super) fn names(&self) -> Vec<&'static str> {
        let has = |name: &&str| self.context.tools.get(name).is_some();
        FOR_SCRIPTS.into_iter().filter(has).collect()
    }

    /// Returns how many calls were made.
    pub(super) fn made(&self) -> u32 {
        self.made
    }

    /// Makes a call and returns the answer with its length before it.
    pub(super) async fn answer(&mut self, call: &[u8]) -> Vec<u8> {
        let reply = match self.make(call).await {
            Ok(result) if result.len() <= LONGEST_ANSWER => json!({ "result": result }),
            Ok(result) => json!({ "error": format!(
                "the result has {} bytes, more than the {LONGEST_ANSWER} a script can be given; ask for less at once",
                result.len()
            ) }),
            Err(error) => json!({ "error": error }),
        };
        let reply = reply.to_string().into_bytes();
        let length = u32::try_from(reply.len()).unwrap_or(u32::MAX);
        [length.to_be_bytes().as_slice(), &reply].concat()
    }

    async fn make(&mut self, call: &[u8]) -> Result<String, String> {
        if self.made >= self.most {
            return Err(format!(
                "a script may make {} tool calls, and they are used up",
                self.most
            ));
        }
        self.made += 1;
        let call: Value =
            serde_json::from_slice(call).map_err(|error| format!("not a tool call: {error}"))?;
        let name = call.get("tool").and_then(Value::as_str).unwrap_or_default();
        if !self.names().contains(&name) {
            return Err(format!("{name:?} is not a tool that scripts can call here"));
        }
        let tool = self.context.tools.get(name).ok_or("no such tool")?;
        let mut arguments = match call.get("arguments") {
            Some(Value::Object(arguments)) => arguments.clone(),
            _ => Map::new(),
        };
        if name == "terminal" {
            arguments.retain(|name, _| !NOT_FOR_SCRIPTS.contains(&name.as_str()));
        }
        let (context, arguments) = (&self.context, Value::Object(arguments));
        // What they note would make what a script reads unreadable; a refusal is its error.
        context.hooks.before(context, name, &arguments).await?;
        let output = tool.call(context, arguments.clone()).await;
        context.hooks.after(context, name, &arguments, &output).await;
        Ok(output.content)
    }
}
