//! `vestal profile`: its verbs, and what they share.

mod change;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use vestal_api::{ChosenProfileView, ExportedProfileView, ImportedProfileView};
use vestal_config::ProfileName;

use crate::console::{Cell, DIM, GREEN, Table, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
A profile is an isolated home with its own settings, secrets, conversations, memories, skills and
sandboxes. The profile is chosen by -p NAME, else $VESTAL_PROFILE, else `vestal profile use`, else
it is `default`. The exit code is 1 if a name is invalid, taken or unknown.

Example:
  vestal profile create work --clone && vestal -p work run 'echo at work'";

/// Manage profiles: isolated homes with their own settings and sandboxes.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ProfileArgs {
    #[command(subcommand)]
    verb: ProfileVerb,
}

#[derive(Debug, Subcommand)]
enum ProfileVerb {
    Create(change::CreateArgs),
    List(ListArgs),
    Show(ShowArgs),
    Use(UseArgs),
    Rename(change::RenameArgs),
    Delete(change::DeleteArgs),
    Export(ExportArgs),
    Import(ImportArgs),
}

pub(crate) async fn run(context: &Context, args: ProfileArgs) -> Result<Exit, CommandFailure> {
    context.refuse_unknown_option()?;
    match args.verb {
        ProfileVerb::Create(args) => change::create(context, &args),
        ProfileVerb::List(args) => list(context, &args),
        ProfileVerb::Show(args) => show(context, &args),
        ProfileVerb::Use(args) => choose(context, &args),
        ProfileVerb::Rename(args) => change::rename(context, args).await,
        ProfileVerb::Delete(args) => change::delete(context, args).await,
        ProfileVerb::Export(args) => export(context, &args),
        ProfileVerb::Import(args) => import(context, &args),
    }
}

/// Reads the name of a profile. A wrong one is not a wrong usage: the message and
/// the exit code are those of a name that is taken or unknown.
fn named(name: &str) -> Result<ProfileName, CommandFailure> {
    Ok(ProfileName::new(name)?)
}

const LIST_HELP: &str = "\
The default choice is marked with *.

Examples:
  vestal profile list
  vestal profile list --json | jq -r '.[].name'";

/// List the profiles.
#[derive(Debug, Args)]
#[command(after_help = LIST_HELP)]
pub(super) struct ListArgs {
    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(super) fn list(context: &Context, args: &ListArgs) -> Result<Exit, CommandFailure> {
    let current = context.home_if_any();
    let listing = context.profiles()?.list(current.as_ref());
    let console = context.console;
    if let Some(trouble) = context.fall_back_to_default() {
        console.warn(&trouble.to_string());
    }
    if args.json {
        console.print_json(&listing.profiles)?;
    } else {
        let mut table = Table::new(&["", "NAME", "MODEL", "DESCRIPTION", "PATH"]);
        for view in &listing.profiles {
            table.row(vec![
                Cell::styled(if view.active { "*" } else { "" }, GREEN),
                view.name.as_str().into(),
                view.model.as_deref().unwrap_or("-").into(),
                view.description.as_str().into(),
                Cell::styled(view.path.to_string_lossy(), DIM),
            ]);
        }
        console.print_table(&table)?;
    }
    for view in &listing.profiles {
        if let Some(problem) = &view.problem {
            console.warn(&format!("profile {}: {problem}", view.name));
        }
    }
    for stray in &listing.strays {
        console.warn(&format!("{} is not a profile: {}", stray.path.display(), stray.reason));
    }
    Ok(Exit::Success)
}

const SHOW_HELP: &str = "\
Model and provider are read from the files of the profile.

Examples:
  vestal profile show
  vestal profile show work --json";

/// Show a profile.
#[derive(Debug, Args)]
#[command(after_help = SHOW_HELP)]
pub(super) struct ShowArgs {
    /// Name of the profile [default: the current one].
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn show(context: &Context, args: &ShowArgs) -> Result<Exit, CommandFailure> {
    let current = context.home_if_any();
    let name = match &args.name {
        Some(name) => named(name)?,
        None => context.home_or_default()?.profile().clone(),
    };
    let details = context.profiles()?.show(&name, current.as_ref())?;
    let console = context.console;
    if args.json {
        console.print_json(&details)?;
        return Ok(Exit::Success);
    }
    let view = &details.view;
    let yes = |flag: bool| if flag { "yes" } else { "no" }.to_owned();
    let given = |text: Option<&str>| text.filter(|text| !text.is_empty()).unwrap_or("-").to_owned();
    let lines = [
        ("profile", view.name.clone()),
        ("description", given(Some(&view.description))),
        ("path", view.path.display().to_string()),
        ("active", yes(view.active)),
        ("model", given(view.model.as_deref())),
        ("provider", given(details.provider.as_deref())),
        ("sandboxes", details.sandboxes.to_string()),
        ("conversations", yes(details.conversations)),
        ("skills", details.skills.to_string()),
        ("memories", details.memories.to_string()),
        ("persona", yes(details.soul)),
    ];
    for (label, value) in lines {
        let label = console.paint(DIM, &format!("{label:<13}"));
        console.print(&format!("{label} {}", text::printable(&value)))?;
    }
    if let Some(problem) = &view.problem {
        console.warn(problem);
    }
    Ok(Exit::Success)
}

const CHOOSE_HELP: &str = "\
The choice stays until another is made. `default` can always be chosen.

Example:
  vestal profile use work";

/// Choose the profile to use by default.
#[derive(Debug, Args)]
#[command(after_help = CHOOSE_HELP)]
pub(super) struct UseArgs {
    /// Name of the profile.
    #[arg(value_name = "NAME")]
    name: String,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn choose(context: &Context, args: &UseArgs) -> Result<Exit, CommandFailure> {
    let name = named(&args.name)?;
    context.profiles()?.choose(&name)?;
    if args.json {
        context.console.print_json(&ChosenProfileView { name: name.to_string() })?;
    } else {
        context.console.print(&format!("now using profile {name}"))?;
    }
    let variable = context.environment().non_empty("VESTAL_PROFILE");
    if variable.is_some_and(|value| !value.eq_ignore_ascii_case(name.as_str())) {
        context.console.warn("VESTAL_PROFILE names another profile and takes precedence");
    }
    Ok(Exit::Success)
}

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
