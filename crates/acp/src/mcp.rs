//! MCP servers that an editor hands over for a session.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use vestal_config::{EnvName, EnvPairs, Settings};
use vestal_mcp::{Headers, McpConnection, McpServer, McpServerName, McpTransport, Servers, keys};

use crate::error::shown;
use crate::limits::MCP_SERVERS;

/// A server as the protocol has it.
#[derive(Debug, Deserialize)]
struct EditorMcpServer {
    name: String,
    #[serde(rename = "type", default)]
    transport: Option<String>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<NamedValue>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    headers: Vec<NamedValue>,
}

#[derive(Deserialize)]
struct NamedValue {
    name: String,
    value: String,
}

/// Shows the name only: the value may be a secret.
impl std::fmt::Debug for NamedValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// The servers of a session, and what a person should know of those that are not used.
#[derive(Debug, Default)]
pub(crate) struct SessionMcp {
    pub(crate) servers: Option<Arc<Servers>>,
    pub(crate) notices: Vec<String>,
}

impl SessionMcp {
    /// Begins to connect to the servers, whose programs start in the directory of the session.
    pub(crate) fn connect(settings: &Settings, given: Vec<Value>, cwd: &Path) -> Self {
        let (named, notices) = read(settings, given, cwd);
        let servers = (!named.is_empty()).then(|| Servers::of(settings, &named));
        Self { servers, notices }
    }
}

type NamedServer = (McpServerName, McpServer);

fn read(settings: &Settings, given: Vec<Value>, cwd: &Path) -> (Vec<NamedServer>, Vec<String>) {
    let own = settings.get(&keys::MCP_SERVERS).map(|own| own.value);
    let mut named: Vec<NamedServer> = Vec::new();
    let mut notices = Vec::new();
    if given.len() > MCP_SERVERS {
        notices.push(format!(
            "the editor has {} MCP servers; only the first {MCP_SERVERS} are used",
            given.len()
        ));
    }
    for server in given.into_iter().take(MCP_SERVERS) {
        let label = shown(server["name"].as_str().unwrap_or_default());
        let not_used = |why: &str| format!("the editor's MCP server {label:?} is not used: {why}");
        // What is wrong may repeat a secret.
        let Ok(server) = serde_json::from_value::<EditorMcpServer>(server) else {
            notices.push(not_used("its parameters have the wrong form"));
            continue;
        };
        let Some(name) = McpServerName::new(&plain(&server.name)) else {
            notices.push(not_used("its name has neither letters nor digits"));
            continue;
        };
        let is_own = own.as_ref().is_ok_and(|own| own.get(&name).is_some());
        if is_own || named.iter().any(|(other, _)| *other == name) {
            notices.push(not_used("another one has its name"));
            continue;
        }
        match connection(server, cwd) {
            Ok(connection) => named.push((name, McpServer::literal(connection))),
            Err(why) => notices.push(not_used(why)),
        }
    }
    (named, notices)
}

/// Returns a name of words as one that tools can begin with.
fn plain(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let name: String = name.trim().chars().map(|c| if fits(c) { c } else { '-' }).collect();
    name.trim_matches('-').chars().take(40).collect()
}

fn connection(server: EditorMcpServer, cwd: &Path) -> Result<McpConnection, &'static str> {
    match (server.transport.as_deref(), server.command, server.url) {
        (None | Some("stdio"), Some(command), _) => {
            if command.is_empty()
                || [&command].into_iter().chain(&server.args).any(|it| it.contains('\0'))
            {
                return Err("its command is none");
            }
            let env = server.env.into_iter().map(|pair| {
                let name = EnvName::new(&pair.name)?;
                (!pair.value.contains('\0')).then_some((name, pair.value))
            });
            let env: Option<EnvPairs> = env.collect();
            Ok(McpConnection::Program {
                command,
                args: server.args,
                env: env.ok_or("one of its variables cannot be one")?,
                cwd: Some(cwd.to_owned()),
            })
        }
        (None | Some("http"), _, Some(url)) => {
            let lower = url.to_ascii_lowercase();
            if !lower.starts_with("http://") && !lower.starts_with("https://") {
                return Err("its address begins with neither http:// nor https://");
            }
            let headers = server.headers.into_iter().map(|pair| (pair.name, pair.value));
            Ok(McpConnection::Address {
                login: vestal_mcp::LoginSettings::default(),
                url,
                headers: Headers::new(headers).ok_or("one of its headers cannot be one")?,
                transport: McpTransport::Http,
            })
        }
        (Some("sse"), ..) => Err("it speaks the older HTTP with server-sent events"),
        (Some("acp"), ..) => Err("servers inside the editor are not reached"),
        _ => Err("it has neither a command nor an address"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vestal_config::{Environment, Home};

    use super::*;

    fn read_of(given: Value) -> (Vec<NamedServer>, Vec<String>) {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("config.yaml"), "mcp_servers: {mine: {command: x}}\n")
            .unwrap();
        let (home, schema) = (Home::at(home.path().to_owned()), vestal_api::schema());
        let settings = Settings::load(&schema, home, Environment::default(), Vec::new());
        let Value::Array(given) = given else { panic!("{given}") };
        read(&settings, given, Path::new("/srv/project"))
    }

    #[test]
    fn a_program_starts_in_the_project_and_its_texts_are_taken_as_they_are() {
        let (named, notices) = read_of(json!([
            {"name": "My Files!", "command": "/bin/files", "args": ["${HOME}"],
             "env": [{"name": "KEY", "value": "${API_SERVER_KEY}"}]},
            {"type": "http", "name": "work", "url": "https://mcp.example.com/mcp",
             "headers": [{"name": "Authorization", "value": "Bearer x"}]},
        ]));
        assert_eq!(notices, Vec::<String>::new());
        let names: Vec<String> = named.iter().map(|(name, _)| name.to_string()).collect();
        assert_eq!(names, ["My-Files", "work"]);
        let McpConnection::Program { args, env, cwd, .. } = &named[0].1.connection else {
            panic!("{named:?}")
        };
        assert_eq!(args, &["${HOME}"]);
        assert_eq!(env.iter().map(|(_, value)| value).collect::<Vec<_>>(), ["${API_SERVER_KEY}"]);
        assert_eq!(cwd.as_deref(), Some(Path::new("/srv/project")));
    }

    #[test]
    fn what_cannot_be_used_is_named_and_the_rest_is() {
        let server = |name: &str| json!({"name": name, "command": "/bin/x", "args": [], "env": []});
        let (named, notices) = read_of(json!([
            server("mine"), server("twice"), server("twice"), server("…"), 7,
            {"type": "sse", "name": "old", "url": "https://x", "headers": []},
            {"type": "acp", "name": "inside", "serverId": "1"},
            {"name": "file", "url": "file:///etc/passwd"},
            {"name": "bad", "command": "/bin/x", "env": [{"name": "A=B", "value": "secret"}]},
            {"name": "none"},
        ]));
        assert_eq!(named.len(), 1, "{named:?}");
        assert_eq!(notices.len(), 9, "{notices:#?}");
        assert!(!notices.concat().contains("secret"), "{notices:#?}");
        let (named, notices) = read_of(Value::Array(
            (0..=MCP_SERVERS).map(|number| server(&format!("s{number}"))).collect(),
        ));
        assert_eq!((named.len(), notices.len()), (MCP_SERVERS, 1));
    }
}
