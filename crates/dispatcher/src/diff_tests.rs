use std::fs;

use super::*;
use crate::workspace::tests::{WorkspaceFixture, task};

async fn look(fixture: &WorkspaceFixture, task: &TaskId, range: DiffRange) -> TaskDiff {
    let board = fixture.board();
    fixture.workspaces(&board).diff(task, range).await.unwrap()
}

async fn attempt(fixture: &WorkspaceFixture, task: &TaskId, run: i64) {
    let board = fixture.board();
    fixture.workspaces(&board).keep_state(task, RunId::new(run)).await.unwrap();
}

fn names(diff: &TaskDiff) -> Vec<(String, Change)> {
    diff.files.iter().map(|file| (file.path.display().to_string(), file.change)).collect()
}

fn changed(name: &str, change: Change) -> (String, Change) {
    (name.to_owned(), change)
}

#[tokio::test]
async fn a_diff_has_what_is_committed_staged_changed_and_new() {
    let fixture = WorkspaceFixture::new();
    let repository = fixture.repository("repository");
    fixture
        .sh(&repository, "seq 1 9 > gone && seq 1 50 > moved && git add . && git commit -qm two");
    let task = task();
    let tree = fixture.tree(&task, &repository).await.unwrap().path.unwrap();
    fixture.sh(
        &tree,
        "echo two >> file && git commit -qam three && echo new > new && git rm -q gone && \
         git mv moved elsewhere && echo staged > staged && git add staged && printf 'a\\0b' > binary && \
         echo 'ignored' > .gitignore && echo x > ignored",
    );
    // The repository goes on meanwhile, which is not the task's doing.
    fixture.sh(&repository, "echo other > other && git add other && git commit -qm other");
    let before = fixture.sh(&tree, "git status --porcelain; git count-objects");
    let diff = look(&fixture, &task, DiffRange::Whole).await;
    assert_eq!(
        names(&diff),
        [
            changed(".gitignore", Change::Added),
            changed("binary", Change::Added),
            changed("elsewhere", Change::Renamed),
            changed("file", Change::Modified),
            changed("gone", Change::Deleted),
            changed("new", Change::Added),
            changed("staged", Change::Added),
        ]
    );
    let lines: Vec<_> = diff.files.iter().map(|file| file.lines).collect();
    assert_eq!(
        lines,
        [Some((1, 0)), None, Some((0, 0)), Some((1, 0)), Some((0, 9)), Some((1, 0)), Some((1, 0))]
    );
    assert_eq!(diff.files[2].from.as_deref(), Some(Path::new("moved")));
    // The patch makes of the base what the tree is.
    let patch = fixture.path("patch");
    fs::write(&patch, diff.patch.unwrap()).unwrap();
    let check = format!("git apply --check --cached {}", patch.display());
    fixture.sh(&repository, &format!("git checkout -q {} && {check}", diff.base));
    assert_eq!(
        fixture.sh(&tree, "git status --porcelain; git count-objects"),
        before,
        "looking changed something"
    );
}

#[tokio::test]
async fn an_attempt_shows_what_it_changed_and_nothing_else() {
    let fixture = WorkspaceFixture::new();
    let repository = fixture.repository("repository");
    let task = task();
    let tree = fixture.tree(&task, &repository).await.unwrap().path.unwrap();
    attempt(&fixture, &task, 7).await;
    fixture.sh(&tree, "echo a > first && git add first && git commit -qm first");
    attempt(&fixture, &task, 12).await;
    fixture.sh(&tree, "echo b > second; rm first");
    let of = |run| DiffRange::Attempt(RunId::new(run));
    assert_eq!(names(&look(&fixture, &task, of(7)).await), [changed("first", Change::Added)]);
    assert_eq!(
        names(&look(&fixture, &task, of(12)).await),
        [changed("first", Change::Deleted), changed("second", Change::Added)]
    );
    assert_eq!(
        names(&look(&fixture, &task, DiffRange::Whole).await),
        [changed("second", Change::Added)]
    );
    let board = fixture.board();
    let unknown = fixture.workspaces(&board).diff(&task, of(8)).await;
    assert!(matches!(unknown, Err(DiffError::NoAttempt { .. })), "{unknown:?}");
}

#[tokio::test]
async fn states_go_with_the_working_tree() {
    let fixture = WorkspaceFixture::new();
    let repository = fixture.repository("repository");
    let task = task();
    fixture.tree(&task, &repository).await.unwrap();
    attempt(&fixture, &task, 1).await;
    assert_ne!(fixture.sh(&repository, "git for-each-ref refs/vestal"), "");
    fixture.remove(&task).await;
    assert_eq!(fixture.sh(&repository, "git for-each-ref refs/vestal"), "");
    let board = fixture.board();
    let gone = fixture.workspaces(&board).diff(&task, DiffRange::Whole).await;
    assert!(matches!(gone, Err(DiffError::NoTree { .. })), "{gone:?}");
}

#[tokio::test]
async fn what_a_worker_planted_in_its_tree_is_not_run_and_not_followed() {
    let fixture = WorkspaceFixture::new();
    let repository = fixture.repository("repository");
    let task = task();
    let tree = fixture.tree(&task, &repository).await.unwrap().path.unwrap();
    let witness = fixture.path("witness");
    let plant = format!(
        "git config diff.evil.command 'touch {w}' && git config diff.evil.textconv 'touch {w}' && \
         git config filter.evil.clean 'touch {w}; cat' && git config filter.evil.required true && \
         git config core.fsmonitor 'touch {w}' && git config diff.external 'touch {w}' && \
         echo '* diff=evil filter=evil' > .gitattributes && echo x >> file && ln -s /etc/hostname link && \
         mkfifo pipe && truncate -s 9M large",
        w = witness.display()
    );
    fixture.sh(&tree, &plant);
    let diff = look(&fixture, &task, DiffRange::Whole).await;
    assert!(!witness.exists(), "a planted program was run");
    assert!(names(&diff).contains(&changed("link", Change::Added)), "{diff:?}");
    assert!(String::from_utf8_lossy(&diff.patch.unwrap()).contains("/etc/hostname"));
    assert_eq!(diff.left_out, [PathBuf::from("large")]);
    // A tree that leads to another repository is refused.
    let other = fixture.repository("other");
    fs::write(tree.join(".git"), format!("gitdir: {}/.git\n", other.display())).unwrap();
    let board = fixture.board();
    let refused = fixture.workspaces(&board).diff(&task, DiffRange::Whole).await;
    assert!(
        matches!(refused, Err(DiffError::Workspace(WorkspaceError::Path { .. }))),
        "{refused:?}"
    );
}
