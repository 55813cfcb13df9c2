//! What the settings say about a server, ready to be done.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use vestal_config::{McpConnection, McpServer, McpTransport, Settings, Unresolved};

use crate::command::Whereabouts;
use crate::environment;
use crate::trouble::Trouble;

/// One server.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) name: String,
    /// How it is reached, if that can be said.
    pub(crate) target: Result<Target, Trouble>,
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
    /// Tools that are taken; none: all.
    include: Option<Vec<String>>,
    exclude: Vec<String>,
    /// Whether its tools may run beside each other.
    pub(crate) parallel: bool,
}

/// How a server is reached, with every reference resolved.
pub(crate) enum Target {
    /// A program.
    Program {
        command: String,
        args: Vec<String>,
        env: Vec<(OsString, OsString)>,
        cwd: Option<PathBuf>,
        places: Whereabouts,
    },
    /// An address.
    Address { url: String, headers: Vec<(String, String)>, proxy: Option<String> },
}

impl Plan {
    pub(crate) fn new(settings: &Settings, name: &str, server: &McpServer) -> Self {
        let names = |names: &vestal_config::Names| names.iter().map(str::to_owned).collect();
        Self {
            name: name.to_owned(),
            target: target(settings, name, &server.connection),
            timeout: server.timeout.duration(),
            connect_timeout: server.connect_timeout.duration(),
            include: server.include.as_ref().map(names),
            exclude: names(&server.exclude),
            parallel: server.supports_parallel_tool_calls,
        }
    }

    /// Reports whether a tool of the server is taken.
    pub(crate) fn takes(&self, tool: &str) -> bool {
        let is = |name: &String| name == tool;
        self.include.as_ref().is_none_or(|include| include.iter().any(is))
            && !self.exclude.iter().any(is)
    }
}

fn target(settings: &Settings, name: &str, server: &McpConnection) -> Result<Target, Trouble> {
    let resolve = |place: &str, text: &str| {
        settings.resolve(text).map_err(|error| unresolved(name, place, &error))
    };
    match server {
        McpConnection::Program { command, args, env, cwd } => {
            let mut variables = Vec::new();
            for (variable, value) in env.iter() {
                let value = resolve(&format!("env.{variable}"), value)?;
                variables.push((variable.as_str().to_owned(), value));
            }
            let args = args.iter().map(|arg| resolve("args", arg)).collect::<Result<_, _>>()?;
            let user_home = settings.environment().user_home();
            let cwd = cwd.as_ref().map(|cwd| match (cwd.strip_prefix("~"), &user_home) {
                (Ok(rest), Some(home)) => home.join(rest),
                _ => cwd.clone(),
            });
            let home = settings.home();
            let mut homes = vec![home.dir(), home.root().to_owned()];
            homes.dedup();
            Ok(Target::Program {
                command: resolve("command", command)?,
                args,
                env: environment::of_server(settings.environment(), variables),
                places: Whereabouts { homes, user_home, cwd: cwd.clone() },
                cwd,
            })
        }
        McpConnection::Address { transport: McpTransport::Sse, .. } => {
            Err(Trouble::Settings(format!(
                "mcp_servers.{name}.transport is sse, the older way to speak over HTTP, which is not \
                 spoken here; most servers also have an address for transport: http, often ending in /mcp"
            )))
        }
        McpConnection::Address { url, headers, .. } => {
            let mut all = Vec::new();
            for (header, value) in headers.iter() {
                let value = resolve(&format!("headers.{header}"), value)?;
                all.push((header.to_owned(), value));
            }
            let options = vestal_agent::settings::model_options(settings).ok();
            Ok(Target::Address {
                url: resolve("url", url)?,
                headers: all,
                proxy: options.and_then(|options| options.proxy),
            })
        }
    }
}

fn unresolved(name: &str, place: &str, error: &Unresolved) -> Trouble {
    Trouble::Settings(format!("mcp_servers.{name}.{place} cannot be used: {error}"))
}

/// Shows which way it is reached: the rest may hold secrets.
impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Program { .. } => "Program",
            Self::Address { .. } => "Address",
        })
    }
}
