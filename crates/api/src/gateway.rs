//! Gateways of profiles as their supervisor sees them, and what became of orders to them.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vestal_config::{ConfigError, Settings};
use vestal_logs::SourcedEntry;
use vestal_supervisor::{
    ChildEnd, Desired, Holder, LastExit, Manager, OrderOutcome, OrderResult, SlotState, SlotStatus,
};

use crate::keys;
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

    /// Reports whether it runs and serves all that it was asked to.
    pub fn is_healthy(&self) -> bool {
        self.state == SlotState::Running && !self.is_degraded()
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
    pub fn state_word(&self) -> &'static str {
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
            SlotState::Stopped if self.is_missed() => Some(format!(
                "to bring it back: {}; to bring back all that is wanted: vestal supervise",
                call("start")
            )),
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

/// An address that several profiles are to serve their API at, which only one of them can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedApiAddress {
    /// The port, which is `api_server.port` of all of them.
    pub port: u64,
    /// The profiles.
    pub profiles: Vec<String>,
}

/// Returns the addresses that several profiles would serve their API at. Settings that cannot be read
/// are for their gateway to complain about.
pub fn shared_api_addresses<'a>(
    profiles: impl IntoIterator<Item = (&'a str, &'a Settings)>,
) -> Vec<SharedApiAddress> {
    let mut hosts: BTreeMap<u64, Vec<(String, &str)>> = BTreeMap::new();
    for (profile, settings) in profiles {
        if let Ok(Some((host, port))) = api_address(settings) {
            hosts.entry(port).or_default().push((host, profile));
        }
    }
    let mut shared = Vec::new();
    for (port, users) in hosts {
        let meets = |(own, profile): &&(String, &str)| {
            let mut others = users.iter().filter(|(_, other)| other != profile);
            others.any(|(host, _)| host == own || is_every(host) || is_every(own))
        };
        let meeting = users.iter().filter(meets);
        let profiles: Vec<String> = meeting.map(|(_, profile)| (*profile).to_owned()).collect();
        if !profiles.is_empty() {
            shared.push(SharedApiAddress { port, profiles });
        }
    }
    shared
}

fn api_address(settings: &Settings) -> Result<Option<(String, u64)>, ConfigError> {
    let port = settings.get(&keys::API_SERVER_PORT)?.value.get();
    if !settings.get(&keys::API_SERVER_ENABLED)?.value || port == 0 {
        return Ok(None);
    }
    let host = settings.get(&keys::API_SERVER_HOST)?.value;
    let host = match host.get() {
        None | Some("localhost") => "127.0.0.1",
        Some(host) => host,
    };
    Ok(Some((host.to_owned(), port.into())))
}

fn is_every(host: &str) -> bool {
    matches!(host, "0.0.0.0" | "::")
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

impl From<OrderOutcome> for GatewayOutcomeView {
    fn from(outcome: OrderOutcome) -> Self {
        Self { profile: outcome.slot, done: outcome.done, error: outcome.error }
    }
}

#[cfg(test)]
mod tests {
    use vestal_config::{Environment, Home};

    use super::*;

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
            reason: None,
            log: String::new(),
        }
    }

    #[test]
    fn a_gateway_that_is_not_well_is_not_called_running_or_stopped() {
        let running = view(SlotState::Running, Some(Desired::Running), Some("running"));
        assert!(running.is_healthy());
        assert_eq!((running.state_word(), running.advice()), ("running", None));
        let degraded = view(SlotState::Running, Some(Desired::Running), Some("degraded"));
        assert!(!degraded.is_healthy());
        assert_eq!(degraded.state_word(), "degraded");
        let advice = degraded.advice().unwrap();
        assert_eq!(advice, "to see why: vestal -p work gateway logs --level warn");
        // What a process said that is gone does not make its slot degraded.
        let backoff = view(SlotState::Backoff, Some(Desired::Running), Some("degraded"));
        assert_eq!(backoff.state_word(), "backoff");
        let down = view(SlotState::Stopped, Some(Desired::Running), Some("running"));
        assert_eq!(down.state_word(), "down");
        assert!(down.advice().unwrap().contains("vestal supervise"));
        let stopped = view(SlotState::Stopped, Some(Desired::Stopped), Some("stopped"));
        assert_eq!(stopped.state_word(), "stopped");
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

    #[test]
    fn profiles_that_would_serve_at_one_address_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let none = Environment::from_pairs::<String, String>([]);
        let settings = |name: &str, text: &str| {
            let home = dir.path().join(name);
            std::fs::create_dir(&home).unwrap();
            std::fs::write(home.join("config.yaml"), format!("api_server: {{{text}}}\n")).unwrap();
            let settings =
                Settings::load(&crate::schema(), Home::at(&home), none.clone(), Vec::new());
            (name.to_owned(), settings)
        };
        let all = [
            settings("a", "enabled: true"),
            settings("b", "enabled: true, host: localhost"),
            settings("off", "enabled: false"),
            settings("own", "enabled: true, port: 9000"),
            settings("any", "enabled: true, port: 0"),
            settings("here", "enabled: true, port: 9001, host: 127.0.0.2"),
            settings("there", "enabled: true, port: 9001, host: 127.0.0.3"),
            settings("all", "enabled: true, port: 9002, host: 0.0.0.0"),
            settings("one", "enabled: true, port: 9002, host: 127.0.0.3"),
        ];
        let found = shared_api_addresses(all.iter().map(|(name, own)| (name.as_str(), own)));
        let shared = |port, names: [&str; 2]| SharedApiAddress {
            port,
            profiles: names.map(str::to_owned).to_vec(),
        };
        assert_eq!(found, [shared(8642, ["a", "b"]), shared(9002, ["all", "one"])]);
    }
}
