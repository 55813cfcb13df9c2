//! Files of a task that works in an empty directory: all of them are new.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use async_recursion::async_recursion as boxed;
use vestal_config::Environment;

use crate::diff::{MAX_PATCH, TaskDiff, between};
use crate::git::{GIT_TIMEOUT, Git};
use crate::workspace::WorkspaceError;

/// A file that a task has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    /// Its path in the task's directory.
    pub path: PathBuf,
    /// Whether it is a program.
    pub is_executable: bool,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// Returns the difference between nothing and these files of a directory, as git has it. `left_out` are
/// those that could not be looked at; what cannot be a path of a repository is added to them.
#[boxed]
pub async fn diff_of_new(
    dir: PathBuf,
    files: Vec<NewFile>,
    mut left_out: Vec<PathBuf>,
    environment: &Environment,
) -> Result<TaskDiff, WorkspaceError> {
    let scratch = tempfile::Builder::new().prefix("vestal-diff-").tempdir();
    let scratch =
        scratch.map_err(WorkspaceError::io("make a directory in", &std::env::temp_dir()))?;
    let (tree, repository) = (scratch.path().join("tree"), scratch.path().join("repository"));
    fs::create_dir(&tree).map_err(WorkspaceError::io("make", &tree))?;
    fs::create_dir(&repository).map_err(WorkspaceError::io("make", &repository))?;
    for file in files {
        if !is_plain(&file.path) || write(&tree, &file).is_err() {
            // Such as a name that another file has as its directory.
            left_out.push(file.path);
        }
    }
    let git = Git::new(environment, GIT_TIMEOUT);
    git.at(&repository).await?.run(["init", "--quiet", "--bare", "--template="]).await?;
    let git = git.at(&repository).await?.with("GIT_INDEX_FILE", scratch.path().join("index"));
    let git = git.with("GIT_DIR", &repository).with("GIT_WORK_TREE", &tree);
    let git = git.printing_at_most(MAX_PATCH);
    let name = |printed: Vec<u8>| String::from_utf8_lossy(&printed).trim_end().to_owned();
    // There is no index yet, which is one of nothing.
    let nothing = name(git.run(["write-tree"]).await?);
    git.run(["add", "--all", "--force", "--", "."]).await?;
    let all = name(git.run(["write-tree"]).await?);
    let (files, patch) = between(&git, &nothing, &all).await?;
    Ok(TaskDiff { tree: dir, branch: String::new(), base: String::new(), files, patch, left_out })
}

/// Reports whether a path stays where it is put, and is none that git keeps for itself.
fn is_plain(path: &Path) -> bool {
    let mut parts = path.components().peekable();
    parts.peek().is_some()
        && parts.all(|part| match part {
            Component::Normal(name) => !name.eq_ignore_ascii_case(".git"),
            _ => false,
        })
}

fn write(tree: &Path, file: &NewFile) -> std::io::Result<()> {
    let path = tree.join(&file.path);
    if let Some(above) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(above)?;
    }
    let mode = if file.is_executable { 0o700 } else { 0o600 };
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(mode).open(path)?.write_all(&file.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::{Change, ChangedFile};

    fn file(path: &str, bytes: &[u8]) -> NewFile {
        NewFile { path: path.into(), is_executable: false, bytes: bytes.to_vec() }
    }

    fn environment() -> Environment {
        #[expect(clippy::disallowed_methods, reason = "a test finds git where its caller does")]
        let path = std::env::var("PATH").unwrap();
        Environment::from_pairs([("PATH", path.as_str())])
    }

    #[tokio::test]
    async fn all_that_a_task_has_made_is_new_and_its_patch_makes_it_elsewhere() {
        let files = vec![
            file("notes.md", b"one\ntwo\n"),
            file("sub/a \"b\"\n.bin", b"\0\x01"),
            NewFile { is_executable: true, ..file("run.sh", b"#!/bin/sh\n") },
            file(".gitignore", b"*\n"),
            // None of these leaves the directory, or is taken for git's own.
            file("../out", b"x"),
            file("/etc/out", b"x"),
            file("sub/.GIT/config", b"[core]\n"),
            file("notes.md/below", b"x"),
        ];
        let dir = PathBuf::from("/workspace/kanban/t_1");
        let left_out = vec![PathBuf::from("link")];
        let found = diff_of_new(dir.clone(), files, left_out, &environment()).await.unwrap();
        let added = |path: &str, lines| ChangedFile {
            path: path.into(),
            from: None,
            change: Change::Added,
            lines,
        };
        assert_eq!(
            found.files,
            [
                added(".gitignore", Some((1, 0))),
                added("notes.md", Some((2, 0))),
                added("run.sh", Some((1, 0))),
                added("sub/a \"b\"\n.bin", None),
            ]
        );
        let left_out = ["link", "../out", "/etc/out", "sub/.GIT/config", "notes.md/below"];
        assert_eq!(found.left_out, left_out.map(PathBuf::from));
        assert_eq!((found.tree, found.branch.as_str(), found.base.as_str()), (dir, "", ""));

        let made = tempfile::tempdir().unwrap();
        let patch = made.path().join("patch");
        fs::write(&patch, found.patch.unwrap()).unwrap();
        let (environment, elsewhere) = (environment(), made.path().join("elsewhere"));
        fs::create_dir(&elsewhere).unwrap();
        let git = Git::new(&environment, GIT_TIMEOUT);
        git.at(&elsewhere).await.unwrap().run(["init", "--quiet"]).await.unwrap();
        git.at(&elsewhere).await.unwrap().run(["apply", "../patch"]).await.unwrap();
        assert_eq!(fs::read(elsewhere.join("notes.md")).unwrap(), b"one\ntwo\n");
        assert_eq!(fs::read(elsewhere.join("sub/a \"b\"\n.bin")).unwrap(), b"\0\x01");
    }

    #[tokio::test]
    async fn a_task_that_has_made_nothing_has_changed_nothing() {
        let found = diff_of_new("/w".into(), Vec::new(), Vec::new(), &environment()).await.unwrap();
        assert_eq!((found.files, found.patch), (Vec::new(), Some(Vec::new())));
    }
}
