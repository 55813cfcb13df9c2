//! Show a profile, and list all of them.

use std::path::{Path, PathBuf};

use serde::Serialize;
use vestal_config::{ConfigError, Environment, Home, ProfileName, Settings, ValueSource};

use crate::create::read_description;
use crate::error::ProfileError;
use crate::profiles::Profiles;

/// The key of the model, where the schema has it.
const MODEL: &str = "model.default";
/// The key of the provider, where the schema has it.
const PROVIDER: &str = "model.provider";
/// The key of the directory of sandboxes, where the schema has it.
const SANDBOX_DIR: &str = "terminal.sandbox_dir";

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
        let dir = home.dir();
        let sandboxes =
            sandboxes_dir(&home, &settings).map_or(0, |dir| entries(&dir, Path::is_dir));
        Ok(Details {
            view: self.view(name, current),
            provider: named(&settings, PROVIDER).ok().flatten(),
            sandboxes,
            conversations: dir.join("state.db").is_file(),
            skills: entries(&dir.join("skills"), |_| true),
            memories: entries(&dir.join("memories"), |_| true),
            soul: dir.join("SOUL.md").is_file(),
        })
    }

    /// Returns what a listing shows, whatever state the profile is in.
    pub(crate) fn view(&self, name: &ProfileName, current: Option<&Home>) -> ProfileView {
        let home = self.root.sibling(name.clone());
        let model = named(&self.own_settings(&home), MODEL);
        let description = read_description(&home.dir());
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
            model: model.ok().flatten(),
            problem,
        }
    }

    /// Returns what a profile's own files say, without the environment of this process.
    fn own_settings(&self, home: &Home) -> Settings {
        Settings::load(&self.schema, home.clone(), Environment::default(), Vec::new())
    }
}

/// Returns what a profile's settings say under a name; nothing when nobody set it, or when the schema
/// does not have it.
fn named(settings: &Settings, key: &str) -> Result<Option<String>, ConfigError> {
    if settings.schema().find(key).is_none() {
        return Ok(None);
    }
    let found = settings.get_by_name(key)?;
    let text = Some(found.value.to_string()).filter(|text| !text.is_empty());
    Ok(text.filter(|_| found.source != ValueSource::Default))
}

/// Returns where a profile keeps its sandboxes.
fn sandboxes_dir(home: &Home, settings: &Settings) -> Result<PathBuf, ConfigError> {
    let elsewhere = named(settings, SANDBOX_DIR)?;
    Ok(elsewhere.map_or_else(|| home.sandboxes_dir(), PathBuf::from))
}

/// Counts what is in a directory and not hidden.
fn entries(dir: &Path, counts: impl Fn(&Path) -> bool) -> usize {
    let shown = |entry: &std::fs::DirEntry| !entry.file_name().to_string_lossy().starts_with('.');
    let all = std::fs::read_dir(dir).into_iter().flatten().flatten();
    all.filter(shown).filter(|entry| counts(&entry.path())).count()
}

/// The profiles there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProfileListing {
    /// `default` first, then the others by name.
    pub profiles: Vec<ProfileView>,
    /// What is among the profiles and is none.
    pub strays: Vec<Stray>,
}

/// Something among the profiles that is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stray {
    /// Where it is.
    pub path: PathBuf,
    /// Why it is none.
    pub reason: String,
}

impl Profiles {
    /// Lists every profile. One that is damaged says so itself and keeps no
    /// other from being listed.
    pub fn list(&self, current: Option<&Home>) -> ProfileListing {
        let profiles =
            self.root.profiles().into_iter().map(|name| self.view(&name, current)).collect();
        ProfileListing { profiles, strays: self.strays() }
    }

    /// Returns what is among the profiles and is none.
    pub fn strays(&self) -> Vec<Stray> {
        let entries = std::fs::read_dir(self.root.profiles_dir()).into_iter().flatten().flatten();
        let mut strays: Vec<Stray> = entries
            .filter_map(|entry| {
                let path = entry.path();
                let name = entry.file_name().to_string_lossy().into_owned();
                // Hidden ones are being made or deleted right now.
                let reason = match ProfileName::new(&name) {
                    _ if name.starts_with('.') => return None,
                    Err(error) => error.to_string(),
                    Ok(own) if own.as_str() != name => {
                        format!("names have no capitals; rename the directory to {own}")
                    }
                    Ok(own) if own.is_default() => "default is the root itself".to_owned(),
                    Ok(_) if !path.is_dir() => "it is not a directory".to_owned(),
                    Ok(_) => return None,
                };
                Some(Stray { path, reason })
            })
            .collect();
        strays.sort_by(|a, b| a.path.cmp(&b.path));
        strays
    }
}
