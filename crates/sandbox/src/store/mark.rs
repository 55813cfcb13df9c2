//! What an instance's directory says of the instance.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{StoreError, read_versioned, write_versioned};
use crate::backend::Confinement;
use crate::owner::{self, Owner};

const VERSION: u64 = 1;

/// Which backend an instance is on and whose it is, written before there is
/// anything to find.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InstanceMark {
    version: u64,
    /// The backend.
    pub(crate) backend: String,
    /// The process it ends with; absent: it outlives processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<Owner>,
}

impl InstanceMark {
    pub(crate) fn new(backend: &str, owner: Option<Owner>) -> Self {
        Self { version: VERSION, backend: backend.to_owned(), owner }
    }

    /// Reads the mark of an instance. What is beside the socket counts only
    /// where nothing else is there: commands in a container can write there,
    /// and its directory always has a mark out of their reach.
    pub(crate) fn read(instance_dir: &Path) -> Result<Option<Self>, StoreError> {
        if let Some(mark) = read_versioned(&outside(instance_dir), VERSION)? {
            return Ok(Some(mark));
        }
        let owner: Option<Owner> = read_versioned(&beside_socket(instance_dir), owner::VERSION)?;
        Ok(owner.map(|owner| Self::new(&owner.backend.clone(), Some(owner))))
    }

    /// Writes the mark. An instance without confinement takes its whole
    /// directory along when it ends by itself, and the mark with it.
    pub(crate) fn write(
        &self,
        instance_dir: &Path,
        confinement: Confinement,
    ) -> Result<(), StoreError> {
        match (confinement, &self.owner) {
            (Confinement::Contained | Confinement::Remote, _) => {
                write_versioned(&outside(instance_dir), self)
            }
            (Confinement::None, Some(owner)) => {
                write_versioned(&beside_socket(instance_dir), owner)
            }
            (Confinement::None, None) => Ok(()),
        }
    }
}

fn outside(instance_dir: &Path) -> PathBuf {
    instance_dir.join("instance.json")
}

fn beside_socket(instance_dir: &Path) -> PathBuf {
    instance_dir.join("io").join("owner.json")
}
