//! `vestal serve`: the conversation, or the sandboxes, as JSON-RPC 2.0 on standard input and output.

mod sandboxes;

use std::time::Duration;

use clap::Args;
use tokio::time::{Instant, timeout_at};
use vestal_serve::{
    ClientFrames, ClientLocation, FrameLine, FrameReader, IsolationRule, ServeSettings, Server,
};

use crate::agent;
use crate::console::Sink;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;
use crate::signals;

/// How long the end may take: the front end has gone, and waits for this process.
const END_WITHIN: Duration = Duration::from_millis(900);

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

pub(crate) async fn run(context: &Context, args: &ServeArgs) -> Result<Exit, CommandFailure> {
    let ServeArgs { stdio: _, sandboxes, isolated } = args;
    if *sandboxes {
        let rule = if *isolated { IsolationRule::Required } else { IsolationRule::AsSet };
        return Box::pin(sandboxes::run(context, rule)).await;
    }
    let settings = context.settings()?;
    let mut signals = signals::listen_or_fail()?;
    let stdout = Sink::stdout().map_err(|error| CommandFailure::output(&error))?;
    let runtime = agent::build(context, &settings, &[]).await?;
    let server = Server::builder(runtime.clone(), ServeSettings::new(&settings)?)
        .cwd(std::env::current_dir().ok())
        .clients(ClientLocation::Local)
        .build()?;
    let (connection, outgoing) = server.connect();
    let mut writer = tokio::spawn(write(stdout, outgoing));
    let reader = async {
        let mut lines = FrameReader::new(tokio::io::stdin());
        loop {
            match lines.next().await {
                Ok(Some(FrameLine::Text(text))) => connection.receive(&text).await,
                Ok(Some(FrameLine::Bad(bad))) => connection.refuse(bad).await,
                Ok(None) => return,
                Err(error) => return tracing::warn!(%error, "standard input cannot be read"),
            }
        }
    };
    let end = tokio::select! {
        biased;
        signal = signals.next() => {
            tracing::info!(?signal, "asked to end");
            ServeEnd::Asked
        }
        written = &mut writer => match written {
            Ok(Some(reason)) => ServeEnd::NotRead(reason),
            Ok(None) | Err(_) => ServeEnd::Asked,
        },
        () = reader => ServeEnd::Asked,
    };
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
    match end {
        ServeEnd::Asked => Ok(Exit::Success),
        ServeEnd::NotRead(reason) => Err(CommandFailure::new(reason).with_exit(Exit::No)),
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
