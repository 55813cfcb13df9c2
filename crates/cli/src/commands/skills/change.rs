//! `vestal skills install`, `remove`, `enable` and `disable`.

use std::path::PathBuf;

use clap::Args;
use vestal_api::{InstalledSkillView, RemovedSkillView};
use vestal_skills::{Proposal, SkillName, SwitchedSkill, VariableState};

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

Examples:
  vestal skills install ~/src/pdf-forms
  vestal skills install pdf-forms.skill
  vestal skills install pdf-forms.tar.gz --name forms -y";

/// Install a skill from a folder or an archive.
#[derive(Debug, Args)]
#[command(after_help = INSTALL_HELP)]
pub(super) struct InstallArgs {
    /// Folder or archive to install from.
    #[arg(value_name = "PATH|ARCHIVE")]
    source: PathBuf,

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

pub(super) fn install(context: &Context, args: &InstallArgs) -> Result<Exit, CommandFailure> {
    let (skills, console) = (skills(context)?, context.console);
    let name = args.name.as_deref().map(SkillName::new).transpose()?;
    let proposal = skills.propose(&args.source, name.as_ref())?;
    if let Some(there) = proposal.goes().filter(|_| !args.replace) {
        let (name, path) = (proposal.about.name.to_string(), there.to_owned());
        return Err(vestal_skills::SkillError::Exists { name, path }.into());
    }
    if !args.yes {
        let question = format!("Install {}?", proposal.about.name);
        let plans = plans(&proposal);
        if !confirm::is_confirmed(console, "install it", &question, &plans)? {
            console.note("nothing was installed");
            return Ok(Exit::No);
        }
    }
    let installed = skills.install(&proposal)?;
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
