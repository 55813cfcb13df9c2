use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;
use std::time::Duration;

use vestal_config::Environment;

use super::*;
use crate::worktree::{KeepReason, Removed};

pub(crate) struct WorkspaceFixture {
    dir: tempfile::TempDir,
    git: Git,
    default_workdir: Option<PathBuf>,
}

impl WorkspaceFixture {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::from_pairs([
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("HOME", dir.path().display().to_string()),
        ]);
        let git = Git::new(&environment, Duration::from_mins(1));
        Self { dir, git, default_workdir: None }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn board(&self) -> PathBuf {
        self.path("board")
    }

    pub(crate) fn repository(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).unwrap();
        self.sh(
            &path,
            "git init -q -b main && echo one > file && git add file && git commit -qm one",
        );
        path
    }

    /// Runs shell text in a directory and returns what it printed.
    pub(crate) fn sh(&self, dir: &Path, text: &str) -> String {
        let output = Command::new("sh")
            .args(["-ec", text])
            .current_dir(dir)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.dir.path())
            .env("GIT_AUTHOR_NAME", "a")
            .env("GIT_AUTHOR_EMAIL", "a@localhost")
            .env("GIT_COMMITTER_NAME", "a")
            .env("GIT_COMMITTER_EMAIL", "a@localhost")
            .output()
            .unwrap();
        assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    async fn make(
        &self,
        task: &TaskId,
        workspace: TaskWorkspace,
    ) -> Result<WorkspaceDir, WorkspaceError> {
        let board = self.board();
        self.workspaces(&board).make(task, &workspace).await
    }

    pub(crate) async fn tree(
        &self,
        task: &TaskId,
        path: &Path,
    ) -> Result<WorkspaceDir, WorkspaceError> {
        self.make(task, TaskWorkspace::Worktree { path: path.to_owned(), branch: None }).await
    }

    pub(crate) async fn remove(&self, task: &TaskId) -> Removed {
        let board = self.board();
        self.workspaces(&board).remove(task).await.unwrap()
    }

    pub(crate) fn workspaces<'a>(&'a self, board: &'a Path) -> Workspaces<'a> {
        Workspaces { board, default_workdir: self.default_workdir.as_deref(), git: &self.git }
    }
}

pub(crate) fn task() -> TaskId {
    TaskId::generate().unwrap()
}

#[tokio::test]
async fn scratch_is_nothing_on_the_host() {
    let fixture = WorkspaceFixture::new();
    assert_eq!(
        fixture.make(&task(), TaskWorkspace::Scratch).await.unwrap(),
        WorkspaceDir::default()
    );
    assert!(!fixture.board().exists());
}

#[tokio::test]
async fn a_directory_is_made_if_it_is_missing() {
    let fixture = WorkspaceFixture::new();
    let path = fixture.path("a/b");
    for _ in 0..2 {
        let place = fixture.make(&task(), TaskWorkspace::Dir { path: path.clone() }).await.unwrap();
        assert_eq!(place, WorkspaceDir { path: Some(path.clone()), branch: None });
        assert!(path.is_dir());
    }
}

#[tokio::test]
async fn a_workspace_in_which_no_worker_could_begin_is_refused_and_nothing_is_made() {
    let fixture = WorkspaceFixture::new();
    let mut environment = vestal_config::Environment::capture();
    environment.insert("HOME", fixture.path("home"));
    let check = async |workspace: TaskWorkspace| {
        check_workspace(&workspace, None, &environment).await.map_err(|error| error.to_string())
    };
    let dir = |path: &Path| TaskWorkspace::Dir { path: path.to_owned() };
    let tree = |path: &Path| TaskWorkspace::Worktree { path: path.to_owned(), branch: None };
    let (typo, plain) = (fixture.path("typo"), fixture.path("plain"));
    fs::create_dir(&plain).unwrap();
    assert_eq!(check(TaskWorkspace::Scratch).await, Ok(()));
    assert_eq!(check(dir(&plain)).await, Ok(()));
    let missing = check(dir(&typo)).await.unwrap_err();
    assert!(missing.ends_with("there is no such directory"), "{missing}");
    assert!(!typo.exists());
    for system in ["/etc", "/etc/ssl", "/usr"] {
        let refused = check(dir(Path::new(system))).await.unwrap_err();
        assert!(refused.contains("belongs to the system"), "{refused}");
    }
    let no_repository = check(tree(&plain)).await.unwrap_err();
    assert!(no_repository.ends_with("it is in no git repository"), "{no_repository}");
    let repository = fixture.repository("repository");
    assert_eq!(check(tree(&repository)).await, Ok(()));
    assert_eq!(check(tree(&repository.join("new"))).await, Ok(()), "one that is still to be made");
    assert!(!repository.join("new").exists());
}

#[tokio::test]
async fn paths_that_may_mean_another_place_are_refused() {
    let fixture = WorkspaceFixture::new();
    let real = fixture.path("real");
    fs::create_dir(&real).unwrap();
    fs::write(fixture.path("file"), "").unwrap();
    symlink(&real, fixture.path("link")).unwrap();
    symlink(fixture.path("nowhere"), fixture.path("dangling")).unwrap();
    let refused = [
        PathBuf::from("relative"),
        PathBuf::from("/"),
        fixture.path("real/../other"),
        fixture.path("real/./other"),
        fixture.path("link"),
        fixture.path("link/below"),
        fixture.path("dangling"),
        fixture.path("file"),
    ];
    for path in refused {
        let dir = TaskWorkspace::Dir { path: path.clone() };
        let tree = TaskWorkspace::Worktree { path: path.clone(), branch: None };
        for workspace in [dir, tree] {
            let made = fixture.make(&task(), workspace).await;
            assert!(made.is_err(), "{}: {made:?}", path.display());
        }
    }
    assert!(!fixture.path("other").exists() && !fixture.path("nowhere").exists());
    assert_eq!(fs::read_dir(&real).unwrap().count(), 0);
}

#[tokio::test]
async fn a_worktree_is_made_below_its_repository_and_found_again() {
    let fixture = WorkspaceFixture::new();
    let (task, root) = (task(), fixture.repository("repo"));
    let place = fixture.tree(&task, &root).await.unwrap();
    let tree = root.join(".worktrees").join(task.as_str());
    let branch = format!("wt/{task}");
    assert_eq!(place, WorkspaceDir { path: Some(tree.clone()), branch: Some(branch.clone()) });
    assert_eq!(fs::read_to_string(tree.join("file")).unwrap(), "one\n");
    assert_eq!(
        fixture.sh(&root, "git status --porcelain"),
        "",
        "the trees show up in the repository"
    );

    // A retry finds the work of the run before.
    fs::write(tree.join("half"), "done").unwrap();
    assert_eq!(fixture.tree(&task, &root).await.unwrap(), place);
    assert_eq!(fs::read_to_string(tree.join("half")).unwrap(), "done");

    // Somebody removed the directory: git's own memory of it is not a hindrance.
    fs::remove_dir_all(&tree).unwrap();
    assert_eq!(fixture.tree(&task, &root).await.unwrap(), place);
    assert_eq!(fixture.sh(&tree, "git symbolic-ref --short HEAD"), branch);
}

#[tokio::test]
async fn a_worktree_uses_the_branch_and_directory_that_are_given() {
    let fixture = WorkspaceFixture::new();
    let root = fixture.repository("repo");
    fixture.sh(&root, "git branch topic");
    let path = root.join(".worktrees/mine");
    let wanted = TaskWorkspace::Worktree { path: path.clone(), branch: Some("topic".into()) };
    let place = fixture.make(&task(), wanted).await.unwrap();
    assert_eq!(place, WorkspaceDir { path: Some(path.clone()), branch: Some("topic".into()) });
    assert_eq!(fixture.sh(&path, "git symbolic-ref --short HEAD"), "topic");
}

#[tokio::test]
async fn a_task_that_names_no_repository_gets_the_boards() {
    let mut fixture = WorkspaceFixture::new();
    let task = task();
    let none = TaskWorkspace::Worktree { path: PathBuf::new(), branch: None };
    assert!(matches!(fixture.make(&task, none.clone()).await, Err(WorkspaceError::NoRepository)));
    let root = fixture.repository("repo");
    fixture.default_workdir = Some(root.clone());
    let place = fixture.make(&task, none).await.unwrap();
    assert_eq!(place.path, Some(root.join(".worktrees").join(task.as_str())));
}

#[tokio::test]
async fn what_git_refuses_is_reported_in_its_words() {
    let fixture = WorkspaceFixture::new();
    let root = fixture.repository("repo");
    let taken = TaskWorkspace::Worktree { path: root.clone(), branch: Some("main".into()) };
    let error = fixture.make(&task(), taken).await.unwrap_err().to_string();
    assert!(error.contains("'main' is already"), "{error}");

    let plain = fixture.path("plain");
    fs::create_dir(&plain).unwrap();
    let error = fixture.tree(&task(), &plain).await.unwrap_err().to_string();
    assert!(error.contains("in no git repository"), "{error}");

    for branch in ["-d", "a..b", "", "x y"] {
        let wanted = TaskWorkspace::Worktree { path: root.clone(), branch: Some(branch.into()) };
        let error = fixture.make(&task(), wanted).await.unwrap_err().to_string();
        assert!(error.contains("not a valid branch name"), "{error}");
    }

    let full = root.join(".worktrees/full");
    fs::create_dir_all(&full).unwrap();
    fs::write(full.join("x"), "").unwrap();
    let error = fixture.tree(&task(), &full).await.unwrap_err().to_string();
    assert!(error.contains("not empty"), "{error}");
}

#[tokio::test]
async fn a_repository_runs_no_program_on_the_host() {
    let fixture = WorkspaceFixture::new();
    let (task, root) = (task(), fixture.repository("repo"));
    let proof = fixture.path("proof");
    let touch = format!("#!/bin/sh\ntouch {}\ncat\n", proof.display());
    let program = fixture.path("program");
    fs::write(&program, &touch).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let shown = program.display();
    fixture.sh(&root, "echo '* filter=bad' > .gitattributes && git add . && git commit -qm two");
    for hook in ["post-checkout", "reference-transaction", "post-index-change"] {
        fs::copy(&program, root.join(".git/hooks").join(hook)).unwrap();
    }
    fixture.sh(
        &root,
        &format!(
            "git config filter.bad.smudge {shown}; git config filter.bad.clean {shown};
             git config filter.bad.required true; git config core.fsmonitor {shown};
             git config core.hooksPath {}",
            root.join(".git/hooks").display()
        ),
    );
    let place = fixture.tree(&task, &root).await.unwrap();
    assert_eq!(fs::read_to_string(place.path.unwrap().join("file")).unwrap(), "one\n");
    fixture.remove(&task).await;
    assert!(!proof.exists(), "a program that the repository names was run");
}

#[tokio::test]
async fn a_git_that_takes_too_long_is_ended() {
    let fixture = WorkspaceFixture::new();
    let bin = fixture.path("bin");
    fs::create_dir(&bin).unwrap();
    let slow = bin.join("git");
    fs::write(&slow, "#!/bin/sh\ntrap '' TERM\n/bin/sleep 1000 &\nwait\n/bin/sleep 1000\n")
        .unwrap();
    fs::set_permissions(&slow, fs::Permissions::from_mode(0o755)).unwrap();
    let environment = Environment::from_pairs([("PATH", bin.display().to_string())]);
    let git = Git::new(&environment, Duration::from_millis(300));
    let error = git.at(fixture.dir.path()).await.unwrap_err().to_string();
    assert!(error.contains("not done after"), "{error}");
}

#[tokio::test]
async fn a_clean_tree_is_removed_with_its_branch_and_a_dirty_one_is_kept() {
    let fixture = WorkspaceFixture::new();
    let (task, root) = (task(), fixture.repository("repo"));
    let tree = fixture.tree(&task, &root).await.unwrap().path.unwrap();
    fs::write(tree.join("new"), "x").unwrap();
    assert_eq!(fixture.remove(&task).await, Removed::Kept(tree.clone(), KeepReason::Dirty));
    assert!(tree.join("new").exists());

    fs::remove_file(tree.join("new")).unwrap();
    assert_eq!(
        fixture.workspaces(&fixture.board()).tasks_with_trees().unwrap(),
        std::slice::from_ref(&task)
    );
    assert_eq!(fixture.remove(&task).await, Removed::Gone(tree.clone()));
    assert!(!tree.exists());
    assert_eq!(fixture.sh(&root, "git branch --list 'wt/*'"), "");
    assert_eq!(fixture.sh(&root, "git worktree list --porcelain | grep -c ^worktree"), "1");
    assert_eq!(fixture.remove(&task).await, Removed::Nothing);
    assert!(fixture.workspaces(&fixture.board()).tasks_with_trees().unwrap().is_empty());
}

#[tokio::test]
async fn commits_that_are_nowhere_else_keep_their_branch() {
    let fixture = WorkspaceFixture::new();
    let (task, root) = (task(), fixture.repository("repo"));
    let tree = fixture.tree(&task, &root).await.unwrap().path.unwrap();
    fixture.sh(&tree, "echo two > file && git commit -qam two");
    assert_eq!(fixture.remove(&task).await, Removed::Gone(tree));
    assert_eq!(fixture.sh(&root, &format!("git show wt/{task}:file")), "two");
}

#[tokio::test]
async fn a_tree_that_was_tampered_with_is_not_removed() {
    let fixture = WorkspaceFixture::new();
    let (task, root) = (task(), fixture.repository("repo"));
    let other = fixture.repository("other");
    let tree = fixture.tree(&task, &root).await.unwrap().path.unwrap();
    fs::write(tree.join(".git"), format!("gitdir: {}\n", other.join(".git").display())).unwrap();
    assert!(matches!(fixture.remove(&task).await, Removed::Kept(_, KeepReason::Strange(_))));

    fs::remove_dir_all(&tree).unwrap();
    symlink(&other, &tree).unwrap();
    assert!(matches!(fixture.remove(&task).await, Removed::Kept(_, KeepReason::Strange(_))));
    assert!(other.join("file").exists());
}

#[tokio::test]
async fn a_directory_that_a_person_named_is_theirs() {
    let fixture = WorkspaceFixture::new();
    let (task, root) = (task(), fixture.repository("repo"));
    let path = fixture.path("mine");
    let mut fixture = fixture;
    fixture.default_workdir = Some(root);
    let place = fixture.tree(&task, &path).await.unwrap();
    assert_eq!(place.path, Some(path.clone()));
    assert_eq!(fixture.remove(&task).await, Removed::Nothing);
    assert!(path.join("file").exists());
}
