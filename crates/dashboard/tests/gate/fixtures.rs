//! Homes with much in them, or with what somebody says who means harm. Made by the libraries that the
//! command line uses, as another process does.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use vestal_board::boards::{Make, Slug};
use vestal_board::{Authority, Block, BlockKind, Board, NewTask};
use vestal_config::{Environment, Home, ProfileName, Settings};
use vestal_conversations::{ConversationStore, New, NewMessage, Title};
use vestal_sandbox::{Command, Engine, TaskName};

use crate::support::{gateways_path, questions_path};

/// What agents, jobs, files and people may say: markup, scripts, links that lead elsewhere, commands of a
/// terminal, marks that turn the direction of text.
pub(crate) const HOSTILE: &[&str] = &[
    "<script>window.owned=1</script>",
    "\"><img src=x onerror=window.owned=1>",
    "'\"--></style></script></title></textarea><svg/onload=window.owned=1>",
    "<iframe srcdoc='<script>parent.owned=1</script>'></iframe>",
    "<a href=\"javascript:window.owned=1\">press</a> [press](javascript:window.owned=1)",
    "[press](data:text/html,<script>window.owned=1</script>) <vbscript:x> ![p](https://evil.example/p.png)",
    "<form action=https://evil.example><button>press</button></form><base href=https://evil.example/>",
    "<meta http-equiv=refresh content=0;url=https://evil.example><link rel=stylesheet href=//evil.example>",
    "{{constructor.constructor('window.owned=1')()}} ${window.owned=1} #{x} <%= x %>",
    "__proto__ constructor toString hasOwnProperty",
    "&lt;img src=x onerror=window.owned=1&gt; &#60;script&#62;",
    "\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[31mred\u{1b}]8;;javascript:window.owned=1\u{7}link\u{1b}]8;;\u{7}\u{9b}31m",
    "invoice\u{202e}gpj.exe \u{2066}hidden\u{2069} a\u{0}b\u{8}c\u{7f}",
    "\u{2028}window.owned=1\u{2029}//",
    "]]> <![CDATA[ <math><mtext></form><form><mglyph><style></math><img src onerror=window.owned=1>",
    "../../../../etc/passwd %2e%2e%2f \\\\evil\\share file:///etc/passwd",
    "Ａ\u{fe0f}\u{200d}🏴\u{e0067} z̷̢̛̺a̸l̶g̸o̵",
];

fn settings(home: &Path) -> Settings {
    let user = home.to_str().unwrap();
    let environment = Environment::from_pairs([("HOME", user), ("PATH", "/usr/bin:/bin")]);
    Settings::load(&vestal_api::schema(), Home::at(home), environment, Vec::new())
}

/// Makes a further profile.
pub(crate) fn make_profile(home: &Path, name: &str) {
    let dir = home.join("profiles").join(name);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("config.yaml"), "").unwrap();
}

/// Opens the board that is always there.
pub(crate) async fn board(home: &Path) -> Board {
    let boards = vestal_board::settings::boards(&settings(home)).unwrap();
    boards.open(&Slug::default_board(), Make::IfMissing).await.unwrap()
}

/// Puts tasks of a profile on the board.
pub(crate) async fn add_tasks(home: &Path, assignee: &str, titles: &[&str]) {
    let board = board(home).await;
    for title in titles {
        let assignee = Some(ProfileName::new(assignee).unwrap());
        let new = NewTask { title: (*title).to_owned(), assignee, ..NewTask::default() };
        board.create(&Authority::Person("user".into()), new).await.unwrap();
    }
    board.close().await.unwrap();
}

/// Opens the conversations of a profile, making their file.
pub(crate) async fn conversations(home: &Path, profile: &str) -> ConversationStore {
    let home = Home::at(home).sibling(ProfileName::new(profile).unwrap());
    ConversationStore::open(home.dir().join("state.db")).await.unwrap()
}

/// Stores a conversation, whose messages are as the model's crate writes them.
pub(crate) async fn converse(
    store: &ConversationStore,
    title: Option<&str>,
    messages: &[Value],
) -> String {
    let new = New {
        id: None,
        title: title.map(|title| Title::Generated(title.to_owned())),
        source: "cli".to_owned(),
        parent: None,
        provider: "p".to_owned(),
        model: "m".to_owned(),
        cwd: None,
        system_prompt: "be kind".to_owned(),
        state: Vec::new(),
    };
    let made = store.create(new).await.unwrap();
    let reply = |message: &Value| NewMessage::new(serde_json::from_value(message.clone()).unwrap());
    let messages: Vec<NewMessage> = messages.iter().map(reply).collect();
    store.append(&made.id, &messages).await.unwrap();
    made.id.to_string()
}

pub(crate) fn user_message(text: &str) -> Value {
    json!({ "role": "user", "parts": [{ "type": "text", "text": text }] })
}

/// Says that the gateway of `default` runs as a process, as a supervisor would.
pub(crate) fn order_gateway(home: &Path, pid: u32, restarts: u64, reply: &str) {
    let gateway = json!({
        "profile": "default", "state": "running", "desired": "running", "reported": reply, "pid": pid,
        "started_at": null, "ready_at": null, "up_seconds": 1, "restarts": restarts,
        "last_exit": { "code": 1, "signal": null, "how": reply, "at": "2026-11-15T10:00:00Z" },
        "next_start_at": null, "reason": reply, "log": "",
        "listeners": [{ "name": reply, "state": "listening", "address": reply, "error": reply }],
    });
    let manager = json!({ "kind": "supervisor", "pid": 4000, "host": reply, "since": null });
    let reported = json!({ "manager": manager, "gateways": [gateway], "dashboard": null });
    let path = gateways_path(home);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    // By rename, so that nobody reads the half of it.
    let next = path.with_extension("next");
    std::fs::write(&next, reported.to_string()).unwrap();
    std::fs::rename(next, path).unwrap();
}

/// Says all hostile things wherever a home has room for words. Returns pages of single things.
pub(crate) async fn fill_with_hostility(home: &Path) -> Vec<String> {
    let all = HOSTILE.join("\n");
    let line = |text: &str| -> String {
        let is_plain = |c: &char| !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}');
        text.chars().filter(is_plain).collect()
    };
    // The board takes no text with a NUL in it.
    let mut pages = tasks(home, &all.replace('\0', ""), &line).await;
    let store = conversations(home, "default").await;
    for text in HOSTILE {
        converse(&store, Some(&line(text)), &[user_message(text)]).await;
    }
    let call = json!({ "id": "c", "name": "<img src=x onerror=window.owned=1>", "arguments": all });
    let reply = json!({ "role": "assistant", "text": all, "calls": [call], "finish": "stop" });
    let result = json!({ "role": "tool", "call": "c", "name": "<b>x</b>", "content": all });
    let id = converse(&store, Some("hostile words"), &[user_message(&all), reply, result]).await;
    store.close().await.unwrap();
    pages.push(format!("/conversations/default/{id}"));
    pages.push("/conversations?q=owned".to_owned());
    files(home, &all);
    order_gateway(home, 4001, 0, &all);
    ask_questions(home, &all);
    record_operation(home, &all);
    pages.extend(sandbox(home, &all).await);
    pages
}

async fn tasks(home: &Path, all: &str, line: &dyn Fn(&str) -> String) -> Vec<String> {
    let board = board(home).await;
    let person = Authority::Person(line(HOSTILE[1]));
    let mut pages = Vec::new();
    let mut parents = Vec::new();
    for text in HOSTILE {
        let new = NewTask {
            title: line(text),
            body: all.to_owned(),
            tenant: None,
            parents: parents.clone(),
            ..NewTask::default()
        };
        // What the board itself refuses as a title is not there to be shown.
        let Ok(made) = board.create(&person, new).await else { continue };
        let id = made.task.id;
        if parents.is_empty() {
            board.comment(&person, &id, all).await.unwrap();
            pages.push(format!("/board/default/{id}"));
        }
        parents = vec![id];
    }
    let new = NewTask { title: "hostile question".to_owned(), ..NewTask::default() };
    let blocked = board.create(&person, new).await.unwrap().task.id;
    let block = Block { kind: Some(BlockKind::NeedsInput), reason: all.to_owned() };
    board.block(&person, &blocked, block).await.unwrap();
    pages.push(format!("/board/default/{blocked}"));
    board.close().await.unwrap();
    pages
}

/// Settings, logs, skills, memory and a profile that say it, and some that cannot be read.
fn files(home: &Path, all: &str) {
    let yaml = |text: &str| serde_json::to_string(text).unwrap();
    let mut config = "terminal:\n  backend: local\n".to_owned();
    for text in HOSTILE.iter().filter(|text| !text.contains(char::is_control)) {
        writeln!(config, "{}: {}", yaml(text), yaml(text)).unwrap();
    }
    writeln!(config, "model:\n  default: {}", yaml(HOSTILE[1])).unwrap();
    writeln!(config, "mcp_servers:\n  {}: {{ command: {} }}", yaml("<b>x</b>"), yaml(HOSTILE[1]))
        .unwrap();
    std::fs::write(home.join("config.yaml"), config).unwrap();
    let logs = home.join("logs");
    std::fs::create_dir_all(&logs).unwrap();
    let mut log = String::new();
    for (number, text) in HOSTILE.iter().enumerate() {
        writeln!(log, "2026-11-15T10:00:{number:02}.000Z WARN [<b>s</b>] <i>t</i>: {text}")
            .unwrap();
        writeln!(log, "{text}").unwrap();
    }
    std::fs::write(logs.join("agent.log"), log).unwrap();
    for (name, text) in [("harmless", HOSTILE[1]), ("<b>bad<", HOSTILE[4])] {
        let dir = home.join("skills").join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let head = format!("---\nname: harmless\ndescription: {}\n---\n", yaml(text));
        std::fs::write(dir.join("SKILL.md"), format!("{head}{all}")).unwrap();
    }
    let memories = home.join("memories");
    std::fs::create_dir_all(&memories).unwrap();
    std::fs::write(memories.join("MEMORY.md"), all).unwrap();
    std::fs::write(memories.join("USER.md"), all).unwrap();
    make_profile(home, "broken");
    std::fs::write(home.join("profiles/broken/config.yaml"), format!("{}: [", HOSTILE[0])).unwrap();
    std::fs::write(home.join("profiles/broken/state.db"), HOSTILE[1].repeat(100)).unwrap();
}

/// Starts a job in a sandbox of a home and returns its id.
pub(crate) async fn start_job(home: &Path, task: &str, command: &str) -> String {
    let engine = Engine::open(settings(home)).unwrap();
    let sandbox = engine.sandbox(&task.parse::<TaskName>().unwrap()).await.unwrap();
    let job = sandbox.spawn(Command::shell(command)).await.unwrap();
    engine.close(Duration::from_mins(1)).await;
    job.id.to_string()
}

/// Turns of a gateway that ask it.
fn ask_questions(home: &Path, all: &str) {
    let of_run = json!({
        "profile": "default", "asked_by": "gateway_run", "session": "run_1", "conversation": all, "title": all,
        "id": "q1", "kind": "approval", "action": all, "reason": all, "pattern": all, "may_last": false,
    });
    let of_session = json!({
        "profile": "default", "asked_by": "gateway_session", "session": HOSTILE[1], "conversation": null,
        "title": null, "id": HOSTILE[0], "kind": "clarification", "question": all, "choices": [HOSTILE[1], all],
    });
    std::fs::write(questions_path(home), json!([of_run, of_session]).to_string()).unwrap();
}

/// A long action whose sandbox and outcome say it.
fn record_operation(home: &Path, all: &str) {
    let id = "o-0123456789abcdef0123";
    let end = json!({ "at": "2026-11-15T10:00:00Z", "outcome": "failed", "words": all, "remarks": [all] });
    let process = vestal_process::ProcessId::current().unwrap();
    let record = json!({
        "version": 1, "id": id, "task": HOSTILE[1], "verb": "snapshot", "what": all, "by": all,
        "process": process, "started_at": "2026-11-15T10:00:00Z",
        "step": { "words": all, "done": null, "total": null }, "end": end,
    });
    let dir = home.join("run/operations");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join(format!("{id}.json")), record.to_string()).unwrap();
}

/// Starts so many sandboxes, each of which was used once.
pub(crate) async fn start_sandboxes(home: &Path, count: usize) {
    let engine = Engine::open(settings(home)).unwrap();
    for number in 0..count {
        let task: TaskName = format!("task-{number:03}").parse().unwrap();
        let sandbox = engine.sandbox(&task).await.unwrap();
        sandbox.run(Command::shell("true")).await.unwrap();
    }
    engine.close(Duration::from_mins(1)).await;
}

/// A sandbox with a job that says it and files that are called like it.
async fn sandbox(home: &Path, all: &str) -> Vec<String> {
    let engine = Engine::open(settings(home)).unwrap();
    let sandbox = engine.sandbox(&"<img src=x>".parse::<TaskName>().unwrap()).await.unwrap();
    let names = r"mkdir -p names; cd names; : > '<img src=x onerror=window.owned=1>'; : > '<script>x'; : > $'\033[31mred'";
    sandbox.run(Command::shell(names)).await.unwrap();
    let quoted = all.replace('\0', "").replace('\'', r"'\''");
    let text = format!("printf '%s\\n' '{quoted}'; printf '%s\\n' '{quoted}' >&2 # {}", HOSTILE[1]);
    let job = sandbox.run(Command::shell(text)).await.unwrap();
    engine.close(Duration::from_mins(1)).await;
    let at = "/sandboxes/default/%3Cimg%20src%3Dx%3E".to_owned();
    vec![format!("{at}/jobs/{}", job.job), at]
}
