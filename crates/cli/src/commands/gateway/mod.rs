//! `vestal gateway`: its verbs, and what they share.

mod image;
mod install;
mod lifecycle;
mod listeners;
mod logs;
mod orders;
mod run;
pub(crate) mod slots;
mod status;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

pub(crate) use lifecycle::{change, hand_over, refuse_inside, stop_before_removal};
pub(crate) use orders::{no_answer, supervisor_failed};
pub(super) use run::listen_for_signals;
pub(super) use status::find as find_gateways;

const AFTER_HELP: &str = "\
One supervisor per home keeps the gateways of all its profiles (`vestal supervise`). `start` starts
one, detached, if none runs. -p NAME chooses the profile, --all means every profile, and --dashboard
the dashboard that they share.

Example:
  vestal -p work gateway start && vestal gateway list";

/// Manage gateways: processes that serve a profile day and night.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct GatewayArgs {
    #[command(subcommand)]
    verb: GatewayVerb,
}

#[derive(Debug, Subcommand)]
enum GatewayVerb {
    Run(run::RunArgs),
    Start(lifecycle::StartArgs),
    Stop(lifecycle::StopArgs),
    Restart(lifecycle::RestartArgs),
    Status(status::StatusArgs),
    List(status::ListArgs),
    Logs(logs::LogsArgs),
    Install(install::InstallArgs),
    Uninstall(install::UninstallArgs),
}

pub(crate) async fn run(context: &Context, args: GatewayArgs) -> Result<Exit, CommandFailure> {
    match args.verb {
        GatewayVerb::Run(args) => Box::pin(run::run(context, &args)).await,
        GatewayVerb::Start(args) => lifecycle::start(context, &args).await,
        GatewayVerb::Stop(args) => lifecycle::stop(context, &args).await,
        GatewayVerb::Restart(args) => lifecycle::restart(context, &args).await,
        GatewayVerb::Status(args) => status::status(context, &args).await,
        GatewayVerb::List(args) => status::list(context, &args).await,
        GatewayVerb::Logs(args) => logs::run(context, &args).await,
        GatewayVerb::Install(args) => install::install(context, &args).await,
        GatewayVerb::Uninstall(args) => install::uninstall(context, &args),
    }
}

/// Which gateways a command is about.
#[derive(Debug, Clone, Args)]
struct ChosenGateways {
    /// All profiles.
    #[arg(long)]
    all: bool,

    /// The dashboard, which all profiles share, in place of a gateway.
    #[arg(long, conflicts_with = "all")]
    dashboard: bool,
}

impl GatewayArgs {
    /// Reports whether this serves a profile in this process.
    pub(crate) fn is_server(&self) -> bool {
        matches!(self.verb, GatewayVerb::Run(_))
    }

    /// Reports whether a supervisor has started this.
    pub(crate) fn is_supervised(&self) -> bool {
        matches!(&self.verb, GatewayVerb::Run(args) if args.is_supervised())
    }
}

impl ChosenGateways {
    /// Returns the slots; nothing means those of all profiles.
    fn slots(&self, context: &Context) -> Result<Option<Vec<String>>, CommandFailure> {
        if self.all {
            return Ok(None);
        }
        if self.dashboard {
            return Ok(Some(vec![vestal_api::DASHBOARD_SLOT.to_owned()]));
        }
        Ok(Some(vec![context.home()?.profile().to_string()]))
    }
}
