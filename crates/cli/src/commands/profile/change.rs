//! `vestal profile create`, `rename` and `delete`, and what the last two do to sandboxes.

use clap::Args;
use vestal_api::{CreatedProfileView, DeletedProfileView, RenamedProfileView};
use vestal_config::{Environment, Home, Settings, ValueSource};
use vestal_profiles::ProfileStart;
use vestal_sandbox::{ProfileSandboxes, ProfileSandboxesError, SandboxSummary, keys};

use super::named;
use crate::commands::gateway;
use crate::confirm;
use crate::console::text;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;
use crate::values::quoted;

const CREATE_HELP: &str = "\
A clone has the config.yaml, .env, SOUL.md, skills and memories of the other profile, but not its
conversations and sandboxes.

Examples:
  vestal profile create work --description 'for pay'
  vestal profile create spare --clone-from work";

/// Create a profile.
#[derive(Debug, Args)]
#[command(after_help = CREATE_HELP)]
pub(super) struct CreateArgs {
    /// Name of the profile: a-z, 0-9, _ and -; capitals become small letters.
    #[arg(value_name = "NAME")]
    name: String,

    /// Copy settings, secrets, skills and memories of the current profile.
    #[arg(long, conflicts_with = "clone_from")]
    clone: bool,

    /// Copy them from this profile.
    #[arg(long, value_name = "PROFILE")]
    clone_from: Option<String>,

    /// One-line description.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    description: String,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn create(context: &Context, args: &CreateArgs) -> Result<Exit, CommandFailure> {
    let name = named(&args.name)?;
    let start = match (&args.clone_from, args.clone) {
        (Some(source), _) => ProfileStart::CloneOf(named(source)?),
        (None, true) => ProfileStart::CloneOf(context.home()?.profile().clone()),
        (None, false) => ProfileStart::Empty,
    };
    let created = context.profiles()?.create(&name, &start, &args.description)?;
    let console = context.console;
    let left_out: Vec<String> =
        created.left_out.iter().map(|path| path.display().to_string()).collect();
    for path in &left_out {
        console.warn(&format!("{path} was not copied: it is neither a file nor a directory"));
    }
    if !created.secrets_left_out.is_empty() {
        console.note(&format!(
            "{} of .env was not copied: it opens the other profile; give this one a key of its own",
            created.secrets_left_out.join(", ")
        ));
    }
    let settings = Settings::load(
        &vestal_api::schema(),
        created.home.clone(),
        Environment::default(),
        Vec::new(),
    );
    if let Ok(dir) = settings.get(&keys::SANDBOX_DIR)
        && matches!(dir.source, ValueSource::File { .. } | ValueSource::DotEnv { .. })
    {
        console.warn(&format!(
            "{} sets terminal.sandbox_dir, which two profiles cannot share; change it",
            dir.source
        ));
    }
    if args.json {
        let path = created.home.dir().display().to_string();
        console.print_json(&CreatedProfileView { name: name.to_string(), path, left_out })?;
        return Ok(Exit::Success);
    }
    console.print(&format!("created profile {name} in {}", created.home.dir().display()))?;
    console
        .note(&format!("to use it: vestal -p {name} …, or from now on: vestal profile use {name}"));
    print_model(context, &created.home);
    Ok(Exit::Success)
}

/// Says which model a new profile asks, unless that is its own.
fn print_model(context: &Context, home: &Home) {
    let settings = Settings::load(
        &vestal_api::schema(),
        home.clone(),
        context.environment().clone(),
        Vec::new(),
    );
    let own = format!("vestal -p {} model setup", home.profile());
    let asked = vestal_agent::settings::endpoints(&settings, None);
    let inherited = vestal_agent::settings::inherited(&settings);
    match (asked, inherited) {
        (Ok(chain), Ok(Some(_))) => {
            let model = chain.first().map(|asked| format!("{}:{}", asked.name, asked.model));
            let model = model.unwrap_or_default();
            context.console.note(&format!(
                "it uses the model of the profile default ({model}) until it has its own: {own}"
            ));
        }
        (Ok(_), _) => {}
        (Err(error), _) => context.console.note(&format!("{error}; to give it a model: {own}")),
    }
}

const RENAME_HELP: &str = "\
Sandboxes belong to a profile by its name. Their instances are removed, with running jobs and
anything installed in them; workspaces, homes and snapshots stay, and the next use creates new
instances with them.

Example:
  vestal profile rename work office";

/// Rename a profile.
#[derive(Debug, Args)]
#[command(after_help = RENAME_HELP)]
pub(super) struct RenameArgs {
    /// Name of the profile.
    #[arg(value_name = "NAME")]
    from: String,

    /// New name.
    #[arg(value_name = "NEW-NAME")]
    to: String,

    /// Do not ask before sandbox instances are removed.
    #[arg(short, long)]
    yes: bool,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn rename(context: &Context, args: RenameArgs) -> Result<Exit, CommandFailure> {
    let (from, to) = (named(&args.from)?, named(&args.to)?);
    let profiles = context.profiles()?;
    let (old, _) = profiles.check_rename(&from, &to)?;
    let mut instances = 0;
    if let Some(found) = find_sandboxes(context, &old).await? {
        found.refuse_volumes().await?;
        let plans = removal_plans(&found);
        let question = "Workspaces and homes stay. Rename?";
        let verb = "remove instances";
        if !plans.is_empty()
            && !args.yes
            && !confirm::is_confirmed(context.console, verb, question, &plans)?
        {
            context.console.note("nothing was renamed");
            return Ok(Exit::No);
        }
        let what = format!("removing the instances of profile {from}");
        instances = context.console.while_waiting(&what, found.release()).await?;
    }
    let home = profiles.rename(&from, &to)?;
    if args.json {
        context.console.print_json(&RenamedProfileView {
            name: to.to_string(),
            was: from.to_string(),
            path: home.dir().display().to_string(),
            instances,
        })?;
    } else {
        let path = home.dir().display().to_string();
        context.console.print(&format!("profile {from} is now {to}, in {path}"))?;
    }
    Ok(Exit::Success)
}

const DELETE_HELP: &str = "\
Its sandboxes are removed first, with their files. If one of them cannot be reached, nothing is
deleted. Asks for confirmation on a terminal; without a terminal, -y is required.

Example:
  vestal profile delete work";

/// Delete a profile with everything in it.
#[derive(Debug, Args)]
#[command(after_help = DELETE_HELP)]
pub(super) struct DeleteArgs {
    /// Name of the profile.
    #[arg(value_name = "NAME")]
    name: String,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn delete(context: &Context, args: DeleteArgs) -> Result<Exit, CommandFailure> {
    let name = named(&args.name)?;
    let profiles = context.profiles()?;
    let home = profiles.check_delete(&name)?;
    let found = find_sandboxes(context, &home).await?;
    let mut plans = found.as_ref().map(removal_plans).unwrap_or_default();
    plans.push(format!(
        "{} will be deleted, with settings, secrets, conversations, memories and skills",
        home.dir().display()
    ));
    if !args.yes && !confirm::is_named(context.console, "delete", name.as_str(), &plans)? {
        context.console.note("nothing was deleted");
        return Ok(Exit::No);
    }
    // Nothing writes into the directory while it is deleted.
    gateway::stop_before_removal(context, &name).await?;
    let removed = match found {
        Some(found) => {
            let what = format!("removing the sandboxes of profile {name}");
            context.console.while_waiting(&what, found.remove()).await?
        }
        None => Vec::new(),
    };
    profiles.delete(&name)?;
    if args.json {
        let view = DeletedProfileView { name: name.to_string(), sandboxes: removed };
        context.console.print_json(&view)?;
        return Ok(Exit::Success);
    }
    let with = match removed.as_slice() {
        [] => String::new(),
        tasks => format!(" and its sandboxes {}", tasks.join(", ")),
    };
    context.console.print(&format!("deleted profile {name}{with}"))?;
    Ok(Exit::Success)
}

/// Finds the sandboxes of a profile; nothing where it never had any.
async fn find_sandboxes(
    context: &Context,
    home: &Home,
) -> Result<Option<ProfileSandboxes>, CommandFailure> {
    if !ProfileSandboxes::may_exist(home) {
        return Ok(None);
    }
    let finding = ProfileSandboxes::find(context.engine_of(home.clone())?, home);
    Ok(Some(context.console.while_waiting("looking for sandboxes", finding).await?))
}

/// Says of each sandbox what is removed with its instance.
fn removal_plans(sandboxes: &ProfileSandboxes) -> Vec<String> {
    sandboxes.instances().map(removal_plan).collect()
}

fn removal_plan(own: &SandboxSummary) -> String {
    let jobs = text::count(own.jobs_running, "running job");
    let is_a_system = own.description.image.is_some() || own.description.tier.is_some();
    let installed = if is_a_system { ", with everything installed in it" } else { "" };
    format!("{}: the sandbox on {} with {jobs} will be removed{installed}", own.task, own.backend)
}

impl From<ProfileSandboxesError> for CommandFailure {
    fn from(error: ProfileSandboxesError) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            ProfileSandboxesError::Hidden { dir, .. } => failure.advise(format!(
                "terminal.sandbox_dir hides them; to list them: vestal --set terminal.sandbox_dir={} ps",
                quoted(&dir.to_string_lossy())
            )),
            ProfileSandboxesError::Left { .. } | ProfileSandboxesError::Io { .. } => failure,
            ProfileSandboxesError::Unreachable { sandboxes, .. } => failure
                .advise(sandboxes.join("\n"))
                .advise("start the engine, or see what works here: vestal doctor"),
            ProfileSandboxesError::InVolumes { .. } => failure.advise(
                "copy out what you need with `vestal cp`, then remove it with `vestal rm --files`",
            ),
            ProfileSandboxesError::Engine(error) => error.into(),
            ProfileSandboxesError::Sandbox { task, source } => Self::from(*source).about(&task),
        }
    }
}
