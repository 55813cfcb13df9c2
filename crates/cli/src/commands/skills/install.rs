//! `vestal skills install`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use vestal_skills::{Proposal, SkillName, State};

use super::skills;
use super::view::{VariableView, amount};
use crate::confirm;
use crate::console::text;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

/// Names of scripts that are shown before something is installed.
const MOST_NAMED: usize = 20;

const AFTER_HELP: &str = "\
Shows what the skill asks for and asks before anything is written; without a terminal, say -y. An
archive (tar, tar.gz, or zip, also when it is called .skill) with links, devices or paths that lead
elsewhere is refused as a whole; hidden files are left out.

Examples:
  vestal skills install ~/src/pdf-forms
  vestal skills install pdf-forms.skill
  vestal skills install pdf-forms.tar.gz --name forms -y";

/// Installs a skill from a folder or an archive.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct InstallArgs {
    /// The folder, or the archive.
    #[arg(value_name = "PATH|ARCHIVE")]
    source: PathBuf,

    /// Another name than its own.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Puts it in the place of a skill that has its name.
    #[arg(long)]
    replace: bool,

    /// Doesn't ask.
    #[arg(short, long)]
    yes: bool,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct InstalledView {
    name: String,
    path: String,
    files: usize,
    bytes: u64,
    scripts: Vec<String>,
    variables: Vec<VariableView>,
    left_out: Vec<String>,
    replaced: bool,
}

pub(super) fn run(context: &Context, args: &InstallArgs) -> Result<Exit, Failure> {
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
        let scripts = proposal.survey.scripts().map(|file| file.path.display().to_string());
        console.print_json(&InstalledView {
            name: installed.name.to_string(),
            path: installed.dir.display().to_string(),
            files: installed.files,
            bytes: proposal.survey.bytes,
            scripts: scripts.collect(),
            variables: proposal.needs.iter().map(VariableView::of).collect(),
            left_out: proposal.left_out,
            replaced: installed.replaced,
        })?;
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

/// Returns what there is to know before a skill is installed.
fn plans(proposal: &Proposal) -> Vec<String> {
    let about = &proposal.about;
    let version = about.version.as_ref().map(|own| format!(" {own}")).unwrap_or_default();
    let mut plans = vec![
        format!("{}{version}: {}", about.name, about.description),
        format!("it has {}", amount(&proposal.survey)),
    ];
    if let Some(there) = &proposal.replaces {
        let was = there.about.version.as_ref().map(|own| format!(" {own}")).unwrap_or_default();
        plans.push(format!("it takes the place of {}{was}, which goes", there.name()));
    }
    if let Some(there) = &proposal.mends {
        plans.push(format!("it takes the place of {}, which goes: {there}", there.name));
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
            State::Set => format!(
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
