//! Skills: folders with a `SKILL.md`, in categories or not.

use std::collections::BTreeSet;
use std::sync::Arc;

use vestal_config::Settings;
use vestal_skills::{SkillError, Skills};

use crate::ledger::REMOVED;
use crate::migration::MigratedHome;
use crate::plan::{Action, ItemKind, MigrationStep, PlanItem};
use crate::source::SourceEntryKind;

/// How deep folders of categories are looked into.
const DEEPEST: usize = 3;
/// The folders that are looked into at most.
const MOST: usize = 2000;

/// Says what becomes of each skill.
pub(crate) fn plan(place: &MigratedHome<'_>, items: &mut Vec<PlanItem>) {
    let settings = Arc::new(place.settings());
    let skills = vestal_skills::from_settings(&settings);
    let shipped = shipped(place);
    let mut finder = SkillFinder { place, skills, shipped, items, left: Vec::new(), seen: 0 };
    finder.visit("skills", 0);
    let left = std::mem::take(&mut finder.left);
    if !left.is_empty() {
        let reason = "came with that program; copy one with vestal skills install PATH";
        let names = left.join(", ");
        items.push(PlanItem::new(ItemKind::Skill, place.name, names, Action::Leave, reason));
    }
}

/// Returns the names of the skills that came with the program.
fn shipped(place: &MigratedHome<'_>) -> BTreeSet<String> {
    let text = place.source.text("skills/.bundled_manifest").ok().flatten();
    let text = text.map(|(text, _)| text).unwrap_or_default();
    text.lines()
        .map(|line| line.split(':').next().unwrap_or(line).trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}

struct SkillFinder<'p, 'i> {
    place: &'p MigratedHome<'p>,
    skills: Skills,
    shipped: BTreeSet<String>,
    items: &'i mut Vec<PlanItem>,
    left: Vec<String>,
    seen: usize,
}

impl SkillFinder<'_, '_> {
    fn visit(&mut self, folder: &str, depth: usize) {
        self.seen += 1;
        if self.seen > MOST || depth > DEEPEST {
            return;
        }
        let entries = match self.place.source.list(folder) {
            Ok(entries) => entries,
            Err(error) => return self.note(folder, Action::Broken, &error.to_string()),
        };
        if depth > 0 && entries.iter().any(|(name, _)| name == "SKILL.md") {
            return self.skill(folder);
        }
        for (name, kind) in entries {
            let path = format!("{folder}/{name}");
            match kind {
                _ if name.starts_with('.') => {}
                SourceEntryKind::Dir => self.visit(&path, depth + 1),
                SourceEntryKind::Link => {
                    self.note(&path, Action::Broken, "it is a link, and links are not followed");
                }
                SourceEntryKind::File | SourceEntryKind::Other => {}
            }
        }
    }

    fn note(&mut self, from: &str, action: Action, reason: &str) {
        self.items.push(PlanItem::new(ItemKind::Skill, self.place.name, from, action, reason));
    }

    fn skill(&mut self, folder: &str) {
        let dir = self.place.source.dir.join(folder);
        let proposal = match self.skills.propose(&dir, None) {
            Ok(proposal) => proposal,
            Err(error) => {
                let reason = match error {
                    SkillError::Source { reason, .. } => reason,
                    other => other.to_string(),
                };
                return self.note(folder, Action::Broken, &reason);
            }
        };
        let name = proposal.about.name.to_string();
        let leaf = folder.rsplit('/').next().unwrap_or(folder);
        if self.shipped.contains(&name) || self.shipped.contains(leaf) {
            self.left.push(name);
            return;
        }
        let item =
            PlanItem::new(ItemKind::Skill, self.place.name, folder, Action::Take, "").to(&name);
        let (action, reason) = if proposal.goes().is_some() {
            (Action::Present, "one of that name is here")
        } else if self.place.ledger.has(&item.record_key()) {
            (Action::Leave, REMOVED)
        } else {
            (Action::Take, "")
        };
        let item = PlanItem { action, reason: reason.to_owned(), ..item };
        let step = MigrationStep::Skill { home: self.place.home.clone(), dir };
        self.items.push(if item.is_pending() { item.step(step) } else { item });
    }
}

/// Installs a skill, unless one of its name is here.
pub(crate) fn install(settings: Settings, dir: &std::path::Path) -> Result<(), String> {
    let skills = vestal_skills::from_settings(&Arc::new(settings));
    let proposal = skills.propose(dir, None).map_err(|error| error.to_string())?;
    if proposal.goes().is_some() {
        return Ok(());
    }
    match skills.install(&proposal) {
        Ok(_) | Err(SkillError::Exists { .. }) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
