//! Gateways of profiles as their supervisor sees them, and what became of orders to them.

use std::cmp::Ordering;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vestal_logs::SourcedEntry;
use vestal_supervisor::{
    ChildEnd, Desired, Holder, LastExit, Manager, OrderOutcome, OrderResult, SlotState, SlotStatus,
};

use crate::gateway_addresses::ForeignListenerView;
use crate::logs::LogSource;

/// The slot of the dashboard. No profile can be called so.
pub const DASHBOARD_SLOT: &str = "@dashboard";

/// What the state of a gateway says when a part of it failed.
const DEGRADED: &str = "degraded";

/// The gateway of a profile, or the dashboard, as its supervisor sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayView {
    /// The profile; [`DASHBOARD_SLOT`] for the dashboard.
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
    /// Other processes that listen where its clients look for it: they are sent the keys of clients.
    #[serde(default)]
    pub foreign_listeners: Vec<ForeignListenerView>,
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
    /// The unit of systemd that is installed for it, if nobody keeps them now.
    pub unit: Option<UnitView>,
}

/// What `gateway status` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayStatusView {
    /// Who keeps them.
    pub manager: ManagerView,
    /// The gateways that were asked about: that of `default` first, then by name.
    pub gateways: Vec<GatewayView>,
    /// The dashboard's slot.
    pub dashboard: Option<GatewayView>,
}

/// What an order to a gateway came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayOutcomeView {
    /// The profile; [`DASHBOARD_SLOT`] for the dashboard.
    pub profile: String,
    /// What was done; null if it failed.
    pub done: Option<OrderResult>,
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

/// A unit of systemd for the supervisor of a home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitView {
    /// Its name.
    pub unit: String,
    /// Its file.
    pub path: String,
    /// The command that starts it.
    pub start: String,
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
            foreign_listeners: Vec::new(),
            reason: status.reason,
            log: status.log.display().to_string(),
        }
    }

    /// Reports whether it runs and serves all that it was asked to, and nobody else does in its place.
    pub fn is_healthy(&self) -> bool {
        self.state == SlotState::Running && !self.is_degraded() && self.foreign_listeners.is_empty()
    }

    /// Reports whether it runs and a part of it failed.
    pub fn is_degraded(&self) -> bool {
        self.state == SlotState::Running && self.reported.as_deref() == Some(DEGRADED)
    }

    /// Reports whether it is down and should not be. That is so while no supervisor runs.
    fn is_missed(&self) -> bool {
        self.state == SlotState::Stopped && self.desired == Some(Desired::Running)
    }

    /// Returns the word that people read for the state.
    pub fn state_name(&self) -> &'static str {
        match self.state {
            SlotState::Stopped if self.is_missed() => "down",
            SlotState::Stopped => "stopped",
            SlotState::Starting => "starting",
            SlotState::Running if self.is_degraded() => DEGRADED,
            SlotState::Running => "running",
            SlotState::Backoff => "backoff",
            SlotState::Stopping => "stopping",
            SlotState::Failed => "failed",
        }
    }

    /// Returns what an operator can do; nothing about a gateway with which all is well.
    pub fn advice(&self) -> Option<String> {
        let call = |verb: &str| gateway_command(&self.profile, verb);
        match self.state {
            SlotState::Running if self.is_degraded() => {
                Some(format!("to see why: {}", call("logs --level warn")))
            }
            // It runs without a supervisor.
            SlotState::Running if self.reason.is_some() => Some(format!(
                "to have a supervisor keep it: {}, then {}",
                call("stop"),
                call("start")
            )),
            SlotState::Running | SlotState::Starting | SlotState::Stopping => None,
            SlotState::Stopped if self.is_missed() => {
                Some(format!("to bring it back: {}", call("start")))
            }
            SlotState::Stopped => Some(format!("to start it: {}", call("start"))),
            SlotState::Backoff => Some(format!("to see why: {}", call("logs"))),
            SlotState::Failed => {
                Some(format!("correct what the reason says, then: {}", call("start")))
            }
        }
    }
}

impl GatewayStatusView {
    /// Returns the view of what a supervisor, or the files without one, tell.
    pub fn new(
        holder: Option<&Holder>,
        slots: Vec<SlotStatus>,
        services: Vec<SlotStatus>,
        now: Timestamp,
    ) -> Self {
        let view = |status| GatewayView::new(status, now);
        let mut gateways: Vec<GatewayView> = slots.into_iter().map(view).collect();
        gateways.sort_by(|a, b| profile_order(&a.profile, &b.profile));
        let dashboard = services.into_iter().find(|service| service.name == DASHBOARD_SLOT);
        Self { manager: ManagerView::new(holder), gateways, dashboard: dashboard.map(view) }
    }

    /// Returns how to bring back all that is wanted and down; nothing if there is no such thing.
    pub fn advice(&self) -> Option<String> {
        let mut all = self.gateways.iter().chain(&self.dashboard);
        if self.manager.kind != ManagerKind::None || !all.any(GatewayView::is_missed) {
            return None;
        }
        let start = self.manager.unit.as_ref().map_or("vestal supervise", |unit| &unit.start);
        Some(format!("to bring back all that is wanted: {start}"))
    }
}

/// Orders profiles as lists show them: `default` first, then by name.
pub fn profile_order(a: &str, b: &str) -> Ordering {
    let key = |name: &str| name != "default";
    key(a).cmp(&key(b)).then_with(|| a.cmp(b))
}

/// Returns the command line of a verb about the gateway of a profile, or about the dashboard.
pub fn gateway_command(slot: &str, verb: &str) -> String {
    match slot {
        DASHBOARD_SLOT => {
            let (verb, options) = verb.split_once(' ').unwrap_or((verb, ""));
            format!("vestal gateway {verb} --dashboard {options}").trim_end().to_owned()
        }
        "default" => format!("vestal gateway {verb}"),
        name => format!("vestal -p {name} gateway {verb}"),
    }
}

impl From<LastExit> for GatewayExitView {
    fn from(exit: LastExit) -> Self {
        let (code, signal, how) = match exit.ended {
            ChildEnd::Code(code) => (Some(code), None, format!("exited with code {code}")),
            ChildEnd::Signal(signal) => (None, Some(signal), format!("ended by signal {signal}")),
            ChildEnd::NotReady => (None, None, "not ready in time".to_owned()),
            ChildEnd::NotStarted => (None, None, "not started".to_owned()),
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
            unit: None,
        }
    }

    /// Returns the line that people read.
    pub fn line(&self) -> String {
        let pid = self.pid.unwrap_or_default();
        match self.kind {
            ManagerKind::Supervisor => format!("vestal supervise (pid {pid})"),
            ManagerKind::Systemd => format!("systemd (vestal supervise, pid {pid})"),
            ManagerKind::Container => format!("vestal supervise (pid {pid}, container)"),
            ManagerKind::None => match &self.unit {
                Some(UnitView { unit, .. }) => {
                    format!("none ({unit} is installed and not running)")
                }
                None => "none".to_owned(),
            },
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

impl From<OrderOutcome> for GatewayOutcomeView {
    fn from(outcome: OrderOutcome) -> Self {
        Self { profile: outcome.slot, done: outcome.done, error: outcome.error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway_addresses::ListenerSandboxView;

    fn view(state: SlotState, desired: Option<Desired>, reported: Option<&str>) -> GatewayView {
        GatewayView {
            profile: "work".to_owned(),
            state,
            desired,
            reported: reported.map(str::to_owned),
            pid: None,
            started_at: None,
            ready_at: None,
            up_seconds: None,
            restarts: 0,
            last_exit: None,
            next_start_at: None,
            listeners: Vec::new(),
            foreign_listeners: Vec::new(),
            reason: None,
            log: String::new(),
        }
    }

    #[test]
    fn a_gateway_that_is_not_well_is_not_called_running_or_stopped() {
        let running = view(SlotState::Running, Some(Desired::Running), Some("running"));
        assert!(running.is_healthy());
        assert_eq!((running.state_name(), running.advice()), ("running", None));
        let degraded = view(SlotState::Running, Some(Desired::Running), Some("degraded"));
        assert!(!degraded.is_healthy());
        assert_eq!(degraded.state_name(), "degraded");
        let advice = degraded.advice().unwrap();
        assert_eq!(advice, "to see why: vestal -p work gateway logs --level warn");
        // The report of a process that is gone does not make its slot degraded.
        let backoff = view(SlotState::Backoff, Some(Desired::Running), Some("degraded"));
        assert_eq!(backoff.state_name(), "backoff");
        let down = view(SlotState::Stopped, Some(Desired::Running), Some("running"));
        assert_eq!(down.state_name(), "down");
        assert_eq!(down.advice().unwrap(), "to bring it back: vestal -p work gateway start");
        let stopped = view(SlotState::Stopped, Some(Desired::Stopped), Some("stopped"));
        assert_eq!(stopped.state_name(), "stopped");
    }

    #[test]
    fn a_gateway_in_whose_place_another_process_listens_is_not_well() {
        let mut gateway = view(SlotState::Running, Some(Desired::Running), Some("running"));
        let mut listener = ForeignListenerView {
            address: "[::1]:8642".to_owned(),
            pid: Some(7),
            process: Some("nc".to_owned()),
            sandbox: Some(ListenerSandboxView { profile: "work".to_owned(), task: "t".to_owned() }),
        };
        assert_eq!(
            (listener.line(), listener.advice()),
            (
                "\"nc\" (pid 7) in the sandbox of task \"t\" of profile work listens at [::1]:8642".to_owned(),
                "it is sent the keys of clients that take it for yours; vestal -p work stop -t \"t\", then make new keys".to_owned()
            )
        );
        (listener.pid, listener.process, listener.sandbox) = (None, None, None);
        assert_eq!(listener.line(), "a process of another user listens at [::1]:8642");
        gateway.foreign_listeners.push(listener);
        assert!(!gateway.is_healthy());
    }

    #[test]
    fn what_is_wanted_and_down_comes_back_by_the_service_if_one_is_installed() {
        let stopped = view(SlotState::Stopped, Some(Desired::Stopped), None);
        let down = view(SlotState::Stopped, Some(Desired::Running), None);
        let mut status =
            GatewayStatusView::new(None, Vec::new(), Vec::new(), Timestamp::UNIX_EPOCH);
        status.gateways = vec![stopped];
        assert_eq!((status.manager.line(), status.advice()), ("none".to_owned(), None));
        status.gateways.push(down);
        let advice = |status: &GatewayStatusView| status.advice().unwrap();
        assert_eq!(advice(&status), "to bring back all that is wanted: vestal supervise");
        status.manager.unit = Some(UnitView {
            unit: "vestal.service".to_owned(),
            path: "/u/vestal.service".to_owned(),
            start: "systemctl --user start vestal.service".to_owned(),
        });
        assert_eq!(status.manager.line(), "none (vestal.service is installed and not running)");
        assert_eq!(
            advice(&status),
            "to bring back all that is wanted: systemctl --user start vestal.service"
        );
    }

    #[test]
    fn a_command_names_the_profile_or_the_dashboard() {
        let calls =
            ["default", "work", DASHBOARD_SLOT].map(|slot| gateway_command(slot, "logs -f"));
        assert_eq!(
            calls,
            [
                "vestal gateway logs -f",
                "vestal -p work gateway logs -f",
                "vestal gateway logs --dashboard -f"
            ]
        );
        assert_eq!(gateway_command(DASHBOARD_SLOT, "stop"), "vestal gateway stop --dashboard");
    }
}
