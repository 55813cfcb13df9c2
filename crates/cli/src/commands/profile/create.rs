//! `vestal profile create`.

use clap::Args;
use serde::Serialize;
use vestal_config::profiles::Start;
use vestal_config::{Environment, Home, Settings, Source, keys};

use super::named;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
A clone has config.yaml, .env, SOUL.md, skills and memories of the other profile, and none of its
conversations and sandboxes.

Examples:
  vestal profile create work --description 'for pay'
  vestal profile create spare --clone-from work";

/// Makes a profile.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct CreateArgs {
    /// Its name: a-z, 0-9, _ and -; capitals become small letters.
    #[arg(value_name = "NAME")]
    name: String,

    /// Begins with what the profile in use has.
    #[arg(long, conflicts_with = "clone_from")]
    clone: bool,

    /// Begins with what another profile has.
    #[arg(long, value_name = "PROFILE")]
    clone_from: Option<String>,

    /// What it is for, in one line.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    description: String,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct CreatedView {
    name: String,
    path: String,
    /// What was not copied because it is neither a file nor a directory.
    left_out: Vec<String>,
}

pub(super) fn run(context: &Context, args: &CreateArgs) -> Result<Exit, Failure> {
    let name = named(&args.name)?;
    let start = match (&args.clone_from, args.clone) {
        (Some(source), _) => Start::CloneOf(named(source)?),
        (None, true) => Start::CloneOf(context.home()?.profile().clone()),
        (None, false) => Start::Empty,
    };
    let created = context.profiles()?.create(&name, &start, &args.description)?;
    let console = context.console;
    let left_out: Vec<String> =
        created.left_out.iter().map(|path| path.display().to_string()).collect();
    for path in &left_out {
        console.warn(&format!("{path} was not copied: it is neither a file nor a directory"));
    }
    let settings = Settings::load(
        &vestal_config::schema(),
        created.home.clone(),
        Environment::default(),
        Vec::new(),
    );
    if let Ok(dir) = settings.get(&keys::SANDBOX_DIR)
        && matches!(dir.source, Source::File { .. } | Source::DotEnv { .. })
    {
        console.warn(&format!(
            "{} sets terminal.sandbox_dir, which two profiles cannot share; change it",
            dir.source
        ));
    }
    if args.json {
        let path = created.home.dir().display().to_string();
        console.print_json(&CreatedView { name: name.to_string(), path, left_out })?;
        return Ok(Exit::Success);
    }
    console.print(&format!("made profile {name} in {}", created.home.dir().display()))?;
    console
        .note(&format!("to use it: vestal -p {name} …, or from now on: vestal profile use {name}"));
    tell_model(context, &created.home);
    Ok(Exit::Success)
}

/// Says which model a new profile asks, unless that is its own.
fn tell_model(context: &Context, home: &Home) {
    let settings = Settings::load(
        &vestal_config::schema(),
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
                "it asks the model of the profile default ({model}) until it has its own: {own}"
            ));
        }
        (Ok(_), _) => {}
        (Err(error), _) => context.console.note(&format!("{error}; to give it a model: {own}")),
    }
}
