//! `vestal profile export`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::named;
use crate::console::text;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
In the archive are the settings without secrets, the description, SOUL.md, skills and memories, and
nothing else: no .env, no keys, no tokens, no conversations, no sandboxes. Read your own texts
before you pass them on.

Example:
  vestal profile export work -o work.tar.gz";

/// Writes a profile without its secrets to an archive.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ExportArgs {
    /// The profile; without it the one in use.
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// The file to write, which must not exist; without it NAME.tar.gz.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct ExportedView {
    name: String,
    path: String,
    files: usize,
    left_out: Vec<String>,
    settings_left_out: Vec<String>,
}

pub(super) fn run(context: &Context, args: &ExportArgs) -> Result<Exit, Failure> {
    let name = match &args.name {
        Some(name) => named(name)?,
        None => context.home()?.profile().clone(),
    };
    let to = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.tar.gz")));
    let exported = context.profiles()?.export(&name, &to)?;
    let left_out: Vec<String> =
        exported.left_out.iter().map(|path| path.display().to_string()).collect();
    let console = context.console;
    if args.json {
        console.print_json(&ExportedView {
            name: name.to_string(),
            path: exported.path.display().to_string(),
            files: exported.files,
            left_out,
            settings_left_out: exported.settings_left_out,
        })?;
        return Ok(Exit::Success);
    }
    let files = text::count(exported.files as u64, "file");
    console.print(&format!("wrote {} ({files})", exported.path.display()))?;
    for path in left_out {
        console.note(&format!("left out {path}"));
    }
    if !exported.settings_left_out.is_empty() {
        let names = exported.settings_left_out.join(", ");
        console.note(&format!("left out of config.yaml: {names}"));
    }
    Ok(Exit::Success)
}
