//! Ending an instance.

use std::time::Duration;

use super::backend::Native;
use super::label::Label;
use super::locator::NativeLocator;
use super::{cgroups, identity};
use crate::backend::{BackendError, Instance};
use crate::backends::guest_process;

impl Native {
    /// Makes sure that nothing of an instance runs and that its control groups
    /// are gone. Its first process takes all others and all mounts along: the
    /// kernel sees to that before the process itself is gone.
    pub(super) async fn end_all(
        &self,
        instance: &Instance,
        patience: Duration,
    ) -> Result<(), BackendError> {
        if let Some(process) = identity::living(instance)? {
            guest_process::kill(&process, instance, patience).await?;
        }
        let located = NativeLocator::of(&instance.locator).map(|locator| locator.made.cgroups);
        let labelled = Label::read(&instance.dir).map(|label| label.made.cgroups);
        let dirs: Vec<_> = located.into_iter().chain(labelled).flatten().collect();
        let removed = cgroups::remove(&instance.id, &dirs).await;
        removed.map_err(BackendError::io("remove the control groups of the sandbox"))
    }
}
