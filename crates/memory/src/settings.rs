//! Memory as the settings want it.

use std::sync::Arc;

use vestal_agent::redact::Redactor;
use vestal_agent::{Memory, Tool};
use vestal_config::{ConfigError, Settings, keys};
use vestal_conversations::Store;

use crate::file_memory::FileMemory;
use crate::files::{Files, Limits};
use crate::search::SessionSearch;
use crate::target::Target;
use crate::tool::MemoryTool;

/// Which notes the agent has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enabled {
    /// Whether it has its own.
    pub memory: bool,
    /// Whether it has those about the person.
    pub user: bool,
}

impl Enabled {
    /// Reports whether it has these notes.
    pub const fn has(self, target: Target) -> bool {
        match target {
            Target::Memory => self.memory,
            Target::User => self.user,
        }
    }

    /// Returns the notes it has.
    pub fn targets(self) -> impl Iterator<Item = Target> {
        Target::ALL.into_iter().filter(move |target| self.has(*target))
    }

    /// Returns which notes the settings want it to have.
    pub fn of(settings: &Settings) -> Result<Self, ConfigError> {
        Ok(Self {
            memory: settings.get(&keys::MEMORY_ENABLED)?.value,
            user: settings.get(&keys::MEMORY_USER_PROFILE_ENABLED)?.value,
        })
    }
}

/// Returns how many characters notes may have.
pub fn limits(settings: &Settings) -> Result<Limits, ConfigError> {
    let count = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    Ok(Limits {
        memory: count(settings.get(&keys::MEMORY_CHAR_LIMIT)?.value.get()),
        user: count(settings.get(&keys::MEMORY_USER_CHAR_LIMIT)?.value.get()),
    })
}

/// Returns the files of the profile.
pub fn files(settings: &Settings, redactor: Arc<Redactor>) -> Result<Files, ConfigError> {
    Ok(Files::of_home(&settings.home().dir(), limits(settings)?, redactor))
}

/// Who remembers, and the tools that go with it.
pub type Remembering = (Option<Arc<dyn Memory>>, Vec<Arc<dyn Tool>>);

/// Returns who remembers, for [`vestal_agent::Parts`], and the tools that go with
/// it: `memory`, unless it is switched off, and `session_search`.
pub fn from_settings(
    settings: &Settings,
    redactor: &Arc<Redactor>,
    store: &Store,
) -> Result<Remembering, ConfigError> {
    let mut tools: Vec<Arc<dyn Tool>> = vec![Arc::new(SessionSearch::new(store.clone()))];
    let enabled = Enabled::of(settings)?;
    if enabled.targets().next().is_none() {
        return Ok((None, tools));
    }
    let files = files(settings, Arc::clone(redactor))?;
    tools.push(Arc::new(MemoryTool::new(files.clone(), enabled)));
    Ok((Some(Arc::new(FileMemory::new(files, enabled))), tools))
}
