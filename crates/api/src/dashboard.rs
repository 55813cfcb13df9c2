//! The dashboard: its settings, and what its pages and `vestal dashboard` show beyond other views.

pub mod keys;

use serde::{Deserialize, Serialize};
use vestal_config::{ConfigText, Field, SettingFinding};
use vestal_sandbox::SandboxSummary;

use crate::agent_run::AgentRunQuestion;
use crate::board::BoardView;
use crate::extensions::NotesView;
use crate::sandbox::SandboxView;
use crate::schedule::{ScheduleRunView, ScheduleView, SchedulesRunner};
use crate::task::BoardTaskView;

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
    /// What the person who opens it may do: `viewer` or `operator`.
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
    /// How they came in: `link`, `password`, `oidc`, `proxy` or `insecure`.
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
    /// The disk that has the home.
    pub disk: Option<DiskView>,
    /// What could not be read.
    pub troubles: Vec<TroubleView>,
}

/// Whose turn asks a question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskingTurn {
    /// That of a chat in the dashboard.
    #[default]
    Chat,
    /// That of a run of the profile's gateway.
    GatewayRun,
    /// That of a session over WebSocket of the profile's gateway.
    GatewaySession,
}

/// An answer to a question of a turn. Nothing is approved for longer than its conversation: what lasts is a
/// matter of its page, or of its terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionAnswer {
    /// It may be done this once.
    Once,
    /// It may be done whenever it comes up in the conversation.
    Session,
    /// It may not be done.
    Deny,
    /// The answer to a question of the model; nothing: there is none.
    Words(Option<String>),
}

/// A question of a turn that runs and waits for an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingQuestionView {
    /// The profile.
    pub profile: String,
    /// Whose turn it is.
    #[serde(default)]
    pub asked_by: AskingTurn,
    /// The live session, or the run.
    pub session: String,
    /// Its conversation.
    pub conversation: Option<String>,
    /// The title of that.
    pub title: Option<String>,
    /// What is asked.
    #[serde(flatten)]
    pub question: AgentRunQuestion,
}

/// The questions of all turns that wait for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionsView {
    /// The questions.
    pub questions: Vec<WaitingQuestionView>,
    /// Gateways that could not be asked.
    pub troubles: Vec<TroubleView>,
}

/// How full a disk is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskView {
    /// A directory on it.
    pub path: String,
    /// What is free for the user.
    pub free_bytes: u64,
    /// How large it is.
    pub total_bytes: u64,
    /// Whether there is so little left that work may fail.
    pub low: bool,
}

impl DiskView {
    /// Less than this is little.
    const LOW_BYTES: u64 = 1 << 30;

    /// Returns the view of a disk. Little is less than 1 GiB, on a small disk less than a twentieth.
    pub fn new(path: String, free_bytes: u64, total_bytes: u64) -> Self {
        let low = free_bytes < Self::LOW_BYTES.min(total_bytes / 20).max(1);
        Self { path, free_bytes, total_bytes, low }
    }
}

/// Something that needs a person, as it comes up: `GET /api/notices`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoticeView {
    /// The same for the same thing, also after it was reported.
    pub id: String,
    /// What it is about, in a line.
    pub title: String,
    /// What is asked or wrong.
    pub detail: String,
    /// The page that shows it.
    pub page: String,
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
    /// Profiles and others that its tasks are assigned to.
    pub assignees: Vec<String>,
    /// What could not be read.
    pub troubles: Vec<TroubleView>,
}

/// The tasks of one status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoardColumnView {
    /// The status.
    pub status: String,
    /// The first tasks.
    pub tasks: Vec<crate::board::BoardTileView>,
    /// How many there are in all; the list is cut.
    pub total: u64,
    /// Where a person can move a task of it.
    pub moves: Vec<crate::board::BoardMoveView>,
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
    /// Whether there are more than these.
    pub more: bool,
    /// What could not be read.
    pub troubles: Vec<TroubleView>,
}

/// Settings of a profile: what `config show --json` and `config check --json` print, and what a form needs
/// besides.
#[derive(Debug, Clone, Serialize)]
pub struct SettingsPageView {
    /// The profile.
    pub profile: String,
    /// The file that settings are changed in.
    pub file: String,
    /// Every key with its value; secrets are masked.
    pub rows: Vec<Field>,
    /// What is wrong with them.
    pub findings: Vec<SettingFinding>,
}

/// What changing a setting did.
#[derive(Debug, Clone, Serialize)]
pub struct SettingChangedView {
    /// The key.
    pub key: String,
    /// Whether the file was changed.
    pub changed: bool,
    /// What comes before the file, so that the change has no effect.
    pub hidden_by: Option<String>,
    /// The key as it is now.
    pub field: Option<Field>,
}

/// `config.yaml` as a text, with `<secret 1>` in place of each secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigTextView {
    /// The file.
    pub path: String,
    /// The text.
    pub text: String,
    /// How many secrets are hidden.
    pub hidden: usize,
    /// Which state of the file it is; to be sent back with a change.
    pub revision: String,
}

impl From<ConfigText> for ConfigTextView {
    fn from(text: ConfigText) -> Self {
        let ConfigText { path, text, hidden, revision } = text;
        Self { path: path.to_string_lossy().into_owned(), text, hidden, revision }
    }
}

/// What a text means for the settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TextCheckedView {
    /// Whether the file differs from it, or did.
    pub changed: bool,
    /// What is wrong with the settings then, or worth knowing.
    pub findings: Vec<SettingFinding>,
    /// The file after it was written; null where it was only looked at.
    pub now: Option<ConfigTextView>,
}

/// Schedules of one profile or of all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SchedulesPageView {
    /// The schedules.
    pub schedules: Vec<OfProfileView<ScheduleView>>,
    /// Who runs them, for each profile that has some.
    pub runners: Vec<OfProfileView<SchedulesRunner>>,
    /// What could not be read.
    pub troubles: Vec<TroubleView>,
}

/// A schedule with its last runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScheduleDetailsView {
    /// The schedule.
    pub schedule: ScheduleView,
    /// Its runs, the last first.
    pub runs: Vec<ScheduleRunView>,
    /// Who runs it.
    pub runner: SchedulesRunner,
}

/// What goes when a profile is renamed or deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfilePlanView {
    /// The profile.
    pub profile: String,
    /// Its directory.
    pub path: String,
    /// Its sandboxes that have an instance.
    pub sandboxes: Vec<ProfileSandboxView>,
}

/// A sandbox whose instance goes with its profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileSandboxView {
    /// Its task.
    pub task: String,
    /// Its backend.
    pub backend: String,
    /// Jobs that run in it.
    pub jobs_running: u32,
    /// Whether what is installed in it goes, too.
    pub has_system: bool,
}

impl From<&SandboxSummary> for ProfileSandboxView {
    fn from(own: &SandboxSummary) -> Self {
        Self {
            task: own.task.clone(),
            backend: own.backend.clone(),
            jobs_running: own.jobs_running,
            has_system: own.description.image.is_some() || own.description.tier.is_some(),
        }
    }
}

/// What switching a skill on or off did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillSwitchedView {
    /// The skill.
    pub name: String,
    /// Whether it was not so before.
    pub changed: bool,
    /// Why that has no effect, if something overrides the setting.
    pub warning: Option<String>,
}

/// Notes with the text of their file, which is what a person edits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotesPageView {
    /// The notes.
    #[serde(flatten)]
    pub notes: NotesView,
    /// The text.
    pub text: String,
    /// Whether something that looked like a secret was just left out of it.
    pub has_secret: bool,
}

/// What choosing a model did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelChosenView {
    /// What comes before the file, so that the choice has no effect.
    pub hidden_by: Option<String>,
    /// What is wrong with the choice, as far as that is known without asking anybody.
    pub problem: Option<String>,
    /// What to do about it.
    pub advice: Vec<String>,
}
