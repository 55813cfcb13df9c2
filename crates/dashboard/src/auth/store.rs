//! Links, sessions and the password on disk, shared by the server and the commands beside it.
//!
//! Links and sessions are random 256 bits, of which only the SHA-256 is stored. A link counts once:
//! the transaction that takes it away makes the session.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use sqlx::pool::PoolConnection;
use sqlx::{Executor as _, Row as _, Sqlite};
use vestal_database::{
    Database, DatabaseOptions, Durability, Layout, WriteTransaction, writer_options,
};

use super::password::PasswordHash;
use crate::gate::{Principal, Right};

/// The layout of the file, marked with `VstD`.
const LAYOUT: Layout = Layout { application: 0x5673_7444, steps: &[include_str!("schema/1.sql")] };

/// How long a link counts.
pub(crate) const LINK_LIFE: Duration = Duration::from_mins(10);

/// How long a session lasts without a request, and at all.
pub(crate) const IDLE_LIFE: Duration = Duration::from_hours(12);
pub(crate) const WHOLE_LIFE: Duration = Duration::from_hours(7 * 24);

/// How exactly it is known when a session was last used. A write per request would cost more than
/// the request.
const SEEN_WITHIN: Duration = Duration::from_mins(1);

/// The most readers at once; further ones wait.
const READERS: u32 = 2;

/// Links that may wait to be used; the oldest go first.
const MAX_LINKS: i64 = 32;

type AuthStoreResult<T> = Result<T, vestal_database::Error>;

/// Returns the file in the root of a home.
pub fn store_path(root: &Path) -> PathBuf {
    root.join("dashboard.db")
}

/// A secret that is handed out once. It is neither shown nor logged by accident.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

impl Token {
    /// Makes one of 256 random bits.
    pub(crate) fn generate() -> Result<Self, getrandom::Error> {
        let mut random = [0_u8; 32];
        getrandom::fill(&mut random)?;
        Ok(Self(URL_SAFE_NO_PAD.encode(random)))
    }

    /// Takes one that somebody sent.
    pub(crate) fn given(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    fn hash(&self) -> Vec<u8> {
        Sha256::digest(self.0.as_bytes()).to_vec()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// A session, without what would let somebody use it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SessionId(Vec<u8>);

/// A link that was just made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLink {
    token: Token,
    /// What its user may do.
    pub right: Right,
    /// Until when it counts.
    pub expires_at: Timestamp,
}

impl NewLink {
    /// Returns the address to open. The secret stands behind `#`, which no browser sends: it is in
    /// no log of a server or proxy, and nothing that merely fetches the page uses it up.
    pub fn url(&self, base: &str) -> String {
        format!("{}/login#{}", base.trim_end_matches('/'), self.token.expose())
    }

    #[cfg(test)]
    pub(crate) fn token(&self) -> &Token {
        &self.token
    }
}

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The system has no random numbers.
    #[error("make a random number: {0}")]
    Random(#[from] getrandom::Error),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] vestal_database::Error),
}

/// The store. Clones share the connections.
#[derive(Clone)]
pub struct AuthStore(Arc<AuthStoreShared>);

struct AuthStoreShared {
    database: Database,
    mark: String,
}

impl AuthStore {
    /// Opens the file, creating it if needed, readable by its owner only.
    #[boxed]
    pub async fn open(path: &Path) -> Result<Self, vestal_database::Error> {
        // Logins are rare and must not come back from the dead after a power cut: they are synced.
        let writer = writer_options(path, Durability::Full);
        let options = DatabaseOptions { layout: LAYOUT, readers: READERS, writer };
        let database = Database::open(path, options).await?;
        let mut reader = database.reader().await?;
        let row = reader.fetch_one("SELECT mark FROM home").await;
        let mark = row.and_then(|row| row.try_get(0)).map_err(|error| database.explain(error))?;
        drop(reader);
        Ok(Self(Arc::new(AuthStoreShared { database, mark })))
    }

    /// Closes the file for all clones. Nothing is lost without it.
    #[boxed]
    pub async fn close(&self) {
        if let Err(error) = self.0.database.close().await {
            tracing::debug!(%error, "the store of the dashboard was not closed");
        }
    }

    /// Returns what makes the cookies of this home different from those of another.
    pub(crate) fn home_mark(&self) -> &str {
        &self.0.mark
    }

    /// Makes a link that lets somebody in once.
    #[boxed]
    pub async fn create_link(&self, right: Right, now: Timestamp) -> Result<NewLink, LinkError> {
        let token = Token::generate()?;
        let expires_at = now + LINK_LIFE;
        let mut write = self.write().await?;
        let insert = sqlx::query(
            "INSERT INTO links (hash, access, created_at, expires_at) VALUES (?, ?, ?, ?)",
        )
        .bind(token.hash())
        .bind(right.as_str())
        .bind(millis(now))
        .bind(millis(expires_at));
        write.run(insert).await?;
        write.run(sqlx::query("DELETE FROM links WHERE expires_at <= ?").bind(millis(now))).await?;
        let surplus = "DELETE FROM links WHERE hash NOT IN \
            (SELECT hash FROM links ORDER BY created_at DESC LIMIT ?)";
        write.run(sqlx::query(surplus).bind(MAX_LINKS)).await?;
        write.commit().await?;
        Ok(NewLink { token, right, expires_at })
    }

    /// Takes a link and begins a session in its place. Nothing if it is unknown, was used or is too
    /// old; of two that come at once, one gets it.
    pub(crate) async fn redeem_link(
        &self,
        link: &Token,
        now: Timestamp,
    ) -> Result<Option<(Token, Principal)>, LinkError> {
        let mut write = self.write().await?;
        let take = sqlx::query("DELETE FROM links WHERE hash = ? RETURNING access, expires_at")
            .bind(link.hash());
        let taken = write.optional(take).await?;
        let Some(row) = taken else { return Ok(None) };
        let access: String = row.try_get(0).map_err(|error| self.explain(error))?;
        let expires_at: i64 = row.try_get(1).map_err(|error| self.explain(error))?;
        if expires_at <= millis(now) {
            write.commit().await?;
            return Ok(None);
        }
        let principal =
            Principal { name: "link".to_owned(), right: Right::of_word(&access), method: "link" };
        let token = write.begin_session(&principal, now).await?;
        write.commit().await?;
        Ok(Some((token, principal)))
    }

    /// Begins a session of somebody who has proved who they are.
    pub(crate) async fn begin_session(
        &self,
        principal: &Principal,
        now: Timestamp,
    ) -> Result<Token, LinkError> {
        let mut write = self.write().await?;
        let token = write.begin_session(principal, now).await?;
        write.commit().await?;
        Ok(token)
    }

    /// Finds the session of a token that still counts, and notes that it was used.
    pub(crate) async fn session(
        &self,
        token: &Token,
        now: Timestamp,
    ) -> AuthStoreResult<Option<(SessionId, Principal)>> {
        let id = SessionId(token.hash());
        let Some((principal, seen_at)) = self.lookup(&id, now).await? else { return Ok(None) };
        if seen_at <= before(now, SEEN_WITHIN) {
            let mut write = self.write().await?;
            let seen = sqlx::query("UPDATE sessions SET seen_at = max(seen_at, ?) WHERE hash = ?");
            write.run(seen.bind(millis(now)).bind(&id.0)).await?;
            write.commit().await?;
        }
        Ok(Some((id, principal)))
    }

    /// Reports whether a session still counts. Asking is no use of it.
    pub(crate) async fn is_valid(&self, id: &SessionId, now: Timestamp) -> AuthStoreResult<bool> {
        Ok(self.lookup(id, now).await?.is_some())
    }

    async fn lookup(
        &self,
        id: &SessionId,
        now: Timestamp,
    ) -> AuthStoreResult<Option<(Principal, i64)>> {
        let mut reader = self.reader().await?;
        let query = sqlx::query(
            "SELECT name, access, method, seen_at FROM sessions \
             WHERE hash = ? AND seen_at > ? AND created_at > ?",
        )
        .bind(&id.0)
        .bind(before(now, IDLE_LIFE))
        .bind(before(now, WHOLE_LIFE));
        let found = reader.fetch_optional(query).await.map_err(|error| self.explain(error))?;
        let Some(row) = found else { return Ok(None) };
        let read = || -> Result<_, sqlx::Error> {
            let method: String = row.try_get(2)?;
            let method = match method.as_str() {
                "password" => "password",
                "oidc" => "oidc",
                _ => "link",
            };
            let right = Right::of_word(row.try_get(1)?);
            Ok((Principal { name: row.try_get(0)?, right, method }, row.try_get(3)?))
        };
        read().map(Some).map_err(|error| self.explain(error))
    }

    /// Ends a session.
    pub(crate) async fn end_session(&self, id: &SessionId) -> AuthStoreResult<()> {
        let mut write = self.write().await?;
        write.run(sqlx::query("DELETE FROM sessions WHERE hash = ?").bind(&id.0)).await?;
        write.commit().await
    }

    /// Ends all sessions and takes back all links. Returns how many sessions there were.
    #[boxed]
    pub async fn end_all(&self) -> Result<u64, vestal_database::Error> {
        let mut write = self.write().await?;
        write.run(sqlx::query("DELETE FROM links")).await?;
        let ended = write.run(sqlx::query("DELETE FROM sessions")).await?;
        write.commit().await?;
        Ok(ended)
    }

    pub(crate) async fn password(&self) -> AuthStoreResult<Option<PasswordHash>> {
        let mut reader = self.reader().await?;
        let query = "SELECT salt, hash, memory_kib, passes, lanes FROM password";
        let found = reader.fetch_optional(query).await.map_err(|error| self.explain(error))?;
        let Some(row) = found else { return Ok(None) };
        let read = || -> Result<_, sqlx::Error> {
            Ok(PasswordHash {
                salt: row.try_get(0)?,
                hash: row.try_get(1)?,
                memory_kib: row.try_get(2)?,
                passes: row.try_get(3)?,
                lanes: row.try_get(4)?,
            })
        };
        read().map(Some).map_err(|error| self.explain(error))
    }

    /// Reports whether there is a password to log in with.
    #[boxed]
    pub async fn has_password(&self) -> Result<bool, vestal_database::Error> {
        Ok(self.password().await?.is_some())
    }

    /// Replaces the password, or removes it. Sessions that were begun with the old one end.
    pub(crate) async fn store_password(
        &self,
        password: Option<&PasswordHash>,
        now: Timestamp,
    ) -> AuthStoreResult<()> {
        let mut write = self.write().await?;
        write.run(sqlx::query("DELETE FROM password")).await?;
        if let Some(password) = password {
            let insert = sqlx::query(
                "INSERT INTO password (id, salt, hash, memory_kib, passes, lanes, set_at) \
                 VALUES (1, ?, ?, ?, ?, ?, ?)",
            )
            .bind(&password.salt)
            .bind(&password.hash)
            .bind(password.memory_kib)
            .bind(password.passes)
            .bind(password.lanes)
            .bind(millis(now));
            write.run(insert).await?;
        }
        write.run(sqlx::query("DELETE FROM sessions WHERE method = 'password'")).await?;
        write.commit().await
    }

    async fn reader(&self) -> AuthStoreResult<PoolConnection<Sqlite>> {
        self.0.database.reader().await
    }

    fn explain(&self, error: sqlx::Error) -> vestal_database::Error {
        self.0.database.explain(error)
    }

    /// Begins a write transaction.
    async fn write(&self) -> AuthStoreResult<AuthTransaction<'_>> {
        Ok(AuthTransaction(self.0.database.write().await?))
    }
}

impl fmt::Debug for AuthStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthStore").field("path", &self.0.database.path()).finish_non_exhaustive()
    }
}

type Query<'q> = sqlx::query::Query<'q, Sqlite, sqlx::sqlite::SqliteArguments>;

/// A write transaction with what logins need.
struct AuthTransaction<'s>(WriteTransaction<'s>);

impl AuthTransaction<'_> {
    /// Runs a statement and returns how many rows it changed.
    async fn run(&mut self, query: Query<'_>) -> AuthStoreResult<u64> {
        let done = query.execute(self.0.on()).await;
        Ok(done.map_err(|error| self.0.explain(error))?.rows_affected())
    }

    async fn optional(
        &mut self,
        query: Query<'_>,
    ) -> AuthStoreResult<Option<sqlx::sqlite::SqliteRow>> {
        let found = query.fetch_optional(self.0.on()).await;
        found.map_err(|error| self.0.explain(error))
    }

    /// Begins a session, and forgets those that have ended by themselves.
    async fn begin_session(
        &mut self,
        principal: &Principal,
        now: Timestamp,
    ) -> Result<Token, LinkError> {
        let token = Token::generate()?;
        let gone = sqlx::query("DELETE FROM sessions WHERE seen_at <= ? OR created_at <= ?")
            .bind(before(now, IDLE_LIFE))
            .bind(before(now, WHOLE_LIFE));
        self.run(gone).await?;
        let insert = sqlx::query(
            "INSERT INTO sessions (hash, name, access, method, created_at, seen_at) \
             VALUES (?, ?, ?, ?, ?, ?)",
        )
        .bind(token.hash())
        .bind(principal.name.clone())
        .bind(principal.right.as_str())
        .bind(principal.method)
        .bind(millis(now))
        .bind(millis(now));
        self.run(insert).await?;
        Ok(token)
    }

    /// Commits. A later kill of the process or a power loss loses nothing.
    async fn commit(self) -> AuthStoreResult<()> {
        self.0.commit().await
    }
}

fn millis(time: Timestamp) -> i64 {
    time.as_millisecond()
}

/// Returns the moment that was so long before another.
fn before(now: Timestamp, age: Duration) -> i64 {
    millis(now).saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
