//! `vestal skills install`, `remove`, `enable` and `disable`.

use std::path::PathBuf;

use clap::Args;
use vestal_api::{InstalledSkillView, RemovedSkillView};
use vestal_skills::{
    CatalogueEntry, Proposal, SkillError, SkillName, SkillSource, Skills, SwitchedSkill,
    VariableState,
};

use super::read::amount;
use super::skills;
use crate::confirm;
use crate::console::text;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

/// Names of scripts that are shown before something is installed.
const MOST_NAMED: usize = 20;

const INSTALL_HELP: &str = "\
Shows what the skill asks for, and asks before anything is written; without a terminal, -y is
required. Archives are tar, tar.gz or zip (also named .skill). An archive with links, devices or
paths outside of it is refused; hidden files are skipped.

From a git repository (https or ssh) the commit is recorded, and `vestal skills update` looks for a newer
one; nothing of a repository is run. From a catalogue (skills.catalogue_url) a skill is named as
OWNER/REPOSITORY/SKILL.

Examples:
  vestal skills install ~/src/pdf-forms
  vestal skills install pdf-forms.skill
  vestal skills install pdf-forms.tar.gz --name forms -y
  vestal skills install https://github.com/example/skills --path pdf-forms
  vestal skills install git@example.org:team/skills.git --ref v2";

/// Install a skill from a folder, an archive, a git repository or the catalogue.
#[derive(Debug, Args)]
#[command(after_help = INSTALL_HELP)]
pub(super) struct InstallArgs {
    /// Folder, archive, address of a repository or an archive, or skill of the catalogue.
    #[arg(value_name = "PATH|URL|SKILL")]
    source: PathBuf,

    /// Where the skill is in the repository: a path, or the name of its folder.
    #[arg(long, value_name = "PATH")]
    path: Option<String>,

    /// Branch, tag or commit of the repository.
    #[arg(long = "ref", value_name = "REF")]
    reference: Option<String>,

    /// Install it under this name.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Replace an installed skill of the same name.
    #[arg(long)]
    replace: bool,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn install(context: &Context, args: &InstallArgs) -> Result<Exit, CommandFailure> {
    let (skills, console) = (skills(context)?, context.console);
    let name = args.name.as_deref().map(SkillName::new).transpose()?;
    let fetched = match remote(&skills, args)? {
        Some(source) => {
            let what = format!("fetching {source}");
            Some(console.while_waiting(&what, skills.fetch(&source)).await?)
        }
        None => None,
    };
    let archive = fetched.as_ref().map_or(&args.source, |fetched| &fetched.archive);
    let origin = fetched.as_ref().map(|fetched| &fetched.origin);
    let proposal = skills.propose(archive, name.as_ref())?;
    if let Some(there) = proposal.goes().filter(|_| !args.replace) {
        let (name, path) = (proposal.about.name.to_string(), there.to_owned());
        return Err(vestal_skills::SkillError::Exists { name, path }.into());
    }
    if !args.yes {
        let question = format!("Install {}?", proposal.about.name);
        let mut plans = plans(&proposal);
        if let Some(origin) = origin {
            plans.insert(1, text::printable(&format!("it is from {}", origin.in_words())));
        }
        if !confirm::is_confirmed(console, "install it", &question, &plans)? {
            console.note("nothing was installed");
            return Ok(Exit::No);
        }
    }
    let installed = skills.install_from(&proposal, origin)?;
    if args.json {
        console.print_json(&InstalledSkillView::new(&proposal, &installed))?;
        return Ok(Exit::Success);
    }
    let did = if installed.replaced { "replaced" } else { "installed" };
    let (name, dir) = (&installed.name, installed.dir.display());
    console.print(&format!("{did} {name} in {dir} ({})", amount(&proposal.survey)))?;
    for need in proposal.needs.iter().filter(|need| need.is_unmet()) {
        console.warn(&text::printable(&need.in_words()));
    }
    Ok(Exit::Success)
}

/// Returns where a skill is fetched from; none, if it is on this machine.
fn remote(skills: &Skills, args: &InstallArgs) -> Result<Option<SkillSource>, CommandFailure> {
    let (reference, path) = (args.reference.as_deref(), args.path.as_deref());
    let text = args.source.to_str().unwrap_or_default();
    let source = if args.source.exists() {
        None
    } else if let Some(source) = skills.catalogue_source(text)? {
        Some(source)
    } else if SkillSource::is_address(text) {
        Some(SkillSource::parse(text).map_err(SkillError::from)?)
    } else {
        None
    };
    match source {
        Some(source) => Ok(Some(source.with(reference, path).map_err(SkillError::from)?)),
        None if reference.is_some() || path.is_some() => {
            Err(CommandFailure::usage("--ref and --path are for repositories"))
        }
        None => Ok(None),
    }
}

const UPDATE_HELP: &str = "\
Looks for a newer commit of skills that were installed from a repository, or for another archive, shows
what would change and asks. Without names: all of them. Without a terminal, -y is required.

Examples:
  vestal skills update
  vestal skills update pdf-forms -y";

/// Update skills that were installed from elsewhere.
#[derive(Debug, Args)]
#[command(after_help = UPDATE_HELP)]
pub(super) struct UpdateArgs {
    /// Names of skills.
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,
}

pub(super) async fn update(context: &Context, args: &UpdateArgs) -> Result<Exit, CommandFailure> {
    let (skills, console) = (skills(context)?, context.console);
    let origins = skills.origins()?;
    let names: Vec<String> =
        if args.names.is_empty() { origins.keys().cloned().collect() } else { args.names.clone() };
    if names.is_empty() {
        console.note("no skill was installed from elsewhere");
        return Ok(Exit::Success);
    }
    let mut exit = Exit::Success;
    for name in &names {
        let Some(origin) = origins.get(name) else {
            // It may not even be there.
            skills.installed(name)?;
            let failure = CommandFailure::new(format!("{name} was not installed from elsewhere"));
            return Err(failure.with_exit(Exit::No));
        };
        let what = format!("fetching {}", origin.url);
        let fetched = match console.while_waiting(&what, skills.fetch(&origin.source())).await {
            Ok(fetched) => fetched,
            // The others may be had all the same.
            Err(error) => {
                console.warn(&text::printable(&error.to_string()));
                exit = Exit::No;
                continue;
            }
        };
        let is_changed_here = skills.is_changed_here(name)?;
        if fetched.origin.commit.is_some() && fetched.origin.commit == origin.commit {
            let changed = if is_changed_here { "; its files were changed here" } else { "" };
            console.print(&format!("{name} is up to date{changed}"))?;
            continue;
        }
        let own = SkillName::new(name)?;
        let proposal = skills.propose(&fetched.archive, Some(&own))?;
        if !args.yes {
            let mut plans = plans(&proposal);
            plans.insert(1, text::printable(&format!("it was {}", origin.in_words())));
            plans.insert(2, text::printable(&format!("it becomes {}", fetched.origin.in_words())));
            if is_changed_here {
                plans.push("its files were changed here; those changes go".to_owned());
            }
            let question = format!("Update {name}?");
            if !confirm::is_confirmed(console, "update it", &question, &plans)? {
                console.note(&format!("{name} was not updated"));
                exit = Exit::No;
                continue;
            }
        }
        skills.install_from(&proposal, Some(&fetched.origin))?;
        console
            .print(&format!("updated {name} to {}", text::printable(&fetched.origin.in_words())))?;
    }
    Ok(exit)
}

const CATALOGUE_HELP: &str = "\
Lists all skills of the catalogue that skills.catalogue_url names, as its sitemap has them; with words,
those whose names have all of them. What was walked counts for a day.

Examples:
  vestal config set skills.catalogue_url https://skills.sh
  vestal skills catalogue pdf
  vestal skills install OWNER/REPOSITORY/SKILL";

/// List the skills of a catalogue.
#[derive(Debug, Args)]
#[command(after_help = CATALOGUE_HELP)]
pub(super) struct CatalogueArgs {
    /// Words that a name must have.
    #[arg(value_name = "WORD")]
    words: Vec<String>,

    /// Walk the catalogue again.
    #[arg(long)]
    refresh: bool,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(super) async fn catalogue(
    context: &Context,
    args: &CatalogueArgs,
) -> Result<Exit, CommandFailure> {
    let (skills, console) = (skills(context)?, context.console);
    let walking = skills.remote_catalogue(args.refresh);
    let found = console.while_waiting("walking the catalogue", walking).await?;
    for notice in &found.notices {
        console.warn(&text::printable(notice));
    }
    let words: Vec<String> = args.words.iter().map(|word| word.to_lowercase()).collect();
    let has = |entry: &&CatalogueEntry| {
        let name = entry.full_name().to_lowercase();
        words.iter().all(|word| name.contains(word.as_str()))
    };
    let entries: Vec<&CatalogueEntry> = found.entries.iter().filter(has).collect();
    if args.json {
        console.print_json(&entries)?;
        return Ok(Exit::Success);
    }
    for entry in &entries {
        console.print(&entry.full_name())?;
    }
    console.note(&format!(
        "{} of {} in {}",
        text::count(entries.len(), "skill"),
        found.entries.len(),
        found.url
    ));
    Ok(if entries.is_empty() { Exit::No } else { Exit::Success })
}

/// Returns what a person should know before a skill is installed.
fn plans(proposal: &Proposal) -> Vec<String> {
    let about = &proposal.about;
    let version = about.version.as_ref().map(|own| format!(" {own}")).unwrap_or_default();
    let mut plans = vec![
        format!("{}{version}: {}", about.name, about.description),
        format!("it has {}", amount(&proposal.survey)),
    ];
    if let Some(there) = &proposal.replaces {
        let was = there.about.version.as_ref().map(|own| format!(" {own}")).unwrap_or_default();
        plans.push(format!("it replaces {}{was}", there.name()));
    }
    if let Some(there) = &proposal.mends {
        plans.push(format!("it replaces {}: {there}", there.name));
    }
    let scripts: Vec<String> =
        proposal.survey.scripts().map(|file| file.path.display().to_string()).collect();
    if !scripts.is_empty() {
        let more = scripts.len().saturating_sub(MOST_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named = scripts.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
        plans.push(format!("scripts that the agent may run: {named}{more}"));
    }
    for need in &proposal.needs {
        plans.push(match need.state {
            VariableState::Set => format!(
                "it asks for {}: every command in the sandboxes of this profile will be able to \
                 read its value",
                need.variable.name
            ),
            _ => format!("it asks for {}: {}", need.variable.name, need.in_words()),
        });
    }
    for path in &proposal.left_out {
        plans.push(format!("left out: {path}"));
    }
    plans.iter().map(|plan| text::printable(plan)).collect()
}

const REMOVE_HELP: &str = "\
Asks for confirmation on a terminal; without a terminal, -y is required.

Example:
  vestal skills remove pdf-forms";

/// Remove a skill and its folder, even if it is broken.
#[derive(Debug, Args)]
#[command(after_help = REMOVE_HELP)]
pub(super) struct RemoveArgs {
    /// Name of the skill.
    #[arg(value_name = "NAME")]
    name: String,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn remove(context: &Context, args: &RemoveArgs) -> Result<Exit, CommandFailure> {
    let (skills, console) = (skills(context)?, context.console);
    let catalogue = skills.catalogue();
    let there = catalogue.get(&args.name).map(|skill| skill.dir.clone());
    let there =
        there.or_else(|| catalogue.get_broken(&args.name).map(|own| own.folder().to_owned()));
    if let Some(path) = there.filter(|_| !args.yes) {
        let plans = [format!("{} will be removed, with everything in it", path.display())];
        let question = format!("Remove {}?", args.name);
        if !confirm::is_confirmed(console, "remove it", &question, &plans)? {
            console.note("nothing was removed");
            return Ok(Exit::No);
        }
    }
    let path = skills.remove(&args.name)?.display().to_string();
    if args.json {
        console.print_json(&RemovedSkillView { name: args.name.clone(), path })?;
    } else {
        console.print(&format!("removed {}, which was in {path}", args.name))?;
    }
    Ok(Exit::Success)
}

const AFTER_ENABLE: &str = "\
Removes the skill from skills.disabled in config.yaml.

Example:
  vestal skills enable pdf-forms";

const AFTER_DISABLE: &str = "\
Adds the skill to skills.disabled in config.yaml: the agent no longer sees it, and the variables it
asks for are not forwarded.

Example:
  vestal skills disable pdf-forms";

/// Enable a skill.
#[derive(Debug, Args)]
#[command(after_help = AFTER_ENABLE)]
pub(super) struct EnableArgs {
    /// Name of the skill.
    #[arg(value_name = "NAME")]
    name: String,
}

/// Disable a skill without removing it.
#[derive(Debug, Args)]
#[command(after_help = AFTER_DISABLE)]
pub(super) struct DisableArgs {
    /// Name of the skill.
    #[arg(value_name = "NAME")]
    name: String,
}

pub(super) fn enable(context: &Context, args: &EnableArgs) -> Result<Exit, CommandFailure> {
    let switched = skills(context)?.enable(&args.name)?;
    let did = if switched.is_changed { "enabled" } else { "was enabled already:" };
    print_switched(context, did, &switched)
}

pub(super) fn disable(context: &Context, args: &DisableArgs) -> Result<Exit, CommandFailure> {
    let switched = skills(context)?.disable(&args.name)?;
    let did = if switched.is_changed { "disabled" } else { "was disabled already:" };
    print_switched(context, did, &switched)
}

fn print_switched(
    context: &Context,
    did: &str,
    switched: &SwitchedSkill,
) -> Result<Exit, CommandFailure> {
    context.console.print(&format!("{did} {}", switched.name))?;
    if let Some(warning) = &switched.warning {
        context.console.warn(warning);
    }
    Ok(Exit::Success)
}
