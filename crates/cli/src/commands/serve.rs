//! `vestal serve`: the conversation, or the sandboxes, as JSON-RPC 2.0 on standard input and output.

use std::borrow::Cow;
use std::time::Duration;

use clap::Args;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use vestal_runtime::Terminations;
use vestal_serve::{
    ClientFrames, ClientLocation, FrameLine, FrameReader, IsolationRule, SandboxService,
    ServeSettings, Server,
};

use crate::agent;
use crate::console::Sink;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::{self, Exit};

/// How long the end may take: the front end has gone, and waits for this process.
const END_WITHIN: Duration = Duration::from_millis(900);

/// How much of it requests about sandboxes may take.
const REQUESTS_END_WITHIN: Duration = Duration::from_millis(650);

const AFTER_HELP: &str = "\
One JSON object per line: requests on standard input, answers and events on standard output, nothing
else. Messages go to standard error and the log. When standard input ends, or on SIGTERM, what runs is
interrupted, every session is closed, and the exit code is 0. docs/serve.md has the protocol; the
gateway serves the same over WebSocket, at /api/ws.

With --sandboxes the requests are about sandboxes and the board and need no model: commands, jobs, files,
snapshots. When standard input ends, foreground commands are killed, background jobs go on, and so do the
sandboxes. docs/python.md has the client for Python.

Examples:
  printf '%s\\n' '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"commands.catalog\"}' | vestal serve
  printf '%s\\n' '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sandbox.list\",\"params\":{}}' | vestal serve --sandboxes";

/// Serve the conversation, or the sandboxes, to a program, as JSON-RPC over stdio.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ServeArgs {
    /// Use standard input and output; the default, and all there is.
    #[arg(long)]
    stdio: bool,

    /// Serve sandboxes and the board in place of the conversation.
    #[arg(long)]
    sandboxes: bool,

    /// Refuse sandboxes whose commands would run on this machine without isolation.
    #[arg(long, requires = "sandboxes")]
    isolated: bool,
}

/// Why serving ended.
enum ServeEnd {
    /// Standard input ended, or a signal came.
    Asked,
    /// The front end does not read, for this reason.
    NotRead(String),
}

impl ServeEnd {
    fn into_exit(self) -> Result<Exit, CommandFailure> {
        match self {
            Self::Asked => Ok(Exit::Success),
            Self::NotRead(reason) => Err(CommandFailure::new(reason).with_exit(Exit::No)),
        }
    }
}

pub(crate) async fn run(context: &Context, args: &ServeArgs) -> Result<Exit, CommandFailure> {
    let ServeArgs { stdio: _, sandboxes, isolated } = args;
    if *sandboxes {
        let rule = if *isolated { IsolationRule::Required } else { IsolationRule::AsSet };
        return Box::pin(serve_sandboxes(context, rule)).await;
    }
    let settings = context.settings()?;
    let mut signals = exit::listen_or_fail()?;
    let stdout = Sink::stdout().map_err(|error| CommandFailure::output(&error))?;
    let runtime = agent::build(context, &settings, &[]).await?;
    let server = Server::builder(runtime.clone(), ServeSettings::new(&settings)?)
        .cwd(std::env::current_dir().ok())
        .clients(ClientLocation::Local)
        .build()?;
    let (connection, outgoing) = server.connect();
    let mut writer = tokio::spawn(write(stdout, outgoing));
    let end = exchange(&mut signals, &mut writer, async |line| match line {
        FrameLine::Text(text) => connection.receive(&text).await,
        FrameLine::Bad(bad) => connection.refuse(bad).await,
    })
    .await;
    let deadline = Instant::now() + END_WITHIN;
    let engine = runtime.agent().engine().clone();
    let closing = async {
        server.shutdown("the server is stopping").await;
        // Its last words; a reader that is gone needs none.
        if !writer.is_finished() {
            writer.await.ok();
        }
        engine.close(END_WITHIN).await;
        runtime.close().await;
    };
    if timeout_at(deadline, closing).await.is_err() {
        tracing::warn!("the end of the sessions was not waited for");
    }
    end.into_exit()
}

/// `vestal serve --sandboxes`.
async fn serve_sandboxes(context: &Context, rule: IsolationRule) -> Result<Exit, CommandFailure> {
    let settings = context.settings()?;
    let mut signals = exit::listen_or_fail()?;
    let stdout = Sink::stdout().map_err(|error| CommandFailure::output(&error))?;
    agent::begin_log(&settings)?;
    let engine = context.engine()?;
    let boards = vestal_board::settings::boards(&settings)?;
    let choice = vestal_board::keys::board_variable(context.environment()).map(Cow::into_owned);
    let server = SandboxService::new(engine.clone(), rule, boards, choice);
    let (connection, outgoing) = server.connect();
    let mut writer = tokio::spawn(write(stdout, outgoing));
    let end = exchange(&mut signals, &mut writer, async |line| match line {
        FrameLine::Text(text) => connection.receive(&text).await,
        FrameLine::Bad(bad) => connection.refuse(bad).await,
    })
    .await;
    let deadline = Instant::now() + END_WITHIN;
    if timeout(REQUESTS_END_WITHIN, server.shutdown()).await.is_err() {
        tracing::warn!("the end of requests was not waited for");
    }
    connection.close("the server is stopping");
    // Commands that were given up are killed, and sandboxes that end with this process removed.
    if !engine.close(deadline.saturating_duration_since(Instant::now())).await {
        tracing::warn!("the end of foreground commands was not waited for");
    }
    // Its last words; a reader that is gone needs none.
    if !writer.is_finished() {
        timeout_at(deadline, writer).await.ok();
    }
    end.into_exit()
}

/// Passes lines of standard input on until it ends, a signal comes, or nobody reads the answers.
async fn exchange(
    signals: &mut Terminations,
    writer: &mut JoinHandle<Option<String>>,
    mut receive: impl AsyncFnMut(FrameLine),
) -> ServeEnd {
    let reader = async {
        let mut lines = FrameReader::new(tokio::io::stdin());
        loop {
            match lines.next().await {
                Ok(Some(line)) => receive(line).await,
                Ok(None) => return,
                Err(error) => return tracing::warn!(%error, "standard input cannot be read"),
            }
        }
    };
    tokio::select! {
        biased;
        signal = signals.next() => {
            tracing::info!(?signal, "asked to end");
            ServeEnd::Asked
        }
        written = writer => match written {
            Ok(Some(reason)) => ServeEnd::NotRead(reason),
            Ok(None) | Err(_) => ServeEnd::Asked,
        },
        () = reader => ServeEnd::Asked,
    }
}

/// Writes frames until there are no more, and returns why the server ended them, or until nobody
/// reads them.
async fn write(stdout: Sink, outgoing: ClientFrames) -> Option<String> {
    while let Some(frame) = outgoing.next().await {
        let mut line = frame.into_bytes();
        line.push(b'\n');
        if let Err(error) = stdout.write(line.into()).await {
            tracing::info!(%error, "the output is closed");
            return None;
        }
    }
    outgoing.end()
}
