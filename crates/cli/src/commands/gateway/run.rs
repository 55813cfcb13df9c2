//! `vestal gateway run`: the gateway of a profile in this process.

use std::path::{Path, PathBuf};

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use vestal_config::{Environment, Settings};
use vestal_gateway::{Gateway, GatewayEnd, GatewayError, GatewaySettings, ShutdownCause};
use vestal_supervisor::{
    PLANNED_STOP_VARIABLE, PlannedAction, PlannedStop, READY_VARIABLE, announce_ready,
};

use super::image;
use super::lifecycle::hand_over;
use crate::agent;
use crate::commands::kanban;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

const RUN_HELP: &str = "\
Serves the profile until it is stopped: the API server (api_server.enabled), the dispatcher of the
boards (kanban.dispatch_in_gateway), and schedules (cron.enabled). `vestal gateway start` runs it
supervised instead, so that it comes back after a crash or a reboot.

Inside the image (VESTAL_IMAGE=1, or where the supervisor is the container's first process) it runs
supervised: this starts the supervisor's slot, or becomes the supervisor if none runs. --no-supervise
or VESTAL_GATEWAY_NO_SUPERVISE=1 serves in this process; its exit code is the gateway's.

Exit codes: 0 stopped on purpose (Ctrl-C, `vestal gateway stop`), 1 ended by SIGTERM, 75 wants to be
started again (SIGUSR1), 78 cannot start until something is changed: the reason is in
gateway_state.json.

Examples:
  vestal gateway run
  API_SERVER_ENABLED=true API_SERVER_KEY=$(openssl rand -hex 32) vestal -p work gateway run";

/// Serve a profile in the foreground.
#[derive(Debug, Args)]
#[command(after_help = RUN_HELP)]
pub(super) struct RunArgs {
    /// Serve in this process, inside the image too.
    #[arg(long)]
    no_supervise: bool,

    /// Say that a supervisor started it.
    #[arg(long, hide = true, conflicts_with = "no_supervise")]
    supervised: bool,
}

impl RunArgs {
    pub(super) fn is_supervised(&self) -> bool {
        self.supervised
    }
}

pub(super) async fn run(context: &Context, args: &RunArgs) -> Result<Exit, CommandFailure> {
    image::refuse_root(context.environment())?;
    let is_own = args.supervised
        || args.no_supervise
        || image::is_on(context.environment(), image::NO_SUPERVISE);
    if !is_own && let Some(supervision) = image::supervision(context).await? {
        return image::run_supervised(context, supervision).await;
    }
    let loaded = context.settings()?;
    let home = loaded.home().clone();
    let gateway = match Gateway::claim(&home.dir(), home.profile().as_str()) {
        Ok(gateway) => gateway,
        Err(error @ GatewayError::AlreadyRunning { .. }) => {
            // The one that a supervisor has started is tried again: the other one will end.
            let exit = if args.supervised { Exit::No } else { Exit::Permanent };
            return Err(CommandFailure::new(error.to_string())
                .advise(format!(
                    "to see it: vestal -p {0} gateway status; to end it: vestal -p {0} gateway stop",
                    home.profile()
                ))
                .with_exit(exit));
        }
        Err(error) if error.is_permanent() => {
            return Err(CommandFailure::new(error.to_string()).with_exit(Exit::Permanent));
        }
        Err(error) => return Err(CommandFailure::new(error.to_string())),
    };
    // From here on whatever keeps it from starting is on record.
    let end = match serve(context, &gateway, &loaded, args).await {
        Ok(end) => end,
        Err(failure) => {
            gateway.startup_failed(failure.message().unwrap_or("it could not start"));
            return Err(failure);
        }
    };
    if !args.supervised {
        drop(gateway);
        hand_over(context, home.profile().as_str()).await;
    }
    if end.stuck > 0 {
        let message = format!("{} turns did not end although they were interrupted", end.stuck);
        return Err(CommandFailure::new(message));
    }
    Ok(match end.shutdown {
        ShutdownCause::Planned => Exit::Success,
        ShutdownCause::Unplanned => Exit::No,
        ShutdownCause::Restart => Exit::Restart,
    })
}

async fn serve(
    context: &Context,
    gateway: &Gateway,
    loaded: &Settings,
    args: &RunArgs,
) -> Result<GatewayEnd, CommandFailure> {
    let wanted = GatewaySettings::new(loaded)
        .map_err(|error| CommandFailure::from(error).with_exit(Exit::Permanent))?
        .map_err(|error| CommandFailure::new(error.to_string()).with_exit(Exit::Permanent))?;
    if args.supervised {
        context.become_service();
    }
    let (sender, receiver) = mpsc::channel(4);
    listen_for_signals(context.environment(), sender.clone())
        .map_err(|error| CommandFailure::io("listen for signals", &error))?;
    let dispatcher =
        if wanted.dispatch { Some(kanban::hosted_dispatcher(context).await?) } else { None };
    let runtime = agent::build(context, loaded, &[]).await?;
    let engine = runtime.agent().engine().clone();
    if !args.supervised {
        context.console.note(&serving(&wanted, loaded));
    }
    let served = gateway.serve(runtime.clone(), wanted, dispatcher, (sender, receiver), || {
        let descriptor = context.environment().non_empty(READY_VARIABLE);
        let announced = descriptor.and_then(|name| name.to_str()).map(announce_ready);
        if let Some(Err(error)) = announced {
            tracing::warn!(%error, "readiness was not announced");
        }
    });
    let end = match served.await {
        Ok(end) => end,
        Err(error) => {
            let exit = if error.is_permanent() { Exit::Permanent } else { Exit::Failed };
            return Err(CommandFailure::new(error.to_string()).with_exit(exit));
        }
    };
    context.close(&engine).await;
    runtime.close().await;
    Ok(end)
}

/// Says in a line what is served.
fn serving(wanted: &GatewaySettings, settings: &Settings) -> String {
    let mut parts = Vec::new();
    if let Some(server) = &wanted.api_server {
        parts.extend(server.host.as_ref().map(|host| format!("API on {host}:{}", server.port)));
        parts.extend(server.socket.as_ref().map(|socket| format!("API on {}", socket.display())));
    }
    if wanted.dispatch {
        parts.push("the boards".to_owned());
    }
    if wanted.schedules.is_some() {
        parts.push("schedules".to_owned());
    }
    let profile = settings.home().profile();
    if parts.is_empty() {
        return format!(
            "gateway of profile {profile}: nothing to serve yet; to serve an API, set API_SERVER_ENABLED=true and API_SERVER_KEY"
        );
    }
    format!("gateway of profile {profile} serves {}; Ctrl-C stops it", parts.join(", "))
}

/// Hands signals on: SIGINT and a planned SIGTERM stop, another SIGTERM or SIGHUP ends what
/// should come back, SIGUSR1 asks to be started again.
pub(in crate::commands) fn listen_for_signals(
    environment: &Environment,
    sender: mpsc::Sender<ShutdownCause>,
) -> std::io::Result<()> {
    let note = environment.non_empty(PLANNED_STOP_VARIABLE).map(PathBuf::from);
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut restart = signal(SignalKind::user_defined1())?;
    tokio::spawn(async move {
        loop {
            let shutdown = tokio::select! {
                _ = interrupt.recv() => ShutdownCause::Planned,
                _ = terminate.recv() => meaning_of_sigterm(note.as_deref()),
                _ = hang_up.recv() => ShutdownCause::Unplanned,
                _ = restart.recv() => ShutdownCause::Restart,
            };
            if sender.send(shutdown).await.is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// Returns what SIGTERM means: a supervisor leaves a note when the end is planned.
fn meaning_of_sigterm(note: Option<&Path>) -> ShutdownCause {
    match note.map(PlannedStop::of_this_process) {
        Some(Ok(Some(PlannedStop { action: PlannedAction::Stop, .. }))) => ShutdownCause::Planned,
        Some(Ok(Some(PlannedStop { action: PlannedAction::Restart, .. }))) => {
            ShutdownCause::Restart
        }
        Some(Ok(None)) | None => ShutdownCause::Unplanned,
        Some(Err(error)) => {
            tracing::warn!(%error, "the note about a planned stop cannot be read");
            ShutdownCause::Unplanned
        }
    }
}
