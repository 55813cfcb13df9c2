//! `vestal mcp`: its verbs, and what they share.

mod add;
mod login;
mod servers;

use std::borrow::Cow;
use std::time::Duration;

use clap::{Args, Subcommand};
use tokio_util::sync::CancellationToken;
use vestal_api::closest_name;
use vestal_config::{AnyKey as _, Settings};
use vestal_mcp::{McpServer, McpServerName, keys};
use vestal_mcp_server::{
    ClientEnd, McpService, SandboxScope, ServiceOptions, TaskChoice, Toolset, serve_stdio,
};
use vestal_sandbox::TaskName;

use crate::agent;
use crate::cli::SandboxFlags;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::{self, Exit};

const AFTER_HELP: &str = "\
A server of the Model Context Protocol is a program to start, or a URL. The agent gets its tools as
mcp_SERVER_TOOL, in the toolset mcp-SERVER. The tools run on this machine, not in the sandbox. The
exit code is 1 if a server is unknown or does not answer. `serve` is the other direction: it makes the
sandboxes tools for other agents.

Examples:
  vestal mcp
  vestal mcp add files -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  vestal mcp add work --url https://mcp.example.com/mcp --header 'Authorization=Bearer ${WORK_TOKEN}'
  vestal mcp test files";

/// List, add, test and remove MCP servers; serve the sandboxes as one.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    verb: Option<McpVerb>,

    #[command(flatten)]
    list: servers::ListArgs,
}

#[derive(Debug, Subcommand)]
enum McpVerb {
    List(servers::ListArgs),
    Add(add::AddArgs),
    Remove(add::RemoveArgs),
    Test(servers::TestArgs),
    Tools(servers::ToolsArgs),
    Login(login::LoginArgs),
    Logout(login::LogoutArgs),
    Serve(ServeArgs),
}

impl McpArgs {
    /// Reports whether a server is started.
    pub(crate) fn is_server(&self) -> bool {
        matches!(self.verb, Some(McpVerb::Serve(_)))
    }
}

pub(crate) async fn run(context: &Context, args: McpArgs) -> Result<Exit, CommandFailure> {
    match args.verb {
        None => servers::list(context, &args.list),
        Some(McpVerb::List(args)) => servers::list(context, &args),
        Some(McpVerb::Add(args)) => add::run(context, args).await,
        Some(McpVerb::Remove(args)) => add::remove(context, &args),
        Some(McpVerb::Test(args)) => servers::test(context, &args).await,
        Some(McpVerb::Tools(args)) => servers::tools(context, &args).await,
        Some(McpVerb::Login(args)) => login::login(context, &args).await,
        Some(McpVerb::Logout(args)) => login::logout(context, &args),
        Some(McpVerb::Serve(args)) => serve(context, &args).await,
    }
}

/// Reads the name of a server.
fn named(name: &str) -> Result<McpServerName, CommandFailure> {
    let wrong = || CommandFailure::usage(format!("{name:?} is not a valid server name"));
    McpServerName::new(name)
        .ok_or_else(|| wrong().advise(format!("a name has {}", McpServerName::allowed())))
}

/// Returns a server that the settings name.
fn server(settings: &Settings, name: &McpServerName) -> Result<McpServer, CommandFailure> {
    let servers = settings.get(&keys::MCP_SERVERS)?.value;
    servers.get(name).cloned().ok_or_else(|| {
        let known: Vec<&str> = servers.iter().map(|(name, _)| name.as_str()).collect();
        unknown(name.as_str(), &known)
    })
}

fn unknown(name: &str, known: &[&str]) -> CommandFailure {
    let failure = CommandFailure::new(format!("unknown MCP server {name}")).with_exit(Exit::No);
    match closest_name(name, known.iter().copied()) {
        Some(meant) => failure.advise(format!("did you mean {meant}?")),
        None if known.is_empty() => failure
            .advise(format!("{} is empty; to add one: vestal mcp add", keys::MCP_SERVERS.name())),
        None => failure.advise(format!("available: {}", known.join(", "))),
    }
}

/// How long the end may take: the client has gone, and waits for this process.
const END_WITHIN: Duration = Duration::from_millis(900);

const SERVE_HELP: &str = "\
For MCP clients, which start it: Claude Code, Codex, editors. Each client works in a sandbox of its own,
named by the client and by the directory it starts the server in; the same client finds it again there.
When standard input ends, or on SIGTERM, foreground commands are killed, background jobs go on, and the
exit code is 0. The gateway serves the same over HTTP, at /mcp. docs/mcp-server.md says more.

Examples:
  claude mcp add vestal -- vestal mcp serve
  vestal mcp serve --task web --toolset sandbox,board
  vestal mcp serve --mount-cwd";

/// Serve the sandboxes, and the board if asked, to an MCP client on standard input and output.
#[derive(Debug, Args)]
#[command(after_help = SERVE_HELP)]
struct ServeArgs {
    /// Work in the sandbox of this task [default: one per client and directory].
    #[arg(short, long, value_name = "TASK")]
    task: Option<TaskName>,

    #[command(flatten)]
    wanted: SandboxFlags,

    /// Tools to offer: sandbox, board.
    #[arg(
        long = "toolset",
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "sandbox"
    )]
    toolsets: Vec<Toolset>,

    /// Let the client use every sandbox of the profile, not only its own and the copies it makes.
    #[arg(long)]
    all_sandboxes: bool,

    /// Allow sandboxes without isolation, whose commands run on this machine as you. Nobody is asked
    /// before they run.
    #[arg(long)]
    allow_local: bool,
}

async fn serve(context: &Context, args: &ServeArgs) -> Result<Exit, CommandFailure> {
    let settings = context.settings()?;
    let mut signals = exit::listen_or_fail()?;
    agent::begin_log(&settings)?;
    let engine = context.engine()?;
    if args.allow_local {
        context.console.warn(
            "--allow-local: commands of the client may run on this machine as you, without isolation and without a question",
        );
    } else {
        engine.require_confinement();
    }
    let has_board = args.toolsets.contains(&Toolset::Board);
    let boards = has_board.then(|| vestal_board::settings::boards(&settings)).transpose()?;
    let choice = vestal_board::keys::board_variable(context.environment()).map(Cow::into_owned);
    let options = ServiceOptions {
        task: match &args.task {
            Some(task) => TaskChoice::Named(task.clone()),
            // The mounted directory is part of the task's name already.
            None if args.wanted.mount_cwd => TaskChoice::PerClient { directory: None },
            None => TaskChoice::PerClient { directory: std::env::current_dir().ok() },
        },
        overrides: context.overrides(&args.wanted)?,
        scope: if args.all_sandboxes { SandboxScope::All } else { SandboxScope::Own },
        toolsets: args.toolsets.clone(),
        unconfined: args.allow_local,
    };
    let service = McpService::new(engine.clone(), options, boards.map(|boards| (boards, choice)));
    let stop = CancellationToken::new();
    let serving = serve_stdio(&service, tokio::io::stdin(), tokio::io::stdout(), stop.clone());
    tokio::pin!(serving);
    let end = tokio::select! {
        end = &mut serving => end,
        signal = signals.next() => {
            tracing::info!(?signal, "asked to end");
            stop.cancel();
            serving.await
        }
    };
    if !engine.close(END_WITHIN).await {
        tracing::warn!("the end of foreground commands was not waited for");
    }
    match end {
        ClientEnd::Gone => Ok(Exit::Success),
        ClientEnd::NoHandshake(reason) => Err(CommandFailure::new(format!(
            "the client did not begin as the protocol says: {reason}"
        ))
        .advise("start this from an MCP client; docs/mcp-server.md says how")
        .with_exit(Exit::No)),
    }
}
