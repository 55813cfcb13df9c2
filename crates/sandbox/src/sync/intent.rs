//! What a sync is about to do, on disk before it does it.
//!
//! A sync that is cut off has made some of its changes and agreed about none. Nobody may take
//! what it made for a change of the other side then: a file that was deleted there because it was
//! missing here, and is here again, would be deleted here.

use std::path::Path;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::agreement::{Envelope, RootMark, StoredState, Terms, read_bounded};
use super::plan::{AgreedStates, End, State, SyncAction, SyncStep, View, beneath};
use crate::store::{StoreError, replace};

const VERSION: u64 = 1;

/// Name of the file in the sandbox's directory.
const FILE: &str = "sync-intent.cbor";

/// The changes of a sync that has not come to its end.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(super) struct SyncIntent {
    #[n(0)]
    version: u64,
    #[n(1)]
    here: RootMark,
    #[n(2)]
    there: RootMark,
    #[n(3)]
    changes: Vec<IntendedChange>,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
struct IntendedChange {
    #[n(0)]
    is_here: bool,
    #[n(1)]
    path: ByteVec,
    /// What will be there; absent: nothing.
    #[n(2)]
    state: Option<StoredState>,
}

impl SyncIntent {
    /// Returns one without changes.
    pub(super) fn new(terms: &Terms) -> Self {
        Self { version: VERSION, here: terms.here, there: terms.there, changes: Vec::new() }
    }

    /// Reads that of a sync that was cut off; nothing if there is none. One that is damaged is
    /// an error of its own: nobody knows then who made which change.
    pub(super) fn read(dir: &Path) -> Result<Option<Result<Self, DamagedIntent>>, StoreError> {
        let path = dir.join(FILE);
        let Some(bytes) = read_bounded(&path)? else { return Ok(None) };
        let version = minicbor::decode::<Envelope>(&bytes).map(|envelope| envelope.version);
        if let Ok(found) = version
            && found > VERSION
        {
            return Err(StoreError::Newer { path, found, known: VERSION });
        }
        Ok(Some(minicbor::decode(&bytes).map_err(|_| DamagedIntent)))
    }

    /// Adds changes and writes all of them.
    pub(super) fn add(&mut self, dir: &Path, steps: &[SyncStep]) -> Result<(), StoreError> {
        self.changes.extend(steps.iter().map(|step| IntendedChange {
            is_here: step.end == End::Here,
            path: step.path.clone().into(),
            state: step.action.makes().map(|state| StoredState::new(step.path.clone(), state)),
        }));
        let path = dir.join(FILE);
        let bytes = minicbor::to_vec(&*self).map_err(|error| StoreError::Damaged {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        replace(&path, &bytes).map_err(|error| StoreError::io("write", &path, error))
    }

    /// Ends it: all is agreed about.
    pub(super) fn clear(dir: &Path) -> Result<(), StoreError> {
        let path = dir.join(FILE);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(StoreError::io("remove", &path, error))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether it is about these two directories.
    pub(super) fn is_of(&self, terms: &Terms) -> bool {
        (self.here, self.there) == (terms.here, terms.there)
    }

    /// Takes over what was made as far as it shows: each side that is now as it was to become.
    pub(super) fn note(&self, base: &mut AgreedStates, here: &View, there: &View) {
        for IntendedChange { is_here, path, state } in &self.changes {
            let view = if *is_here { here } else { there };
            let state = state.clone().map(|state| state.into_state().1);
            let is_made = match (view.items.get(path.as_slice()), &state) {
                (Some(item), Some(state)) => item.state.as_ref() == Ok(state),
                (None, None) => !beneath(path, &view.closed),
                _ => false,
            };
            if is_made {
                note(base, path.to_vec(), state);
            }
        }
    }
}

/// A file that cannot be read as an intent.
#[derive(Debug)]
pub(super) struct DamagedIntent;

/// Takes over what was just made.
pub(super) fn note_made(base: &mut AgreedStates, made: &[SyncStep], here: &View, there: &View) {
    for SyncStep { end, path, action } in made {
        let view = match end {
            End::Here => here,
            End::There => there,
        };
        let state = action.makes();
        let is = view.items.get(path).and_then(|item| item.state.as_ref().ok());
        match (&state, is) {
            // The filesystem keeps no such bits.
            (
                Some(State::File { hash, executable }),
                Some(State::File { hash: is_hash, executable: is_executable }),
            ) if hash == is_hash && executable != is_executable => {}
            _ => note(base, path.clone(), state),
        }
    }
}

fn note(base: &mut AgreedStates, path: Vec<u8>, state: Option<State>) {
    match state {
        Some(state) => base.insert(path, state),
        None => base.remove(&path),
    };
}

impl SyncAction {
    /// Returns what is at the path when it is done.
    fn makes(&self) -> Option<State> {
        match self {
            Self::SetAside { .. } | Self::Delete { .. } | Self::RemoveDirectory => None,
            Self::MakeDirectory { .. } => Some(State::Directory),
            Self::Link { target, .. } => Some(State::Link { target: target.clone() }),
            Self::Executable { hash, executable, .. } => {
                Some(State::File { hash: *hash, executable: *executable })
            }
            Self::Copy { hash, mode, .. } => {
                Some(State::File { hash: *hash, executable: mode & 0o100 != 0 })
            }
        }
    }
}
