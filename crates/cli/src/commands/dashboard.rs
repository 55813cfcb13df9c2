//! `vestal dashboard`: the web page of the home.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clap::{Args, Subcommand};
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use vestal_api::dashboard::{DashboardLinkView, DashboardStatusView};
use vestal_api::{
    DASHBOARD_SLOT, DispatchPlanView, GatewayStatusView, HealthReportView, SchedulesRunner,
    WorkerEnd,
};
use vestal_board::boards::Slug;
use vestal_board::{Board, Run};
use vestal_config::{Environment, Home, Override, ProfileName};
use vestal_dashboard::gate::Right;
use vestal_dashboard::{
    AuthStore, Dashboard, DashboardSettings, DashboardState, GatewayChange, InstanceError,
    MIN_PASSWORD, ProgramHost, ServeError, StopOutcome, find_instance, stop_instance, store_path,
};
use vestal_gateway::ShutdownCause;
use vestal_supervisor::{READY_VARIABLE, announce_ready};

use super::{doctor, gateway, kanban};
use crate::agent;
use crate::cli::Global;
use crate::console::Console;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

/// How long a dashboard may take to end.
const STOP_WITHIN: Duration = Duration::from_secs(15);

/// How long the page that leads a browser to the link is kept.
const OPEN_WITHIN: Duration = Duration::from_mins(1);

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
        /// Whoever opens it may look and not change anything.
        #[arg(long)]
        viewer: bool,
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Set the password of the dashboard; it is asked for, or read from standard input.
    #[command(
        after_help = "Sessions that were begun with the password before end.\n\nExample:\n  vestal dashboard password < file"
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

/// Who is told of a dashboard that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkReader {
    /// A person with a browser, which is opened.
    Browser,
    /// A person, who opens the link.
    Person,
    /// Whoever started `run`: no link is made unasked.
    Script,
    /// A supervisor, which is told by a byte.
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

async fn new_link(
    root: &Home,
    state: &DashboardState,
    right: Right,
) -> Result<DashboardLinkView, CommandFailure> {
    let store = open_store(root).await?;
    let link = store.create_link(right, Timestamp::now()).await;
    store.close().await;
    let link = link.map_err(|error| CommandFailure::new(error.to_string()))?;
    Ok(DashboardLinkView {
        url: link.url(&state.url),
        right: right.as_str().to_owned(),
        expires_at: link.expires_at.to_string(),
    })
}

async fn open_store(root: &Home) -> Result<AuthStore, CommandFailure> {
    let dir = root.root();
    std::fs::create_dir_all(dir)
        .map_err(|error| CommandFailure::io(&format!("make {}", dir.display()), &error))?;
    let store = AuthStore::open(&store_path(dir)).await;
    store.map_err(|error| CommandFailure::new(error.to_string()))
}

/// Prints a link, and has a browser open it.
fn show_link(
    context: &Context,
    root: &Home,
    url: &str,
    caller: LinkReader,
) -> Result<Option<OpenPage>, CommandFailure> {
    context.console.print(url)?;
    context.console.note(
        "the link lets one browser in, once, within ten minutes; more: vestal dashboard link",
    );
    if caller != LinkReader::Browser {
        return Ok(None);
    }
    match OpenPage::open(&root.run_dir(), url) {
        Ok(page) => Ok(Some(page)),
        Err(error) => {
            context.console.note(&format!("no browser was opened: {error}"));
            Ok(None)
        }
    }
}

async fn link(
    context: &Context,
    root: &Home,
    viewer: bool,
    json: bool,
) -> Result<Exit, CommandFailure> {
    let Some(state) = find_instance(&root.run_dir()) else {
        return Err(not_running());
    };
    let right = if viewer { Right::Viewer } else { Right::Operator };
    let link = new_link(root, &state, right).await?;
    if json {
        context.console.print_json(&link)?;
    } else {
        context.console.print(&link.url)?;
        context.console.note("it lets one browser in, once, within ten minutes");
    }
    Ok(Exit::Success)
}

fn not_running() -> CommandFailure {
    CommandFailure::new("no dashboard of this home runs")
        .advise("to start one: vestal dashboard")
        .with_exit(Exit::No)
}

async fn password(context: &Context, root: &Home, remove: bool) -> Result<Exit, CommandFailure> {
    let store = open_store(root).await?;
    let failed = |error: vestal_dashboard::PasswordError| {
        CommandFailure::new(error.to_string()).with_exit(Exit::No)
    };
    let done = if remove {
        store.remove_password(Timestamp::now()).await.map_err(failed)
    } else {
        match read_password(context.console) {
            Ok(password) => store.set_password(&password, Timestamp::now()).await.map_err(failed),
            Err(failure) => Err(failure),
        }
    };
    store.close().await;
    done?;
    context.console.note(if remove {
        "the password was removed; sessions that were begun with it have ended"
    } else {
        "the password was set; sessions that were begun with another have ended"
    });
    Ok(Exit::Success)
}

/// Asks for a password twice on a terminal; elsewhere it is the first line of standard input.
fn read_password(console: Console) -> Result<String, CommandFailure> {
    if !std::io::stdin().is_terminal() {
        let mut text = String::new();
        let read = std::io::stdin().take(4096).read_to_string(&mut text);
        read.map_err(|error| CommandFailure::io("read the password", &error))?;
        return Ok(text.lines().next().unwrap_or_default().to_owned());
    }
    let nothing =
        || CommandFailure::new("no password was given; nothing was changed").with_exit(Exit::No);
    let question = format!("Password, at least {MIN_PASSWORD} characters: ");
    let first = console.ask_secret(&question).ok_or_else(nothing)?;
    let second = console.ask_secret("Once more: ").ok_or_else(nothing)?;
    if first != second {
        let message = "the two are not the same; nothing was changed";
        return Err(CommandFailure::new(message).with_exit(Exit::No));
    }
    Ok(first)
}

async fn logout(context: &Context, root: &Home) -> Result<Exit, CommandFailure> {
    let store = open_store(root).await?;
    let ended = store.end_all().await;
    store.close().await;
    let ended = ended.map_err(|error| CommandFailure::new(error.to_string()))?;
    let sessions =
        if ended == 1 { "1 session has".to_owned() } else { format!("{ended} sessions have") };
    context.console.note(&format!("{sessions} ended, and no link counts any more"));
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
            Err(CommandFailure::new("the dashboard was told to stop and still runs")
                .advise("to see it: vestal dashboard --status"))
        }
    }
}

/// Reports whether there is a screen to open a browser on: not over ssh, where it would be another
/// machine's.
fn has_browser(environment: &Environment) -> bool {
    let is_set = |name: &str| environment.non_empty(name).is_some();
    std::io::stdout().is_terminal()
        && (is_set("DISPLAY") || is_set("WAYLAND_DISPLAY"))
        && !is_set("SSH_CONNECTION")
}

/// A file that leads a browser to a link. Everybody on the machine can read the arguments of a
/// program, so the link itself is not among them.
#[derive(Debug)]
struct OpenPage {
    path: PathBuf,
}

impl OpenPage {
    fn open(run: &Path, url: &str) -> std::io::Result<Self> {
        let path = run.join("dashboard-open.html");
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&path)?;
        let page = Self { path };
        // A link is made of letters that mean nothing in a page.
        write!(file, "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url={url}\">")?;
        let browser = tokio::process::Command::new("xdg-open")
            .arg(&page.path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let path = page.path.clone();
        tokio::spawn(async move {
            let mut browser = browser;
            browser.wait().await.ok();
            tokio::time::sleep(OPEN_WITHIN).await;
            std::fs::remove_file(path).ok();
        });
        Ok(page)
    }
}

impl Drop for OpenPage {
    fn drop(&mut self) {
        // It may have been removed already.
        std::fs::remove_file(&self.path).ok();
    }
}

/// What the dashboard asks of this program.
#[derive(Debug)]
struct DashboardHost {
    console: Console,
    environment: Environment,
    set: Vec<Override>,
}

impl DashboardHost {
    fn new(context: &Context) -> Self {
        let environment = context.environment().clone();
        Self { console: context.console, environment, set: context.global().set.clone() }
    }

    fn context(&self, profile: &ProfileName) -> Context {
        let profile = Some(profile.to_string());
        let global = Global { profile, set: self.set.clone(), json: false, verbose: false };
        Context::new(self.console, self.environment.clone(), global)
    }
}

/// Returns what went wrong and what to do about it, for a page.
fn in_words(failure: &CommandFailure) -> String {
    let message = failure.message().unwrap_or("it failed").to_owned();
    let lines: Vec<String> = std::iter::once(message).chain(failure.advice().to_vec()).collect();
    lines.join("\n")
}

#[async_trait]
impl ProgramHost for DashboardHost {
    async fn gateways(&self) -> Result<GatewayStatusView, String> {
        let context = self.context(&ProfileName::default_profile());
        let found = gateway::find_gateways(&context, None).await;
        found.map_err(|failure| failure.message().unwrap_or("gateways cannot be asked").to_owned())
    }

    async fn change_gateway(
        &self,
        profile: &ProfileName,
        change: GatewayChange,
    ) -> Result<(), String> {
        let changed = gateway::change(&self.context(profile), change).await;
        changed.map_err(|failure| in_words(&failure))
    }

    async fn stop_before_removal(&self, profile: &ProfileName) -> Result<(), String> {
        let context = self.context(&ProfileName::default_profile());
        let stopped = gateway::stop_before_removal(&context, profile).await;
        stopped.map_err(|failure| in_words(&failure))
    }

    async fn schedules_runner(&self, profile: &ProfileName) -> SchedulesRunner {
        let home = self.context(profile).home().map(|home| home.dir());
        match home {
            Ok(home) => vestal_gateway::schedules_runner(&home, profile.as_str()).await,
            Err(failure) => {
                SchedulesRunner { is_running: false, pid: None, reason: Some(in_words(&failure)) }
            }
        }
    }

    async fn health(&self, profile: &ProfileName) -> Result<HealthReportView, String> {
        let context = self.context(profile);
        Ok(HealthReportView::new(self.version(), doctor::examine(&context).await))
    }

    async fn dispatch_plan(&self, board: &Slug) -> Result<DispatchPlanView, String> {
        let context = self.context(&ProfileName::default_profile());
        let planned = kanban::dispatch_plan(&context, board).await;
        planned.map_err(|failure| failure.message().unwrap_or("no plan can be made").to_owned())
    }

    async fn stop_worker(&self, board: &Board, run: &Run) -> WorkerEnd {
        let context = self.context(&ProfileName::default_profile());
        match kanban::stop_worker(&context, board, run).await {
            Ok(end) => end,
            Err(failure) => {
                // The change is made, whatever becomes of the worker.
                let error = failure.message().unwrap_or_default().to_owned();
                tracing::warn!(error, run = %run.id, "a worker was not stopped");
                WorkerEnd::Survives
            }
        }
    }

    fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}
