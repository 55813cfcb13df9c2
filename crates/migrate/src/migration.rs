//! A migration: reads the other home, plans, and carries the plan out step by step.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use jiff::Timestamp;
use vestal_board::boards::{Make, Slug};
use vestal_board::verbs::AdoptedTask;
use vestal_board::{Authority, Board};
use vestal_config::{Environment, Home, ProfileName, Schema, Settings};
use vestal_profiles::{ProfileStart, Profiles};
use vestal_schedules::{ScheduleStore, store_path};

use crate::conversations::SessionReader;
use crate::error::MigrateError;
use crate::ledger::Ledger;
use crate::plan::{ItemKind, ItemOutcome, MigrationPlan, MigrationStep, PlanItem};
use crate::source::{COPIES, SourceHome};
use crate::{
    boards, containers, conversations, leftovers, notes, profiles, schedules, settings, skills,
    variables,
};

/// In whose name tasks are adopted.
const AUTHOR: &str = "migrate";

/// What is to be taken over, and where to.
#[derive(Clone)]
pub struct MigrationOptions {
    /// The home of hermes-agent, or of one of its profiles.
    pub from: PathBuf,
    /// The profile that it goes to. Its own profiles go to profiles of the same name.
    pub to: Home,
    /// Every setting of the program.
    pub schema: Schema,
    /// The kinds of things that are looked at.
    pub kinds: BTreeSet<ItemKind>,
    /// Where containers are looked for and the sandboxes made that they are copied to; none: they are
    /// left alone.
    pub containers: Option<Environment>,
}

/// A home there, and what becomes of it here.
pub(crate) struct MigratedHome<'p> {
    /// The name of the profile there.
    pub(crate) name: &'p str,
    pub(crate) source: SourceHome,
    /// The home of the profile here; it need not be there yet.
    pub(crate) home: Home,
    pub(crate) schema: &'p Schema,
    pub(crate) ledger: &'p Ledger,
}

impl MigratedHome<'_> {
    /// Returns the settings of the profile here, without those of this process's environment.
    pub(crate) fn settings(&self) -> Settings {
        settings_of(self.schema, &self.home)
    }
}

fn settings_of(schema: &Schema, home: &Home) -> Settings {
    Settings::load(schema, home.clone(), Environment::default(), Vec::new())
}

/// A home of hermes-agent that can be taken over.
pub struct Migration {
    options: MigrationOptions,
    source: SourceHome,
}

impl Migration {
    /// Finds the other home. Nothing is changed anywhere.
    pub fn new(options: MigrationOptions) -> Result<Self, MigrateError> {
        let source = SourceHome::find(&options.from)?;
        if options.to.root().canonicalize().is_ok_and(|own| own == source.dir) {
            return Err(MigrateError::Own { path: source.dir });
        }
        Ok(Self { options, source })
    }

    /// Returns what would be done. Nothing is changed anywhere.
    pub async fn plan(&self) -> Result<MigrationPlan, MigrateError> {
        let ledger = Ledger::read(self.options.to.root())?;
        Ok(self.plan_with(&self.source, &ledger).await)
    }

    async fn plan_with(&self, source: &SourceHome, ledger: &Ledger) -> MigrationPlan {
        let (to, schema) = (&self.options.to, &self.options.schema);
        let mut items = Vec::new();
        let mut found = profiles::plan(source, to, ledger, &mut items);
        found
            .retain(|(name, _)| self.wants(ItemKind::Profile) || to.sibling(name.clone()).exists());
        let place = |name, source: &SourceHome, home| MigratedHome {
            name,
            source: source.clone(),
            home,
            schema,
            ledger,
        };
        let mut places = vec![place("default", source, to.clone())];
        for (name, source) in &found {
            places.push(place(name.as_str(), source, to.sibling(name.clone())));
        }
        let names: Vec<ProfileName> = found.iter().map(|(name, _)| name.clone()).collect();
        for place in &places {
            let set = settings::plan(place, &mut items);
            variables::plan(place, &set, &mut items);
            notes::plan_persona(place, &mut items);
            notes::plan_notes(place, &mut items);
            skills::plan(place, &mut items);
            if self.wants(ItemKind::Conversation) {
                conversations::plan(place, &mut items).await;
            }
        }
        if self.wants(ItemKind::Board) {
            boards::plan(&places[0], &mut items).await;
        }
        for place in &places {
            schedules::plan(place, &names, &mut items).await;
            leftovers::plan(place, &mut items);
            leftovers::plan_containers(place, self.options.containers.is_some(), &mut items);
            if let Some(environment) = &self.options.containers
                && self.wants(ItemKind::Container)
            {
                containers::plan(place, environment, &mut items).await;
            }
        }
        let root = Profiles::at(schema, to.root());
        profiles::plan_choice(source, &root, &found, ledger, &mut items);
        items.retain(|item| self.wants(item.kind));
        MigrationPlan { from: source.dir.clone(), warnings: warnings(&places), items }
    }

    fn wants(&self, kind: ItemKind) -> bool {
        let kinds = &self.options.kinds;
        // Tasks need their board.
        kinds.contains(&kind) || (kind == ItemKind::Board && kinds.contains(&ItemKind::Task))
    }

    /// Plans again and carries the plan out. `seen` is told what became of each thing, and may end it:
    /// what was done stays done, and the next migration goes on from there.
    pub async fn apply(
        &self,
        mut seen: impl FnMut(&PlanItem) -> ControlFlow<()>,
    ) -> Result<MigrationPlan, MigrateError> {
        let mut ledger = Ledger::open(self.options.to.root())?;
        let source = SourceHome { scratch: self.scratch(), ..self.source.clone() };
        let mut plan = self.plan_with(&source, &ledger).await;
        let mut sessions = SessionReader::default();
        let mut at = 0;
        while at < plan.items.len() {
            let batch = batch(&plan.items, at);
            for item in &plan.items[at..at + batch] {
                if item.is_pending()
                    && let Some(step) = &item.step
                {
                    ledger.begin(&item.record_key(), step.wrote())?;
                }
            }
            let outcomes = if batch > 1 {
                self.adopt(&plan.items[at..at + batch]).await
            } else {
                vec![self.carry_out(&plan.items[at], &source, &mut sessions).await]
            };
            let mut is_ended = false;
            for (item, outcome) in plan.items[at..at + batch].iter_mut().zip(outcomes) {
                let Some(outcome) = outcome else { continue };
                if outcome == ItemOutcome::Done {
                    let wrote = item.step.as_ref().and_then(MigrationStep::wrote);
                    ledger.done(&item.record_key(), wrote)?;
                }
                item.outcome = Some(outcome);
                is_ended |= seen(item).is_break();
            }
            if is_ended {
                break;
            }
            at += batch;
        }
        ledger.sync()?;
        Ok(plan)
    }

    /// Returns where copies are made while the record is held, which what a killed process left is removed
    /// from; none where it cannot be made.
    fn scratch(&self) -> Option<PathBuf> {
        let dir = self.options.to.root().join("run");
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).ok()?;
        for entry in std::fs::read_dir(&dir).ok()?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(COPIES) {
                std::fs::remove_dir_all(entry.path()).ok();
            }
        }
        Some(dir)
    }

    async fn adopt(&self, items: &[PlanItem]) -> Vec<Option<ItemOutcome>> {
        let mut slug = Slug::default_board();
        let mut tasks: Vec<AdoptedTask> = Vec::new();
        for item in items {
            if let Some(MigrationStep::Task { slug: own, task }) = &item.step {
                slug = own.clone();
                tasks.push((**task).clone());
            }
        }
        let adopted = async {
            let board = self.board(&slug).await?;
            let by = Authority::Person(AUTHOR.to_owned());
            let adopted = board.adopt(&by, tasks).await.map_err(|error| error.to_string());
            board.close().await.map_err(|error| error.to_string())?;
            adopted.map(drop)
        };
        let outcome = outcome(adopted.await);
        items.iter().map(|_| Some(outcome.clone())).collect()
    }

    async fn carry_out(
        &self,
        item: &PlanItem,
        source: &SourceHome,
        sessions: &mut SessionReader,
    ) -> Option<ItemOutcome> {
        if !item.is_pending() {
            return None;
        }
        let step = item.step.as_ref()?;
        if matches!(step, MigrationStep::Task { .. }) {
            return self.adopt(std::slice::from_ref(item)).await.pop().flatten();
        }
        Some(outcome(self.take(step, source, sessions).await))
    }

    async fn take(
        &self,
        step: &MigrationStep,
        source: &SourceHome,
        sessions: &mut SessionReader,
    ) -> Result<(), String> {
        let schema = &self.options.schema;
        let profiles = || Profiles::at(schema, self.options.to.root());
        match step {
            MigrationStep::Profile { name, description } => {
                let made = profiles().create(name, &ProfileStart::Empty, description);
                match made {
                    Ok(_) | Err(vestal_profiles::ProfileError::Exists { .. }) => Ok(()),
                    Err(error) => Err(error.to_string()),
                }
            }
            MigrationStep::Choose { name } => {
                profiles().choose(name).map_err(|error| error.to_string())
            }
            MigrationStep::Setting { home, key, value, .. } => {
                let value = settings::written(value);
                let set = vestal_config::set(&settings_of(schema, home), key, &value);
                set.map(drop).map_err(|error| error.to_string())
            }
            MigrationStep::Entry { home, key, entry, value } => {
                let set = vestal_config::set_entry(&settings_of(schema, home), key, entry, value);
                // What it says may repeat a value, and that may be a secret.
                set.map(drop).map_err(|_| "config.yaml here does not take it".to_owned())
            }
            MigrationStep::Variable { home, name, value } => {
                let set = vestal_config::set_variable(&settings_of(schema, home), name, &value.0);
                set.map(drop).map_err(|error| error.to_string())
            }
            MigrationStep::Persona { home, text, .. } => {
                notes::write_persona(&home.dir(), text).map_err(|error| error.to_string())
            }
            MigrationStep::Note { home, target, note } => {
                notes::add_note(&settings_of(schema, home), *target, note)
            }
            MigrationStep::Skill { home, dir } => skills::install(settings_of(schema, home), dir),
            MigrationStep::Conversation { home, database, session, id } => {
                let source = SourceHome { dir: database.clone(), ..source.clone() };
                sessions.apply(&source, &home.dir(), session, id).await
            }
            MigrationStep::Board { slug, new } => {
                let boards = self.boards()?;
                if slug.is_default() {
                    let board = self.board(slug).await?;
                    return board.close().await.map_err(|error| error.to_string());
                }
                boards.create(slug, new.clone()).await.map(drop).map_err(|error| error.to_string())
            }
            MigrationStep::Attachment { slug, task, new } => {
                let board = self.board(slug).await?;
                let by = Authority::Person(AUTHOR.to_owned());
                let attached = board.attach(&by, task, new.clone()).await;
                board.close().await.map_err(|error| error.to_string())?;
                attached.map(drop).map_err(|error| error.to_string())
            }
            MigrationStep::Schedule { home, id, new, state } => {
                let store = ScheduleStore::open(store_path(&home.dir())).await;
                let store = store.map_err(|error| error.to_string())?;
                let made = store.adopt(id, (**new).clone(), *state, Timestamp::now()).await;
                made.map(drop).map_err(|error| error.to_string())
            }
            MigrationStep::Container { home, environment, copy } => {
                copy.make(schema, home, environment).await
            }
            MigrationStep::Task { .. } => Ok(()),
        }
    }

    fn boards(&self) -> Result<vestal_board::boards::Boards, String> {
        let settings = settings_of(&self.options.schema, &self.options.to);
        vestal_board::settings::boards(&settings).map_err(|error| error.to_string())
    }

    async fn board(&self, slug: &Slug) -> Result<Board, String> {
        let opened = self.boards()?.open(slug, Make::IfMissing).await;
        opened.map_err(|error| error.to_string())
    }
}

/// Returns how many things from one on are carried out at once: the tasks of a board, which refer to
/// each other.
fn batch(items: &[PlanItem], at: usize) -> usize {
    let board = |item: &PlanItem| match &item.step {
        Some(MigrationStep::Task { slug, .. }) if item.is_pending() => Some(slug.clone()),
        _ => None,
    };
    let Some(first) = items.get(at).and_then(board) else { return 1 };
    items[at..].iter().take_while(|item| board(item).as_ref() == Some(&first)).count()
}

fn warnings(places: &[MigratedHome<'_>]) -> Vec<String> {
    let running = places.iter().filter_map(|place| Some((place.name, place.source.gateway()?)));
    let in_words = |(name, pid): (&str, u32)| {
        format!(
            "the gateway of its profile {name} is running (process {pid}); stop it first, or its \
             schedules and tasks run there and here"
        )
    };
    running.map(in_words).collect()
}

fn outcome(done: Result<(), String>) -> ItemOutcome {
    match done {
        Ok(()) => ItemOutcome::Done,
        Err(reason) => ItemOutcome::Failed(crate::plan::printable(&reason)),
    }
}

impl MigrationStep {
    /// Returns the fingerprint of what is written, where it is known by that.
    fn wrote(&self) -> Option<&str> {
        match self {
            Self::Setting { wrote, .. } => wrote.as_deref(),
            Self::Persona { wrote, .. } => Some(wrote),
            _ => None,
        }
    }
}
