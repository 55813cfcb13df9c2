//! When the directory of this machine that is a sandbox's workspace is synced with it: before
//! a command and after it, on backends whose sandboxes do not see this machine's files.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use async_recursion::async_recursion as boxed;
use jiff::Timestamp;
use rustix::fs::{Mode, OFlags, openat};
use vestal_tree::OpenTree;

use super::Sandbox;
use crate::backend::HostDirectories;
use crate::engine::Inner;
use crate::files::{FileError, Files, Links, Parents};
use crate::mounts::open_synced;
use crate::settings::keys;
use crate::store::make_private_dir;
use crate::sync::{
    AGREEMENT_FILE, Agreement, IGNORE_FILE, SyncDirection, SyncTask, TreeEnd,
    refuse_unless_brought_back, sync,
};
use crate::{Engine, Error, PublishedName, SyncError, SyncReport, TaskName};

/// Most bytes of it that are read.
const MAX_IGNORE: u64 = 256 << 10;

/// Hidden files stay out of what is shown to a sandbox.
const HIDDEN: &[u8] = b".*\n";

/// How a sync is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMode {
    /// Do it.
    Run,
    /// Say what would be done.
    DryRun,
}

/// Who asks for a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Occasion {
    Asked(SyncMode),
    BeforeCommand,
    AfterCommand,
    Removal,
}

impl Sandbox {
    /// Syncs the directory that the sandbox's workspace is a copy of. Returns nothing if
    /// there is none: nothing is mounted, or the sandbox sees the directory itself.
    ///
    /// Commands do the same before they start and when they have ended.
    #[boxed]
    pub async fn sync(&self, mode: SyncMode) -> Result<Option<SyncReport>, Error> {
        self.sync_on(Occasion::Asked(mode)).await
    }

    /// Returns the directory of this machine that is copied to the sandbox and back.
    #[boxed]
    pub async fn synced_directory(&self) -> Option<PathBuf> {
        let (backend, _, overrides) = self.handle.made().await;
        let is_synced = backend.declaration().host_directories == HostDirectories::Synced;
        overrides.mount.filter(|_| is_synced)
    }

    /// Returns what syncs have had to say since this was called last, a sentence each.
    pub fn take_sync_notes(&self) -> Vec<String> {
        let mut notes = self.handle.sync_notes.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *notes)
    }

    /// Brings the sandbox up to date before a command. A command is not run on files that
    /// are not those of now.
    pub(crate) async fn sync_before(&self) -> Result<(), Error> {
        self.bring_credentials().await?;
        let report = self.sync_on(Occasion::BeforeCommand).await?;
        self.note_sync(report.as_ref());
        Ok(())
    }

    /// Brings back what a command, or a write to the sandbox's files, has changed. That it fails
    /// is noted, and the next sync does it.
    #[boxed]
    pub async fn bring_back(&self) {
        match self.sync_on(Occasion::AfterCommand).await {
            Ok(report) => self.note_sync(report.as_ref()),
            // Its next use syncs it.
            Err(Error::Stopped { .. } | Error::NoSandbox { .. }) => {}
            Err(error) => {
                tracing::warn!(task = %self.task(), %error, "cannot sync files after a command");
                self.push_notes([format!(
                    "what the command changed is not all here yet: {error}; vestal sync {} brings it",
                    crate::key::quoted(self.task().as_str())
                )]);
            }
        }
    }

    async fn sync_on(&self, occasion: Occasion) -> Result<Option<SyncReport>, Error> {
        let (backend, record, overrides) = self.handle.made().await;
        let is_synced = backend.declaration().host_directories == HostDirectories::Synced;
        let Some(mount) = overrides.mount.filter(|_| is_synced) else { return Ok(None) };
        if occasion == Occasion::Removal && !mount.exists() {
            return Ok(None);
        }
        let connection = match occasion {
            // What ended meanwhile is not started for it.
            Occasion::AfterCommand => self.running_connection().await?,
            _ => self.connection().await?,
        };
        let engine = &self.handle.engine;
        let opened = open_synced(&engine.settings, &mount, self.task());
        if let (Occasion::Removal, Err(error)) = (occasion, &opened) {
            // What has its name now is nothing to copy to, and the copy can go all the same.
            tracing::warn!(task = %self.task(), %error, "nothing is brought back");
            return Ok(None);
        }
        let root = OpenTree::of(opened.map_err(Error::backend(backend.name()))?, &mount);
        let ignore = sync_rules(engine, &root)?;
        let workspace = (backend.declaration().workspace)(&record.locator);
        let path = workspace.as_os_str().as_bytes().to_vec().into();
        let dir = engine.dir(self.key());
        let report = sync(SyncTask {
            store: dir.path(),
            here: Arc::new(root),
            there: TreeEnd::There { connection, path },
            ignore,
            direction: SyncDirection::Both,
            dry_run: occasion == Occasion::Asked(SyncMode::DryRun),
            // A warning about a loss is repeated even if it was given before.
            says_all: matches!(occasion, Occasion::Asked(_) | Occasion::Removal),
            known_only: occasion == Occasion::Removal,
            progress: &engine.progress,
        })
        .await?;
        self.handle.mark_used();
        Ok(Some(report))
    }

    /// Brings back what is not here yet before the sandbox's files are removed. What cannot be
    /// brought back is nowhere else, so it is not removed either.
    pub(crate) async fn bring_back_at_last(&self) -> Result<(), Error> {
        let report = self.sync_on(Occasion::Removal).await?;
        let report = report.map(refuse_unless_brought_back).transpose()?;
        self.note_sync(report.as_ref());
        Ok(())
    }

    /// Copies a directory below the home of the sandbox, and returns where it is there. Only what
    /// changed is copied, what is deleted here goes there, and nothing comes back.
    pub(crate) async fn publish_copy(
        &self,
        name: &PublishedName,
        source: &Path,
    ) -> Result<PathBuf, Error> {
        let connection = self.connection().await?;
        let place = PathBuf::from(format!("~/.vestal/published/{name}"));
        let files = Files::new(connection.clone());
        files.mkdir(&place, Parents::Make, None).await.map_err(unpublished)?;
        let opened = source.canonicalize().map_err(SyncError::Here)?;
        let root = OpenTree::open(&opened).map_err(SyncError::Tree)?;
        let engine = &self.handle.engine;
        let store = engine.dir(self.key()).path().join("copies").join(name.to_string());
        make_private_dir(&store)?;
        sync(SyncTask {
            store: &store,
            here: Arc::new(root),
            there: TreeEnd::There {
                connection,
                path: place.as_os_str().as_bytes().to_vec().into(),
            },
            ignore: HIDDEN.to_vec(),
            direction: SyncDirection::Out,
            dry_run: false,
            says_all: false,
            known_only: false,
            progress: &engine.progress,
        })
        .await?;
        let found = files.stat(&place, Links::Keep).await.map_err(unpublished)?;
        Ok(PathBuf::from(OsStr::from_bytes(&found.path)))
    }

    fn note_sync(&self, report: Option<&SyncReport>) {
        self.push_notes(report.map(SyncReport::notes).unwrap_or_default());
    }

    pub(super) fn push_notes(&self, notes: impl IntoIterator<Item = String>) {
        let mut kept = self.handle.sync_notes.lock().unwrap_or_else(PoisonError::into_inner);
        for note in notes {
            if !kept.contains(&note) {
                kept.push(note);
            }
        }
        // Somebody who never asks has no use for old ones.
        let many = kept.len().saturating_sub(1000);
        kept.drain(..many);
    }
}

fn unpublished(error: FileError) -> SyncError {
    match error {
        FileError::Call(error) => SyncError::Call(error),
        other => SyncError::Here(std::io::Error::other(other)),
    }
}

/// How a directory and its copy stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncStatus {
    /// The directory.
    pub directory: PathBuf,
    /// When both were last the same; nothing before the first time.
    pub synced_at: Option<Timestamp>,
    /// Versions of the sandbox that are kept under another name, and wait for somebody to look
    /// at them.
    pub conflicts: Vec<PathBuf>,
}

impl Engine {
    /// Returns how the directory that is copied to a sandbox and back stands, without asking
    /// the sandbox; nothing where none is.
    pub fn sync_status(&self, task: &TaskName) -> Result<Option<SyncStatus>, Error> {
        let key = self.inner.key(task);
        let dir = self.inner.dir(&key);
        let Some(record) = dir.record_of(&key)? else { return Ok(None) };
        let backend = self.inner.backend(task, &record.backend)?;
        let is_synced = backend.declaration().host_directories == HostDirectories::Synced;
        let Some(directory) = record.overrides.mount.filter(|_| is_synced) else {
            return Ok(None);
        };
        let Some((_, agreement)) = Agreement::read(dir.path())? else {
            return Ok(Some(SyncStatus { directory, synced_at: None, conflicts: Vec::new() }));
        };
        let written = std::fs::metadata(dir.path().join(AGREEMENT_FILE));
        let synced_at = written.and_then(|found| found.modified()).ok();
        let synced_at = synced_at.and_then(|time| Timestamp::try_from(time).ok());
        let conflicts = agreement.base.keys().filter(|path| is_set_aside(path));
        let conflicts = conflicts.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect();
        Ok(Some(SyncStatus { directory, synced_at, conflicts }))
    }

    /// Brings back what a sandbox has changed in a directory of this machine before its files
    /// are removed.
    pub(crate) async fn bring_back_at_last(&self, task: &TaskName) -> Result<(), Error> {
        match self.sync_status(task)? {
            Some(SyncStatus { synced_at: Some(_), .. }) => {
                self.sandbox(task).await?.bring_back_at_last().await
            }
            _ => Ok(()),
        }
    }
}

/// Returns whether a path has the name of a version that was set aside.
fn is_set_aside(path: &[u8]) -> bool {
    const MARK: &[u8] = b".conflict-";
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let at = name.windows(MARK.len()).rposition(|part| part == MARK);
    let digits = at.and_then(|at| name[at + MARK.len()..].get(..8));
    digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

/// Returns what of a directory takes no part: the rules of the settings, then its own.
pub(crate) fn sync_rules(engine: &Inner, root: &OpenTree) -> Result<Vec<u8>, Error> {
    let mut rules = Vec::new();
    for pattern in engine.settings.get(&keys::SYNC_IGNORE)?.value.iter() {
        rules.extend_from_slice(pattern.as_bytes());
        rules.push(b'\n');
    }
    rules.extend(ignore_file(root).map_err(SyncError::Here)?);
    Ok(rules)
}

/// Returns the rules at the top of a directory. Nobody but the user of this machine decides
/// what takes no part: the sandbox's file never comes here.
fn ignore_file(root: &OpenTree) -> std::io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(root, OsStr::new(IGNORE_FILE), flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::LOOP) => return Ok(Vec::new()),
        Err(errno) => return Err(errno.into()),
    };
    let mut rules = Vec::new();
    if file.metadata()?.is_file() {
        file.take(MAX_IGNORE).read_to_end(&mut rules)?;
    }
    Ok(rules)
}
