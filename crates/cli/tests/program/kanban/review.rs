//! `vestal kanban diff` and `review`.

use std::process::Command;

use super::{create, done, json, kanban, refused, task};
use crate::support::ProgramFixture;

#[test]
fn a_task_without_a_working_tree_has_no_diff() {
    let fixture = ProgramFixture::new();
    let id = create(&fixture, &["tidy up"]);
    let reported = refused(&fixture, &["diff", &id], 1);
    assert!(
        reported.contains("has no files") && reported.contains("assigned to nobody"),
        "{reported}"
    );
    let dir = fixture.work();
    let placed = create(&fixture, &["tidy here", "--workspace", &format!("dir:{}", dir.display())]);
    let reported = refused(&fixture, &["diff", &placed], 1);
    assert!(
        reported.contains(dir.to_str().unwrap()) && reported.contains("as it is"),
        "{reported}"
    );
}

#[test]
fn a_review_sends_the_work_back_line_by_line_or_approves_it() {
    let fixture = ProgramFixture::new();
    let id = create(&fixture, &["tidy up"]);
    let early = refused(&fixture, &["review", &id, "--approve"], 1);
    assert!(early.contains("not in review"), "{early}");
    done(&fixture, &["submit", &id]);
    let printed =
        ["review", &id, "--changes", "Nearly there.", "--comment", "src/a.rs:12: handle the error"];
    done(&fixture, &printed);
    assert_eq!(task(&fixture, &id)["status"], "ready");
    let context = done(&fixture, &["context", &id]);
    assert!(context.contains("src/a.rs:12") && context.contains("handle the error"), "{context}");
    done(&fixture, &["submit", &id]);
    let mute = kanban(&fixture, &["review", &id]).exits(2);
    assert!(mute.stderr.contains("--approve"), "{mute:?}");
    let review = fixture.home().join("review.json");
    std::fs::write(
        &review,
        r#"{"comments":[{"path":"b","line":1,"side":"old","text":"keep it"}]}"#,
    )
    .unwrap();
    done(&fixture, &["review", &id, "--from", review.to_str().unwrap()]);
    assert!(done(&fixture, &["context", &id]).contains("b:1 (as it was before)"));
    done(&fixture, &["submit", &id]);
    done(&fixture, &["review", &id, "--approve"]);
    assert_eq!(task(&fixture, &id)["status"], "done");
}

#[test]
fn a_diff_is_a_patch_that_git_takes() {
    let fixture = ProgramFixture::new();
    let repository = fixture.home().parent().unwrap().join("repository");
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
    let id = create(&fixture, &["change it", "--workspace", &workspace]);
    // As a dispatcher makes it, which needs a model for more than this.
    let tree = repository.join(".worktrees").join(&id);
    git(&format!("git worktree add -q --no-track -b wt/{id} {} HEAD", tree.display()));
    let record = fixture.home().join("kanban/boards/default/worktrees");
    std::fs::create_dir_all(&record).unwrap();
    let made = serde_json::json!({"version": 1, "repository": repository, "tree": tree,
        "branch": format!("wt/{id}"), "made_branch": true});
    std::fs::write(record.join(format!("{id}.json")), made.to_string()).unwrap();
    std::fs::write(tree.join("file"), "two\n").unwrap();
    let patch = done(&fixture, &["diff", &id]);
    assert!(patch.contains("-one\n+two\n"), "{patch}");
    let view = json(&fixture, &["diff", &id, "--json"]);
    assert_eq!(view["files"][0]["path"], "file");
    assert_eq!(view["files"][0]["change"], "modified");
    assert!(done(&fixture, &["diff", &id, "--stat"]).contains("file"));
    std::fs::write(repository.join("patch"), &patch).unwrap();
    git("git apply --check patch");
    assert!(refused(&fixture, &["diff", &id, "--attempt", "99"], 1).contains("kanban runs"));

    // What becomes of it: a file, or a commit of the branch.
    let file = repository.join("task.patch");
    let export = ["export", &id, "--output", file.to_str().unwrap()];
    done(&fixture, &export);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), patch);
    assert!(refused(&fixture, &export, 1).contains("--force"));
    git("git config user.name a && git config user.email a@localhost");
    std::fs::write(repository.join("file"), "mine\n").unwrap();
    let plan = kanban(&fixture, &["merge", &id, "--dry-run"]).exits(1);
    assert!(
        String::from_utf8_lossy(&plan.stdout).contains("cannot be merged into main (squash)"),
        "{plan:?}"
    );
    let reported = refused(&fixture, &["merge", &id], 1);
    assert!(reported.contains("changes of its own"), "{reported}");
    git("git checkout -q file");
    let merged = json(&fixture, &["merge", &id, "--json"]);
    assert_eq!([&merged["into"], &merged["method"]], ["main", "squash"]);
    assert_eq!(std::fs::read_to_string(repository.join("file")).unwrap(), "two\n");
    assert!(done(&fixture, &["show", &id]).contains("Merged into main"));
    assert!(refused(&fixture, &["merge", &id], 1).contains("has all of it already"));
}
