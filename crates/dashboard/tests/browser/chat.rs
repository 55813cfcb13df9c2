//! A conversation in a real browser, with a model that repeats the prompt.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use vestal_conversations::ConversationStore;
use vestal_dashboard::gate::Right;
use vestal_scripted_model::{ReplyRule, Script, ScriptedModel, ScriptedReply, ScriptedToolCall};

use crate::support::DashboardFixture;
use crate::{WITHIN, browser, say};

/// What a model may say: all that is rendered, and what must stay text.
const MARKDOWN: &str = "## A heading\n\nSome **bold** and `code` words, a \
[good link](https://example.org/a) and a [bad one](javascript:alert(1)).\n\n- one\n- two\n\n```sh\necho \
<b>x</b>\n```\n\nTheir sizes:\n| name | size |\n|---|---|\n| a | 1 |\n\n<img src=x onerror=\"document.title='owned'\">\n\
![picture](https://example.org/p.png)\n";

fn script() -> Script {
    let ask = json!({ "question": "Which colour?", "choices": ["red", "blue"] });
    Script::rules([
        ReplyRule::when_user_contains("markdown").reply(ScriptedReply::text(MARKDOWN).chunked(7)),
        ReplyRule::when_user_contains("remove")
            .reply(ScriptedReply::tool_call("terminal", json!({ "command": "rm -rf ./precious" }))),
        ReplyRule::when_user_contains("colour")
            .reply(ScriptedReply::message().with_tool_call(ScriptedToolCall::new("clarify", ask))),
        ReplyRule::when_user_contains("count").reply(
            ScriptedReply::text(
                (1..=60).map(|word| format!("word{word}")).collect::<Vec<_>>().join(" ") + " ",
            )
            .chunked(7)
            .paced(Duration::from_millis(40)),
        ),
        ReplyRule::when_user_contains("for ever").reply(ScriptedReply::stall()),
        ReplyRule::after_tool_results(1).reply(ScriptedReply::text("that is done")),
        ReplyRule::always().reply_with(|request| {
            ScriptedReply::text(request.last_user_text().unwrap_or_default())
        }),
    ])
}

/// Talks, answers what is asked, interrupts, takes back, branches, loses the line, and waits for a
/// conversation that somebody else has open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_talks_to_an_agent_in_the_browser() {
    let model = ScriptedModel::start(script());
    let fixture = DashboardFixture::start_with_model(&model).await;
    // A conversation that is not open here, and is open elsewhere.
    let operator = fixture.login(Right::Operator).await;
    let mut socket = fixture.socket("/api/chat/default", &operator).await;
    let session = socket.call("session.create", json!({})).await["session_id"].take();
    socket.call("prompt.submit", json!({ "session_id": session, "text": "held elsewhere" })).await;
    socket.event("message.complete").await;
    drop(socket);
    let fixture = fixture.restart().await;
    let store =
        ConversationStore::open_existing(&fixture.home.join("state.db")).await.unwrap().unwrap();
    let held = store.list(&vestal_conversations::ConversationFilter::default()).await.unwrap();
    let held = held[0].conversation.id.clone();
    let mut lease = Some(store.lease(&held).unwrap());
    let mut command = browser(&fixture, "chat.mjs");
    command.env("HELD", held.to_string());
    let mut child = command.spawn().expect("node is not installed; scripts/test installs it");
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    say(&mut stdin, &fixture.link(Right::Operator).await).await;
    say(&mut stdin, &fixture.link(Right::Viewer).await).await;
    let story = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            match line.as_str() {
                "let it go" => drop(lease.take()),
                other => println!("{other}"),
            }
        }
    };
    tokio::time::timeout(WITHIN, story).await.expect("the browser does not come to an end");
    let status = child.wait().await.unwrap();
    let mut reply = String::new();
    child.stderr.take().unwrap().read_to_string(&mut reply).await.unwrap();
    store.close().await.unwrap();
    fixture.stop_sandboxes().await;
    assert!(status.success(), "{reply}");
    fixture.stop().await;
}
