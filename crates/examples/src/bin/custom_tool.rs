//! An agent with a tool of its own.
//!
//! The model, its address and its key come from the settings: `vestal model set`, or
//! `VESTAL_MODEL`, `VESTAL_BASE_URL` and `VESTAL_API_KEY`.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use vestal_agent::{EndReason, EventSink, Footprint, NoHuman, Tool, ToolContext, ToolOutput};
use vestal_config::{Environment, Home, Settings};
use vestal_model::{Part, ToolSpec, UserMessage};
use vestal_runtime::{OpenRequest, Runtime};
use vestal_sandbox::{CLOSE_WITHIN, Engine};

/// Looks up the price of an article. A real tool would ask a database here.
struct Price;

#[async_trait]
impl Tool for Price {
    /// What the model reads about the tool.
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "price".to_owned(),
            description: "Returns the price of an article in cents.".to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {"article": {"type": "string"}},
                "required": ["article"],
            }),
        }
    }

    /// Tools are enabled and disabled by toolset.
    fn toolset(&self) -> &'static str {
        "shop"
    }

    /// It changes nothing, so it may run beside other calls.
    fn footprint(&self, _: &Value) -> Footprint {
        Footprint::Reads
    }

    async fn call(&self, _: &ToolContext, arguments: Value) -> ToolOutput {
        match arguments["article"].as_str() {
            Some("lamp") => ToolOutput::json(&json!({"cents": 4200})),
            Some(other) => ToolOutput::error(format!("there is no article {other:?}")),
            None => ToolOutput::error("`article` must be a string"),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let environment = Environment::capture();
    let home = Home::locate(&environment, None)?;
    let engine =
        Engine::open(Settings::load(&vestal_api::schema(), home, environment, Vec::new()))?;

    // The standard tools, skills, memory and MCP servers of the profile, and ours.
    let runtime =
        Runtime::builder(engine.clone()).tools(|tools| tools.add(Arc::new(Price))).build().await?;

    // `NoHuman` answers no questions, so commands that need an approval are denied.
    let opened = runtime.open(OpenRequest::new("example"), Arc::new(NoHuman)).await?;
    let mut conversation = opened.conversation;
    let text = "How much is a lamp?".to_owned();
    let question = UserMessage { parts: vec![Part::Text { text }] };
    let result = conversation.run(question, &EventSink::new(drop)).await;
    println!("{} ({})", result.text, result.outcome.word());

    // The conversation is stored; `vestal chat -c` continues it.
    conversation.close(EndReason::OneShot).await?;
    runtime.close().await;
    engine.close(CLOSE_WITHIN).await;
    Ok(())
}
