//! From this machine to a sandbox.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use vestal_sandbox::client::CallError;
use vestal_sandbox::files::{FileError, Files, Links, Parents, WriteOptions};
use vestal_sandbox::{Command, FaultCode, FileKind, Sandbox};

use super::host::{HostDir, HostKind};
use super::stream::CountedFile;
use super::{DEEPEST, MODE_BITS, names_contents, names_directory, no_directory};
use crate::console::{Console, CopyStatusLine};
use crate::error::CommandFailure;
use crate::values::quoted;

/// What the owner of a directory must be allowed for it to be filled.
const FILLABLE: u32 = 0o700;

/// A copy into a sandbox.
pub(crate) struct Upload<'a> {
    pub(crate) sandbox: &'a Sandbox,
    pub(crate) files: Files,
    pub(crate) console: Console,
    pub(crate) progress: CopyStatusLine,
}

/// A directory that is being copied.
struct UploadLevel {
    names: std::vec::IntoIter<OsString>,
    from: HostDir,
    to: PathBuf,
}

impl Upload<'_> {
    /// Copies standard input to a file.
    pub(crate) async fn send_stdin(&mut self, to: &Path) -> Result<(), CommandFailure> {
        let mut stdin = tokio::io::stdin();
        let options = WriteOptions::default();
        match self.files.write_from(to, &mut stdin, options).await {
            Ok(written) => {
                self.progress.add_bytes(
                    usize::try_from(written.metadata.version.size).unwrap_or(usize::MAX),
                );
                self.progress.add_file();
                Ok(())
            }
            Err(FileError::Io(error)) => Err(CommandFailure::io("read standard input", &error)),
            Err(error) => Err(about(to, error)),
        }
    }

    /// Copies a file or a directory: into a directory of the sandbox that is
    /// there, else to that name.
    pub(crate) async fn send(&mut self, from: &Path, to: &Path) -> Result<(), CommandFailure> {
        // What the user named may be a link; what is below it is not followed.
        let real = from.canonicalize().map_err(|error| here("read", from, &error))?;
        let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else {
            return Err(CommandFailure::usage(format!(
                "{} has no name of its own",
                from.display()
            )));
        };
        let dir = HostDir::open(parent).map_err(|error| here("open", parent, &error))?;
        let found = dir.look(name).map_err(|error| here("read", from, &error))?;
        let contents = found.0 == HostKind::Directory && names_contents(from);
        let into = if contents { None } else { Some(name) };
        let to = self.destination(to, into, found.0).await?;
        match found {
            (HostKind::File, mode) => self.file(&dir, name, &to, mode).await,
            (HostKind::Directory, mode) => self.tree(&dir, name, to, mode).await,
            (HostKind::Symlink | HostKind::Other, _) => Err(CommandFailure::new(format!(
                "{} is neither a file nor a directory",
                from.display()
            ))),
        }
    }

    /// Returns the absolute path of the copy. Without a name, a directory that is there takes what
    /// is in the one that is copied.
    async fn destination(
        &self,
        to: &Path,
        name: Option<&OsStr>,
        kind: HostKind,
    ) -> Result<PathBuf, CommandFailure> {
        match self.files.stat(to, Links::Follow).await {
            Ok(found) if found.kind == FileKind::Directory => {
                let dir = bytes_path(&found.path);
                Ok(name.map_or_else(|| dir.clone(), |name| dir.join(name)))
            }
            Ok(found) => Ok(bytes_path(&found.path)),
            Err(FileError::Call(CallError::Fault(fault))) if fault.code == FaultCode::NotFound => {
                if kind != HostKind::Directory && names_directory(to) {
                    return Err(no_directory(to));
                }
                let name = to.file_name().ok_or_else(|| about(to, fault.clone()))?;
                let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
                let parent = parent.unwrap_or(Path::new("."));
                let found = self.files.stat(parent, Links::Follow).await;
                let found = found.map_err(|error| self.no_parent(parent, error))?;
                Ok(bytes_path(&found.path).join(name))
            }
            Err(error) => Err(about(to, error)),
        }
    }

    fn no_parent(&self, parent: &Path, error: FileError) -> CommandFailure {
        let absent = matches!(&error, FileError::Call(CallError::Fault(fault)) if fault.code == FaultCode::NotFound);
        let failure = about(parent, error);
        if !absent {
            return failure;
        }
        failure.advise(format!(
            "to make it: vestal run -t {} mkdir -p {}",
            quoted(self.sandbox.task().as_str()),
            quoted(&parent.to_string_lossy())
        ))
    }

    async fn file(
        &mut self,
        dir: &HostDir,
        name: &OsStr,
        to: &Path,
        mode: u32,
    ) -> Result<(), CommandFailure> {
        let failed = |error: io::Error| here("read", Path::new(name), &error);
        let file = dir.open_file(name).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(CommandFailure::new(format!(
                "{} changed while it was copied",
                Path::new(name).display()
            )));
        }
        let mut reader = CountedFile::new(&file, &mut self.progress);
        let options = WriteOptions { mode: Some(mode & MODE_BITS), ..WriteOptions::default() };
        match self.files.write_from(to, &mut reader, options).await {
            Ok(_) => {}
            Err(FileError::Io(error)) => return Err(failed(error)),
            Err(error) => return Err(about(to, error)),
        }
        self.progress.add_file();
        Ok(())
    }

    async fn tree(
        &mut self,
        dir: &HostDir,
        name: &OsStr,
        to: PathBuf,
        mode: u32,
    ) -> Result<(), CommandFailure> {
        let mut levels = vec![self.level(dir, name, to, mode).await?];
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.names.next() else {
                levels.pop();
                continue;
            };
            let deep = levels.len() >= DEEPEST;
            if let Some(level) = levels.last()
                && let Some(below) = self.entry(level, &name).await?
            {
                if deep {
                    return Err(CommandFailure::new(format!(
                        "{} is more than {DEEPEST} directories deep",
                        below.to.display()
                    )));
                }
                levels.push(below);
            }
        }
        Ok(())
    }

    /// Copies one entry; returns a directory that is to be copied next.
    async fn entry(
        &mut self,
        level: &UploadLevel,
        name: &OsStr,
    ) -> Result<Option<UploadLevel>, CommandFailure> {
        let to = level.to.join(name);
        let (kind, mode) =
            level.from.look(name).map_err(|error| here("read", Path::new(name), &error))?;
        match kind {
            HostKind::File => self.file(&level.from, name, &to, mode).await?,
            HostKind::Directory => return self.level(&level.from, name, to, mode).await.map(Some),
            HostKind::Symlink => self.link(&level.from, name, &to).await?,
            HostKind::Other => {
                self.console.warn(&format!(
                    "{} is not a file, directory or link and was left out",
                    Path::new(name).display()
                ));
            }
        }
        Ok(None)
    }

    async fn level(
        &self,
        dir: &HostDir,
        name: &OsStr,
        to: PathBuf,
        mode: u32,
    ) -> Result<UploadLevel, CommandFailure> {
        let failed = |error: io::Error| here("read", Path::new(name), &error);
        let from = dir.child(name).map_err(failed)?;
        let names = from.names().map_err(failed)?.into_iter();
        let made = self.files.mkdir(&to, Parents::Make, Some((mode & MODE_BITS) | FILLABLE)).await;
        made.map_err(|error| about(&to, error))?;
        Ok(UploadLevel { names, from, to })
    }

    /// Makes a symbolic link. The guest has no call for it, so `ln` does it.
    async fn link(&mut self, dir: &HostDir, name: &OsStr, to: &Path) -> Result<(), CommandFailure> {
        let target = dir.read_link(name).map_err(|error| here("read", Path::new(name), &error))?;
        if let Ok(found) = self.files.stat(to, Links::Keep).await
            && found.kind == FileKind::Directory
        {
            return Err(CommandFailure::new(format!(
                "in the sandbox, {} is a directory, and a link was to take its place",
                to.display()
            )));
        }
        let argv =
            [OsStr::new("ln"), OsStr::new("-sfn"), OsStr::new("--"), &target, to.as_os_str()];
        let output = self.sandbox.run(Command::argv(argv).workdir("/")).await?;
        if output.exit.code != Some(0) {
            return Err(CommandFailure::new(format!(
                "in the sandbox, {} could not be linked: {}",
                to.display(),
                output.stderr.text().trim()
            )));
        }
        self.progress.add_file();
        Ok(())
    }
}

fn bytes_path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    PathBuf::from(OsStr::from_bytes(bytes))
}

fn about(path: &Path, error: impl Into<CommandFailure>) -> CommandFailure {
    error.into().about(&format!("in the sandbox, {}", path.display()))
}

fn here(action: &str, path: &Path, error: &io::Error) -> CommandFailure {
    CommandFailure::io(&format!("{action} {}", path.display()), error)
}
