//! The persona and the notes of the agent's memory.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use vestal_memory::{Entries, MemoryError, MemoryRefusal, NoteChange, NotesTarget};

use crate::ledger::{REMOVED, fingerprint};
use crate::migration::MigratedHome;
use crate::plan::{Action, ItemKind, MigrationStep, PlanItem};

const PERSONA: &str = "SOUL.md";
/// The largest persona.
const MOST_PERSONA: usize = 256 << 10;
/// Fingerprints of the persona that hermes-agent itself writes into a new home (0.15 to 0.19).
const SHIPPED: [&str; 1] = ["2765a846e1bb371d78d3b93b403dfb0f8d1ba1a9895edb5f608367abfe81194d"];

/// Says what becomes of the persona.
pub(crate) fn plan_persona(place: &MigratedHome<'_>, items: &mut Vec<PlanItem>) {
    let planned = |action, reason: &str| {
        PlanItem::new(ItemKind::Persona, place.name, PERSONA, action, reason).to(PERSONA)
    };
    let (text, lossy) = match place.source.text(PERSONA) {
        Ok(None) => return,
        Ok(Some(read)) => read,
        Err(error) => return items.push(planned(Action::Broken, &error.to_string())),
    };
    if lossy || text.len() > MOST_PERSONA {
        let reason = if lossy { "it is not UTF-8" } else { "it is larger than 256 KiB" };
        return items.push(planned(Action::Broken, reason));
    }
    if text.trim().is_empty() {
        return;
    }
    let print = fingerprint(&text);
    if SHIPPED.contains(&print.as_str()) {
        return items
            .push(planned(Action::Leave, "is what that program says of itself, unchanged"));
    }
    let path = place.home.dir().join(PERSONA);
    let here = match fs::read(&path) {
        Ok(bytes) => Some(fingerprint(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return items.push(planned(Action::Broken, &format!("here: {error}"))),
    };
    let item = planned(Action::Take, "");
    let (action, reason) = place.ledger.decide(&item.record_key(), here.as_deref(), &print);
    let item = PlanItem { action, reason: reason.to_owned(), ..item };
    let step = MigrationStep::Persona { home: place.home.clone(), text, wrote: print };
    items.push(if item.is_pending() { item.step(step) } else { item });
}

/// Writes the persona, whole or not at all.
pub(crate) fn write_persona(home: &Path, text: &str) -> std::io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".soul-").tempfile_in(home)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    // Where a link stands, the person keeps the file elsewhere.
    let path = home.join(PERSONA);
    let path = fs::canonicalize(&path).unwrap_or(path);
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Says what becomes of each note.
pub(crate) fn plan_notes(place: &MigratedHome<'_>, items: &mut Vec<PlanItem>) {
    for (target, file) in
        [(NotesTarget::Memory, "memories/MEMORY.md"), (NotesTarget::User, "memories/USER.md")]
    {
        let planned = |from: &str, action, reason: &str| {
            PlanItem::new(ItemKind::Note, place.name, from, action, reason)
        };
        let text = match place.source.text(file) {
            Ok(None) => continue,
            Ok(Some((text, _))) => text,
            Err(error) => {
                items.push(planned(file, Action::Broken, &error.to_string()));
                continue;
            }
        };
        let here = match files(place).map(|files| files.read(target)) {
            Ok(Ok(here)) => here,
            Ok(Err(error)) => {
                items.push(planned(file, Action::Broken, &format!("here: {error}")));
                continue;
            }
            Err(error) => {
                items.push(planned(file, Action::Broken, &error));
                continue;
            }
        };
        for note in Entries::parse(&text).iter() {
            // By its content: notes have no other name.
            let from = format!("{file}#{}", &fingerprint(note)[..12]);
            let item = planned(&from, Action::Take, "").to(target.to_string());
            let kept = vestal_memory::clean(note);
            let is_here = here.iter().any(|own| own == note || own == kept.trim());
            let (action, reason) = match (is_here, place.ledger.has(&item.record_key())) {
                (true, _) => (Action::Present, ""),
                (false, true) => (Action::Leave, REMOVED),
                (false, false) => (Action::Take, ""),
            };
            let item = PlanItem { action, reason: reason.to_owned(), ..item };
            let step =
                MigrationStep::Note { home: place.home.clone(), target, note: note.to_owned() };
            items.push(if item.is_pending() { item.step(step) } else { item });
        }
    }
}

fn files(place: &MigratedHome<'_>) -> Result<vestal_memory::NoteFiles, String> {
    note_files(&place.settings())
}

/// Returns the notes of a home here.
pub(crate) fn note_files(
    settings: &vestal_config::Settings,
) -> Result<vestal_memory::NoteFiles, String> {
    let redactor = vestal_runtime::redactor(settings).map_err(|error| error.to_string())?;
    vestal_memory::files(settings, redactor).map_err(|error| error.to_string())
}

/// Adds a note; one that is there already is well.
pub(crate) fn add_note(
    settings: &vestal_config::Settings,
    target: NotesTarget,
    note: &str,
) -> Result<(), String> {
    match note_files(settings)?.change(target, NoteChange::Add { entry: note }) {
        Ok(_) | Err(MemoryError::Refused(MemoryRefusal::Duplicate)) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
