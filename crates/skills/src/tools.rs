//! What the agent does with skills, one tool each.

mod list;
mod manage;
mod view;

pub(crate) use list::SkillsList;
pub(crate) use manage::SkillManage;
pub(crate) use view::{SkillView, show};

/// The group that all of them are enabled and disabled with.
pub(crate) const TOOLSET: &str = "skills";

/// Does something that waits for the disk, where that keeps nobody else waiting.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

#[cfg(test)]
#[path = "tools/tools_tests.rs"]
mod tests;
