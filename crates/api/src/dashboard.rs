//! The dashboard: its settings, and what its pages and `vestal dashboard` show beyond other views.

use serde::{Deserialize, Serialize};
use vestal_config::{SettingFinding, SettingRow};

use crate::board::BoardView;
use crate::sandbox::SandboxView;
use crate::task::BoardTaskView;

/// Settings of the dashboard. There is one per home, so they are read from the default profile.
pub mod keys {
    use vestal_config::{Count, Group, LineMode, Protection, Range, Text, TextLimits};

    const LINE: TextLimits = TextLimits { max_bytes: 4096, lines: LineMode::One };

    vestal_config::keys! {
        /// Whether the supervisor keeps the dashboard running. `vestal dashboard` serves it without.
        DASHBOARD_ENABLED: bool = "dashboard.enabled" {
            default: false,
            limits: (),
            env: ["VESTAL_DASHBOARD"],
            protection: Protection::Guards,
        }

        /// Address that the dashboard listens on; empty for `127.0.0.1`. Any other than a loopback
        /// address needs a way to log in: `vestal dashboard password`, or
        /// `dashboard.proxy_user_header`.
        DASHBOARD_HOST: Text = "dashboard.host" {
            default: Text::EMPTY,
            limits: LINE,
            env: ["VESTAL_DASHBOARD_HOST"],
            protection: Protection::Guards,
        }

        /// Port that the dashboard listens on; 0 for any that is free.
        DASHBOARD_PORT: Count = "dashboard.port" {
            default: Count::new(9119),
            limits: Range { min: 0, max: 65_535 },
            env: ["VESTAL_DASHBOARD_PORT"],
            protection: Protection::Guards,
        }

        /// Address that browsers use for the dashboard if that is not the one it listens on, as
        /// behind a reverse proxy: `https://vestal.example.org`. With `https`, cookies insist on TLS.
        DASHBOARD_PUBLIC_URL: Text = "dashboard.public_url" {
            default: Text::EMPTY,
            limits: LINE,
            env: ["VESTAL_DASHBOARD_PUBLIC_URL"],
            protection: Protection::Guards,
        }

        /// Addresses or networks, separated by commas, of reverse proxies whose `X-Forwarded-For`,
        /// `-Host` and `-Proto` count. From any other peer they are ignored.
        DASHBOARD_TRUSTED_PROXIES: Text = "dashboard.trusted_proxies" {
            default: Text::EMPTY,
            limits: LINE,
            env: ["VESTAL_DASHBOARD_TRUSTED_PROXIES"],
            protection: Protection::Guards,
        }

        /// Header in which a trusted proxy names the person who has logged in there, such as
        /// `X-Remote-User`. Whoever it names is an operator. The proxy must remove the header from
        /// what clients send.
        DASHBOARD_PROXY_USER_HEADER: Text = "dashboard.proxy_user_header" {
            default: Text::EMPTY,
            limits: LINE,
            env: ["VESTAL_DASHBOARD_PROXY_USER_HEADER"],
            protection: Protection::Guards,
        }

        /// Whether everybody who can reach the dashboard may do everything, without a login. Every
        /// page has a banner then.
        DASHBOARD_INSECURE: bool = "dashboard.insecure" {
            default: false,
            limits: (),
            env: ["VESTAL_DASHBOARD_INSECURE"],
            protection: Protection::Guards,
        }
    }

    /// The settings of this owner.
    pub static GROUP: Group = Group::of(KEYS);
}

/// What `vestal dashboard --status` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DashboardStatusView {
    /// Whether it runs.
    pub running: bool,
    /// Its process.
    pub pid: Option<u32>,
    /// Where browsers find it.
    pub url: Option<String>,
    /// The address that it listens on.
    pub address: Option<String>,
    /// Since when it runs.
    pub started_at: Option<String>,
    /// Whether everybody who can reach it may do everything.
    pub insecure: bool,
}

/// What `vestal dashboard link --json` prints. It is a secret until it was used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DashboardLinkView {
    /// The address to open.
    pub url: String,
    /// What whoever opens it may do: `viewer` or `operator`.
    pub right: String,
    /// Until when it counts.
    pub expires_at: String,
}

/// Who has logged in to the dashboard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityView {
    /// Their name.
    pub name: String,
    /// `viewer` or `operator`.
    pub right: String,
    /// How they came in: `link`, `password`, `proxy` or `insecure`.
    pub method: String,
}

/// Something that could not be read, where the rest of a page could.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TroubleView {
    /// What it is about, such as `profile work`.
    pub subject: String,
    /// What is wrong.
    pub detail: String,
    /// What to do about it.
    pub advice: Option<String>,
}

impl TroubleView {
    /// Returns trouble with something.
    pub fn new(subject: impl Into<String>, detail: &dyn std::fmt::Display) -> Self {
        Self { subject: subject.into(), detail: detail.to_string(), advice: None }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}

/// What needs a person and what runs, of all profiles of a home.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NowView {
    /// Tasks that wait for a person: blocked, to be reviewed, failing.
    pub needs_you: Vec<BoardTaskView>,
    /// How many there are in all; the list is cut.
    pub needs_you_total: u64,
    /// Tasks that are worked on.
    pub running_tasks: Vec<BoardTaskView>,
    /// Sandboxes that run a job, do not answer or have drifted from the settings.
    pub sandboxes: Vec<SandboxView>,
    /// How many sandboxes there are in all.
    pub sandboxes_total: u64,
    /// How many of them run.
    pub sandboxes_running: u64,
    /// What could not be read.
    pub troubles: Vec<TroubleView>,
}

/// Sandboxes of one profile or of all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SandboxesView {
    /// The sandboxes.
    pub sandboxes: Vec<SandboxView>,
    /// What could not be read.
    pub troubles: Vec<TroubleView>,
}

/// A board with its tasks by status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoardPageView {
    /// All boards.
    pub boards: Vec<BoardView>,
    /// The one that is shown.
    pub board: String,
    /// Its columns, in the order of a task's life.
    pub columns: Vec<BoardColumnView>,
    /// What could not be read.
    pub troubles: Vec<TroubleView>,
}

/// The tasks of one status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoardColumnView {
    /// The status.
    pub status: String,
    /// The first tasks.
    pub tasks: Vec<crate::task::TaskView>,
    /// How many there are in all; the list is cut.
    pub total: u64,
}

/// The profiles of a home, for a page that lets somebody choose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HomeView {
    /// Version of the program.
    pub version: String,
    /// The profiles by name.
    pub profiles: Vec<String>,
    /// The directory.
    pub home: String,
}

/// Something of one of several profiles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfProfileView<T> {
    /// The profile.
    pub profile: String,
    /// What it has.
    #[serde(flatten)]
    pub view: T,
}

/// Conversations of several profiles, or what a search found in them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationsPageView<T> {
    /// What was found.
    pub conversations: Vec<OfProfileView<T>>,
    /// What could not be read.
    pub troubles: Vec<TroubleView>,
}

/// Settings of a profile: what `config show --json` and `config check --json` print, in one.
#[derive(Debug, Clone, Serialize)]
pub struct SettingsPageView {
    /// The profile.
    pub profile: String,
    /// The file that settings are changed in.
    pub file: String,
    /// Every key with its value; secrets are masked.
    pub rows: Vec<SettingRow>,
    /// What is wrong with them.
    pub findings: Vec<SettingFinding>,
}
