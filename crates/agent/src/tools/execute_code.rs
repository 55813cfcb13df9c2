//! `execute_code`: a Python script in the sandbox that calls tools.
//!
//! The script is one job. A shim (`shim.py`) runs it in a child and carries
//! what it prints and the calls it makes (`vestal_tools.py`) over the job's own
//! streams, so a call costs a round trip and needs no files, sockets or polling.

mod calls;
mod frames;
mod run;

#[cfg(test)]
#[path = "execute_code/execute_code_tests.rs"]
mod tests;

use std::time::{Duration, Instant};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vestal_model::ToolSpec;

use self::run::{Ran, ScriptEnd};
use super::arguments::{NonEmptyString, parse, tool_spec};
use crate::tool::{Tool, ToolContext, ToolOutput};

const DESCRIPTION: &str = "\
Runs a Python script in the sandbox that can call tools: `from vestal_tools import read_file, write_file, search_files, \
patch, terminal`. Each takes the arguments of the tool of that name and returns its result as a dict; terminal runs in \
the foreground only. Also there: json_parse(text), shell_quote(text), retry(call, max_attempts=3, delay=2).

Use it when several tool calls need logic between them, or when results are large and only a part matters: only what \
the script prints comes back to you. It starts in the shell's directory with the shell's exported variables. Limits: \
300 seconds, 50 tool calls, 50 KB of output. For one call, or for a script without tools, use the tools themselves.";

/// The tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExecuteCode;

#[derive(Deserialize, JsonSchema)]
struct ExecuteCodeArguments {
    /// The script. Print what you want to see.
    code: NonEmptyString,
}

/// What the model reads. The names are an interface: prompts rely on them.
#[derive(Debug, Serialize)]
struct ScriptResult {
    status: &'static str,
    output: String,
    tool_calls_made: u32,
    duration_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<String>,
    stdout_truncated: bool,
    stdout_bytes_captured: u64,
    stdout_bytes_total: u64,
    stdout_bytes_omitted: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl ScriptResult {
    fn new(context: &ToolContext, ran: Ran, took: Duration, approval: Option<String>) -> Self {
        let Ran { end, stdout, stderr, calls } = ran;
        let limit = context.limits.code_timeout.as_secs_f64();
        let (status, exit_code, error) = match end {
            ScriptEnd::Exited(0, _) => ("success", Some(0), None),
            ScriptEnd::Exited(code, remarks) => {
                let words = [format!("the script exited with code {code}")].into_iter();
                let words: Vec<_> = words.chain(remarks).collect();
                ("error", Some(code), Some(words.join("; ")))
            }
            ScriptEnd::TimedOut => (
                "timeout",
                None,
                Some(format!("the script took longer than {limit} s and was killed")),
            ),
            ScriptEnd::Interrupted => (
                "interrupted",
                None,
                Some("the turn was interrupted and the script killed".to_owned()),
            ),
            ScriptEnd::Failed(error) => ("error", None, Some(error)),
        };
        let mut output = stdout.text;
        if status != "success" && !stderr.text.is_empty() {
            let newline = if output.is_empty() || output.ends_with('\n') { "" } else { "\n" };
            output.extend([newline, "--- stderr ---\n", &stderr.text]);
        }
        let redact = |text: String| context.redactor.redact(&text).into_owned();
        Self {
            status,
            output: redact(output),
            tool_calls_made: calls,
            duration_seconds: (took.as_secs_f64() * 100.0).round() / 100.0,
            exit_code,
            error: error.map(redact),
            approval,
            stdout_truncated: stdout.omitted > 0,
            stdout_bytes_captured: stdout.total - stdout.omitted,
            stdout_bytes_total: stdout.total,
            stdout_bytes_omitted: stdout.omitted,
            hint: (stdout.omitted > 0).then(|| {
                format!(
                    "{} bytes in the middle of the output are left out and kept nowhere: have the script write what is long to a file, and print what matters of it.",
                    stdout.omitted
                )
            }),
        }
    }

    fn into_output(self) -> ToolOutput {
        match serde_json::to_string(&self) {
            Ok(content) => {
                ToolOutput { is_error: self.status != "success", ..ToolOutput::ok(content) }
            }
            Err(error) => ToolOutput::error(error.to_string()),
        }
    }
}

fn failed(status: &str, error: &str) -> ToolOutput {
    let result = json!({
        "status": status,
        "output": "",
        "tool_calls_made": 0,
        "duration_seconds": 0.0,
        "error": error,
    });
    ToolOutput { is_error: true, ..ToolOutput::json(&result) }
}

#[async_trait]
impl Tool for ExecuteCode {
    fn spec(&self) -> ToolSpec {
        tool_spec::<ExecuteCodeArguments>("execute_code", DESCRIPTION)
    }

    fn toolset(&self) -> &'static str {
        "code_execution"
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> ToolOutput {
        let code = match parse(arguments) {
            Ok(ExecuteCodeArguments { code }) => code,
            Err(bad) => return failed("error", &bad.to_string()),
        };
        let sandbox = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return failed("interrupted", "the turn was interrupted"),
            sandbox = context.sandbox.attach(&context.events) => sandbox,
        };
        let sandbox = match sandbox {
            Ok(sandbox) => sandbox,
            Err(error) => return failed("error", &context.redactor.redact(&error.to_string())),
        };
        let approval = match context.guard.script(context, &code).await {
            Ok(clearance) => clearance.approved_by_person,
            Err(refusal) => return failed(refusal.status.as_str(), &refusal.message),
        };
        let began = Instant::now();
        let ran = Box::pin(run::run(context, &sandbox, &code)).await;
        // What a person approved is not what happened if it was interrupted.
        let approval = match ran.end {
            ScriptEnd::Interrupted => {
                approval.map(|approval| format!("{approval}; then interrupted"))
            }
            _ => approval,
        };
        ScriptResult::new(context, ran, began.elapsed(), approval).into_output()
    }
}
