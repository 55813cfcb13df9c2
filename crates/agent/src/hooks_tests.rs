use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::event::TurnEvent;
use crate::human::Approval;
use crate::testing::{AgentFixture, Scripted, marker, processes_with, until};

fn hook(command: &str, tools: &[&str]) -> Hook {
    let tools: Vec<String> = tools.iter().map(|tool| (*tool).to_owned()).collect();
    Hook::new(command, &tools, Duration::from_mins(1), HookFailure::Deny)
}

fn hooks(fixture: &AgentFixture, before: Vec<Hook>, after: Vec<Hook>) -> Hooks {
    let captured = vestal_config::Environment::capture();
    let path = captured.get("PATH").unwrap_or_default().to_owned();
    Hooks { before, after, env: vec![("PATH".into(), path)], dir: fixture.start_dir() }
}

async fn before(fixture: &AgentFixture, hook: Hook) -> Result<Vec<String>, String> {
    let hooks = hooks(fixture, vec![hook], Vec::new());
    hooks.before(&fixture.context, "terminal", &json!({"command": "ls"})).await
}

#[tokio::test]
async fn a_hook_reads_the_call_and_decides_by_its_exit_code_or_its_answer() {
    let fixture = AgentFixture::new();
    let case = async |command: &str| before(&fixture, hook(command, &[])).await;
    assert_eq!(case("true").await, Ok(vec![]));
    assert_eq!(case("echo fine").await, Ok(vec![]));
    let refused = case("echo 'not on Fridays' >&2; exit 2").await.unwrap_err();
    assert_eq!(refused, "refused by a hook of the user's: not on Fridays");
    let denied = case(r#"echo '{"decision": "deny", "reason": "no"}'"#).await.unwrap_err();
    assert_eq!(denied, "refused by a hook of the user's: no");
    let noted = case(r#"echo '{"decision": "allow", "note": "careful"}'"#).await;
    assert_eq!(noted, Ok(vec!["careful".to_owned()]));
    case("cat > seen.json").await.unwrap();
    let seen = std::fs::read(fixture.start_dir().join("seen.json")).unwrap();
    let seen: Value = serde_json::from_slice(&seen).unwrap();
    let wanted = json!({
        "event": "before_tool",
        "conversation": fixture.context.conversation.to_string(),
        "task": "default",
        "call": "call-1",
        "tool": "terminal",
        "arguments": {"command": "ls"},
    });
    assert_eq!(seen, wanted);
}

#[tokio::test]
async fn a_hook_that_fails_refuses_the_call_unless_it_may_fail() {
    let fixture = AgentFixture::new();
    for command in ["exit 1", "kill -9 $$", "echo '{\"decision\": \"maybe\"}'", "no-such-program"] {
        let refused = before(&fixture, hook(command, &[])).await.unwrap_err();
        assert!(refused.contains("so the call was not made"), "{command}: {refused}");
        let lenient = Hook { on_failure: HookFailure::Allow, ..hook(command, &[]) };
        assert_eq!(before(&fixture, lenient).await, Ok(vec![]), "{command}");
    }
    let warned = |event: &TurnEvent| matches!(event, TurnEvent::Warning { .. });
    assert_eq!(fixture.events().iter().filter(|event| warned(event)).count(), 8);
}

#[tokio::test]
async fn a_hook_that_hangs_is_killed_with_all_it_has_started() {
    let fixture = AgentFixture::new();
    let marker = marker();
    let command =
        format!("MARK={marker} sh -c 'sleep 1000; true' & MARK={marker} sleep 1000; wait");
    let slow = Hook { timeout: Duration::from_millis(300), ..hook(&command, &[]) };
    let refused = before(&fixture, slow).await.unwrap_err();
    assert!(refused.contains("was killed"), "{refused}");
    until("nothing of it is left", || processes_with(&marker).is_empty()).await;
}

#[tokio::test]
async fn an_interrupt_ends_a_hook() {
    let fixture = AgentFixture::new();
    let marker = marker();
    let waiting = hook(&format!("touch begun; MARK={marker} sleep 1000; true"), &[]);
    let begun = fixture.start_dir().join("begun");
    let cancel = fixture.context.cancel.clone();
    let (refused, ()) = tokio::join!(before(&fixture, waiting), async {
        until("the hook has begun", || begun.exists()).await;
        cancel.cancel();
    });
    assert!(refused.unwrap_err().contains("interrupted"));
    until("nothing of it is left", || processes_with(&marker).is_empty()).await;
}

#[tokio::test]
async fn a_hook_need_not_read_and_may_say_too_much() {
    let fixture = AgentFixture::new();
    let hooks = hooks(&fixture, vec![hook("head -c 5000000 /dev/zero", &[])], Vec::new());
    let arguments = json!({"content": "x".repeat(1 << 20)});
    assert_eq!(hooks.before(&fixture.context, "write_file", &arguments).await, Ok(vec![]));
}

#[tokio::test]
async fn a_hook_is_for_the_tools_that_it_names() {
    let fixture = AgentFixture::new();
    let hooks = hooks(&fixture, vec![hook("exit 2", &["mcp_*", "terminal"])], Vec::new());
    let arguments = json!({});
    for (tool, is_refused) in
        [("terminal", true), ("mcp_files_read", true), ("read_file", false), ("terminals", false)]
    {
        let answer = hooks.before(&fixture.context, tool, &arguments).await;
        assert_eq!(answer.is_err(), is_refused, "{tool}");
    }
}

#[tokio::test]
async fn a_hook_can_have_a_person_decide() {
    let ask = r#"echo '{"decision": "ask", "reason": "is this right?"}'"#;
    let person = Scripted::approving([Approval::Once, Approval::Deny(None)]);
    let fixture = AgentFixture::new().with_human(Arc::clone(&person) as Arc<_>);
    assert_eq!(before(&fixture, hook(ask, &[])).await, Ok(vec![]));
    assert!(before(&fixture, hook(ask, &[])).await.is_err());
    assert_eq!(person.asked(), ["terminal ls", "terminal ls"]);
    let alone = AgentFixture::new();
    assert!(before(&alone, hook(ask, &[])).await.is_err());
}

#[tokio::test]
async fn a_hook_after_a_call_reads_its_result_and_adds_to_it() {
    let fixture = AgentFixture::new();
    let command = r#"grep -q '"result":"done"' && echo '{"note": "checked"}'"#;
    let hooks = hooks(&fixture, Vec::new(), vec![hook(command, &[]), hook("exit 1", &[])]);
    let output = ToolOutput::ok("done");
    let notes = hooks.after(&fixture.context, "terminal", &json!({}), &output).await;
    assert_eq!(notes, ["checked"]);
    let shown = with_notes(output, &notes, &str::to_owned);
    assert_eq!(shown.content, "done\n\n[A hook of the user's says: checked]");
}
