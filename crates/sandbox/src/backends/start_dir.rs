//! Where commands start in a sandbox with a system of its own.

use std::path::PathBuf;

use vestal_config::{ConfigError, Settings};

use crate::Overrides;
use crate::settings::{StartDir, keys};

/// Returns where commands start, unless that is the workspace. A directory of
/// the host means nothing in such a sandbox.
pub(super) fn start_dir(
    settings: &Settings,
    overrides: &Overrides,
) -> Result<Option<PathBuf>, ConfigError> {
    let configured = match settings.get(&keys::CWD)?.value {
        StartDir::Launch => None,
        StartDir::At(path) => {
            let home = settings.environment().user_home();
            Some(path).filter(|path| home.is_none_or(|home| !path.starts_with(home)))
        }
    };
    Ok(overrides.cwd.clone().or(configured).filter(|path| path.is_absolute()))
}
