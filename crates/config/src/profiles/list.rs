//! List the profiles.

use std::path::PathBuf;

use super::{ProfileView, Profiles};
use crate::home::{Home, ProfileName};

/// The profiles there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// `default` first, then the others by name.
    pub profiles: Vec<ProfileView>,
    /// What is among the profiles and is none.
    pub strays: Vec<Stray>,
}

/// Something among the profiles that is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// Where it is.
    pub path: PathBuf,
    /// Why it is none.
    pub reason: String,
}

impl Profiles {
    /// Lists every profile. One that is damaged says so itself and keeps no
    /// other from being listed.
    pub fn list(&self, current: Option<&Home>) -> Listing {
        let profiles =
            self.root.profiles().into_iter().map(|name| self.view(&name, current)).collect();
        Listing { profiles, strays: self.strays() }
    }

    fn strays(&self) -> Vec<Stray> {
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
                    Ok(_) if !path.is_dir() => "it is no directory".to_owned(),
                    Ok(_) => return None,
                };
                Some(Stray { path, reason })
            })
            .collect();
        strays.sort_by(|a, b| a.path.cmp(&b.path));
        strays
    }
}
