//! Commands of the user's that run on this machine before and after calls of tools, and decide
//! about them.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use globset::{Glob, GlobMatcher};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::human::ApprovalRequest;
use crate::settings::HookFailure;
use crate::tool::{ToolContext, ToolOutput};
use crate::turn::call_about;

/// Bytes of a hook's output that are read; the rest is thrown away.
const MOST_OUTPUT: usize = 64 << 10;

/// Bytes of a result that a hook is given.
const MOST_RESULT: usize = 64 << 10;

/// Characters of a reason or a note.
const MOST_WORDS: usize = 2000;

/// How long output is waited for that a hook has left to another process.
const REST: Duration = Duration::from_millis(200);

/// The exit code that refuses a call.
const REFUSED: i32 = 2;

/// The hooks of the settings.
#[derive(Debug, Default)]
pub struct Hooks {
    /// Run before a call.
    pub before: Vec<Hook>,
    /// Run after it.
    pub after: Vec<Hook>,
    /// The whole environment of them.
    pub env: Vec<(OsString, OsString)>,
    /// Where they run.
    pub dir: PathBuf,
}

/// A command that runs before or after calls.
#[derive(Debug)]
pub struct Hook {
    command: String,
    tools: Vec<GlobMatcher>,
    timeout: Duration,
    on_failure: HookFailure,
}

/// What a hook says by itself, on its standard output.
#[derive(Debug, Default, Deserialize)]
struct HookAnswer {
    #[serde(default)]
    decision: Option<HookDecision>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    note: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum HookDecision {
    /// It has no objection; approvals are asked for as ever.
    Allow,
    /// The call is not made.
    Deny,
    /// A person decides.
    Ask,
}

/// How a hook ended.
enum HookEnd {
    Answered(HookAnswer),
    Failed(String),
    Interrupted,
}

impl Hook {
    /// Returns a hook for tools of these names, in which `*` stands for anything; of no names: for all.
    pub fn new(
        command: &str,
        tools: &[String],
        timeout: Duration,
        on_failure: HookFailure,
    ) -> Self {
        // What is no pattern matches nothing; the settings let none in.
        let tools = tools.iter().filter_map(|text| Glob::new(text).ok());
        let tools = tools.map(|glob| glob.compile_matcher()).collect();
        Self { command: command.to_owned(), tools, timeout, on_failure }
    }

    fn is_for(&self, tool: &str) -> bool {
        self.tools.is_empty() || self.tools.iter().any(|pattern| pattern.is_match(tool))
    }
}

impl Hooks {
    /// Runs the hooks before a call. Returns their notes, or why the call is not made.
    pub(crate) async fn before(
        &self,
        context: &ToolContext,
        tool: &str,
        arguments: &Value,
    ) -> Result<Vec<String>, String> {
        let mut notes = Vec::new();
        for hook in self.before.iter().filter(|hook| hook.is_for(tool)) {
            let input = input("before_tool", context, tool, arguments);
            let answer = match self.run(hook, &input, context).await {
                HookEnd::Answered(answer) => answer,
                HookEnd::Interrupted => {
                    return Err("interrupted by the user before it ran".to_owned());
                }
                HookEnd::Failed(why) if hook.on_failure == HookFailure::Allow => {
                    warn(context, &hook.command, &why);
                    continue;
                }
                HookEnd::Failed(why) => {
                    warn(context, &hook.command, &why);
                    return Err(format!(
                        "refused: a hook of the user's ({}) {why}, so the call was not made. \
                         Tell the user; do not try to get the same effect another way.",
                        shown(&hook.command)
                    ));
                }
            };
            let reason = words(answer.reason);
            match answer.decision {
                None | Some(HookDecision::Allow) => {}
                Some(HookDecision::Deny) => {
                    let reason = reason.unwrap_or_else(|| "it gives no reason".to_owned());
                    return Err(format!("refused by a hook of the user's: {reason}"));
                }
                Some(HookDecision::Ask) => {
                    let about = call_about(arguments);
                    let action = context.redactor.redact(&format!("{tool} {about}")).into_owned();
                    let request = ApprovalRequest {
                        action,
                        reason: reason.unwrap_or_else(|| "a hook asks about it".to_owned()),
                        pattern: format!("hook:{tool}"),
                        may_last: false,
                    };
                    let asked = context.guard.ask_person(context, "call", &request).await;
                    asked.map_err(|refusal| refusal.message)?;
                }
            }
            notes.extend(words(answer.note));
        }
        Ok(notes)
    }

    /// Runs the hooks after a call, which is made. Returns what they want the model to read.
    pub(crate) async fn after(
        &self,
        context: &ToolContext,
        tool: &str,
        arguments: &Value,
        output: &ToolOutput,
    ) -> Vec<String> {
        let mut notes = Vec::new();
        for hook in self.after.iter().filter(|hook| hook.is_for(tool)) {
            let mut input = input("after_tool", context, tool, arguments);
            let result = context.redactor.redact_result(&output.content);
            input["result"] = json!(result[..result.floor_char_boundary(MOST_RESULT)]);
            input["is_error"] = json!(output.is_error);
            match self.run(hook, &input, context).await {
                HookEnd::Answered(answer) => {
                    let HookAnswer { decision, reason, note } = answer;
                    // What is done is done; why it should not have been is worth reading.
                    notes.extend(words(reason).filter(|_| decision == Some(HookDecision::Deny)));
                    notes.extend(words(note));
                }
                HookEnd::Failed(why) => warn(context, &hook.command, &why),
                HookEnd::Interrupted => break,
            }
        }
        notes
    }

    async fn run(&self, hook: &Hook, input: &Value, context: &ToolContext) -> HookEnd {
        let mut child = match self.start(hook) {
            Ok(child) => HookProcess(child),
            Err(error) => return HookEnd::Failed(format!("could not be started ({error})")),
        };
        let input = input.to_string();
        let ended = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return HookEnd::Interrupted,
            ended = timeout(hook.timeout, child.talk(input.as_bytes())) => ended,
        };
        let (status, stdout, stderr) = match ended {
            Ok(Ok(ended)) => ended,
            Ok(Err(error)) => return HookEnd::Failed(format!("could not be run ({error})")),
            Err(_) => {
                let seconds = hook.timeout.as_secs();
                return HookEnd::Failed(format!("did not end within {seconds} s and was killed"));
            }
        };
        match status.code() {
            Some(0) => answer(&stdout),
            Some(REFUSED) => {
                let decision = Some(HookDecision::Deny);
                let reason = Some(String::from_utf8_lossy(&stderr).into_owned());
                HookEnd::Answered(HookAnswer { decision, reason, note: None })
            }
            Some(code) => {
                let said = words(Some(String::from_utf8_lossy(&stderr).into_owned()));
                let said = said.map(|said| format!(": {said}")).unwrap_or_default();
                HookEnd::Failed(format!("failed with exit code {code}{said}"))
            }
            None => HookEnd::Failed("was killed".to_owned()),
        }
    }

    fn start(&self, hook: &Hook) -> io::Result<Child> {
        Command::new("/bin/sh")
            .args(["-c", &hook.command])
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
    }
}

/// A hook that runs, with what it has started in its group. All of it is killed when it is given up.
struct HookProcess(Child);

impl HookProcess {
    /// Gives it its input and returns how it ended and what it said. It need not read its input,
    /// and what it leaves running is not waited for.
    async fn talk(&mut self, input: &[u8]) -> io::Result<(ExitStatus, Vec<u8>, Vec<u8>)> {
        let Self(child) = self;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let status = {
            let reading = async {
                tokio::join!(
                    async {
                        if let Some(mut stdin) = stdin {
                            // One that does not read has closed it, or ends.
                            drop(stdin.write_all(input).await);
                        }
                    },
                    read(stdout, &mut out),
                    read(stderr, &mut err),
                );
            };
            let mut reading = std::pin::pin!(reading);
            tokio::select! {
                status = child.wait() => {
                    drop(timeout(REST, reading.as_mut()).await);
                    status?
                }
                () = reading.as_mut() => child.wait().await?,
            }
        };
        Ok((status, out, err))
    }
}

impl Drop for HookProcess {
    fn drop(&mut self) {
        // Until it was waited for, its number is nobody else's.
        if let Some(group) = self.0.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
            kill_process_group(group, Signal::KILL).ok();
        }
    }
}

/// Reads all, and keeps the beginning.
async fn read(stream: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) {
    let Some(mut stream) = stream else { return };
    let mut piece = [0_u8; 4096];
    while let Ok(count @ 1..) = stream.read(&mut piece).await {
        let room = MOST_OUTPUT.saturating_sub(into.len());
        into.extend_from_slice(&piece[..count.min(room)]);
    }
}

fn answer(stdout: &[u8]) -> HookEnd {
    let text = String::from_utf8_lossy(stdout);
    // Words that are no object are for people.
    if !text.trim_start().starts_with('{') {
        return HookEnd::Answered(HookAnswer::default());
    }
    match serde_json::from_str(text.trim()) {
        Ok(answer) => HookEnd::Answered(answer),
        Err(error) => HookEnd::Failed(format!("gave an answer that cannot be read ({error})")),
    }
}

fn input(event: &str, context: &ToolContext, tool: &str, arguments: &Value) -> Value {
    json!({
        "event": event,
        "conversation": context.conversation.to_string(),
        "task": context.sandbox.sandbox_task().to_string(),
        "call": context.call,
        "tool": tool,
        "arguments": arguments,
    })
}

fn words(text: Option<String>) -> Option<String> {
    let text = text?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.chars().take(MOST_WORDS).collect())
}

fn shown(command: &str) -> String {
    let line = command.lines().next().unwrap_or_default();
    match line.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

fn warn(context: &ToolContext, command: &str, why: &str) {
    let mut text = format!("the hook {} {why}", shown(command));
    text = context.redactor.redact(&text).into_owned();
    context.events.emit(crate::event::TurnEvent::Warning { text });
}

/// Adds what hooks said to a result.
pub(crate) fn with_notes(
    mut output: ToolOutput,
    notes: &[String],
    redact: &dyn Fn(&str) -> String,
) -> ToolOutput {
    for note in notes {
        output.content.extend(["\n\n[A hook of the user's says: ", &redact(note), "]"]);
    }
    output
}

#[cfg(test)]
#[path = "hooks_tests.rs"]
mod tests;
