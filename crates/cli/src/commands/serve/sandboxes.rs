//! `vestal serve --sandboxes`: sandboxes and the board as JSON-RPC 2.0 on standard input and output.

use std::borrow::Cow;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};
use vestal_serve::{FrameLine, FrameReader, IsolationRule, SandboxService};

use super::{END_WITHIN, ServeEnd, write};
use crate::agent;
use crate::console::Sink;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;
use crate::signals;

/// How much of it requests may take.
const REQUESTS_END_WITHIN: Duration = Duration::from_millis(650);

pub(super) async fn run(context: &Context, rule: IsolationRule) -> Result<Exit, CommandFailure> {
    let settings = context.settings()?;
    let mut signals = signals::listen_or_fail()?;
    let stdout = Sink::stdout().map_err(|error| CommandFailure::output(&error))?;
    agent::begin_log(&settings)?;
    let engine = context.engine()?;
    let boards = vestal_board::settings::boards(&settings)?;
    let choice = vestal_board::keys::board_variable(context.environment()).map(Cow::into_owned);
    let server = SandboxService::new(engine.clone(), rule, boards, choice);
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
    match end {
        ServeEnd::Asked => Ok(Exit::Success),
        ServeEnd::NotRead(reason) => Err(CommandFailure::new(reason).with_exit(Exit::No)),
    }
}
