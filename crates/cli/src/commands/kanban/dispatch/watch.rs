//! `vestal kanban dispatch --watch`.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::sync::Notify;
use vestal_board::Time;
use vestal_board::dispatch::Policy;
use vestal_dispatcher::{Dispatcher, OpenBoards, DispatchEvent};
use vestal_sandbox::Terminations;

use super::presence::Presence;
use super::{options, retention};
use crate::commands::kanban::desk::Desk;
use crate::commands::kanban::look;
use crate::console::{Console, DIM, GREEN, RED, YELLOW, text};
use crate::error::Failure;
use crate::exit::Exit;
use crate::json;

pub(super) async fn run(desk: &Desk<'_>, policy: Policy, json: bool) -> Result<Exit, Failure> {
    let mut signals =
        Terminations::listen().map_err(|error| Failure::io("listen for signals", &error))?;
    let only = desk.is_named().then(|| desk.slug().clone());
    let _presence = Presence::show(desk, only.as_ref())?;
    let boards = OpenBoards::new(desk.boards().clone(), only);
    let printer = Printer::new(desk.console(), json);
    printer.begin(&described(desk, &policy))?;
    let telling = printer.clone();
    let tell = move |said: DispatchEvent| telling.tell(&said);
    let dispatcher = Dispatcher::new(options(desk, policy, Some(retention(desk)?), tell)?);
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
                desk.console().note("workers that were started go on; nothing else is started");
            }
            Ok(Exit::Terminated(signal))
        }
        (None, Some(failure)) => Err(failure),
        (None, None) => Ok(Exit::Success),
    }
}

/// Returns what is dispatched, with what.
fn described(desk: &Desk<'_>, policy: &Policy) -> String {
    let what =
        if desk.is_named() { format!("board {}", desk.slug()) } else { "all boards".to_owned() };
    let mut said = format!("dispatching {what} as host {}", policy.host.name);
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
    write!(said, "; {caps}").ok();
    match &policy.default_assignee {
        Some(profile) => write!(said, "; tasks of nobody go to {profile}").ok(),
        None => write!(said, "; tasks of nobody wait").ok(),
    };
    said
}

/// Prints what a dispatcher says, until nobody reads it any more.
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
        self.console.paint(DIM, &look::clock(Time::now()))
    }

    fn tell(&self, said: &DispatchEvent) {
        let printed = if self.json {
            json::line(&view(said)).and_then(|line| self.console.write(&line))
        } else {
            let style = match said {
                DispatchEvent::Started { .. } | DispatchEvent::Finished { .. } => GREEN,
                DispatchEvent::Ended { .. } | DispatchEvent::Stopped { .. } | DispatchEvent::UnknownProfile { .. } => YELLOW,
                DispatchEvent::NotStarted { .. } | DispatchEvent::Survived { .. } | DispatchEvent::Problem { .. } => RED,
                DispatchEvent::Collected { .. } | DispatchEvent::KeptTree { .. } => DIM,
            };
            let words = self.console.paint(style, &text::printable(&said.to_string()));
            self.console.print(&format!("{}  {words}", self.clock()))
        };
        if let Err(failure) = printed {
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
            self.unheard.notify_one();
        }
    }

    /// Waits until nobody reads any more.
    async fn unheard(&self) {
        self.unheard.notified().await;
    }

    fn failure(&self) -> Option<Failure> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Returns what a dispatcher says, for programs.
fn view(said: &DispatchEvent) -> Value {
    let mut view = match said {
        DispatchEvent::Started { board, task, profile, workspace } => json!({"kind": "started",
            "board": board, "task_id": task, "assignee": profile, "workspace": workspace}),
        DispatchEvent::NotStarted { board, task, error } => {
            json!({"kind": "not_started", "board": board, "task_id": task, "error": error})
        }
        DispatchEvent::Finished { board, task, outcome } => {
            json!({"kind": "finished", "board": board, "task_id": task, "outcome": outcome})
        }
        DispatchEvent::Ended { board, task, outcome, reason } => json!({"kind": "ended", "board": board,
            "task_id": task, "outcome": outcome, "reason": reason}),
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
        DispatchEvent::Problem { board, what } => json!({"kind": "trouble", "board": board, "what": what}),
    };
    view["at"] = json!(Time::now());
    view
}
