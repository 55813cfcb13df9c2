//! Results of the verbs on profiles and settings. The listings themselves (`profile list`, `profile show`, `config show`,
//! `config check`) are shaped by `vestal-config`, which owns them.

use serde::{Deserialize, Serialize};
use vestal_config::{AnyKey, Environment, Home, SettingValue, Settings, ValueSource};

/// A profile that was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedProfileView {
    /// The profile.
    pub name: String,
    /// Its home directory.
    pub path: String,
    /// Paths that were not copied because they are neither files nor directories.
    pub left_out: Vec<String>,
}

/// The profile that is used from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChosenProfileView {
    /// The profile.
    pub name: String,
}

/// A profile that was renamed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenamedProfileView {
    /// The new name.
    pub name: String,
    /// The old name.
    pub was: String,
    /// Its home directory.
    pub path: String,
    /// Number of sandbox instances that were removed.
    pub instances: usize,
}

/// A profile that was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletedProfileView {
    /// The profile.
    pub name: String,
    /// Tasks whose sandboxes were removed with it.
    pub sandboxes: Vec<String>,
}

/// An archive of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportedProfileView {
    /// The profile.
    pub name: String,
    /// The archive.
    pub path: String,
    /// Number of files in it.
    pub files: usize,
    /// Paths that are not in it.
    pub left_out: Vec<String>,
    /// Keys of `config.yaml` that are not in it.
    pub settings_left_out: Vec<String>,
}

/// A profile made from an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedProfileView {
    /// The profile.
    pub name: String,
    /// Its home directory.
    pub path: String,
    /// Number of files that were unpacked.
    pub files: usize,
    /// Paths of the archive that were not unpacked.
    pub left_out: Vec<String>,
    /// Keys in its settings that decide about safety.
    pub telling_settings: Vec<String>,
}

/// The value of one setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SettingValueView {
    /// The key.
    pub key: String,
    /// The value in effect, masked when it is a secret.
    pub value: SettingValue,
    /// Where the value comes from.
    pub source: ValueSource,
}

/// Settings of an imported profile that deserve a look before a command is run.
const SAFETY_KEYS: [&dyn AnyKey; 8] = [
    &vestal_sandbox::keys::BACKEND,
    &vestal_sandbox::keys::DOCKER_VOLUMES,
    &vestal_sandbox::keys::DOCKER_EXTRA_ARGS,
    &vestal_agent::keys::APPROVALS_MODE,
    &vestal_agent::keys::APPROVALS_UNATTENDED,
    &vestal_agent::keys::DELEGATION_SUBAGENT_AUTO_APPROVE,
    &vestal_agent::keys::MODEL_BASE_URL,
    &vestal_agent::keys::PROVIDERS,
];

/// Returns the settings of a profile that decide about safety and are not the default.
pub fn safety_settings(home: &Home) -> Vec<String> {
    let settings =
        Settings::load(&crate::schema(), home.clone(), Environment::default(), Vec::new());
    let is_set = |key: &&&dyn AnyKey| key.resolve(&settings).is_ok_and(|own| !own.is_default());
    SAFETY_KEYS.iter().filter(is_set).map(|key| key.name().to_owned()).collect()
}
