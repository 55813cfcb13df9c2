use std::fs;

use vestal_board::RunId;
use vestal_board::testing::task;

use super::*;
use crate::workspace::tests::WorkspaceFixture;

/// A repository and a task with a tree of it, in which something was committed and something was not.
struct Merging {
    fixture: WorkspaceFixture,
    repository: PathBuf,
    tree: PathBuf,
    task: Task,
}

impl Merging {
    async fn new() -> Self {
        let fixture = WorkspaceFixture::new();
        let repository = fixture.repository("repository");
        fixture.sh(
            &repository,
            "git config --global user.name Ada && git config --global user.email ada@localhost",
        );
        let task = task("Light the fire");
        let tree = fixture.tree(&task.id, &repository).await.unwrap().path.unwrap();
        fixture.sh(&tree, "echo two > committed && git add committed && git commit -qm two");
        fs::write(tree.join("loose"), "three\n").unwrap();
        Self { fixture, repository, tree, task }
    }

    async fn plan(&self, request: &MergeRequest) -> MergePlan {
        let board = self.fixture.board();
        let before = self.state();
        let workspaces = self.fixture.workspaces(&board);
        let plan = workspaces.prepare_merge(&self.task, request, Objects::Scratch).await;
        assert_eq!(self.state(), before, "asking changed something");
        plan.unwrap().plan
    }

    async fn merge(&self, request: &MergeRequest) -> Result<Merged, MergeError> {
        let board = self.fixture.board();
        self.fixture.workspaces(&board).merge(&self.task, request).await
    }

    async fn refused(&self, request: &MergeRequest) -> Vec<MergeObstacle> {
        let before = self.refs();
        let refused = self.merge(request).await;
        assert_eq!(self.refs(), before, "a refused merge changed something");
        match refused {
            Err(MergeError::Refused { plan, .. }) => plan.obstacles,
            other => panic!("{other:?}"),
        }
    }

    /// Everything of the repository and both trees that a merge could change.
    fn state(&self) -> String {
        format!("{}\n{}", self.refs(), self.here("git count-objects"))
    }

    fn refs(&self) -> String {
        let there = self.fixture.sh(&self.tree, "git status --porcelain");
        format!("{}\n{there}", self.here("git for-each-ref; git status --porcelain; cat * || true"))
    }

    fn here(&self, text: &str) -> String {
        self.fixture.sh(&self.repository, text)
    }
}

fn by(method: MergeMethod) -> MergeRequest {
    MergeRequest { method, ..MergeRequest::default() }
}

fn paths(names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(PathBuf::from).collect()
}

#[tokio::test]
async fn a_squash_is_one_commit_with_what_was_not_committed() {
    let merging = Merging::new().await;
    merging.here("echo other > other && git add other && git commit -qm other && echo x > mine");
    let plan = merging.plan(&MergeRequest::default()).await;
    let expected = MergePlan {
        repository: merging.repository.clone(),
        branch: format!("wt/{}", merging.task.id),
        into: "main".to_owned(),
        checked_out: Some(merging.repository.clone()),
        method: MergeMethod::Squash,
        commits: 1,
        uncommitted: true,
        files: paths(&["committed", "loose"]),
        obstacles: Vec::new(),
    };
    assert_eq!(plan, expected);
    let merged = merging.merge(&MergeRequest::default()).await.unwrap();
    assert_eq!(merged.plan, expected);
    assert_eq!(merging.here("git rev-parse HEAD"), merged.commit);
    let log = merging.here("git log --format='%s|%an|%p' -n 2 | cut -d'|' -f1,2");
    assert_eq!(log, "Light the fire|Ada\nother|a");
    assert_eq!(merging.here("cat committed loose other"), "two\nthree\nother");
    // What was there of one's own is there still, and the task's tree is as it was.
    assert_eq!(merging.here("git status --porcelain"), "?? mine");
    assert_eq!(merging.fixture.sh(&merging.tree, "git status --porcelain"), "?? loose");
    assert_eq!(merging.refused(&MergeRequest::default()).await, [MergeObstacle::Nothing]);
}

#[tokio::test]
async fn a_change_of_the_same_size_in_the_instant_of_the_checkout_is_not_overlooked() {
    let merging = Merging::new().await;
    // As if all of it had happened within one second.
    merging.fixture.sh(
        &merging.tree,
        "git config core.trustctime false && touch -d @1000000000 committed && git update-index --refresh &&
         echo owt > committed &&
         touch -d @1000000000 committed \"$(git rev-parse --path-format=absolute --git-path index)\"",
    );
    merging.merge(&MergeRequest::default()).await.unwrap();
    assert_eq!(merging.here("cat committed"), "owt");
}

#[tokio::test]
async fn a_merge_keeps_the_commits_and_makes_one_of_the_rest() {
    let merging = Merging::new().await;
    merging.here("echo other > other && git add other && git commit -qm other");
    let tip = merging.fixture.sh(&merging.tree, "git rev-parse HEAD");
    merging.merge(&by(MergeMethod::Merge)).await.unwrap();
    assert_eq!(merging.here("git rev-parse HEAD^2~1"), tip);
    assert_eq!(merging.here("cat committed loose other"), "two\nthree\nother");
    assert_eq!(merging.fixture.sh(&merging.tree, "git rev-parse HEAD"), tip);
}

#[tokio::test]
async fn a_fast_forward_is_refused_where_it_would_leave_something_out() {
    let merging = Merging::new().await;
    let wanted = by(MergeMethod::FastForward);
    assert_eq!(merging.refused(&wanted).await, [MergeObstacle::Uncommitted]);
    merging.fixture.sh(&merging.tree, "git add loose && git commit -qm three");
    merging.here("git branch elsewhere && echo other > other && git add other && git commit -qm o");
    let diverged = MergeObstacle::Diverged { into: "main".to_owned() };
    assert_eq!(merging.refused(&wanted).await, [diverged]);
    // A branch that nobody has checked out moves without a tree.
    let elsewhere = MergeRequest { into: Some("elsewhere".to_owned()), ..wanted };
    let merged = merging.merge(&elsewhere).await.unwrap();
    assert_eq!(merged.plan.checked_out, None);
    assert_eq!(merging.here("git rev-parse elsewhere"), merged.commit);
    assert_eq!(merging.here("git log -n 1 --format=%s main"), "o");
}

#[tokio::test]
async fn conflicts_are_reported_and_nothing_is_changed() {
    let merging = Merging::new().await;
    fs::write(merging.tree.join("file"), "theirs\n").unwrap();
    merging.here("echo ours > file && git commit -qam ours");
    let conflict = [MergeObstacle::Conflicts(paths(&["file"]))];
    assert_eq!(merging.plan(&MergeRequest::default()).await.obstacles, conflict);
    assert_eq!(merging.refused(&MergeRequest::default()).await, conflict);
    assert_eq!(merging.refused(&by(MergeMethod::Merge)).await, conflict);
}

#[tokio::test]
async fn changes_that_somebody_has_not_committed_are_never_overwritten() {
    let merging = Merging::new().await;
    fs::write(merging.tree.join("file"), "theirs\n").unwrap();
    merging.here("echo mine > file; echo mine > loose");
    let tree = merging.repository.clone();
    let files = paths(&["file", "loose"]);
    let expected = [MergeObstacle::InTheWay { tree, files }];
    assert_eq!(merging.refused(&MergeRequest::default()).await, expected);
    // A file that is ignored is no less somebody's.
    merging.here("git checkout -q file && rm loose && echo committed > .git/info/exclude");
    merging.here("echo precious > committed");
    let (tree, files) = (merging.repository.clone(), paths(&["committed"]));
    let expected = [MergeObstacle::InTheWay { tree, files }];
    assert_eq!(merging.refused(&MergeRequest::default()).await, expected);
    assert_eq!(merging.here("cat committed; git log -n 1 --format=%s"), "precious\none");
}

#[tokio::test]
async fn a_task_that_somebody_works_on_is_not_merged() {
    let mut merging = Merging::new().await;
    merging.task.current_run = Some(RunId::new(1));
    assert_eq!(merging.refused(&MergeRequest::default()).await, [MergeObstacle::Running]);
}

#[tokio::test]
async fn an_attempt_is_merged_as_it_ended() {
    let merging = Merging::new().await;
    let board = merging.fixture.board();
    let workspaces = merging.fixture.workspaces(&board);
    workspaces.keep_state(&merging.task.id, RunId::new(1)).await.unwrap();
    workspaces.keep_state(&merging.task.id, RunId::new(2)).await.unwrap();
    fs::write(merging.tree.join("later"), "4\n").unwrap();
    let of = |run| MergeRequest { attempt: Some(RunId::new(run)), ..MergeRequest::default() };
    assert_eq!(merging.plan(&of(2)).await.files, paths(&["committed", "later", "loose"]));
    merging.merge(&of(1)).await.unwrap();
    assert_eq!(merging.here("ls"), "committed\nfile\nloose");
    let unknown = merging.merge(&of(7)).await;
    assert!(matches!(unknown, Err(MergeError::Diff(DiffError::NoAttempt { .. }))), "{unknown:?}");
}

#[tokio::test]
async fn a_branch_that_cannot_be_merged_into_is_named() {
    let merging = Merging::new().await;
    let into = |name: &str| MergeRequest { into: Some(name.to_owned()), ..MergeRequest::default() };
    let own = format!("wt/{}", merging.task.id);
    for (name, reason) in [
        (own.as_str(), "it is the branch of the task; name another"),
        ("-d", "it is not a valid name of a branch"),
        ("none", "the repository has no such branch"),
    ] {
        let refused = merging.merge(&into(name)).await.unwrap_err();
        assert_eq!(refused.to_string(), format!("cannot merge into {name:?}: {reason}"));
    }
    merging.here("git checkout -q --detach");
    let refused = merging.merge(&MergeRequest::default()).await.unwrap_err();
    assert!(refused.to_string().contains("no branch checked out"), "{refused}");
}

#[tokio::test]
async fn what_a_worker_planted_in_the_repository_is_not_run_by_a_merge() {
    let merging = Merging::new().await;
    let witness = merging.fixture.path("witness");
    let plant = format!(
        "git config merge.evil.driver 'touch {w}; true' && git config merge.default evil && \
         git config filter.evil.smudge 'touch {w}; cat' && git config commit.gpgSign true && \
         git config gpg.program 'touch {w}' && git config merge.verifySignatures true && \
         echo '* merge=evil filter=evil' > .gitattributes && echo theirs > file && \
         mkdir -p ../../.git/hooks && printf '#!/bin/sh\\ntouch {w}\\n' > ../../.git/hooks/post-merge && \
         chmod +x ../../.git/hooks/post-merge",
        w = witness.display()
    );
    merging.fixture.sh(&merging.tree, &plant);
    merging.merge(&MergeRequest::default()).await.unwrap();
    fs::write(merging.tree.join("file"), "again\n").unwrap();
    merging.here(
        "echo ours > file && git -c commit.gpgSign=false -c merge.evil.driver= commit -qam ours",
    );
    let conflict = merging.refused(&MergeRequest::default()).await;
    assert!(matches!(&*conflict, [MergeObstacle::Conflicts(_)]), "{conflict:?}");
    assert!(!witness.exists(), "a planted program was run");
}

#[tokio::test]
async fn without_a_name_for_its_author_no_commit_is_made() {
    let merging = Merging::new().await;
    merging.here(
        "git config --global user.useConfigOnly true && git config --global --unset user.email",
    );
    let refused = merging.refused(&MergeRequest::default()).await;
    assert!(matches!(&*refused, [MergeObstacle::NoIdentity(_)]), "{refused:?}");
}
