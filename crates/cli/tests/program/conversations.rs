//! `vestal conversations`, over conversations made through the library.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};
use vestal_conversations::{ConversationId, ConversationStore, New, NewMessage, Seq, Title};
use vestal_model::{
    AssistantMessage, Cost, CostSource, FinishReason, Image, Message, Part, TokenUsage, ToolCall,
    ToolResult, UserMessage,
};

use crate::shell::ShellTerminal;
use crate::support::ProgramFixture;

const BUILD: &str = "20261115-103001-k3f9ab";
const OTHER: &str = "20261115-110000-k3f9zz";

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn file(fixture: &ProgramFixture) -> PathBuf {
    fixture.home().join("state.db")
}

async fn begin(store: &ConversationStore, id: &str, title: Option<&str>) -> ConversationId {
    let new = New {
        id: Some(id.parse().unwrap()),
        title: title.map(|title| Title::Given(title.to_owned())),
        source: "cli".to_owned(),
        provider: "acme".to_owned(),
        model: "large-1".to_owned(),
        cwd: Some("/some/where".into()),
        system_prompt: "be kind".to_owned(),
        ..New::default()
    };
    store.create(new).await.unwrap().id
}

fn answer(text: &str) -> NewMessage {
    let message = AssistantMessage { text: text.to_owned(), ..AssistantMessage::default() };
    NewMessage::new(Message::Assistant(message))
}

/// Makes two conversations: one about a build, in which all happens that can,
/// and another one.
pub(crate) fn seed(fixture: &ProgramFixture) {
    block_on(async {
        let store = ConversationStore::open(file(fixture)).await.unwrap();
        let other = begin(&store, OTHER, None).await;
        store
            .append(&other, &[NewMessage::new(Message::user("say \u{1b}[2J\u{9b}boo"))])
            .await
            .unwrap();
        let id = begin(&store, BUILD, Some("Fix the build")).await;
        let image = Image {
            media_type: "image/png".to_owned(),
            data: "AAAA".repeat(1000),
            optional: false,
        };
        let text = "please fix the build\nit is red".to_owned();
        let asked = UserMessage { parts: vec![Part::Text { text }, Part::Image(image)] };
        let called = AssistantMessage {
            text: "Let me look.".to_owned(),
            calls: vec![ToolCall {
                id: "c1".to_owned(),
                name: "terminal".to_owned(),
                arguments: json!({ "command": "make" }).to_string(),
            }],
            finish: FinishReason::ToolCalls,
            ..AssistantMessage::default()
        };
        let result = ToolResult {
            call: "c1".to_owned(),
            name: "terminal".to_owned(),
            content: format!("\u{1b}]0;owned\u{7}\n{}", "line\n".repeat(9)),
            is_error: true,
            ..ToolResult::default()
        };
        let messages = [
            NewMessage::new(Message::User(asked)),
            NewMessage {
                usage: Some(TokenUsage { input: 1200, output: 30, ..TokenUsage::default() }),
                cost: Some(Cost::Known { micro_usd: 12_300, source: CostSource::Provider }),
                ..NewMessage::new(Message::Assistant(called))
            },
            NewMessage::new(Message::Tool(result)),
            answer("It is a missing semicolon."),
            NewMessage::new(Message::user("never mind")),
            answer("As you like."),
        ];
        store.append(&id, &messages).await.unwrap();
        store.undo(&id, 1).await.unwrap();
        store.close().await.unwrap();
    });
}

#[track_caller]
fn ask(fixture: &ProgramFixture, args: &[&str], code: i32) -> String {
    let outcome = fixture.vestal(["conversations"].iter().chain(args)).exits(code);
    assert!(!outcome.text().contains(['\u{1b}', '\u{9b}', '\u{7}']), "{outcome:?}");
    outcome.text()
}

#[track_caller]
fn ask_json(fixture: &ProgramFixture, args: &[&str]) -> Value {
    serde_json::from_str(&ask(fixture, args, 0)).unwrap()
}

#[test]
fn looking_for_conversations_where_there_are_none_makes_nothing() {
    let fixture = ProgramFixture::new();
    let listed = fixture.vestal(["conversations", "list"]).exits(0);
    assert_eq!(listed.text(), "");
    assert!(listed.stderr.contains("no conversations"), "{listed:?}");
    assert_eq!(ask_json(&fixture, &["list", "--json"]), json!([]));
    assert_eq!(ask(&fixture, &["search", "x", "--json"], 1), "[]\n");
    for args in [&["show", "x"][..], &["rename", "x", "y"], &["delete", "-y", "x"]] {
        let missing = fixture.vestal(["conversations"].iter().chain(args)).exits(1);
        assert!(missing.stderr.contains("no conversation \"x\""), "{missing:?}");
    }
    assert!(!fixture.home().exists());
}

#[test]
fn a_list_is_a_table_with_what_tells_conversations_apart() {
    let fixture = ProgramFixture::new();
    seed(&fixture);
    let text = ask(&fixture, &["list"], 0);
    let rows: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    assert_eq!(rows[0], ["ID", "TITLE", "USED", "MESSAGES", "MODEL", "COST"]);
    assert_eq!([rows[1][0], rows[1][1]], ["k3f9ab", "Fix the build"]);
    assert_eq!(rows[1][3..], ["4", "large-1", "$0.0123"]);
    assert_eq!([rows[2][0], rows[2][1]], ["k3f9zz", "say [2J boo"]);
    assert_eq!(ask(&fixture, &["list", "-n", "1"], 0).lines().count(), 2);
}

#[test]
fn a_conversation_in_json_has_the_promised_shape() {
    let fixture = ProgramFixture::new();
    seed(&fixture);
    let list = ask_json(&fixture, &["list", "--json"]);
    insta::assert_json_snapshot!(list[0], {
        ".started_at" => "[time]", ".updated_at" => "[time]",
    });
    let shown = ask_json(&fixture, &["show", "k3f9ab", "--json"]);
    insta::assert_json_snapshot!(shown, {
        ".started_at" => "[time]", ".updated_at" => "[time]", ".history[].at" => "[time]",
        ".history[0].message.parts[1].data" => "[base64]",
    });
}

#[test]
fn a_conversation_is_shown_to_read_without_harm() {
    let fixture = ProgramFixture::new();
    seed(&fixture);
    let text = ask(&fixture, &["show", "fix"], 0);
    let (heading, rest) = text.split_once("\n\n").unwrap();
    assert!(
        heading.starts_with(&format!("Fix the build\n{BUILD} · large-1 · begun ")),
        "{heading}"
    );
    assert!(heading.ends_with(" · 4 messages · 1 tool call · cost $0.0123"), "{heading}");
    insta::assert_snapshot!(rest);
    let full = ask(&fixture, &["show", "fix", "--full", "--all"], 0);
    assert!(full.contains("user #5 (undone)\n  never mind\n"), "{full}");
    assert!(!full.contains("more\n") && !text.contains("never mind"), "{full}");

    // Nor does a terminal get to obey what was said, in whatever form.
    for args in [
        &["conversations", "list"][..],
        &["conversations", "show", "k3f9zz", "--json"],
        &["conversations", "search", "boo"],
        &["conversations", "export", "k3f9zz"],
        &["conversations", "export", "k3f9zz", "--format", "markdown"],
    ] {
        let (code, screen) =
            ShellTerminal::start_with(&fixture, args, &[("NO_COLOR", "1")]).leaves();
        assert_eq!(code, 0, "{screen}");
        assert!(screen.contains("boo") && !screen.contains(['\u{1b}', '\u{9b}']), "{screen:?}");
    }
}

#[test]
fn who_may_be_meant_is_listed_when_it_is_not_clear() {
    let fixture = ProgramFixture::new();
    seed(&fixture);
    let unclear = fixture.vestal(["conversations", "show", "k3f9"]).exits(1);
    assert_eq!(
        unclear.stderr,
        format!("error: \"k3f9\" matches 2 conversations\n  {BUILD}  Fix the build\n  {OTHER}  \n")
    );
    assert_eq!(unclear.text(), "");
}

#[test]
fn messages_are_found() {
    let fixture = ProgramFixture::new();
    seed(&fixture);
    let text = ask(&fixture, &["search", "missing", "semi"], 0);
    let (place, snippet) = text.split_once('\n').unwrap();
    assert!(place.starts_with("k3f9ab  Fix the build  assistant #4, "), "{place}");
    assert_eq!(snippet, "  It is a missing semicolon.\n");
    let hits = ask_json(&fixture, &["search", "--json", "semi"]);
    insta::assert_json_snapshot!(hits, { "[].at" => "[time]" });
    assert_eq!(ask(&fixture, &["search", "never"], 1), "");
    assert_eq!(ask(&fixture, &["search", "\"NEAR(", "*"], 1), "");
}

#[test]
fn a_title_belongs_to_one_conversation() {
    let fixture = ProgramFixture::new();
    seed(&fixture);
    let renamed = ask(&fixture, &["rename", "k3f9zz", " boo \n who "], 0);
    assert_eq!(renamed, format!("{OTHER} is now \"boo who\"\n"));
    let taken = fixture.vestal(["conversations", "rename", "boo", "Fix the build"]).exits(1);
    assert!(taken.stderr.contains(BUILD), "{taken:?}");
    fixture.vestal(["conversations", "rename", "boo", " "]).exits(2);
    let expected = json!({ "id": OTHER, "title": "x" });
    assert_eq!(ask_json(&fixture, &["rename", "boo", "x", "--json"]), expected);
}

#[test]
fn turns_are_taken_back_and_branches_made() {
    let fixture = ProgramFixture::new();
    seed(&fixture);
    let branch = ask(&fixture, &["branch", "fix", "--at", "2"], 0);
    let shown = ask_json(&fixture, &["show", branch.trim(), "--json"]);
    assert_eq!(shown["title"], "Fix the build (2)");
    assert_eq!(shown["parent"], json!({ "kind": "branch", "id": BUILD }));
    assert_eq!(shown["history"].as_array().unwrap().len(), 2);
    fixture.vestal(["conversations", "branch", BUILD, "--at", "5"]).exits(1);

    let undone = json!({ "id": BUILD, "turns": 1, "messages": 4 });
    assert_eq!(ask_json(&fixture, &["undo", BUILD, "-n", "3", "--json"]), undone);
    let none = fixture.vestal(["conversations", "undo", BUILD]).exits(1);
    assert!(none.stderr.contains("nothing to take back"), "{none:?}");
}

#[test]
fn a_conversation_that_is_at_work_is_left_alone() {
    let fixture = ProgramFixture::new();
    seed(&fixture);
    let store = block_on(ConversationStore::open(file(&fixture))).unwrap();
    let lease = store.lease(&BUILD.parse().unwrap()).unwrap();
    for args in [["undo", BUILD, "-n", "1"], ["delete", "-y", OTHER, BUILD]] {
        let busy = fixture.vestal(["conversations"].iter().chain(&args)).exits(1);
        let pid = std::process::id().to_string();
        assert!(busy.stderr.contains(&pid), "{busy:?}");
    }
    assert_eq!(ask_json(&fixture, &["list", "--json"]).as_array().unwrap().len(), 2);
    drop(lease);
    ask(&fixture, &["undo", BUILD], 0);
}

#[test]
fn an_export_has_everything_and_is_its_owners_alone() {
    let fixture = ProgramFixture::new();
    seed(&fixture);
    let exported = ask(&fixture, &["export", "fix"], 0);
    let lines: Vec<Value> =
        exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 7);
    let (head, first) = (&lines[0], &lines[1]);
    assert_eq!((&head["type"], &head["version"]), (&json!("conversation"), &json!(1)));
    assert_eq!((&head["id"], &head["system_prompt"]), (&json!(BUILD), &json!("be kind")));
    assert_eq!((&first["type"], &first["seq"]), (&json!("message"), &json!(1)));
    let store = block_on(ConversationStore::open(file(&fixture))).unwrap();
    let history = block_on(store.history(&BUILD.parse().unwrap())).unwrap();
    let read: Vec<vestal_conversations::Stored> =
        lines[1..].iter().map(|line| serde_json::from_value(line.clone()).unwrap()).collect();
    assert_eq!(read, history);

    let wrote = ask(&fixture, &["export", "fix", "-o", "talk.jsonl"], 0);
    assert_eq!(wrote, "wrote talk.jsonl (6 messages)\n");
    let path = fixture.work().join("talk.jsonl");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), exported);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let exists = fixture.vestal(["conversations", "export", "fix", "-o", "talk.jsonl"]).exits(1);
    assert!(exists.stderr.contains("exists already"), "{exists:?}");
    fixture.vestal(["conversations", "export", "fix", "-o", "no/where"]).exits(125);
    fixture.vestal(["conversations", "export", "fix", "--format", "pdf"]).exits(2);

    let markdown =
        fixture.vestal(["conversations", "export", "fix", "--format", "markdown"]).exits(0);
    let text = markdown.text();
    assert!(text.starts_with(&format!("# Fix the build\n\n- id: {BUILD}\n")), "{text}");
    assert!(text.contains("\n## user\n\nplease fix the build\nit is red\n[image/png, 2.9 KiB]\n"));
    assert!(text.contains("\n```\n→ terminal {\"command\":\"make\"}\n```\n"), "{text}");
    assert!(!text.contains("never mind"), "{text}");
}

#[test]
fn deleting_asks_on_a_terminal_and_needs_yes_elsewhere() {
    let fixture = ProgramFixture::new();
    seed(&fixture);
    let refused = fixture.vestal(["conversations", "delete", "fix"]).exits(2);
    assert!(refused.stderr.contains("-y") && refused.stderr.contains(BUILD), "{refused:?}");
    // One wrong name, and none goes.
    fixture.vestal(["conversations", "delete", "-y", "fix", "nobody"]).exits(1);

    let mut person = ShellTerminal::start(&fixture, &["conversations", "delete", "fix"]);
    person.sees("Fix the build, 4 messages) will be deleted");
    person.sees("Delete? [y/N]");
    person.types("n\r");
    assert_eq!(person.leaves().0, 1);
    assert_eq!(ask_json(&fixture, &["list", "--json"]).as_array().unwrap().len(), 2);

    let mut person = ShellTerminal::start(&fixture, &["conversations", "delete", "fix"]);
    person.sees("Delete? [y/N]");
    person.types("y\r");
    assert_eq!(person.leaves().0, 0);
    let deleted = ask_json(&fixture, &["delete", "-y", "--json", "k3f9zz", OTHER]);
    assert_eq!(deleted, json!([{ "id": OTHER, "title": null, "messages": 1 }]));
    assert_eq!(ask_json(&fixture, &["list", "--json"]), json!([]));
    assert_eq!(std::fs::read_dir(fixture.home().join("run")).unwrap().count(), 0);
}

#[test]
fn a_file_that_cannot_be_used_is_named_and_left_as_it_is() {
    let fixture = ProgramFixture::new();
    std::fs::create_dir(fixture.home()).unwrap();
    std::fs::write(file(&fixture), "once upon a time ".repeat(500)).unwrap();
    let before = std::fs::read(file(&fixture)).unwrap();
    let damaged = fixture.vestal(["conversations", "list"]).exits(125);
    assert!(damaged.stderr.contains("state.db is damaged"), "{damaged:?}");
    assert_eq!(std::fs::read(file(&fixture)).unwrap(), before);
}

#[test]
fn profiles_have_conversations_of_their_own() {
    let fixture = ProgramFixture::new();
    seed(&fixture);
    let dir = fixture.home().join("profiles").join("work");
    std::fs::create_dir_all(&dir).unwrap();
    block_on(async {
        let store = ConversationStore::open(dir.join("state.db")).await.unwrap();
        let id = begin(&store, "20270101-000000-aaaaaa", Some("at work")).await;
        assert_eq!(store.append(&id, &[answer("hello")]).await.unwrap(), [Seq(1)]);
        store.close().await.unwrap();
    });
    let listed = fixture.vestal(["-p", "work", "conversations", "list", "--json"]).exits(0).json();
    let titles: Vec<&Value> = listed.as_array().unwrap().iter().map(|one| &one["title"]).collect();
    assert_eq!(titles, ["at work"]);
}

#[test]
fn a_branch_goes_on_in_the_sandbox_that_the_first_works_in() {
    use vestal_scripted_model::ScriptedReply;
    let run = || crate::chat::fixture::terminal("true");
    let replies = [run(), ScriptedReply::text("One."), run(), ScriptedReply::text("Two."), run()];
    let chat = crate::chat::fixture::ChatFixture::replies(
        replies.into_iter().chain([ScriptedReply::text("3")]),
    );
    let first = chat.vestal(["chat", "--json", "-t", "elsewhere", "-q", "work"]).exits(0).json();
    let first = first["conversation"].as_str().unwrap();
    for more in [&["--at", "4"][..], &[]] {
        let branch = chat.vestal([&["conversations", "branch", first], more].concat()).exits(0);
        chat.vestal(["chat", "--resume", branch.text().trim(), "-q", "go on"]).exits(0);
    }
    assert_eq!(chat.fixture.tasks(), ["elsewhere"]);
}
