//! Where workers work.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use vestal_board::dispatch::FailurePolicy;
use vestal_board::{
    AttachmentSource, Authority, Claim, LogPolicy, NewAttachment, NewTask, Outcome, Promotion,
    Role, RunEnd, Status, TaskId, TaskWorkspace,
};
use vestal_config::{Environment, ProfileName};
use vestal_dispatcher::{LaunchSpec, Launcher as _, ProgramLauncher, WorkspaceDir};
use vestal_scripted_model::ScriptedReply;

use super::fixture::{WorkerFixture, complete, some};
use crate::chat::fixture::terminal;
use crate::support::{ProgramFixture, RunningProgram, finish};

/// Has a command tell the directory it runs in.
fn report_place(fixture: &WorkerFixture) -> ScriptedReply {
    terminal(&format!("pwd > {}/where; echo here > mark", fixture.chat.fixture.work().display()))
}

fn reported_place(fixture: &WorkerFixture) -> String {
    fs::read_to_string(fixture.chat.fixture.work().join("where")).unwrap().trim().to_owned()
}

#[test]
fn a_scratch_place_is_the_tasks_own_and_goes_when_it_is_done() {
    let fixture = WorkerFixture::replies([]);
    fixture.chat.model.push(report_place(&fixture));
    fixture.chat.model.push(complete());
    let task = fixture.some_task();
    fixture.work(&task).exits(0);
    let place = reported_place(&fixture);
    assert!(place.ends_with(&format!("/workspace/kanban/{task}")), "{place}");
    assert!(!Path::new(&place).exists());
    // The sandbox of the profile itself stays, and begins where it always does.
    assert_eq!(fixture.chat.fixture.tasks(), ["default"]);
    let here = fixture.chat.vestal(["run", "pwd"]).exits(0).text();
    assert_eq!(here.trim(), fixture.chat.fixture.work().to_str().unwrap());
}

#[test]
fn what_a_task_has_made_in_its_scratch_place_can_be_reviewed_as_long_as_its_sandbox_runs() {
    let fixture = WorkerFixture::replies([
        terminal("echo half > draft; printf 'a\\n' > 'b c'"),
        ScriptedReply::tool_call(
            "kanban_block",
            json!({"reason": "Which?", "kind": "needs-input"}),
        ),
    ]);
    let task = fixture.some_task();
    let diff = |more: &[&str]| {
        let line = ["kanban", "diff", task.as_str()].into_iter().chain(more.iter().copied());
        fixture.chat.vestal(line.collect::<Vec<_>>())
    };
    let unborn = diff(&[]).exits(1);
    assert!(unborn.stderr.contains("no worker has begun it yet"), "{unborn:?}");
    fixture.work(&task).exits(10);
    std::os::unix::fs::symlink("draft", fixture.scratch_places()[0].join("link")).unwrap();
    let found = diff(&["--json"]).exits(0).json();
    let files: Vec<&str> = found["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["path"].as_str().unwrap())
        .collect();
    assert_eq!(files, ["b c", "draft"], "{found}");
    assert_eq!(found["left_out"], json!(["link"]));
    let patch = diff(&[]).exits(0).text();
    assert!(patch.contains("+++ b/draft\n@@ -0,0 +1 @@\n+half\n"), "{patch}");
    assert_eq!(patch.matches("+half").count(), 1, "no link is followed: {patch}");
    diff(&["--attempt", "1"]).exits(1);
    // A look starts nothing.
    fixture.chat.vestal(["stop", "default"]).exits(0);
    let stopped = diff(&[]).exits(1);
    assert!(stopped.stderr.contains("which does not run"), "{stopped:?}");
    assert!(stopped.stderr.contains("to start it: vestal -p "), "{stopped:?}");
}

#[test]
fn a_place_is_kept_as_long_as_a_task_that_waits_for_it_is_open() {
    let fixture = WorkerFixture::replies([terminal("echo words > draft"), complete(), complete()]);
    let parent = fixture.some_task();
    let child = fixture.task(NewTask { parents: vec![parent.clone()], ..some() });
    fixture.work(&parent).exits(0);
    assert_eq!(fixture.scratch_places().len(), 1);
    fixture.work(&child).exits(0);
    assert!(fixture.scratch_places().is_empty());
}

#[test]
fn an_attempt_begins_with_nothing_of_one_that_failed() {
    let fixture = WorkerFixture::replies([]);
    let pipe = fixture.pipe("began");
    let text = format!("echo half > half-done; echo > {}; sleep 1000", pipe.display());
    fixture.chat.model.push(terminal(&text));
    let task = fixture.some_task();
    let run = fixture.claim(&task, Role::Work);
    let worker = RunningProgram::start(fixture.worker(&task, run));
    pipe.read();
    worker.signal(Signal::KILL);
    worker.end();
    fixture.sweep(&task, run).exits(0);
    let end = RunEnd { outcome: Outcome::Crashed, error: "killed".to_owned(), exit_code: None };
    let person = Authority::Person("user".to_owned());
    fixture.on(fixture.board.end_run(run, end, &FailurePolicy::default())).unwrap();
    let again = Promotion { reason: "again".to_owned(), force: false, dry_run: false };
    fixture.on(fixture.board.promote(&person, &task, again)).unwrap();

    fixture.chat.model.push(terminal("ls -A; cat ../*.failed/half-done"));
    fixture.chat.model.push(complete());
    fixture.work(&task).exits(0);
    let requests = fixture.chat.model.requests();
    let reported = requests[1].last_user_text().unwrap();
    assert!(reported.contains(&format!("{task}.failed")), "{reported}");
    let seen: Value = serde_json::from_str(&requests[2].last_tool_results()[0]).unwrap();
    assert_eq!(seen["output"], "half\n", "{seen}");
    assert!(fixture.scratch_places().is_empty());
}

#[test]
fn a_directory_of_the_host_is_worked_in_and_stays() {
    let fixture = WorkerFixture::replies([]);
    fixture.chat.model.push(report_place(&fixture));
    fixture.chat.model.push(complete());
    let dir = fixture.chat.fixture.work().join("project");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("AGENTS.md"), "Keep it short.").unwrap();
    let workspace = TaskWorkspace::Dir { path: dir.clone() };
    let task = fixture.task(NewTask { workspace, ..some() });
    fixture.work(&task).exits(0);
    assert_eq!(reported_place(&fixture), dir.to_str().unwrap());
    assert!(fixture.chat.model.requests()[0].system().contains("Keep it short."));
    // Nothing but what the worker made is in it, and its sandbox is gone.
    let mut names: Vec<_> =
        fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["AGENTS.md", "mark"]);
    assert!(fixture.chat.fixture.tasks().is_empty());
}

#[test]
fn the_sandbox_of_a_directory_is_kept_until_its_task_is_done() {
    let fixture = WorkerFixture::replies([
        ScriptedReply::tool_call("kanban_block", json!({"reason": "Which year?"})),
        complete(),
    ]);
    let dir = fixture.chat.fixture.work().join("project");
    fs::create_dir(&dir).unwrap();
    let task = fixture.task(NewTask { workspace: TaskWorkspace::Dir { path: dir }, ..some() });
    fixture.work(&task).exits(10);
    assert_eq!(fixture.chat.fixture.tasks(), [format!("kanban-{task}")]);
    let person = Authority::Person("user".to_owned());
    fixture.on(fixture.board.unblock(&person, &task, None)).unwrap();
    fixture.work(&task).exits(0);
    assert!(fixture.chat.fixture.tasks().is_empty());
}

#[test]
fn a_directory_that_is_not_there_is_no_place_to_work() {
    let fixture = WorkerFixture::replies([]);
    let workspace = TaskWorkspace::Dir { path: "/nonexistent/project".into() };
    let task = fixture.task(NewTask { workspace, ..some() });
    fixture.work(&task).exits(70);
    let run = fixture.last_run(&task);
    assert_eq!(run.outcome, Some(Outcome::SpawnFailed));
    assert!(run.error.unwrap().contains("/nonexistent/project"));
}

fn git(dir: &Path, arguments: &[&str]) -> String {
    let done = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-C"])
        .arg(dir)
        .args(arguments)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).unwrap()
}

/// Makes a repository with a working tree on a branch of its own.
fn repository(work: &Path) -> (std::path::PathBuf, std::path::PathBuf) {
    let (repository, tree) = (work.join("repository"), work.join("tree"));
    fs::create_dir(&repository).unwrap();
    git(&repository, &["init", "-q"]);
    git(&repository, &["commit", "-q", "--allow-empty", "-m", "first"]);
    git(&repository, &["worktree", "add", "-q", "-b", "wt/x", tree.to_str().unwrap()]);
    (repository, tree)
}

const COMMIT: &str = "echo x > new && git add new && git -c user.name=t -c user.email=t@example.org commit -q -m second && git branch --show-current";

#[test]
fn a_worker_commits_on_the_branch_of_its_tree() {
    let fixture = WorkerFixture::replies([terminal(COMMIT), complete()]);
    let (repository, tree) = repository(&fixture.chat.fixture.work());
    let workspace =
        TaskWorkspace::Worktree { path: repository.clone(), branch: Some("wt/x".to_owned()) };
    let task = fixture.task(NewTask { workspace, ..some() });
    let run = fixture.claim(&task, Role::Work);
    let mut worker = fixture.worker(&task, run);
    worker.env("VESTAL_KANBAN_WORKSPACE", &tree).env("VESTAL_KANBAN_BRANCH", "wt/x");
    finish(worker.spawn().unwrap()).exits(0);
    assert_eq!(git(&repository, &["log", "--format=%s", "wt/x"]), "second\nfirst\n");
    assert!(tree.join("new").exists());
    let reported = fixture.chat.model.requests()[0].last_user_text().unwrap();
    assert!(reported.contains("on the branch wt/x"), "{reported}");
}

/// Tries what gets around a review or has a program run as the user, then commits.
const TRESPASS: &str = "echo pwned > new && git add new
git -c user.name=t -c user.email=t@example.org commit -q -m second
git update-ref refs/heads/main HEAD; git branch -f other HEAD
git config core.fsmonitor 'touch PWNED; true'; git config --worktree core.fsmonitor 'touch PWNED; true'
dir=$(git rev-parse --path-format=absolute --git-common-dir)
mkdir -p $dir/hooks && printf '#!/bin/sh\ntouch PWNED\n' > $dir/hooks/post-checkout && chmod +x $dir/hooks/post-checkout
echo '* filter=x' > $dir/info/attributes
find $dir/shared-objects -type f -exec sh -c 'chmod u+w {}; echo x > {}' ';' 2> /dev/null
git log --format=%s";

#[test]
fn a_worker_in_a_sandbox_moves_the_branch_of_its_tree_and_nothing_else_of_the_repository() {
    let fixture = WorkerFixture::with_fixture(
        ProgramFixture::native(),
        [terminal("sh trespass.sh; rm trespass.sh"), terminal("git log --format=%s"), complete()],
    );
    let (repository, tree) = repository(&fixture.chat.fixture.work());
    git(&repository, &["branch", "-M", "main"]);
    git(&repository, &["branch", "other"]);
    // A program that the worker runs is looked into by nobody.
    fs::write(tree.join("trespass.sh"), TRESPASS).unwrap();
    let settings = fs::read(repository.join(".git/config")).unwrap();
    let hooks = vestal_testkit::files::entries(&repository.join(".git/hooks"));
    let workspace =
        TaskWorkspace::Worktree { path: repository.clone(), branch: Some("wt/x".to_owned()) };
    let task = fixture.task(NewTask { workspace, ..some() });
    let run = fixture.claim(&task, Role::Work);
    let mut worker = fixture.worker(&task, run);
    worker.env("VESTAL_KANBAN_WORKSPACE", &tree).env("VESTAL_KANBAN_BRANCH", "wt/x");
    finish(worker.spawn().unwrap()).exits(0);
    let requests = fixture.chat.model.requests();
    let seen: Value = serde_json::from_str(&requests[2].last_tool_results()[0]).unwrap();
    assert_eq!(seen["output"], "second\nfirst\n", "{seen}");

    assert_eq!(git(&repository, &["log", "--format=%s", "wt/x"]), "second\nfirst\n");
    for branch in ["main", "other"] {
        assert_eq!(git(&repository, &["log", "--format=%s", branch]), "first\n", "{branch}");
    }
    assert_eq!(fs::read(repository.join(".git/config")).unwrap(), settings);
    assert_eq!(vestal_testkit::files::entries(&repository.join(".git/hooks")), hooks);
    for dir in [&repository, &tree] {
        assert_eq!(git(dir, &["status", "--porcelain"]), "");
        assert!(!dir.join("PWNED").exists());
    }
    git(&repository, &["fsck", "--strict", "--no-progress"]);
}

#[test]
fn what_a_worker_in_a_container_writes_to_the_git_directory_does_not_reach_the_repository() {
    let fixture = WorkerFixture::with_fixture(ProgramFixture::docker(), []);
    let (repository, tree) = repository(&fixture.chat.fixture.work());
    git(&repository, &["branch", "-M", "main"]);
    let dir = repository.join(".git");
    // The image has no git, and needs none for this.
    let trespass = "cat $1/refs/heads/wt/x && test -n \"$(ls $1/shared-objects)\" && echo seen
        echo junk > $1/config; echo junk > $1/refs/heads/main; mkdir -p $1/hooks; echo junk > $1/hooks/post-checkout
        echo junk > $1/shared-objects/junk && echo wrote; true";
    fs::write(tree.join("trespass.sh"), trespass).unwrap();
    let line = format!("sh trespass.sh {}; rm trespass.sh", dir.display());
    fixture.chat.model.push(terminal(&line));
    fixture.chat.model.push(complete());
    let settings = fs::read(dir.join("config")).unwrap();
    let before = git(&repository, &["for-each-ref"]);
    let workspace =
        TaskWorkspace::Worktree { path: repository.clone(), branch: Some("wt/x".to_owned()) };
    let task = fixture.task(NewTask { workspace, ..some() });
    let run = fixture.claim(&task, Role::Work);
    let mut worker = fixture.worker(&task, run);
    worker.env("VESTAL_KANBAN_WORKSPACE", &tree).env("VESTAL_KANBAN_BRANCH", "wt/x");
    finish(worker.spawn().unwrap()).exits(0);
    let seen: Value =
        serde_json::from_str(&fixture.chat.model.requests()[1].last_tool_results()[0]).unwrap();
    let printed = seen["output"].as_str().unwrap();
    assert!(printed.contains("\nseen\n") && !printed.contains("wrote"), "{seen}");
    assert_eq!(fs::read(dir.join("config")).unwrap(), settings);
    assert_eq!(git(&repository, &["for-each-ref"]), before);
    assert!(!dir.join("hooks/post-checkout").exists() && !dir.join("objects/junk").exists());
}

fn attach_notes(fixture: &WorkerFixture, task: &TaskId) {
    let person = Authority::Person("user".to_owned());
    let new = NewAttachment {
        name: "notes.txt".to_owned(),
        content_type: None,
        source: AttachmentSource::Bytes(b"the year is 2026".to_vec()),
    };
    fixture.on(fixture.board.attach(&person, task, new)).unwrap();
}

#[test]
fn files_of_a_task_are_laid_out_for_its_worker() {
    let fixture = WorkerFixture::replies([]);
    let task = fixture.some_task();
    attach_notes(&fixture, &task);
    fixture.chat.model.push(terminal("cat attachments/notes.txt"));
    fixture.chat.model.push(complete());
    fixture.work(&task).exits(0);
    let requests = fixture.chat.model.requests();
    let reported = requests[0].last_user_text().unwrap();
    assert!(reported.contains("/attachments/notes.txt"), "{reported}");
    let read = &requests[1].tool_results()[0];
    assert!(read.contains("the year is 2026"), "{read}");
}

fn attach_picture(fixture: &WorkerFixture, task: &TaskId, name: &str) {
    let person = Authority::Person("user".to_owned());
    let bytes = b"\x89PNG\r\n\x1a\n rest".to_vec();
    let new = NewAttachment {
        name: name.to_owned(),
        content_type: None,
        source: AttachmentSource::Bytes(bytes),
    };
    fixture.on(fixture.board.attach(&person, task, new)).unwrap();
}

#[test]
fn a_worker_sees_the_pictures_of_its_task_and_does_without_where_its_model_takes_none() {
    let fixture = WorkerFixture::replies([]);
    let parent = fixture.some_task();
    let child = fixture.task(NewTask { parents: vec![parent.clone()], ..some() });
    attach_notes(&fixture, &child);
    let own: Vec<String> = (1..=9).map(|number| format!("shot-{number}.png")).collect();
    for name in &own {
        attach_picture(&fixture, &child, name);
    }
    // One more than a request takes.
    attach_picture(&fixture, &parent, "plan-a");
    attach_picture(&fixture, &parent, "plan-b");
    fixture.chat.model.push(complete());
    fixture.work(&parent).exits(0);
    fixture.chat.model.push(ScriptedReply::error(400, "this model has no image input"));
    fixture.chat.model.push(complete());
    fixture.work(&child).exits(0);

    let requests = fixture.chat.model.requests();
    let [first, second] = &requests[1..] else { panic!("{} requests", requests.len()) };
    let pictures = |request: &vestal_scripted_model::ReceivedRequest| {
        let printed = request.messages().last().unwrap().to_string();
        printed.matches("data:image/png;base64,iVBORw0KGgo").count()
    };
    assert_eq!((pictures(first), pictures(second)), (10, 0));
    let reported = second.last_user_text().unwrap();
    assert_eq!(first.last_user_text(), Some(reported.clone()));
    let place = format!("/kanban/{child}");
    let (shown, rest) =
        reported.split_once("go with this message").unwrap().1.split_once("These").unwrap();
    let of_parent = format!("{place}/parents/{parent}/plan-");
    for name in &own {
        assert!(
            shown.contains(&format!("{place}/attachments/{name} (image/png, 13 bytes)")),
            "{reported}"
        );
    }
    assert!(shown.contains(&format!("{of_parent}a (image/png")), "{reported}");
    assert!(
        !shown.contains("notes.txt") && rest.contains(&format!("{of_parent}b\n")),
        "{reported}"
    );
}

#[test]
fn the_files_of_a_task_reach_the_worker_of_the_next_whatever_its_profile() {
    let fixture = WorkerFixture::replies([
        terminal("echo 'the year is 2026' > report.md"),
        ScriptedReply::tool_call(
            "kanban_complete",
            json!({"summary": "It is written.", "artifacts": ["report.md"]}),
        ),
    ]);
    let checker = ProfileName::new("checker").unwrap();
    fs::create_dir_all(fixture.chat.fixture.home().join("profiles/checker")).unwrap();
    let parent = fixture.some_task();
    let new = NewTask {
        parents: vec![parent.clone()],
        assignee: Some(checker.clone()),
        body: format!("Check it. {}", "Look twice. ".repeat(1000)),
        ..some()
    };
    let child = fixture.task(new);
    fixture.work(&parent).exits(0);
    let look = format!("cat parents/{parent}/report.md; tail -c 12 task.md");
    fixture.chat.model.push(terminal(&look));
    fixture.chat.model.push(complete());
    let host = fixture.board.host().clone();
    let claim = Claim {
        lease: Duration::from_mins(2),
        profile: Some(checker),
        role: Role::Work,
        host: Some(host.clone()),
    };
    let run =
        fixture.on(fixture.board.claim(&Authority::Dispatcher(host.name), &child, claim)).unwrap();
    let mut worker = fixture.worker(&child, run.id);
    worker.args(["-p", "checker"]);
    finish(worker.spawn().unwrap()).exits(0);
    let requests = fixture.chat.model.requests();
    let reported = requests[2].last_user_text().unwrap();
    assert!(reported.contains("files: report.md (17 bytes)"), "{reported}");
    assert!(reported.contains(&format!("/parents/{parent}/report.md")), "{reported}");
    let seen: Value = serde_json::from_str(&requests[3].last_tool_results()[0]).unwrap();
    assert_eq!(seen["output"], "the year is 2026\nLook twice. ", "{seen}");
    // What was laid out goes with the task's place, and the profile's sandbox with the test.
    let kept =
        fixture.chat.fixture.home().join("profiles/checker/sandboxes/default/workspace/kanban");
    assert_eq!(fs::read_dir(kept).unwrap().count(), 0);
    fixture.chat.vestal(["-p", "checker", "rm", "-y", "--files", "default"]).exits(0);
}

#[test]
fn no_task_is_worked_on_in_vestals_own_home() {
    let fixture = WorkerFixture::replies([]);
    let workspace = TaskWorkspace::Dir { path: fixture.chat.fixture.home() };
    let task = fixture.task(NewTask { workspace, ..some() });
    fixture.work(&task).exits(70);
    let error = fixture.last_run(&task).error.unwrap();
    assert!(error.contains("inside Vestal's home"), "{error}");
    let place = format!("dir:{}", fixture.chat.fixture.home().display());
    let refused = fixture.chat.vestal(["kanban", "create", "x", "--workspace", &place]).exits(2);
    assert!(refused.stderr.contains("Vestal's own home"), "{refused:?}");
}

#[test]
fn a_worker_knows_nothing_of_its_dispatchers_secrets() {
    let fixture = WorkerFixture::replies([]);
    let home = fixture.chat.fixture.home();
    let shown = fixture.chat.fixture.work().join("shown");
    fixture.chat.model.push(terminal(&format!(
        "tr '\\0' '\\n' < /proc/$(cut -d' ' -f4 /proc/self/stat)/environ > {0}; env >> {0}",
        shown.display()
    )));
    fixture.chat.model.push(complete());
    let settings = format!(
        "model: {{default: scripted, base_url: {}}}\nterminal: {{backend: local}}\napprovals: {{unattended: allow}}\n",
        fixture.chat.model.base_url()
    );
    fs::write(home.join("config.yaml"), settings).unwrap();
    fs::set_permissions(home.join("config.yaml"), fs::Permissions::from_mode(0o600)).unwrap();
    let task = fixture.some_task();
    let run = fixture.claim(&task, Role::Work);
    let mut environment: Vec<(std::ffi::OsString, std::ffi::OsString)> = fixture
        .chat
        .fixture
        .environment()
        .into_iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    environment.push(("DEPLOY_TOKEN".into(), "a-token-of-the-dispatcher".into()));
    environment.push(("OPENAI_API_KEY".into(), "a-key-of-the-dispatcher".into()));
    environment.push(("CHOSEN".into(), "let-through".into()));
    let launcher = ProgramLauncher {
        program: env!("CARGO_BIN_EXE_vestal").into(),
        root: home.clone(),
        environment: Environment::from_pairs(environment),
        passthrough: vec!["CHOSEN".to_owned()],
        log: LogPolicy::default(),
    };
    let order = LaunchSpec {
        board: "default".to_owned(),
        dir: fixture.board.dir().to_owned(),
        task: task.clone(),
        run,
        profile: ProfileName::default_profile(),
        host: fixture.board.host().name.clone(),
        tenant: None,
        workspace: WorkspaceDir::default(),
        lease: std::time::Duration::from_mins(2),
        failures: None,
    };
    let code = fixture.on(async {
        let mut launched = launcher.launch(&order).await.unwrap();
        launched.child.wait().await.unwrap().code()
    });
    assert_eq!(code, Some(0), "{}", fixture.log(&task));
    assert_eq!(fixture.get(&task).status, Status::Done);
    let seen = fs::read_to_string(shown).unwrap();
    assert!(seen.contains("CHOSEN=let-through"), "{seen}");
    assert!(seen.contains(&format!("VESTAL_KANBAN_TASK={task}")), "{seen}");
    assert!(!seen.contains("of-the-dispatcher"), "{seen}");
}

#[test]
fn a_container_has_the_directory_at_its_own_path_and_goes_when_the_task_is_done() {
    let fixture = a_sandbox_has_the_directory_at_its_own_path(ProgramFixture::docker());
    assert!(fixture.containers().is_empty());
}

#[test]
fn a_native_sandbox_has_the_directory_at_its_own_path_and_goes_when_the_task_is_done() {
    let fixture = a_sandbox_has_the_directory_at_its_own_path(ProgramFixture::native());
    assert_eq!(fixture.tasks(), [""; 0]);
}

fn a_sandbox_has_the_directory_at_its_own_path(fixture: ProgramFixture) -> ProgramFixture {
    let fixture = WorkerFixture::with_fixture(
        fixture,
        [
            terminal("pwd; echo made > made; cat /workspace/kanban/*/attachments/notes.txt"),
            complete(),
        ],
    );
    let dir = fixture.chat.fixture.work().join("project");
    fs::create_dir(&dir).unwrap();
    // Every user that the commands may run as can write there.
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    let workspace = TaskWorkspace::Dir { path: dir.clone() };
    let task = fixture.task(NewTask { workspace, ..some() });
    attach_notes(&fixture, &task);
    fixture.work(&task).exits(0);
    let seen: Value =
        serde_json::from_str(&fixture.chat.model.requests()[1].last_tool_results()[0]).unwrap();
    let expected = format!("{}\nthe year is 2026", dir.display());
    assert_eq!(seen["output"].as_str().map(str::trim), Some(expected.as_str()), "{seen}");
    assert_eq!(fs::read_to_string(dir.join("made")).unwrap(), "made\n");
    fixture.chat.fixture
}

#[test]
fn a_scratch_place_in_a_container_is_below_its_workspace() {
    a_scratch_place_is_below_the_workspace(ProgramFixture::docker());
}

#[test]
fn a_scratch_place_in_a_native_sandbox_is_below_its_workspace() {
    a_scratch_place_is_below_the_workspace(ProgramFixture::native());
}

fn a_scratch_place_is_below_the_workspace(fixture: ProgramFixture) {
    let fixture = WorkerFixture::with_fixture(fixture, [terminal("pwd"), complete()]);
    let task = fixture.some_task();
    fixture.work(&task).exits(0);
    let seen: Value =
        serde_json::from_str(&fixture.chat.model.requests()[1].last_tool_results()[0]).unwrap();
    let place = format!("/workspace/kanban/{task}");
    assert_eq!(seen["output"].as_str().map(str::trim), Some(place.as_str()), "{seen}");
    let left = fixture.chat.fixture.vestal(["run", "ls -A /workspace/kanban"]).exits(0).text();
    assert_eq!(left, "");
}
