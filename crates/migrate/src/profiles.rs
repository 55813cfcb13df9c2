//! Profiles of the other home, and which one is chosen there.

use vestal_config::{Home, ProfileName, Yaml, YamlKind};
use vestal_profiles::Profiles;

use crate::ledger::{Ledger, REMOVED};
use crate::plan::{Action, ItemKind, MigrationStep, PlanItem};
use crate::source::{SourceEntryKind, SourceHome};

/// Returns the profiles that come, and says what becomes of all of them.
pub(crate) fn plan(
    source: &SourceHome,
    home: &Home,
    ledger: &Ledger,
    items: &mut Vec<PlanItem>,
) -> Vec<(ProfileName, SourceHome)> {
    let mut found = Vec::new();
    let entries = match source.list("profiles") {
        Ok(entries) => entries,
        Err(error) => {
            let item = PlanItem::new(
                ItemKind::Profile,
                "default",
                "profiles",
                Action::Broken,
                error.to_string(),
            );
            items.push(item);
            return found;
        }
    };
    for (entry, kind) in entries {
        let planned = |action, reason: &str| {
            PlanItem::new(ItemKind::Profile, &entry, entry.clone(), action, reason)
        };
        if entry.starts_with('.') || kind == SourceEntryKind::File {
            continue;
        }
        if kind != SourceEntryKind::Dir {
            let reason = if kind == SourceEntryKind::Link {
                "it is a link, and links are not followed"
            } else {
                "it is not a directory"
            };
            items.push(planned(Action::Broken, reason));
            continue;
        }
        let name = match ProfileName::new(&entry) {
            Ok(name) if !name.is_default() => name,
            Ok(_) => {
                items.push(planned(Action::Leave, "default is the home itself"));
                continue;
            }
            Err(error) => {
                items.push(planned(Action::Leave, &error.to_string()));
                continue;
            }
        };
        let own = SourceHome { dir: source.dir.join("profiles").join(&entry), ..source.clone() };
        let item = planned(Action::Take, "").to(name.as_str());
        let (action, reason) = if home.sibling(name.clone()).exists() {
            (Action::Present, "")
        } else if ledger.has(&item.record_key()) {
            (Action::Leave, REMOVED)
        } else {
            (Action::Take, "")
        };
        let step = MigrationStep::Profile { name: name.clone(), description: description(&own) };
        let item = PlanItem { action, reason: reason.to_owned(), ..item };
        let comes = action != Action::Leave;
        items.push(if item.is_pending() { item.step(step) } else { item });
        if comes {
            found.push((name, own));
        }
    }
    found
}

/// Says what becomes of the choice of a profile.
pub(crate) fn plan_choice(
    source: &SourceHome,
    profiles: &Profiles,
    known: &[(ProfileName, SourceHome)],
    ledger: &Ledger,
    items: &mut Vec<PlanItem>,
) {
    let Ok(Some((text, _))) = source.text("active_profile") else { return };
    let Ok(name) = ProfileName::new(text.trim()) else { return };
    if name.is_default() {
        return;
    }
    let item = PlanItem::new(ItemKind::Profile, "default", "active_profile", Action::Take, "")
        .to(name.as_str());
    let chosen = profiles.root().chosen_profile();
    let (action, reason) = match chosen {
        _ if !known.iter().any(|(own, _)| *own == name) => {
            (Action::Leave, "names a profile that does not come")
        }
        Ok(Some(own)) if own == name => (Action::Present, ""),
        Ok(None) if ledger.has(&item.record_key()) => (Action::Leave, REMOVED),
        Ok(None) => (Action::Take, "is used where none is named"),
        Ok(Some(_)) | Err(_) => (Action::Keep, "another is chosen here"),
    };
    let item = PlanItem { action, reason: reason.to_owned(), ..item };
    items.push(if item.is_pending() { item.step(MigrationStep::Choose { name }) } else { item });
}

/// Returns how a profile describes itself, as far as it can be kept.
fn description(source: &SourceHome) -> String {
    let text = source.text("profile.yaml").ok().flatten().map(|(text, _)| text);
    let root = text.and_then(|text| Yaml::parse(&text).ok().flatten());
    let Some(Yaml { kind: YamlKind::Map(own), .. }) = root else { return String::new() };
    let own = own.iter().find(|(name, _)| name.text() == Some("description"));
    let text = own.and_then(|(_, value)| value.text()).unwrap_or_default();
    let line: Vec<&str> = text.split_whitespace().collect();
    line.join(" ").chars().filter(|c| !c.is_control()).take(500).collect()
}
