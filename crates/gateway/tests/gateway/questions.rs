//! Questions of turns, asked and answered over the control socket by another process of the same user.

use std::os::unix::net::UnixListener;

use serde_json::json;
use vestal_api::dashboard::{AskingTurn, QuestionAnswer};
use vestal_gateway::{
    GatewayControlError, GatewayPhase, ShutdownCause, answer_question, ask_questions, control_path,
    read_state, state_path,
};
use vestal_scripted_model::{Script, ScriptedReply};

use crate::support::{TestGateway, found};

fn dangerous(home: &std::path::Path) -> String {
    format!("rm -r {}", home.join("doomed").display())
}

async fn asking() -> (TestGateway, String, String) {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("doomed")).unwrap();
    let command = dangerous(home.path());
    let gateway = TestGateway::start(Script::replies([
        ScriptedReply::tool_call("terminal", json!({ "command": command })),
        ScriptedReply::text("so be it"),
    ]))
    .await;
    drop(home);
    let run = gateway.run("remove it").await;
    (gateway, run, command)
}

#[tokio::test]
async fn a_question_of_a_run_is_listed_without_a_key_and_answered_once() {
    let (gateway, run, command) = asking().await;
    let home = gateway.home.path().to_owned();
    let asked = found("the question is in the state", async || {
        let waits = read_state(&home).unwrap()?.waiting_questions == 1;
        if waits { ask_questions(&home).await.unwrap().pop() } else { None }
    })
    .await;
    let asked = json!(asked);
    assert_eq!(
        [&asked["profile"], &asked["asked_by"], &asked["session"], &asked["action"]],
        ["default", "gateway_run", &run, &command].map(|text| json!(text)).each_ref()
    );
    let id = asked["id"].as_str().unwrap();
    let run_turn = AskingTurn::GatewayRun;
    let wrong = answer_question(&home, run_turn, &run, id, QuestionAnswer::Words(None)).await;
    assert!(matches!(wrong, Err(GatewayControlError::Refused(_))), "{wrong:?}");
    let other = AskingTurn::GatewaySession;
    let missed = answer_question(&home, other, &run, id, QuestionAnswer::Deny).await;
    assert!(matches!(missed, Err(GatewayControlError::Refused(_))), "{missed:?}");

    answer_question(&home, run_turn, &run, id, QuestionAnswer::Deny).await.unwrap();
    let mut reader = gateway.follow(&format!("/v1/runs/{run}/events"), None).await;
    assert_eq!(reader.until("run.completed").await.data["output"], "so be it");
    let late = answer_question(&home, run_turn, &run, id, QuestionAnswer::Once).await;
    assert!(matches!(late, Err(GatewayControlError::Refused(_))), "{late:?}");
    found("the state says that nothing waits", async || {
        (read_state(&home).unwrap()?.waiting_questions == 0).then_some(())
    })
    .await;
    gateway.remove_sandbox().await;
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_question_of_a_turn_that_a_drain_waits_for_is_listed_and_answered() {
    let ask = ScriptedReply::tool_call("clarify", json!({ "question": "which one?" }));
    let script = Script::replies([ask.hold_after(0), ScriptedReply::text("that one")]);
    let gateway = TestGateway::start_with(script, &["agent.restart_drain_timeout=600"]).await;
    let home = gateway.home.path().to_owned();
    let run = gateway.run("ask me").await;
    gateway.model.wait_for_requests(1).await;
    gateway.shutdown.send(ShutdownCause::Planned).await.unwrap();
    found("it drains", async || {
        (read_state(&home).unwrap()?.gateway_state == GatewayPhase::Draining).then_some(())
    })
    .await;
    gateway.model.release();
    let asked = found("the question is in the state", async || {
        let waits = read_state(&home).unwrap()?.waiting_questions == 1;
        if waits { ask_questions(&home).await.unwrap().pop() } else { None }
    })
    .await;
    let id = json!(asked)["id"].as_str().unwrap().to_owned();
    let answer = QuestionAnswer::Words(Some("the first".to_owned()));
    answer_question(&home, AskingTurn::GatewayRun, &run, &id, answer).await.unwrap();
    let (home, end) = gateway.ended().await;
    assert_eq!(end.stuck, 0);
    let state = read_state(home.path()).unwrap().unwrap();
    assert_eq!(state.waiting_questions, 0);
    assert_eq!(state.exit_reason.as_deref(), Some("stopped by an operator"));
}

#[tokio::test]
async fn a_process_that_is_not_the_gateway_on_record_is_asked_nothing() {
    let (gateway, run, _) = asking().await;
    let home = gateway.home.path().to_owned();
    found("the question is in the state", async || {
        (read_state(&home).unwrap()?.waiting_questions == 1).then_some(())
    })
    .await;
    // The record of another process that lives, whose socket this is not.
    let state = std::fs::read(state_path(&home)).unwrap();
    let mut other: serde_json::Value = serde_json::from_slice(&state).unwrap();
    let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    other["pid"] = json!(child.id());
    other["start_time"] = json!(vestal_process::start_time(child.id()).unwrap());
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::create_dir(elsewhere.path().join("run")).unwrap();
    std::fs::write(state_path(elsewhere.path()), other.to_string()).unwrap();
    let listener = UnixListener::bind(control_path(elsewhere.path())).unwrap();
    let refused = ask_questions(elsewhere.path()).await;
    assert!(matches!(refused, Err(GatewayControlError::Impostor { .. })), "{refused:?}");
    let answered =
        answer_question(elsewhere.path(), AskingTurn::GatewayRun, &run, "q1", QuestionAnswer::Once);
    let answered = answered.await;
    assert!(matches!(answered, Err(GatewayControlError::Impostor { .. })), "{answered:?}");
    // Nothing was sent to whoever listens there.
    listener.set_nonblocking(true).unwrap();
    while let Ok((mut stream, _)) = listener.accept() {
        let mut sent = Vec::new();
        std::io::Read::read_to_end(&mut stream, &mut sent).unwrap();
        assert_eq!(sent, b"");
    }
    // One whose process is gone asks nothing.
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(ask_questions(elsewhere.path()).await.unwrap(), []);
    gateway.remove_sandbox().await;
    gateway.end(ShutdownCause::Planned).await;
}
