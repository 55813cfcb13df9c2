//! The sandbox of a session: jobs and commands in it, and the subagents that work there.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vestal_api::{JobPrefix, JobView};
use vestal_conversations::ConversationId;
use vestal_sandbox::{JobInfo, Sandbox};

use super::{MethodCall, SessionParams};
use crate::error::{self, RpcError};
use crate::session::{Handles, Session};
use crate::views::SubagentView;

/// How long a command may take, unless the client says otherwise, and at most.
const COMMAND_TIMEOUT: u64 = 30;
const LONGEST_COMMAND: u64 = 600;

/// Background jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProcessesResult {
    /// As `vestal jobs --json` prints them.
    #[schemars(with = "Vec<Value>")]
    processes: Vec<JobView>,
}

pub(super) async fn processes(
    call: MethodCall,
    params: SessionParams,
) -> Result<ProcessesResult, RpcError> {
    let session = call.server.session(&params.session_id)?;
    let processes = match attached(&session) {
        Some((sandbox, handles)) => {
            let jobs = jobs(&sandbox, &handles).await?;
            let task = sandbox.task().to_string();
            let redactor = session.runtime.agent().redactor();
            let view = |job: &JobInfo| {
                let view = JobView::new(&task, job);
                JobView { command: redactor.redact(&view.command).into_owned(), ..view }
            };
            jobs.iter().map(view).collect()
        }
        None => Vec::new(),
    };
    Ok(ProcessesResult { processes })
}

/// Returns the sandbox of a session if it is in use. One that never was has no jobs, and must not be
/// started for a look.
fn attached(session: &Session) -> Option<(Sandbox, Handles)> {
    let handles = session.handles()?;
    Some((handles.sandbox.attached()?, handles))
}

async fn jobs(sandbox: &Sandbox, handles: &Handles) -> Result<Vec<JobInfo>, RpcError> {
    Ok(Box::pin(sandbox.jobs_of_session(handles.sandbox.session())).await?)
}

/// Returns the background jobs of a session as text, a line each.
pub(crate) async fn jobs_text(session: &Session) -> Result<String, RpcError> {
    let Some((sandbox, handles)) = attached(session) else {
        return Ok("there are no background jobs\n".to_owned());
    };
    let jobs = jobs(&sandbox, &handles).await?;
    let redactor = session.runtime.agent().redactor();
    let line = |job: &JobInfo| format!("{}  {}\n", job.id, redactor.redact(&job.summary));
    if jobs.is_empty() {
        return Ok("there are no background jobs\n".to_owned());
    }
    Ok(jobs.iter().map(line).collect())
}

/// A job to be ended.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct KillParams {
    /// The live session.
    session_id: String,
    /// The job's id, or a beginning of it that only one has.
    process_id: String,
}

/// A job that was ended.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct KillResult {
    /// Its id.
    killed: String,
}

pub(super) async fn kill(call: MethodCall, params: KillParams) -> Result<KillResult, RpcError> {
    let session = call.server.session(&params.session_id)?;
    Ok(KillResult { killed: kill_job(&session, &params.process_id).await? })
}

/// Ends one background job of a session, and returns its id.
pub(crate) async fn kill_job(session: &Session, wanted: &str) -> Result<String, RpcError> {
    let none = || {
        let message = format!("the session has no process {:?}", crate::protocol::shown(wanted));
        RpcError::new(error::NO_PROCESS, message).advise("process.list lists them")
    };
    let prefix: JobPrefix = wanted.parse().map_err(|_| none())?;
    let (sandbox, handles) = attached(session).ok_or_else(none)?;
    let found: Vec<JobInfo> =
        jobs(&sandbox, &handles).await?.into_iter().filter(|job| prefix.matches(&job.id)).collect();
    let job = prefix.only(found, |job| job, Vec::new()).map_err(|_| none())?;
    Box::pin(sandbox.kill(&job.id)).await?;
    Ok(job.id.to_string())
}

/// Jobs that were ended.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StopResult {
    /// Their ids.
    killed: Vec<String>,
}

pub(super) async fn stop(call: MethodCall, params: SessionParams) -> Result<StopResult, RpcError> {
    let session = call.server.session(&params.session_id)?;
    Ok(StopResult { killed: stop_jobs(&session).await? })
}

/// Ends all background jobs of a session, and returns their ids. The shell's state stays.
pub(crate) async fn stop_jobs(session: &Session) -> Result<Vec<String>, RpcError> {
    let mut killed = Vec::new();
    if let Some((sandbox, handles)) = attached(session) {
        for job in jobs(&sandbox, &handles).await? {
            Box::pin(sandbox.kill(&job.id)).await?;
            killed.push(job.id.to_string());
        }
    }
    Ok(killed)
}

/// Subagents at work.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DelegationResult {
    /// One by one.
    active: Vec<SubagentView>,
    /// How many may work at once.
    max_concurrent: u64,
    /// How deep they may have subagents of their own.
    max_depth: u64,
}

pub(super) async fn delegation(
    call: MethodCall,
    params: SessionParams,
) -> Result<DelegationResult, RpcError> {
    let session = call.server.session(&params.session_id)?;
    let options = vestal_agent::settings::options(session.runtime.settings())
        .map_err(|error| RpcError::new(error::AGENT, error.to_string()))?;
    Ok(DelegationResult {
        active: session.hub.subagents(),
        max_concurrent: options.delegation.max_concurrent as u64,
        max_depth: u64::from(options.delegation.max_depth),
    })
}

/// A subagent to be interrupted.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct InterruptParams {
    /// Its conversation, as `subagent.start` tells it.
    subagent_id: String,
    /// The live session it works for; all are searched without it.
    #[serde(default)]
    session_id: Option<String>,
}

/// Whether a subagent was interrupted.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct InterruptSubagentResult {
    /// False if it was not at work.
    found: bool,
}

pub(super) async fn interrupt_subagent(
    call: MethodCall,
    params: InterruptParams,
) -> Result<InterruptSubagentResult, RpcError> {
    let Ok(child) = params.subagent_id.parse::<ConversationId>() else {
        return Ok(InterruptSubagentResult { found: false });
    };
    let sessions = match &params.session_id {
        Some(id) => vec![call.server.session(id)?],
        None => call.server.sessions(),
    };
    let found = sessions
        .iter()
        .filter_map(|session| session.handles())
        .any(|handles| handles.children.interrupt(&child));
    Ok(InterruptSubagentResult { found })
}

/// A command.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct SandboxExecParams {
    /// The live session.
    session_id: String,
    /// Shell text.
    command: String,
    /// Seconds that it may take, at most 600; 30 without it.
    #[serde(default)]
    timeout_s: Option<u64>,
}

/// What a command printed.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExecResult {
    /// Standard output, secrets masked; a line says what was left out.
    stdout: String,
    /// Standard error, in the same form.
    stderr: String,
    /// The exit code; null if it is not known.
    code: Option<u8>,
    /// Whether its time was up.
    timed_out: bool,
}

pub(super) async fn exec(
    call: MethodCall,
    params: SandboxExecParams,
) -> Result<ExecResult, RpcError> {
    if params.command.trim().is_empty() {
        return Err(RpcError::empty("command"));
    }
    let session = call.server.session(&params.session_id)?;
    // Questions about it go to the watchers, and this client should be one.
    session.watch(call.connection, &call.outbox);
    let shell = match session.handles() {
        Some(handles) => handles.shell,
        None => session.exclusive("the first command").await?.opened().await?.side_shell(),
    };
    let limit = params.timeout_s.unwrap_or(COMMAND_TIMEOUT).clamp(1, LONGEST_COMMAND);
    let token = session.side_token();
    let output = shell.run(&params.command, Duration::from_secs(limit), &token).await?;
    Ok(ExecResult {
        stdout: output.stdout,
        stderr: output.stderr,
        code: output.code,
        timed_out: output.is_timed_out,
    })
}
