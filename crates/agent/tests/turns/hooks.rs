//! Commands of the user's around calls of tools.

use serde_json::json;
use vestal_scripted_model::{Script, ScriptedReply};

use crate::fixture::TurnFixture;

#[tokio::test]
async fn hooks_of_the_settings_refuse_calls_and_add_to_results() {
    let before = r#"hooks.before_tool=[{"command": "grep -q forbidden && { echo not here >&2; exit 2; } || true", "tools": ["terminal"]}]"#;
    let after = r#"hooks.after_tool=[{"command": "echo '{\"note\": \"mind the gap\"}'", "tools": ["terminal"]}]"#;
    let fixture = TurnFixture::new(Script::replies([
        ScriptedReply::tool_call("terminal", json!({"command": "touch forbidden"})),
        ScriptedReply::tool_call("terminal", json!({"command": "touch made"})),
        ScriptedReply::text("done"),
    ]))
    .with(before)
    .with(after);
    let result = fixture.turn("go").await;
    assert!(result.outcome.is_completed(), "{:?}", result.outcome);
    let results = fixture.model.requests()[2].tool_results();
    assert!(results[0].contains("refused by a hook of the user's: not here"), "{}", results[0]);
    assert!(!results[0].contains("mind the gap"), "{}", results[0]);
    assert!(results[1].contains("mind the gap"), "{}", results[1]);
    assert!(fixture.file("made").exists() && !fixture.file("forbidden").exists());
}

#[tokio::test]
async fn calls_of_scripts_pass_the_hooks_too() {
    let before = r#"hooks.before_tool=[{"command": "exit 2", "tools": ["write_file"]}]"#;
    let code = "from vestal_tools import write_file\nprint(write_file(path='made', content='x'))";
    let fixture = TurnFixture::new(Script::replies([
        ScriptedReply::tool_call("execute_code", json!({"code": code})),
        ScriptedReply::text("done"),
    ]))
    .with(before);
    fixture.turn("go").await;
    let results = fixture.model.requests()[1].tool_results();
    assert!(results[0].contains("refused by a hook"), "{}", results[0]);
    assert!(!fixture.file("made").exists());
}
