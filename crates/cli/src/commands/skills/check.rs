//! `vestal skills check`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::skills;
use super::view::BrokenView;
use crate::console::text;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Without a path, all that is installed is checked. The exit code is 1 when something is wrong, or a
variable is missing that a skill cannot do without.

Examples:
  vestal skills check
  vestal skills check ./my-skill";

/// Checks skills: those that are installed, or one that is being written.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct CheckArgs {
    /// A folder, an archive or a SKILL.md.
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct CheckView {
    ok: bool,
    /// Names of skills that are in order.
    fine: Vec<String>,
    broken: Vec<BrokenView>,
    missing: Vec<MissingView>,
}

#[derive(Debug, Serialize)]
struct MissingView {
    skill: String,
    variable: String,
    words: String,
}

pub(super) fn run(context: &Context, args: &CheckArgs) -> Result<Exit, Failure> {
    let (skills, console) = (skills(context)?, context.console);
    let mut view =
        CheckView { ok: true, fine: Vec::new(), broken: Vec::new(), missing: Vec::new() };
    if let Some(path) = &args.path {
        match skills.check(path) {
            Ok(about) => view.fine.push(about.name.to_string()),
            Err(error) => view.broken.push(BrokenView {
                name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                path: path.display().to_string(),
                line: None,
                reason: error.to_string(),
                advice: String::new(),
            }),
        }
    } else {
        let catalogue = skills.catalogue();
        view.broken = catalogue.broken.iter().map(BrokenView::from).collect();
        for skill in &catalogue.skills {
            let name = skill.name().to_string();
            if let Err(error) = skills.survey(skill) {
                view.broken.push(BrokenView {
                    name,
                    path: skill.dir.display().to_string(),
                    line: None,
                    reason: format!("its files cannot be shown to a sandbox: {error}"),
                    advice: "remove what is too large, links that lead elsewhere, and the like"
                        .to_owned(),
                });
                continue;
            }
            view.fine.push(name.clone());
            for need in skills.needs(skill).iter().filter(|need| skill.enabled && need.is_unmet()) {
                view.missing.push(MissingView {
                    skill: name.clone(),
                    variable: need.variable.name.to_string(),
                    words: need.in_words(),
                });
            }
        }
    }
    view.ok = view.broken.is_empty() && view.missing.is_empty();
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
    let fine = text::count(view.fine.len() as u64, "skill");
    console.print(&format!("{fine} in order, {} broken", view.broken.len()))?;
    Ok(exit)
}
