//! Running a script and answering its tool calls.

use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use vestal_sandbox::job::{Follow, JobEvent};
use vestal_sandbox::{Command, CommandInput, Error, JobId, JobState, Sandbox, new_job_id};

use super::calls::ScriptCalls;
use super::frames::{Frames, ShimFrame, ShimViolation};
use crate::tool::ToolContext;
use crate::tools::output::{HeadTail, KeptOutput, OutputBuffer, PlainText};
use crate::tools::terminal::kill_and_drain;

const SHIM: &str = include_str!("shim.py");
const MODULE: &str = include_str!("vestal_tools.py");

/// Bytes of a script's output that the model gets.
const STDOUT: usize = 50_000;
const STDERR: usize = 10_000;

/// How much longer than the script's own time the guest lets the job run, in
/// case nobody is there any more to end it.
const GRACE: Duration = Duration::from_secs(30);

/// How a script came to its end.
#[derive(Debug)]
pub(super) enum ScriptEnd {
    /// It ended with this code, and this must be known besides.
    Exited(u32, Vec<String>),
    /// Its time was up.
    TimedOut,
    /// The turn was interrupted.
    Interrupted,
    /// It could not be run, or not be followed.
    Failed(String),
}

/// What came of a script.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) end: ScriptEnd,
    pub(super) stdout: KeptOutput,
    pub(super) stderr: KeptOutput,
    pub(super) calls: u32,
}

/// Where a script's streams go.
struct ScriptStreams<'a> {
    stdout: OutputBuffer<'a>,
    stderr: OutputBuffer<'a>,
    /// Errors of the shim, or of the shell that was to run it.
    own: HeadTail,
}

/// Runs a script until it ends, its time is up or the turn is interrupted.
pub(super) async fn run(context: &ToolContext, sandbox: &Sandbox, code: &str) -> Ran {
    let limit = context.limits.code_timeout;
    let stop = context.cancel.child_token();
    let mut calls = ScriptCalls::new(context, stop.clone());
    let mut streams = ScriptStreams {
        stdout: OutputBuffer::new(context, STDOUT),
        stderr: OutputBuffer::new(context, STDERR),
        own: HeadTail::new(STDERR),
    };
    let id = new_job_id();
    if let Err(error) = context.jobs.record(&context.call, sandbox, &id).await {
        let ScriptStreams { stdout, stderr, .. } = streams;
        let end = ScriptEnd::Failed(error.to_string());
        return Ran { end, stdout: stdout.finish(), stderr: stderr.finish(), calls: 0 };
    }
    let end = {
        let command = context
            .sandbox
            .in_session(Command::argv(["python3", "-c", SHIM]))
            .background()
            .stdin(CommandInput::Piped)
            .timeout(limit + GRACE)
            .job_id(id.clone())
            .kill_on_drop();
        let mut following = Box::pin(follow(sandbox, command, code, &mut calls, &mut streams));
        tokio::select! {
            biased;
            () = context.cancel.cancelled() => {
                end(sandbox, &id, &stop, following).await;
                ScriptEnd::Interrupted
            }
            () = tokio::time::sleep(limit) => {
                end(sandbox, &id, &stop, following).await;
                ScriptEnd::TimedOut
            }
            ended = &mut following => match ended {
                Ok(end @ ScriptEnd::Exited(..)) => end,
                Ok(end) => {
                    kill_and_drain(sandbox, &id, std::future::ready(())).await;
                    end
                }
                Err(error) => ScriptEnd::Failed(error.to_string()),
            },
        }
    };
    let ScriptStreams { stdout, stderr, own } = streams;
    let mut stderr = stderr.finish();
    stderr.text.push_str(&own.finish().text);
    Ran { end, stdout: stdout.finish(), stderr, calls: calls.made() }
}

/// Ends a script with whatever tool it is just using.
async fn end(
    sandbox: &Sandbox,
    id: &JobId,
    stop: &CancellationToken,
    following: impl Future<Output: Sized>,
) {
    stop.cancel();
    kill_and_drain(sandbox, id, following).await;
}

async fn follow(
    sandbox: &Sandbox,
    command: Command,
    code: &str,
    calls: &mut ScriptCalls,
    streams: &mut ScriptStreams<'_>,
) -> Result<ScriptEnd, Error> {
    let mut job = sandbox.start(command, Follow::EveryByte).await?;
    let work = json!({ "code": code, "module": MODULE, "tools": calls.names() }).to_string();
    let Ok(length) = u32::try_from(work.len()) else {
        return Ok(ScriptEnd::Failed("the script is too long".to_owned()));
    };
    let Some(mut input) = job.take_input() else {
        return Ok(ScriptEnd::Failed("the script has no channel for its answers".to_owned()));
    };
    // A job that takes nothing has ended or is about to: its end tells why.
    let mut is_listening =
        input.write(&length.to_be_bytes()).await && input.write(work.as_bytes()).await;
    let mut frames = Frames::default();
    let mut own = PlainText::default();
    let mut piece = String::new();
    let mut ended = None;
    while let Some(event) = job.next().await? {
        match event {
            JobEvent::Stdout(bytes) => {
                frames.push(&bytes);
                loop {
                    match frames.next() {
                        Ok(None) => break,
                        Ok(Some(ShimFrame::Out(bytes))) => streams.stdout.push(&bytes),
                        Ok(Some(ShimFrame::Err(bytes))) => streams.stderr.push(&bytes),
                        Ok(Some(ShimFrame::Call(call))) => {
                            let answer = calls.answer(&call).await;
                            is_listening = is_listening && input.write(&answer).await;
                        }
                        Ok(Some(ShimFrame::End(code))) => ended = Some(code),
                        Err(violation) => return Ok(disturbed(&violation)),
                    }
                }
            }
            JobEvent::Stderr(bytes) => {
                piece.clear();
                own.push(&bytes, &mut piece);
                streams.own.push(&piece);
            }
            JobEvent::Gap { .. } | JobEvent::Started { .. } | JobEvent::Ended(_) => {}
        }
    }
    let info = job.finish().await?.into_info()?;
    Ok(match (ended, info.state) {
        (Some(code), _) => {
            let remarks = sandbox.warnings(Some(code), None).await;
            ScriptEnd::Exited(code, remarks.iter().map(ToString::to_string).collect())
        }
        (None, JobState::Ended(exit)) if exit.code == Some(127) => ScriptEnd::Failed(
            "there is no python3 in the sandbox; install it, or use the terminal tool".to_owned(),
        ),
        (None, _) => {
            let remarks = sandbox.job_warnings(&info).await.into_iter();
            let words = ["the script ended without a word about how".to_owned()].into_iter();
            let words: Vec<_> = words.chain(remarks.map(|remark| remark.to_string())).collect();
            ScriptEnd::Failed(words.join("; "))
        }
    })
}

fn disturbed(violation: &ShimViolation) -> ScriptEnd {
    ScriptEnd::Failed(format!(
        "something wrote into the connection between the script and its tools ({violation}); the script was ended"
    ))
}
