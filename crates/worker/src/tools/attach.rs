//! `kanban_attach`: a file is kept with a task.

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde_json::{Map, Value, json};
use vestal_agent::ToolContext;
use vestal_agent::tools::{Arguments, BadArgument};

use super::Trouble;
use super::files::{MAX_BYTES, Taken, put, take};
use super::verb::{Effect, Parameters, Verb, fields};
use crate::desk::Desk;

pub(super) struct Attach;

#[async_trait]
impl Verb for Attach {
    const NAME: &'static str = "kanban_attach";
    const ABOUT: &'static str = "\
Keeps a file with a task: one of the sandbox, by `path`, or bytes given as `content_base64` with a `filename`. At most 25 MiB.";
    const EFFECT: Effect = Effect::Adds;

    fn parameters(_desk: &Desk) -> Parameters {
        Parameters {
            properties: json!({
                "task_id": {"type": "string", "description": "The task; a worker's own if left out."},
                "path": {"type": "string", "description": "A file in the sandbox."},
                "content_base64": {"type": "string", "description": "Bytes, where there is no file."},
                "filename": {"type": "string", "description": "Its name on the board; default: that of the file."},
                "content_type": {"type": "string", "description": "What is in it, as in text/plain."}
            }),
            required: &[],
        }
    }

    async fn act(
        desk: &Desk,
        context: &ToolContext,
        arguments: &Arguments,
    ) -> Result<Map<String, Value>, Trouble> {
        let board = desk.board(arguments).await?;
        let task = desk.task(&board, arguments).await?;
        let named = arguments.optional_text("filename")?.filter(|name| !name.trim().is_empty());
        let content_type = arguments.optional_text("content_type")?;
        let mut taken = match (given(arguments, "path")?, given(arguments, "content_base64")?) {
            (Some(path), None) => take(context, &path).await?,
            (None, Some(encoded)) => {
                let name = named.clone();
                let name = name.ok_or_else(|| {
                    BadArgument::new("`filename` is required with `content_base64`")
                })?;
                Taken { name, bytes: decoded(&encoded)? }
            }
            _ => {
                let both = "give either `path` or `content_base64`";
                return Err(BadArgument::new(both).into());
            }
        };
        if let Some(name) = named {
            taken.name = name;
        }
        let attachment = put(&board, &desk.authority(), &task, taken, content_type).await?;
        Ok(fields(json!({
            "task_id": task,
            "attachment_id": attachment.id,
            "filename": attachment.filename,
            "size": attachment.size,
        })))
    }
}

fn given(arguments: &Arguments, name: &str) -> Result<Option<String>, BadArgument> {
    Ok(arguments.optional_text(name)?.filter(|text| !text.is_empty()))
}

/// Decodes bytes, also where models broke them into lines or left out the padding.
fn decoded(encoded: &str) -> Result<Vec<u8>, BadArgument> {
    let clean: String = encoded.chars().filter(|c| !c.is_whitespace()).collect();
    let longest = MAX_BYTES / 3 * 4 + 4;
    if clean.len() as u64 > longest {
        return Err(BadArgument::new("`content_base64` is more than 25 MiB"));
    }
    STANDARD
        .decode(&clean)
        .or_else(|_| STANDARD_NO_PAD.decode(&clean))
        .map_err(|error| BadArgument::new(format!("`content_base64` is not base64: {error}")))
}
