//! Cron jobs made schedules.

use jiff::Timestamp;
use serde_json::Value;
use vestal_config::{ProfileName, Yaml, YamlKind};
use vestal_schedules::{
    NewSchedule, ScheduleId, ScheduleState, ScheduleStore, ScheduleTiming, Zone, store_path,
};

use crate::ledger::{REMOVED, fingerprint};
use crate::migration::MigratedHome;
use crate::plan::{Action, ItemKind, MigrationStep, PlanItem};

const FILE: &str = "cron/jobs.json";

/// Says what becomes of each job. A job of another profile goes to that one, if it comes.
pub(crate) async fn plan(
    place: &MigratedHome<'_>,
    profiles: &[ProfileName],
    items: &mut Vec<PlanItem>,
) {
    let broken = |reason: String| {
        PlanItem::new(ItemKind::Schedule, place.name, FILE, Action::Broken, reason)
    };
    let text = match place.source.text(FILE) {
        Ok(None) => return,
        Ok(Some((text, _))) => text,
        Err(error) => return items.push(broken(error.to_string())),
    };
    let jobs = match serde_json::from_str::<Value>(&text) {
        Ok(Value::Array(jobs)) => jobs,
        Ok(Value::Object(mut file)) => match file.remove("jobs") {
            Some(Value::Array(jobs)) => jobs,
            _ => return items.push(broken("it has no list of jobs".to_owned())),
        },
        Ok(_) => return items.push(broken("it has no list of jobs".to_owned())),
        Err(error) => return items.push(broken(error.to_string())),
    };
    let zone = zone(place);
    for (at, job) in jobs.iter().enumerate() {
        let id = word(job, "id").unwrap_or_else(|| format!("job {}", at + 1));
        let name = word(job, "name").unwrap_or_default();
        let profile = word(job, "profile").and_then(|own| ProfileName::new(&own).ok());
        let home = match profile.filter(|own| profiles.contains(own)) {
            Some(profile) => place.home.sibling(profile),
            None => place.home.clone(),
        };
        let item = PlanItem::new(ItemKind::Schedule, place.name, &id, Action::Take, &name);
        let (new, state, notes) = match schedule_of(job, &zone) {
            Ok(read) => read,
            Err(reason) => {
                let reason = if name.is_empty() { reason } else { format!("{name}: {reason}") };
                items.push(PlanItem {
                    action: Action::Leave,
                    reason: crate::plan::printable(&reason),
                    ..item
                });
                continue;
            }
        };
        let own = id_of(&id);
        let item = item.to(own.as_str());
        let is_here = match ScheduleStore::open_existing(store_path(&home.dir())).await {
            Ok(None) => Ok(false),
            Ok(Some(store)) => store.get(&own).await.map(|_| true).or_else(|error| match error {
                vestal_schedules::Error::NotFound { .. } => Ok(false),
                other => Err(other),
            }),
            Err(error) => Err(error),
        };
        let (action, reason) = match (is_here, place.ledger.has(&item.record_key())) {
            (Err(error), _) => (Action::Broken, format!("here: {error}")),
            (Ok(true), _) => (Action::Present, String::new()),
            (Ok(false), true) => (Action::Leave, REMOVED.to_owned()),
            (Ok(false), false) => (Action::Take, notes.join("; ")),
        };
        let reason =
            [name, reason].into_iter().filter(|own| !own.is_empty()).collect::<Vec<_>>().join(": ");
        let item = PlanItem { action, reason: crate::plan::printable(&reason), ..item };
        let step = MigrationStep::Schedule { home, id: own, new: Box::new(new), state };
        items.push(if item.is_pending() { item.step(step) } else { item });
    }
}

/// Returns the id of a job here, made of its own.
fn id_of(job: &str) -> ScheduleId {
    let own: String = job.chars().take(8).collect();
    let made = format!("c_{}", &fingerprint(job)[..8]);
    let own = format!("c_{own}").parse::<ScheduleId>().ok();
    own.or_else(|| made.parse().ok()).unwrap_or_else(|| unreachable!("{made} is an id"))
}

/// Returns the zone whose clock the jobs mean.
fn zone(place: &MigratedHome<'_>) -> Zone {
    let text = place.source.text("config.yaml").ok().flatten().map(|(text, _)| text);
    let root = text.and_then(|text| Yaml::parse(&text).ok().flatten());
    let named = match root {
        Some(Yaml { kind: YamlKind::Map(own), .. }) => {
            let own = own.iter().find(|(name, _)| name.text() == Some("timezone"));
            own.and_then(|(_, value)| value.text().map(str::to_owned))
        }
        _ => None,
    };
    let named = named.filter(|name| !name.trim().is_empty());
    named.and_then(|name| Zone::named(&name).ok()).unwrap_or_else(Zone::system)
}

/// Returns a job as a schedule, with what is different about it here; or why it is none.
fn schedule_of(
    job: &Value,
    zone: &Zone,
) -> Result<(NewSchedule, ScheduleState, Vec<String>), String> {
    let (timing, now) = (timing(job)?, Timestamp::now());
    if let ScheduleTiming::Instant(at) = timing
        && at <= now
    {
        return Err("its moment has passed".to_owned());
    }
    let has =
        |name: &str| job.get(name).is_some_and(|own| !own.is_null() && own != &Value::Bool(false));
    if has("no_agent") || has("script") {
        return Err("runs a script of the host; here scripts run in the sandbox: vestal cron create --script".to_owned());
    }
    let prompt = word(job, "prompt").ok_or_else(|| "it asks nothing".to_owned())?;
    let mut notes = Vec::new();
    let mut state = match (job.get("enabled"), word(job, "state").as_deref()) {
        (Some(Value::Bool(false)), _) | (_, Some("paused")) => ScheduleState::Paused,
        (_, Some("completed" | "done")) => return Err("it is over".to_owned()),
        _ => ScheduleState::Active,
    };
    let times =
        job.get("repeat").and_then(|own| own.get("times").or(Some(own))).and_then(Value::as_u64);
    if times.is_some() && !timing.is_once() {
        state = ScheduleState::Paused;
        notes.push("was to end after some runs, which has no counterpart: paused".to_owned());
    }
    match word(job, "deliver").as_deref() {
        None | Some("local") => {}
        Some(other) => {
            notes.push(format!("went to {other}; its output is kept with its runs here"));
        }
    }
    for (name, what) in [
        ("context_from", "the output of other jobs"),
        ("enabled_toolsets", "its toolsets"),
        ("workdir", "its directory of the host"),
        ("base_url", "its own address of a provider"),
    ] {
        if has(name) {
            notes.push(format!("without {what}"));
        }
    }
    let mut new = NewSchedule::new(timing, zone.clone(), prompt);
    new.name = word(job, "name")
        .map(|name| name.chars().filter(|c| !c.is_control()).take(80).collect::<String>());
    new.model = match (word(job, "provider"), word(job, "model")) {
        (Some(provider), Some(model)) => Some(format!("{provider}:{model}")),
        (None, model) => model,
        (Some(_), None) => None,
    };
    let skills = job.get("skills").and_then(Value::as_array).into_iter().flatten();
    new.skills = skills.filter_map(|own| own.as_str().map(str::to_owned)).collect();
    if new.skills.is_empty() {
        new.skills.extend(word(job, "skill"));
    }
    Ok((new, state, notes))
}

fn timing(job: &Value) -> Result<ScheduleTiming, String> {
    let schedule = job.get("schedule").ok_or_else(|| "it has no schedule".to_owned())?;
    let text = match (schedule.as_str(), word(schedule, "kind").as_deref()) {
        (Some(text), _) => text.to_owned(),
        (None, Some("cron")) => word(schedule, "expr").unwrap_or_default(),
        (None, Some("interval")) => {
            let minutes = schedule.get("minutes").and_then(Value::as_u64).unwrap_or(0);
            format!("every {minutes}m")
        }
        (None, Some("once")) => {
            let at = word(schedule, "run_at").unwrap_or_default();
            if let Ok(at) = at.parse::<Timestamp>() {
                return Ok(ScheduleTiming::Instant(at));
            }
            format!("at {at}")
        }
        (None, other) => {
            return Err(format!("has a schedule of an unknown kind ({})", other.unwrap_or("none")));
        }
    };
    ScheduleTiming::parse(&text, Timestamp::now()).map_err(|error| error.to_string())
}

fn word(value: &Value, name: &str) -> Option<String> {
    let own = value.get(name)?.as_str()?.trim();
    (!own.is_empty()).then(|| own.to_owned())
}
