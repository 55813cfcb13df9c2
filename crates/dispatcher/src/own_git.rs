//! The git directory that a worker gets in place of its repository's own.
//!
//! Whoever can write a repository's directory can move every branch of it, and name programs in its
//! settings and hooks that run when the user next uses git. So a worker's sandbox has, at the path
//! of that directory, one that was made for the task: with the refs of the repository as they were,
//! objects of its own beside the repository's, which it can only read, and the settings that matter
//! for commits. What is committed there on the task's branch is taken over by [`collect`]: the
//! objects are copied without following a link, put under their right names and checked by git, and
//! only the task's branch is moved.
//!
//! [`collect`]: OwnGit::collect

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, Mode, OFlags, openat};
use vestal_board::{Board, TaskId, TaskWorkspace};
use vestal_config::Environment;

use crate::git::{GIT_TIMEOUT, Git, GitAt, printed_path};
use crate::workspace::{WorkspaceError, Workspaces, WorktreeRecord, check_path};
use crate::worktree::{is_linked_to, is_registered, root_for};

/// Where such directories are, below the repository's own.
const DIRS: &str = "vestal";
/// Where the repository's objects are mounted, below the directory that stands for its own.
pub const SHARED_OBJECTS: &str = "shared-objects";
/// The most bytes of objects that are taken over at once.
const MAX_OBJECTS: u64 = 4 << 30;
/// The most bytes of a file that names commits.
const MAX_REFS: u64 = 16 << 20;
/// Where the commits are while they are fetched.
const FETCHED: &str = "refs/heads/collected";
/// Settings of the repository that a worker's git needs, too. None of them names a program.
const SETTINGS: [&str; 18] = [
    "core.filemode",
    "core.ignorecase",
    "core.symlinks",
    "core.precomposeunicode",
    "core.autocrlf",
    "core.eol",
    "core.safecrlf",
    "core.quotepath",
    "core.abbrev",
    "core.whitespace",
    "user.name",
    "user.email",
    "author.name",
    "author.email",
    "committer.name",
    "committer.email",
    "commit.cleanup",
    "extensions.objectformat",
];

/// Returns the git directory of a task, given that of its repository.
pub fn own_git_dir(common: &Path, task: &TaskId) -> PathBuf {
    common.join(DIRS).join(task.as_str())
}

/// Makes the git directory of a task whose worker is about to start, or brings it up to date with
/// the repository. Does nothing for a task without a working tree.
pub async fn prepare_own_git(
    board: &Board,
    task: &TaskId,
    tree: Option<&Path>,
    environment: &Environment,
) -> Result<(), WorkspaceError> {
    let git = Git::new(environment, GIT_TIMEOUT);
    match OwnGit::find(board, task, tree, &git).await? {
        Some(own) => own.prepare().await,
        None => Ok(()),
    }
}

/// Takes over what a worker has committed on the branch of its task. Does nothing for a task
/// without a git directory of its own.
pub async fn collect_commits(
    board: &Board,
    task: &TaskId,
    tree: Option<&Path>,
    environment: &Environment,
) -> Result<(), WorkspaceError> {
    let git = Git::new(environment, GIT_TIMEOUT);
    match OwnGit::find(board, task, tree, &git).await? {
        Some(own) => own.collect().await,
        None => Ok(()),
    }
}

/// A task's working tree, and the git directory that its worker has.
pub(crate) struct OwnGit<'g> {
    git: &'g Git,
    repository: GitAt<'g>,
    /// The repository's own directory.
    common: PathBuf,
    tree: PathBuf,
    branch: String,
    /// The directory that the worker has for it.
    dir: PathBuf,
}

impl<'g> OwnGit<'g> {
    async fn find(
        board: &Board,
        task: &TaskId,
        tree: Option<&Path>,
        git: &'g Git,
    ) -> Result<Option<Self>, WorkspaceError> {
        if let Some(record) = WorktreeRecord::read(board.dir(), task)? {
            return Self::of(&record, task, git).await.map(Some);
        }
        let found = async { board.read().await?.task(task).await };
        let Ok(Some(TaskWorkspace::Worktree { path, branch })) =
            found.await.map(|task| task.map(|task| task.workspace))
        else {
            return Ok(None);
        };
        let tree = tree.unwrap_or(&path);
        let workspaces = Workspaces { board: board.dir(), default_workdir: None, git };
        let root = root_for(&workspaces, &path).await?;
        let at = git.at(&root).await?;
        check_path(tree)?;
        if tree == root || !is_registered(&at, tree).await? {
            return Ok(None);
        }
        let branch = branch.unwrap_or_else(|| format!("wt/{task}"));
        let record = WorktreeRecord::new(root, tree.to_owned(), branch, false, None);
        Self::of(&record, task, git).await.map(Some)
    }

    /// Returns that of a tree that is on record.
    pub(crate) async fn of(
        record: &WorktreeRecord,
        task: &TaskId,
        git: &'g Git,
    ) -> Result<Self, WorkspaceError> {
        let repository = git.at(&record.repository).await?;
        let asked = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
        let common = printed_path(&repository.run(asked).await?);
        let dir = own_git_dir(&common, task);
        let (tree, branch) = (record.tree.clone(), record.branch.clone());
        Ok(Self { git, repository, common, tree, branch, dir })
    }

    fn reference(&self) -> String {
        format!("refs/heads/{}", self.branch)
    }

    /// Returns where it is noted which commit was last the same here and there.
    fn note(&self) -> PathBuf {
        self.dir.with_extension("tip")
    }

    async fn tip(&self) -> Result<String, WorkspaceError> {
        let tip = format!("{}^{{commit}}", self.reference());
        let tip = self.repository.run(["rev-parse", "--verify", "--quiet", &tip]).await?;
        Ok(String::from_utf8_lossy(&tip).trim_end().to_owned())
    }

    async fn prepare(&self) -> Result<(), WorkspaceError> {
        if !is_linked_to(&self.repository, &self.tree).await? {
            let reason = "its .git file does not point to its repository";
            return Err(WorkspaceError::path(&self.tree, reason));
        }
        if self.dir.is_dir() {
            self.collect().await?;
        }
        let tip = self.tip().await?;
        // Made beside it and moved into it: the worker may have put links there.
        let dirs = self.common.join(DIRS);
        fs::create_dir_all(&dirs).map_err(WorkspaceError::io("make", &dirs))?;
        let made = tempfile::Builder::new().prefix(".new-").tempdir_in(&dirs);
        let made = made.map_err(WorkspaceError::io("make a directory in", &dirs))?;
        let packed = self.packed_refs().await?;
        let is_current = self.own_tip().ok().flatten().as_deref() == Some(tip.as_str());
        let write = |name: &str, text: &[u8]| {
            let path = made.path().join(name);
            let parent = path.parent().unwrap_or(&path);
            fs::create_dir_all(parent).and_then(|()| fs::write(&path, text))
        };
        let wrote = write("packed-refs", &packed);
        wrote.map_err(WorkspaceError::io("write", made.path()))?;
        if is_current && self.dir.join("HEAD").is_file() {
            return self.take_in(made.path(), &["packed-refs"]);
        }
        let config = self.config().await?;
        let name = self.name_of_tree()?;
        let admin = format!("worktrees/{name}");
        let head = fs::read(self.common.join("HEAD"))
            .unwrap_or_else(|_| b"ref: refs/heads/main\n".to_vec());
        let link = self.tree.join(".git");
        let mut gitdir = link.as_os_str().as_bytes().to_vec();
        gitdir.push(b'\n');
        let write_all = || {
            write("HEAD", &head)?;
            write("config", config.as_bytes())?;
            write(&self.reference(), format!("{tip}\n").as_bytes())?;
            write(&format!("{admin}/HEAD"), format!("ref: {}\n", self.reference()).as_bytes())?;
            write(&format!("{admin}/commondir"), b"../..\n")?;
            write(&format!("{admin}/gitdir"), &gitdir)?;
            write("objects/info/alternates", format!("../{SHARED_OBJECTS}\n").as_bytes())?;
            fs::create_dir_all(made.path().join("objects/pack"))?;
            fs::create_dir_all(made.path().join("logs"))?;
            for file in ["info/exclude", "info/attributes", "shallow"] {
                if let Ok(text) = fs::read(self.common.join(file)) {
                    write(file, &text)?;
                }
            }
            let index = self.common.join(&admin).join("index");
            if index.is_file() {
                let to = made.path().join(&admin).join("index");
                fs::copy(&index, &to)?;
                let time = fs::metadata(&index)?.modified()?;
                fs::File::options().write(true).open(to)?.set_modified(time)?;
            }
            Ok(())
        };
        let wrote: io::Result<()> = write_all();
        wrote.map_err(WorkspaceError::io("write", made.path()))?;
        let all = [
            "HEAD",
            "config",
            "refs",
            "worktrees",
            "objects",
            "logs",
            "info",
            "packed-refs",
            "shallow",
        ];
        self.take_in(made.path(), &all)?;
        let shared = self.dir.join(SHARED_OBJECTS);
        if !fs::symlink_metadata(&shared).is_ok_and(|found| found.is_dir()) {
            let made = remove(&shared).and_then(|()| fs::create_dir(&shared));
            made.map_err(WorkspaceError::io("make", &shared))?;
        }
        self.write_note(&tip)
    }

    /// Moves files and directories into the worker's, in place of what is there. The directory
    /// itself stays the same, for a sandbox may have it mounted.
    fn take_in(&self, from: &Path, names: &[&str]) -> Result<(), WorkspaceError> {
        let move_all = || {
            fs::create_dir_all(&self.dir)?;
            for name in names {
                let (made, there) = (from.join(name), self.dir.join(name));
                if fs::symlink_metadata(&made).is_ok() {
                    remove(&there)?;
                    fs::rename(made, there)?;
                }
            }
            Ok(())
        };
        move_all().map_err(WorkspaceError::io("write", &self.dir))
    }

    fn write_note(&self, tip: &str) -> Result<(), WorkspaceError> {
        let note = self.note();
        fs::write(&note, tip).map_err(WorkspaceError::io("write", &note))
    }

    fn name_of_tree(&self) -> Result<String, WorkspaceError> {
        let link = self.tree.join(".git");
        let text = fs::read(&link).map_err(WorkspaceError::io("read", &link))?;
        let named = printed_path(text.strip_prefix(b"gitdir: ").unwrap_or(&text));
        let name = named.file_name().and_then(OsStr::to_str).map(str::to_owned);
        name.ok_or_else(|| WorkspaceError::path(&self.tree, "its .git file names no directory"))
    }

    async fn packed_refs(&self) -> Result<Vec<u8>, WorkspaceError> {
        let asked = [
            "for-each-ref",
            "--format=%(objectname) %(refname)",
            "refs/heads",
            "refs/remotes",
            "refs/tags",
        ];
        self.repository.clone().printing_at_most(MAX_REFS).run(asked).await
    }

    async fn config(&self) -> Result<String, WorkspaceError> {
        let listed = self.repository.run(["config", "--local", "--list", "-z"]).await?;
        let mut text = "[core]\n\tbare = false\n\tlogAllRefUpdates = true\n".to_owned();
        let mut version = 0;
        for entry in listed.split(|byte| *byte == 0) {
            let entry = String::from_utf8_lossy(entry);
            let Some((name, value)) = entry.split_once('\n') else { continue };
            let key = name.rsplit('.').next().unwrap_or_default();
            let is_remote = name.starts_with("remote.")
                && matches!(key, "url" | "fetch")
                // A password may be in it.
                && !(value.contains("://") && value.contains('@'));
            if SETTINGS.contains(&name) || is_remote {
                text.push_str(&setting(name, value));
            }
            if name == "extensions.objectformat" {
                version = 1;
            }
        }
        text.push_str(&setting("core.repositoryformatversion", &version.to_string()));
        Ok(text)
    }

    /// Takes over what was committed on the branch of the task, and nothing else.
    pub(crate) async fn collect(&self) -> Result<(), WorkspaceError> {
        if !self.dir.is_dir() {
            return Ok(());
        }
        let (Some(theirs), ours) = (self.own_tip()?, self.tip().await?) else { return Ok(()) };
        let last = fs::read_to_string(self.note()).unwrap_or_default();
        // On a backend without isolation the worker commits into the repository itself.
        if theirs == ours || theirs == last {
            return Ok(());
        }
        let scratch = tempfile::Builder::new().prefix("vestal-commits-").tempdir();
        let scratch =
            scratch.map_err(WorkspaceError::io("make a directory in", &std::env::temp_dir()))?;
        let format =
            if theirs.len() == 64 { "--object-format=sha256" } else { "--object-format=sha1" };
        let at = self.git.at(scratch.path()).await?;
        at.run(["init", "--bare", "--quiet", "--template=", format]).await?;
        let objects = scratch.path().join("objects");
        self.copy_objects(&objects)
            .map_err(WorkspaceError::io("copy the objects of", &self.dir))?;
        let write = || {
            let mut shared = self.common.join("objects").into_os_string().into_encoded_bytes();
            shared.push(b'\n');
            fs::create_dir_all(objects.join("info"))?;
            fs::write(objects.join("info/alternates"), shared)?;
            if let Ok(shallow) = fs::read(self.common.join("shallow")) {
                fs::write(scratch.path().join("shallow"), shallow)?;
            }
            fs::create_dir_all(scratch.path().join("refs/heads"))?;
            fs::write(scratch.path().join(FETCHED), format!("{theirs}\n"))
        };
        write().map_err(WorkspaceError::io("write", scratch.path()))?;
        // A branch that the user has moved meanwhile is only moved forward.
        let force = if ours == last { "+" } else { "" };
        let refs = format!("{force}{FETCHED}:{}", self.reference());
        let from = scratch.path().as_os_str();
        let fetch = [
            // It says why it moved no branch only if it is not told to be quiet.
            "fetch",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
            "--update-head-ok",
        ];
        let words = fetch.iter().map(OsStr::new).chain([from, OsStr::new(&refs)]);
        let fetched = self
            .repository
            .clone()
            .setting("protocol.file.allow", "always")
            .setting("fetch.fsckObjects", "true")
            .run(words)
            .await;
        // Somebody else may have taken them over at the same time.
        if self.tip().await? != theirs {
            fetched?;
            return Err(WorkspaceError::path(
                &self.tree,
                format!("the commits of its worker could not be put on {}", self.branch),
            ));
        }
        self.write_note(&theirs)?;
        // The index of the tree is of the commit before.
        if is_linked_to(&self.repository, &self.tree).await? {
            self.git.at(&self.tree).await?.run(["reset", "--quiet"]).await?;
        }
        Ok(())
    }

    /// Forgets the directory, when the working tree is gone.
    pub(crate) fn forget(&self) -> Result<(), WorkspaceError> {
        remove(&self.dir)
            .and_then(|()| remove(&self.note()))
            .map_err(WorkspaceError::io("remove", &self.dir))
    }

    /// Returns the commit that the worker's branch is at. Nothing there is trusted: no link is
    /// followed, and what is read is the name of an object or nothing.
    fn own_tip(&self) -> Result<Option<String>, WorkspaceError> {
        let read = || -> io::Result<Option<String>> {
            let dir = open_dir(CWD, self.dir.as_os_str())?;
            match read_file(&dir, Path::new(&self.reference()), 256) {
                Ok(text) => return Ok(object_name(&text)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            let packed = match read_file(&dir, Path::new("packed-refs"), MAX_REFS) {
                Ok(packed) => packed,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            let wanted = format!(" {}", self.reference());
            let mut lines = packed.split(|byte| *byte == b'\n');
            let line = lines.find(|line| line.ends_with(wanted.as_bytes()));
            Ok(line.and_then(|line| line.strip_suffix(wanted.as_bytes())).and_then(object_name))
        };
        read().map_err(WorkspaceError::io("read", &self.dir))
    }

    /// Copies the objects that the worker has made. Their names and contents are checked when git
    /// takes them from the copy.
    fn copy_objects(&self, to: &Path) -> io::Result<()> {
        let objects = open_dir(open_dir(CWD, self.dir.as_os_str())?, OsStr::new("objects"))?;
        let mut room = MAX_OBJECTS;
        for entry in Dir::read_from(&objects)? {
            let name = entry?.file_name().to_bytes().to_vec();
            let is_loose = name.len() == 2 && name.iter().all(u8::is_ascii_hexdigit);
            if !is_loose && name != b"pack" {
                continue;
            }
            let name = OsStr::from_bytes(&name).to_owned();
            let dir = open_dir(&objects, &name)?;
            let target = to.join(&name);
            fs::create_dir_all(&target)?;
            for entry in Dir::read_from(&dir)? {
                let file = entry?.file_name().to_bytes().to_vec();
                let ending = file.rsplit(|byte| *byte == b'.').next();
                let is_pack = file.starts_with(b"pack-")
                    && ending.is_some_and(|ending| ending == b"pack" || ending == b"idx");
                let is_object = file.len() >= 38 && file.iter().all(u8::is_ascii_hexdigit);
                if !(if is_loose { is_object } else { is_pack }) {
                    continue;
                }
                let file = OsStr::from_bytes(&file);
                let mut from = open_file(&dir, file)?.take(room);
                let mut copy = fs::File::create(target.join(file))?;
                room -= io::copy(&mut from, &mut copy)?;
                copy.flush()?;
                if room == 0 {
                    return Err(io::Error::other("they are more than 4 GiB"));
                }
            }
        }
        Ok(())
    }
}

/// Writes a setting as it is in a file of git.
fn setting(name: &str, value: &str) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let (section, key) = name.rsplit_once('.').unwrap_or((name, ""));
    let section = match section.split_once('.') {
        Some((section, below)) => format!("{section} \"{}\"", quoted(below)),
        None => section.to_owned(),
    };
    format!("[{section}]\n\t{key} = \"{}\"\n", quoted(value))
}

fn object_name(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?.trim_end();
    let is_name = matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit());
    is_name.then(|| text.to_owned())
}

fn open_dir(at: impl std::os::fd::AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, name, flags, Mode::empty())?)
}

/// Opens a file, which is no link and makes nobody wait.
fn open_file(at: impl std::os::fd::AsFd, name: &OsStr) -> io::Result<fs::File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::File::from(openat(at, name, flags, Mode::empty())?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no file")) }
}

/// Reads a file below a directory without following a link on the way.
fn read_file(dir: &OwnedFd, path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut at = dir.try_clone()?;
    for part in path.parent().into_iter().flat_map(Path::components) {
        at = open_dir(&at, part.as_os_str())?;
    }
    let mut text = Vec::new();
    open_file(&at, path.file_name().unwrap_or_default())?.take(most).read_to_end(&mut text)?;
    Ok(text)
}

/// Removes what is there, if anything is, without following a link.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
#[path = "own_git_tests.rs"]
mod tests;
