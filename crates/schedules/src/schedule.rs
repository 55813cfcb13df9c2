//! A schedule: what is to be done, when, and where its output goes.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::moments::Zone;
use crate::run::ScheduleRunStatus;
use crate::timing::ScheduleTiming;
use crate::{Error, Result};

/// The prefix of every id.
const PREFIX: &str = "c_";
/// Letters after the prefix: 40 bits.
const LETTERS: usize = 8;
/// Without letters that are mistaken for others when read aloud.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The longest name, in characters.
const MAX_NAME: usize = 80;
/// Characters of a prompt that name a schedule without a name.
const NAME_FROM_PROMPT: usize = 40;
/// The longest prompt.
const MAX_PROMPT: usize = 256 << 10;
/// The longest command, path or other line.
const MAX_LINE: usize = 4096;
/// The most skills or toolsets.
const MAX_LIST: usize = 32;

/// The id of a schedule: `c_` and eight letters or digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ScheduleId(String);

/// A text that is not the id of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not the id of a schedule; they look like c_4x7k2m9q")]
pub struct InvalidScheduleId {
    /// The text, shortened.
    pub text: String,
}

impl ScheduleId {
    /// Generates a random id.
    pub(crate) fn generate() -> Result<Self> {
        let mut random =
            getrandom::u64().map_err(|error| Error::Random(std::io::Error::other(error)))?;
        let mut text = PREFIX.to_owned();
        for _ in 0..LETTERS {
            let letter = usize::try_from(random & 31).unwrap_or_default();
            text.push(char::from(ALPHABET[letter]));
            random >>= 5;
        }
        Ok(Self(text))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reports whether a text, with or without the prefix, is a beginning of this id.
    pub(crate) fn begins_with(&self, text: &str) -> bool {
        let text = text.strip_prefix(PREFIX).unwrap_or(text);
        !text.is_empty() && self.0[PREFIX.len()..].starts_with(&text.to_ascii_lowercase())
    }
}

impl FromStr for ScheduleId {
    type Err = InvalidScheduleId;

    fn from_str(text: &str) -> std::result::Result<Self, InvalidScheduleId> {
        let letters = text.strip_prefix(PREFIX).unwrap_or_default();
        if letters.len() == LETTERS && letters.bytes().all(|byte| ALPHABET.contains(&byte)) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidScheduleId { text: text.chars().take(40).collect() })
        }
    }
}

impl TryFrom<String> for ScheduleId {
    type Error = InvalidScheduleId;

    fn try_from(text: String) -> std::result::Result<Self, InvalidScheduleId> {
        text.parse()
    }
}

impl From<ScheduleId> for String {
    fn from(id: ScheduleId) -> Self {
        id.0
    }
}

impl fmt::Display for ScheduleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What happens to a moment at which no gateway was running.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissedPolicy {
    /// It is reported, and however many were missed, one run makes up for them.
    #[default]
    Run,
    /// It is reported.
    Skip,
}

impl MissedPolicy {
    /// Returns the word that is stored.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Skip => "skip",
        }
    }
}

/// Whether a schedule is due again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleState {
    /// It is.
    Active,
    /// A person paused it.
    Paused,
    /// It came once, and has.
    Done,
}

impl ScheduleState {
    /// Returns the word that is stored and shown.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Done => "done",
        }
    }
}

/// Where the output of a run goes, besides its record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ScheduleDelivery {
    /// Nowhere else.
    #[default]
    Local,
    /// Into this conversation, as a message.
    Conversation(String),
}

impl FromStr for ScheduleDelivery {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let invalid = || Error::Invalid {
            field: "the delivery",
            reason: format!(
                "is {:?}; write local, or conversation:ID",
                text.chars().take(60).collect::<String>()
            ),
        };
        match text.split_once(':') {
            None if text == "local" => Ok(Self::Local),
            Some(("conversation", id)) if !id.trim().is_empty() && id.len() <= MAX_LINE => {
                Ok(Self::Conversation(id.trim().to_owned()))
            }
            _ => Err(invalid()),
        }
    }
}

impl fmt::Display for ScheduleDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Conversation(id) => write!(f, "conversation:{id}"),
        }
    }
}

/// A schedule to be created.
#[derive(Debug, Clone)]
pub struct NewSchedule {
    /// Its name; without one it is called after its prompt.
    pub name: Option<String>,
    /// When it is due.
    pub timing: ScheduleTiming,
    /// The time zone of the local clock that `timing` means.
    pub zone: Zone,
    /// What the agent is asked.
    pub prompt: String,
    /// Skills whose instructions the agent is given.
    pub skills: Vec<String>,
    /// The model, in place of the configured one.
    pub model: Option<String>,
    /// The toolsets, in place of the configured ones.
    pub toolsets: Option<Vec<String>>,
    /// The task whose sandbox it works in.
    pub task: String,
    /// The directory of the sandbox that it begins in.
    pub workdir: Option<String>,
    /// A command that is run first in the sandbox; what it prints is added to the prompt.
    pub script: Option<String>,
    /// Where its output goes.
    pub delivery: ScheduleDelivery,
    /// What happens to moments that were missed.
    pub missed: MissedPolicy,
}

impl NewSchedule {
    /// Returns a schedule that asks this at these times, in the sandbox of the default task.
    pub fn new(timing: ScheduleTiming, zone: Zone, prompt: impl Into<String>) -> Self {
        Self {
            name: None,
            timing,
            zone,
            prompt: prompt.into(),
            skills: Vec::new(),
            model: None,
            toolsets: None,
            task: "default".to_owned(),
            workdir: None,
            script: None,
            delivery: ScheduleDelivery::Local,
            missed: MissedPolicy::Run,
        }
    }

    /// Returns it with its name settled, or what is wrong with it.
    pub(crate) fn checked(mut self) -> Result<Self> {
        let name = self.name.as_deref().map(str::trim).filter(|name| !name.is_empty());
        let name = match name {
            Some(name) => name.to_owned(),
            None => name_of(&self.prompt),
        };
        if name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
            return Err(invalid(
                "the name",
                &format!("is at most {MAX_NAME} characters on one line"),
            ));
        }
        self.name = Some(name);
        if self.prompt.trim().is_empty() {
            return Err(invalid("the prompt", "is empty"));
        }
        if self.prompt.len() > MAX_PROMPT || self.prompt.contains('\0') {
            return Err(invalid("the prompt", "is longer than 256 KiB, or has a NUL byte"));
        }
        let lines = [
            ("the model", self.model.as_deref()),
            ("the workdir", self.workdir.as_deref()),
            ("the task", Some(self.task.as_str())),
        ];
        for (field, line) in lines {
            let is_wrong = |line: &str| {
                line.trim().is_empty()
                    || line.len() > MAX_LINE
                    || line.chars().any(char::is_control)
            };
            if line.is_some_and(is_wrong) {
                return Err(invalid(field, "is empty, too long, or has control characters"));
            }
        }
        if self.workdir.as_deref().is_some_and(|dir| !dir.starts_with('/')) {
            return Err(invalid("the workdir", "is not an absolute path of the sandbox"));
        }
        let script = self.script.as_deref();
        if script.is_some_and(|text| {
            text.trim().is_empty() || text.len() > MAX_PROMPT || text.contains('\0')
        }) {
            return Err(invalid("the script", "is empty, too long, or has a NUL byte"));
        }
        for (field, list) in
            [("a skill", Some(&self.skills)), ("a toolset", self.toolsets.as_ref())]
        {
            let Some(list) = list else { continue };
            let is_wrong = |name: &String| {
                name.trim().is_empty() || name.len() > 200 || name.chars().any(char::is_control)
            };
            if list.len() > MAX_LIST || list.iter().any(is_wrong) {
                return Err(invalid(field, "has no proper name, or there are more than 32"));
            }
        }
        Ok(self)
    }
}

fn invalid(field: &'static str, reason: &str) -> Error {
    Error::Invalid { field, reason: reason.to_owned() }
}

/// Returns how a prompt begins.
fn name_of(prompt: &str) -> String {
    let words: Vec<&str> = prompt.split(|c: char| c.is_whitespace() || c.is_control()).collect();
    let words = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let mut characters = words.chars();
    let shown: String = characters.by_ref().take(NAME_FROM_PROMPT).collect();
    if characters.next().is_some() { format!("{}…", shown.trim_end()) } else { shown }
}

/// What is changed about a schedule; what is `None` stays.
#[derive(Debug, Clone, Default)]
pub struct ScheduleChange {
    /// Its name.
    pub name: Option<String>,
    /// When it is due. Its next moment is found again.
    pub timing: Option<ScheduleTiming>,
    /// The time zone. Its next moment is found again.
    pub zone: Option<Zone>,
    /// What the agent is asked.
    pub prompt: Option<String>,
    /// The skills.
    pub skills: Option<Vec<String>>,
    /// The model; `Some(None)` for the configured one.
    pub model: Option<Option<String>>,
    /// The toolsets; `Some(None)` for the configured ones.
    pub toolsets: Option<Option<Vec<String>>>,
    /// The task.
    pub task: Option<String>,
    /// The directory; `Some(None)` for where the sandbox begins.
    pub workdir: Option<Option<String>>,
    /// The command; `Some(None)` for none.
    pub script: Option<Option<String>>,
    /// Where its output goes.
    pub delivery: Option<ScheduleDelivery>,
    /// What happens to moments that were missed.
    pub missed: Option<MissedPolicy>,
}

impl ScheduleChange {
    /// Reports whether the moments change.
    pub(crate) const fn moves(&self) -> bool {
        self.timing.is_some() || self.zone.is_some()
    }

    /// Returns what a schedule becomes.
    pub(crate) fn applied_to(self, schedule: &Schedule) -> NewSchedule {
        let old = schedule.clone();
        NewSchedule {
            name: Some(self.name.unwrap_or(old.name)),
            timing: self.timing.unwrap_or(old.timing),
            zone: self.zone.unwrap_or(old.zone),
            prompt: self.prompt.unwrap_or(old.prompt),
            skills: self.skills.unwrap_or(old.skills),
            model: self.model.unwrap_or(old.model),
            toolsets: self.toolsets.unwrap_or(old.toolsets),
            task: self.task.unwrap_or(old.task),
            workdir: self.workdir.unwrap_or(old.workdir),
            script: self.script.unwrap_or(old.script),
            delivery: self.delivery.unwrap_or(old.delivery),
            missed: self.missed.unwrap_or(old.missed),
        }
    }
}

/// A schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Its id.
    pub id: ScheduleId,
    /// Its name.
    pub name: String,
    /// Whether it is due again.
    pub state: ScheduleState,
    /// When it is due.
    pub timing: ScheduleTiming,
    /// The time zone of `timing`.
    pub zone: Zone,
    /// What the agent is asked.
    pub prompt: String,
    /// Skills whose instructions the agent is given.
    pub skills: Vec<String>,
    /// The model, in place of the configured one.
    pub model: Option<String>,
    /// The toolsets, in place of the configured ones.
    pub toolsets: Option<Vec<String>>,
    /// The task whose sandbox it works in.
    pub task: String,
    /// The directory of the sandbox that it begins in.
    pub workdir: Option<String>,
    /// A command that is run first in the sandbox.
    pub script: Option<String>,
    /// Where its output goes.
    pub delivery: ScheduleDelivery,
    /// What happens to moments that were missed.
    pub missed: MissedPolicy,
    /// When it was created.
    pub created_at: Timestamp,
    /// What intervals are counted from.
    pub anchor: Timestamp,
    /// The next due moment; none unless it is active.
    pub next_at: Option<Timestamp>,
    /// When the last run began.
    pub last_run_at: Option<Timestamp>,
    /// The outcome of the last moment or run.
    pub last_status: Option<ScheduleRunStatus>,
    /// Runs that ended, all in all.
    pub runs: u64,
    /// Those of them that did not succeed.
    pub failures: u64,
}

impl Schedule {
    /// Returns the next due moments after a time, as far as it is active.
    pub fn upcoming(&self, now: Timestamp, count: usize) -> Vec<Timestamp> {
        match self.state {
            ScheduleState::Active => self.timing.upcoming(now, self.anchor, &self.zone, count),
            ScheduleState::Paused | ScheduleState::Done => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_found_by_its_beginning() {
        let id: ScheduleId = "c_4x7k2m9q".parse().unwrap();
        for text in ["c_4x7k2m9q", "c_4x", "4x7", "4X7"] {
            assert!(id.begins_with(text), "{text}");
        }
        for text in ["", "c_", "x7", "c_4y"] {
            assert!(!id.begins_with(text), "{text}");
        }
        for text in ["", "c_", "c_4x7k2m9", "t_4x7k2m9q", "c_4x7k2m9i", "c_4x7k2m9qq"] {
            assert!(text.parse::<ScheduleId>().is_err(), "{text}");
        }
        assert_eq!(ScheduleId::generate().unwrap().as_str().len(), 10);
    }

    #[test]
    fn what_a_schedule_cannot_have_is_refused() {
        let timing = || ScheduleTiming::Every { seconds: 3600 };
        let new = |prompt: &str| NewSchedule::new(timing(), Zone::utc(), prompt);
        let named = |prompt: &str| new(prompt).checked().unwrap().name.unwrap();
        assert_eq!(named("look at\n the logs"), "look at the logs");
        assert_eq!(named(&"word ".repeat(20)), "word word word word word word word word…");
        for (wrong, field) in [
            (new("  "), "the prompt"),
            (new("a\0b"), "the prompt"),
            (NewSchedule { name: Some("a\nb".into()), ..new("x") }, "the name"),
            (NewSchedule { workdir: Some("src".into()), ..new("x") }, "the workdir"),
            (NewSchedule { task: String::new(), ..new("x") }, "the task"),
            (NewSchedule { script: Some(" ".into()), ..new("x") }, "the script"),
            (NewSchedule { skills: vec![String::new()], ..new("x") }, "a skill"),
        ] {
            match wrong.checked() {
                Err(Error::Invalid { field: found, .. }) => assert_eq!(found, field),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_delivery_is_read_as_it_is_written() {
        for text in ["local", "conversation:20261115-103001-k3f9ab"] {
            assert_eq!(text.parse::<ScheduleDelivery>().unwrap().to_string(), text);
        }
        for text in ["", "Local", "conversation:", "mail:me", "conversation"] {
            assert!(text.parse::<ScheduleDelivery>().is_err(), "{text}");
        }
    }
}
