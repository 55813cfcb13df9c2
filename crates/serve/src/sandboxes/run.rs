//! Commands: run and waited for, with output that is kept or sent as it comes, or started.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vestal_api::{EndCause, JobView, RunSandboxView, RunView};
use vestal_sandbox::client::CallError;
use vestal_sandbox::job::{Follow, JobEvent, JobStream};
use vestal_sandbox::{
    Captured, CapturedOutput, Command, CommandInput, Error, FaultCode, JobId, JobInfo, JobState,
    Sandbox, Stream, new_job_id,
};

use super::connection::SandboxCall;
use super::events::OutputName;
use super::failure::{FailureKind, SandboxFailure};
use super::limits::{KILL_WITHIN, MAX_OUTPUT, MAX_SECONDS, OUTPUT, OUTPUT_GRACE};
use super::methods::{given, sent_bytes, task_of};

/// The session that commands run in unless another is named.
const DEFAULT_SESSION: &str = "main";

/// The name for "no session".
const NO_SESSION: &str = "none";

/// A command. Either `command` or `argv` is given.
#[derive(Debug, Deserialize, JsonSchema)]
struct CommandParams {
    /// The task of the sandbox.
    task: String,
    /// Shell text, of any length.
    command: Option<String>,
    /// A program and its arguments, in place of `command`.
    argv: Option<Vec<String>>,
    /// The id of the job: 1 to 64 of `a-z`, `0-9` and `-`. A command is run at most once by the same id.
    /// Unless given, the server chooses one.
    job: Option<String>,
    /// The shell session to restore and, but for background jobs, to save; `main` unless given. `none`
    /// starts clean and saves nothing.
    session: Option<String>,
    /// The directory to run in, for this command only.
    workdir: Option<String>,
    /// Seconds after which the command and everything it started are killed.
    timeout: Option<f64>,
    /// Environment variables for this command only. They are not stored.
    env: Option<BTreeMap<String, String>>,
    /// Text for standard input.
    stdin: Option<String>,
    /// Bytes for standard input in base64, in place of `stdin`.
    stdin_base64: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct RunParams {
    #[serde(flatten)]
    command: CommandParams,
    /// Keep standard input open for `job.write`, after `stdin` if there is one. Only with `stream`.
    #[serde(default)]
    stdin_open: bool,
    /// Send output as events `job.output`; the result has none of it then.
    #[serde(default)]
    stream: bool,
    /// Bytes of output to send at most until `request.grant` allows more; all unless given. Only with
    /// `stream`. A command whose output is not taken waits.
    window: Option<usize>,
    /// Bytes to keep of each stream without `stream`, half of its beginning and half of its end: 1048576
    /// unless given, 8388608 at most.
    max_output: Option<u32>,
    #[serde(flatten)]
    #[schemars(skip)]
    unknown: BTreeMap<String, Value>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct StartParams {
    #[serde(flatten)]
    command: CommandParams,
    /// Whether standard input stays open for `job.write`: it does unless `stdin` is given.
    stdin_open: Option<bool>,
    #[serde(flatten)]
    #[schemars(skip)]
    unknown: BTreeMap<String, Value>,
}

/// Refuses what no parameter is called; types that are made of others do not see to it themselves.
fn refuse_unknown(unknown: &BTreeMap<String, Value>) -> Result<(), SandboxFailure> {
    match unknown.keys().next() {
        Some(name) => Err(SandboxFailure::new(
            FailureKind::Invalid,
            format!("params: unknown field `{}`", crate::protocol::shown(name)),
        )),
        None => Ok(()),
    }
}

/// A command that has ended, as `vestal run --json` prints it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RunResult {
    #[serde(flatten)]
    run: RunView,
    /// Why it ended.
    cause: Option<EndCause>,
}

impl CommandParams {
    fn job(&self) -> Result<JobId, SandboxFailure> {
        match &self.job {
            Some(id) => id.parse().map_err(|error| SandboxFailure::param("job", error)),
            None => Ok(new_job_id()),
        }
    }

    fn limit(&self) -> Result<Option<Duration>, SandboxFailure> {
        let is_possible = |seconds: f64| seconds > 0.0 && seconds <= MAX_SECONDS;
        match self.timeout {
            Some(seconds) if is_possible(seconds) => Ok(Some(Duration::from_secs_f64(seconds))),
            Some(_) => Err(SandboxFailure::param(
                "timeout",
                "must be more than 0 and at most 1000000000 seconds",
            )),
            None => Ok(None),
        }
    }

    /// Returns the command without its input, and its input.
    fn into_command(self, job: &JobId) -> Result<(Command, Option<Vec<u8>>), SandboxFailure> {
        let limit = self.limit()?;
        let mut command = match (self.command, self.argv) {
            (Some(text), None) => Command::shell(text),
            (None, Some(argv)) => Command::argv(argv),
            (Some(_), Some(_)) | (None, None) => {
                return Err(SandboxFailure::param("command", "give either it or `argv`"));
            }
        };
        command = command.job_id(job.clone());
        let session = given(self.session).unwrap_or_else(|| DEFAULT_SESSION.to_owned());
        if session != NO_SESSION {
            command = command.session(session);
        }
        if let Some(dir) = given(self.workdir) {
            command = command.workdir(dir);
        }
        if let Some(limit) = limit {
            command = command.timeout(limit);
        }
        for (name, value) in self.env.into_iter().flatten() {
            command = command.secret_env(name, value);
        }
        Ok((command, sent_bytes(self.stdin, self.stdin_base64.as_deref())?))
    }
}

/// A command that is waited for.
struct RunningCommand<'a> {
    call: &'a SandboxCall,
    sandbox: Sandbox,
    job: JobId,
    limit: Option<Duration>,
}

pub(super) async fn run(call: SandboxCall, params: RunParams) -> Result<RunResult, SandboxFailure> {
    refuse_unknown(&params.unknown)?;
    if !params.stream && (params.stdin_open || params.window.is_some()) {
        return Err(SandboxFailure::param("stream", "stdin_open and window need it"));
    }
    let task = task_of(&params.command.task)?;
    let (job, limit) = (params.command.job()?, params.command.limit()?);
    let (command, stdin) = params.command.into_command(&job)?;
    let command = command.kill_on_drop();
    let sandbox = call.unless_cancelled(call.server.sandbox(&task)).await?;
    let running = RunningCommand { call: &call, sandbox, job, limit };
    if params.stream {
        return running.streamed(command, stdin, params.stdin_open, params.window).await;
    }
    let kept = params.max_output.unwrap_or(OUTPUT).min(MAX_OUTPUT);
    let input = stdin.map_or(CommandInput::Null, CommandInput::Bytes);
    running.captured(command.stdin(input).capture(kept - kept / 2, kept / 2)).await
}

impl RunningCommand<'_> {
    async fn captured(self, command: Command) -> Result<RunResult, SandboxFailure> {
        let mut run = Box::pin(self.sandbox.run(command));
        let output = tokio::select! {
            biased;
            output = &mut run => output?,
            () = self.call.request.cancelled() => {
                self.kill().await;
                // Dropped before it has ended, it kills whatever there is by then.
                tokio::time::timeout(OUTPUT_GRACE, run).await.ok();
                return Err(SandboxFailure::cancelled(Some(self.job)));
            }
        };
        self.result(&output).await
    }

    async fn streamed(
        self,
        command: Command,
        stdin: Option<Vec<u8>>,
        stdin_open: bool,
        window: Option<usize>,
    ) -> Result<RunResult, SandboxFailure> {
        let input = match (&stdin, stdin_open) {
            (_, true) => CommandInput::Piped,
            (Some(bytes), false) => CommandInput::Bytes(bytes.clone()),
            (None, false) => CommandInput::Null,
        };
        self.call.request.grant(window.unwrap_or_default());
        let work = async {
            let started = self.sandbox.start(command.stdin(input), Follow::EveryByte);
            let mut stream = started.await?;
            let (request, job) = (&self.call.request, &self.job);
            let offered = stream.take_input().map(|mut input| async move {
                if let Some(bytes) = &stdin {
                    input.write(bytes).await;
                }
                let offered = request.offer_input(job, input);
                std::future::pending::<()>().await;
                drop(offered);
            });
            let followed = async {
                follow_output(self.call, &mut stream, &self.job, (0, 0), window.is_some()).await
            };
            match offered {
                Some(offered) => tokio::select! {
                    biased;
                    followed = followed => followed?,
                    () = offered => {}
                },
                None => followed.await?,
            }
            Ok::<JobInfo, SandboxFailure>(stream.finish().await?.into_info()?)
        };
        let mut work = Box::pin(work);
        let info = tokio::select! {
            biased;
            info = &mut work => info?,
            () = self.call.request.cancelled() => {
                self.kill().await;
                // Its output is not sent any more.
                drop(work);
                return Err(SandboxFailure::cancelled(Some(self.job)));
            }
        };
        let JobState::Ended(exit) = info.state else {
            return Err(SandboxFailure::new(
                FailureKind::Lost,
                "the job is not followed any further",
            )
            .of_job(&info.id));
        };
        let output = CapturedOutput {
            job: info.id.clone(),
            exit,
            stdout: Captured::default(),
            stderr: Captured::default(),
            cwd: info.cwd.to_vec(),
            session_state: info.session_state,
            session_error: info.session_error.clone(),
            duration: info.duration_us.map(Duration::from_micros),
        };
        self.result(&output).await
    }

    /// Kills the command and waits until nothing of it is left; what was not started by now is not
    /// waited for.
    async fn kill(&self) {
        match tokio::time::timeout(KILL_WITHIN, self.sandbox.kill(&self.job)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::debug!(job = %self.job, %error, "nothing to kill"),
            Err(_) => tracing::warn!(job = %self.job, "a cancelled command is still being killed"),
        }
    }

    async fn result(&self, output: &CapturedOutput) -> Result<RunResult, SandboxFailure> {
        let about = RunSandboxView::new(&self.sandbox, self.sandbox.instance().await);
        let mut view = RunView { sandbox: Some(about), ..RunView::default() };
        view.set_output(output);
        view.set_exit(output, self.limit).map_err(|lost| {
            SandboxFailure::new(FailureKind::OutcomeUnknown, lost.to_string())
                .advise("look for its effects before running it again")
                .of_job(&self.job)
        })?;
        let code = output.exit.code.map(Into::into);
        for warning in self.sandbox.warnings(code, output.session_error.as_deref()).await {
            view.advice.push(warning.to_string());
        }
        Ok(RunResult { run: view, cause: Some(output.exit.cause.into()) })
    }
}

/// Sends what a job writes until it has ended.
pub(super) async fn follow_output(
    call: &SandboxCall,
    stream: &mut JobStream,
    job: &JobId,
    from: (u64, u64),
    is_limited: bool,
) -> Result<(), SandboxFailure> {
    let (mut stdout, mut stderr) = from;
    while let Some(event) = stream.next().await? {
        let name = match &event {
            JobEvent::Stdout(_) | JobEvent::Gap { stream: Stream::Stdout, .. } => {
                OutputName::Stdout
            }
            _ => OutputName::Stderr,
        };
        let position = if name == OutputName::Stdout { &mut stdout } else { &mut stderr };
        match event {
            JobEvent::Started { .. } => call.report_started(job).await,
            JobEvent::Stdout(bytes) | JobEvent::Stderr(bytes) => {
                call.send_output(name, *position, &bytes, is_limited).await;
                *position += bytes.len() as u64;
            }
            JobEvent::Gap { bytes, .. } => {
                call.send_gap(name, *position, bytes).await;
                *position += bytes;
            }
            JobEvent::Ended(_) => {}
        }
    }
    Ok(())
}

pub(super) async fn start(
    call: SandboxCall,
    params: StartParams,
) -> Result<JobView, SandboxFailure> {
    refuse_unknown(&params.unknown)?;
    let task = task_of(&params.command.task)?;
    let (job, is_chosen) = (params.command.job()?, params.command.job.is_some());
    let (command, stdin) = params.command.into_command(&job)?;
    let stdin_open = params.stdin_open.unwrap_or(stdin.is_none());
    let input = match (&stdin, stdin_open) {
        (Some(bytes), false) => CommandInput::Bytes(bytes.clone()),
        (None, false) => CommandInput::Null,
        (_, true) => CommandInput::Piped,
    };
    let sandbox = call.server.sandbox(&task).await?;
    if is_chosen && let Some(known) = known_job(&sandbox, &job).await? {
        // A second start would give it its input again.
        return Ok(JobView::new(task.as_str(), &known));
    }
    let info = sandbox.spawn(command.stdin(input).kill_on_drop()).await?;
    if let (Some(bytes), true) = (stdin, stdin_open) {
        let after = vestal_sandbox::job::AfterInput::KeepOpen;
        sandbox.write(&info.id, CommandInput::Bytes(bytes), after).await?;
    }
    Ok(JobView::new(task.as_str(), &info))
}

async fn known_job(sandbox: &Sandbox, job: &JobId) -> Result<Option<JobInfo>, SandboxFailure> {
    match sandbox.wait(job, Some(Duration::ZERO)).await {
        Ok(info) => Ok(Some(info)),
        Err(Error::Call(CallError::Fault(fault))) if fault.code == FaultCode::NoSuchJob => Ok(None),
        Err(error) => Err(error.into()),
    }
}
