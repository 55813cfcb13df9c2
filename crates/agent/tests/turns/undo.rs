//! Taking turns back.

use serde_json::json;
use vestal_agent::{Conversation, EndReason, UndoneTurns, undo_stored};
use vestal_model::Part;
use vestal_scripted_model::{ReceivedRequest, ReplyRule, Script, ScriptedReply};

use crate::fixture::{TurnFixture, user_prompt};

/// A model that repeats the prompt, and keeps a list when told to.
fn echo() -> Script {
    Script::new()
        .rule(ReplyRule::when_user_contains("list ").reply_with(|request| {
            let words = request.last_user_text().unwrap_or_default();
            let item = json!({"id": "1", "content": words, "status": "pending"});
            ScriptedReply::tool_call("todo", json!({"todos": [item]}))
        }))
        .rule(ReplyRule::when_user_contains("read ").reply_with(|request| {
            let path = request.last_user_text().unwrap_or_default().replace("read ", "");
            ScriptedReply::tool_call("read_file", json!({"path": path}))
        }))
        .rule(ReplyRule::after_tool_results(1).reply_with(last_result))
        .or_echo()
}

fn last_result(request: &ReceivedRequest) -> ScriptedReply {
    ScriptedReply::text(request.last_tool_results().concat())
}

/// Returns what the model saw of a person in the last request.
fn heard(fixture: &TurnFixture) -> Vec<String> {
    let requests = fixture.model.requests();
    let messages = requests.last().unwrap().messages().to_vec();
    let of_person = messages.iter().filter(|message| message["role"] == "user");
    of_person.map(|message| message["content"].as_str().unwrap_or("parts").to_owned()).collect()
}

fn todos(conversation: &Conversation) -> Vec<String> {
    conversation.todos().into_iter().map(|todo| todo.content).collect()
}

#[tokio::test]
async fn a_turn_that_was_taken_back_is_gone_here_and_wherever_it_is_resumed() {
    let fixture = TurnFixture::new(echo());
    let mut conversation = fixture.begin().await;
    for words in ["one", "two", "three"] {
        conversation.run(user_prompt(words), &fixture.ears()).await;
    }
    let undone = conversation.undo(2).await.unwrap();
    assert_eq!(
        undone,
        UndoneTurns { turns: 2, messages: 4, first_message: Some(user_prompt("two")) }
    );
    conversation.run(user_prompt("four"), &fixture.ears()).await;
    assert_eq!(heard(&fixture), ["one", "four"]);

    let id = conversation.id().clone();
    conversation.close(EndReason::Left).await.unwrap();
    let mut again = fixture.resume(&id).await;
    again.run(user_prompt("five"), &fixture.ears()).await;
    assert_eq!(heard(&fixture), ["one", "four", "five"]);
}

#[tokio::test]
async fn more_turns_than_there_are_take_back_all_and_then_nothing() {
    let fixture = TurnFixture::new(echo());
    let mut conversation = fixture.begin().await;
    assert_eq!(conversation.undo(1).await.unwrap(), UndoneTurns::default());
    conversation.run(user_prompt("one"), &fixture.ears()).await;
    assert_eq!(conversation.undo(9).await.unwrap().turns, 1);
    assert_eq!(conversation.messages(), []);
    assert_eq!(conversation.undo(1).await.unwrap(), UndoneTurns::default());
    assert_eq!(conversation.retry().await.unwrap(), None);
}

#[tokio::test]
async fn a_message_that_is_sent_again_has_its_pictures_and_is_stored_once() {
    let fixture = TurnFixture::new(echo());
    let mut conversation = fixture.begin().await;
    conversation.run(user_prompt("one"), &fixture.ears()).await;
    let mut words = user_prompt("what is this?");
    let (media_type, data) = ("image/png".to_owned(), "aGVsbG8=".to_owned());
    words.parts.push(Part::Image(vestal_model::Image { media_type, data, optional: false }));
    conversation.run(words.clone(), &fixture.ears()).await;
    let again = conversation.retry().await.unwrap().unwrap();
    assert_eq!(again, words);
    conversation.run(again, &fixture.ears()).await;
    assert_eq!(heard(&fixture), ["one", "parts"]);
}

#[tokio::test]
async fn what_steered_a_turn_goes_with_it() {
    let fixture = TurnFixture::new(Script::replies([
        ScriptedReply::tool_call("terminal", json!({"command": "true"})).hold_after(1),
        ScriptedReply::text("as you wish"),
        ScriptedReply::text("again"),
    ]));
    let mut conversation = fixture.begin().await;
    let control = conversation.control();
    let ears = fixture.ears();
    tokio::join!(conversation.run(user_prompt("go"), &ears), async {
        fixture.model.wait_for_requests(1).await;
        control.steer("use tabs");
        fixture.model.release();
    });
    let again = conversation.retry().await.unwrap().unwrap();
    assert_eq!(again, user_prompt("go"));
    assert_eq!(conversation.messages(), []);
}

#[tokio::test]
async fn the_list_is_what_it_was_before_the_turns_that_were_taken_back() {
    let fixture = TurnFixture::new(echo());
    let mut conversation = fixture.begin().await;
    for words in ["list a", "hello", "list b", "list c"] {
        conversation.run(user_prompt(words), &fixture.ears()).await;
    }
    assert_eq!(todos(&conversation), ["list c"]);
    conversation.undo(1).await.unwrap();
    assert_eq!(todos(&conversation), ["list b"]);

    let id = conversation.id().clone();
    conversation.close(EndReason::Left).await.unwrap();
    let mut again = fixture.resume(&id).await;
    assert_eq!(todos(&again), ["list b"]);
    again.undo(2).await.unwrap();
    assert_eq!(todos(&again), ["list a"]);
    again.undo(1).await.unwrap();
    assert_eq!(todos(&again), [""; 0]);
}

#[tokio::test]
async fn a_file_whose_lines_were_taken_back_is_shown_again() {
    let fixture = TurnFixture::new(echo());
    std::fs::write(fixture.file("notes"), "the lines\n").unwrap();
    let mut conversation = fixture.begin().await;
    let first = conversation.run(user_prompt("read notes"), &fixture.ears()).await;
    assert!(first.text.contains("the lines"), "{}", first.text);
    let known = conversation.run(user_prompt("read notes"), &fixture.ears()).await;
    assert!(!known.text.contains("the lines"), "{}", known.text);
    conversation.undo(2).await.unwrap();
    let anew = conversation.run(user_prompt("read notes"), &fixture.ears()).await;
    assert!(anew.text.contains("the lines"), "{}", anew.text);
}

#[tokio::test]
async fn secrets_that_the_model_works_with_survive_an_undo() {
    let secret = "hunter2-and-more";
    let fixture = TurnFixture::new(echo());
    let agent = fixture.agent_knowing(&[secret]).await;
    let mut conversation = agent.open(fixture.opening(crate::fixture::new())).await.unwrap();
    conversation.run(user_prompt(&format!("log in with {secret}")), &fixture.ears()).await;
    conversation.run(user_prompt("two"), &fixture.ears()).await;
    conversation.undo(1).await.unwrap();
    conversation.run(user_prompt("three"), &fixture.ears()).await;
    assert_eq!(heard(&fixture), [&format!("log in with {secret}"), "three"]);
}

#[tokio::test]
async fn a_turn_that_is_taken_back_in_the_store_takes_its_notes_along() {
    let fixture = TurnFixture::new(echo());
    let mut conversation = fixture.begin().await;
    conversation.run(user_prompt("list one"), &fixture.ears()).await;
    conversation.run(user_prompt("list two"), &fixture.ears()).await;
    let id = conversation.id().clone();
    conversation.close(EndReason::Left).await.unwrap();
    let agent = fixture.agent().await;
    let undone = undo_stored(agent.store(), &id, 1).await.unwrap();
    assert_eq!(undone.turns, 1);
    assert_eq!(todos(&fixture.resume(&id).await), ["list one"]);
}
