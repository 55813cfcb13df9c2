//! `vestal mcp serve`: the sandboxes as an MCP server on standard input and output.

use std::borrow::Cow;
use std::time::Duration;

use clap::Args;
use tokio_util::sync::CancellationToken;
use vestal_mcp_server::{
    ClientEnd, McpService, SandboxScope, ServiceOptions, TaskChoice, Toolset, serve_stdio,
};
use vestal_sandbox::TaskName;

use crate::agent;
use crate::cli::SandboxFlags;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;
use crate::signals;

/// How long the end may take: the client has gone, and waits for this process.
const END_WITHIN: Duration = Duration::from_millis(900);

const AFTER_HELP: &str = "\
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
#[command(after_help = AFTER_HELP)]
pub(super) struct ServeArgs {
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

pub(super) async fn run(context: &Context, args: &ServeArgs) -> Result<Exit, CommandFailure> {
    let settings = context.settings()?;
    let mut signals = signals::listen_or_fail()?;
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
