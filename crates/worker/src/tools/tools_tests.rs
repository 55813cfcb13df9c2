use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use vestal_agent::redact::Redactor;
use vestal_agent::{ConversationSandbox, ToolContext};
use vestal_board::boards::{Boards, Slug};
use vestal_board::store::Durability;
use vestal_board::{
    Authority, Board, Claim, Fence, HostId, HostName, NewTask, Role, Run, Status, TaskId,
};
use vestal_config::{Environment, Home, ProfileName, Settings};
use vestal_model::ToolSpec;
use vestal_sandbox::{Engine, Overrides, TaskName};

use super::*;

/// A board, and tools at it. No test here needs a sandbox, so none is started.
struct ToolsFixture {
    _dir: TempDir,
    boards: Boards,
    board: Board,
    context: ToolContext,
}

impl ToolsFixture {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let host = HostId::this(HostName::new("here")).unwrap();
        let boards = Boards::at(dir.path().join("kanban"), host, Durability::Normal);
        let board = boards.open_to_write(&Slug::default_board()).await.unwrap();
        let environment = Environment::from_pairs([("HOME", dir.path().to_str().unwrap())]);
        let settings =
            Settings::load(&vestal_agent::schema(), Home::at(dir.path()), environment, vec![]);
        let engine = Engine::open(settings).unwrap();
        let task = TaskName::default_task();
        let sandbox = ConversationSandbox::new(engine, task, Overrides::default(), "session");
        let context = ToolContext {
            redactor: Arc::new(Redactor::new(["hunter2-hunter2".to_owned()])),
            ..ToolContext::new("20261115-103001-k3f9ab".parse().unwrap(), sandbox)
        };
        Self { _dir: dir, boards, board, context }
    }

    async fn task(&self, title: &str) -> TaskId {
        let by = Authority::Person("user".to_owned());
        let assignee = Some(ProfileName::default_profile());
        let new = NewTask { title: title.to_owned(), assignee, ..NewTask::default() };
        self.board.create(&by, new).await.unwrap().task.id
    }

    async fn claim(&self, task: &TaskId) -> Run {
        let claim = Claim {
            lease: Duration::from_mins(2),
            profile: Some(ProfileName::default_profile()),
            role: Role::Work,
            host: Some(self.board.host().clone()),
        };
        let by = Authority::Dispatcher(HostName::new("here"));
        self.board.claim(&by, task, claim).await.unwrap()
    }

    async fn worker(&self, task: &TaskId) -> AgentBoard {
        let run = self.claim(task).await.id;
        let fence = Fence { task: task.clone(), run, profile: ProfileName::default_profile() };
        AgentBoard::for_worker(self.board.clone(), fence, Role::Work, Duration::from_mins(2))
    }

    fn person(&self) -> AgentBoard {
        AgentBoard::for_person(self.boards.clone(), None, "ada".to_owned())
    }

    async fn call(&self, kanban: &AgentBoard, name: &str, arguments: Value) -> Value {
        let mut registry = Registry::default();
        add_to(&mut registry, kanban);
        let output = registry.get(name).unwrap().call(&self.context, arguments).await;
        let value: Value = serde_json::from_str(&output.content).unwrap();
        assert_eq!(output.is_error, value.get("error").is_some(), "{value}");
        assert_eq!(output.is_error, value.get("ok").is_none(), "{value}");
        value
    }
}

fn names(kanban: &AgentBoard) -> Vec<String> {
    let mut registry = Registry::default();
    add_to(&mut registry, kanban);
    assert_eq!(registry.toolsets().into_iter().collect::<Vec<_>>(), [TOOLSET]);
    registry.names().map(str::to_owned).collect()
}

#[tokio::test]
async fn workers_and_persons_have_the_tools_that_fit_them() {
    let stage = ToolsFixture::new().await;
    let task = stage.task("one").await;
    let worker = names(&stage.worker(&task).await);
    let person = names(&stage.person());
    let only = |these: &[String], those: &[String]| -> Vec<String> {
        these.iter().filter(|name| !those.contains(name)).cloned().collect()
    };
    assert_eq!(only(&worker, &person), ["kanban_heartbeat"]);
    assert_eq!(only(&person, &worker), ["kanban_list", "kanban_request_changes", "kanban_unblock"]);
}

/// Returns each tool with its arguments and their types; those that are required have a star.
fn outline(kanban: &AgentBoard) -> Vec<String> {
    let mut registry = Registry::default();
    add_to(&mut registry, kanban);
    let tool = |spec: &ToolSpec| {
        let schema = &spec.parameters;
        assert_eq!(schema["type"], "object");
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let argument = |(name, schema): (&String, &Value)| {
            let star = if required.iter().any(|word| word == name) { "*" } else { "" };
            format!("{star}{name}: {}", type_of(schema))
        };
        let properties = schema["properties"].as_object().unwrap();
        let mut arguments: Vec<String> = properties.iter().map(argument).collect();
        arguments.sort();
        format!("{}({})", spec.name, arguments.join(", "))
    };
    let mut tools: Vec<String> = registry.specs().iter().map(tool).collect();
    tools.sort();
    tools
}

fn type_of(schema: &Value) -> String {
    if let Some(words) = schema["enum"].as_array() {
        assert_eq!(schema["type"], "string");
        return words.iter().map(|word| word.as_str().unwrap()).collect::<Vec<_>>().join("|");
    }
    match schema["type"].as_str().unwrap() {
        "array" => format!("[{}]", type_of(&schema["items"])),
        other => other.to_owned(),
    }
}

#[tokio::test]
async fn the_schemas_name_the_arguments_and_their_types() {
    let stage = ToolsFixture::new().await;
    let task = stage.task("one").await;
    let finish = "metadata: object, result: string, task_id: string";
    assert_eq!(
        outline(&stage.worker(&task).await),
        [
            "kanban_attach(content_base64: string, content_type: string, filename: string, \
             path: string, task_id: string)"
                .to_owned(),
            "kanban_attachments(task_id: string)".to_owned(),
            "kanban_block(*reason: string, kind: needs_input|capability|transient|dependency, \
             task_id: string)"
                .to_owned(),
            "kanban_comment(*body: string, task_id: string)".to_owned(),
            format!(
                "kanban_complete(*summary: string, artifacts: [string], created_cards: [string], \
                 {finish})"
            ),
            "kanban_create(*assignee: string, *title: string, body: string, \
             idempotency_key: string, initial_status: running|blocked, \
             max_runtime_seconds: number, needs_review: boolean, parents: [string], \
             priority: integer, reviewer: string, skills: [string], triage: boolean, \
             workspace_kind: inherit|scratch)"
                .to_owned(),
            "kanban_heartbeat(note: string)".to_owned(),
            "kanban_link(*parent_id: string, child_id: string)".to_owned(),
            "kanban_show(task_id: string)".to_owned(),
            format!(
                "kanban_submit(*summary: string, artifacts: [string], created_cards: [string], \
                 {finish})"
            ),
        ]
    );
    let statuses: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
    assert_eq!(
        outline(&stage.person()),
        [
            "kanban_attach(board: string, content_base64: string, content_type: string, \
             filename: string, path: string, task_id: string)"
                .to_owned(),
            "kanban_attachments(board: string, task_id: string)".to_owned(),
            "kanban_block(*reason: string, board: string, \
             kind: needs_input|capability|transient|dependency, task_id: string)"
                .to_owned(),
            "kanban_comment(*body: string, board: string, task_id: string)".to_owned(),
            format!(
                "kanban_complete(*summary: string, artifacts: [string], board: string, \
                 created_cards: [string], {finish})"
            ),
            "kanban_create(*assignee: string, *title: string, board: string, body: string, \
             idempotency_key: string, initial_status: running|blocked, \
             max_runtime_seconds: number, needs_review: boolean, parents: [string], \
             priority: integer, reviewer: string, skills: [string], tenant: string, \
             triage: boolean, workspace_kind: scratch|dir|worktree, workspace_path: string)"
                .to_owned(),
            "kanban_link(*parent_id: string, board: string, child_id: string)".to_owned(),
            format!(
                "kanban_list(assignee: string, board: string, include_archived: boolean, \
                 limit: integer, status: {}, tenant: string)",
                statuses.join("|")
            ),
            "kanban_request_changes(*reason: string, board: string, task_id: string)".to_owned(),
            "kanban_show(board: string, task_id: string)".to_owned(),
            format!(
                "kanban_submit(*summary: string, artifacts: [string], board: string, \
                 created_cards: [string], {finish})"
            ),
            "kanban_unblock(*task_id: string, board: string, reason: string)".to_owned(),
        ]
    );
}

#[tokio::test]
async fn reading_changes_nothing() {
    let stage = ToolsFixture::new().await;
    let task = stage.task("one").await;
    let kanban = stage.worker(&task).await;
    let last = async || stage.board.read().await.unwrap().last_event().await.unwrap();
    let (before, was) = (last().await, stage.board.get(&task).await.unwrap());
    stage.call(&kanban, "kanban_show", json!({})).await;
    stage.call(&kanban, "kanban_attachments", json!({"task_id": &task.as_str()[..8]})).await;
    let person = stage.person();
    let listed = stage.call(&person, "kanban_list", json!({"limit": "1"})).await;
    assert_eq!((listed["count"].as_u64(), listed["truncated"].as_bool()), (Some(1), Some(false)));
    assert_eq!((last().await, stage.board.get(&task).await.unwrap()), (before, was));
    let missing = stage.call(&person, "kanban_list", json!({"board": "nope"})).await;
    assert!(missing["error"].as_str().unwrap().contains("nope"), "{missing}");
    assert!(!stage.boards.exists(&Slug::new("nope").unwrap()).unwrap());
}

#[tokio::test]
async fn a_worker_stays_on_its_own_board() {
    let stage = ToolsFixture::new().await;
    let task = stage.task("one").await;
    let kanban = stage.worker(&task).await;
    let own = stage.call(&kanban, "kanban_comment", json!({"body": "x", "board": "Default"})).await;
    assert_eq!(own["ok"], true);
    let other = stage.call(&kanban, "kanban_comment", json!({"body": "x", "board": "other"})).await;
    assert!(other["error"].as_str().unwrap().contains("its own board"), "{other}");
}

#[tokio::test]
async fn a_wrong_call_is_explained_to_the_model_and_nothing_happens() {
    let stage = ToolsFixture::new().await;
    let task = stage.task("one").await;
    let kanban = stage.worker(&task).await;
    for (name, arguments, word) in [
        ("kanban_complete", json!({}), "`summary`"),
        ("kanban_complete", json!({"summary": "  "}), "`summary`"),
        ("kanban_complete", json!({"summary": "x", "metadata": [1]}), "`metadata`"),
        (
            "kanban_complete",
            json!({"summary": "x", "created_cards": ["the other one"]}),
            "other one",
        ),
        ("kanban_block", json!({"reason": "x", "kind": "gave_up"}), "`kind`"),
        ("kanban_block", json!({"reason": "x", "kind": "dependency"}), "waits for no other task"),
        ("kanban_comment", json!({"body": ""}), "`body`"),
        ("kanban_create", json!({"title": "x"}), "`assignee`"),
        ("kanban_create", json!({"title": "x", "assignee": "no one!"}), "`assignee`"),
        (
            "kanban_create",
            json!({"title": "x", "assignee": "a", "workspace_kind": "dir", "workspace_path": "/etc"}),
            "workspace",
        ),
        (
            "kanban_create",
            json!({"title": "x", "assignee": "a", "parents": ["t_000000000000"]}),
            "t_000000000000",
        ),
        ("kanban_link", json!({"parent_id": task.as_str()}), "cannot wait for"),
        ("kanban_attach", json!({}), "either"),
        ("kanban_attach", json!({"content_base64": "aGk="}), "`filename`"),
        ("kanban_attach", json!({"content_base64": "***", "filename": "x"}), "base64"),
        ("kanban_show", json!({"task_id": "t_zzzz"}), "t_zzzz"),
    ] {
        let reported = stage.call(&kanban, name, arguments.clone()).await;
        let error =
            reported["error"].as_str().unwrap_or_else(|| panic!("{name} {arguments} {reported}"));
        assert!(error.contains(word), "{name} {arguments}: {error}");
    }
    assert_eq!(kanban.reported(), None);
    let held = stage.board.get(&task).await.unwrap();
    assert_eq!(held.status, vestal_board::Status::Running);
}

#[tokio::test]
async fn a_context_knows_when_its_task_is_lost_or_reported() {
    let stage = ToolsFixture::new().await;
    let (one, other) = (stage.task("one").await, stage.task("other").await);
    let (kanban, lost) = (stage.worker(&one).await, stage.worker(&other).await);
    let person = Authority::Person("ada".to_owned());
    stage.board.reclaim(&person, &other, "not now").await.unwrap();
    let refused = stage.call(&lost, "kanban_complete", json!({"summary": "x"})).await;
    assert!(refused["error"].as_str().unwrap().contains("does not hold"), "{refused}");
    assert_eq!(lost.until_reported().await, crate::context::ReportedState::Lost);

    let done =
        stage.call(&kanban, "kanban_complete", json!({"summary": "It is hunter2-hunter2."})).await;
    assert_eq!(done["status"], "done");
    assert_eq!(kanban.until_reported().await, crate::context::ReportedState::Finished);
    let summary = stage.board.show(&one).await.unwrap().latest_summary.unwrap();
    assert!(summary.starts_with("It is ") && !summary.contains("hunter2"), "{summary}");
}

#[tokio::test]
async fn bytes_become_a_file_of_the_task_by_a_safe_name() {
    let stage = ToolsFixture::new().await;
    let task = stage.task("one").await;
    let kanban = stage.worker(&task).await;
    let arguments = json!({"content_base64": "aGVsbG8", "filename": "../../etc/hello.txt"});
    let kept = stage.call(&kanban, "kanban_attach", arguments).await;
    assert_eq!((kept["filename"].as_str(), kept["size"].as_u64()), (Some("hello.txt"), Some(5)));
    let attachments = stage.board.show(&task).await.unwrap().attachments;
    let path = stage.board.attachment_path(&attachments[0]);
    assert_eq!(std::fs::read(path).unwrap(), b"hello");
}

#[tokio::test]
async fn a_chat_acts_in_its_persons_name() {
    let stage = ToolsFixture::new().await;
    let person = stage.person();
    let made = json!({"title": "x", "assignee": "default", "initial_status": "blocked"});
    let made = stage.call(&person, "kanban_create", made).await;
    assert_eq!(made["status"], "blocked");
    let id = made["task_id"].as_str().unwrap();
    let freed = json!({"task_id": id, "reason": "go"});
    let freed = stage.call(&person, "kanban_unblock", freed).await;
    assert_eq!(freed["status"], "ready");
    let task = stage.board.get(&id.parse().unwrap()).await.unwrap();
    assert_eq!(task.created_by, "ada");
    assert_eq!(task.session_id.as_deref(), Some("20261115-103001-k3f9ab"));
    // Without a task of its own it has to say which one it means.
    let nothing = stage.call(&person, "kanban_complete", json!({"summary": "x"})).await;
    assert!(nothing["error"].as_str().unwrap().contains("`task_id`"), "{nothing}");
}
