//! The password: argon2id, off the threads that serve, and few at a time.

use argon2::{Algorithm, Argon2, Params, Version};
use async_recursion::async_recursion as boxed;
use jiff::Timestamp;
use tokio::sync::Semaphore;

use super::store::AuthStore;

/// The fewest characters of a password.
pub const MIN_PASSWORD: usize = 12;

/// The longest password in bytes; more would only cost time.
const MAX_PASSWORD: usize = 1024;

/// What OWASP asks of argon2id at least: 19 MiB, two passes, one lane.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;

/// Limits password checks to one at a time, for all callers: each takes a processor and 19 MiB.
static AT_ONCE: Semaphore = Semaphore::const_new(1);

/// A password as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PasswordHash {
    pub(super) salt: Vec<u8>,
    pub(super) hash: Vec<u8>,
    pub(super) memory_kib: u32,
    pub(super) passes: u32,
    pub(super) lanes: u32,
}

/// Why a password was not set or checked.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// It is too short to resist guessing.
    #[error("the password has {length} characters and needs at least {MIN_PASSWORD}")]
    Short {
        /// How long it is.
        length: usize,
    },
    /// It is longer than anybody types.
    #[error("the password has {length} bytes; at most {MAX_PASSWORD} are taken")]
    Long {
        /// How long it is.
        length: usize,
    },
    /// It could not be hashed.
    #[error("hash the password: {0}")]
    Hash(String),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] vestal_database::Error),
}

impl AuthStore {
    /// Sets the password of the dashboard. Sessions that were begun with the old one end.
    #[boxed]
    pub async fn set_password(&self, password: &str, now: Timestamp) -> Result<(), PasswordError> {
        let length = password.chars().count();
        if length < MIN_PASSWORD {
            return Err(PasswordError::Short { length });
        }
        if password.len() > MAX_PASSWORD {
            return Err(PasswordError::Long { length: password.len() });
        }
        let mut salt = vec![0_u8; 16];
        let failed = |error: &dyn std::fmt::Display| PasswordError::Hash(error.to_string());
        getrandom::fill(&mut salt).map_err(|error| failed(&error))?;
        let (memory_kib, passes, lanes) = (MEMORY_KIB, PASSES, LANES);
        let blank = PasswordHash { salt, hash: vec![0; 32], memory_kib, passes, lanes };
        let hash = blank.digest(password).await?;
        let stored = PasswordHash { hash, ..blank };
        Ok(self.store_password(Some(&stored), now).await?)
    }

    /// Removes the password: nobody can log in with one.
    #[boxed]
    pub async fn remove_password(&self, now: Timestamp) -> Result<(), PasswordError> {
        Ok(self.store_password(None, now).await?)
    }

    /// Reports whether this is the password. Without one, nothing is.
    pub(crate) async fn check_password(&self, password: &str) -> Result<bool, PasswordError> {
        let Some(stored) = self.password().await? else { return Ok(false) };
        if password.len() > MAX_PASSWORD {
            return Ok(false);
        }
        let given = stored.digest(password).await?;
        // Both are hashes: what a difference in time tells about one does not help to find the
        // password. They are compared in full all the same.
        let difference = given.iter().zip(&stored.hash).fold(0, |all, (a, b)| all | (a ^ b));
        Ok(difference == 0 && given.len() == stored.hash.len())
    }
}

impl PasswordHash {
    async fn digest(&self, password: &str) -> Result<Vec<u8>, PasswordError> {
        let failed = |error: &dyn std::fmt::Display| PasswordError::Hash(error.to_string());
        let (salt, length) = (self.salt.clone(), self.hash.len());
        let params = Params::new(self.memory_kib, self.passes, self.lanes, Some(length));
        let params = params.map_err(|error| failed(&error))?;
        let password = password.as_bytes().to_vec();
        let turn = AT_ONCE.acquire().await.map_err(|error| failed(&error))?;
        let work = tokio::task::spawn_blocking(move || {
            let mut hash = vec![0; length];
            let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
            argon.hash_password_into(&password, &salt, &mut hash).map(|()| hash)
        });
        let hashed = work.await.map_err(|error| failed(&error))?;
        drop(turn);
        hashed.map_err(|error| failed(&error))
    }
}

impl std::fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PasswordHash(…)")
    }
}
