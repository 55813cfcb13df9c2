//! Keeps the writes of one guest from crossing each other.
//!
//! A check and the rename that follows it are two calls; so are the pieces of
//! a write in place. The locks make them one step for everybody who goes
//! through the guest. They are hashed into a fixed number, which costs a rare
//! needless wait and no memory per file.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::metadata::Identity;

const SHARDS: usize = 64;

static NAMES: [Mutex<()>; SHARDS] = [const { Mutex::new(()) }; SHARDS];
static FILES: [Mutex<()>; SHARDS] = [const { Mutex::new(()) }; SHARDS];

/// Locks a name in a directory. Taken before [`lock_file`], never after.
pub(super) fn lock_name(directory: Identity, name: &[u8]) -> MutexGuard<'static, ()> {
    lock(&NAMES, &(directory, name))
}

/// Locks a file under all of its names.
pub(super) fn lock_file(file: Identity) -> MutexGuard<'static, ()> {
    lock(&FILES, &file)
}

fn lock(shards: &'static [Mutex<()>; SHARDS], key: &impl Hash) -> MutexGuard<'static, ()> {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let shard = usize::try_from(hasher.finish() % SHARDS as u64).unwrap_or(0);
    shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
}
