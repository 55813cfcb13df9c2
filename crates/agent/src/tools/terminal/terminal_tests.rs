use std::sync::Arc;

use serde_json::{Value, json};
use vestal_sandbox::job::JobFilter;

use super::TerminalTool;
use crate::approvals::{ApprovalPolicy, GuardMode, Unattended};
use crate::event::TurnEvent;
use crate::human::Approval;
use crate::redact::Redactor;
use crate::testing::{AgentFixture, Scripted, marker, processes_with, until};
use crate::tools::ProcessTool;

async fn run(stage: &AgentFixture, command: &str) -> Value {
    stage.call(&TerminalTool, json!({ "command": command })).await
}

#[tokio::test]
async fn a_command_tells_its_output_and_exit_code() {
    let stage = AgentFixture::new();
    let result = run(&stage, "echo out; echo err >&2; exit 3").await;
    assert_eq!(result, json!({"output": "out\nerr\n", "exit_code": 3, "error": null}));
    assert_eq!(stage.tool_output(), "out\nerr\n");
    let output = stage.output(&TerminalTool, json!({"command": "exit 3"})).await;
    assert!(output.is_error);
    let output = stage.output(&TerminalTool, json!({"command": "echo x | grep y"})).await;
    assert!(!output.is_error && output.content.contains("exit_code_meaning"));
}

#[tokio::test]
async fn the_shell_stays_from_call_to_call() {
    let stage = AgentFixture::new();
    run(&stage, "mkdir d; cd d; greeting='still lit'; f() { echo $1; }").await;
    let result = run(&stage, "f \"$greeting\"; basename $PWD").await;
    assert_eq!(result["output"], "still lit\nd\n");
    // A directory given for one command is for that command alone.
    let elsewhere = stage.call(&TerminalTool, json!({"command": "pwd", "workdir": "/"})).await;
    assert_eq!(elsewhere["output"], "/\n");
    assert_eq!(run(&stage, "basename $PWD").await["output"], "d\n");
}

#[tokio::test]
async fn a_session_that_cannot_be_saved_is_reported_to_the_model() {
    let stage = AgentFixture::new();
    run(&stage, "true").await;
    let sandbox = stage.sandbox().await;
    let state = stage.state_dir(sandbox.task());
    // Nothing can be written through a link that leads nowhere.
    std::fs::rename(state.join("sessions"), state.join("aside")).unwrap();
    std::os::unix::fs::symlink("nowhere/at/all", state.join("sessions")).unwrap();
    let result = run(&stage, "x=1").await;
    assert_eq!((&result["exit_code"], &result["output"]), (&json!(0), &json!("")));
    let warning = result["warning"].as_str().unwrap();
    assert!(
        warning.starts_with("what the command changed in its session was not kept"),
        "{result}"
    );
    std::fs::remove_file(state.join("sessions")).unwrap();
    std::fs::rename(state.join("aside"), state.join("sessions")).unwrap();
    assert_eq!(run(&stage, "x=1").await, json!({"output": "", "exit_code": 0, "error": null}));
}

#[tokio::test]
async fn output_is_reported_while_the_command_runs() {
    let stage = AgentFixture::new();
    let go = stage.scratch("go");
    let command =
        format!("echo first; until [ -e {} ]; do sleep 0.02; done; echo last", go.display());
    let running = run(&stage, &command);
    let watching = async {
        until("the first line is reported", || stage.tool_output() == "first\n").await;
        std::fs::write(&go, "").unwrap();
    };
    let (result, ()) = tokio::join!(running, watching);
    assert_eq!(result["output"], "first\nlast\n");
}

#[tokio::test]
async fn a_command_whose_time_is_up_is_killed_with_all_it_started() {
    let stage = AgentFixture::new();
    let mark = marker();
    let command = format!("echo begun; setsid sleep {mark} & sleep {mark}");
    let result = stage.call(&TerminalTool, json!({"command": command, "timeout": "0.5"})).await;
    let output = "begun\n[Command timed out after 0.5 s and was killed]";
    assert_eq!(result, json!({"output": output, "exit_code": 124, "error": null}));
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}

#[tokio::test]
async fn an_interrupt_kills_the_command_and_keeps_what_it_printed() {
    let stage = AgentFixture::new();
    let mark = marker();
    let command = format!("echo begun; setsid sleep {mark} & sleep {mark}");
    let interrupting = async {
        until("it prints", || stage.tool_output() == "begun\n").await;
        until("both run", || processes_with(&format!("sleep\0{mark}")).len() == 2).await;
        stage.context.cancel.cancel();
    };
    let (result, ()) = tokio::join!(run(&stage, &command), interrupting);
    let output = "begun\n[Command interrupted]";
    assert_eq!(result, json!({"output": output, "exit_code": 130, "error": null}));
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    // Nothing begins in a turn that is over.
    let late = run(&stage, "touch late").await;
    assert_eq!(late["exit_code"], 130);
    assert!(!stage.start_dir().join("late").exists());
}

#[tokio::test]
async fn a_call_that_is_given_up_takes_its_command_along() {
    let stage = AgentFixture::new();
    let mark = marker();
    let command = format!("echo begun; sleep {mark}");
    {
        let mut call = Box::pin(run(&stage, &command));
        tokio::select! {
            _ = &mut call => panic!("it cannot end"),
            () = until("it runs", || stage.tool_output() == "begun\n") => {}
        }
        assert!(!processes_with(&mark).is_empty());
    }
    until("it is gone", || processes_with(&mark).is_empty()).await;
}

#[tokio::test]
async fn a_missing_directory_is_reported_as_missing() {
    let stage = AgentFixture::new();
    let result = stage
        .call(&TerminalTool, json!({"command": "touch ran", "workdir": "/no/such dir (é)"}))
        .await;
    assert_eq!((&result["exit_code"], &result["output"]), (&json!(126), &json!("")));
    assert!(result["error"].as_str().unwrap().contains("/no/such dir (é)"), "{result}");
    assert!(!stage.start_dir().join("ran").exists());
}

#[tokio::test]
async fn fifty_megabytes_of_anything_leave_beginning_and_end() {
    let stage = AgentFixture::new();
    let command = "echo HEAD; head -c 49000000 /dev/zero | tr '\\0' x; \
        head -c 1000000 /dev/zero | tr '\\0' '\\377'; echo; echo TAIL";
    let result = run(&stage, command).await;
    let output = result["output"].as_str().unwrap();
    assert_eq!(result["exit_code"], 0);
    assert!(output.starts_with("HEAD\nx") && output.ends_with("\u{fffd}\nTAIL\n"));
    assert!(output.len() < stage.context.limits.output_bytes + 100, "{}", output.len());
    // What is not text becomes a character of three bytes.
    let total = 49_000_000 + 1_000_000 * 3 + "HEAD\n\nTAIL\n".len();
    let marker_at = output.find("[… ").unwrap();
    let marker = &output[marker_at..marker_at + output[marker_at..].find(']').unwrap() + 2];
    let omitted = total - (output.len() - marker.len() - 1);
    assert_eq!(marker, format!("[… {omitted} of {total} bytes left out here …]\n"));
    let reply = stage.tool_output();
    assert!(reply.len() < 5_000_000 && reply.starts_with("HEAD\n") && reply.ends_with("TAIL\n"));
}

#[tokio::test]
async fn what_is_left_out_of_an_output_is_read_in_the_log_of_its_job() {
    let stage = AgentFixture::new().with_limits(|limits| limits.output_bytes = 1_000);
    let result = run(&stage, "seq 1 2000").await;
    let output = result["output"].as_str().unwrap();
    assert!(output.contains(" of 8893 bytes left out here …]") && !output.contains("\n700\n"));
    let hint = result["hint"].as_str().unwrap();
    assert!(hint.contains("bytes of the output are left out here") && hint.contains("action=log"));
    let log = json!({
        "action": "log", "session_id": result["session_id"], "offset": 699, "limit": 3,
    });
    let log = stage.call(&ProcessTool, log).await;
    assert_eq!((&log["output"], &log["total_lines"]), (&json!("700\n701\n702"), &json!(2000)));
    // What is whole has no need of it.
    let whole = run(&stage, "echo whole").await;
    assert_eq!(whole, json!({"output": "whole\n", "exit_code": 0, "error": null}));
}

#[tokio::test]
async fn what_is_meant_for_terminals_is_not_shown() {
    let stage = AgentFixture::new();
    let command = "printf '\\033[1;31mred\\033[0m\\a\\n'; test -t 1 && echo terminal";
    let result = stage.call(&TerminalTool, json!({"command": command, "pty": true})).await;
    assert_eq!(result["output"], "red\nterminal\n");
}

#[tokio::test]
async fn secrets_are_masked_for_the_model_and_for_those_who_watch() {
    let mut stage = AgentFixture::new();
    let secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789";
    stage.context.redactor = Arc::new(Redactor::new([secret.to_owned()]));
    let (half, rest) = secret.split_at(20);
    let result = run(&stage, &format!("printf {half}; sleep 0.05; echo {rest}")).await;
    assert!(!result["output"].as_str().unwrap().contains(secret), "{result}");
    assert!(!result["output"].as_str().unwrap().is_empty());
    assert!(!stage.tool_output().contains(secret), "{}", stage.tool_output());
}

#[tokio::test]
async fn a_refused_command_does_not_run() {
    let policy = ApprovalPolicy {
        deny: vec!["touch *".to_owned()],
        mode: GuardMode::Off,
        unattended: Unattended::Allow,
        ..ApprovalPolicy::default()
    };
    let stage = AgentFixture::new().guarded_by(policy);
    let result = run(&stage, "touch ran").await;
    assert_eq!((&result["exit_code"], &result["status"]), (&json!(-1), &json!("blocked")));
    assert_eq!(result["output"], "");
    assert!(!result["error"].as_str().unwrap().is_empty());
    assert!(!stage.start_dir().join("ran").exists());
}

#[tokio::test]
async fn what_a_person_approved_is_reported_and_not_if_it_was_interrupted() {
    let human = Scripted::approving([Approval::Once, Approval::Once]);
    let mut stage =
        AgentFixture::new().guarded_by(ApprovalPolicy::default()).with_human(human.clone());
    let kept = stage.scratch("kept");
    std::fs::create_dir(&kept).unwrap();
    let remove = format!("rm -rf {}", kept.display());
    let result = run(&stage, &remove).await;
    let printed = result["approval"].as_str().unwrap().to_owned();
    assert!(!kept.exists() && !printed.is_empty(), "{result}");
    stage.context.cancel = tokio_util::sync::CancellationToken::new();
    let command = format!("{remove}; echo begun; sleep 1000");
    let interrupting = async {
        until("it runs", || stage.tool_output() == "begun\n").await;
        stage.context.cancel.cancel();
    };
    let (result, ()) = tokio::join!(run(&stage, &command), interrupting);
    assert_eq!(result["approval"], format!("{printed}; then interrupted"));
    assert_eq!(human.asked().len(), 2);
}

#[tokio::test]
async fn bad_arguments_are_named() {
    let stage = AgentFixture::new();
    for (arguments, complaint) in [
        (json!({}), "`command` is required"),
        (json!({"command": ["ls"]}), "`command` must be a string"),
        (json!({"command": "ls", "timeout": "abc"}), "`timeout` must be a number, got \"abc\""),
        (json!({"command": "ls", "timeout": 601}), "at most 600 seconds in the foreground"),
        (json!({"command": "a\0b"}), "NUL"),
    ] {
        let result = stage.call(&TerminalTool, arguments).await;
        assert_eq!((&result["exit_code"], &result["status"]), (&json!(-1), &json!("error")));
        assert!(result["error"].as_str().unwrap().contains(complaint), "{result}");
    }
    assert!(stage.context.sandbox.attached().is_none(), "nothing was started for them");
}

#[tokio::test]
async fn arguments_for_the_background_are_ignored_in_the_foreground_and_the_reverse() {
    let stage = AgentFixture::new();
    let foreground = json!({"command": "echo hi", "watch_patterns": {}});
    assert_eq!(stage.call(&TerminalTool, foreground).await["output"], "hi\n");
    let background = json!({"command": "true", "background": true, "timeout": 0});
    let result = stage.call(&TerminalTool, background).await;
    assert!(result["session_id"].is_string(), "{result}");
}

#[tokio::test]
async fn what_a_command_leaves_running_is_reported() {
    let stage = AgentFixture::new();
    let mark = marker();
    let result = run(&stage, &format!("sleep {mark} >/dev/null 2>&1 & echo done")).await;
    assert_eq!((&result["output"], &result["exit_code"]), (&json!("done\n"), &json!(0)));
    assert!(result["hint"].as_str().unwrap().starts_with("1 of its processes"), "{result}");
    let id = result["session_id"].as_str().unwrap().parse().unwrap();
    stage.sandbox().await.kill(&id).await.unwrap();
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}

#[tokio::test]
async fn a_background_command_returns_at_once_and_goes_on() {
    let stage = AgentFixture::new();
    run(&stage, "cd /; export word=told").await;
    let arguments =
        json!({"command": "echo $word; pwd; read line; echo got $line", "background": true});
    let result = stage.call(&TerminalTool, arguments).await;
    assert_eq!(
        (&result["output"], &result["exit_code"], &result["error"]),
        (&json!("Background process started"), &json!(0), &Value::Null)
    );
    assert!(result["pid"].as_u64().is_some() && result["hint"].is_string());
    let sandbox = stage.sandbox().await;
    let jobs = sandbox.jobs(JobFilter::Running, 10).await.unwrap().jobs;
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0].id.as_str(), result["session_id"].as_str().unwrap());
    assert!(jobs[0].stdin_open);
    let missing = stage
        .call(&TerminalTool, json!({"command": "true", "background": true, "workdir": "/no"}))
        .await;
    assert_eq!(missing["exit_code"], 126);
}

#[tokio::test]
async fn a_command_whose_sandbox_dies_is_reported_and_not_run_again() {
    let stage = AgentFixture::new();
    let (count, mark) = (stage.scratch("count"), marker());
    let command = format!("echo run >> {}; echo $PPID; sleep {mark}", count.display());
    let killing = async {
        until("it prints", || stage.tool_output().ends_with('\n')).await;
        let supervisor = stage.tool_output().trim().to_owned();
        let status = std::fs::read_to_string(format!("/proc/{supervisor}/status")).unwrap();
        let guest = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim();
        std::process::Command::new("kill").args(["-9", guest]).status().unwrap();
    };
    let (result, ()) = tokio::join!(run(&stage, &command), killing);
    assert_eq!(
        (&result["exit_code"], &result["status"]),
        (&json!(-1), &json!("error")),
        "{result}"
    );
    assert_eq!(result["output"].as_str().unwrap().lines().count(), 1);
    assert_eq!(run(&stage, "echo next").await["output"], "next\n");
    assert_eq!(std::fs::read_to_string(&count).unwrap(), "run\n");
}

#[tokio::test]
async fn a_sandbox_that_cannot_be_had_is_an_error_not_an_exit_code() {
    let stage = AgentFixture::new();
    // Where the sandboxes are to be, a file is in the way.
    let sandboxes = stage.scratch("vestal").join("sandboxes");
    std::fs::create_dir_all(sandboxes.parent().unwrap()).unwrap();
    std::fs::remove_dir_all(&sandboxes).ok();
    std::fs::write(&sandboxes, "").unwrap();
    let result = run(&stage, "true").await;
    assert_eq!(
        (&result["exit_code"], &result["status"]),
        (&json!(-1), &json!("error")),
        "{result}"
    );
    std::fs::remove_file(&sandboxes).unwrap();
}

#[tokio::test]
async fn warnings_about_the_sandbox_reach_those_who_watch() {
    let stage = AgentFixture::new();
    run(&stage, "true").await;
    assert!(stage.events().iter().any(|event| matches!(event, TurnEvent::Warning { .. })));
}
