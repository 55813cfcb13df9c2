use std::sync::Arc;
use std::task::Poll;

use serde_json::{Value, json};
use vestal_sandbox::{Command, Engine};

use super::{ProcessTool, job_updates};
use crate::approvals::{ApprovalPolicy, GuardMode, Unattended};
use crate::redact::Redactor;
use crate::testing::{AgentFixture, marker, processes_with, until};
use crate::tool::{Footprint, Tool as _};
use crate::tools::TerminalTool;

async fn start(stage: &AgentFixture, command: &str) -> String {
    let arguments = json!({"command": command, "background": true});
    let result = stage.call(&TerminalTool, arguments).await;
    result["session_id"].as_str().unwrap().to_owned()
}

async fn act(stage: &AgentFixture, action: &str, id: &str) -> Value {
    stage.call(&ProcessTool, json!({"action": action, "session_id": id})).await
}

#[tokio::test]
async fn jobs_of_every_process_are_listed() {
    let stage = AgentFixture::new();
    let own = start(&stage, "echo hello; sleep 1000").await;
    // Another process, by another engine on the same home, without a session.
    let elsewhere: Engine = stage.another_engine();
    let sandbox = elsewhere.sandbox(&vestal_sandbox::TaskName::default_task()).await.unwrap();
    let other = sandbox.spawn(Command::shell("exit 3")).await.unwrap().id;
    sandbox.wait(&other, None).await.unwrap();
    stage.call(&TerminalTool, json!({"command": "echo in the foreground"})).await;
    poll_until(&stage, &own, "hello\n").await;

    let listed = stage.call(&ProcessTool, json!({"action": "list"})).await;
    let listed = listed["processes"].as_array().unwrap();
    let ids: Vec<&str> = listed.iter().map(|entry| entry["session_id"].as_str().unwrap()).collect();
    assert_eq!(ids, [own.as_str(), other.as_str()]);
    let first = &listed[0];
    assert_eq!(first["command"], "echo hello; sleep 1000");
    assert_eq!(
        (&first["status"], &first["output_preview"]),
        (&json!("running"), &json!("hello\n"))
    );
    assert_eq!(first["cwd"], stage.start_dir().to_str().unwrap());
    assert!(first["pid"].is_u64() && first["uptime_seconds"].is_u64());
    assert!(first["started_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(
        (&first["session_scoped"], &listed[1]["session_scoped"]),
        (&json!(true), &json!(false))
    );
    assert_eq!((&listed[1]["status"], &listed[1]["exit_code"]), (&json!("exited"), &json!(3)));
}

#[tokio::test]
async fn arguments_that_an_action_does_not_use_are_ignored() {
    let stage = AgentFixture::new();
    let unused = |action: &str, id: &str| {
        json!({
            "action": action, "session_id": id, "data": "", "timeout": 0, "offset": -1, "limit": 0,
        })
    };
    let listed = stage.call(&ProcessTool, unused("list", "")).await;
    assert_eq!(listed, json!({"processes": []}));
    let id = start(&stage, "exec sleep 1000").await;
    for (action, status) in [("poll", "running"), ("close", "ok"), ("kill", "killed")] {
        let done = stage.call(&ProcessTool, unused(action, &id)).await;
        assert_eq!(done["status"], status, "{action}: {done}");
    }
    for (action, name) in [("wait", "`timeout`"), ("log", "`limit`")] {
        let refused = stage.call(&ProcessTool, unused(action, &id)).await;
        assert!(refused["error"].as_str().unwrap().starts_with(name), "{action}: {refused}");
    }
}

async fn poll_until(stage: &AgentFixture, id: &str, preview: &str) -> Value {
    let waiting = async {
        loop {
            let polled = act(stage, "poll", id).await;
            if polled["output_preview"] == preview {
                return polled;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(crate::testing::TEST_TIMEOUT, waiting).await.unwrap()
}

#[tokio::test]
async fn input_is_written_submitted_and_closed() {
    let stage = AgentFixture::new();
    let id = start(&stage, "cat; echo over").await;
    let send = |action: &'static str, data: &'static str| {
        let arguments = json!({"action": action, "session_id": id, "data": data});
        let stage = &stage;
        async move { stage.call(&ProcessTool, arguments).await }
    };
    assert_eq!(send("write", "one ").await["bytes_written"], 4);
    assert_eq!(send("submit", "two").await["status"], "ok");
    assert_eq!(act(&stage, "close", &id).await["status"], "ok");
    let waited = act(&stage, "wait", &id).await;
    let expected =
        json!({"session_id": id, "status": "exited", "exit_code": 0, "output": "one two\nover\n"});
    assert_eq!(waited, expected);
    assert_eq!(send("write", "late").await["status"], "already_exited");
}

#[tokio::test]
async fn a_terminal_takes_enter_for_the_end_of_a_line() {
    let stage = AgentFixture::new();
    let arguments =
        json!({"command": "read line; echo \"got <$line>\"", "background": true, "pty": true});
    let result = stage.call(&TerminalTool, arguments).await;
    let id = result["session_id"].as_str().unwrap();
    stage.call(&ProcessTool, json!({"action": "submit", "session_id": id, "data": "word"})).await;
    let waited = act(&stage, "wait", id).await;
    assert!(waited["output"].as_str().unwrap().ends_with("got <word>\n"), "{waited}");
}

#[tokio::test]
async fn a_log_is_read_by_lines_from_either_end() {
    let stage = AgentFixture::new();
    let id = start(&stage, "seq 0 999").await;
    act(&stage, "wait", &id).await;
    let log = |extra: Value| {
        let mut arguments = json!({"action": "log", "session_id": id});
        arguments.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let stage = &stage;
        async move { stage.call(&ProcessTool, arguments).await }
    };
    let last = log(json!({"limit": 2})).await;
    assert_eq!((&last["output"], &last["total_lines"]), (&json!("998\n999"), &json!(1000)));
    assert_eq!(last["showing"], "lines 998-999 of 1000");
    let first = log(json!({"offset": 0, "limit": "2"})).await;
    assert_eq!(
        (&first["output"], &first["showing"]),
        (&json!("0\n1"), &json!("lines 0-1 of 1000"))
    );
    assert_eq!(log(json!({})).await["showing"], "lines 800-999 of 1000");
    assert_eq!(log(json!({"offset": 5000})).await["showing"], "no lines");
}

#[tokio::test]
async fn waiting_ends_with_the_job_with_the_time_or_with_the_turn() {
    let stage = AgentFixture::new();
    let id = start(&stage, "echo begun; read line").await;
    let waited =
        stage.call(&ProcessTool, json!({"action": "wait", "session_id": id, "timeout": 0.1})).await;
    assert_eq!((&waited["status"], &waited["exit_code"]), (&json!("timeout"), &Value::Null));
    assert_eq!(waited["timeout_note"], "waited 0.1 s; the process still runs");
    let interrupting = async {
        tokio::task::yield_now().await;
        stage.context.cancel.cancel();
    };
    let (waited, ()) = tokio::join!(act(&stage, "wait", &id), interrupting);
    let expected =
        json!({"session_id": id, "status": "interrupted", "exit_code": null, "output": "begun\n"});
    assert_eq!(waited, expected);
    let running = stage.sandbox().await.status().await.unwrap().jobs_running;
    assert_eq!(running, 1, "the job itself goes on");
}

#[tokio::test]
async fn a_wait_is_clamped_and_says_so() {
    let stage = AgentFixture::new()
        .with_limits(|limits| limits.command_timeout = std::time::Duration::from_millis(50));
    let id = start(&stage, "sleep 1000").await;
    let waited =
        stage.call(&ProcessTool, json!({"action": "wait", "session_id": id, "timeout": 900})).await;
    assert!(waited["timeout_note"].as_str().unwrap().contains("instead of 900 s"), "{waited}");
}

#[tokio::test]
async fn a_killed_job_leaves_no_process() {
    let stage = AgentFixture::new();
    let mark = marker();
    let id = start(&stage, &format!("echo begun; setsid sleep {mark} & sleep {mark}")).await;
    until("both run", || processes_with(&format!("sleep\0{mark}")).len() == 2).await;
    let killed = act(&stage, "kill", &id).await;
    let expected =
        json!({"session_id": id, "status": "killed", "exit_code": 137, "output": "begun\n"});
    assert_eq!(killed, expected);
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    let again = act(&stage, "kill", &id).await;
    assert_eq!((&again["status"], &again["exit_code"]), (&json!("already_exited"), &json!(137)));
}

#[tokio::test]
async fn an_unknown_job_is_reported_as_unknown() {
    let stage = AgentFixture::new();
    for action in ["poll", "log", "wait", "kill", "close"] {
        for id in [json!("j-00000000000000000000"), json!(7), json!("Ünsinn/../x")] {
            let result =
                stage.call(&ProcessTool, json!({"action": action, "session_id": id})).await;
            assert_eq!(result["status"], "not_found", "{action} {id}: {result}");
        }
    }
    let result = stage.call(&ProcessTool, json!({"action": "dance"})).await;
    assert!(result["error"].as_str().unwrap().contains("must be list, poll"), "{result}");
    let result = stage.call(&ProcessTool, json!({"action": "poll"})).await;
    assert_eq!(result["error"], "`session_id` is required");
}

#[tokio::test]
async fn what_is_written_to_a_process_passes_the_guard() {
    let policy = ApprovalPolicy {
        deny: vec!["touch *".to_owned()],
        mode: GuardMode::Off,
        unattended: Unattended::Allow,
        ..ApprovalPolicy::default()
    };
    let stage = AgentFixture::new().guarded_by(policy);
    let id = start(&stage, "bash").await;
    let submit = json!({"action": "submit", "session_id": id, "data": "touch ran"});
    assert_eq!(stage.call(&ProcessTool, submit).await["status"], "blocked");
    let exit = json!({"action": "submit", "session_id": id, "data": "exit"});
    assert_eq!(stage.call(&ProcessTool, exit).await["status"], "ok");
    act(&stage, "wait", &id).await;
    assert!(!stage.start_dir().join("ran").exists());
}

#[tokio::test]
async fn secrets_are_masked_in_what_jobs_print() {
    let mut stage = AgentFixture::new();
    let secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789";
    stage.context.redactor = Arc::new(Redactor::new([secret.to_owned()]));
    let id = start(&stage, &format!("echo {secret}")).await;
    for action in ["wait", "poll", "log", "list", "kill"] {
        let result = act(&stage, action, &id).await;
        assert!(!result.to_string().contains(secret), "{action}: {result}");
    }
}

#[tokio::test]
async fn the_model_gets_one_notice_of_the_end_it_waits_for() {
    let stage = AgentFixture::new();
    let arguments = json!({"command": "read line; echo bye; exit 3", "background": true,
        "notify_on_complete": true, "watch_patterns": ["bye"]});
    let result = stage.call(&TerminalTool, arguments).await;
    assert_eq!(result["notify_on_complete"], true);
    assert!(result["watch_patterns_ignored"].is_string() && result["hint"].is_null());
    let id = result["session_id"].as_str().unwrap();
    assert_eq!(job_updates(&stage.context).await, Vec::<String>::new());
    act(&stage, "close", id).await;
    act(&stage, "wait", id).await;
    let news = job_updates(&stage.context).await;
    let expected = format!(
        "[Background process {id} has ended with exit code 3.\nCommand: read line; echo bye; exit 3\nIts last output:\nbye]"
    );
    assert_eq!(news, [expected]);
    assert_eq!(job_updates(&stage.context).await, Vec::<String>::new());
    assert_eq!(stage.context.notebook.read().watched, []);
}

/// Does something until it is done or was waited for so often; then it is given up.
async fn given_up_after<T>(waits: usize, work: impl Future<Output = T>) -> Option<T> {
    let mut work = std::pin::pin!(work);
    let mut left = waits;
    std::future::poll_fn(move |context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if left == 1 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

#[tokio::test]
async fn news_whose_taking_is_interrupted_at_any_point_is_reported_by_the_next() {
    let stage = AgentFixture::new();
    for command in ["echo one", "echo two"] {
        let arguments = json!({"command": command, "background": true, "notify_on_complete": true});
        let result = stage.call(&TerminalTool, arguments).await;
        act(&stage, "wait", result["session_id"].as_str().unwrap()).await;
    }
    let mut waits = 0;
    let news = loop {
        waits += 1;
        if let Some(news) = given_up_after(waits, job_updates(&stage.context)).await {
            break news;
        }
        assert_eq!(stage.context.notebook.read().watched.len(), 2, "after {waits} waits");
    };
    assert!(waits > 2, "it was never interrupted between the two");
    let words: Vec<bool> = ["one", "two"].map(|word| news.concat().contains(word)).to_vec();
    assert_eq!((news.len(), words), (2, vec![true, true]), "{news:?}");
    assert_eq!(stage.context.notebook.read().watched, []);
}

#[tokio::test]
async fn the_model_gets_a_notice_of_lines_it_watches_for() {
    let stage = AgentFixture::new();
    let arguments = json!({"command": "echo one ready; echo two; read line; echo three ready; read line",
        "background": true, "watch_patterns": ["ready"]});
    let result = stage.call(&TerminalTool, arguments).await;
    assert_eq!(result["watch_patterns"], json!(["ready"]));
    let id = result["session_id"].as_str().unwrap();
    poll_until(&stage, id, "one ready\ntwo\n").await;
    let text =
        |line: &str| format!("[Background process {id} printed what you watch for:\n{line}]");
    assert_eq!(job_updates(&stage.context).await, [text("one ready")]);
    assert_eq!(job_updates(&stage.context).await, Vec::<String>::new());
    stage.call(&ProcessTool, json!({"action": "submit", "session_id": id, "data": ""})).await;
    poll_until(&stage, id, "one ready\ntwo\nthree ready\n").await;
    assert_eq!(job_updates(&stage.context).await, [text("three ready")]);
    act(&stage, "kill", id).await;
    assert_eq!(job_updates(&stage.context).await.len(), 1, "and of the end");
}

#[test]
fn only_looking_may_run_beside_others() {
    for (action, reads) in
        [("list", true), ("log", true), ("wait", true), ("kill", false), ("write", false)]
    {
        let footprint = ProcessTool.footprint(&json!({ "action": action }));
        assert_eq!(footprint == Footprint::Reads, reads, "{action}");
    }
    assert_eq!(ProcessTool.footprint(&Value::Null), Footprint::Exclusive);
}
