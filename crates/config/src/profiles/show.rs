//! Show a profile.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{ProfileError, Profiles, description};
use crate::environment::Environment;
use crate::home::{Home, ProfileName};
use crate::keys;
use crate::settings::Settings;

/// What a listing shows of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProfileView {
    /// Its name.
    pub name: String,
    /// Its home.
    pub path: PathBuf,
    /// Whether it is used when nobody names one.
    pub active: bool,
    /// Whether it is the one this call uses.
    pub current: bool,
    /// What it is for.
    pub description: String,
    /// The model that its own settings name.
    pub model: Option<String>,
    /// What is wrong with it.
    pub problem: Option<String>,
}

/// Everything about a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Details {
    /// What a listing shows.
    #[serde(flatten)]
    pub view: ProfileView,
    /// The provider that its own settings name.
    pub provider: Option<String>,
    /// Sandboxes that have files or instances.
    pub sandboxes: usize,
    /// Whether it has had conversations.
    pub conversations: bool,
    /// Skills it has.
    pub skills: usize,
    /// Memories it has.
    pub memories: usize,
    /// Whether it has a persona.
    pub soul: bool,
}

impl Profiles {
    /// Returns everything about a profile.
    pub fn show(
        &self,
        name: &ProfileName,
        current: Option<&Home>,
    ) -> Result<Details, ProfileError> {
        let home = self.existing(name)?;
        let settings = self.own_settings(&home);
        let provider = settings.get(&keys::MODEL_PROVIDER).ok().filter(|own| !own.is_default());
        let dir = home.dir();
        let sandboxes = settings.sandboxes_dir().map_or(0, |own| entries(&own.value, Path::is_dir));
        Ok(Details {
            view: self.view(name, current),
            provider: provider.map(|own| crate::kinds::Setting::to_value(&own.value).to_string()),
            sandboxes,
            conversations: dir.join("state.db").is_file(),
            skills: entries(&dir.join("skills"), |_| true),
            memories: entries(&dir.join("memories"), |_| true),
            soul: dir.join("SOUL.md").is_file(),
        })
    }

    /// Returns what a listing shows, whatever state the profile is in.
    pub(super) fn view(&self, name: &ProfileName, current: Option<&Home>) -> ProfileView {
        let home = self.root.sibling(name.clone());
        let model = self.own_settings(&home).get(&keys::MODEL_DEFAULT);
        let description = description::read(&home.dir());
        let problem = match (&description, &model) {
            (Err(error), _) => Some(error.to_string()),
            (_, Err(error)) => Some(error.to_string()),
            _ => None,
        };
        ProfileView {
            name: name.to_string(),
            path: home.dir(),
            active: self.chosen().as_ref() == Some(name),
            current: current.is_some_and(|current| current.profile() == name),
            description: description.unwrap_or_default(),
            model: model.ok().and_then(|own| own.value.get().map(str::to_owned)),
            problem,
        }
    }

    /// Returns what a profile's own files say, without the environment of this process.
    fn own_settings(&self, home: &Home) -> Settings {
        Settings::load(&self.schema, home.clone(), Environment::default(), Vec::new())
    }
}

/// Counts what is in a directory and not hidden.
fn entries(dir: &Path, counts: impl Fn(&Path) -> bool) -> usize {
    let shown = |entry: &std::fs::DirEntry| !entry.file_name().to_string_lossy().starts_with('.');
    let all = std::fs::read_dir(dir).into_iter().flatten().flatten();
    all.filter(shown).filter(|entry| counts(&entry.path())).count()
}
