//! `vestal config`.

use std::io::Read as _;

use clap::{Args, Subcommand};
use vestal_api::SettingValueView;
use vestal_config::{Secrecy, SettingFinding, SettingRow, Severity};

use crate::console::{BOLD, Cell, Console, DIM, GREEN, RED, Table, YELLOW, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
The first of these that has a value wins: --set, environment, .env, config.yaml, default.

Example:
  vestal config set terminal.retention_seconds 2d";

/// The most bytes of a value that is read from standard input.
const MAX_VALUE: u64 = 1 << 20;

/// Show, check and change settings.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    verb: ConfigVerb,
}

#[derive(Debug, Subcommand)]
enum ConfigVerb {
    /// List every key with its value and where the value comes from.
    #[command(after_help = "Example:\n  vestal config show --changed")]
    Show {
        /// Only show keys whose value is not the default.
        #[arg(long)]
        changed: bool,
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Print the value of a key.
    #[command(after_help = "Example:\n  vestal config get terminal.backend")]
    Get {
        /// Print a JSON object with the value and where it comes from.
        #[arg(long)]
        json: bool,
        /// Name of the key.
        key: String,
    },
    /// Set a key in config.yaml; comments and order are kept.
    #[command(after_help = "Example:\n  vestal config set terminal.env '{\"CI\": \"1\"}'")]
    Set {
        /// Name of the key.
        key: String,
        /// Value: plain text, or YAML if it begins with a quote or a bracket; `-` reads it from
        /// standard input.
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Remove a key from config.yaml.
    #[command(after_help = "Example:\n  vestal config unset terminal.backend")]
    Unset {
        /// Name of the key, or any other name that is in config.yaml.
        key: String,
    },
    /// Print the path of config.yaml.
    #[command(after_help = "Example:\n  $EDITOR \"$(vestal config path)\"")]
    Path,
    /// Check for unknown keys, invalid values and misspelt variables. The exit code is 1 if there
    /// are any.
    #[command(after_help = "Example:\n  vestal config check")]
    Check {
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Print the documentation of every key.
    #[command(after_help = "Example:\n  vestal config docs --schema > vestal.schema.json")]
    Docs {
        /// Print a JSON schema of config.yaml for editors instead.
        #[arg(long)]
        schema: bool,
    },
}

pub(crate) fn run(context: &Context, args: ConfigArgs) -> Result<Exit, CommandFailure> {
    match args.verb {
        ConfigVerb::Show { changed, json } => show(context, changed, json),
        ConfigVerb::Get { json, key } => get(context, &key, json),
        ConfigVerb::Set { key, value } => set(context, &key, &value),
        ConfigVerb::Unset { key } => unset(context, &key),
        ConfigVerb::Path => {
            context.console.print(&context.home_or_default()?.config_file().to_string_lossy())?;
            Ok(Exit::Success)
        }
        ConfigVerb::Check { json } => check(context, json),
        ConfigVerb::Docs { schema: false } => {
            context.console.write(&vestal_api::schema().markdown())?;
            Ok(Exit::Success)
        }
        ConfigVerb::Docs { schema: true } => {
            context.console.print_json(&vestal_api::schema().json_schema())?;
            Ok(Exit::Success)
        }
    }
}

fn show(context: &Context, changed: bool, json: bool) -> Result<Exit, CommandFailure> {
    let settings = context.settings()?;
    let rows: Vec<SettingRow> =
        settings.rows().into_iter().filter(|row| row.changed || !changed).collect();
    if json {
        context.console.print_json(&rows)?;
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["KEY", "VALUE", "FROM"]);
    let mut problems: Vec<String> = Vec::new();
    for row in rows {
        let value = match (&row.value, row.changed) {
            (Some(value), true) => Cell::styled(value.to_string(), BOLD),
            (Some(value), false) => Cell::from(value.to_string()),
            (None, _) => Cell::styled("cannot be read", RED),
        };
        let source = row.source.map_or_else(|| "-".to_owned(), |source| source.to_string());
        table.row(vec![row.key.into(), value, Cell::styled(source, DIM)]);
        // A file that cannot be read is the same problem of every key.
        problems.extend(row.error.filter(|error| !problems.contains(error)));
    }
    context.console.print_table(&table)?;
    for problem in problems {
        context.console.warn(&problem);
    }
    Ok(Exit::Success)
}

fn get(context: &Context, key: &str, json: bool) -> Result<Exit, CommandFailure> {
    let resolved = context.settings()?.get_by_name(key)?;
    if json {
        context.console.print_json(&SettingValueView {
            key: key.to_owned(),
            value: resolved.value,
            source: resolved.source,
        })?;
    } else {
        context.console.print(&resolved.value.to_string())?;
    }
    Ok(Exit::Success)
}

fn set(context: &Context, key: &str, value: &str) -> Result<Exit, CommandFailure> {
    let settings = context.settings()?;
    let read;
    let value = if value == "-" {
        let mut text = String::new();
        let limited = &mut std::io::stdin().lock().take(MAX_VALUE);
        limited
            .read_to_string(&mut text)
            .map_err(|error| CommandFailure::io("read the value from standard input", &error))?;
        read = text.trim_end_matches(['\r', '\n']).to_owned();
        &read
    } else {
        let is_secret =
            settings.schema().find(key).is_some_and(|key| key.secrecy() == Secrecy::Secret);
        // What other users of this machine see of a command, and what the shell keeps of it.
        if is_secret && !value.starts_with("${") && !value.is_empty() {
            return Err(CommandFailure::usage(format!(
                "{key} is a secret, which other users and the shell's history can read on the command line"
            ))
            .advise(format!("to read it from standard input: vestal config set {key} -"))
            .advise(format!(
                "to keep it in .env: put NAME=… there, then vestal config set {key} '${{NAME}}'"
            )));
        }
        value
    };
    let outcome = vestal_config::set(&settings, key, value)?;
    context.console.note(&format!("set {} in {}", outcome.name, outcome.path.display()));
    if let Some(source) = outcome.hidden_by {
        context.console.warn(&format!("it has no effect, because {source} overrides it"));
    }
    Ok(Exit::Success)
}

fn unset(context: &Context, key: &str) -> Result<Exit, CommandFailure> {
    let settings = context.settings()?;
    let file = settings.home().config_file();
    let Some(outcome) = vestal_config::unset(&settings, key)? else {
        context.console.note(&format!("{key} is not set in {}", file.display()));
        return Ok(Exit::Success);
    };
    context.console.note(&format!("removed {} from {}", outcome.name, outcome.path.display()));
    if let Some(source) = outcome.hidden_by {
        context.console.warn(&format!("{source} still sets it"));
    }
    Ok(Exit::Success)
}

fn check(context: &Context, json: bool) -> Result<Exit, CommandFailure> {
    let findings = context.settings()?.check();
    if json {
        context.console.print_json(&findings)?;
    } else if findings.is_empty() {
        context.console.print(&context.console.paint(GREEN, "no mistakes found"))?;
    } else {
        for finding in &findings {
            context.console.print(&line(context.console, finding))?;
        }
    }
    // A note is worth knowing; anything else is a mistake.
    let wrong = findings.iter().any(|finding| finding.severity != Severity::Note);
    Ok(if wrong { Exit::No } else { Exit::Success })
}

/// Returns a finding as a line for people.
fn line(console: Console, finding: &SettingFinding) -> String {
    let (word, style) = match finding.severity {
        Severity::Error => ("error", RED),
        Severity::Warning => ("warning", YELLOW),
        Severity::Note => ("note", DIM),
    };
    format!("{} {}", console.paint(style, &format!("{word}:")), text::printable(&finding.message))
}
