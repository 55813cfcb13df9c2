//! `vestal run`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use vestal_api::{RunSandboxView, RunView};
use vestal_runtime::Terminations;
use vestal_sandbox::job::Follow;
use vestal_sandbox::{
    CapturedOutput, Cause, Command, CommandInput, Engine, JobId, JobInfo, Sandbox, SessionState,
    new_job_id,
};

use crate::cli::{SandboxFlags, TaskOption};
use crate::console::terminal::{self, StdinKind};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::{self, Exit};
use crate::follow::{Followed, JobOutlet, exit_of, follow, kill_before_exit, unless_terminated};
use crate::interact::{self, Detach, Interacted, interact};
use crate::values::parse_duration;

/// The session commands run in unless another is named.
const DEFAULT_SESSION: &str = "main";

/// The name for "no session".
const NO_SESSION: &str = "none";

/// How long to wait for the output of a command that was killed.
const OUTPUT_GRACE: Duration = Duration::from_secs(1);

const AFTER_HELP: &str = "\
A single argument is shell text; several are a program and its arguments. Standard input is passed
on if it is a pipe or a file. The exit code is that of the command; 124 timeout, 125 Vestal failed,
126 no such workdir, 130 interrupted.

Examples:
  vestal run 'cd /tmp && make; echo $?'
  vestal run -t web --background -- npm run dev
  vestal run --timeout 10m --json ./build.sh
  vestal run -e GITHUB_TOKEN -e CI=1 ./release.sh
  generate | vestal run 'sort | uniq -c' > counts
  vestal run --file script.sh            (text of any length; `-` reads it from standard input)";

/// Run a command in the durable sandbox of a task.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    task: TaskOption,

    #[command(flatten)]
    wanted: SandboxFlags,

    /// Run the command in this directory.
    #[arg(short, long, value_name = "DIR")]
    workdir: Option<PathBuf>,

    /// Set a variable for this command alone, never saved: NAME takes the value from your
    /// environment. For secrets use that: others see NAME=VALUE in the list of processes.
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    env: Vec<OsString>,

    /// Kill the command and everything it started after this time: seconds, or a number with s, m,
    /// h or d.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,

    /// Shell session to restore and to save; `none` starts clean and saves nothing.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_SESSION)]
    session: String,

    /// Start the command, print its job id and return.
    #[arg(long, conflicts_with = "pty")]
    background: bool,

    /// Run the command on a terminal.
    #[arg(long, conflicts_with = "json")]
    pty: bool,

    /// Print one JSON object with the result and the output when the command has ended.
    #[arg(long)]
    json: bool,

    /// Give the command no standard input.
    #[arg(short, long)]
    no_stdin: bool,

    /// Read the shell text from a file; `-` is standard input.
    #[arg(short, long, value_name = "FILE", conflicts_with = "command")]
    file: Option<PathBuf>,

    /// Command to run; `-` reads shell text from standard input. Everything after `--` is the
    /// command.
    #[arg(value_name = "CMD", trailing_var_arg = true, required_unless_present = "file")]
    pub(crate) command: Vec<OsString>,
}

/// A command that is about to run.
struct CommandRunner<'a> {
    context: &'a Context,
    args: &'a RunArgs,
    job: JobId,
    signals: Terminations,
}

pub(crate) async fn run(context: &Context, args: RunArgs) -> Result<Exit, CommandFailure> {
    let signals = exit::listen_or_fail()?;
    let mut runner = CommandRunner { context, args: &args, job: new_job_id(), signals };
    let mut view = RunView::default();
    let result = runner.run(&mut view).await;
    if !args.json {
        return result;
    }
    let exit = match &result {
        Ok(exit) => *exit,
        Err(failure) => failure.exit(),
    };
    match &result {
        Ok(Exit::Terminated(_)) => view.error = Some("interrupted".to_owned()),
        Ok(_) => {}
        Err(failure) => {
            view.error = Some(failure.message().unwrap_or("no reason given").to_owned());
            view.advice = failure.advice().to_vec();
        }
    }
    if !(args.background && result.is_ok()) {
        view.exit_code = Some(exit.code());
    }
    context.console.print_json(&view)?;
    Ok(exit)
}

impl CommandRunner<'_> {
    async fn run(&mut self, view: &mut RunView) -> Result<Exit, CommandFailure> {
        let command = self.command()?;
        let engine = self.context.engine()?;
        let overrides = self.context.overrides(&self.args.wanted)?;
        let attach = self.context.sandbox(&engine, &self.args.task.task, &overrides);
        let sandbox = match unless_terminated(&mut self.signals, attach).await {
            Ok(sandbox) => sandbox?,
            Err(signal) => {
                self.context.close(&engine).await;
                return Ok(Exit::Terminated(signal));
            }
        };
        view.sandbox = Some(RunSandboxView::new(&sandbox, sandbox.instance().await));
        let result = self.run_in(&sandbox, command, view).await;
        self.context.print_sync_notes(&sandbox);
        self.end(&engine, &result).await;
        result
    }

    async fn run_in(
        &mut self,
        sandbox: &Sandbox,
        command: Command,
        view: &mut RunView,
    ) -> Result<Exit, CommandFailure> {
        if self.args.background {
            self.spawn(sandbox, command, view).await
        } else if self.args.json {
            self.capture(sandbox, command, view).await
        } else {
            self.stream(sandbox, command).await
        }
    }

    /// Cleans up; after a signal only what is necessary.
    async fn end(&self, engine: &Engine, result: &Result<Exit, CommandFailure>) {
        match result {
            Ok(Exit::Terminated(_) | Exit::BrokenPipe) => self.context.close(engine).await,
            _ => self.context.finish(engine).await,
        }
    }

    /// Builds the command from the arguments.
    fn command(&self) -> Result<Command, CommandFailure> {
        let args = self.args;
        let (mut command, stdin_is_text) = match (&args.file, args.command.as_slice()) {
            (Some(file), _) if file == Path::new("-") => (Command::shell(read_text(None)?), true),
            (Some(file), _) => (Command::shell(read_text(Some(file))?), false),
            (None, [text]) if text == "-" => (Command::shell(read_text(None)?), true),
            (None, [text]) => (Command::shell(text.as_bytes()), false),
            (None, argv) => (Command::argv(argv), false),
        };
        command = command.job_id(self.job.clone());
        if args.session != NO_SESSION {
            command = command.session(&args.session);
        }
        if let Some(dir) = &args.workdir {
            command = command.workdir(dir);
        }
        for given in &args.env {
            let (name, value) = self.variable(given)?;
            command = command.secret_env(name, value);
        }
        if let Some(limit) = args.timeout {
            command = command.timeout(limit);
        }
        if args.pty {
            command = command.pty(terminal::size_or_default());
        }
        let input = if args.no_stdin || stdin_is_text { CommandInput::Null } else { self.input() };
        Ok(command.stdin(input))
    }

    /// Returns a variable for the command, from this process's environment where no value is
    /// given.
    fn variable<'a>(&'a self, given: &'a OsStr) -> Result<(&'a OsStr, &'a OsStr), CommandFailure> {
        let bytes = given.as_bytes();
        if let Some(at) = bytes.iter().position(|byte| *byte == b'=') {
            return Ok((OsStr::from_bytes(&bytes[..at]), OsStr::from_bytes(&bytes[at + 1..])));
        }
        let value = self.context.environment().get(given).ok_or_else(|| {
            CommandFailure::usage(format!(
                "{} is not set in your environment",
                given.to_string_lossy()
            ))
            .advise("export it, or write NAME=VALUE if the value is no secret")
        })?;
        Ok((given, value))
    }

    /// Returns the command's input. A background job's stays open for
    /// `vestal write`, and this process's input is not read.
    fn input(&self) -> CommandInput {
        if self.args.background {
            return CommandInput::Piped;
        }
        match StdinKind::detect() {
            StdinKind::Data => CommandInput::Reader(Box::new(tokio::io::stdin())),
            StdinKind::Terminal if self.args.pty => CommandInput::Piped,
            StdinKind::Terminal | StdinKind::Nothing => CommandInput::Null,
        }
    }

    async fn spawn(
        &mut self,
        sandbox: &Sandbox,
        command: Command,
        view: &mut RunView,
    ) -> Result<Exit, CommandFailure> {
        let started = match unless_terminated(&mut self.signals, Box::pin(sandbox.spawn(command)))
            .await
        {
            Ok(started) => started,
            Err(signal) => {
                kill_before_exit(self.context.console, sandbox, &self.job, &mut self.signals).await;
                return Ok(Exit::Terminated(signal));
            }
        };
        let info = started?;
        view.set_started(&info);
        if !self.args.json {
            self.context.console.print(info.id.as_str())?;
        }
        Ok(Exit::Success)
    }

    /// Runs the command to its end and captures its output, within bounds.
    async fn capture(
        &mut self,
        sandbox: &Sandbox,
        command: Command,
        view: &mut RunView,
    ) -> Result<Exit, CommandFailure> {
        let mut run = Box::pin(sandbox.run(command));
        let (output, signal) = match unless_terminated(&mut self.signals, &mut run).await {
            Ok(output) => (output, None),
            Err(signal) => {
                kill_before_exit(self.context.console, sandbox, &self.job, &mut self.signals).await;
                // Output from before the timeout is kept if it arrives at once.
                let rest = tokio::time::timeout(OUTPUT_GRACE, run);
                match unless_terminated(&mut self.signals, rest).await {
                    Ok(Ok(output)) => (output, Some(signal)),
                    Ok(Err(_)) | Err(_) => return Ok(Exit::Terminated(signal)),
                }
            }
        };
        let output = match (output, signal) {
            (Ok(output), _) => output,
            (Err(_), Some(signal)) => return Ok(Exit::Terminated(signal)),
            (Err(error), None) => return Err(error.into()),
        };
        view.set_output(&output);
        let code = output.exit.code.map(Into::into);
        for remark in sandbox.warnings(code, output.session_error.as_deref()).await {
            self.context.console.warn(&remark.to_string());
        }
        match signal {
            Some(signal) => Ok(Exit::Terminated(signal)),
            None => captured_exit(&output, self.args.timeout, view),
        }
    }

    /// Passes the command's output on as it comes.
    async fn stream(
        &mut self,
        sandbox: &Sandbox,
        command: Command,
    ) -> Result<Exit, CommandFailure> {
        let outlet = JobOutlet::both(self.context.console)?;
        let start = Box::pin(sandbox.start(command, Follow::EveryByte));
        let start = self.context.activity().while_waiting(start);
        let followed = match unless_terminated(&mut self.signals, start).await {
            Err(signal) => Ok(Followed::Terminated(signal)),
            Ok(Err(error)) => return Err(error.into()),
            Ok(Ok(job)) if self.args.pty && interact::is_possible() => {
                interact(sandbox, job, &outlet, &mut self.signals, Detach::Never)
                    .await
                    .map(without_detaching)
            }
            Ok(Ok(job)) => follow(job, &outlet, &mut self.signals).await,
        };
        match followed {
            Ok(Followed::Done(info)) => {
                for remark in sandbox.job_warnings(&info).await {
                    self.context.console.warn(&remark.to_string());
                }
                self.ended(&info)
            }
            Ok(Followed::NoReader) => {
                kill_before_exit(self.context.console, sandbox, &self.job, &mut self.signals).await;
                Ok(Exit::BrokenPipe)
            }
            Ok(Followed::Terminated(signal)) => {
                kill_before_exit(self.context.console, sandbox, &self.job, &mut self.signals).await;
                Ok(Exit::Terminated(signal))
            }
            Err(failure) => Err(failure),
        }
    }

    fn ended(&self, info: &JobInfo) -> Result<Exit, CommandFailure> {
        let exit = exit_of(info)?;
        if exit == Exit::TimedOut {
            self.context.console.note(&timed_out(self.args.timeout));
        }
        if info.session_state == SessionState::Superseded {
            self.context.console.note(&format!(
                "a command that started later saved session {}; changes of this command to the session were not kept",
                self.args.session
            ));
        }
        Ok(exit)
    }
}

fn without_detaching(interacted: Interacted) -> Followed {
    match interacted {
        Interacted::Ended(info) => Followed::Done(info),
        Interacted::Detached | Interacted::NoReader => Followed::NoReader,
        Interacted::Terminated(signal) => Followed::Terminated(signal),
    }
}

fn captured_exit(
    output: &CapturedOutput,
    limit: Option<Duration>,
    view: &mut RunView,
) -> Result<Exit, CommandFailure> {
    match (output.exit.cause, output.exit.code) {
        (Cause::TimedOut, _) => {
            view.error = Some(timed_out(limit));
            Ok(Exit::TimedOut)
        }
        (Cause::Lost, _) | (_, None) => Err(CommandFailure::new(format!(
            "the sandbox ended while job {} ran; its exit code is not known",
            output.job
        ))),
        (Cause::Exited | Cause::Signaled(_) | Cause::Killed, Some(code)) => Ok(Exit::Command(code)),
    }
}

fn timed_out(limit: Option<Duration>) -> String {
    let after = limit.map(|limit| format!(" after {} s", limit.as_secs_f64())).unwrap_or_default();
    format!("timed out{after}; everything the command started was killed")
}

/// Reads shell text from a file, or from standard input.
fn read_text(file: Option<&Path>) -> Result<Vec<u8>, CommandFailure> {
    let mut text = Vec::new();
    let read = match file {
        Some(file) => File::open(file).and_then(|mut file| file.read_to_end(&mut text)),
        None => io::stdin().lock().read_to_end(&mut text),
    };
    let from = file.map_or_else(|| "standard input".to_owned(), |file| file.display().to_string());
    read.map_err(|error| CommandFailure::io(&format!("read the shell text from {from}"), &error))?;
    Ok(text)
}
