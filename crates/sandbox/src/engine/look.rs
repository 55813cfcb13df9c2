//! Which of the instances there are is the sandbox's.

use jiff::Timestamp;

use super::Inner;
use super::attach::Site;
use super::recover::unlocated;
use super::stop::{END_PATIENCE, Interrupt};
use crate::Error;
use crate::backend::{Backend, FoundInstance, Instance, InstanceFilter, InstanceState};
use crate::notice::Notice;
use crate::spec::UNKNOWN_SETTINGS;
use crate::store::{InstanceRecord, Record};

/// What a look at a sandbox's instances found.
#[derive(Debug)]
pub(super) struct Looked {
    /// State of the instance that the record now names.
    pub(super) state: InstanceState,
    /// What the caller should hear about.
    pub(super) notices: Vec<Notice>,
}

impl Inner {
    /// Looks at the recorded instance and at those that carry the sandbox's
    /// mark. If another one is the sandbox's, because the record was lost or is
    /// older than it, the record names that one afterwards.
    pub(super) async fn look(
        &self,
        site: Site<'_>,
        backend: &dyn Backend,
        record: &mut Record,
    ) -> Result<Looked, Error> {
        let failed = || Error::backend(backend.name());
        let recorded = match record.instance(site.dir) {
            Some(instance) => backend.state(&instance).await.map_err(failed())?,
            None => InstanceState::Absent,
        };
        let hash = site.key.hash();
        let marked = backend.find(InstanceFilter::Key(&hash)).await.map_err(failed())?;
        let mut marked: Vec<FoundInstance> =
            marked.into_iter().filter(|found| found.persistent).collect();
        let current = record.instance.as_ref().map(|instance| instance.id.clone());
        marked.sort_by_key(|found| {
            let is_current = current.as_deref() == Some(&*found.id);
            (runs(found.state), is_current, found.generation)
        });
        let mut state = recorded;
        let chosen = marked.pop_if(|best| {
            let is_current = current.as_deref() == Some(&*best.id);
            let is_newest = best.generation >= record.generation;
            is_current
                || recorded == InstanceState::Absent
                || (is_newest && runs(best.state) && !runs(recorded))
        });
        if let Some(chosen) = chosen
            && current.as_deref() != Some(&*chosen.id)
        {
            tracing::info!(instance = chosen.id, "found by its mark");
            state = chosen.state;
            self.adopt(site, backend, record, chosen)?;
        }
        let current = record.instance.as_ref().map(|instance| instance.id.clone());
        let mut notices = Vec::new();
        for other in marked {
            if current.as_deref() != Some(&*other.id) && runs(other.state) {
                notices.extend(self.stop_duplicate(site, backend, other).await?);
            }
        }
        Ok(Looked { state, notices })
    }

    /// Makes an instance that was found by its mark the recorded one.
    fn adopt(
        &self,
        site: Site<'_>,
        backend: &dyn Backend,
        record: &mut Record,
        found: FoundInstance,
    ) -> Result<(), Error> {
        let spec = self.spec(backend, &record.overrides)?;
        let spec = if spec.hash() == found.spec {
            spec.to_map()
        } else {
            std::iter::once((UNKNOWN_SETTINGS.to_owned(), found.spec)).collect()
        };
        record.generation = record.generation.max(found.generation);
        record.instance = Some(InstanceRecord {
            id: found.id,
            created_at: found.created_at.unwrap_or_else(Timestamp::now),
            spec,
            // The guest is told of the right one at the next drift check.
            retention_seconds: None,
            locator: found.locator,
        });
        site.dir.write_record(record)?;
        Ok(())
    }

    /// Ends another instance of the same sandbox and leaves it to the reaper;
    /// one with jobs is reported and left alone.
    async fn stop_duplicate(
        &self,
        site: Site<'_>,
        backend: &dyn Backend,
        found: FoundInstance,
    ) -> Result<Option<Notice>, Error> {
        let name = backend.describe(&found.locator).name.unwrap_or_else(|| found.id.clone());
        let instance = Instance { locator: found.locator, ..unlocated(site.dir, found.id) };
        match self.ask_to_end(site.key.task(), backend, &instance, Interrupt::Nothing).await {
            Err(Error::Busy { .. }) => return Ok(Some(Notice::Duplicate { name })),
            other => other?,
        }
        tracing::warn!(name, "another instance of this sandbox ran idle; it is stopped");
        backend.end(&instance, END_PATIENCE).await.map_err(Error::backend(backend.name()))?;
        Ok(None)
    }
}

fn runs(state: InstanceState) -> bool {
    matches!(state, InstanceState::Running | InstanceState::Paused)
}
