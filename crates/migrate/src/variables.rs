//! `.env` of the other home: secrets, which are moved and never shown.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;

use vestal_config::{EnvName, Environment, Home, Override, Settings};

use crate::ledger::REMOVED;
use crate::migration::MigratedHome;
use crate::plan::{Action, ItemKind, MigrationStep, PlanItem, SourceSecret};

const FILE: &str = ".env";

/// Says which variables come. `settings` are the keys that `config.yaml` there sets.
pub(crate) fn plan(
    place: &MigratedHome<'_>,
    settings: &BTreeSet<String>,
    items: &mut Vec<PlanItem>,
) {
    let broken = |reason: String| {
        PlanItem::new(ItemKind::Variable, place.name, FILE, Action::Broken, reason)
    };
    let there = match read(place) {
        Ok(None) => return,
        Ok(Some(there)) => there,
        Err(reason) => return items.push(broken(reason)),
    };
    let names = match there.file_variables() {
        Ok(names) => names,
        Err(error) => return items.push(broken(error.to_string())),
    };
    let here = place.settings();
    for name in names.keys() {
        let Ok(Some(value)) = there.variable(name) else { continue };
        let planned = |action, reason: &str| {
            PlanItem::new(ItemKind::Variable, place.name, name.as_str(), action, reason)
        };
        let Ok(value) = value.value.into_string() else {
            items.push(planned(Action::Broken, "its value is not UTF-8"));
            continue;
        };
        let Some(to) = name_here(place, name.as_str()) else {
            items.push(planned(Action::Leave, "has no meaning here"));
            continue;
        };
        if let Some(key) = place.schema.find_by_variable(&to) {
            if settings.contains(key.name()) {
                items.push(planned(Action::Leave, "config.yaml says the same, and is taken over"));
                continue;
            }
            if !is_possible(place, key.name(), &value) {
                items.push(planned(Action::Leave, "is not a value here"));
                continue;
            }
        }
        items.push(variable_item(place, &here, name.as_str(), &to, SourceSecret(value), ""));
    }
}

/// Returns the name that a variable has here.
fn name_here(place: &MigratedHome<'_>, name: &str) -> Option<String> {
    let Some(rest) = name.strip_prefix("HERMES_") else { return Some(name.to_owned()) };
    let to = if rest == "INFERENCE_MODEL" {
        "VESTAL_MODEL".to_owned()
    } else {
        format!("VESTAL_{rest}")
    };
    place.schema.find_by_variable(&to).map(|_| to)
}

fn is_possible(place: &MigratedHome<'_>, key: &str, value: &str) -> bool {
    let Ok(given) = Override::parse(place.schema, &format!("{key}={value}")) else { return false };
    let nowhere = Home::at("/nonexistent/vestal");
    let alone = Settings::load(place.schema, nowhere, Environment::default(), vec![given]);
    alone.get_by_name(key).is_ok()
}

/// Returns what is to become of a variable.
pub(crate) fn variable_item(
    place: &MigratedHome<'_>,
    here: &Settings,
    from: &str,
    to: &str,
    value: SourceSecret,
    note: &str,
) -> PlanItem {
    let item = PlanItem::new(ItemKind::Variable, place.name, from, Action::Take, note).to(to);
    let Some(name) = EnvName::new(to) else {
        return PlanItem {
            action: Action::Leave,
            reason: "is not a name of a variable".to_owned(),
            ..item
        };
    };
    if value.0.contains(['\n', '\r', '\0']) {
        return PlanItem { action: Action::Leave, reason: "has several lines".to_owned(), ..item };
    }
    let current = match here.variable(&name) {
        Ok(current) => current,
        Err(error) => {
            return PlanItem { action: Action::Broken, reason: error.to_string(), ..item };
        }
    };
    let (action, reason) = match current {
        Some(current) if current.value == value.0.as_str() => (Action::Present, ""),
        Some(_) => (Action::Keep, "is set here"),
        None if place.ledger.has(&item.record_key()) => (Action::Leave, REMOVED),
        None => (Action::Take, note),
    };
    let step = MigrationStep::Variable { home: place.home.clone(), name, value };
    let item = PlanItem { action, reason: reason.to_owned(), ..item };
    if item.is_pending() { item.step(step) } else { item }
}

/// Reads the file by way of a copy, which nobody else can read, so that it is read as ours is.
fn read(place: &MigratedHome<'_>) -> Result<Option<Settings>, String> {
    use std::io::Read as _;
    let file = place.source.open(FILE).map_err(|error| error.to_string())?;
    let Some(file) = file else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(1 << 20).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let dir = place.source.copies();
    let dir = dir.map_err(|error| error.to_string())?;
    let copy =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(dir.path().join(FILE));
    let written = copy.and_then(|mut copy| copy.write_all(&bytes));
    written.map_err(|error| error.to_string())?;
    let home = Home::at(dir.path());
    Ok(Some(Settings::load(place.schema, home, Environment::default(), Vec::new())))
}
