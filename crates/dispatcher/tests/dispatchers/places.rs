//! Where workers work.

use std::path::Path;
use std::process::Command;

use vestal_board::{Outcome, Status, TaskWorkspace};
use vestal_dispatcher::{DispatchMode, gc};
use vestal_testkit::until;

use crate::fixture::{DispatcherFixture, person, until_file};

fn repository(path: &Path) {
    std::fs::create_dir(path).unwrap();
    let script = "git init -q -b main && echo one > file && git add file && \
                  git -c user.name=a -c user.email=a@localhost commit -qm one";
    let status = Command::new("sh")
        .args(["-ec", script])
        .current_dir(path)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", path)
        .status()
        .unwrap();
    assert!(status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worktree_is_made_for_its_task_and_removed_when_it_is_done() {
    let fixture = DispatcherFixture::new().await;
    let repo = fixture.path("repo");
    repository(&repo);
    let task = fixture
        .task_with(&["environment", "complete"], |new| {
            new.workspace = TaskWorkspace::Worktree { path: repo.clone(), branch: None };
        })
        .await;
    let (dispatcher, _) = fixture.dispatcher(|_| {});
    let all = [fixture.board.clone()];
    let result = dispatcher.tick(&fixture.board, &all, DispatchMode::Real).await.unwrap();
    let tree = repo.join(".worktrees").join(task.as_str());
    assert_eq!(result.spawned.entries[0].workspace, tree.display().to_string());
    fixture.until_status(&task, Status::Done).await;
    let log = fixture.log(&task);
    assert!(log.contains(&format!("env VESTAL_KANBAN_WORKSPACE={}", tree.display())), "{log}");
    assert!(log.contains(&format!("env VESTAL_KANBAN_BRANCH=wt/{task}")), "{log}");

    // While something of its worker may be there, its tree is.
    let policy = DispatcherFixture::gc_policy();
    let run = fixture.runs(&task).await.remove(0);
    if !run.gone {
        assert_eq!(gc(&fixture.board, &policy, None).await.unwrap().worktrees, 0);
    }
    let _watch = fixture.watch(|_| {});
    fixture.until_ended(&task, Outcome::Completed).await;
    std::fs::write(tree.join("new"), "not committed").unwrap();
    let collected = gc(&fixture.board, &policy, None).await.unwrap();
    assert_eq!((collected.worktrees, collected.kept.len()), (0, 1));
    assert_eq!(collected.kept[0].path, tree);
    std::fs::remove_file(tree.join("new")).unwrap();
    assert_eq!(gc(&fixture.board, &policy, None).await.unwrap().worktrees, 1);
    assert!(!tree.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_that_git_refuses_is_a_failure_in_gits_words() {
    let fixture = DispatcherFixture::new().await;
    let repo = fixture.path("repo");
    repository(&repo);
    let task = fixture
        .task_with(&["complete"], |new| {
            new.workspace = TaskWorkspace::Worktree { path: repo, branch: Some("main".to_owned()) };
        })
        .await;
    let (dispatcher, _) = fixture.dispatcher(|_| {});
    let all = [fixture.board.clone()];
    dispatcher.tick(&fixture.board, &all, DispatchMode::Real).await.unwrap();
    let run = fixture.until_ended(&task, Outcome::SpawnFailed).await;
    let printed = run.error.unwrap();
    assert!(printed.contains("'main' is already"), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_is_worked_in_by_one_task_at_a_time() {
    let fixture = DispatcherFixture::new().await;
    let (path, go) = (fixture.path("shared"), fixture.path("go"));
    let wait = format!("wait-for {}", go.display());
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let task = fixture
            .task_with(&[&wait, "complete"], |new| {
                new.workspace = TaskWorkspace::Dir { path: path.clone() };
            })
            .await;
        tasks.push(task);
    }
    let (dispatcher, _) = fixture.dispatcher(|_| {});
    let all = [fixture.board.clone()];
    let result = dispatcher.tick(&fixture.board, &all, DispatchMode::Real).await.unwrap();
    assert_eq!(result.spawned.count, 1);
    assert!(path.is_dir());
    let result = dispatcher.tick(&fixture.board, &all, DispatchMode::Real).await.unwrap();
    assert_eq!(result.skipped_workspace_busy.entries, tasks[1..]);
    std::fs::write(&go, "").unwrap();
    let _watch = fixture.watch(|_| {});
    for task in &tasks {
        fixture.until_ended(task, Outcome::Completed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_working_tree_that_two_tasks_name_is_worked_in_by_one() {
    let fixture = DispatcherFixture::new().await;
    let repo = fixture.path("repo");
    repository(&repo);
    let tree = repo.join(".worktrees/shared");
    for _ in 0..2 {
        fixture
            .task_with(&["hang"], |new| {
                let branch = Some("topic".to_owned());
                new.workspace = TaskWorkspace::Worktree { path: tree.clone(), branch };
            })
            .await;
    }
    let (dispatcher, _) = fixture.dispatcher(|_| {});
    let all = [fixture.board.clone()];
    let result = dispatcher.tick(&fixture.board, &all, DispatchMode::Real).await.unwrap();
    assert_eq!(result.spawned.count, 1, "two workers are in one tree");
    let live = fixture.board.read().await.unwrap().live_runs().await.unwrap();
    assert_eq!(live.len(), 1);
    // And so it is for later workers.
    let later = fixture
        .task_with(&["hang"], |new| {
            new.workspace = TaskWorkspace::Worktree { path: tree.clone(), branch: None };
        })
        .await;
    dispatcher.tick(&fixture.board, &all, DispatchMode::Real).await.unwrap();
    let run = fixture.until_ended(&later, Outcome::SpawnFailed).await;
    let printed = run.error.unwrap();
    assert!(printed.contains(&format!("task {} is using it", live[0].task_id)), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_needed_any_more_is_collected_and_nothing_else() {
    let fixture = DispatcherFixture::new().await;
    let old = fixture.task(&["say old", "complete"]).await;
    let fresh = fixture.task(&["say fresh", "complete"]).await;
    let quiet = fixture.task(&["say quiet", "hang"]).await;
    let _watch = fixture.watch(|_| {});
    fixture.until_ended(&old, Outcome::Completed).await;
    fixture.until_ended(&fresh, Outcome::Completed).await;
    fixture.until_running(&quiet).await;
    let log = |task: &vestal_board::TaskId| vestal_board::log_path(fixture.board.dir(), task);
    until_file(&log(&quiet)).await;
    let source = vestal_board::AttachmentSource::Bytes(b"kept".to_vec());
    let new =
        vestal_board::NewAttachment { name: "note.txt".to_owned(), content_type: None, source };
    let kept = fixture.board.attach(&person(), &fresh, new).await.unwrap();
    let kept = fixture.board.attachment_path(&kept);
    let orphan = kept.with_file_name("orphan");
    let coming = kept.with_file_name("coming");
    std::fs::write(&orphan, "x").unwrap();
    std::fs::write(&coming, "x").unwrap();
    let ages = std::time::SystemTime::now() - std::time::Duration::from_hours(48);
    for path in [&log(&old), &log(&quiet), &orphan, &kept] {
        std::fs::File::options().write(true).open(path).unwrap().set_modified(ages).unwrap();
    }
    let collected = gc(&fixture.board, &DispatcherFixture::gc_policy(), None).await.unwrap();
    assert_eq!((collected.logs, collected.attachments), (1, 1));
    assert!(!log(&old).exists() && log(&fresh).exists());
    assert!(log(&quiet).exists(), "the log of a worker at work was removed");
    assert!(!orphan.exists() && kept.exists() && coming.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dispatcher_tidies_once_a_day() {
    let fixture = DispatcherFixture::new().await;
    let old = fixture.board.dir().join("logs/t_0123456789ab.log");
    let age = |path: &Path| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "x\n").unwrap();
        let ages = std::time::SystemTime::now() - std::time::Duration::from_hours(48);
        std::fs::File::options().write(true).open(path).unwrap().set_modified(ages).unwrap();
    };
    age(&old);
    let _watch = fixture.watch(|options| options.retention = Some(DispatcherFixture::gc_policy()));
    until("the old log is gone", || !old.exists()).await;
    age(&old);
    let task = fixture.task(&["complete"]).await;
    fixture.until_ended(&task, Outcome::Completed).await;
    assert!(old.exists(), "it tidied twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_was_kept_for_a_child_of_another_profile_goes_with_it() {
    let fixture = DispatcherFixture::new().await;
    let parent = fixture.task(&["complete"]).await;
    let child = fixture
        .task_with(&["complete"], |new| {
            new.parents = vec![parent.clone()];
            new.assignee = Some(vestal_config::ProfileName::new("grace").unwrap());
        })
        .await;
    let both = || ["ada", "grace"].map(str::to_owned).into();
    let watch = fixture.watch(|options| options.profiles = std::sync::Arc::new(both));
    let run = fixture.until_ended(&parent, Outcome::Completed).await;
    fixture.until_ended(&child, Outcome::Completed).await;
    watch.end().await;
    std::fs::remove_file(fixture.path("swept")).ok();
    let launcher = fixture.launcher();
    let policy = DispatcherFixture::gc_policy();
    assert_eq!(gc(&fixture.board, &policy, Some(&launcher)).await.unwrap().places, 1);
    assert_eq!(until_file(&fixture.path("swept")).await, format!("{parent} {}\n", run.id));
    // It is done once.
    assert_eq!(gc(&fixture.board, &policy, Some(&launcher)).await.unwrap().places, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_deleted_task_left_in_sandboxes_is_cleaned_up() {
    let fixture = DispatcherFixture::new().await;
    let task = fixture.task(&["complete"]).await;
    let watch = fixture.watch(|_| {});
    fixture.until_ended(&task, Outcome::Completed).await;
    watch.end().await;
    fixture.board.archive(&person(), &task).await.unwrap();
    fixture.board.delete(&person(), &task).await.unwrap();
    let launcher = fixture.launcher();
    let policy = DispatcherFixture::gc_policy();
    assert_eq!(gc(&fixture.board, &policy, Some(&launcher)).await.unwrap().places, 1);
    assert_eq!(until_file(&fixture.path("swept")).await, format!("{task} 0\n"));
    assert_eq!(fixture.log(&task), "", "a log of a task that is not there");
    assert_eq!(gc(&fixture.board, &policy, Some(&launcher)).await.unwrap().places, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_finished_task_is_seen_to_once() {
    let fixture = DispatcherFixture::new().await;
    let mut read = fixture.board.read().await.unwrap();
    assert_eq!(read.finished_after(vestal_board::Time::from_millis(0), 0, 10).await.unwrap(), []);
    drop(read);
    let mut tasks = Vec::new();
    for _ in 0..5 {
        let task = fixture.task(&[]).await;
        fixture
            .board
            .complete(&person(), &task, vestal_board::TaskCompletion::default())
            .await
            .unwrap();
        tasks.push(task);
    }
    let mut read = fixture.board.read().await.unwrap();
    let (mut at, mut seq, mut seen) = (vestal_board::Time::from_millis(0), 0, Vec::new());
    for _ in 0..tasks.len() {
        let page = read.finished_after(at, seq, 2).await.unwrap();
        let Some((last_at, last_seq, _)) = page.last() else { break };
        (at, seq) = (*last_at, *last_seq);
        seen.extend(page.into_iter().map(|(.., task)| task));
    }
    assert_eq!(seen, tasks);
}
