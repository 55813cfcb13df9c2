//! The settings for a server, ready to be done.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, access};
use vestal_config::{Environment, Settings, Unresolved};

use crate::login::TokenFile;
use crate::server::ServerError;
use crate::settings::{LoginSettings, McpConnection, McpServer, McpServerName, McpTransport};

#[derive(Debug)]
pub(crate) struct ServerPlan {
    pub(crate) name: String,
    /// How it is reached, if that can be said.
    pub(crate) target: Result<ServerTarget, ServerError>,
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
    /// Tools that are taken; none: all.
    include: Option<Vec<String>>,
    exclude: Vec<String>,
    /// Whether its tools may run beside each other.
    pub(crate) parallel: bool,
}

/// How a server is reached, with every reference resolved.
pub(crate) enum ServerTarget {
    /// A program.
    Program {
        command: String,
        args: Vec<String>,
        env: Vec<(OsString, OsString)>,
        cwd: Option<PathBuf>,
        places: SearchDirs,
    },
    /// An address.
    Address {
        url: String,
        headers: Vec<(String, String)>,
        proxy: Option<String>,
        /// How it is logged in at; none where a header says who we are.
        login: Option<LoginSettings>,
        /// The tokens of a login.
        tokens: Option<TokenFile>,
    },
}

impl ServerPlan {
    pub(crate) fn new(settings: &Settings, name: &str, server: &McpServer) -> Self {
        let names = |names: &vestal_config::Names| names.iter().map(str::to_owned).collect();
        Self {
            name: name.to_owned(),
            target: target(settings, name, server),
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

fn target(
    settings: &Settings,
    name: &str,
    server: &McpServer,
) -> Result<ServerTarget, ServerError> {
    let resolve = |place: &str, text: &str| {
        if server.is_literal() {
            return Ok(text.to_owned());
        }
        settings.resolve(text).map_err(|error| unresolved(name, place, &error))
    };
    match &server.connection {
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
            Ok(ServerTarget::Program {
                command: resolve("command", command)?,
                args,
                env: of_server(settings.environment(), variables),
                places: SearchDirs { homes, user_home, cwd: cwd.clone() },
                cwd,
            })
        }
        McpConnection::Address { transport: McpTransport::Sse, .. } => {
            Err(ServerError::Settings(format!(
                "mcp_servers.{name}.transport is sse, the older HTTP transport, which is not \
                 supported; most servers also have an address for transport: http, often ending in /mcp"
            )))
        }
        McpConnection::Address { url, headers, login, .. } => {
            let mut all = Vec::new();
            for (header, value) in headers.iter() {
                let value = resolve(&format!("headers.{header}"), value)?;
                all.push((header.to_owned(), value));
            }
            let options = vestal_agent::settings::model_options(settings).ok();
            let url = resolve("url", url)?;
            // What an editor names has tokens of the editor's.
            let own = !server.is_literal()
                && !all.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
            let file = McpServerName::new(name).filter(|_| own);
            let tokens = file.map(|name| TokenFile::new(&settings.home().dir(), &name, &url));
            Ok(ServerTarget::Address {
                url,
                headers: all,
                proxy: options.and_then(|options| options.proxy),
                login: own.then(|| login.clone()),
                tokens,
            })
        }
    }
}

fn unresolved(name: &str, place: &str, error: &Unresolved) -> ServerError {
    ServerError::Settings(format!("mcp_servers.{name}.{place} cannot be used: {error}"))
}

/// Shows which way it is reached: the rest may hold secrets.
impl std::fmt::Debug for ServerTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Program { .. } => "Program",
            Self::Address { .. } => "Address",
        })
    }
}

/// Programs that are often installed where a service's `PATH` does not lead.
const OF_NODE: &[&str] = &["npx", "npm", "node"];

/// Where a command is looked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct SearchDirs {
    /// The profile's directory, and the one of all profiles.
    pub(crate) homes: Vec<PathBuf>,
    pub(crate) user_home: Option<PathBuf>,
    /// Where the program is started, if that is said: its path may begin there.
    pub(crate) cwd: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundCommand {
    pub(crate) program: PathBuf,
    /// The `PATH` of the server: where the program is comes first, if the `PATH`
    /// did not lead there; `npx` looks for `node` in it.
    pub(crate) path: OsString,
}

/// Finds the file that a command means: a path is itself, a name is looked up
/// in the server's own `PATH`, and the programs of Node.js beyond it.
pub(crate) fn find_program(
    command: &str,
    path: &OsStr,
    places: &SearchDirs,
) -> Result<FoundCommand, ServerError> {
    if command.contains('/') {
        let program = match (command.strip_prefix("~/"), &places.user_home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(command),
        };
        // It is started elsewhere than where we are, perhaps.
        let program = match &places.cwd {
            Some(cwd) => cwd.join(program),
            None => std::path::absolute(&program).unwrap_or(program),
        };
        if !is_program(&program) {
            return Err(ServerError::NotFound(no_program(&program)));
        }
        let path = match program.parent() {
            Some(dir) => with_first(dir, path),
            None => path.to_owned(),
        };
        return Ok(FoundCommand { program, path });
    }
    let in_path = std::env::split_paths(path).filter(|dir| !dir.as_os_str().is_empty());
    if let Some(program) = in_path.map(|dir| dir.join(command)).find(|file| is_program(file)) {
        return Ok(FoundCommand { program, path: path.to_owned() });
    }
    let beyond = if OF_NODE.contains(&command) { beyond(places) } else { Vec::new() };
    for dir in &beyond {
        let program = dir.join(command);
        if is_program(&program) {
            return Ok(FoundCommand { program, path: with_first(dir, path) });
        }
    }
    Err(ServerError::NotFound(not_found(command, path, &beyond)))
}

fn no_program(file: &Path) -> String {
    let why = match std::fs::metadata(file) {
        Ok(about) if about.is_file() => {
            "may not be run by you; if it is a program: chmod +x".to_owned()
        }
        Ok(_) => "is a directory; write the program in it into mcp_servers".to_owned(),
        Err(error) => format!("cannot be started ({error}); correct it in mcp_servers"),
    };
    format!("{} {why}", file.display())
}

fn beyond(places: &SearchDirs) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = places.homes.iter().map(|home| home.join("node/bin")).collect();
    dirs.extend(places.user_home.iter().map(|home| home.join(".local/bin")));
    dirs.push(PathBuf::from("/usr/local/bin"));
    dirs.dedup();
    dirs
}

fn not_found(command: &str, path: &OsStr, beyond: &[PathBuf]) -> String {
    let beyond: Vec<String> = beyond.iter().map(|dir| dir.display().to_string()).collect();
    let also =
        if beyond.is_empty() { String::new() } else { format!(", nor in {}", beyond.join(", ")) };
    let next = if OF_NODE.contains(&command) {
        "install Node.js, or write the whole path into mcp_servers"
    } else {
        "install it, or write its whole path into mcp_servers"
    };
    format!("the program {command} is not in the PATH ({}){also}; {next}", path.display())
}

fn with_first(dir: &Path, path: &OsStr) -> OsString {
    let rest = std::env::split_paths(path).filter(|other| other != dir);
    let dirs = std::iter::once(dir.to_owned()).chain(rest);
    // A directory with a colon in its name cannot be in a PATH.
    std::env::join_paths(dirs).unwrap_or_else(|_| path.to_owned())
}

fn is_program(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|about| about.is_file())
        && access(file, Access::EXEC_OK).is_ok()
}

/// Variables that every server gets: none of them is a secret, and programs
/// find nothing without them.
const HARMLESS: &[&str] =
    &["PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TERM", "SHELL", "TMPDIR", "TZ"];

/// Beginnings of the names of further such variables.
const HARMLESS_PREFIXES: &[&str] = &["LC_", "XDG_"];

/// What no such name has in it, unless somebody carries a key under it: `LC_*` is
/// what ssh lets through.
const SECRET_WORDS: &[&str] = &["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL"];

/// Where programs are looked for by default.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns the variables of a server: the harmless ones of our own, and those
/// that are configured for it.
pub(crate) fn of_server(
    own: &Environment,
    configured: impl IntoIterator<Item = (String, String)>,
) -> Vec<(OsString, OsString)> {
    let mut all: Vec<(OsString, OsString)> = own
        .iter()
        .filter(|(name, _)| is_harmless(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    for (name, value) in configured {
        let name = OsString::from(name);
        all.retain(|(other, _)| *other != name);
        all.push((name, OsString::from(value)));
    }
    if path_of(&all).is_empty() {
        all.push(("PATH".into(), USUAL_PATH.into()));
    }
    all
}

/// Returns the `PATH` among variables.
pub(crate) fn path_of(variables: &[(OsString, OsString)]) -> &OsStr {
    let path = variables.iter().find(|(name, _)| name == "PATH");
    path.map_or(OsStr::new(""), |(_, value)| value)
}

fn is_harmless(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let by_prefix = HARMLESS_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let is_secret = SECRET_WORDS.iter().any(|word| name.contains(word));
    HARMLESS.contains(&name) || (by_prefix && !is_secret)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
