//! `vestal acp`: the agent in editors, by the Agent Client Protocol on standard input and output.

use std::time::Duration;

use clap::Args;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use vestal_acp::{AcpOptions, AcpServer, EditorEnd, Workspace};
use vestal_sandbox::TaskName;

use crate::agent;
use crate::cli::SandboxFlags;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::{self, Exit};

/// How long the end may take: the editor has gone, and waits for this process.
const END_WITHIN: Duration = Duration::from_millis(900);

const AFTER_HELP: &str = "\
For editors, which start it. The directory that is open in the editor is mounted as /workspace of a sandbox
of its own, so that the agent works on your files, and on nothing else of this machine. Conversations are those
of `vestal conversations`: an editor lists them and goes on with them. Nothing but the protocol is written to
standard output; messages go to standard error and the log. When standard input ends, or on SIGTERM, what runs
is interrupted, and the exit code is 0. docs/acp.md says more.

Examples:
  Zed, in its settings.json:
    { \"agent_servers\": { \"Vestal\": { \"command\": \"vestal\", \"args\": [\"acp\"] } } }
  JetBrains, Neovim, Emacs and others, as the command of an agent:
    vestal acp
    vestal -p work acp -b docker --task review
    vestal acp --no-mount";

/// Serve the agent to an editor, by the Agent Client Protocol over stdio.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct AcpArgs {
    /// Work in the sandbox of this task.
    #[arg(short, long, value_name = "TASK")]
    task: Option<TaskName>,

    /// Backend to use if the sandbox has to be created; an existing sandbox must be on it.
    #[arg(short, long, value_name = "BACKEND")]
    backend: Option<String>,

    /// Container image to use if the sandbox has to be created, instead of `terminal.docker_image`.
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,

    /// Do not mount the directory of the editor: the agent does not see your files.
    #[arg(long)]
    no_mount: bool,
}

pub(crate) async fn run(context: &Context, args: AcpArgs) -> Result<Exit, CommandFailure> {
    let AcpArgs { task, backend, image, no_mount } = args;
    let settings = context.settings()?;
    let mut signals = exit::listen_or_fail()?;
    let overrides = context.overrides(&SandboxFlags { backend, image, mount_cwd: false })?;
    let runtime = agent::build(context, &settings, &[]).await?;
    let engine = runtime.agent().engine().clone();
    let options = AcpOptions {
        task: task.unwrap_or_else(TaskName::default_task),
        overrides,
        workspace: if no_mount { Workspace::Unseen } else { Workspace::Mounted },
    };
    let server = AcpServer::new(runtime.clone(), options);
    let stop = CancellationToken::new();
    let serving = server.serve(tokio::io::stdin(), tokio::io::stdout(), stop.clone());
    tokio::pin!(serving);
    let end = tokio::select! {
        end = &mut serving => end,
        signal = signals.next() => {
            tracing::info!(?signal, "asked to end");
            stop.cancel();
            serving.await
        }
    };
    let closing = async {
        engine.close(END_WITHIN).await;
        runtime.close().await;
    };
    if timeout_at(Instant::now() + END_WITHIN / 4, closing).await.is_err() {
        tracing::warn!("the end of foreground commands was not waited for");
    }
    match end {
        EditorEnd::Gone => Ok(Exit::Success),
        EditorEnd::NotReading => {
            Err(CommandFailure::new("the editor does not read what it is sent").with_exit(Exit::No))
        }
    }
}
