//! The tokens of servers, each in a file that only its owner reads.

use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use rmcp::transport::auth::{
    AuthError, CredentialRefreshGuard, CredentialStore, StoredCredentials,
};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::settings::McpServerName;

/// The directory of a profile's home.
const DIRECTORY: &str = "mcp-tokens";

/// The version of the files.
const VERSION: u32 = 1;

/// Bytes of a file.
const MOST_BYTES: u64 = 1 << 20;

/// The tokens of one server. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct TokenFile {
    path: PathBuf,
    /// The server's address: tokens go to no other.
    url: String,
}

#[derive(Serialize, Deserialize)]
struct KeptTokens {
    version: u32,
    url: String,
    credentials: StoredCredentials,
}

fn path(home: &Path, name: &McpServerName) -> PathBuf {
    home.join(DIRECTORY).join(format!("{name}.json"))
}

impl TokenFile {
    pub(crate) fn new(home: &Path, name: &McpServerName, url: &str) -> Self {
        Self { path: path(home, name), url: url.to_owned() }
    }

    pub(crate) fn is_there(&self) -> bool {
        self.path.is_file()
    }

    pub(super) fn exists(home: &Path, name: &McpServerName) -> bool {
        path(home, name).is_file()
    }

    /// Removes the tokens of a server. Reports whether there were any.
    pub(super) fn remove(home: &Path, name: &McpServerName) -> io::Result<bool> {
        match std::fs::remove_file(path(home, name)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn read(&self) -> io::Result<Option<StoredCredentials>> {
        let text = match std::fs::metadata(&self.path) {
            Ok(found) if found.len() > MOST_BYTES => {
                return Err(io::Error::other("the file of the tokens is too long"));
            }
            Ok(_) => std::fs::read(&self.path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let kept: KeptTokens = serde_json::from_slice(&text).map_err(|error| {
            // What stands in it is not repeated.
            io::Error::other(format!(
                "{} cannot be read (line {}); log in again: vestal mcp login",
                self.path.display(),
                error.line()
            ))
        })?;
        if kept.version > VERSION {
            let text = format!("{} is of a newer program", self.path.display());
            return Err(io::Error::other(text));
        }
        Ok((kept.url == self.url).then_some(kept.credentials))
    }

    /// Replaces the file whole: a program that dies meanwhile leaves the tokens from before.
    fn write(&self, credentials: StoredCredentials) -> io::Result<()> {
        let kept = KeptTokens { version: VERSION, url: self.url.clone(), credentials };
        let text = serde_json::to_vec_pretty(&kept)?;
        self.make_directory()?;
        let temporary = self.path.with_extension(format!("json.{}", std::process::id()));
        let result =
            write_new(&temporary, &text).and_then(|()| std::fs::rename(&temporary, &self.path));
        if result.is_err() {
            drop(std::fs::remove_file(&temporary));
        }
        result
    }

    fn make_directory(&self) -> io::Result<()> {
        let Some(directory) = self.path.parent() else { return Ok(()) };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
    }

    /// Holds the server's lock: a refresh token is used once.
    fn lock(&self) -> io::Result<File> {
        self.make_directory()?;
        let path = self.path.with_extension("lock");
        let file =
            File::options().create(true).truncate(false).write(true).mode(0o600).open(path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    }
}

fn write_new(path: &Path, text: &[u8]) -> io::Result<()> {
    use std::io::Write as _;
    // What a killed program has left is replaced.
    drop(std::fs::remove_file(path));
    let mut file = File::options().create_new(true).write(true).mode(0o600).open(path)?;
    file.write_all(text)?;
    file.sync_all()
}

/// Runs what may wait for a disk, or for another process.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, AuthError> {
    let done = tokio::task::spawn_blocking(work).await;
    let failed = |text: String| AuthError::CredentialStoreError(text);
    done.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))
}

#[async_trait]
impl CredentialStore for TokenFile {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let own = self.clone();
        blocking(move || own.read()).await
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let own = self.clone();
        blocking(move || own.write(credentials)).await
    }

    async fn clear(&self) -> Result<(), AuthError> {
        let own = self.clone();
        blocking(move || match std::fs::remove_file(&own.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        })
        .await
    }

    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let own = self.clone();
        let lock = blocking(move || own.lock()).await?;
        Ok(Some(CredentialRefreshGuard::new(lock)))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn name() -> McpServerName {
        McpServerName::new("work").unwrap()
    }

    fn credentials(client: &str) -> StoredCredentials {
        StoredCredentials::new(client.to_owned(), None, vec!["read".to_owned()], Some(7))
    }

    #[tokio::test]
    async fn tokens_are_read_by_their_owner_and_sent_to_their_server_only() {
        let home = tempfile::tempdir().unwrap();
        let file = TokenFile::new(home.path(), &name(), "https://h/mcp");
        assert!(file.load().await.unwrap().is_none() && !file.is_there());
        file.save(credentials("a")).await.unwrap();
        file.save(credentials("b")).await.unwrap();
        assert_eq!(file.load().await.unwrap().unwrap().client_id, "b");
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&file.path), 0o600);
        assert_eq!(mode(file.path.parent().unwrap()), 0o700);
        let elsewhere = TokenFile::new(home.path(), &name(), "https://other/mcp");
        assert!(elsewhere.load().await.unwrap().is_none());
        let names: Vec<_> = std::fs::read_dir(file.path.parent().unwrap()).unwrap().collect();
        assert_eq!(names.len(), 1);
        assert!(TokenFile::remove(home.path(), &name()).unwrap());
        assert!(!TokenFile::remove(home.path(), &name()).unwrap());
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_read_is_an_error_that_repeats_nothing_of_it() {
        let home = tempfile::tempdir().unwrap();
        let file = TokenFile::new(home.path(), &name(), "https://h/mcp");
        file.save(credentials("a")).await.unwrap();
        std::fs::write(&file.path, "{\"credentials\": \"hunter2\"").unwrap();
        let error = file.load().await.unwrap_err().to_string();
        assert!(error.contains("vestal mcp login") && !error.contains("hunter2"), "{error}");
    }

    #[tokio::test]
    async fn one_refreshes_at_a_time() {
        let home = tempfile::tempdir().unwrap();
        let file = TokenFile::new(home.path(), &name(), "https://h/mcp");
        let held = file.acquire_refresh_guard().await.unwrap();
        let again = file.clone();
        let waiting = tokio::spawn(async move { again.acquire_refresh_guard().await.is_ok() });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(held);
        assert!(waiting.await.unwrap());
    }
}
