//! A disk that is full.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use serde_json::json;
use vestal_scripted_model::{Script, ScriptedModel};
use vestal_testkit::files::Fifo;
use vestal_testkit::programs::RunningProgram;
use vestal_testkit::{TestHome, until_async};

use crate::fixture::{KEY, client, settings_of};

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
