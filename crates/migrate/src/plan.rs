//! The plan: what comes, where from, where to, and why or why not.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Serialize;
use vestal_board::boards::{NewBoard, Slug};
use vestal_board::verbs::AdoptedTask;
use vestal_board::{NewAttachment, TaskId};
use vestal_config::{EnvName, Environment, Home, ProfileName, SettingValue};
use vestal_conversations::ConversationId;
use vestal_memory::NotesTarget;
use vestal_schedules::{NewSchedule, ScheduleId, ScheduleState};

use crate::containers::ContainerCopy;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$value_doc])* $value,)+ }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// Returns the public name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$value => $word,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

words! {
    /// What kind of thing is taken over.
    ItemKind {
        /// A profile, or which one is chosen.
        Profile = "profile",
        /// A key of `config.yaml`.
        Setting = "setting",
        /// A variable of `.env`.
        Variable = "variable",
        /// `SOUL.md`.
        Persona = "persona",
        /// A note of the agent's memory.
        Note = "note",
        /// A skill.
        Skill = "skill",
        /// A conversation.
        Conversation = "conversation",
        /// A board.
        Board = "board",
        /// A task of a board.
        Task = "task",
        /// A file of a task.
        Attachment = "attachment",
        /// A schedule.
        Schedule = "schedule",
        /// A container, or the files of one.
        Container = "container",
        /// Something else.
        Other = "other",
    }
}

impl FromStr for ItemKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == text).ok_or_else(|| {
            let words: Vec<&str> = Self::ALL.iter().map(|kind| kind.as_str()).collect();
            format!("{text:?} is not a kind of thing; there are: {}", words.join(", "))
        })
    }
}

words! {
    /// What is done about something.
    Action {
        /// It is taken over.
        Take = "take",
        /// It was taken over before, has changed there and not here, and is taken over again.
        Update = "update",
        /// It is here already.
        Present = "present",
        /// Something else is here in its place, or it was changed here, and stays.
        Keep = "keep",
        /// It is not taken over.
        Leave = "leave",
        /// It cannot be read.
        Broken = "broken",
    }
}

/// What became of something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", content = "reason", rename_all = "snake_case")]
pub enum ItemOutcome {
    /// It was taken over.
    Done,
    /// It was not: why.
    Failed(String),
}

/// One thing of the other home.
#[derive(Debug, Clone, Serialize)]
pub struct PlanItem {
    /// What kind of thing it is.
    pub kind: ItemKind,
    /// The profile it belongs to, by its name there.
    pub profile: String,
    /// What it is called there. Never a secret.
    pub from: String,
    /// What it is called here; empty where it does not come.
    pub to: String,
    /// What is done about it.
    pub action: Action,
    /// Why, or what is different about it here; may be empty.
    pub reason: String,
    /// What became of it; none before it was carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ItemOutcome>,
    /// What carries it out.
    #[serde(skip)]
    pub(crate) step: Option<MigrationStep>,
}

impl PlanItem {
    /// Returns something that is only reported.
    pub(crate) fn new(
        kind: ItemKind,
        profile: &str,
        from: impl Into<String>,
        action: Action,
        reason: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            profile: profile.to_owned(),
            from: printable(&from.into()),
            to: String::new(),
            action,
            reason: printable(&reason.into()),
            outcome: None,
            step: None,
        }
    }

    pub(crate) fn to(mut self, to: impl Into<String>) -> Self {
        self.to = printable(&to.into());
        self
    }

    pub(crate) fn step(mut self, step: MigrationStep) -> Self {
        self.step = Some(step);
        self
    }

    /// Returns what the record of what was taken over calls it.
    pub(crate) fn record_key(&self) -> String {
        format!("{}/{}/{}", self.profile, self.kind, self.from)
    }

    /// Reports whether carrying out the plan does something about it.
    pub const fn is_pending(&self) -> bool {
        matches!(self.action, Action::Take | Action::Update) && self.outcome.is_none()
    }
}

/// Returns a text on one line, bounded, without what a terminal would obey.
pub(crate) fn printable(text: &str) -> String {
    const MOST: usize = 300;
    let mut clean: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MOST).collect();
    if text.chars().nth(MOST).is_some() {
        clean.push('…');
    }
    clean
}

/// What is done to take something over.
#[derive(Debug, Clone)]
pub(crate) enum MigrationStep {
    Profile { name: ProfileName, description: String },
    Choose { name: ProfileName },
    Setting { home: Home, key: String, value: SettingValue, wrote: Option<String> },
    Entry { home: Home, key: String, entry: String, value: SettingValue },
    Variable { home: Home, name: EnvName, value: SourceSecret },
    Persona { home: Home, text: String, wrote: String },
    Note { home: Home, target: NotesTarget, note: String },
    Skill { home: Home, dir: PathBuf },
    Conversation { home: Home, database: PathBuf, session: String, id: ConversationId },
    Board { slug: Slug, new: NewBoard },
    Task { slug: Slug, task: Box<AdoptedTask> },
    Attachment { slug: Slug, task: TaskId, new: NewAttachment },
    Schedule { home: Home, id: ScheduleId, new: Box<NewSchedule>, state: ScheduleState },
    Container { home: Home, environment: Environment, copy: Box<ContainerCopy> },
}

/// A text that is not shown.
#[derive(Clone)]
pub(crate) struct SourceSecret(pub(crate) String);

impl fmt::Debug for SourceSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText")
    }
}

/// What there is in the other home, and what is done about each thing.
#[derive(Debug, Clone, Serialize)]
pub struct MigrationPlan {
    /// The other home.
    pub from: PathBuf,
    /// What a person should know before it is carried out.
    pub warnings: Vec<String>,
    /// The things, in the order in which they are taken over.
    pub items: Vec<PlanItem>,
}

/// How many things of each kind there are for each action, and what became of them.
pub type ItemCounts = BTreeMap<Action, u64>;

impl MigrationPlan {
    /// Counts the things by what is done about them.
    pub fn counts(&self) -> ItemCounts {
        let mut counts = ItemCounts::new();
        for item in &self.items {
            *counts.entry(item.action).or_default() += 1;
        }
        counts
    }

    /// Returns how many things carrying it out would take over.
    pub fn pending(&self) -> usize {
        self.items.iter().filter(|item| item.is_pending()).count()
    }

    /// Returns how many things could not be taken over.
    pub fn failed(&self) -> usize {
        let failed = |item: &&PlanItem| matches!(item.outcome, Some(ItemOutcome::Failed(_)));
        self.items.iter().filter(failed).count()
    }

    /// Reports whether all that is to come could come: nothing failed, and nothing there or here could
    /// not be read.
    pub fn is_complete(&self) -> bool {
        self.failed() == 0 && !self.items.iter().any(|item| item.action == Action::Broken)
    }
}

/// A plan as programs read it: what `vestal migrate --json` prints.
#[derive(Debug, Serialize)]
pub struct MigrationView<'p> {
    /// The plan, with what became of each thing once it was carried out.
    #[serde(flatten)]
    pub plan: &'p MigrationPlan,
    /// Whether it was carried out.
    pub applied: bool,
    /// How many things there are for each action.
    pub counts: ItemCounts,
    /// How many things could not be taken over.
    pub failed: usize,
}

impl<'p> MigrationView<'p> {
    /// Returns a plan as programs read it.
    pub fn new(plan: &'p MigrationPlan, applied: bool) -> Self {
        Self { plan, applied, counts: plan.counts(), failed: plan.failed() }
    }
}
