//! SIGKILL of a gateway at every step of its life.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use serde_json::json;
use vestal_gateway::{GatewayPhase, ask_stop, failpoint};
use vestal_scripted_model::{Script, ScriptedModel, ScriptedReply};
use vestal_testkit::files::Fifo;
use vestal_testkit::programs::RunningProgram;
use vestal_testkit::{TestHome, until_async};

use crate::fixture::{GatewayFixture, HEARD, KEY, START_JOB, STARTED, client, settings_of};

#[tokio::test]
async fn killed_at_any_step_the_next_one_serves_and_nothing_is_lost_or_done_twice() {
    // Steps of runs are walked by the tests of runs.
    for name in failpoint::NAMES.iter().filter(|name| !name.starts_with("run.")) {
        let fixture = GatewayFixture::new(ScriptedReply::text(HEARD));
        let mut gateway = fixture.spawn(Some(name));
        gateway.discard_output();
        vestal_testkit::until("it is ready or dead", || {
            !vestal_testkit::is_alive(gateway.pid())
                || vestal_gateway::read_state(&fixture.home())
                    .ok()
                    .flatten()
                    .is_some_and(|state| state.gateway_state == GatewayPhase::Running)
        })
        .await;
        let asked = if vestal_testkit::is_alive(gateway.pid()) {
            fixture.ask(START_JOB, None).await
        } else {
            None
        };
        if let Some((reply, session)) = &asked {
            assert_eq!(reply, STARTED, "{name}");
            fixture.gate.write("over");
            if *name == "jobs.news-taken" {
                gateway.wait();
            } else {
                fixture.until_message(session, HEARD).await;
            }
        }
        // The answer is lost with a gateway that dies over it.
        ask_stop(&fixture.home(), false).await.ok();
        gateway.wait();

        let next = fixture.start();
        let (reply, _) = fixture.ask("hello", None).await.unwrap();
        assert_eq!(reply, "hello", "{name}");
        let is_started =
            fixture.model.requests().iter().any(|request| !request.tool_results().is_empty());
        if asked.is_none() && is_started {
            // The client heard of nothing, but its conversation waits for the job.
            fixture.gate.write("over");
        }
        if let Some((_, session)) = &asked {
            fixture.until_message(session, HEARD).await;
            assert_eq!(fixture.messages(session).await, [STARTED, HEARD], "{name}");
        }
        fixture.until_settled().await;
        fixture.stop(next).await;
        assert_eq!(fixture.state().gateway_state, GatewayPhase::Stopped, "{name}");
    }
}

/// Serves a home on a small disk of its own, fills the disk and frees it again, on request.
const SCRIPT: &str = r#"
home=$1 program=$2 settings=$3 orders=$4 done=$5
mount -t tmpfs -o size=4m none "$home"
"$program" "$home" "$settings" > /dev/null &
trap 'kill -TERM $! 2> /dev/null; wait $!' EXIT
cat "$orders" > /dev/null
head -c 8m /dev/zero > "$home/full" 2> /dev/null || true
echo > "$done"
cat "$orders" > /dev/null
rm "$home/full"
echo > "$done"
cat "$orders" > /dev/null
"#;

#[tokio::test]
async fn a_full_disk_refuses_turns_ends_nothing_and_is_over_when_there_is_room() {
    let home = TestHome::create();
    let model = ScriptedModel::start(Script::echo());
    std::fs::create_dir_all(home.vestal()).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = settings_of(&model, port).join("\n");
    std::fs::write(home.beside("settings"), settings).unwrap();
    let (orders, done) = (Fifo::create(home.beside("orders")), Fifo::create(home.beside("done")));
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private"]);
    if !vestal_testkit::namespaces::is_root() {
        command.arg("--map-root-user");
    }
    command.args(["sh", "-euc", SCRIPT, "sh"]).arg(home.vestal());
    command.arg(env!("CARGO_BIN_EXE_served")).arg(home.beside("settings"));
    command.arg(orders.path()).arg(done.path());
    command.envs(home.variables()).stdin(Stdio::null()).stderr(Stdio::null());
    let running = RunningProgram::start(command);

    let url = format!("http://127.0.0.1:{port}");
    let client = client();
    let ask = |question: &str| {
        let body = json!({ "messages": [{ "role": "user", "content": question }] });
        let request = client.post(format!("{url}/v1/chat/completions")).bearer_auth(KEY);
        let request = request.header("content-type", "application/json").body(body.to_string());
        async move { request.send().await.unwrap().status().as_u16() }
    };
    let is_healthy = || async {
        let answer = client.get(format!("{url}/health")).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    };
    until_async("it is ready", is_healthy).await;
    assert_eq!(ask("before").await, 200);
    orders.write("fill");
    done.read();
    let refused = ask(&"while it is full ".repeat(100_000)).await;
    assert_eq!(refused, 507);
    assert!(is_healthy().await);
    orders.write("free");
    done.read();
    assert_eq!(ask("after").await, 200);
    orders.write("end");
    assert_eq!(running.end().0, 0);
}
