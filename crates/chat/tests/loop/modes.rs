//! Plan mode, how much the model thinks, its to-do list, and what leaves the chat.

use serde_json::json;
use vestal_scripted_model::{Script, ScriptedReply};
use vestal_tui::{ClipboardReply, KeyCode, KeyPress, Size, TerminalInput};

use crate::commands::{hears, rests, shell};
use crate::fixture::ChatFixture;

fn key(code: KeyCode) -> KeyPress {
    KeyPress::plain(code)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_is_shown_approved_and_carried_out() {
    let fixture = ChatFixture::new(Script::replies([
        ScriptedReply::tool_call("terminal", json!({"command": "touch made"})),
        ScriptedReply::tool_call("present_plan", json!({"plan": "## Steps\n\n1. make it"})),
        ScriptedReply::tool_call("terminal", json!({"command": "touch made"})),
        ScriptedReply::text("it is made"),
    ]));
    fixture
        .play(async |person| {
            person.presses(key(KeyCode::BackTab));
            person.sees("plan mode: the agent only reads").await;
            person.sees("PLAN").await;
            person.submits("make it");
            person.sees("## Steps").await;
            person.sees("Shall the agent carry out the plan above?").await;
            assert!(!fixture.file("made").exists(), "nothing is changed before");
            person.sees("type a number or another answer").await;
            person.submits("1");
            person.sees("plan mode is off").await;
            person.sees("it is made").await;
            rests(&person).await;
            person.sees_no("· PLAN").await;
            assert!(fixture.file("made").exists());
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plan_mode_is_switched_by_its_command_and_stays_with_the_conversation() {
    let fixture = ChatFixture::new(shell());
    fixture
        .play(async |person| {
            person.submits("/plan paint the door");
            // The model is told first.
            person.sees("heard [Plan mode is on").await;
            rests(&person).await;
            person.sees("PLAN").await;
            person.submits("/new");
            person.sees("a new conversation in the same sandbox").await;
            person.sees_no("· PLAN").await;
            person.submits("/plan on");
            person.sees("PLAN").await;
            person.submits("/plan off");
            person.sees("plan mode is off: the agent works").await;
            person.sees_no("· PLAN").await;
            person.submits("/resume paint the door");
            person.sees("PLAN").await;
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_much_the_model_thinks_is_chosen_and_shown() {
    let fixture = ChatFixture::new(shell());
    fixture
        .play(async |person| {
            person.submits("/reasoning");
            person.sees("› auto").await;
            person.types("high");
            person.sees("› high").await;
            person.presses(key(KeyCode::Enter));
            person.sees("reasoning from the next request on: high (in this conversation)").await;
            person.sees("scripted-model high").await;
            hears(&person, "hello").await;
            person.submits("/reasoning much");
            person.sees("\"much\" is neither an effort").await;
            person.submits("/reasoning default");
            person.sees("(as the settings say)").await;
            person.sees_no("scripted-model high").await;
            person.leaves();
        })
        .await;
    assert_eq!(fixture.model.requests()[0].body["reasoning_effort"], "high");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_is_seen_while_it_is_worked_on_and_only_its_changes_are_kept() {
    let item = |id: &str, content: &str, status: &str| json!({"id": id, "content": content, "status": status});
    let begun = json!({"todos": [
        item("1", "lay the fire", "in_progress"),
        item("2", "light it", "pending"),
    ]});
    let changed = json!({"merge": true, "todos": [
        {"id": "1", "status": "completed"}, {"id": "2", "status": "in_progress"}]});
    let fixture = ChatFixture::new(Script::replies([
        ScriptedReply::tool_call("todo", begun),
        ScriptedReply::tool_call("todo", changed),
        ScriptedReply::text("it burns, and on").chunked(8).hold_after(1),
    ]));
    fixture
        .play(async |person| {
            person.submits("make a fire");
            person.sees("to do · 1 of 2 done").await;
            person.sees("  [>] light it").await;
            fixture.model.release();
            person.sees("it burns, and on").await;
            rests(&person).await;
            person.sees_no("to do · ").await;
            let rows = person.all();
            let count = |words: &str| rows.iter().filter(|row| row.contains(words)).count();
            assert_eq!((count("lay the fire"), count("[x] lay the fire")), (2, 1), "{rows:#?}");
            assert_eq!(count("1 of 2 done"), 1);
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_of_the_last_answer_is_copied() {
    let answer = "Do this:\n\n```sh\nls -l\n```\n\nor\n\n```sh\nls -la\n```\n";
    let fixture = ChatFixture::new(Script::replies([ScriptedReply::text(answer)]));
    fixture
        .play(async |person| {
            person.submits("/copy");
            person.sees("there is no answer to copy yet").await;
            person.submits("how?");
            person.sees("ls -la").await;
            rests(&person).await;
            person.submits("/copy 3");
            person.sees("there is no block of code 3; the last answer has 2").await;
            person.submits("/copy code");
            person.sees("› 1  ls -l").await;
            person.presses(key(KeyCode::Down));
            person.presses(key(KeyCode::Enter));
            person.sees("sent block of code 2 (7 B) to the terminal").await;
            person.submits("/copy");
            person.sees("sent the last answer").await;
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_is_saved_by_the_verb_that_exports() {
    let mut fixture = ChatFixture::new(shell());
    fixture.size = Size { columns: 120, rows: 24 };
    fixture
        .play(async |person| {
            person.submits("/save");
            person.sees("this conversation has no messages yet").await;
            hears(&person, "one").await;
            person.submits("/save talk.jsonl");
            person.sees("--format json --output=talk.jsonl").await;
            person.submits("/save 'my talk.md'");
            person.sees("--format markdown --output=my talk.md").await;
            person.submits("/save --nonsense");
            person.sees("unknown option --nonsense").await;
            person.leaves();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_of_the_terminals_clipboard_goes_with_the_message() {
    let fixture = ChatFixture::new(Script::replies([ScriptedReply::text("a lantern")]));
    let data = |bytes: &[u8]| {
        let mime = "image/png".to_owned();
        TerminalInput::Clipboard(ClipboardReply::Data { mime, bytes: bytes.to_vec() })
    };
    fixture
        .play(async |person| {
            person.types("what is ");
            person.presses(KeyPress::control('v'));
            person.does(TerminalInput::Clipboard(ClipboardReply::Support(true)));
            person.does(TerminalInput::Clipboard(ClipboardReply::Begun));
            person.does(data(b"\x89PNG\r\n"));
            person.does(data(b"\x1a\n rest"));
            person.does(TerminalInput::Clipboard(ClipboardReply::Done));
            person.sees("› what is [image 1: 13 B]").await;
            person.submits("about?");
            person.sees("a lantern").await;
            rests(&person).await;
            // One that is deleted does not go along, and a terminal that is silent is reported.
            person.presses(KeyPress::control('v'));
            person.sees("no program here reaches the clipboard").await;
            person.leaves();
        })
        .await;
    let request = &fixture.model.requests()[0];
    assert!(request.body.to_string().contains("image_url"), "{:?}", request.body);
}
