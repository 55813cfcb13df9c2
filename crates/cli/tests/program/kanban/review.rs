//! `vestal kanban diff` and `review`.

use std::process::Command;

use super::{create, done, json, kanban, refused, task};
use crate::support::World;

#[test]
fn a_task_without_a_working_tree_has_no_diff() {
    let world = World::new();
    let id = create(&world, &["tidy up"]);
    let told = refused(&world, &["diff", &id], 1);
    assert!(told.contains("no git working tree"), "{told}");
}

#[test]
fn a_review_sends_the_work_back_line_by_line_or_approves_it() {
    let world = World::new();
    let id = create(&world, &["tidy up"]);
    let early = refused(&world, &["review", &id, "--approve"], 1);
    assert!(early.contains("not in review"), "{early}");
    done(&world, &["submit", &id]);
    let said =
        ["review", &id, "--changes", "Nearly there.", "--comment", "src/a.rs:12: handle the error"];
    done(&world, &said);
    assert_eq!(task(&world, &id)["status"], "ready");
    let context = done(&world, &["context", &id]);
    assert!(context.contains("src/a.rs:12") && context.contains("handle the error"), "{context}");
    done(&world, &["submit", &id]);
    let mute = kanban(&world, &["review", &id]).exits(2);
    assert!(mute.stderr.contains("--approve"), "{mute:?}");
    let review = world.home().join("review.json");
    std::fs::write(
        &review,
        r#"{"comments":[{"path":"b","line":1,"side":"old","text":"keep it"}]}"#,
    )
    .unwrap();
    done(&world, &["review", &id, "--from", review.to_str().unwrap()]);
    assert!(done(&world, &["context", &id]).contains("b:1 (as it was before)"));
    done(&world, &["submit", &id]);
    done(&world, &["review", &id, "--approve"]);
    assert_eq!(task(&world, &id)["status"], "done");
}

#[test]
fn a_diff_is_a_patch_that_git_takes() {
    let world = World::new();
    let repository = world.home().parent().unwrap().join("repository");
    std::fs::create_dir_all(&repository).unwrap();
    let git = |words: &str| {
        let ran = Command::new("sh")
            .args(["-ec", words])
            .current_dir(&repository)
            .envs([("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@localhost")])
            .envs([("GIT_COMMITTER_NAME", "a"), ("GIT_COMMITTER_EMAIL", "a@localhost")])
            .output()
            .unwrap();
        assert!(ran.status.success(), "{words}: {}", String::from_utf8_lossy(&ran.stderr));
    };
    git("git init -q -b main && echo one > file && git add file && git commit -qm one");
    let workspace = format!("worktree:{}", repository.display());
    let id = create(&world, &["change it", "--workspace", &workspace]);
    // As a dispatcher makes it, which needs a model for more than this.
    let tree = repository.join(".worktrees").join(&id);
    git(&format!("git worktree add -q --no-track -b wt/{id} {} HEAD", tree.display()));
    let record = world.home().join("kanban/boards/default/worktrees");
    std::fs::create_dir_all(&record).unwrap();
    let made = serde_json::json!({"version": 1, "repository": repository, "tree": tree,
        "branch": format!("wt/{id}"), "made_branch": true});
    std::fs::write(record.join(format!("{id}.json")), made.to_string()).unwrap();
    std::fs::write(tree.join("file"), "two\n").unwrap();
    let patch = done(&world, &["diff", &id]);
    assert!(patch.contains("-one\n+two\n"), "{patch}");
    let view = json(&world, &["diff", &id, "--json"]);
    assert_eq!(view["files"][0]["path"], "file");
    assert_eq!(view["files"][0]["change"], "modified");
    assert!(done(&world, &["diff", &id, "--stat"]).contains("file"));
    std::fs::write(repository.join("patch"), &patch).unwrap();
    git("git apply --check patch");
    assert!(refused(&world, &["diff", &id, "--attempt", "99"], 1).contains("kanban runs"));

    // What becomes of it: a file, or a commit of the branch.
    let file = repository.join("task.patch");
    let export = ["export", &id, "--output", file.to_str().unwrap()];
    done(&world, &export);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), patch);
    assert!(refused(&world, &export, 1).contains("--force"));
    git("git config user.name a && git config user.email a@localhost");
    std::fs::write(repository.join("file"), "mine\n").unwrap();
    let plan = kanban(&world, &["merge", &id, "--dry-run"]).exits(1);
    assert!(
        String::from_utf8_lossy(&plan.stdout).contains("cannot be merged into main (squash)"),
        "{plan:?}"
    );
    let told = refused(&world, &["merge", &id], 1);
    assert!(told.contains("changes of its own"), "{told}");
    git("git checkout -q file");
    let merged = json(&world, &["merge", &id, "--json"]);
    assert_eq!([&merged["into"], &merged["method"]], ["main", "squash"]);
    assert_eq!(std::fs::read_to_string(repository.join("file")).unwrap(), "two\n");
    assert!(done(&world, &["show", &id]).contains("Merged into main"));
    assert!(refused(&world, &["merge", &id], 1).contains("has all of it already"));
}
