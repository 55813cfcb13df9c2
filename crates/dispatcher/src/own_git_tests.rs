use vestal_board::testing::task;

use super::*;
use crate::workspace::tests::WorkspaceFixture;

/// A task's tree, and the git directory that its worker has.
struct Own {
    fixture: WorkspaceFixture,
    repository: PathBuf,
    tree: PathBuf,
    task: TaskId,
    record: WorktreeRecord,
}

impl Own {
    async fn new() -> Self {
        let fixture = WorkspaceFixture::new();
        let repository = fixture.repository("repository");
        let task = task("Light the fire").id;
        let tree = fixture.tree(&task, &repository).await.unwrap().path.unwrap();
        let record = WorktreeRecord::read(&fixture.board(), &task).unwrap().unwrap();
        let own = Self { fixture, repository, tree, task, record };
        own.prepare().await.unwrap();
        own
    }

    async fn prepare(&self) -> Result<(), WorkspaceError> {
        let board = self.fixture.board();
        let workspaces = self.fixture.workspaces(&board);
        OwnGit::of(&self.record, &self.task, workspaces.git).await.unwrap().prepare().await
    }

    async fn collect(&self) -> Result<(), WorkspaceError> {
        let board = self.fixture.board();
        let workspaces = self.fixture.workspaces(&board);
        OwnGit::of(&self.record, &self.task, workspaces.git).await.unwrap().collect().await
    }

    fn dir(&self) -> PathBuf {
        own_git_dir(&self.repository.join(".git"), &self.task)
    }

    /// Runs shell text in the tree with the worker's git directory, as in its sandbox.
    fn worker(&self, text: &str) -> String {
        let dir = self.dir();
        let objects = self.repository.join(".git/objects");
        let admin = dir.join("worktrees").join(self.task.as_str());
        let setup = format!(
            "export GIT_DIR='{}' GIT_WORK_TREE=. GIT_ALTERNATE_OBJECT_DIRECTORIES='{}'; {text}",
            admin.display(),
            objects.display()
        );
        self.fixture.sh(&self.tree, &setup)
    }

    /// Puts the branch back to where the repository has it.
    fn reset(&self) {
        let link = self.dir().join("refs/heads").join(self.branch());
        fs::remove_file(&link).unwrap();
        fs::write(link, format!("{}\n", self.here("git rev-parse main"))).unwrap();
    }

    fn here(&self, text: &str) -> String {
        self.fixture.sh(&self.repository, text)
    }

    fn log(&self, branch: &str) -> String {
        self.here(&format!("git log --format=%s {branch}"))
    }

    fn branch(&self) -> String {
        format!("wt/{}", self.task)
    }
}

const COMMIT: &str = "echo two > two && git add two && git commit -qm two";

#[tokio::test]
async fn the_commits_of_a_worker_come_onto_its_branch_and_no_other() {
    let own = Own::new().await;
    assert_eq!(own.worker("git status --porcelain; git log --format=%s main"), "one");
    own.worker(&format!("{COMMIT}; git update-ref refs/heads/main HEAD; git branch more"));
    own.collect().await.unwrap();
    assert_eq!(own.log(&own.branch()), "two\none");
    assert_eq!(own.log("main"), "one");
    assert_eq!(own.here("git for-each-ref refs/heads/more"), "");
    assert_eq!(own.fixture.sh(&own.tree, "git status --porcelain"), "");
    own.here("git fsck --strict --no-progress");
    // What it rewrites is rewritten, also when it keeps its refs in one file.
    own.worker("git commit -q --amend -m other && git gc -q && git pack-refs --all");
    own.collect().await.unwrap();
    assert_eq!(own.log(&own.branch()), "other\none");
}

#[tokio::test]
async fn an_attempt_begins_where_the_user_has_taken_the_branch() {
    let own = Own::new().await;
    own.worker(COMMIT);
    own.prepare().await.unwrap();
    own.fixture.sh(&own.tree, "echo three > three && git add three && git commit -qm three");
    own.here("git commit -q --allow-empty -m main");
    own.prepare().await.unwrap();
    assert_eq!(own.worker("git log --format=%s; git status --porcelain"), "three\ntwo\none");
    assert_eq!(own.worker("git log --format=%s main"), "main\none");
}

#[tokio::test]
async fn a_branch_that_both_have_moved_apart_stays_as_the_user_has_it() {
    let own = Own::new().await;
    own.worker(COMMIT);
    own.here(&format!(
        "git commit -q --allow-empty -m mine && git update-ref refs/heads/{} HEAD",
        own.branch()
    ));
    let refused = own.collect().await.unwrap_err().to_string();
    assert!(refused.contains("rejected"), "{refused}");
    assert_eq!(own.log(&own.branch()), "mine\none");
}

#[tokio::test]
async fn no_link_and_no_wrong_object_of_a_worker_is_taken_over() {
    let own = Own::new().await;
    let other = own.fixture.repository("other");
    own.fixture.sh(&other, "git commit -q --allow-empty -m secret");
    let (dir, branch) = (own.dir(), own.branch());
    let secret = own.fixture.sh(&other, "git rev-parse HEAD");
    // Objects of another repository, by its name and by a link.
    fs::write(dir.join("refs/heads").join(&branch), format!("{secret}\n")).unwrap();
    fs::write(
        dir.join("objects/info/alternates"),
        other.join(".git/objects").as_os_str().as_bytes(),
    )
    .unwrap();
    own.collect().await.unwrap_err();
    let objects = dir.join("objects").join(&secret[..2]);
    assert!(!objects.exists());
    std::os::unix::fs::symlink(other.join(".git/objects").join(&secret[..2]), &objects).unwrap();
    own.collect().await.unwrap_err();
    assert!(own.here(&format!("git cat-file -t {secret} || true")).is_empty());
    // A link in place of the branch, or of a directory on the way.
    fs::remove_file(&objects).unwrap();
    fs::remove_file(dir.join("refs/heads").join(&branch)).unwrap();
    let theirs = other.join(".git/refs/heads/main");
    std::os::unix::fs::symlink(theirs, dir.join("refs/heads").join(&branch)).unwrap();
    own.collect().await.unwrap_err();
    // An object that is not what its name says.
    own.reset();
    own.worker(COMMIT);
    let blob = own.worker("git rev-parse HEAD:two");
    let wrong = own.worker("echo evil | git hash-object -w --stdin");
    let at = |name: &str| dir.join("objects").join(&name[..2]).join(&name[2..]);
    fs::remove_file(at(&blob)).unwrap();
    fs::rename(at(&wrong), at(&blob)).unwrap();
    own.collect().await.unwrap_err();
    assert_eq!(own.log(&branch), "one");
    own.here("git fsck --strict --no-progress");
}

#[tokio::test]
async fn the_directory_goes_with_the_tree() {
    let own = Own::new().await;
    own.worker(COMMIT);
    own.fixture.remove(&own.task).await;
    assert!(!own.dir().exists() && !own.tree.exists());
    // Unmerged commits are kept on their branch.
    assert_eq!(own.log(&own.branch()), "two\none");
}
