//! What `--json` prints, to the byte: which members there are, in which order, and what is null. Only values that differ from run to
//! run are masked. Other programs read this output, so a change here is a change of `docs/compatibility.md`.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use serde_json::Value;
use vestal_scripted_model::{BilledUsage, Model, Script, ScriptedModel, ScriptedReply};

use crate::chat::fixture::ChatFixture;
use crate::support::{ProgramFixture, finish};
use crate::{conversations, mcp, skills};

/// Members whose values differ from run to run, or from machine to machine.
const VARYING: &[&str] = &[
    "at",
    "author",
    "boot",
    "bytes",
    "claim_expires",
    "claimed_at",
    "completed_at",
    "context",
    "conversation",
    "cpu_ms",
    "created_at",
    "created_by",
    "default_workdir_host",
    "duration_ms",
    "ended_at",
    "expires",
    "expires_at",
    "fetched_at",
    "files",
    "guest_memory_bytes",
    "host",
    "idle_seconds",
    "incarnation",
    "input_tokens",
    "last_heartbeat_at",
    "last_run_at",
    "last_prompt_tokens",
    "last_used_at",
    "log_bytes",
    "memory_bytes",
    "now",
    "oldest_ready_age_seconds",
    "owner",
    "pid",
    "pid_start",
    "process",
    "processes",
    "program",
    "session_id",
    "size",
    "start",
    "started_at",
    "took_ms",
    "total_tokens",
    "up_seconds",
    "updated_at",
    "uploaded_by",
    "worker_pid",
    "workspace_host",
];

/// Calls of the program and what they printed, as far as it is the same each time.
struct Transcript<'w> {
    fixture: &'w ProgramFixture,
    variables: Vec<(&'static str, String)>,
    /// Names for what is different each time, such as ids.
    names: Vec<(String, String)>,
    text: String,
}

impl<'w> Transcript<'w> {
    fn new(fixture: &'w ProgramFixture) -> Self {
        let root = fixture.home().parent().unwrap().canonicalize().unwrap().display().to_string();
        Self {
            fixture,
            variables: Vec::new(),
            names: vec![(root, "[root]".to_owned())],
            text: String::new(),
        }
    }

    /// Has a value that is different each time shown by a name.
    fn name(&mut self, value: &Value, name: &str) -> String {
        let value = value.as_str().unwrap().to_owned();
        self.names.push((value.clone(), format!("[{name}]")));
        value
    }

    /// Calls the program with `--json` and notes what it prints.
    #[track_caller]
    fn call(&mut self, args: &[&str]) -> Value {
        self.call_exiting(args, 0)
    }

    /// As [`Transcript::call`], where another exit code is expected.
    #[track_caller]
    fn call_exiting(&mut self, args: &[&str], code: i32) -> Value {
        let printed = self.ask(args, code);
        let named = |text: &str| {
            self.names.iter().fold(text.to_owned(), |text, (value, name)| text.replace(value, name))
        };
        let shown = format!("$ {}\n{}", named(&args.join(" ")), masked(&named(&printed)));
        writeln!(self.text, "{shown}").unwrap();
        serde_json::from_str(&printed).unwrap_or_default()
    }

    /// As [`Transcript::call`], and notes nothing: what is printed has no name yet.
    #[track_caller]
    fn learn(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ask(args, 0)).unwrap()
    }

    /// Calls the program. `--json` comes last unless it is among the arguments.
    #[track_caller]
    fn ask(&self, args: &[&str], code: i32) -> String {
        let flag = if args.contains(&"--json") { &[][..] } else { &["--json"] };
        let mut command: Command = self.fixture.command([args, flag].concat());
        command.envs(self.variables.clone());
        finish(command.spawn().unwrap()).exits(code).text()
    }
}

/// Returns JSON as it was printed, with `~` for strings and `0` for numbers that vary. Members stay in their order.
fn masked(json: &str) -> String {
    let mut out = String::new();
    let mut key = String::new();
    let mut rest = json;
    while let Some(c) = rest.chars().next() {
        let end = match c {
            '"' => string_end(rest),
            '-' | '0'..='9' => {
                rest.find(|c: char| !"+-.eE0123456789".contains(c)).unwrap_or(rest.len())
            }
            _ => c.len_utf8(),
        };
        let (token, after) = rest.split_at(end);
        let is_key = c == '"' && after.trim_start().starts_with(':');
        let varies = VARYING.contains(&key.as_str());
        if is_key {
            token.trim_matches('"').clone_into(&mut key);
        }
        match c {
            // The id of a job that has no name.
            '"' if !is_key && token.starts_with("\"j-") => out.push_str("\"~\""),
            // `now` is a time, or the name of a backend.
            '"' if !is_key && varies && key != "now" => out.push_str("\"~\""),
            '-' | '0'..='9' if varies => out.push('0'),
            _ => out.push_str(token),
        }
        rest = after;
    }
    out
}

/// Returns where the string ends that the text begins with.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[test]
fn only_values_that_vary_are_masked() {
    let json = r#"[{"pid":12,"id":"a\"b","at":"now","n":-1.5,"pid_start":null}]"#;
    assert_eq!(masked(json), r#"[{"pid":0,"id":"a\"b","at":"~","n":-1.5,"pid_start":null}]"#);
}

#[test]
fn turns_and_models() {
    let script =
        Script::replies([ScriptedReply::text("Done."), ScriptedReply::error(401, "no such key")]);
    let chat = ChatFixture::new(script.models([Model::new("scripted").context_length(8000)]));
    let mut calls = Transcript::new(&chat.fixture);
    calls.variables = chat.variables();
    calls.names.push((chat.model.base_url(), "[address]".to_owned()));
    calls.call(&["chat", "-q", "work"]);
    calls.call_exiting(&["chat", "-q", "work"], 3);
    calls.call(&["model", "list"]);
    calls.variables.clear();
    calls.call_exiting(&["chat", "-q", "work"], 1);
    insta::assert_snapshot!(calls.text);
}

#[test]
fn conversations() {
    let fixture = ProgramFixture::new();
    conversations::seed(&fixture);
    let mut calls = Transcript::new(&fixture);
    calls.names.push(("AAAA".repeat(1000), "[image]".to_owned()));
    calls.call(&["conversations", "list"]);
    calls.call(&["conversations", "show", "k3f9ab"]);
    calls.call(&["conversations", "search", "missing semicolon"]);
    calls.call(&["conversations", "rename", "k3f9ab", "Mended"]);
    calls.call(&["conversations", "undo", "k3f9ab"]);
    calls.call(&["conversations", "export", "k3f9ab", "-o", "talk.jsonl"]);
    let exported = std::fs::read_to_string(fixture.work().join("talk.jsonl")).unwrap();
    let head = masked(exported.lines().next().unwrap());
    calls.text.push_str(&head);
    calls.text.push('\n');
    calls.call_exiting(&["conversations", "show", "k3f9"], 1);
    calls.call_exiting(&["conversations", "show", "nobody"], 1);
    calls.call(&["conversations", "delete", "-y", "k3f9ab"]);
    insta::assert_snapshot!(calls.text);
}

#[test]
fn tasks() {
    let fixture = ProgramFixture::new();
    let mut calls = Transcript::new(&fixture);
    let first = calls.learn(&["kanban", "create", "Gather", "--assignee", "default"]);
    let first = calls.name(&first["id"], "first");
    let second =
        calls.learn(&["kanban", "create", "Write", "--parent", &first, "--body", "Two pages."]);
    let second = calls.name(&second["id"], "second");
    calls.call(&["kanban", "list"]);
    calls.call(&["kanban", "comment", "--json", &first, "look"]);
    fs::write(fixture.work().join("file"), "content").unwrap();
    calls.call(&["kanban", "attach", &first, "file"]);
    let attached = calls.learn(&["kanban", "attachments", &first]);
    let file = attached[0]["path"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    calls.names.push((file, "[attachment]".to_owned()));
    calls.call(&["kanban", "attachments", &first]);
    calls.call(&["kanban", "claim", &first]);
    calls.call(&["kanban", "heartbeat", &first]);
    calls.call(&["kanban", "runs", &first]);
    calls.call(&["kanban", "complete", &first, "--summary", "done"]);
    calls.call(&["kanban", "show", &first]);
    calls.call(&["kanban", "attach-rm", "1"]);
    calls.call(&["kanban", "block", &second, "which?", "--kind", "needs_input"]);
    calls.call(&["kanban", "list", "--attention", "--all-boards"]);
    calls.call(&["kanban", "show", &second]);
    calls.call(&["kanban", "context", &second]);
    calls.call(&["kanban", "log", &second]);
    calls.call_exiting(&["kanban", "heartbeat", &second], 1);
    calls.call_exiting(&["kanban", "show", "t_none"], 1);
    calls.call_exiting(&["kanban", "complete", &first, "t_none"], 1);
    calls.call_exiting(&["kanban", "archive", "--rm", &first, "t_none"], 1);
    insta::assert_snapshot!(calls.text);
}

#[test]
fn boards_and_dispatch() {
    let fixture = ProgramFixture::new();
    let mut calls = Transcript::new(&fixture);
    let task = calls.learn(&["kanban", "create", "Gather", "--assignee", "default"]);
    calls.name(&task["id"], "task");
    calls.call(&["kanban", "init"]);
    calls.call(&["kanban", "boards", "create", "site", "--name", "The site"]);
    calls.call(&["kanban", "boards", "switch", "site"]);
    calls.call(&["kanban", "boards", "show"]);
    calls.call(&["kanban", "boards", "rm", "site"]);
    calls.call(&["kanban", "boards", "restore", "site"]);
    calls.call(&["kanban", "boards", "list"]);
    calls.call(&["kanban", "boards", "rm", "site", "--delete"]);
    calls.call(&["kanban", "assignees"]);
    calls.call(&["kanban", "stats"]);
    calls.call(&["kanban", "diagnostics"]);
    calls.call(&["kanban", "gc"]);
    calls.call(&["kanban", "dispatch", "--dry-run"]);
    insta::assert_snapshot!(calls.text);
}

#[test]
fn gateways() {
    let fixture = ProgramFixture::automatic();
    let mut calls = Transcript::new(&fixture);
    calls.call(&["gateway", "list"]);
    calls.call_exiting(&["gateway", "status"], 1);
    calls.call(&["gateway", "stop"]);
    insta::assert_snapshot!(calls.text);
}

#[test]
fn sandboxes_and_jobs() {
    let fixture = ProgramFixture::new();
    let mut calls = Transcript::new(&fixture);
    let ran = calls.learn(&["run", "--json", "true"]);
    calls.name(&ran["sandbox"]["id"], "instance");
    calls.name(&ran["job"], "first job");
    let job = calls.learn(&["run", "--json", "--background", "cat"]);
    let job = calls.name(&job["job"], "job");
    calls.call(&["run", "--json", "echo out; echo err >&2"]);
    calls.call_exiting(&["run", "--json", r"printf '\377'; exit 3"], 3);
    calls.call_exiting(&["run", "--json", "--workdir", "/nowhere", "true"], 126);
    calls.call_exiting(&["run", "--json", "--timeout", "0.01", "sleep 60"], 124);
    calls.call(&["ps"]);
    calls.call(&["inspect"]);
    calls.call(&["stats"]);
    calls.call(&["jobs"]);
    calls.call(&["kill", &job]);
    calls.call_exiting(&["wait", &job], 137);
    fs::write(fixture.work().join("file"), "content").unwrap();
    calls.call(&["cp", "file", ":copied"]);
    calls.call(&["stop", "default"]);
    calls.call_exiting(&["stop", "default", "no-such"], 125);
    calls.call_exiting(&["inspect", "no-such"], 125);
    calls.call(&["prune", "--dry-run"]);
    calls.call_exiting(&["rm", "-y", "--files", "default", "no-such"], 125);
    insta::assert_snapshot!(calls.text);
}

#[test]
fn native_snapshots() {
    let fixture = ProgramFixture::native();
    fixture.run("echo one > file").exits(0);
    let mut calls = Transcript::new(&fixture);
    calls.call(&["snapshot", "--name", "good", "--note", "all is well"]);
    calls.call(&["snapshots"]);
    calls.call(&["fork", "default", "copy"]);
    calls.call(&["fork", "default", "other", "--from", "good"]);
    calls.call(&["restore", "-y", "default", "good"]);
    calls.call(&["rebuild", "-y", "default"]);
    calls.call_exiting(&["restore", "-y", "default", "goood"], 125);
    calls.call(&["snapshots", "rm", "-y", "default", "good"]);
    insta::assert_snapshot!(calls.text);
}

#[test]
fn schedules() {
    let fixture = ProgramFixture::new();
    let usage = BilledUsage { input: 120, output: 4, ..BilledUsage::default() };
    let model =
        ScriptedModel::start(Script::replies([ScriptedReply::text("all is quiet").usage(usage)]));
    let mut calls = Transcript::new(&fixture);
    calls.variables = vec![
        ("TZ", "UTC".to_owned()),
        ("VESTAL_MODEL", "m".to_owned()),
        ("VESTAL_BASE_URL", model.base_url()),
    ];
    let made = calls.learn(&[
        "cron",
        "create",
        "at 2099-12-24T18:00",
        "look at the logs",
        "--name",
        "logs",
    ]);
    let id = calls.name(&made["id"], "id");
    calls.call(&["cron", "list"]);
    calls.call(&["cron", "run", &id]);
    calls.call(&["cron", "runs"]);
    calls.call_exiting(&["cron", "status"], 1);
    calls.call(&["cron", "remove", "-y", &id]);
    insta::assert_snapshot!(calls.text);
}

#[test]
fn profiles_and_settings() {
    let fixture = ProgramFixture::automatic();
    let mut calls = Transcript::new(&fixture);
    calls.call(&["profile", "create", "work", "--description", "For work."]);
    calls.call(&["profile", "list"]);
    calls.call(&["profile", "show", "work"]);
    calls.call(&["profile", "use", "work"]);
    calls.call(&["profile", "rename", "-y", "work", "office"]);
    calls.call(&["profile", "export", "office", "-o", "office.tar.gz"]);
    calls.call(&["profile", "import", "office.tar.gz", "--name", "again"]);
    calls.call(&["profile", "delete", "-y", "again"]);
    calls.call_exiting(&["profile", "show", "no-such"], 1);
    fs::write(
        fixture.home().join("profiles/office/config.yaml"),
        "terminal:\n  retention_seconds: 2d\n  retention_secs: 1\n",
    )
    .unwrap();
    calls.call(&["config", "show", "--changed"]);
    calls.call(&["config", "get", "terminal.retention_seconds"]);
    calls.call_exiting(&["config", "get", "terminal.retention"], 2);
    calls.call_exiting(&["config", "check"], 1);
    insta::assert_snapshot!(calls.text);
}

#[test]
fn memory() {
    let fixture = ProgramFixture::automatic();
    let mut calls = Transcript::new(&fixture);
    calls.call(&["memory", "add", "likes tea"]);
    calls.call(&["memory", "replace", "tea", "likes coffee"]);
    calls.call(&["memory", "remove", "coffee"]);
    calls.call(&["memory"]);
    insta::assert_snapshot!(calls.text);
}

#[test]
fn skills() {
    let fixture = ProgramFixture::automatic();
    let variable = "required_environment_variables: [{name: GO_TOKEN, help: h}]";
    skills::skill(&fixture, "go", &format!("tags: [x]\nversion: 1.2\n{variable}\n"));
    let mut calls = Transcript::new(&fixture);
    calls.call(&["skills", "install", "-y", "go"]);
    fs::create_dir_all(fixture.home().join("skills/bad")).unwrap();
    fs::write(fixture.home().join("skills/bad/SKILL.md"), "nothing").unwrap();
    calls.call(&["skills", "list"]);
    calls.call(&["skills", "show", "go"]);
    calls.call_exiting(&["skills", "check"], 1);
    calls.call(&["skills", "remove", "-y", "go"]);
    insta::assert_snapshot!(calls.text);
}

#[test]
fn mcp_servers() {
    let fixture = ProgramFixture::automatic();
    let program = mcp::server(&fixture);
    fixture.vestal(["mcp", "add", "small", "--", program.to_str().unwrap(), "word"]).exits(0);
    let mut calls = Transcript::new(&fixture);
    calls.call(&["mcp", "list"]);
    calls.call(&["mcp", "test", "small"]);
    calls.call(&["mcp", "tools", "small"]);
    fs::remove_file(&program).unwrap();
    calls.call_exiting(&["mcp", "test", "small"], 1);
    insta::assert_snapshot!(calls.text);
}
