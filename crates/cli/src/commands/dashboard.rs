//! `vestal dashboard`: the web page of the home.

mod host;
mod login;

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use vestal_api::DASHBOARD_SLOT;
use vestal_api::dashboard::DashboardStatusView;
use vestal_config::Home;
use vestal_dashboard::gate::Right;
use vestal_dashboard::{
    Dashboard, DashboardSettings, DashboardState, InstanceError, ServeError, StopOutcome,
    find_instance, stop_instance,
};
use vestal_gateway::ShutdownCause;
use vestal_supervisor::{READY_VARIABLE, announce_ready};

use self::host::DashboardHost;
use self::login::{has_browser, link, logout, new_link, password, show_link};
use super::gateway;
use crate::agent;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

/// How long a dashboard may take to end.
const STOP_WITHIN: Duration = Duration::from_secs(15);

const AFTER_HELP: &str = "\
Serves the home with all its profiles on http://127.0.0.1:9119 until Ctrl-C, prints a link that lets
one browser in once, and opens it. If a dashboard of the home runs already, this makes a link to it.

An address that other machines can reach needs a way to log in: `vestal dashboard password`, or a
proxy that logs people in (dashboard.proxy_user_header). docs/dashboard.md has the whole picture.

Exit codes: 0 stopped on purpose, 1 there is no way to log in, or (--status, --stop) none runs.

Examples:
  vestal dashboard
  vestal dashboard --port 0 --no-open
  vestal dashboard link --viewer
  vestal dashboard --status --json";

/// See and steer everything in a browser.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct DashboardArgs {
    #[command(subcommand)]
    verb: Option<DashboardVerb>,

    #[command(flatten)]
    address: AddressFlags,

    /// Do not open a browser.
    #[arg(long)]
    no_open: bool,

    /// Say whether a dashboard of this home runs, and where.
    #[arg(long, conflicts_with_all = ["stop", "host", "port", "insecure"])]
    status: bool,

    /// End the dashboard of this home.
    #[arg(long, conflicts_with_all = ["host", "port", "insecure"])]
    stop: bool,

    /// Print a JSON object (--status).
    #[arg(long, requires = "status")]
    json: bool,
}

/// Where it is served.
#[derive(Debug, Clone, Args)]
struct AddressFlags {
    /// Address to listen on [default: 127.0.0.1].
    #[arg(long, value_name = "ADDRESS")]
    host: Option<String>,

    /// Port to listen on; 0 for any that is free [default: 9119].
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,

    /// Serve everybody who can reach it, without a login.
    #[arg(long)]
    insecure: bool,
}

#[derive(Debug, Subcommand)]
enum DashboardVerb {
    /// Make a link that lets one browser in once, within ten minutes.
    #[command(after_help = "Example:\n  vestal dashboard link --viewer")]
    Link {
        /// Let the person who opens it look, but not change anything.
        #[arg(long)]
        viewer: bool,
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Set the password of the dashboard; it is asked for, or read from standard input.
    #[command(
        after_help = "Sessions of the previous password end.\n\nExample:\n  vestal dashboard password < file"
    )]
    Password {
        /// Remove it instead: nobody can log in with one.
        #[arg(long)]
        remove: bool,
    },
    /// End all sessions and take back all links.
    #[command(after_help = "Example:\n  vestal dashboard logout")]
    Logout,
    /// Serve it in the foreground, without a link: what a supervisor starts.
    #[command(
        after_help = "Exit codes are those of `vestal gateway run`: 0, 1, 75, 78.\n\nExample:\n  vestal dashboard run --port 9119"
    )]
    Run(RunArgs),
}

#[derive(Debug, Args)]
struct RunArgs {
    #[command(flatten)]
    address: AddressFlags,

    /// Say that a supervisor started it.
    #[arg(long, hide = true)]
    supervised: bool,
}

impl DashboardArgs {
    /// Reports whether this serves the dashboard in this process.
    pub(crate) fn is_server(&self) -> bool {
        match &self.verb {
            Some(verb) => matches!(verb, DashboardVerb::Run(_)),
            None => !self.status && !self.stop,
        }
    }

    /// Reports whether a supervisor has started this.
    pub(crate) fn is_supervised(&self) -> bool {
        matches!(&self.verb, Some(DashboardVerb::Run(args)) if args.supervised)
    }
}

pub(crate) async fn run(context: &Context, args: DashboardArgs) -> Result<Exit, CommandFailure> {
    let root = context.profiles()?.root().clone();
    match args.verb {
        Some(DashboardVerb::Link { viewer, json }) => link(context, &root, viewer, json).await,
        Some(DashboardVerb::Password { remove }) => password(context, &root, remove).await,
        Some(DashboardVerb::Logout) => logout(context, &root).await,
        Some(DashboardVerb::Run(args)) => {
            let caller = if args.supervised { LinkReader::Supervisor } else { LinkReader::Script };
            serve(context, &root, &args.address, caller).await
        }
        None if args.status => status(context, &root, args.json),
        None if args.stop => stop(context, &root).await,
        None => {
            let opens = !args.no_open && has_browser(context.environment());
            let caller = if opens { LinkReader::Browser } else { LinkReader::Person };
            serve(context, &root, &args.address, caller).await
        }
    }
}

/// Who is notified of a dashboard that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkReader {
    /// A person with a browser, which is opened.
    Browser,
    /// A person, who opens the link.
    Person,
    /// A program that started `run`: no link is made unasked.
    Script,
    /// A supervisor, which is notified by a byte.
    Supervisor,
}

async fn serve(
    context: &Context,
    root: &Home,
    flags: &AddressFlags,
    caller: LinkReader,
) -> Result<Exit, CommandFailure> {
    let permanent = if caller == LinkReader::Supervisor { Exit::Permanent } else { Exit::No };
    let loaded = context.settings_of_default()?;
    agent::begin_log(&loaded)?;
    let wanted = DashboardSettings::new(&loaded, flags.host.as_deref(), flags.port);
    let mut wanted =
        wanted.map_err(|error| CommandFailure::new(error.to_string()).with_exit(permanent))?;
    wanted.is_insecure |= flags.insecure;
    let (sender, mut signals) = mpsc::channel(4);
    gateway::listen_for_signals(context.environment(), sender)
        .map_err(|error| CommandFailure::io("listen for signals", &error))?;
    let environment = context.environment().clone();
    let host = Arc::new(DashboardHost::new(context));
    let dashboard = match Dashboard::start(root, environment, &wanted, host).await {
        Ok(dashboard) => dashboard,
        Err(ServeError::Instance(InstanceError::AlreadyRunning(Some(state))))
            if matches!(caller, LinkReader::Browser | LinkReader::Person) =>
        {
            return reuse(context, root, &state, caller).await;
        }
        // The one that a supervisor has started is tried again: the other one will end.
        Err(error @ ServeError::Instance(InstanceError::AlreadyRunning(_))) => {
            return Err(CommandFailure::new(error.to_string()).with_exit(Exit::No));
        }
        Err(error) => return Err(not_served(&error, permanent)),
    };
    if wanted.is_insecure {
        context.console.warn(&format!(
            "{} is served without a login: everybody who can reach it may do everything",
            dashboard.url()
        ));
    }
    let opened = match caller {
        LinkReader::Browser | LinkReader::Person => {
            let link = dashboard.store().create_link(Right::Operator, Timestamp::now()).await;
            let link = link.map_err(|error| CommandFailure::new(error.to_string()))?;
            Some(show_link(context, root, &link.url(dashboard.url()), caller)?)
        }
        LinkReader::Script => {
            context.console.note(&format!(
                "the dashboard is at {}; to get in: vestal dashboard link",
                dashboard.url()
            ));
            None
        }
        LinkReader::Supervisor => {
            let descriptor = context.environment().non_empty(READY_VARIABLE);
            let announced = descriptor.and_then(|name| name.to_str()).map(announce_ready);
            if let Some(Err(error)) = announced {
                tracing::warn!(%error, "readiness was not announced");
            }
            None
        }
    };
    tracing::info!(address = %dashboard.address(), insecure = wanted.is_insecure, "the dashboard listens");
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    let why = tokio::spawn(async move {
        let why = signals.recv().await.unwrap_or(ShutdownCause::Unplanned);
        stopping.cancel();
        why
    });
    dashboard.serve(stop).await;
    drop(opened);
    if caller != LinkReader::Supervisor {
        gateway::hand_over(context, DASHBOARD_SLOT).await;
    }
    Ok(match why.await.unwrap_or(ShutdownCause::Unplanned) {
        ShutdownCause::Planned => Exit::Success,
        ShutdownCause::Unplanned => Exit::No,
        ShutdownCause::Restart => Exit::Restart,
    })
}

/// Says why it is not served. What only a person can change is final.
fn not_served(error: &ServeError, permanent: Exit) -> CommandFailure {
    let is_final = match error {
        ServeError::Settings(_) => true,
        ServeError::Listen { source, .. } => matches!(
            source.kind(),
            std::io::ErrorKind::AddrInUse | std::io::ErrorKind::PermissionDenied
        ),
        ServeError::Instance(_) | ServeError::Store(_) => false,
    };
    CommandFailure::new(error.to_string()).with_exit(if is_final {
        permanent
    } else {
        Exit::Failed
    })
}

/// Leads a person to the dashboard that runs.
async fn reuse(
    context: &Context,
    root: &Home,
    state: &DashboardState,
    caller: LinkReader,
) -> Result<Exit, CommandFailure> {
    context.console.note(&format!("the dashboard of this home runs already at {}", state.url));
    let link = new_link(root, state, Right::Operator).await?;
    let opened = show_link(context, root, &link.url, caller)?;
    if caller == LinkReader::Browser {
        // The browser has to have read the file before it goes.
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    drop(opened);
    Ok(Exit::Success)
}

fn status(context: &Context, root: &Home, json: bool) -> Result<Exit, CommandFailure> {
    let found = find_instance(&root.run_dir());
    let exit = if found.is_some() { Exit::Success } else { Exit::No };
    if json {
        let view = match found {
            Some(state) => DashboardStatusView {
                running: true,
                pid: Some(state.process.pid),
                url: Some(state.url),
                address: Some(state.address.to_string()),
                started_at: Some(state.started_at),
                insecure: state.insecure,
            },
            None => DashboardStatusView {
                running: false,
                pid: None,
                url: None,
                address: None,
                started_at: None,
                insecure: false,
            },
        };
        context.console.print_json(&view)?;
        return Ok(exit);
    }
    match found {
        Some(state) => {
            let pid = state.process.pid;
            context
                .console
                .print(&format!("the dashboard runs at {} (process {pid})", state.url))?;
            if state.insecure {
                context.console.warn("it is served without a login");
            }
        }
        None => context.console.print("no dashboard of this home runs")?,
    }
    Ok(exit)
}

async fn stop(context: &Context, root: &Home) -> Result<Exit, CommandFailure> {
    let run = root.run_dir();
    let stopping = stop_instance(&run, STOP_WITHIN);
    let stopped = context.console.while_waiting("stopping the dashboard", stopping).await;
    match stopped.map_err(|error| CommandFailure::io("stop the dashboard", &error))? {
        StopOutcome::Stopped => {
            context.console.note("the dashboard was stopped");
            Ok(Exit::Success)
        }
        StopOutcome::NotRunning => {
            context.console.note("no dashboard of this home runs");
            Ok(Exit::No)
        }
        StopOutcome::StillRunning => {
            Err(CommandFailure::new("the dashboard was asked to stop and still runs")
                .advise("to see it: vestal dashboard --status"))
        }
    }
}
