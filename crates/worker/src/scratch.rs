//! The files of a task that works in a directory of its sandbox, to be looked at by a person.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use async_recursion::async_recursion as boxed;
use vestal_board::TaskId;
use vestal_sandbox::files::{FileError, Files};
use vestal_sandbox::{Engine, Error, FileKind, InvalidTask, SummaryState, TaskName};

use crate::workspace::{is_there, own_sandbox, task_dir};

/// A file that is larger is named and left out.
const MAX_FILE: u64 = 8 << 20;

/// How much is read altogether.
const MAX_ALL: u64 = 64 << 20;

/// How many files and directories are looked at.
const MAX_ENTRIES: usize = 10_000;

/// The permission bit of files that are programs.
const EXECUTABLE: u32 = 0o100;

/// A file of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScratchFile {
    /// Its path in the task's directory.
    pub path: PathBuf,
    /// Whether it is a program.
    pub is_executable: bool,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// What is in the directory of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScratchFiles {
    /// The directory, as the sandbox sees it.
    pub dir: PathBuf,
    /// The files, in the order of their paths.
    pub files: Vec<ScratchFile>,
    /// What was not read: large files, links and other things that are no files, and repositories'
    /// own records.
    pub left_out: Vec<PathBuf>,
}

/// Why the files of a task cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum ScratchError {
    /// There is no such directory.
    #[error(
        "task {task} has no files: no worker has begun it yet, or they went when it was done and nothing waited for it"
    )]
    Nothing {
        /// The task.
        task: TaskId,
    },
    /// Nobody looks at files by starting what is stopped.
    #[error("the files of task {task} are in the sandbox {sandbox}, which does not run")]
    Stopped {
        /// The task.
        task: TaskId,
        /// Its sandbox.
        sandbox: TaskName,
    },
    /// The id of the task is no name of a sandbox.
    #[error(transparent)]
    Name(#[from] InvalidTask),
    /// The sandbox cannot be used.
    #[error(transparent)]
    Sandbox(#[from] Error),
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: FileError,
    },
}

/// Reads what a task has in its directory: in the sandbox of its own, or else in the one that the
/// tasks of the profile share. Nothing is started for it, and no link is followed on purpose.
#[boxed]
pub async fn scratch_files(engine: &Engine, task: &TaskId) -> Result<ScratchFiles, ScratchError> {
    let mut stopped = None;
    for name in [own_sandbox(task).parse()?, TaskName::default_task()] {
        let found = match engine.inspect(&name).await {
            Ok(found) => found,
            Err(Error::NoSandbox { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        if found.iter().all(|one| one.state != SummaryState::Running) {
            let is_own = name != TaskName::default_task();
            // The shared one may have nothing of it; its own was made for it.
            if is_own || stopped.is_none() {
                stopped = Some(name);
            }
            continue;
        }
        let sandbox = Box::pin(engine.sandbox(&name)).await?;
        let dir = task_dir(&sandbox, task).await;
        let files = sandbox.files(None).await?;
        if is_there(&files, &dir).await {
            return Reading::new(files, dir).all().await;
        }
    }
    Err(match stopped {
        Some(sandbox) => ScratchError::Stopped { task: task.clone(), sandbox },
        None => ScratchError::Nothing { task: task.clone() },
    })
}

/// A directory that is being read.
struct Reading {
    files: Files,
    found: ScratchFiles,
    room: u64,
    entries: usize,
}

impl Reading {
    fn new(files: Files, dir: PathBuf) -> Self {
        let found = ScratchFiles { dir, files: Vec::new(), left_out: Vec::new() };
        Self { files, found, room: MAX_ALL, entries: 0 }
    }

    async fn all(mut self) -> Result<ScratchFiles, ScratchError> {
        let mut waiting = vec![PathBuf::new()];
        while let Some(below) = waiting.pop() {
            waiting.extend(self.directory(&below).await?);
        }
        self.found.files.sort_by(|a, b| a.path.cmp(&b.path));
        self.found.left_out.sort();
        Ok(self.found)
    }

    /// Reads the files of a directory, and returns the directories in it.
    async fn directory(&mut self, below: &Path) -> Result<Vec<PathBuf>, ScratchError> {
        let at = self.found.dir.join(below);
        let failed = |source| ScratchError::File { path: at.clone(), source };
        let mut listing = self.files.listing(&at).map_err(failed)?;
        let mut inside = Vec::new();
        loop {
            let Some(entry) = listing.next().await.map_err(failed)? else { return Ok(inside) };
            let name = Path::new(OsStr::from_bytes(&entry.name));
            let path = below.join(name);
            self.entries += 1;
            // What a guest says is a name may be a way out.
            let is_name = matches!(
                name.components().collect::<Vec<_>>()[..],
                [Component::Normal(only)] if only == name.as_os_str()
            );
            if !is_name || self.entries > MAX_ENTRIES || name == Path::new(".git") {
                self.found.left_out.push(path);
                continue;
            }
            match entry.kind {
                FileKind::Directory => inside.push(path),
                FileKind::File if entry.size <= MAX_FILE.min(self.room) => {
                    self.file(path, entry.mode).await;
                }
                FileKind::File | FileKind::Symlink | FileKind::Other => {
                    self.found.left_out.push(path);
                }
            }
        }
    }

    async fn file(&mut self, path: PathBuf, mode: u32) {
        match self.files.read(self.found.dir.join(&path), MAX_FILE.min(self.room)).await {
            Ok(bytes) => {
                self.room = self.room.saturating_sub(bytes.len() as u64);
                let is_executable = mode & EXECUTABLE != 0;
                self.found.files.push(ScratchFile { path, is_executable, bytes });
            }
            // It may have gone, grown, or be nobody's to read.
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "a file of a task was left out");
                self.found.left_out.push(path);
            }
        }
    }
}
