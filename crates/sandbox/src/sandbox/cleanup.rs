//! Letting go of a sandbox, or removing it.

use std::sync::Arc;
use std::time::Duration;

use super::{Handle, Sandbox};
use crate::engine::{FilesOnRemoval, Interrupt};
use crate::{Engine, Error};

/// How far a cleanup is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// None was asked for.
    Nothing,
    /// It is under way.
    UnderWay,
    /// It is done, well or not.
    Over,
}

/// What a cleanup does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cleanup {
    /// Lets go. A sandbox that outlives its processes is not touched; one that
    /// belongs to this process is removed.
    Release,
    /// Removes the instance in any case; workspace and home stay.
    ForceRemove,
}

impl Sandbox {
    /// Begins a cleanup and returns at once. A second one while the first is
    /// under way does nothing.
    pub fn cleanup(&self, cleanup: Cleanup) {
        self.handle.clone().begin_cleanup(cleanup);
    }

    /// Waits for a cleanup. Returns whether there is nothing left to wait for.
    pub async fn wait_for_cleanup(&self, patience: Duration) -> bool {
        self.handle.wait_for_cleanup(patience).await
    }
}

impl Handle {
    pub(crate) fn begin_cleanup(self: Arc<Self>, cleanup: Cleanup) {
        let begins = self.cleanup.send_if_modified(|progress| {
            let begins = *progress != Progress::UnderWay;
            *progress = Progress::UnderWay;
            begins
        });
        if !begins {
            return;
        }
        tokio::spawn(async move {
            if let Err(error) = self.clean(cleanup).await {
                tracing::warn!(task = %self.key().task(), %error, "cleanup failed; the reaper will finish it");
            }
            self.cleanup.send_replace(Progress::Over);
        });
    }

    pub(crate) async fn wait_for_cleanup(&self, patience: Duration) -> bool {
        let mut progress = self.cleanup.subscribe();
        let over = progress.wait_for(|progress| *progress != Progress::UnderWay);
        matches!(tokio::time::timeout(patience, over).await, Ok(Ok(_)))
    }

    /// Lets go of a sandbox that has idled. Returns whether it did: an owned
    /// instance is removed, and that only if its guest sees neither a job nor
    /// an open call. The guest decides, so there is no moment to miss.
    pub(crate) async fn release_idle(self: &Arc<Self>, lifetime: Duration) -> bool {
        if self.is_in_use(lifetime).await {
            return false;
        }
        let (_, instance) = self.place().await;
        if let Some(owned) = self.engine.owned.get(&instance.id)
            && let Err(error) = self.engine.remove_owned(&owned, Interrupt::Nothing).await
        {
            if !matches!(error, Error::Busy { .. }) {
                tracing::warn!(task = %self.key().task(), %error, "cannot remove an idle sandbox");
            }
            return false;
        }
        self.let_go_of(&instance.id).await
    }

    async fn clean(&self, cleanup: Cleanup) -> Result<(), Error> {
        self.engine.forget_handle_of(self);
        if self.is_owned() {
            return match self.owned_instance().await {
                Some(owned) => self.engine.remove_owned(&owned, Interrupt::Anything).await,
                None => Ok(()),
            };
        }
        self.disconnect().await;
        match cleanup {
            Cleanup::Release => Ok(()),
            Cleanup::ForceRemove => {
                let engine = Engine { inner: Arc::clone(&self.engine) };
                match engine.remove(self.key().task(), FilesOnRemoval::Keep).await {
                    Ok(_) | Err(Error::NoSandbox { .. }) => Ok(()),
                    Err(error) => Err(error),
                }
            }
        }
    }
}
