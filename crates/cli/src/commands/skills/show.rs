//! `vestal skills show`.

use clap::Args;
use serde::Serialize;

use super::skills;
use super::view::{FileView, SkillView, amount};
use crate::console::{BOLD, text};
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Example:
  vestal skills show pdf-forms";

/// Shows a skill: its instructions, files and the variables it asks for.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ShowArgs {
    /// The skill.
    #[arg(value_name = "NAME")]
    name: String,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct ShowView {
    #[serde(flatten)]
    skill: SkillView,
    files: Vec<FileView>,
    /// All of SKILL.md.
    content: String,
}

pub(super) fn run(context: &Context, args: &ShowArgs) -> Result<Exit, Failure> {
    let (skills, console) = (skills(context)?, context.console);
    let skill = skills.installed(&args.name)?;
    let content = skills.read_instructions(&skill)?;
    let survey = skills.survey(&skill);
    let needs = skills.needs(&skill);
    if args.json {
        let files = survey.iter().flat_map(|survey| &survey.files).map(FileView::from).collect();
        let skill = SkillView::of(&skill, &needs);
        console.print_json(&ShowView { skill, files, content })?;
        return Ok(Exit::Success);
    }
    let about = &skill.about;
    let version = about.version.as_ref().map(|own| format!(" {own}")).unwrap_or_default();
    let disabled = if skill.enabled { "" } else { " (disabled)" };
    let title = console.paint(BOLD, &format!("{}{}", about.name, text::printable(&version)));
    console.print(&format!("{title}{disabled}: {}", text::printable(&about.description)))?;
    console.print(&text::printable(&format!("in {}", skill.dir.display())))?;
    match &survey {
        Ok(survey) => {
            console.print(&amount(survey))?;
            for file in &survey.files {
                let script = if file.is_script { "  (script)" } else { "" };
                let path = text::printable(&file.path.display().to_string());
                console.print(&format!("  {path}{script}"))?;
            }
        }
        Err(error) => console.warn(&format!("its files cannot be shown to a sandbox: {error}")),
    }
    for need in &needs {
        let words = text::printable(&need.in_words());
        if need.is_unmet() { console.warn(&words) } else { console.print(&words)? }
    }
    console.print("")?;
    console.print(text::harmless(content.trim_end()).as_str())?;
    Ok(Exit::Success)
}
