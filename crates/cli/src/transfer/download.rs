//! From a sandbox to this machine.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use vestal_sandbox::files::{DirectoryListing, Files, Links};
use vestal_sandbox::{DirectoryEntry, FileKind};

use super::host::{Existence, HostDir};
use super::stream::CountedFile;
use super::{DEEPEST, names_contents, names_directory, no_directory};
use crate::console::{Console, CopyStatusLine};
use crate::error::CommandFailure;

/// A copy out of a sandbox.
pub(crate) struct Download {
    pub(crate) files: Files,
    pub(crate) console: Console,
    pub(crate) progress: CopyStatusLine,
}

/// A directory that is being copied.
struct DownloadLevel {
    listing: DirectoryListing,
    from: PathBuf,
    to: HostDir,
    /// Set at the end, so that a directory that may not be written can be filled.
    mode: Option<u32>,
    /// Likewise, as what is put into it changes it.
    mtime_ns: i64,
}

/// What is kept of a file.
#[derive(Debug, Clone, Copy)]
struct KeptAttributes {
    mode: u32,
    mtime_ns: i64,
}

impl Download {
    /// Copies a file to standard output.
    pub(crate) async fn print(&mut self, from: &Path) -> Result<(), CommandFailure> {
        let mut stdout = tokio::io::stdout();
        match self.files.read_to(from, &mut stdout, 0, None).await {
            Ok(summary) => {
                self.progress.add_bytes(usize::try_from(summary.bytes).unwrap_or(usize::MAX));
                self.progress.add_file();
                Ok(())
            }
            Err(vestal_sandbox::files::FileError::Io(error)) => Err(CommandFailure::output(&error)),
            Err(error) => Err(about(from, error)),
        }
    }

    /// Copies a file or a directory to a path on this machine: into a directory
    /// that is there, else to that name.
    pub(crate) async fn save(&mut self, from: &Path, to: &Path) -> Result<(), CommandFailure> {
        let found =
            self.files.stat(from, Links::Follow).await.map_err(|error| about(from, error))?;
        let is_there = to.is_dir();
        if found.kind == FileKind::Directory && is_there && names_contents(from) {
            let to = HostDir::open(to).map_err(|error| here("open", to, &error))?;
            let listing = self.files.listing(from).map_err(|error| about(from, error))?;
            let mtime_ns = found.version.mtime_ns;
            let level = DownloadLevel { listing, from: from.to_owned(), to, mode: None, mtime_ns };
            return self.tree(level).await;
        }
        if found.kind == FileKind::File && !is_there && names_directory(to) {
            return Err(no_directory(to));
        }
        let (parent, name) = place(from, to)?;
        let dir = HostDir::open(&parent).map_err(|error| here("open", &parent, &error))?;
        let kept = KeptAttributes { mode: found.mode, mtime_ns: found.version.mtime_ns };
        match found.kind {
            FileKind::File => self.file(from, &dir, &name, kept).await,
            FileKind::Directory => {
                let level = self.level(from.to_owned(), &dir, &name, kept)?;
                self.tree(level).await
            }
            FileKind::Symlink | FileKind::Other => Err(CommandFailure::new(format!(
                "{} is neither a file nor a directory",
                from.display()
            ))),
        }
    }

    async fn file(
        &mut self,
        from: &Path,
        dir: &HostDir,
        name: &OsStr,
        kept: KeptAttributes,
    ) -> Result<(), CommandFailure> {
        let failed = |error: io::Error| here("write", Path::new(name), &error);
        let new = dir.new_file(name).map_err(failed)?;
        let mut writer = CountedFile::new(new.file(), &mut self.progress);
        match self.files.read_to(from, &mut writer, 0, None).await {
            Ok(_) => {}
            Err(vestal_sandbox::files::FileError::Io(error)) => return Err(failed(error)),
            Err(error) => return Err(about(from, error)),
        }
        new.commit(kept.mode, kept.mtime_ns).map_err(failed)?;
        self.progress.add_file();
        Ok(())
    }

    async fn tree(&mut self, top: DownloadLevel) -> Result<(), CommandFailure> {
        let from = top.from.clone();
        let mut levels = vec![top];
        while let Some(level) = levels.last_mut() {
            let next = level.listing.next().await.map_err(|error| about(&level.from, error))?;
            let Some(entry) = next else {
                if let Some(level) = levels.pop() {
                    level.finish()?;
                }
                continue;
            };
            let deep = levels.len() >= DEEPEST;
            if let Some(level) = levels.last()
                && let Some(below) = self.entry(level, &entry).await?
            {
                if deep {
                    return Err(CommandFailure::new(format!(
                        "{} is more than {DEEPEST} directories deep",
                        from.display()
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
        level: &DownloadLevel,
        entry: &DirectoryEntry,
    ) -> Result<Option<DownloadLevel>, CommandFailure> {
        let name = OsStr::from_bytes(&entry.name);
        let from = level.from.join(name);
        let kept = KeptAttributes { mode: entry.mode, mtime_ns: entry.mtime_ns };
        match entry.kind {
            FileKind::File => self.file(&from, &level.to, name, kept).await?,
            FileKind::Directory => return self.level(from, &level.to, name, kept).map(Some),
            FileKind::Symlink => self.link(&from, &level.to, name).await?,
            FileKind::Other => {
                self.console.warn(&format!(
                    "{} is not a file, directory or link and was left out",
                    from.display()
                ));
            }
        }
        Ok(None)
    }

    fn level(
        &self,
        from: PathBuf,
        dir: &HostDir,
        name: &OsStr,
        kept: KeptAttributes,
    ) -> Result<DownloadLevel, CommandFailure> {
        let (to, before) =
            dir.make_child(name).map_err(|error| here("make", Path::new(name), &error))?;
        let listing = self.files.listing(&from).map_err(|error| about(&from, error))?;
        let mode = (before == Existence::Absent).then_some(kept.mode);
        Ok(DownloadLevel { listing, from, to, mode, mtime_ns: kept.mtime_ns })
    }

    async fn link(
        &mut self,
        from: &Path,
        dir: &HostDir,
        name: &OsStr,
    ) -> Result<(), CommandFailure> {
        let found = self.files.stat(from, Links::Keep).await.map_err(|error| about(from, error))?;
        let Some(target) = found.target else {
            return Err(CommandFailure::new(format!(
                "{} changed while it was copied",
                from.display()
            )));
        };
        let target = OsString::from_vec(target.into());
        dir.make_link(name, &target).map_err(|error| here("link", Path::new(name), &error))?;
        self.progress.add_file();
        Ok(())
    }
}

impl DownloadLevel {
    fn finish(self) -> Result<(), CommandFailure> {
        let Some(mode) = self.mode else { return Ok(()) };
        let kept = self.to.set_mtime(self.mtime_ns).and_then(|()| self.to.set_mode(mode));
        kept.map_err(|error| here("set mode and time of", &self.from, &error))
    }
}

/// Returns the directory to copy into and the name to copy to.
///
/// In a directory that is there, the name is the one the user typed: a sandbox
/// has no say in what a file here is called.
fn place(from: &Path, to: &Path) -> Result<(PathBuf, OsString), CommandFailure> {
    if !to.is_dir() {
        let name = to.file_name().ok_or_else(|| {
            CommandFailure::new(format!(
                "{} names neither a directory that is there nor a file",
                to.display()
            ))
        })?;
        return Ok((to.parent().unwrap_or(Path::new("")).to_owned(), name.to_owned()));
    }
    match from.components().next_back() {
        Some(Component::Normal(name)) if name != "~" => Ok((to.to_owned(), name.to_owned())),
        _ => Err(CommandFailure::usage(format!(
            "{} is there already, and {} has no name of its own",
            to.display(),
            from.display()
        ))
        .advise(format!("name the copy: {}", to.join("NAME").display()))),
    }
}

fn about(path: &Path, error: impl Into<CommandFailure>) -> CommandFailure {
    error.into().about(&format!("in the sandbox, {}", path.display()))
}

fn here(action: &str, path: &Path, error: &io::Error) -> CommandFailure {
    CommandFailure::io(&format!("{action} {}", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_copy_is_the_users_choice() {
        let root = tempfile::tempdir().unwrap();
        let there = root.path();
        let name = |from: &str, to: &Path| place(Path::new(from), to).map(|(_, name)| name);
        assert_eq!(name("/a/b.txt", there).unwrap(), "b.txt");
        assert_eq!(name("dir/", there).unwrap(), "dir");
        assert_eq!(name("/a/b.txt", &there.join("c")).unwrap(), "c");
        for nameless in [".", "..", "/", "~", "a/.."] {
            assert!(name(nameless, there).is_err(), "{nameless}");
            assert_eq!(name(nameless, &there.join("c")).unwrap(), "c");
        }
    }
}
