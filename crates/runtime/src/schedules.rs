//! The schedules of a profile, as people, programs and the agent ask for them: what a request names
//! is looked up before anything is stored, so that a mistake shows now and not in the night.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use jiff::Timestamp;
use vestal_api::ScheduleRequest;
use vestal_config::Settings;
use vestal_conversations::Error as ConversationError;
use vestal_schedules::{Schedule, ScheduleDelivery, ScheduleId, ScheduleStore, store_path};
use vestal_skills::{SkillError, Skills};

use crate::runtime::STORE_FILE;

/// Why a schedule was not made or changed. Nothing was stored.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// The request is wrong, or the schedules cannot be used.
    #[error(transparent)]
    Schedule(#[from] vestal_schedules::Error),
    /// It names a skill that cannot be used.
    #[error(transparent)]
    Skill(#[from] SkillError),
    /// It names a conversation that is not there.
    #[error(transparent)]
    Conversation(#[from] ConversationError),
}

/// The schedules of a profile. Cheap to clone; nothing is held open.
#[derive(Debug, Clone)]
pub struct ProfileSchedules {
    settings: Arc<Settings>,
    skills: Skills,
}

impl ProfileSchedules {
    /// Returns the schedules of the profile that the settings belong to.
    pub fn new(settings: &Arc<Settings>) -> Self {
        let skills = vestal_skills::from_settings(settings);
        Self { settings: Arc::clone(settings), skills }
    }

    /// Opens the file, which is made if it is not there.
    #[boxed]
    pub async fn open(&self) -> Result<ScheduleStore, vestal_schedules::Error> {
        ScheduleStore::open(store_path(&self.settings.home().dir())).await
    }

    /// Opens the file if it is there: looking makes none.
    #[boxed]
    pub async fn open_existing(&self) -> Result<Option<ScheduleStore>, vestal_schedules::Error> {
        ScheduleStore::open_existing(store_path(&self.settings.home().dir())).await
    }

    /// Makes a schedule.
    #[boxed]
    pub async fn create(
        &self,
        store: &ScheduleStore,
        request: ScheduleRequest,
        now: Timestamp,
    ) -> Result<Schedule, ScheduleError> {
        let mut new = request.create(now)?;
        self.check_skills(&new.skills)?;
        new.delivery = self.settled(new.delivery).await?;
        Ok(store.create(new, now).await?)
    }

    /// Changes a schedule. What the request does not name stays as it is, and is not checked again.
    #[boxed]
    pub async fn edit(
        &self,
        store: &ScheduleStore,
        id: &ScheduleId,
        request: ScheduleRequest,
        now: Timestamp,
    ) -> Result<Schedule, ScheduleError> {
        let mut change = request.change(now)?;
        self.check_skills(change.skills.as_deref().unwrap_or_default())?;
        if let Some(delivery) = change.delivery.take() {
            change.delivery = Some(self.settled(delivery).await?);
        }
        Ok(store.edit(id, change, now).await?)
    }

    fn check_skills(&self, names: &[String]) -> Result<(), SkillError> {
        names.iter().try_for_each(|name| self.skills.get(name).map(drop))
    }

    /// Returns a delivery with the id of the conversation that it means.
    async fn settled(
        &self,
        delivery: ScheduleDelivery,
    ) -> Result<ScheduleDelivery, ConversationError> {
        let ScheduleDelivery::Conversation(wanted) = delivery else { return Ok(delivery) };
        let path = self.settings.home().dir().join(STORE_FILE);
        let unknown = || ConversationError::NotFound { wanted: wanted.clone() };
        let store = vestal_conversations::ConversationStore::open_existing(path)
            .await?
            .ok_or_else(unknown)?;
        let found = store.find(&wanted).await;
        if let Err(error) = store.close().await {
            tracing::debug!(%error, "the conversations were not closed tidily");
        }
        Ok(ScheduleDelivery::Conversation(found?.to_string()))
    }
}
