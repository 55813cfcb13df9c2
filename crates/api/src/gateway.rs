//! Gateways of profiles as their supervisor sees them, and what became of orders to them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vestal_logs::SourcedEntry;
use vestal_supervisor::{
    Desired, Done, Ended, Holder, LastExit, Manager, Outcome, SlotState, SlotStatus,
};

use crate::logs::LogSource;

/// The gateway of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayView {
    /// The profile.
    pub profile: String,
    /// What its supervisor does with it.
    pub state: SlotState,
    /// What an operator wants; null if nobody ever said.
    pub desired: Option<Desired>,
    /// What the gateway said last about itself.
    pub reported: Option<String>,
    /// Its process.
    pub pid: Option<u32>,
    /// When its process was started.
    pub started_at: Option<String>,
    /// When its process announced that it is ready.
    pub ready_at: Option<String>,
    /// Seconds since its process was started.
    pub up_seconds: Option<u64>,
    /// How often it was started again after it ended by itself, since its supervisor began.
    pub restarts: u64,
    /// How its last process ended.
    pub last_exit: Option<GatewayExitView>,
    /// When it is started again.
    pub next_start_at: Option<String>,
    /// Its parts, in its own words.
    pub listeners: Vec<GatewayListenerView>,
    /// Why it is not running although it should.
    pub reason: Option<String>,
    /// The directory of its log.
    pub log: String,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayExitView {
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// How, in words.
    pub how: String,
    /// When.
    pub at: String,
}

/// A part of a gateway, such as its API server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayListenerView {
    /// The part.
    pub name: String,
    /// Its state.
    pub state: String,
    /// Where it listens.
    pub address: Option<String>,
    /// What is wrong with it.
    pub error: Option<String>,
}

/// Who keeps gateways running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ManagerKind {
    /// `vestal supervise`.
    Supervisor,
    /// `vestal supervise` as a service of systemd.
    Systemd,
    /// `vestal supervise` as the first process of a container.
    Container,
    /// Nobody.
    None,
}

/// The manager of gateways.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagerView {
    /// Who it is.
    pub kind: ManagerKind,
    /// Its process.
    pub pid: Option<u32>,
    /// The machine or container it runs on.
    pub host: Option<String>,
    /// Since when it runs.
    pub since: Option<String>,
}

/// What `gateway status` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayStatusView {
    /// Who keeps them.
    pub manager: ManagerView,
    /// The gateways that were asked about.
    pub gateways: Vec<GatewayView>,
}

/// What an order to a gateway came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayOutcomeView {
    /// The profile.
    pub profile: String,
    /// What was done; null if it failed.
    pub done: Option<Done>,
    /// Why it failed.
    pub error: Option<String>,
}

/// An entry of the logs of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayLogLineView {
    /// The profile; null for what the supervisor says about itself.
    pub profile: Option<String>,
    /// When it was written.
    pub at: Option<String>,
    /// All of it but the time, as it stands in the log.
    pub line: String,
    /// The log that it was read from.
    pub source: String,
    /// `trace`, `debug`, `info`, `warn` or `error`; null if it does not say.
    pub level: Option<String>,
    /// The conversation it belongs to.
    pub session: Option<String>,
    /// The module that reports it; null for what was printed in another shape.
    pub target: Option<String>,
    /// What it says, of one line or several.
    pub message: String,
}

/// A unit of systemd that was written or removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitView {
    /// Its name.
    pub unit: String,
    /// Its file.
    pub path: String,
}

impl GatewayView {
    /// Returns the view of a slot at a time.
    pub fn new(status: SlotStatus, now: Timestamp) -> Self {
        let since = status.started_at.as_deref().and_then(|at| at.parse::<Timestamp>().ok());
        let up = since.and_then(|since| u64::try_from(now.duration_since(since).as_secs()).ok());
        let listener = |(name, part): (String, vestal_supervisor::PartState)| GatewayListenerView {
            name,
            state: part.state,
            address: part.address,
            error: part.error_message,
        };
        Self {
            profile: status.name,
            state: status.state,
            desired: status.desired,
            reported: status.actual,
            pid: status.pid,
            started_at: status.started_at,
            ready_at: status.ready_at,
            up_seconds: up,
            restarts: status.restarts,
            last_exit: status.last_exit.map(GatewayExitView::from),
            next_start_at: status.next_start_at,
            listeners: status.parts.into_iter().map(listener).collect(),
            reason: status.reason,
            log: status.log.display().to_string(),
        }
    }

    /// Returns the word that people read for the state.
    pub fn state_word(&self) -> &'static str {
        match self.state {
            SlotState::Stopped => "stopped",
            SlotState::Starting => "starting",
            SlotState::Running => "running",
            SlotState::Backoff => "backoff",
            SlotState::Stopping => "stopping",
            SlotState::Failed => "failed",
        }
    }

    /// Returns what an operator can do about a gateway that does not run; nothing for one that does.
    pub fn advice(&self) -> Option<String> {
        let option = match self.profile.as_str() {
            "default" => String::new(),
            name => format!("-p {name} "),
        };
        match self.state {
            SlotState::Running | SlotState::Starting | SlotState::Stopping => None,
            SlotState::Stopped => Some(format!("to start it: vestal {option}gateway start")),
            SlotState::Backoff => Some(format!("to see why: vestal {option}gateway logs")),
            SlotState::Failed => {
                Some(format!("correct what the reason says, then: vestal {option}gateway start"))
            }
        }
    }
}

impl From<LastExit> for GatewayExitView {
    fn from(exit: LastExit) -> Self {
        let (code, signal, how) = match exit.ended {
            Ended::Code(code) => (Some(code), None, format!("exited with code {code}")),
            Ended::Signal(signal) => (None, Some(signal), format!("ended by signal {signal}")),
            Ended::NotReady => (None, None, "not ready in time".to_owned()),
            Ended::NotStarted => (None, None, "not started".to_owned()),
        };
        Self { code, signal, how, at: exit.at }
    }
}

impl ManagerView {
    /// Returns the view of a supervisor.
    pub fn new(holder: Option<&Holder>) -> Self {
        let kind = match holder.map(|holder| holder.manager) {
            Some(Manager::None) => ManagerKind::Supervisor,
            Some(Manager::Systemd) => ManagerKind::Systemd,
            Some(Manager::Container) => ManagerKind::Container,
            Some(Manager::Command) | None => ManagerKind::None,
        };
        let holder = holder.filter(|_| kind != ManagerKind::None);
        Self {
            kind,
            pid: holder.map(|holder| holder.process.pid),
            host: holder.map(|holder| holder.host.clone()),
            since: holder.map(|holder| holder.since.clone()),
        }
    }

    /// Returns the line that people read.
    pub fn line(&self) -> String {
        let pid = self.pid.unwrap_or_default();
        match self.kind {
            ManagerKind::Supervisor => format!("vestal supervise (pid {pid})"),
            ManagerKind::Systemd => format!("systemd (vestal supervise, pid {pid})"),
            ManagerKind::Container => format!("vestal supervise (pid {pid}, container)"),
            ManagerKind::None => "none".to_owned(),
        }
    }
}

impl From<SourcedEntry> for GatewayLogLineView {
    fn from(found: SourcedEntry) -> Self {
        let SourcedEntry { source, owner, entry } = found;
        // The log of all boots names the profile in each line.
        let named = || {
            let rest = entry.message.strip_prefix("profile=")?;
            rest.split(' ').next().map(str::to_owned)
        };
        Self {
            profile: owner
                .or_else(|| if source == LogSource::Boot.word() { named() } else { None }),
            at: entry.at.map(vestal_logs::stamp),
            line: entry.text(),
            source: source.to_owned(),
            level: entry.level.map(|level| level.word().to_lowercase()),
            session: entry.session,
            target: entry.target,
            message: entry.message,
        }
    }
}

impl From<Outcome> for GatewayOutcomeView {
    fn from(outcome: Outcome) -> Self {
        Self { profile: outcome.slot, done: outcome.done, error: outcome.error }
    }
}
