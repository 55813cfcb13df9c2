//! What a good server does.

use serde_json::{Value, json};
use vestal_agent::{Approval, Footprint, ToolSource as _, TurnEvent};
use vestal_mcp::ServerState;

use crate::fixture::{ServersFixture, find, names, server, until};

#[tokio::test(flavor = "multi_thread")]
async fn the_tools_of_a_server_are_the_agents_with_their_schemas() {
    let fixture = ServersFixture::with("stdio", "");
    let servers = fixture.servers().await;
    let names = names(&servers);
    assert_eq!(names.len(), 16, "{names:?}");
    assert!(names.contains(&"mcp_it_odd_name__".to_owned()), "{names:?}");
    let echo = find(&servers, "mcp_it_echo");
    assert_eq!(echo.toolset(), "mcp-it");
    let spec = echo.spec();
    assert_eq!(spec.description, "Repeats its input.[31m");
    assert_eq!(
        spec.parameters,
        json!({
            "type": "object",
            "properties": {"text": {"type": "string", "description": "what to say"}},
            "required": ["text"],
        })
    );
    let status = &servers.statuses()[0];
    assert_eq!((status.state, status.tools, &status.error), (ServerState::Connected, 16, &None));
    assert_eq!(servers.take_notices(), Vec::<String>::new());
    servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_return_what_the_server_says() {
    let fixture = ServersFixture::with("stdio", "");
    let servers = fixture.servers().await;
    let echo = fixture.call_with(&servers, "echo", json!({"text": "grüße"})).await;
    assert_eq!((echo.content.as_str(), echo.is_error), ("grüße", false));
    let failed = fixture.call(&servers, "fail").await;
    assert_eq!((failed.content.as_str(), failed.is_error), ("it did not work", true));
    let refused = fixture.call(&servers, "refuse").await;
    assert!(refused.is_error && refused.content.contains("that is not a city"), "{refused:?}");
    let image = fixture.call(&servers, "image").await;
    assert_eq!(image.content, "[image: image/png, 1x1]");
    let structured = fixture.call(&servers, "structured").await;
    assert_eq!(structured.content, "{\"degrees\":21}");
    let large = fixture.call(&servers, "large").await;
    assert_eq!((large.content.len(), large.is_error), (10_000_000, false));
    let odd = fixture.call(&servers, "odd_name__").await;
    assert_eq!(odd.content, "called odd name/ü");
    servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_reported_while_a_call_runs() {
    let fixture = ServersFixture::with("stdio", "");
    let servers = fixture.servers().await;
    assert_eq!(fixture.call(&servers, "progress").await.content, "done");
    let heard = fixture.heard.lock().unwrap().clone();
    let result: Vec<&str> = heard
        .iter()
        .filter_map(|event| match event {
            TurnEvent::ToolOutput { call, text } if call == "call" => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(result, ["25 % step 1\n", "50 % step 2\n", "75 % step 3\n"]);
    servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_gets_what_is_harmless_and_what_is_configured_for_it() {
    let fixture = ServersFixture::with("stdio", ", env: {TOKEN: \"a ${WORD} b\", PLAIN: c}");
    let servers = fixture.servers().await;
    let printed = fixture.call(&servers, "environment").await.content;
    let Value::Object(mut variables) = serde_json::from_str(&printed).unwrap() else { panic!() };
    assert_eq!(variables.remove("TOKEN"), Some(json!("a of-the-environment b")));
    assert_eq!(variables.remove("PLAIN"), Some(json!("c")));
    let names: Vec<&str> = variables.keys().map(String::as_str).collect();
    assert_eq!(names, ["HOME", "PATH"]);
    servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_reaches_the_server() {
    let fixture = ServersFixture::that_takes_notes();
    let servers = fixture.servers().await;
    let (hanging, ()) = tokio::join!(fixture.call(&servers, "hang"), async {
        fixture.noted("hanging").await;
        fixture.cancel.cancel();
    });
    assert!(hanging.is_error && hanging.content.contains("interrupted"), "{hanging:?}");
    fixture.noted("cancelled").await;
    servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_given_up_is_cancelled() {
    let fixture = ServersFixture::that_takes_notes();
    let servers = fixture.servers().await;
    tokio::select! {
        output = fixture.call(&servers, "hang") => panic!("{output:?}"),
        () = fixture.noted("hanging") => {}
    }
    fixture.noted("cancelled").await;
    servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_takes_too_long_ends_with_advice_and_the_server_lives() {
    let fixture = ServersFixture::with("stdio", ", timeout: 1");
    let servers = fixture.servers().await;
    let before = fixture.process(&servers).await;
    let late = fixture.call(&servers, "hang").await;
    assert!(late.is_error && late.content.contains("within 1 s"), "{late:?}");
    assert!(late.content.contains("mcp_servers.it.timeout"), "{late:?}");
    assert_eq!(fixture.process(&servers).await, before);
    servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_tools_is_taken_over() {
    let fixture = ServersFixture::with("stdio", "");
    let servers = fixture.servers().await;
    let before = servers.version();
    assert_eq!(fixture.call(&servers, "grow").await.content, "grown");
    until(|| servers.version() != before).await;
    assert_eq!(fixture.call(&servers, "grown").await.content, "called grown");
    servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_settings_choose_among_the_tools() {
    let fixture =
        ServersFixture::with("stdio", ", tools: {include: [echo, look], exclude: [look]}");
    let servers = fixture.servers().await;
    assert_eq!(names(&servers), ["mcp_it_echo"]);
    servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_says_it_changes_nothing_runs_beside_others_unless_the_server_opts_in() {
    let config = format!(
        "mcp_servers:\n  it: {}\n  open: {}\n",
        server("stdio", ""),
        server("stdio", ", supports_parallel_tool_calls: true")
    );
    let fixture = ServersFixture::new(&config);
    let servers = fixture.servers().await;
    for (tool, footprint) in [
        ("mcp_it_look", Footprint::Reads),
        ("mcp_it_echo", Footprint::Exclusive),
        ("mcp_it_destroy", Footprint::Exclusive),
        ("mcp_open_echo", Footprint::Reads),
        ("mcp_open_destroy", Footprint::Exclusive),
    ] {
        assert_eq!(find(&servers, tool).footprint(&json!({})), footprint, "{tool}");
    }
    servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_says_it_destroys_is_asked_about_first() {
    let fixture = ServersFixture::that_takes_notes();
    let servers = fixture.servers().await;
    let denied = fixture.call_with(&servers, "destroy", json!({"what": "all"})).await;
    assert!(denied.is_error && denied.content.contains("does not want this call"), "{denied:?}");
    let asked = fixture.person.asked.lock().unwrap()[0].clone();
    assert_eq!(asked.action, "mcp_it_destroy {\"what\":\"all\"}");
    assert_eq!(asked.pattern, "outside:mcp_it_destroy");
    let notes = std::fs::read_to_string(fixture.file("notes")).unwrap();
    assert!(!notes.contains("destroy"), "{notes}");
    *fixture.person.answer.lock().unwrap() = Approval::Once;
    let done = fixture.call(&servers, "destroy").await;
    assert!(
        !done.is_error && done.content.starts_with("destroy\n[approved by the user once"),
        "{done:?}"
    );
    assert_eq!(fixture.call(&servers, "look").await.content, "look");
    assert_eq!(fixture.person.asked.lock().unwrap().len(), 2);
    servers.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_was_interrupted_before_it_was_made_says_that_nothing_was_done() {
    let fixture = ServersFixture::that_takes_notes();
    let servers = fixture.servers().await;
    fixture.cancel.cancel();
    let output = fixture.call(&servers, "look").await;
    assert!(output.is_error && output.content.contains("nothing was done"), "{output:?}");
    servers.close().await;
    let notes = std::fs::read_to_string(fixture.file("notes")).unwrap();
    assert!(!notes.contains("look"), "{notes}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_tools_change_all_the_time_is_not_asked_all_the_time() {
    let fixture = ServersFixture::that_takes_notes();
    let servers = fixture.servers().await;
    let began = std::time::Instant::now();
    fixture.call_with(&servers, "grow", json!({"restless": true})).await;
    let seconds = began.elapsed().as_secs();
    servers.close().await;
    let notes = std::fs::read_to_string(fixture.file("notes")).unwrap();
    let asked = u64::try_from(notes.lines().filter(|line| *line == "listed").count()).unwrap();
    assert!((2..=seconds + 3).contains(&asked), "{asked} times in {seconds} s");
}
