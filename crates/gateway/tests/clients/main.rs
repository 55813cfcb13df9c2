//! Clients of other people against a gateway: the SDKs of `OpenAI`, a program that uses one, and
//! the examples of the documentation. `scripts/test` installs them and names them by
//! `VESTAL_TEST_CLIENTS`.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

#[expect(dead_code, reason = "other tests use the rest")]
#[path = "../gateway/support.rs"]
mod support;

mod examples;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::json;
use tokio::process::Command;
use vestal_gateway::ShutdownCause;
use vestal_scripted_model::{ReplyRule, Script, ScriptedReply};

use support::{KEY, TestGateway};

/// Where the clients are. A run without them is red, and says why.
#[expect(clippy::disallowed_methods, reason = "it comes from scripts/test and is not a setting")]
fn clients() -> PathBuf {
    let dir = std::env::var_os("VESTAL_TEST_CLIENTS");
    PathBuf::from(dir.expect("VESTAL_TEST_CLIENTS is not set; scripts/test installs the clients"))
}

/// A model that repeats the prompt, looks when it is to, and fails when it is to.
fn model() -> Script {
    Script::rules([
        ReplyRule::when_user_contains("please fail").reply(ScriptedReply::error(500, "no")),
        ReplyRule::when_user_contains("look around")
            .reply(ScriptedReply::tool_call("terminal", json!({ "command": "echo lantern" }))),
        ReplyRule::after_tool_result_contains("lantern")
            .reply(ScriptedReply::text("It is lantern.")),
        ReplyRule::always().reply_with(|request| {
            ScriptedReply::text(request.last_user_text().unwrap_or_default()).chunked(3)
        }),
    ])
}

/// Runs a client to its end.
async fn run(gateway: &TestGateway, program: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("BASE_URL", gateway.url("/v1"))
        .env("API_SERVER_KEY", KEY)
        .env("NODE_PATH", clients().join("node/node_modules"))
        .env("LLM_USER_PATH", gateway.home.path().join("llm"))
        .current_dir(gateway.home.path())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = command.output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", program.display());
    stdout
}

fn script(name: &str) -> String {
    format!("{}/tests/clients/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[tokio::test]
async fn the_python_sdk_of_openai_is_served() {
    let gateway = TestGateway::start(model()).await;
    let python = clients().join("python/bin/python");
    let reply = run(&gateway, &python, &[&script("openai_sdk.py")]).await;
    assert!(reply.ends_with("ok\n"), "{reply}");
    gateway.remove_sandbox().await;
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn the_node_sdk_of_openai_is_served() {
    let gateway = TestGateway::start(model()).await;
    // Modules are looked for beside the script, so it stands where they are looked for.
    let place = gateway.home.path().join("client.mjs");
    std::fs::copy(script("openai_sdk.mjs"), &place).unwrap();
    std::os::unix::fs::symlink(
        clients().join("node/node_modules"),
        gateway.home.path().join("node_modules"),
    )
    .unwrap();
    let reply = run(&gateway, Path::new("node"), &[place.to_str().unwrap()]).await;
    assert!(reply.ends_with("ok\n"), "{reply}");
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn the_program_llm_is_served_as_its_users_set_it_up() {
    let gateway = TestGateway::start(model()).await;
    let home = gateway.home.path().join("llm");
    std::fs::create_dir(&home).unwrap();
    let models = format!(
        "- model_id: vestal\n  model_name: vestal-agent\n  api_base: {}\n  api_key_name: vestal\n",
        gateway.url("/v1")
    );
    std::fs::write(home.join("extra-openai-models.yaml"), models).unwrap();
    std::fs::write(home.join("keys.json"), json!({ "vestal": KEY }).to_string()).unwrap();
    let llm = clients().join("python/bin/llm");
    let reply = run(&gateway, &llm, &["-m", "vestal", "hello lantern"]).await;
    assert_eq!(reply, "hello lantern\n");
    let reply =
        run(&gateway, &llm, &["--no-stream", "-m", "vestal", "-s", "be brief", "again"]).await;
    assert_eq!(reply, "again\n");
    gateway.end(ShutdownCause::Planned).await;
}
