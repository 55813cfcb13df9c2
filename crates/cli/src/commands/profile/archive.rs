//! `vestal profile export` and `import`.

use std::path::PathBuf;

use clap::Args;
use vestal_api::{ExportedProfileView, ImportedProfileView};

use super::named;
use crate::console::text;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

const EXPORT_HELP: &str = "\
The archive has the settings without secrets, the description, SOUL.md, skills and memories. It has
no .env, keys, tokens, conversations or sandboxes. Check your own texts before you share it.

Example:
  vestal profile export work -o work.tar.gz";

/// Export a profile, without its secrets, to an archive.
#[derive(Debug, Args)]
#[command(after_help = EXPORT_HELP)]
pub(super) struct ExportArgs {
    /// Name of the profile [default: the current one].
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// File to write; it must not exist [default: NAME.tar.gz].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn export(context: &Context, args: &ExportArgs) -> Result<Exit, CommandFailure> {
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
        console.print_json(&ExportedProfileView {
            name: name.to_string(),
            path: exported.path.display().to_string(),
            files: exported.files,
            left_out,
            settings_left_out: exported.settings_left_out,
        })?;
        return Ok(Exit::Success);
    }
    let files = text::count(exported.files, "file");
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

const IMPORT_HELP: &str = "\
An archive with links, devices or paths outside of it is refused. It contains no keys: put them into
the .env of the new profile.

Example:
  vestal profile import work.tar.gz --name spare";

/// Create a profile from an archive.
#[derive(Debug, Args)]
#[command(after_help = IMPORT_HELP)]
pub(super) struct ImportArgs {
    /// Archive to import.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Name of the new profile [default: the name in the archive].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn import(context: &Context, args: &ImportArgs) -> Result<Exit, CommandFailure> {
    let name = args.name.as_deref().map(named).transpose()?;
    let imported = context.profiles()?.import(&args.file, name.as_ref())?;
    let (home, console) = (&imported.home, context.console);
    let safety = vestal_api::safety_settings(home);
    if args.json {
        console.print_json(&ImportedProfileView {
            name: home.profile().to_string(),
            path: home.dir().display().to_string(),
            files: imported.files,
            left_out: imported.left_out,
            telling_settings: safety,
        })?;
        return Ok(Exit::Success);
    }
    let files = text::count(imported.files, "file");
    let (profile, dir) = (home.profile(), home.dir());
    console.print(&format!("created profile {profile} in {} ({files})", dir.display()))?;
    for path in imported.left_out {
        console.note(&format!("left out {path}, which is not imported"));
    }
    if !safety.is_empty() {
        let keys = safety.join(", ");
        let show = format!("vestal -p {profile} config show --changed");
        console.warn(&format!("its settings include {keys}; check them first: {show}"));
    }
    Ok(Exit::Success)
}
