//! The home behind the pages: engines, boards and conversations of its profiles, opened when they are
//! first asked for and kept.
//!
//! They are kept because closing the last connection of a database writes to it, which would look
//! like news to every page.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tokio::sync::Mutex;
use vestal_api::dashboard::{AskingTurn, QuestionAnswer, WaitingQuestionView};
use vestal_api::{
    DispatchPlanView, GatewayStatusView, HealthReportView, SchedulesRunner, WorkerEnd,
};
use vestal_board::boards::{Boards, BoardsError, ListedBoard, Slug};
use vestal_board::{Board, Run, TaskId};
use vestal_config::{Environment, Home, ProfileName, Settings};
use vestal_conversations::ConversationStore;
use vestal_dispatcher::TaskDiff;
use vestal_operations::WatchedOperations;
use vestal_sandbox::{CLOSE_WITHIN, Engine, SandboxSummary};
use vestal_schedules::ScheduleStore as Schedules;

use crate::error::PageError;
use crate::shared_work::SharedWork;

/// What the program around the dashboard knows and no library does.
#[async_trait]
pub trait ProgramHost: Send + Sync + fmt::Debug {
    /// Returns the gateways of all profiles and who keeps them.
    async fn gateways(&self) -> Result<GatewayStatusView, String>;

    /// Starts, stops or restarts the gateway of a profile, as `vestal gateway` does.
    async fn change_gateway(
        &self,
        profile: &ProfileName,
        change: GatewayChange,
    ) -> Result<(), String>;

    /// Returns the questions of turns of a profile's gateway that wait for a person.
    async fn gateway_questions(
        &self,
        profile: &ProfileName,
    ) -> Result<Vec<WaitingQuestionView>, String>;

    /// Answers a question of a turn of a profile's gateway.
    async fn answer_gateway_question(
        &self,
        profile: &ProfileName,
        question: &QuestionAddress,
        answer: QuestionAnswer,
    ) -> Result<(), String>;

    /// Stops the gateway of a profile that is about to be deleted.
    async fn stop_before_removal(&self, profile: &ProfileName) -> Result<(), String>;

    /// Returns who runs the schedules of a profile.
    async fn schedules_runner(&self, profile: &ProfileName) -> SchedulesRunner;

    /// Examines a profile, as `vestal doctor` does.
    async fn health(&self, profile: &ProfileName) -> Result<HealthReportView, String>;

    /// Says what a dispatcher of this host would do with a board now.
    async fn dispatch_plan(&self, board: &Slug) -> Result<DispatchPlanView, String>;

    /// Returns what a task has made in the scratch directory of its sandbox, or says why that cannot be
    /// looked at. Nothing is started for it.
    async fn scratch_diff(&self, board: &Board, task: &TaskId) -> Result<TaskDiff, String>;

    /// Stops the worker of a run that has ended, if it is on this host.
    async fn stop_worker(&self, board: &Board, run: &Run) -> WorkerEnd;

    /// Returns the version of the program.
    fn version(&self) -> &'static str;
}

/// Which question is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionAddress {
    /// Whose turn asks.
    pub asked_by: AskingTurn,
    /// The live session, or the run.
    pub session: String,
    /// The question in it.
    pub question: String,
}

/// What is to become of a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatewayChange {
    /// It runs, now and after a reboot.
    Start,
    /// It is stopped, and stays so.
    Stop,
    /// It is stopped and started.
    Restart,
}

/// What a file was when it was last read.
type FileTimestamp = Option<(SystemTime, u64)>;

/// An engine, and the settings that it was opened with.
struct OpenEngine {
    stamps: [FileTimestamp; 2],
    engine: Engine,
    /// Its sandboxes, listed once for all pages that ask at the same time.
    listing: Arc<SharedWork<Vec<SandboxSummary>>>,
}

/// A board, and the file that it was opened from.
type OpenBoard = ((u64, u64), Board);

/// The home. Everything in it is opened once.
pub(crate) struct Data {
    root: Home,
    environment: Environment,
    engines: Mutex<HashMap<ProfileName, OpenEngine>>,
    boards: Mutex<HashMap<String, OpenBoard>>,
    stores: Mutex<HashMap<PathBuf, ConversationStore>>,
    schedules: Mutex<HashMap<PathBuf, Schedules>>,
    operations: std::sync::Mutex<HashMap<ProfileName, Arc<WatchedOperations>>>,
}

impl Data {
    pub(crate) fn new(root: Home, environment: Environment) -> Self {
        let (engines, boards, stores, schedules, operations) = Default::default();
        Self { root, environment, engines, boards, stores, schedules, operations }
    }

    /// Returns the home of the default profile.
    pub(crate) fn root(&self) -> &Home {
        &self.root
    }

    /// Returns the environment that programs are run with.
    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    pub(crate) fn profiles(&self) -> Vec<ProfileName> {
        self.root.profiles()
    }

    /// Finds a profile that exists.
    pub(crate) fn profile(&self, name: &str) -> Result<Home, PageError> {
        let profile =
            ProfileName::new(name).map_err(|error| PageError::invalid(error.to_string()))?;
        let home = self.root.sibling(profile);
        if !home.profile().is_default() && !home.exists() {
            return Err(PageError::not_found(format!("there is no profile {name}"))
                .advise(format!("to create it: vestal profile create {name}")));
        }
        Ok(home)
    }

    /// Finds the profiles that a query names: one, or all.
    pub(crate) fn profiles_of(&self, query: Option<&str>) -> Result<Vec<ProfileName>, PageError> {
        match query.filter(|name| !name.is_empty()) {
            Some(name) => Ok(vec![self.profile(name)?.profile().clone()]),
            None => Ok(self.profiles()),
        }
    }

    pub(crate) fn settings(&self, profile: &ProfileName) -> Settings {
        let home = self.root.sibling(profile.clone());
        Settings::load(&vestal_api::schema(), home, self.environment.clone(), Vec::new())
    }

    /// Returns the engine of a profile, with the settings of now.
    pub(crate) async fn engine(&self, profile: &ProfileName) -> Result<Engine, PageError> {
        Ok(self.open_engine(profile).await?.0)
    }

    /// Lists the sandboxes of a profile.
    pub(crate) async fn sandboxes(
        &self,
        profile: &ProfileName,
    ) -> Result<Arc<Vec<SandboxSummary>>, PageError> {
        let (engine, listing) = self.open_engine(profile).await?;
        Ok(listing.done(async || engine.list().await).await?)
    }

    async fn open_engine(
        &self,
        profile: &ProfileName,
    ) -> Result<(Engine, Arc<SharedWork<Vec<SandboxSummary>>>), PageError> {
        let home = self.root.sibling(profile.clone());
        let stamps = [stamp(&home.config_file()), stamp(&home.env_file())];
        let mut engines = self.engines.lock().await;
        if let Some(open) = engines.get(profile)
            && open.stamps == stamps
        {
            return Ok((open.engine.clone(), Arc::clone(&open.listing)));
        }
        let engine = Engine::open(self.settings(profile))?;
        vestal_skills::from_settings(engine.settings()).forward(&engine);
        let listing = Arc::default();
        let open = OpenEngine { stamps, engine: engine.clone(), listing: Arc::clone(&listing) };
        // Holders of the previous engine keep using it; it ends with the last of them.
        engines.insert(profile.clone(), open);
        Ok((engine, listing))
    }

    pub(crate) fn boards(&self) -> Result<Boards, PageError> {
        let settings = self.settings(self.root.profile());
        vestal_board::settings::boards(&settings)
            .map_err(|error| PageError::unavailable(error.to_string()))
    }

    /// Lists the boards that are not archived, the one that is always there first, as
    /// [`Boards::list`] does; but each is opened once and not at every look.
    pub(crate) async fn list_boards(&self, boards: &Boards) -> Result<Vec<ListedBoard>, PageError> {
        let default = Slug::default_board();
        let others = boards.names()?.into_iter().filter(|slug| *slug != default);
        let mut listed = Vec::new();
        for slug in std::iter::once(default.clone()).chain(others) {
            let opened = match self.open_board(boards, &slug).await {
                Err(vestal_board::Error::Boards(BoardsError::Archived { .. })) => continue,
                opened => opened,
            };
            let found = Boards::describe_open(&slug, opened).await;
            if !found.info.archived {
                listed.push(found);
            }
        }
        Ok(listed)
    }

    /// Opens a board. Nothing where the one that is always there was never written to.
    pub(crate) async fn board(
        &self,
        boards: &Boards,
        slug: &Slug,
    ) -> Result<Option<Board>, PageError> {
        Ok(self.open_board(boards, slug).await?)
    }

    async fn open_board(
        &self,
        boards: &Boards,
        slug: &Slug,
    ) -> Result<Option<Board>, vestal_board::Error> {
        let identity = boards.identity(slug)?;
        let mut open = self.boards.lock().await;
        if let (Some(identity), Some((known, board))) = (identity, open.get(slug.as_str()))
            && *known == identity
        {
            return Ok(Some(board.clone()));
        }
        let Some(board) = boards.open_to_read(slug).await? else { return Ok(None) };
        if let Some(identity) = boards.identity(slug)? {
            open.insert(slug.to_string(), (identity, board.clone()));
        }
        Ok(Some(board))
    }

    /// Opens the conversations of a profile, if there are any yet.
    pub(crate) async fn conversations(
        &self,
        profile: &ProfileName,
    ) -> Result<Option<ConversationStore>, PageError> {
        let path = self.root.sibling(profile.clone()).dir().join("state.db");
        let mut stores = self.stores.lock().await;
        if let Some(store) = stores.get(&path) {
            return Ok(Some(store.clone()));
        }
        let Some(store) = ConversationStore::open_existing(&path).await? else { return Ok(None) };
        stores.insert(path, store.clone());
        Ok(Some(store))
    }

    /// Returns the long actions of a profile.
    pub(crate) fn operations(&self, profile: &ProfileName) -> Arc<WatchedOperations> {
        let mut watched = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(WatchedOperations::of(&self.root.sibling(profile.clone())));
        Arc::clone(watched.entry(profile.clone()).or_insert_with(new))
    }

    /// Opens the schedules of a profile, if there are any yet.
    pub(crate) async fn schedules(
        &self,
        profile: &ProfileName,
    ) -> Result<Option<Schedules>, PageError> {
        let path = vestal_schedules::store_path(&self.root.sibling(profile.clone()).dir());
        let mut open = self.schedules.lock().await;
        if let Some(store) = open.get(&path) {
            return Ok(Some(store.clone()));
        }
        let Some(store) = Schedules::open_existing(&path).await? else { return Ok(None) };
        open.insert(path, store.clone());
        Ok(Some(store))
    }

    /// Opens the schedules of a profile, making the file if there is none.
    pub(crate) async fn schedules_to_write(
        &self,
        profile: &ProfileName,
    ) -> Result<Schedules, PageError> {
        if let Some(store) = self.schedules(profile).await? {
            return Ok(store);
        }
        let path = vestal_schedules::store_path(&self.root.sibling(profile.clone()).dir());
        let store = Schedules::open(&path).await?;
        self.schedules.lock().await.insert(path, store.clone());
        Ok(store)
    }

    /// Lets go of what is open of a profile, which is about to go.
    pub(crate) async fn forget(&self, profile: &ProfileName) {
        let home = self.root.sibling(profile.clone()).dir();
        self.operations.lock().unwrap_or_else(PoisonError::into_inner).remove(profile);
        if let Some(OpenEngine { engine, .. }) = self.engines.lock().await.remove(profile) {
            engine.close(CLOSE_WITHIN.min(Duration::from_secs(2))).await;
        }
        let store = self.stores.lock().await.remove(&home.join("state.db"));
        if let Some(store) = store
            && let Err(error) = store.close().await
        {
            tracing::debug!(%error, "the conversations were not closed tidily");
        }
        let schedules = self.schedules.lock().await.remove(&vestal_schedules::store_path(&home));
        if let Some(store) = schedules
            && let Err(error) = store.close().await
        {
            tracing::debug!(%error, "the schedules were not closed tidily");
        }
    }

    /// Closes everything.
    pub(crate) async fn close(&self) {
        for (_, OpenEngine { engine, .. }) in self.engines.lock().await.drain() {
            engine.close(CLOSE_WITHIN.min(Duration::from_secs(2))).await;
        }
        for (_, (_, board)) in self.boards.lock().await.drain() {
            if let Err(error) = board.close().await {
                tracing::debug!(%error, "a board was not closed tidily");
            }
        }
        for (_, store) in self.schedules.lock().await.drain() {
            if let Err(error) = store.close().await {
                tracing::debug!(%error, "the schedules were not closed tidily");
            }
        }
        for (_, store) in self.stores.lock().await.drain() {
            if let Err(error) = store.close().await {
                tracing::debug!(%error, "the conversations were not closed tidily");
            }
        }
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Data").field("root", &self.root).finish_non_exhaustive()
    }
}

fn stamp(path: &Path) -> FileTimestamp {
    let file = std::fs::metadata(path).ok()?;
    Some((file.modified().ok()?, file.len()))
}
