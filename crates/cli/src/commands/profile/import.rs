//! `vestal profile import`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use vestal_config::{AnyKey, Environment, Settings, keys};

use super::named;
use crate::console::text;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
An archive with links, devices or paths that lead elsewhere is refused as a whole. Keys are not in
it: put them into .env of the new profile.

Example:
  vestal profile import work.tar.gz --name spare";

/// Settings of somebody else that one should know of before a command is run.
const TELLING: [&dyn AnyKey; 8] = [
    &keys::BACKEND,
    &keys::DOCKER_VOLUMES,
    &keys::DOCKER_EXTRA_ARGS,
    &keys::APPROVALS_MODE,
    &keys::APPROVALS_UNATTENDED,
    &keys::DELEGATION_SUBAGENT_AUTO_APPROVE,
    &keys::MODEL_BASE_URL,
    &keys::PROVIDERS,
];

/// Makes a profile of an archive.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ImportArgs {
    /// The archive.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Another name than the one in the archive.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct ImportedView {
    name: String,
    path: String,
    files: usize,
    left_out: Vec<String>,
    /// Keys of the archive's settings that decide about safety.
    telling_settings: Vec<&'static str>,
}

pub(super) fn run(context: &Context, args: &ImportArgs) -> Result<Exit, Failure> {
    let name = args.name.as_deref().map(named).transpose()?;
    let imported = context.profiles()?.import(&args.file, name.as_ref())?;
    let (home, console) = (&imported.home, context.console);
    let settings =
        Settings::load(&vestal_config::schema(), home.clone(), Environment::default(), Vec::new());
    let is_set = |key: &&&dyn AnyKey| key.resolve(&settings).is_ok_and(|own| !own.is_default());
    let telling: Vec<&'static str> = TELLING.iter().filter(is_set).map(|key| key.name()).collect();
    if args.json {
        console.print_json(&ImportedView {
            name: home.profile().to_string(),
            path: home.dir().display().to_string(),
            files: imported.files,
            left_out: imported.left_out,
            telling_settings: telling,
        })?;
        return Ok(Exit::Success);
    }
    let files = text::count(imported.files as u64, "file");
    let (profile, dir) = (home.profile(), home.dir());
    console.print(&format!("made profile {profile} in {} ({files})", dir.display()))?;
    for path in imported.left_out {
        console.note(&format!("left out {path}, which does not travel"));
    }
    if !telling.is_empty() {
        let keys = telling.join(", ");
        let show = format!("vestal -p {profile} config show --changed");
        console.warn(&format!("its settings have {keys}; look at them first: {show}"));
    }
    Ok(Exit::Success)
}
