//! `vestal mcp add` and `remove`.

use std::collections::BTreeMap;

use clap::Args;
use vestal_config::{AnyKey as _, remove_entry, set_entry};
use vestal_mcp::{NewMcpServer, NewServerError, is_key_header, keys};
use vestal_sandbox::settings::secrets;

use super::servers::{failure, probe, summary};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

const ADD_HELP: &str = "\
The server is tried first, and added only if it answers. Do not put keys on the command line, where
every user of the machine can read them: put them into .env and refer to them as ${NAME}, in single
quotes.

Examples:
  vestal mcp add files -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  vestal mcp add git --env 'GITHUB_TOKEN=${GITHUB_TOKEN}' -- github-mcp-server stdio
  vestal mcp add work --url https://mcp.example.com/mcp --header 'Authorization=Bearer ${WORK_TOKEN}'";

/// Add a server to config.yaml, if it answers.
#[derive(Debug, Args)]
#[command(after_help = ADD_HELP)]
pub(super) struct AddArgs {
    /// Name for the server.
    name: String,

    /// URL of a remote server.
    #[arg(long, value_name = "URL", conflicts_with_all = ["command", "env", "cwd"], required_unless_present = "command")]
    url: Option<String>,

    /// HTTP header to send: NAME=VALUE; repeatable.
    #[arg(long = "header", value_name = "NAME=VALUE", requires = "url")]
    headers: Vec<String>,

    /// Environment variable of the program: NAME=VALUE; repeatable.
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,

    /// Directory to start the program in.
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,

    /// Timeout of a call in seconds.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,

    /// Replace a server of the same name.
    #[arg(long)]
    replace: bool,

    /// Add the server even if it does not answer.
    #[arg(long)]
    no_test: bool,

    /// Program to start, with its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(super) async fn run(context: &Context, args: AddArgs) -> Result<Exit, CommandFailure> {
    let settings = context.settings()?;
    let name = super::named(&args.name)?;
    let known = settings.get(&keys::MCP_SERVERS)?.value;
    if known.get(&name).is_some() && !args.replace {
        return Err(CommandFailure::new(format!("the MCP server {name} exists already"))
            .advise("to replace it: --replace")
            .with_exit(Exit::No));
    }
    let entry = described(&args)?.entry().map_err(refused)?;
    let understood = NewMcpServer::understood(&settings, name.as_str(), &entry);
    let (name, server) = understood.map_err(refused)?;
    let found = if args.no_test {
        format!("added {name}, which was not tried")
    } else {
        let tried = Box::pin(probe(context, &settings, &name, &server)).await;
        let probe = tried.map_err(|trouble| {
            failure(&settings, &name, &trouble)
                .advise("nothing was changed; to add it anyway: --no-test")
        })?;
        summary(name.as_str(), &probe)
    };
    let set = set_entry(&settings, keys::MCP_SERVERS.name(), name.as_str(), &entry)?;
    context.console.note(&found);
    context.console.note(&format!("kept in {}; new chats have its tools", set.path.display()));
    if let Some(source) = set.hidden_by {
        context.console.warn(&format!("{source} hides what config.yaml says about mcp_servers"));
    }
    Ok(Exit::Success)
}

fn refused(error: NewServerError) -> CommandFailure {
    match error {
        NewServerError::Config(error) => error.into(),
        error => CommandFailure::usage(error.to_string()),
    }
}

/// Returns what the command line says of the server.
fn described(args: &AddArgs) -> Result<NewMcpServer, CommandFailure> {
    let mut command = args.command.clone();
    // A name alone is looked up, and what is started elsewhere begins there.
    if let Some(program) = command.first_mut()
        && program.contains('/')
        && args.cwd.is_none()
    {
        *program = whole(program);
    }
    Ok(NewMcpServer {
        url: args.url.clone(),
        headers: pairs(&HEADERS, &args.headers)?,
        command,
        env: pairs(&VARIABLES, &args.env)?,
        cwd: args.cwd.as_deref().map(whole),
        timeout: args.timeout,
    })
}

/// Returns a path that begins in this directory as a whole one: a chat may be
/// started in any other.
fn whole(path: &str) -> String {
    if path.starts_with(['/', '~', '$']) {
        return path.to_owned();
    }
    let whole = std::env::current_dir().map(|here| here.join(path));
    let tidy = whole.map(|path| path.components().collect::<std::path::PathBuf>());
    tidy.ok()
        .and_then(|path| path.into_os_string().into_string().ok())
        .unwrap_or_else(|| path.to_owned())
}

/// An option that takes pairs.
struct Pairs {
    option: &'static str,
    /// What may stand between a name and its value.
    between: &'static [char],
    is_secret: fn(&str) -> bool,
}

/// Headers are written in both ways, and spaces around their values mean nothing.
const HEADERS: Pairs = Pairs { option: "header", between: &['=', ':'], is_secret: is_key_header };

const VARIABLES: Pairs =
    Pairs { option: "env", between: &['='], is_secret: secrets::is_secret_name };

/// Reads `NAME=VALUE`. A key that is written out is refused, and not repeated.
fn pairs(kind: &Pairs, given: &[String]) -> Result<BTreeMap<String, String>, CommandFailure> {
    let option = kind.option;
    let mut pairs = BTreeMap::new();
    for pair in given {
        let Some((name, value)) = pair.split_once(kind.between) else {
            return Err(CommandFailure::usage(format!("--{option} takes NAME=VALUE")));
        };
        let name = name.trim();
        let value = if kind.between.contains(&':') { value.trim() } else { value };
        if (kind.is_secret)(name) && !value.contains("${") {
            let failure =
                format!("--{option} {name} has a value that looks like a secret written out");
            return Err(CommandFailure::usage(failure)
                .advise("put it into .env and refer to it: NAME='${NAME_OF_A_VARIABLE}'"));
        }
        pairs.insert(name.to_owned(), value.to_owned());
    }
    Ok(pairs)
}

/// Remove a server from config.yaml; comments and order are kept.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  vestal mcp remove files")]
pub(super) struct RemoveArgs {
    /// Name of the server.
    name: String,
}

pub(super) fn remove(context: &Context, args: &RemoveArgs) -> Result<Exit, CommandFailure> {
    let settings = context.settings()?;
    let name = super::named(&args.name)?;
    let Some(removed) = remove_entry(&settings, keys::MCP_SERVERS.name(), name.as_str())? else {
        // It may be there all the same, from elsewhere than the file.
        super::server(&settings, &name)?;
        let source = settings.get(&keys::MCP_SERVERS)?.source;
        return Err(CommandFailure::new(format!(
            "{name} is not in config.yaml but comes from {source}"
        ))
        .with_exit(Exit::No));
    };
    context.console.note(&format!("removed {name} from {}", removed.path.display()));
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_not_taken_from_a_command_line() {
        for pair in ["Authorization=Bearer hunter2", "X-Api-Key: hunter2", "Cookie=hunter2"] {
            let failure = pairs(&HEADERS, &[pair.to_owned()]).unwrap_err();
            assert!(!failure.message().unwrap().contains("hunter2"), "{failure:?}");
        }
        let fine = ["Authorization=Bearer ${TOKEN}", "X-Toolsets: all"].map(str::to_owned);
        let fine = pairs(&HEADERS, &fine).unwrap();
        assert_eq!(fine["Authorization"], "Bearer ${TOKEN}");
        assert_eq!(fine["X-Toolsets"], "all");
    }

    #[test]
    fn a_variable_keeps_every_character_of_its_value() {
        let given = ["A= x: y ", "HOST:PORT=1"].map(str::to_owned);
        let read = pairs(&VARIABLES, &given[..1]).unwrap();
        assert_eq!(read["A"], " x: y ");
        let read = pairs(&VARIABLES, &given[1..]).unwrap();
        assert_eq!(read["HOST:PORT"], "1");
    }

    #[test]
    fn a_path_is_kept_such_that_it_means_the_same_everywhere() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(whole("./bin/server"), here.join("bin/server").to_str().unwrap());
        assert_eq!(whole("bin/server"), here.join("bin/server").to_str().unwrap());
        assert_eq!(whole("."), here.to_str().unwrap());
        for path in ["/srv/server", "~/server", "${HERE}/server"] {
            assert_eq!(whole(path), path);
        }
    }
}
