//! What the tools do, and what becomes of a call that is given up.

use std::collections::BTreeSet;

use rmcp::model::{CallToolRequest, ClientRequest, ReadResourceRequestParams};
use rmcp::service::PeerRequestOptions;
use serde_json::{Value, json};
use vestal_mcp_server::SandboxScope;
use vestal_testkit::processes::{marker, processes_with};
use vestal_testkit::until;

use crate::support::{TestService, call, done, tool, words};

#[tokio::test(flavor = "multi_thread")]
async fn the_tools_and_their_schemas_are_a_public_interface() {
    let service = TestService::new();
    let client = service.client("lister").await;
    let tools = client.list_all_tools().await.unwrap();
    let tools: Vec<Value> = tools
        .iter()
        .map(|tool| {
            let mut tool = serde_json::to_value(tool).unwrap();
            // The shapes of results are those of `--json`, and have tests of their own.
            let members = tool["outputSchema"]["properties"].as_object();
            let members = members.map(|members| members.keys().cloned().collect::<Vec<_>>());
            tool["outputSchema"] = json!(members);
            tool
        })
        .collect();
    insta::assert_json_snapshot!("tools", tools);
    client.cancel().await.unwrap();
    service.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_fails_is_a_result_and_what_is_left_out_is_counted() {
    let service = TestService::new();
    let client = service.client("runner").await;
    let failed = done(&client, "run", json!({ "command": "echo out; echo err >&2; exit 3" })).await;
    let seen = (&failed["exit_code"], &failed["stdout"], &failed["stderr"]);
    assert_eq!(seen, (&json!(3), &json!("out\n"), &json!("err\n")));
    // The session keeps its state, and commands without one don't have it.
    done(&client, "run", json!({ "command": "cd /tmp; export LANTERN=lit" })).await;
    let kept = done(&client, "run", json!({ "command": "pwd; echo $LANTERN" })).await;
    assert_eq!(kept["stdout"], "/tmp\nlit\n");
    let long = call(&client, "run", json!({ "command": "seq 1 20000" })).await;
    let structured = long.structured_content.clone().unwrap();
    let omitted = structured["stdout_omitted"].as_u64().unwrap();
    assert!(omitted > 50_000, "{omitted}");
    let text = words(&long);
    assert!(text.len() < 40_000 && text.contains("stdout_from 12288"), "{}", text.len());
    // What is left out is where the result says.
    let rest = json!({ "job": structured["job"], "stdout_from": 12_288, "max_bytes": 100 });
    let rest = done(&client, "job_logs", rest).await;
    let all = (1..=20_000).map(|number| number.to_string() + "\n").collect::<Vec<_>>().concat();
    assert_eq!(rest["stdout"]["text"], all[12_288..12_388]);
    let late = done(&client, "run", json!({ "command": "sleep 60", "timeout_seconds": 1 })).await;
    assert_eq!(late["exit_code"], 124, "{late}");
    client.cancel().await.unwrap();
    service.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_arguments_are_an_error_that_says_what_to_do_and_an_unknown_tool_is_none() {
    let service = TestService::new();
    let client = service.client("wrong").await;
    for (name, arguments, expected) in [
        ("run", json!({}), "missing field `command`"),
        ("run", json!({ "command": "true", "shell": "zsh" }), "unknown field `shell`"),
        ("run", json!({ "command": "true", "timeout_seconds": 0 }), "must be 1 to 86400"),
        ("run", json!({ "command": "true", "task": "somebody-elses" }), "leave out `task`"),
        (
            "run",
            json!({ "command": "true", "workdir": "/no/such" }),
            "What to do: create the directory",
        ),
        ("file_read", json!({ "path": "/no/such/file" }), "What to do: file_list"),
        ("file_edit", json!({ "path": "x", "edits": [] }), "must be 1 to 100 edits"),
        ("job_logs", json!({ "job": "j-0" }), "What to do: job_list"),
        ("job_kill", json!({ "job": "../x" }), "invalid argument `job`"),
        ("snapshot_restore", json!({ "snapshot": "a/b" }), "invalid argument `snapshot`"),
        ("sandbox_fork", json!({ "name": "a/b" }), "letters, digits"),
        ("board_show", json!({ "id": "t_nothing" }), "no task"),
    ] {
        let result = call(&client, name, arguments).await;
        let text = words(&result);
        assert_eq!(result.is_error, Some(true), "{name}: {text}");
        assert!(text.contains(expected), "{name}: {text}");
    }
    let unknown = client.call_tool(tool("rm_rf", json!({}))).await.unwrap_err().to_string();
    assert!(unknown.contains("unknown tool: rm_rf"), "{unknown}");
    client.cancel().await.unwrap();
    service.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_written_read_in_parts_edited_listed_and_found() {
    let service = TestService::new();
    let client = service.client("files").await;
    let dir = service.home.path().join("project");
    let path = dir.join("notes.txt");
    let path = path.to_str().unwrap();
    let text = (1..=1000).map(|line| format!("line {line}\n")).collect::<Vec<_>>().concat();
    let written = done(&client, "file_write", json!({ "path": path, "text": text })).await;
    assert_eq!((&written["created"], &written["size"]), (&json!(true), &json!(text.len())));
    let lines = json!({ "path": path, "start_line": 500, "max_lines": 2 });
    let lines = done(&client, "file_read", lines).await;
    assert_eq!((&lines["text"], &lines["more"]), (&json!("line 500\nline 501\n"), &json!(true)));
    let start = done(&client, "file_read", json!({ "path": path, "max_bytes": 8 })).await;
    let seen = (&start["text"], &start["next_offset"], &start["more"]);
    assert_eq!(seen, (&json!("line 1\nl"), &json!(8), &json!(true)));
    let edits = json!([{ "old_text": "line 7\n", "new_text": "lantern\n" }]);
    let edited = done(&client, "file_edit", json!({ "path": path, "edits": edits })).await;
    assert_eq!(edited["replaced"], 1);
    let twice = json!([{ "old_text": "line 1", "new_text": "x" }]);
    let twice = call(&client, "file_edit", json!({ "path": path, "edits": twice })).await;
    assert_eq!(twice.is_error, Some(true), "{}", words(&twice));
    let listed = done(&client, "file_list", json!({ "path": dir })).await;
    assert_eq!(listed["entries"][0]["name"], "notes.txt");
    let found = done(&client, "file_search", json!({ "path": dir, "regex": "^lantern$" })).await;
    assert_eq!((&found["matches"][0]["line"], &found["more"]), (&json!(7), &json!(false)));
    // The same file as a resource, by the name that reading it gave.
    let uri = lines["uri"].as_str().unwrap();
    let read = client.read_resource(ReadResourceRequestParams::new(uri)).await.unwrap();
    let read = serde_json::to_value(read).unwrap();
    assert!(read["contents"][0]["text"].as_str().unwrap().contains("lantern"), "{read}");
    client.cancel().await.unwrap();
    service.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_background_job_is_found_again_read_written_to_waited_for_and_killed() {
    let service = TestService::new();
    let client = service.client("jobs").await;
    let echo = json!({ "command": "while read line; do echo got $line; done", "background": true });
    let started = done(&client, "run", echo).await;
    let job = &started["job"];
    client.cancel().await.unwrap();
    // The client that comes later is the same one, in the same directory.
    let client = service.client("jobs").await;
    let listed = done(&client, "job_list", json!({})).await;
    assert_eq!(&listed["jobs"][0]["id"], job, "{listed}");
    done(&client, "job_write", json!({ "job": job, "text": "hello\n", "close": true })).await;
    let ended = done(&client, "job_wait", json!({ "job": job })).await;
    assert_eq!((&ended["state"], &ended["exit_code"]), (&json!("ended"), &json!(0)));
    let logs = done(&client, "job_logs", json!({ "job": job })).await;
    assert_eq!(logs["stdout"]["text"], "got hello\n");
    let resources = client.list_all_resources().await.unwrap();
    let log = resources.iter().find(|one| one.uri.ends_with("/stdout")).unwrap();
    let read = client.read_resource(ReadResourceRequestParams::new(&log.uri)).await.unwrap();
    assert!(serde_json::to_string(&read).unwrap().contains("got hello"), "{read:?}");
    let mark = marker();
    let sleeping = json!({ "command": format!("setsid sleep {mark} & wait"), "background": true });
    let job = done(&client, "run", sleeping).await["job"].clone();
    until("the job runs", || !processes_with(&mark).is_empty()).await;
    done(&client, "job_kill", json!({ "job": job })).await;
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    client.cancel().await.unwrap();
    service.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_call_leaves_no_process_of_its_command() {
    let service = TestService::new();
    let client = service.client("canceller").await;
    let mark = marker();
    let command = format!("setsid sleep {mark} & sleep {mark}");
    let request = CallToolRequest::new(tool("run", json!({ "command": command })));
    let options = PeerRequestOptions::no_options();
    let handle = client
        .send_cancellable_request(ClientRequest::CallToolRequest(request), options)
        .await
        .unwrap();
    until("the command runs", || processes_with(&mark).len() >= 2).await;
    handle.cancel(Some("not needed".to_owned())).await.unwrap();
    until("its processes are gone", || processes_with(&mark).is_empty()).await;
    // The connection goes on.
    let after = done(&client, "run", json!({ "command": "echo here" })).await;
    assert_eq!(after["stdout"], "here\n");
    client.cancel().await.unwrap();
    service.end().await;
}

/// Calls that may wait for commands at once.
const WAITING: u64 = 64;

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_given_up_while_its_sandbox_is_got_ready_keeps_its_place_until_it_is() {
    let service = TestService::new();
    let (mut client, _) = service.raw().await;
    let first = client.call(1, "run", &json!({ "command": "true" })).await;
    let task = first["result"]["structuredContent"]["sandbox"]["task"].as_str().unwrap();
    let key = service.engine.key(&task.parse().unwrap());
    client.call(2, "sandbox_stop", &json!({})).await;
    // Who starts it waits for this.
    let lock = service.engine.sandboxes_dir().join(key.dir_name()).join("lock");
    let lock = std::fs::File::open(lock).unwrap();
    lock.lock().unwrap();
    let ids = 100..100 + WAITING;
    for id in ids.clone() {
        let params = json!({
            "name": "run",
            "arguments": { "command": "true", "session": "none" },
            "_meta": { "progressToken": id },
        });
        client.request(id, "tools/call", &params).await;
    }
    let mut waiting = BTreeSet::new();
    while waiting.len() < ids.clone().count() {
        let progress = client.message().await;
        assert_eq!(progress["method"], "notifications/progress", "{progress}");
        waiting.insert(progress["params"]["progressToken"].as_u64().unwrap());
    }
    for id in ids {
        client.cancel(id).await;
    }
    let run = json!({ "command": "echo on", "session": "none" });
    for id in 200..220 {
        let refused = client.call(id, "run", &run).await;
        assert_eq!(refused["result"]["isError"], true, "{refused}");
        assert!(refused.to_string().contains("too many commands"), "{refused}");
    }
    drop(lock);
    let mut id = 300;
    loop {
        let answer = client.call(id, "run", &run).await;
        if answer["result"]["structuredContent"]["stdout"] == "on\n" {
            break;
        }
        assert!(answer.to_string().contains("too many commands"), "{answer}");
        id += 1;
    }
    drop(client);
    service.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_says_what_the_sandbox_was_before_this_command() {
    let service = TestService::new();
    let client = service.client("again").await;
    let before = async || {
        let done = done(&client, "run", json!({ "command": "true" })).await;
        (done["sandbox"]["state_before"].clone(), done["sandbox"]["attached"].clone())
    };
    assert_eq!(before().await, (json!("absent"), json!(false)));
    assert_eq!(before().await, (json!("running"), json!(true)));
    done(&client, "sandbox_stop", json!({})).await;
    assert_eq!(before().await, (json!("stopped"), json!(true)));
    assert_eq!(before().await, (json!("running"), json!(true)));
    client.cancel().await.unwrap();
    service.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_hears_how_far_a_call_is_only_if_it_asked() {
    let service = TestService::new();
    let (mut client, _) = service.raw().await;
    // Nobody asked: the answer is the next message of all.
    client.run(1, "sleep 2; echo done").await;
    let line = client.lines.next_line().await.unwrap().unwrap();
    assert!(line.contains("\"id\":1"), "{line}");
    let waiting = json!({
        "name": "run",
        "arguments": { "command": "sleep 600", "session": "none" },
        "_meta": { "progressToken": "t" },
    });
    client.request(2, "tools/call", &waiting).await;
    let line = client.lines.next_line().await.unwrap().unwrap();
    let progress: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(progress["method"], "notifications/progress", "{line}");
    assert_eq!(progress["params"]["progressToken"], "t");
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 2 } });
    client.send(format!("{cancel}\n").as_bytes()).await;
    drop(client);
    service.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_vanishes_takes_its_foreground_along_and_leaves_its_background() {
    let service = TestService::new();
    let (mut client, serving) = service.raw().await;
    let (foreground, background) = (marker(), marker());
    let arguments = json!({ "command": format!("sleep {background}"), "background": true });
    client.request(1, "tools/call", &json!({ "name": "run", "arguments": arguments })).await;
    client.answer().await;
    client.run(2, &format!("sleep {foreground}")).await;
    until("both run", || {
        !processes_with(&foreground).is_empty() && !processes_with(&background).is_empty()
    })
    .await;
    drop(client);
    serving.await.unwrap();
    service.engine.close(vestal_testkit::TEST_TIMEOUT).await;
    assert_eq!(processes_with(&foreground), Vec::<u32>::new());
    assert!(!processes_with(&background).is_empty());
    service.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_have_sandboxes_of_their_own_unless_the_user_opens_them() {
    let service = TestService::new();
    let ada = service.client("ada").await;
    let bob = service.client("bob").await;
    for client in [&ada, &bob] {
        done(client, "run", json!({ "command": "true" })).await;
    }
    let seen = done(&ada, "sandbox_list", json!({})).await;
    let own = seen["own"].as_str().unwrap().to_owned();
    assert!(own.starts_with("mcp-ada-"), "{own}");
    assert_eq!(seen["sandboxes"].as_array().unwrap().len(), 1, "{seen}");
    let refused = call(&bob, "run", json!({ "command": "true", "task": own })).await;
    assert!(words(&refused).contains("not yours"), "{}", words(&refused));
    let uri = format!("vestal://task/{own}/files/etc/hostname");
    let refused = bob.read_resource(ReadResourceRequestParams::new(uri)).await;
    assert!(refused.unwrap_err().to_string().contains("not yours"));
    ada.cancel().await.unwrap();
    bob.cancel().await.unwrap();
    service.end().await;
    let service = TestService::with(|options| options.scope = SandboxScope::All);
    let ada = service.client("ada").await;
    done(&ada, "run", json!({ "command": "true" })).await;
    let own = done(&ada, "sandbox_list", json!({})).await["own"].clone();
    let bob = service.client("bob").await;
    done(&bob, "run", json!({ "command": "true", "task": own })).await;
    // A name that nobody has makes nothing.
    let none = call(&bob, "run", json!({ "command": "true", "task": "mistyped" })).await;
    assert!(words(&none).contains("sandbox_list"), "{}", words(&none));
    service.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_isolation_is_required_every_tool_says_how_to_have_it() {
    let service = TestService::new();
    service.engine.require_confinement();
    let client = service.client("confined").await;
    for (name, arguments) in
        [("run", json!({ "command": "true" })), ("file_list", json!({ "path": "/" }))]
    {
        let refused = call(&client, name, arguments).await;
        assert_eq!(refused.is_error, Some(true));
        assert!(words(&refused).contains("--allow-local"), "{}", words(&refused));
    }
    assert!(service.engine.list().await.unwrap().is_empty(), "nothing was made");
    client.cancel().await.unwrap();
    service.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_the_board_is_created_found_commented_on_and_completed() {
    let service = TestService::new();
    let client = service.client("Board Keeper").await;
    assert_eq!(done(&client, "board_list", json!({})).await["tasks"], json!([]));
    let new = json!({ "title": "light the fire", "body": "with care", "idempotency_key": "k" });
    let made = done(&client, "board_create", new.clone()).await;
    assert_eq!(
        (&made["existed"], &made["created_by"]),
        (&json!(false), &json!("mcp:board-keeper"))
    );
    let again = done(&client, "board_create", new).await;
    assert_eq!((&again["existed"], &again["id"]), (&json!(true), &made["id"]));
    let id = &made["id"];
    done(&client, "board_comment", json!({ "id": id, "text": "is it warm?" })).await;
    let moved = done(&client, "board_complete", json!({ "id": id, "summary": "it burns" })).await;
    assert_eq!(moved["status"], "done", "{moved}");
    let shown = done(&client, "board_show", json!({ "id": id })).await;
    assert_eq!(shown["comments"][0]["body"], "is it warm?", "{shown}");
    client.cancel().await.unwrap();
    service.end().await;
}
