//! `vestal skills list`, `show` and `check`.

use std::path::PathBuf;

use clap::Args;
use vestal_api::{
    BrokenSkillView, MissingVariableView, SkillCheckView, SkillDetailsView, SkillFileView,
    SkillView, SkillsView,
};
use vestal_skills::Survey;

use super::skills;
use crate::console::{BOLD, Cell, DIM, Table, YELLOW, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

const LIST_HELP: &str = "\
Broken skills are listed with the reason and what to do about it; they do not affect the others.

Examples:
  vestal skills list
  vestal skills list --json | jq -r '.skills[].name'";

/// List the installed skills.
#[derive(Debug, Args)]
#[command(after_help = LIST_HELP)]
pub(super) struct ListArgs {
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn list(context: &Context, args: &ListArgs) -> Result<Exit, CommandFailure> {
    let (skills, console) = (skills(context)?, context.console);
    let catalogue = skills.catalogue();
    let views: Vec<SkillView> =
        catalogue.skills.iter().map(|skill| SkillView::new(skill, &skills.needs(skill))).collect();
    if args.json {
        let broken = catalogue.broken.iter().map(BrokenSkillView::from).collect();
        console.print_json(&SkillsView { skills: views, broken })?;
        return Ok(Exit::Success);
    }
    if views.is_empty() && catalogue.broken.is_empty() {
        console.note(&format!("no skills in {}", skills.root().display()));
        console.note("to install one: vestal skills install FOLDER|ARCHIVE");
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["NAME", "STATE", "CATEGORY", "DESCRIPTION"]);
    for view in &views {
        let (state, style) = match (view.enabled, view.missing.as_slice()) {
            (false, _) => ("disabled".to_owned(), DIM),
            (true, []) => ("enabled".to_owned(), DIM),
            (true, missing) => (format!("lacks {}", missing.join(", ")), YELLOW),
        };
        table.row(vec![
            view.name.as_str().into(),
            Cell::styled(state, style),
            view.category.as_deref().unwrap_or("-").into(),
            Cell::styled(short(&view.description), DIM),
        ]);
    }
    if !table.is_empty() {
        console.print_table(&table)?;
    }
    for broken in &catalogue.broken {
        console.warn(&broken.to_string());
    }
    Ok(Exit::Success)
}

/// Returns the beginning of a description, for a line of a table.
fn short(description: &str) -> String {
    match description.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", description[..at].trim_end()),
        None => description.to_owned(),
    }
}

const SHOW_HELP: &str = "\
Example:
  vestal skills show pdf-forms";

/// Show the instructions and files of a skill, and the variables it asks for.
#[derive(Debug, Args)]
#[command(after_help = SHOW_HELP)]
pub(super) struct ShowArgs {
    /// Name of the skill.
    #[arg(value_name = "NAME")]
    name: String,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn show(context: &Context, args: &ShowArgs) -> Result<Exit, CommandFailure> {
    let (skills, console) = (skills(context)?, context.console);
    let skill = skills.installed(&args.name)?;
    let content = skills.read_instructions(&skill)?;
    let survey = skills.survey(&skill);
    let needs = skills.needs(&skill);
    if args.json {
        let files =
            survey.iter().flat_map(|survey| &survey.files).map(SkillFileView::from).collect();
        let skill = SkillView::new(&skill, &needs);
        console.print_json(&SkillDetailsView { skill, files, content })?;
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

const CHECK_HELP: &str = "\
Without a path, all installed skills are checked. The exit code is 1 if a skill is broken, or lacks
a required variable.

Examples:
  vestal skills check
  vestal skills check ./my-skill";

/// Check the installed skills, or one that you are writing.
#[derive(Debug, Args)]
#[command(after_help = CHECK_HELP)]
pub(super) struct CheckArgs {
    /// Folder, archive or SKILL.md to check.
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn check(context: &Context, args: &CheckArgs) -> Result<Exit, CommandFailure> {
    let (skills, console) = (skills(context)?, context.console);
    let mut view = SkillCheckView::default();
    if let Some(path) = &args.path {
        match skills.check(path) {
            Ok(about) => view.fine.push(about.name.to_string()),
            Err(error) => view.broken.push(BrokenSkillView {
                name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                path: path.display().to_string(),
                line: None,
                reason: error.to_string(),
                advice: String::new(),
            }),
        }
    } else {
        let catalogue = skills.catalogue();
        view.broken = catalogue.broken.iter().map(BrokenSkillView::from).collect();
        for skill in &catalogue.skills {
            let name = skill.name().to_string();
            if let Err(error) = skills.survey(skill) {
                view.broken.push(BrokenSkillView {
                    name,
                    path: skill.dir.display().to_string(),
                    line: None,
                    reason: format!("its files cannot be shown to a sandbox: {error}"),
                    advice: "remove large files, and links that lead out of the folder".to_owned(),
                });
                continue;
            }
            view.fine.push(name.clone());
            for need in skills.needs(skill).iter().filter(|need| skill.enabled && need.is_unmet()) {
                view.missing.push(MissingVariableView {
                    skill: name.clone(),
                    variable: need.variable.name.to_string(),
                    words: need.in_words(),
                });
            }
        }
    }
    let view = view.concluded();
    let exit = if view.ok { Exit::Success } else { Exit::No };
    if args.json {
        console.print_json(&view)?;
        return Ok(exit);
    }
    for broken in &view.broken {
        let line = broken.line.map(|line| format!(":{line}")).unwrap_or_default();
        let advice =
            if broken.advice.is_empty() { String::new() } else { format!("; {}", broken.advice) };
        let place =
            if args.path.is_some() { String::new() } else { format!("{}{line}: ", broken.path) };
        console.warn(&text::printable(&format!("{place}{}{advice}", broken.reason)));
    }
    for missing in &view.missing {
        let words = format!("skill {}: {}", missing.skill, missing.words);
        console.warn(&text::printable(&words));
    }
    let fine = text::count(view.fine.len(), "skill");
    console.print(&format!("{fine} in order, {} broken", view.broken.len()))?;
    Ok(exit)
}

/// Returns how much a skill is, in words.
pub(super) fn amount(survey: &Survey) -> String {
    let files = text::count(survey.files.len(), "file");
    format!("{files}, {}", text::bytes(survey.bytes))
}
