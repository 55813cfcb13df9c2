use vestal_config::{ConfigError, Environment, Home, Override, Schema, Settings};

use super::*;
use crate::keys;

fn settings(text: &str) -> Settings {
    let schema = Schema::new([&keys::GROUP]);
    let set = Override::parse(&schema, &format!("mcp_servers={text}")).expect(text);
    Settings::load(&schema, Home::at("/nowhere"), Environment::default(), vec![set])
}

fn read(text: &str) -> Result<McpServers, String> {
    match settings(text).get(&keys::MCP_SERVERS) {
        Ok(found) => Ok(found.value),
        Err(ConfigError::Invalid(invalid)) => Err(invalid.reason),
        Err(other) => panic!("{text}: {other}"),
    }
}

fn one(text: &str) -> McpServer {
    let servers = read(text).expect(text);
    servers.iter().next().expect("one").1.clone()
}

#[test]
fn a_server_is_a_program_or_an_address_with_these_defaults() {
    let server = one("{a: {command: npx, args: [-y, x], env: {TOKEN: \"${T}\"}, cwd: /srv}}");
    let McpConnection::Program { command, args, env, cwd } = &server.connection else {
        panic!("{server:?}");
    };
    assert_eq!(
        (command.as_str(), args.as_slice()),
        ("npx", &["-y".to_owned(), "x".to_owned()][..])
    );
    assert_eq!(env.iter().map(|(n, v)| (n.as_str(), v)).collect::<Vec<_>>(), [("TOKEN", "${T}")]);
    assert_eq!(cwd.as_deref(), Some(std::path::Path::new("/srv")));
    assert_eq!((server.timeout.as_secs(), server.connect_timeout.as_secs()), (300, 60));
    assert!(server.enabled && !server.supports_parallel_tool_calls && server.include.is_none());

    let server = one(
        "{a: {url: \"https://h/mcp\", headers: {X-Key: k}, transport: SSE, enabled: false, timeout: 5m, \
         tools: {include: [a, b], exclude: [c]}, supports_parallel_tool_calls: true}}",
    );
    let McpConnection::Address { url, headers, transport, .. } = &server.connection else {
        panic!("{server:?}");
    };
    assert_eq!((url.as_str(), *transport), ("https://h/mcp", McpTransport::Sse));
    assert_eq!(headers.iter().collect::<Vec<_>>(), [("X-Key", "k")]);
    assert!(!server.enabled && server.supports_parallel_tool_calls);
    assert_eq!(server.timeout.as_secs(), 300);
    assert!(server.include.expect("given").contains("b") && server.exclude.contains("c"));
}

#[test]
fn what_is_wrong_with_a_server_is_reported_without_its_values() {
    for (text, reason) in [
        ("{a: {}}", "gives a neither a command nor a url"),
        ("{a: {command: x, url: \"http://h\"}}", "gives a both a command and a url"),
        ("{a: {command: x, headers: {K: hunter2}}}", "gives a a command and headers"),
        ("{a: {url: \"http://h\", args: [hunter2]}}", "gives a a url and args"),
        ("{a: {url: \"ftp://hunter2\"}}", "has a url that does not begin with http:// or https://"),
        ("{a: {command: \"\"}}", "gives a an entry command that is empty"),
        ("{a: {command: x, timeout: 0}}", "gives a an entry timeout that is less than 1s"),
        ("{a: {command: x, arg: [hunter2]}}", "gives a an entry that does not exist"),
        (
            "{a: {url: \"http://h\", headers: {\"a b\": hunter2}}}",
            "gives a an entry headers that holds a key that is not the name of a header",
        ),
        (
            "{a: {url: \"http://h\", headers: {A: \"x\\ny\"}}}",
            "gives a an entry headers that gives A a value that no header can have",
        ),
        (
            "{a: {url: \"http://h\", transport: ws}}",
            "gives a an entry transport that is neither http nor sse",
        ),
        ("{\"a b\": {command: x}}", "holds a key that is not the name of a server"),
        ("{\"--\": {command: x}}", "holds a key that is not the name of a server"),
        ("[x]", "is a list, not a map"),
    ] {
        assert_eq!(read(text), Err(reason.to_owned()), "{text}");
    }
}

#[test]
fn no_value_of_a_server_is_in_debug_output_or_in_what_is_shown() {
    let text = "{a: {command: x, args: [hunter2], env: {T: hunter2}}, \
                b: {url: \"http://h/?k=hunter2\", headers: {A: hunter2}}}";
    let settings = settings(text);
    let found = settings.get(&keys::MCP_SERVERS).expect("right");
    assert!(!format!("{found:?}").contains("hunter2"), "{found:?}");
    let rows = settings.rows();
    let row = rows.iter().find(|row| row.key == "mcp_servers").expect("there");
    let shown = format!("{row:?}");
    assert!(!shown.contains("T: hunter2") && !shown.contains("A: hunter2"), "{shown}");
}

#[test]
fn a_server_reads_back_as_what_it_is_written_as() {
    for text in McpServers::examples(&()) {
        let servers = read(&text).expect(&text);
        assert_eq!(read(&servers.to_value().to_string()), Ok(servers));
    }
}

#[test]
fn entries_of_a_fuller_setup_are_taken_with_a_word_about_it() {
    let servers = read("{a: {command: x, keepalive_interval: 180}}").expect("taken");
    assert!(servers.doubt().is_some_and(|doubt| doubt.contains("keepalive_interval")));
    assert_eq!(read("{a: {command: x}}").expect("taken").doubt(), None);
}
