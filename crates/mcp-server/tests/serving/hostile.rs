//! Peers that send what no client should: each gets errors, and the rest goes on.

use serde_json::{Value, json};
use vestal_testkit::processes::{marker, processes_with};
use vestal_testkit::until;

use crate::support::{RawClient, TestService};

#[tokio::test(flavor = "multi_thread")]
async fn garbage_before_and_after_the_handshake_ends_nothing() {
    let service = TestService::new();
    let (mut client, _) = service.raw().await;
    client.send(b"{ half a frame\n\xff\xfe\n[]\n\"text\"\n{\"id\":5}\n").await;
    for code in [-32700, -32700, -32600, -32600, -32600] {
        assert_eq!(client.answer().await["error"]["code"], code);
    }
    client.request(6, "no/such", &json!({})).await;
    assert_eq!(client.answer().await["error"]["code"], -32601);
    client.request(7, "tools/call", &json!({ "name": ["run"] })).await;
    assert_eq!(client.answer().await["error"]["code"], -32602);
    client.run(8, "echo here").await;
    assert_eq!(client.answer().await["result"]["structuredContent"]["stdout"], "here\n");
    drop(client);
    service.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_argument_of_a_hundred_megabytes_is_refused_by_its_id() {
    let service = TestService::new();
    let (mut client, _) = service.raw().await;
    client
        .send(b"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/call\",\"params\":{\"a\":\"")
        .await;
    let part = vec![b'x'; 1 << 20];
    for _ in 0..100 {
        client.send(&part).await;
    }
    client.send(b"\"}}\n").await;
    let refused = client.answer().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(9), &json!(-32600)));
    client.run(10, "echo here").await;
    assert_eq!(client.answer().await["id"], 10);
    drop(client);
    service.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_calls_at_once_are_bounded_and_each_is_answered() {
    let service = TestService::new();
    let (mut client, serving) = service.raw().await;
    client.run(1, "echo ready").await;
    client.answer().await;
    let mark = marker();
    for id in 2..3002 {
        client.run(id, &format!("sleep {mark}")).await;
        // An answer is waited for only when there must be one: 64 wait, and all others are refused.
        if id > 2 + 63 {
            let refused = client.answer().await;
            let is_result = refused["result"]["isError"] == true;
            assert!(is_result || refused["error"]["code"] == -32600, "{refused}");
        }
    }
    until("the commands run", || processes_with(&mark).len() >= 64).await;
    assert_eq!(processes_with(&mark).len(), 64);
    // Calls that do not wait for a command still have their turn.
    client.request(5000, "tools/call", &json!({ "name": "job_list", "arguments": {} })).await;
    let listed = client.answer().await;
    assert_eq!(listed["id"], 5000);
    drop(client);
    serving.await.unwrap();
    service.engine.close(vestal_testkit::TEST_TIMEOUT).await;
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    service.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_is_in_use_is_refused_and_the_first_call_keeps_its_answer() {
    let service = TestService::new();
    let (mut client, _) = service.raw().await;
    client.run(1, "read x < /dev/null; sleep 1; echo first").await;
    client.run(1, "echo second").await;
    let refused = client.answer().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&Value::Null, &json!(-32600)));
    let first = client.answer().await;
    assert_eq!(first["result"]["structuredContent"]["stdout"], "first\n", "{first}");
    drop(client);
    service.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_cut_off_in_the_middle_of_a_message_is_gone() {
    let service = TestService::new();
    let (mut client, serving) = service.raw().await;
    client.send(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"meth").await;
    drop(client);
    assert_eq!(serving.await.unwrap(), vestal_mcp_server::ClientEnd::Gone);
    service.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_nothing_is_refused_in_bounds_and_leaves_nothing_when_it_goes() {
    let service = TestService::new();
    let (mut client, serving) = service.raw().await;
    client.run(1, "echo ready").await;
    client.answer().await;
    let mark = marker();
    client.run(2, &format!("sleep {mark}")).await;
    until("the command runs", || !processes_with(&mark).is_empty()).await;
    // Its answers fill what there is for them, and then nothing more of it is read.
    let garbage = b"[]\n".repeat(4096);
    let is_stuck = async || {
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
        }
    };
    loop {
        tokio::select! {
            biased;
            () = client.send(&garbage) => {}
            () = is_stuck() => break,
        }
    }
    drop(client);
    assert_eq!(serving.await.unwrap(), vestal_mcp_server::ClientEnd::Gone);
    service.engine.close(vestal_testkit::TEST_TIMEOUT).await;
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    service.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_stand_for_themselves_need_no_handshake() {
    let service = TestService::new();
    let (ours, _) = service.serve();
    let mut client = RawClient::new(ours);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "codex", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    client.request(1, "server/discover", &json!({ "_meta": meta })).await;
    let discovered = client.answer().await;
    let versions = discovered["result"]["supportedVersions"].as_array();
    assert!(versions.is_some_and(|all| all.contains(&json!("2026-07-28"))), "{discovered}");
    assert!(discovered.to_string().contains("durable Linux sandbox"), "{discovered}");
    let arguments = json!({ "command": "echo new", "session": "none" });
    client
        .request(2, "tools/call", &json!({ "name": "run", "arguments": arguments, "_meta": meta }))
        .await;
    let called = client.answer().await;
    let result = &called["result"]["structuredContent"];
    assert_eq!(result["stdout"], "new\n", "{called}");
    assert!(result["sandbox"]["task"].as_str().unwrap().starts_with("mcp-codex-"), "{called}");
    drop(client);
    service.end().await;
}
