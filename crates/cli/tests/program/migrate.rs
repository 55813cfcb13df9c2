//! `vestal migrate`, on homes made by hand: whole ones, broken ones and hostile ones. Those that
//! hermes-agent itself makes are in `tests/hermes_homes`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use vestal_scripted_model::ScriptedReply;

use crate::chat::fixture::ChatFixture;
use crate::support::{ProgramFixture, ProgramOutcome};

const SECRET: &str = "sk-test-4f7a9c21d0b84e6f93aa";

const STATE: &str = "
CREATE TABLE schema_version (version INTEGER NOT NULL);
INSERT INTO schema_version VALUES (22);
CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT NOT NULL, model TEXT, title TEXT,
    parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL, end_reason TEXT, cwd TEXT,
    billing_provider TEXT, a_column_of_the_future TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
    role TEXT NOT NULL, content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT,
    timestamp REAL NOT NULL, finish_reason TEXT, reasoning TEXT, observed INTEGER DEFAULT 0,
    active INTEGER NOT NULL DEFAULT 1, compacted INTEGER NOT NULL DEFAULT 0);
INSERT INTO sessions (id, source, model, title, started_at, ended_at, end_reason) VALUES
    ('20260301_080000_aa11bb', 'cli', 'large', 'Lighthouse', 1772352000, 1772353000, 'cli_close'),
    ('20260302_080000_cc22dd', 'telegram', 'large', NULL, 1772438400, NULL, NULL),
    ('20260303_080000_ee33ff', 'cli', 'large', NULL, 1772524800, NULL, NULL);
INSERT INTO messages (session_id, role, content, tool_calls, tool_call_id, tool_name, timestamp,
    active, compacted) VALUES
    ('20260301_080000_aa11bb', 'user', 'how many lumens has the lantern', NULL, NULL, NULL, 1772352001, 1, 0),
    ('20260301_080000_aa11bb', 'assistant', 'I look.',
     '[{\"id\":\"c1\",\"function\":{\"name\":\"terminal\",\"arguments\":\"{}\"}}]', NULL, NULL, 1772352002, 1, 0),
    ('20260301_080000_aa11bb', 'tool', 'eighty thousand', NULL, 'c1', 'terminal', 1772352003, 1, 0),
    ('20260301_080000_aa11bb', 'assistant', 'Eighty thousand.', NULL, NULL, NULL, 1772352004, 1, 0),
    ('20260301_080000_aa11bb', 'user', 'paint it chartreuse', NULL, NULL, NULL, 1772352005, 0, 0),
    ('20260302_080000_cc22dd', 'user', CAST(X'666F67686F726EFF' AS TEXT), NULL, NULL, NULL, 1772438401, 1, 0);
";

const BOARD: &str = "
CREATE TABLE tasks (id TEXT PRIMARY KEY, title TEXT NOT NULL, body TEXT, assignee TEXT,
    status TEXT NOT NULL, priority INTEGER DEFAULT 0, created_by TEXT, created_at INTEGER NOT NULL,
    started_at INTEGER, completed_at INTEGER, workspace_kind TEXT, workspace_path TEXT,
    idempotency_key TEXT, result TEXT, skills TEXT);
CREATE TABLE task_links (parent_id TEXT NOT NULL, child_id TEXT NOT NULL);
CREATE TABLE task_comments (id INTEGER PRIMARY KEY, task_id TEXT, author TEXT, body TEXT, created_at INTEGER);
CREATE TABLE task_runs (id INTEGER PRIMARY KEY, task_id TEXT, profile TEXT, status TEXT,
    started_at INTEGER, ended_at INTEGER, outcome TEXT, summary TEXT, error TEXT);
INSERT INTO tasks (id, title, body, assignee, status, priority, created_at, idempotency_key, result, completed_at) VALUES
    ('t_00aa11bb', 'Clean the lens', 'With vinegar.', 'research', 'ready', 3, 1772352000, NULL, NULL, NULL),
    ('t_11bb22cc', 'Light the lamp', NULL, NULL, 'todo', 0, 1772352001, 'light', NULL, NULL),
    ('t_22cc33dd', 'Paint the tower', NULL, 'research', 'running', 0, 1772352002, NULL, NULL, NULL),
    ('t_33dd44ee', 'Buy vinegar', NULL, 'default', 'done', 0, 1772352003, NULL, 'bought', 1772352100);
INSERT INTO task_links VALUES ('t_00aa11bb', 't_11bb22cc'), ('t_11bb22cc', 't_00aa11bb');
INSERT INTO task_comments VALUES (1, 't_00aa11bb', 'ada', 'Use the soft cloth.', 1772352050);
INSERT INTO task_runs VALUES (1, 't_33dd44ee', 'default', 'done', 1772352004, 1772352099, 'completed', 'Two litres', NULL);
";

const CONFIG: &str = "\
_config_version: 23
model:
  default: large
  provider: custom
  base_url: http://127.0.0.1:9/v1
  api_key: sk-test-4f7a9c21d0b84e6f93aa
terminal: {backend: singularity, timeout: 240, modal_mode: auto}
agent: {max_turns: 33}
approvals: {mode: smart}
display: {personality: pirate, skin: dark}
telegram: {bot_token: sk-test-4f7a9c21d0b84e6f93aa}
mcp_servers:
  notes: {command: notes, args: [serve], env: {TOKEN: sk-test-4f7a9c21d0b84e6f93aa}, idle_timeout_seconds: 5}
";

const JOBS: &str = r#"{"jobs": [
  {"id": "815d5c009289", "name": "weather", "prompt": "Look at the weather", "skills": ["lamp"],
   "schedule": {"kind": "cron", "expr": "0 9 * * 1-5"}, "enabled": true, "deliver": "telegram"},
  {"id": "7a07de9adb57", "name": "lamp", "prompt": "Look", "enabled": false,
   "schedule": {"kind": "interval", "minutes": 120}},
  {"id": "aaaaaaaaaaaa", "name": "late", "prompt": "Look", "schedule": {"kind": "once", "run_at": "2020-01-01T00:00:00+00:00"}}
]}"#;

/// A home of hermes-agent in the home of the fixture's user.
struct OldHome {
    dir: PathBuf,
}

impl OldHome {
    /// Makes one with a bit of everything.
    fn full(fixture: &ProgramFixture) -> Self {
        let home = Self::empty(fixture);
        home.write("config.yaml", CONFIG);
        home.write(
            ".env",
            format!(
                "# keys\nOPENROUTER_API_KEY={SECRET}\nTERMINAL_TIMEOUT=240\nHERMES_YOLO_MODE=1\n"
            ),
        );
        home.write("SOUL.md", "You keep the lighthouse.\n");
        home.write("memories/MEMORY.md", "The tests need a database.\n§\nDeploy on Tuesdays.");
        home.write("memories/USER.md", "Likes short answers.");
        home.write("skills/.bundled_manifest", "shipped:00\n");
        home.write("skills/shipped/SKILL.md", "---\nname: shipped\ndescription: theirs\n---\nx\n");
        home.write("skills/ops/lamp/SKILL.md", "---\nname: lamp\ndescription: The lamp\n---\nx\n");
        home.write("skills/broken/SKILL.md", "no front matter");
        home.write("cron/jobs.json", JOBS);
        home.write("profiles/research/SOUL.md", "You are careful.\n");
        home.write("auth.json", "{}");
        home.database("state.db", STATE);
        home.database("kanban.db", BOARD);
        home
    }

    fn empty(fixture: &ProgramFixture) -> Self {
        let dir = fixture.user().join(".hermes");
        fs::create_dir_all(&dir).unwrap();
        Self { dir }
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn database(&self, name: &str, statements: &'static str) {
        let path = self.dir.join(name);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(vestal_testkit::sqlite::execute(&path, statements));
    }
}

/// Returns every file below a directory with its content, mode and time of change.
fn everything(dir: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u32, i64)> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let about = path.symlink_metadata().unwrap();
            let content = if about.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            if about.is_dir() {
                open.push(path.clone());
            }
            found.insert(path, (content, about.mode(), about.mtime_nsec()));
        }
    }
    found
}

/// Returns the rows about something there, by what it is called.
fn row<'v>(view: &'v Value, from: &str) -> &'v Value {
    let rows = view["items"].as_array().unwrap();
    rows.iter().find(|row| row["from"] == from).unwrap_or_else(|| panic!("no {from}: {view:#}"))
}

fn migrate(fixture: &ProgramFixture, more: &[&str]) -> ProgramOutcome {
    fixture.vestal([&["migrate"][..], more].concat())
}

/// Asserts that a secret is nowhere in what was printed.
fn assert_silent(outcome: &ProgramOutcome) {
    let printed = format!("{}{}", String::from_utf8_lossy(&outcome.stdout), outcome.stderr);
    assert!(!printed.contains(SECRET), "a secret was printed");
}

#[test]
fn a_plain_call_shows_what_would_come_and_changes_nothing_anywhere() {
    let fixture = ProgramFixture::new();
    let old = OldHome::full(&fixture);
    let before = everything(&old.dir);
    let shown = migrate(&fixture, &[]).exits(0);
    assert_silent(&shown);
    let text = shown.text();
    for words in ["lamp", "agent.max_turns", "has no meaning here", "Light the lamp", "auth.json"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!fixture.home().exists(), "nothing was made");
    let plan = migrate(&fixture, &["--dry-run", "--json"]).exits(0);
    assert_silent(&plan);
    let plan = plan.json();
    assert_eq!(plan["applied"], false);
    assert_eq!(row(&plan, "terminal.backend")["action"], "take");
    assert_eq!(row(&plan, "display.personality, display.skin")["action"], "leave");
    assert_eq!(row(&plan, "telegram")["reason"], "messengers are not served here");
    assert_eq!(row(&plan, "HERMES_YOLO_MODE")["action"], "leave");
    assert_eq!(row(&plan, "TERMINAL_TIMEOUT")["action"], "leave");
    assert_eq!(row(&plan, "skills/broken")["action"], "broken");
    assert_eq!(row(&plan, "aaaaaaaaaaaa")["reason"], "late: its moment has passed");
    assert!(!fixture.home().exists(), "nothing was made");
    assert_eq!(everything(&old.dir), before);
}

#[test]
fn everything_that_comes_is_here_afterwards_and_the_other_home_is_as_it_was() {
    let fixture = ProgramFixture::new();
    let old = OldHome::full(&fixture);
    let before = everything(&old.dir);
    // All but the skill that is broken there.
    let done = migrate(&fixture, &["-y", "--json"]).exits(1);
    assert_silent(&done);
    let view = done.json();
    assert_eq!((&view["applied"], &view["failed"]), (&json!(true), &json!(0)));
    assert_eq!(everything(&old.dir), before);

    let get = |key: &str| fixture.vestal(["config", "get", key]).exits(0).text().trim().to_owned();
    assert_eq!(get("agent.max_turns"), "33");
    assert_eq!(get("terminal.timeout"), "240");
    let config = fs::read_to_string(fixture.home().join("config.yaml")).unwrap();
    assert!(config.contains("apptainer"), "{config}");
    let mode = row(&view, "approvals.mode");
    assert_eq!(mode["action"], "present", "what is the default here need not be said");
    assert!(!config.contains("personality") && !config.contains("idle_timeout"), "{config}");
    let env = fs::read_to_string(fixture.home().join(".env")).unwrap();
    assert!(env.contains(&format!("OPENROUTER_API_KEY={SECRET}")), "{env}");
    assert!(env.contains(&format!("VESTAL_API_KEY={SECRET}")), "{env}");
    let mode = fs::metadata(fixture.home().join(".env")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let record = fs::read_to_string(fixture.home().join("migrated.jsonl")).unwrap();
    assert!(!record.contains(SECRET), "{record}");

    let soul = fs::read_to_string(fixture.home().join("SOUL.md")).unwrap();
    assert_eq!(soul, "You keep the lighthouse.\n");
    let research = fixture.home().join("profiles/research/SOUL.md");
    assert_eq!(fs::read_to_string(research).unwrap(), "You are careful.\n");
    let notes = fixture.vestal(["memory", "--json"]).exits(0).json();
    assert_eq!(notes[0]["entries"], json!(["The tests need a database.", "Deploy on Tuesdays."]));
    assert_eq!(notes[1]["entries"], json!(["Likes short answers."]));
    let skills = fixture.vestal(["skills", "list"]).exits(0).text();
    assert!(skills.contains("lamp") && !skills.contains("shipped"), "{skills}");

    let listed = fixture.vestal(["conversations", "list", "--json"]).exits(0).json();
    let ids: Vec<&str> =
        listed.as_array().unwrap().iter().map(|own| own["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["20260302_080000_cc22dd", "20260301_080000_aa11bb"], "{listed:#}");
    let found = fixture.vestal(["conversations", "search", "lumens"]).exits(0).text();
    assert!(found.contains("20260301_080000_aa11bb"), "{found}");
    // What was undone there is undone here, too.
    let found = fixture.vestal(["conversations", "search", "chartreuse"]);
    assert!(!String::from_utf8_lossy(&found.stdout).contains("aa11bb"), "{found:?}");
    let found = fixture.vestal(["conversations", "search", "foghorn"]).exits(0).text();
    assert!(found.contains("cc22dd"), "{found}");

    let tasks = fixture.vestal(["kanban", "list", "--json"]).exits(0).json();
    let tasks: BTreeMap<String, String> = tasks
        .as_array()
        .unwrap()
        .iter()
        .map(|own| {
            (own["title"].as_str().unwrap().to_owned(), own["status"].as_str().unwrap().to_owned())
        })
        .collect();
    // Of two tasks that wait for each other, one does not.
    assert_eq!(tasks["Paint the tower"], "blocked");
    assert_eq!(tasks["Buy vinegar"], "done");
    let waiting = [&tasks["Clean the lens"], &tasks["Light the lamp"]];
    assert!(waiting.contains(&&"ready".to_owned()), "{tasks:?}");
    assert!(waiting.contains(&&"todo".to_owned()), "{tasks:?}");
    let shown = fixture.vestal(["kanban", "show", "t_00aa11bb"]).exits(0).text();
    assert!(shown.contains("Use the soft cloth.") && shown.contains("With vinegar."), "{shown}");

    let schedules = fixture.vestal(["cron", "list", "--json"]).exits(0).json();
    let states: BTreeMap<&str, &str> = schedules
        .as_array()
        .unwrap()
        .iter()
        .map(|own| (own["name"].as_str().unwrap(), own["state"].as_str().unwrap()))
        .collect();
    assert_eq!(states, [("weather", "active"), ("lamp", "paused")].into());
}

#[test]
fn a_second_migration_doubles_nothing_and_overwrites_nothing_that_was_changed_here() {
    let fixture = ProgramFixture::new();
    let old = OldHome::full(&fixture);
    migrate(&fixture, &["-y"]).exits(1);
    let again = migrate(&fixture, &["--json"]).exits(0).json();
    let pending = |view: &Value| {
        let rows = view["items"].as_array().unwrap().iter();
        let pending = rows.filter(|row| row["action"] == "take" || row["action"] == "update");
        pending.map(|row| row["from"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(pending(&again), Vec::<String>::new(), "{again:#}");

    // Changed here, changed there, removed here.
    fixture.vestal(["config", "set", "agent.max_turns", "50"]).exits(0);
    fs::write(fixture.home().join("SOUL.md"), "You keep the harbour.\n").unwrap();
    fixture.vestal(["memory", "remove", "Tuesdays"]).exits(0);
    fixture.vestal(["conversations", "delete", "-y", "20260302_080000_cc22dd"]).exits(0);
    old.write("SOUL.md", "You keep the lightship.\n");
    old.write("profiles/research/SOUL.md", "You are very careful.\n");
    let text = CONFIG.replace("timeout: 240", "timeout: 300").replace("33", "44");
    old.write("config.yaml", text);
    old.database(
        "state.db",
        "INSERT INTO messages (session_id, role, content, timestamp) VALUES
            ('20260301_080000_aa11bb', 'user', 'and the beacon', 1772360000)",
    );
    let third = migrate(&fixture, &["--json"]).exits(0).json();
    assert_eq!(row(&third, "agent.max_turns")["action"], "keep");
    assert_eq!(row(&third, "terminal.timeout")["action"], "update");
    assert_eq!(row(&third, "20260301_080000_aa11bb")["action"], "update");
    assert_eq!(row(&third, "20260302_080000_cc22dd")["action"], "leave");
    migrate(&fixture, &["-y"]).exits(1);
    let get = |key: &str| fixture.vestal(["config", "get", key]).exits(0).text().trim().to_owned();
    assert_eq!((get("agent.max_turns").as_str(), get("terminal.timeout").as_str()), ("50", "300"));
    let soul = |name: &str| fs::read_to_string(fixture.home().join(name)).unwrap();
    assert_eq!(soul("SOUL.md"), "You keep the harbour.\n");
    assert_eq!(soul("profiles/research/SOUL.md"), "You are very careful.\n");
    let notes = fixture.vestal(["memory", "--json"]).exits(0).json();
    assert_eq!(notes[0]["entries"], json!(["The tests need a database."]));
    let found = fixture.vestal(["conversations", "search", "beacon"]).exits(0).text();
    assert!(found.contains("aa11bb"), "{found}");
    let tasks = fixture.vestal(["kanban", "list", "--json"]).exits(0).json();
    assert_eq!(tasks.as_array().unwrap().len(), 4, "{tasks:#}");
    let schedules = fixture.vestal(["cron", "list", "--json"]).exits(0).json();
    assert_eq!(schedules.as_array().unwrap().len(), 2, "{schedules:#}");
}

#[test]
fn a_migration_that_is_killed_at_any_step_is_finished_by_the_next() {
    let whole = ProgramFixture::new();
    OldHome::full(&whole);
    migrate(&whole, &["-y"]).exits(1);
    let record = fs::read_to_string(whole.home().join("migrated.jsonl")).unwrap();
    let steps = record.lines().count();
    assert!(steps > 20, "{record}");
    // What a process leaves that dies right after a line of the record: the record up to there, and
    // what the lines before it say was done. A step that was begun may have taken effect or not.
    let killed = ProgramFixture::new();
    OldHome::full(&killed);
    for _ in 0..6 {
        let mut program = killed.start(["migrate", "-y"]);
        let path = killed.home().join("migrated.jsonl");
        let before = fs::read_to_string(&path).unwrap_or_default().lines().count();
        vestal_testkit::wait_until("it is on its way", || {
            let now = fs::read_to_string(&path).unwrap_or_default().lines().count();
            now > before + 2 || now >= steps
        });
        program.kill();
        drop(program);
    }
    migrate(&killed, &["-y"]).exits(1);
    let left = migrate(&killed, &["--json"]).exits(0).json();
    let rows = left["items"].as_array().unwrap();
    assert!(
        rows.iter().all(|row| row["action"] != "take" && row["action"] != "update"),
        "{left:#}"
    );
    for args in [
        &["conversations", "list", "--json"][..],
        &["kanban", "list", "--json"],
        &["cron", "list", "--json"],
        &["memory", "--json"],
        &["profile", "list", "--json"],
    ] {
        let count = |fixture: &ProgramFixture| {
            let listed = fixture.vestal(args).exits(0).json();
            let first = listed[0]["entries"].as_array().map(Vec::len);
            (listed.as_array().map(Vec::len), first)
        };
        assert_eq!(count(&killed), count(&whole), "{args:?}");
    }
}

#[test]
fn what_is_broken_or_hostile_is_a_row_and_the_rest_comes() {
    let fixture = ProgramFixture::new();
    let old = OldHome::empty(&fixture);
    let outside = fixture.user().join("outside");
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("SOUL.md"), "not yours").unwrap();
    fs::write(outside.join("SKILL.md"), "---\nname: stolen\ndescription: x\n---\nx\n").unwrap();
    old.write("config.yaml", "agent: {max_turns: [\n  - : :");
    old.write("memories/USER.md", "Likes tea.");
    symlink(outside.join("SOUL.md"), old.dir.join("SOUL.md")).unwrap();
    symlink(&outside, old.dir.join("skills")).unwrap();
    fs::create_dir(old.dir.join("profiles")).unwrap();
    symlink(&outside, old.dir.join("profiles/linked")).unwrap();
    old.write("profiles/Bad Name!/SOUL.md", "x");
    old.write("profiles/fine/state.db", "this is no database at all, but has enough bytes");
    old.write("cron/jobs.json", "{\"jobs\": 7}");
    old.write(".env", b"GOOD=1\nBAD=\xff\xfe\n");
    old.database("state.db", STATE);
    // Half of it was never written.
    let whole = fs::read(old.dir.join("state.db")).unwrap();
    old.write("profiles/half/state.db", &whole[..whole.len() / 2 + 700]);
    old.database("kanban.db", "CREATE TABLE empty (a)");
    let done = migrate(&fixture, &["-y", "--json"]).exits(1);
    let view = done.json();
    for (from, words) in [
        ("config.yaml", "line "),
        ("SOUL.md", "links are not followed"),
        ("skills", "links are not followed"),
        ("linked", "links are not followed"),
        ("cron/jobs.json", "no list of jobs"),
        ("BAD", "not UTF-8"),
        ("kanban.db", "no table tasks"),
    ] {
        let row = row(&view, from);
        assert_eq!(row["action"], "broken", "{row}");
        assert!(row["reason"].as_str().unwrap().contains(words), "{row}");
    }
    let profiles: Vec<&Value> = view["items"].as_array().unwrap().iter().collect();
    let of = |profile: &str| profiles.iter().filter(|row| row["profile"] == profile).count();
    assert!(of("fine") >= 2 && of("half") >= 2, "{view:#}");
    let fine = profiles.iter().find(|row| row["profile"] == "fine" && row["from"] == "state.db");
    assert_eq!(fine.unwrap()["reason"], "it is not a database");
    assert!(!fixture.home().join("SOUL.md").exists() && !fixture.home().join("skills").exists());
    let notes = fixture.vestal(["memory", "--json"]).exits(0).json();
    assert_eq!(notes[1]["entries"], json!(["Likes tea."]));
    let found = fixture.vestal(["conversations", "search", "lumens"]).exits(0).text();
    assert!(found.contains("20260301_080000_aa11bb"), "{found}");
    let env = fs::read_to_string(fixture.home().join(".env")).unwrap();
    assert!(env.contains("GOOD=1"), "{env}");
}

#[test]
fn what_no_home_is_or_is_our_own_is_refused() {
    let fixture = ProgramFixture::new();
    let none = migrate(&fixture, &[]).exits(2);
    assert!(none.stderr.contains("--from"), "{none:?}");
    fs::create_dir_all(fixture.user().join("pictures")).unwrap();
    let other = fixture.user().join("pictures");
    migrate(&fixture, &["--from", other.to_str().unwrap()]).exits(2);
    fixture.run("true").exits(0);
    migrate(&fixture, &["--from", fixture.home().to_str().unwrap()]).exits(2);
}

#[test]
fn only_the_kinds_that_are_asked_for_come() {
    let fixture = ProgramFixture::new();
    OldHome::full(&fixture);
    migrate(&fixture, &["-y", "--only", "note,conversation", "--skip", "conversation"]).exits(0);
    let notes = fixture.vestal(["memory", "--json"]).exits(0).json();
    assert_eq!(notes[0]["entries"].as_array().unwrap().len(), 2);
    assert!(!fixture.home().join(".env").exists() && !fixture.home().join("SOUL.md").exists());
    assert!(!fixture.home().join("profiles/research").exists());
}

#[test]
fn a_conversation_that_came_is_continued_with_our_own_instructions() {
    let chat = ChatFixture::replies([ScriptedReply::text("As I said, eighty thousand.")]);
    OldHome::full(&chat.fixture);
    migrate(&chat.fixture, &["-y", "--only", "conversation"]).exits(0);
    let answer =
        chat.vestal(["chat", "--resume", "20260301_080000_aa11bb", "-q", "again?"]).exits(0);
    assert!(answer.text().contains("As I said"), "{answer:?}");
    let requests = chat.model.requests();
    let asked = requests.last().unwrap().body.to_string();
    assert!(asked.contains("how many lumens") && asked.contains("eighty thousand"), "{asked}");
    assert!(!asked.contains("chartreuse"), "{asked}");
    let system = requests.last().unwrap().body["messages"][0].clone();
    assert_eq!(system["role"], "system");
    assert!(system["content"].as_str().is_some_and(|text| text.len() > 100), "{system}");
}
