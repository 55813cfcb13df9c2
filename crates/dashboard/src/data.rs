//! The home behind the pages: engines, boards and conversations of its profiles, opened when they are
//! first asked for and kept.
//!
//! They are kept because closing the last connection of a database writes to it, which would look
//! like news to every page.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tokio::sync::Mutex;
use vestal_api::{GatewayStatusView, HealthReportView};
use vestal_board::Board;
use vestal_board::boards::{Boards, Slug};
use vestal_config::{Environment, Home, ProfileName, Settings};
use vestal_conversations::ConversationStore;
use vestal_sandbox::{CLOSE_WITHIN, Engine};

use crate::error::PageError;

/// What the program around the dashboard knows and no library does.
#[async_trait]
pub trait ProgramHost: Send + Sync + fmt::Debug {
    /// Returns the gateways of all profiles and who keeps them.
    async fn gateways(&self) -> Result<GatewayStatusView, String>;

    /// Examines a profile, as `vestal doctor` does.
    async fn health(&self, profile: &ProfileName) -> Result<HealthReportView, String>;

    /// Returns the version of the program.
    fn version(&self) -> &'static str;
}

/// What a file was when it was last read.
type Stamp = Option<(SystemTime, u64)>;

/// An engine, and the settings that it was opened with.
type OpenEngine = ([Stamp; 2], Engine);

/// A board, and the file that it was opened from.
type OpenBoard = ((u64, u64), Board);

/// The home. Everything in it is opened once.
pub(crate) struct Data {
    root: Home,
    environment: Environment,
    engines: Mutex<HashMap<ProfileName, OpenEngine>>,
    boards: Mutex<HashMap<String, OpenBoard>>,
    stores: Mutex<HashMap<PathBuf, ConversationStore>>,
}

impl Data {
    pub(crate) fn new(root: Home, environment: Environment) -> Self {
        let (engines, boards, stores) = Default::default();
        Self { root, environment, engines, boards, stores }
    }

    /// Returns the home of the default profile.
    pub(crate) fn root(&self) -> &Home {
        &self.root
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
        let home = self.root.sibling(profile.clone());
        let stamps = [stamp(&home.config_file()), stamp(&home.env_file())];
        let mut engines = self.engines.lock().await;
        if let Some((known, engine)) = engines.get(profile)
            && *known == stamps
        {
            return Ok(engine.clone());
        }
        let engine = Engine::open(self.settings(profile))?;
        vestal_skills::from_settings(engine.settings()).forward(&engine);
        // The one before goes on for whoever has it, and ends with them.
        engines.insert(profile.clone(), (stamps, engine.clone()));
        Ok(engine)
    }

    pub(crate) fn boards(&self) -> Result<Boards, PageError> {
        let settings = self.settings(self.root.profile());
        vestal_board::settings::boards(&settings)
            .map_err(|error| PageError::unavailable(error.to_string()))
    }

    /// Opens a board. Nothing where the one that is always there was never written to.
    pub(crate) async fn board(
        &self,
        boards: &Boards,
        slug: &Slug,
    ) -> Result<Option<Board>, PageError> {
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

    /// Closes everything.
    pub(crate) async fn close(&self) {
        for (_, (_, engine)) in self.engines.lock().await.drain() {
            engine.close(CLOSE_WITHIN.min(Duration::from_secs(2))).await;
        }
        for (_, (_, board)) in self.boards.lock().await.drain() {
            if let Err(error) = board.close().await {
                tracing::debug!(%error, "a board was not closed tidily");
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

fn stamp(path: &Path) -> Stamp {
    let file = std::fs::metadata(path).ok()?;
    Some((file.modified().ok()?, file.len()))
}
