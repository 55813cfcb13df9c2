//! `vestal supervise`.

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal as _, Write};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueHint};
use vestal_process::ProcessId;
use vestal_runtime::IdleMemory;
use vestal_supervisor::{
    ControlError, EndedLeftover, MainProgram, Manager, SlotSource as _, Supervisor,
    SupervisorOptions, SupervisorRequest, ask, become_main_program, end_leftovers,
};

use super::gateway::slots::HomeSlots;
use super::gateway::{no_answer, refuse_inside, supervisor_failed};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

/// Longer than gateways may take to end.
const END_WITHIN: Duration = Duration::from_mins(65);
/// How long a supervisor may take to exit once all of its gateways are gone.
const GONE_WITHIN: Duration = Duration::from_secs(10);

const AFTER_HELP: &str = "\
Runs in the foreground until SIGTERM or SIGINT, then ends the gateways; the next supervisor starts
those that were running. Every line of a gateway goes to standard output and, with its time, to
logs/gateways/PROFILE/current. It can be the first process of a container or a service of systemd
(`vestal gateway install`); `vestal gateway start` starts one in the background. SIGHUP looks again
which profiles there are.

With a program after `--`, that is run beside the gateways, with this terminal; supervising ends when
it ends, with its exit code. It is what a container was started for.

The exit code is 1 if another supervisor has this home.

Examples:
  vestal supervise
  vestal supervise -- vestal chat
  vestal supervise --stop";

/// Keep the gateways of all profiles running.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SuperviseArgs {
    /// Run in the foreground, which is the default.
    #[arg(long)]
    foreground: bool,

    /// End the supervisor of this home with its gateways, or those that a killed one has left; which of
    /// them were running stays on record.
    #[arg(long, conflicts_with = "foreground")]
    stop: bool,

    /// Leave the caller's session, and print one byte when ready.
    #[arg(long, hide = true, conflicts_with_all = ["foreground", "stop"])]
    detached: bool,

    /// Become PROGRAM, as a child of the supervisor with this pid.
    #[arg(
        long,
        hide = true,
        value_name = "PID",
        requires = "program",
        conflicts_with = "foreground"
    )]
    beside: Option<u32>,

    /// Run this beside the gateways, and end with it.
    #[arg(
        last = true,
        value_name = "PROGRAM",
        value_hint = ValueHint::CommandWithArguments,
        conflicts_with_all = ["stop", "detached"]
    )]
    program: Vec<OsString>,
}

impl SuperviseArgs {
    /// Reports whether it has nobody to talk to.
    pub(crate) fn is_detached(&self) -> bool {
        self.detached && !self.foreground
    }
}

pub(crate) async fn run(context: &Context, args: &SuperviseArgs) -> Result<Exit, CommandFailure> {
    let slots = HomeSlots::new(context)?;
    if args.stop {
        return stop(context, &slots).await;
    }
    let kind = if args.is_detached() { Kind::Detached } else { Kind::Foreground };
    if let (Some(supervisor), Some((program, arguments))) =
        (args.beside, args.program.split_first())
    {
        return Err(become_beside(supervisor, program, arguments));
    }
    let main = match args.program.split_first() {
        Some((program, arguments)) => {
            let own = std::env::current_exe();
            let own = own.map_err(|error| CommandFailure::io("find this program", &error))?;
            Some(MainProgram {
                program: program.clone(),
                arguments: arguments.to_vec(),
                launcher: vec![own.into(), "supervise".into(), "--beside".into()],
            })
        }
        None => None,
    };
    let start = StartWith { gateway: None, main };
    supervise(context, slots, kind, start).await
}

/// Becomes the program beside the gateways of the supervisor that has started this process. Returns why
/// not, with the exit codes of a shell.
fn become_beside(supervisor: u32, program: &OsStr, arguments: &[OsString]) -> CommandFailure {
    let error = become_main_program(supervisor, program, arguments.iter().cloned());
    let code = if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
    CommandFailure::new(format!("cannot run {}: {error}", program.to_string_lossy()))
        .with_exit(Exit::Command(code))
}

/// Ends the supervisor with its gateways; without one, the gateways that a killed one has left.
async fn stop(context: &Context, slots: &HomeSlots) -> Result<Exit, CommandFailure> {
    refuse_inside(context)?;
    let (console, run_dir) = (context.console, slots.run_dir());
    let ending = ask(&run_dir, &SupervisorRequest::Shutdown, END_WITHIN);
    let answer = match console.while_waiting("ending the gateways", ending).await {
        Ok(answer) => answer,
        Err(error @ ControlError::NotRunning(_)) => {
            return stop_leftovers(context, slots, &error).await;
        }
        Err(error) => return Err(no_answer(&error).with_exit(Exit::No)),
    };
    if let Some(error) = answer.error {
        return Err(CommandFailure::new(error));
    }
    gone(&answer.holder.process).await?;
    console.print(&format!("ended the supervisor (pid {})", answer.holder.process.pid))?;
    Ok(Exit::Success)
}

async fn stop_leftovers(
    context: &Context,
    slots: &HomeSlots,
    none: &ControlError,
) -> Result<Exit, CommandFailure> {
    let (console, run_dir, found) = (context.console, slots.run_dir(), slots.slots());
    let ending = end_leftovers(&run_dir, &found);
    let ended = console.while_waiting("ending the gateways", ending).await;
    let ended =
        ended.map_err(|error| CommandFailure::new(error.to_string()).advise("try again"))?;
    let mut alive = Vec::new();
    for EndedLeftover { slot, ended } in &ended {
        match ended {
            Ok(pid) => console.print(&format!(
                "ended {slot} (pid {pid}), which a supervisor that was killed had left"
            ))?,
            Err(error) => alive.push(format!("{slot}: {error}")),
        }
    }
    if !alive.is_empty() {
        return Err(CommandFailure::new(format!("not all have ended: {}", alive.join("; "))));
    }
    if ended.is_empty() {
        return Err(CommandFailure::new(format!("{none}, and none has left anything"))
            .advise("to see what runs: vestal gateway list")
            .with_exit(Exit::No));
    }
    console.note("what was wanted stays on record; to start it again: vestal supervise");
    Ok(Exit::Success)
}

/// Supervises in the foreground, and starts one gateway as soon as that is possible.
pub(crate) async fn run_first(
    context: &Context,
    gateway: Option<String>,
) -> Result<Exit, CommandFailure> {
    let start = StartWith { gateway, main: None };
    supervise(context, HomeSlots::new(context)?, Kind::Foreground, start).await
}

/// What is started besides what was running before.
struct StartWith {
    /// The gateway of a profile.
    gateway: Option<String>,
    /// A program beside the gateways.
    main: Option<MainProgram>,
}

/// Whose session a supervisor is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Foreground,
    Detached,
}

async fn supervise(
    context: &Context,
    slots: HomeSlots,
    kind: Kind,
    start: StartWith,
) -> Result<Exit, CommandFailure> {
    let detached = kind == Kind::Detached;
    if detached {
        vestal_process::lead_session()
            .map_err(|error| CommandFailure::io("leave the session", &error))?;
    }
    slots.make_profiles_dir()?;
    let is_first = std::process::id() == 1;
    let manager = if is_first {
        Manager::Container
    } else if context.environment().non_empty("NOTIFY_SOCKET").is_some() {
        Manager::Systemd
    } else {
        Manager::None
    };
    let (run_dir, has_main) = (slots.run_dir(), start.main.is_some());
    // A program on a terminal has it to itself; the gateways have their logs.
    let is_hidden = detached || has_main && std::io::stdout().is_terminal();
    let output: Box<dyn Write + Send> =
        if is_hidden { Box::new(std::io::sink()) } else { Box::new(std::io::stdout()) };
    let options = SupervisorOptions {
        run_dir: run_dir.clone(),
        logs_dir: slots.root().logs_dir(),
        output,
        manager,
        reaps: is_first,
        source: Arc::new(slots),
        main: start.main,
    };
    let supervisor = Supervisor::take(options).await.map_err(|error| supervisor_failed(&error))?;
    let ready = || {
        if detached {
            // The process that started it may be gone; the gateways are kept running all the same.
            context.console.write("1").ok();
        } else if !has_main {
            context.console.note("supervising; `vestal gateway list` shows the gateways");
        }
        if let Some(gateway) = start.gateway {
            // Over the socket, as everybody does: what became of it is in its log and its status.
            tokio::spawn(async move {
                let start = SupervisorRequest::Start { slots: Some(vec![gateway]) };
                if let Err(error) = ask(&run_dir, &start, END_WITHIN).await {
                    tracing::error!(%error, "the gateway was not started");
                }
            });
        }
    };
    // What it does once all is up is little, and rare.
    let _memory = IdleMemory::start(|| false);
    let ended = supervisor.run(ready).await.map_err(|error| supervisor_failed(&error))?;
    Ok(ended.map_or(Exit::Success, exit_like))
}

/// Returns the exit code of a program, as a shell reports it.
fn exit_like(status: ExitStatus) -> Exit {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    Exit::Command(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

/// Waits until a supervisor that has answered is gone: it answers a moment before.
async fn gone(process: &ProcessId) -> Result<(), CommandFailure> {
    let failed = |error| CommandFailure::io("look at the supervisor", &error);
    let Some(handle) = process.handle().map_err(failed)? else { return Ok(()) };
    if handle.ended_within(GONE_WITHIN).await.map_err(failed)? {
        return Ok(());
    }
    let pid = process.pid;
    Err(CommandFailure::new(format!(
        "the gateways have ended, but the supervisor (pid {pid}) has not"
    )))
}
