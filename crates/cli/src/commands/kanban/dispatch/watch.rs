//! `vestal kanban dispatch --watch`.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::sync::Notify;
use vestal_board::Time;
use vestal_board::dispatch::Policy;
use vestal_dispatcher::{DispatchEvent, Dispatcher, OpenBoards, WatchLock};
use vestal_runtime::Terminations;

use super::options;
use crate::commands::kanban::board_context::BoardContext;
use crate::commands::kanban::display;
use crate::commands::kanban::stats::gc_policy;
use crate::console::{Console, DIM, GREEN, RED, YELLOW, json, text};
use crate::error::Failure;
use crate::exit::Exit;

pub(super) async fn run(
    ctx: &BoardContext<'_>,
    policy: Policy,
    json: bool,
) -> Result<Exit, Failure> {
    let mut signals =
        Terminations::listen().map_err(|error| Failure::io("listen for signals", &error))?;
    let only = ctx.is_named().then(|| ctx.slug().clone());
    let _watching = WatchLock::take(ctx.boards(), only.as_ref())?;
    let boards = OpenBoards::new(ctx.boards().clone(), only);
    let printer = Printer::new(ctx.console(), json);
    printer.begin(&described(ctx, &policy))?;
    let telling = printer.clone();
    let tell = move |event: DispatchEvent| telling.tell(&event);
    let dispatcher = Dispatcher::new(options(ctx, policy, Some(gc_policy(ctx)?), tell)?);
    let mut signal = None;
    let shutdown = async {
        tokio::select! {
            came = signals.next() => signal = Some(came),
            () = printer.unheard() => {}
        }
    };
    dispatcher.watch(&boards, shutdown).await?;
    match (signal, printer.failure()) {
        (Some(signal), _) => {
            if !json {
                ctx.console().note("running workers continue; no more are started");
            }
            Ok(Exit::Terminated(signal))
        }
        (None, Some(failure)) => Err(failure),
        (None, None) => Ok(Exit::Success),
    }
}

/// Returns what is dispatched, with what.
fn described(ctx: &BoardContext<'_>, policy: &Policy) -> String {
    let what =
        if ctx.is_named() { format!("board {}", ctx.slug()) } else { "all boards".to_owned() };
    let mut text = format!("dispatching {what} as host {}", policy.host.name);
    let caps = [
        ("in all", policy.caps.global),
        ("on this host", policy.caps.host),
        ("per board", policy.caps.board),
        ("per profile", policy.caps.profile),
        ("per tenant", policy.caps.tenant),
    ];
    let caps: Vec<String> =
        caps.iter().filter_map(|(what, cap)| cap.map(|cap| format!("{cap} {what}"))).collect();
    let caps =
        if caps.is_empty() { "no caps".to_owned() } else { format!("at most {}", caps.join(", ")) };
    // Writing to a string cannot fail.
    write!(text, "; {caps}").ok();
    match &policy.default_assignee {
        Some(profile) => write!(text, "; unassigned tasks go to {profile}").ok(),
        None => write!(text, "; unassigned tasks wait").ok(),
    };
    text
}

/// Prints the events of a dispatcher until the reader is gone.
#[derive(Clone)]
struct Printer {
    console: Console,
    json: bool,
    unheard: Arc<Notify>,
    failure: Arc<Mutex<Option<Failure>>>,
}

impl Printer {
    fn new(console: Console, json: bool) -> Self {
        Self { console, json, unheard: Arc::default(), failure: Arc::default() }
    }

    fn begin(&self, what: &str) -> Result<(), Failure> {
        if self.json {
            let now = Time::now();
            return self
                .console
                .write(&json::line(&json!({"at": now, "kind": "begun", "what": what}))?);
        }
        self.console.print(&format!("{}  {what}", self.clock()))
    }

    fn clock(&self) -> String {
        self.console.paint(DIM, &display::clock(Time::now()))
    }

    fn tell(&self, event: &DispatchEvent) {
        let printed = if self.json {
            json::line(&view(event)).and_then(|line| self.console.write(&line))
        } else {
            let style = match event {
                DispatchEvent::Started { .. } | DispatchEvent::Finished { .. } => GREEN,
                DispatchEvent::Ended { .. }
                | DispatchEvent::Stopped { .. }
                | DispatchEvent::UnknownProfile { .. } => YELLOW,
                DispatchEvent::NotStarted { .. }
                | DispatchEvent::Survived { .. }
                | DispatchEvent::Problem { .. } => RED,
                DispatchEvent::Collected { .. } | DispatchEvent::KeptTree { .. } => DIM,
            };
            let words = self.console.paint(style, &text::printable(&event.to_string()));
            self.console.print(&format!("{}  {words}", self.clock()))
        };
        if let Err(failure) = printed {
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
            self.unheard.notify_one();
        }
    }

    /// Waits until the reader is gone.
    async fn unheard(&self) {
        self.unheard.notified().await;
    }

    fn failure(&self) -> Option<Failure> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Returns an event of a dispatcher for `--json`.
fn view(event: &DispatchEvent) -> Value {
    let mut view = match event {
        DispatchEvent::Started { board, task, profile, workspace } => json!({"kind": "started",
            "board": board, "task_id": task, "assignee": profile, "workspace": workspace}),
        DispatchEvent::NotStarted { board, task, error } => {
            json!({"kind": "not_started", "board": board, "task_id": task, "error": error})
        }
        DispatchEvent::Finished { board, task, outcome } => {
            json!({"kind": "finished", "board": board, "task_id": task, "outcome": outcome})
        }
        DispatchEvent::Ended { board, task, outcome, reason } => {
            json!({"kind": "ended", "board": board,
            "task_id": task, "outcome": outcome, "reason": reason})
        }
        DispatchEvent::Stopped { board, task } => {
            json!({"kind": "stopped", "board": board, "task_id": task})
        }
        DispatchEvent::Survived { board, task, pids } => {
            json!({"kind": "survived", "board": board, "task_id": task, "pids": pids})
        }
        DispatchEvent::UnknownProfile { name } => json!({"kind": "unknown_profile", "name": name}),
        DispatchEvent::Collected { board, what } => {
            json!({"kind": "collected", "board": board, "what": what})
        }
        DispatchEvent::KeptTree { path, reason } => {
            json!({"kind": "kept_tree", "path": path, "reason": reason})
        }
        DispatchEvent::Problem { board, what } => {
            json!({"kind": "trouble", "board": board, "what": what})
        }
    };
    view["at"] = json!(Time::now());
    view
}
