//! What was spent: `vestal usage`, summed up from the ledgers of one or more profiles.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vestal_conversations::{LedgerGroup, LedgerGrouping, Totals};

use crate::UsageView;

/// What sums are made by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UsageGrouping {
    /// The day, in a time zone.
    Day,
    /// The model.
    Model,
    /// The profile.
    Profile,
    /// The front end.
    Source,
    /// The task of a board, or the schedule.
    Task,
    /// Each attempt at a task, each run of a schedule.
    Attempt,
    /// The conversation.
    Conversation,
}

impl UsageGrouping {
    /// Returns how the ledger is asked.
    pub const fn of_ledger(self) -> LedgerGrouping {
        match self {
            Self::Day => LedgerGrouping::Time,
            Self::Model | Self::Profile => LedgerGrouping::Model,
            Self::Source => LedgerGrouping::Source,
            Self::Task => LedgerGrouping::Work,
            Self::Attempt => LedgerGrouping::Attempt,
            Self::Conversation => LedgerGrouping::Conversation,
        }
    }
}

/// What a sum is about. Only the members that its grouping has are there.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct UsageKey {
    /// The day: `YYYY-MM-DD`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    /// The profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The provider of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The front end, such as `cli`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The kind of work: `kanban` or `cron`; absent for what people did themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<String>,
    /// The board of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub board: Option<String>,
    /// The task, or the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The attempt at the task, or the run of the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<String>,
    /// The conversation; it may have been deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
}

/// One sum.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsageLineView {
    /// What it is about.
    #[serde(flatten)]
    pub key: UsageKey,
    /// What was spent.
    pub usage: UsageView,
}

/// A profile whose ledger cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnreadLedgerView {
    /// The profile.
    pub profile: String,
    /// Why.
    pub error: String,
}

/// What was spent, by something.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsageReportView {
    /// What the lines are by.
    pub by: UsageGrouping,
    /// Calls from this moment on; null: from the first.
    pub since: Option<String>,
    /// Calls before this moment; null: up to now.
    pub until: Option<String>,
    /// The time zone of the days.
    pub time_zone: String,
    /// The sums: days in order, attempts in the order they were made, all else the dearest first.
    pub lines: Vec<UsageLineView>,
    /// All lines together.
    pub total: UsageView,
    /// Profiles that are missing from the sums.
    pub unread: Vec<UnreadLedgerView>,
}

/// Sums up ledgers.
#[derive(Debug)]
pub struct UsageReport {
    by: UsageGrouping,
    zone: TimeZone,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    /// Lines in the order they came, and where each key is.
    lines: Vec<(UsageKey, Totals)>,
    places: BTreeMap<UsageKey, usize>,
    unread: Vec<UnreadLedgerView>,
}

impl UsageReport {
    /// Returns a report without a line. Days are those of `zone`.
    pub fn new(
        by: UsageGrouping,
        zone: TimeZone,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
    ) -> Self {
        let (lines, places, unread) = (Vec::new(), BTreeMap::new(), Vec::new());
        Self { by, zone, since, until, lines, places, unread }
    }

    /// Adds sums of the ledger of a profile, made by [`UsageGrouping::of_ledger`].
    pub fn add(&mut self, profile: &str, sums: Vec<(LedgerGroup, Totals)>) {
        for (group, totals) in sums {
            let key = self.key(profile, group);
            let place = *self.places.entry(key.clone()).or_insert(self.lines.len());
            match self.lines.get_mut(place) {
                Some((_, sum)) => *sum += totals,
                None => self.lines.push((key, totals)),
            }
        }
    }

    /// Notes that the ledger of a profile cannot be read.
    pub fn unread(&mut self, profile: &str, error: impl std::fmt::Display) {
        let (profile, error) = (profile.to_owned(), error.to_string());
        self.unread.push(UnreadLedgerView { profile, error });
    }

    fn key(&self, profile: &str, group: LedgerGroup) -> UsageKey {
        let mut key = UsageKey::default();
        match group {
            LedgerGroup::Time(at) => {
                key.day = Some(at.to_zoned(self.zone.clone()).date().to_string());
            }
            LedgerGroup::Model { .. } if self.by == UsageGrouping::Profile => {
                key.profile = Some(profile.to_owned());
            }
            LedgerGroup::Model { provider, model } => {
                (key.provider, key.model) = (Some(provider), Some(model));
            }
            LedgerGroup::Source(source) => key.source = Some(source),
            LedgerGroup::Work(Some(work)) => key.set_work(work.kind, work.group, work.item),
            LedgerGroup::Attempt(Some(work)) => {
                key.set_work(work.kind, work.group, work.item);
                key.attempt = Some(work.attempt);
            }
            LedgerGroup::Work(None) | LedgerGroup::Attempt(None) => {}
            LedgerGroup::Conversation(id) => {
                (key.profile, key.conversation) = (Some(profile.to_owned()), Some(id.into()));
            }
        }
        key
    }

    /// Returns the report.
    pub fn finish(mut self) -> UsageReportView {
        match self.by {
            UsageGrouping::Day => self.lines.sort_by(|(a, _), (b, _)| a.cmp(b)),
            // As the ledgers have them.
            UsageGrouping::Attempt => {}
            _ => self.lines.sort_by_key(|(key, totals)| {
                let spent = (totals.micro_usd, totals.usage.total());
                (std::cmp::Reverse(spent), key.clone())
            }),
        }
        let mut total = Totals::default();
        self.lines.iter().for_each(|(_, totals)| total += *totals);
        let view =
            |(key, totals): (UsageKey, Totals)| UsageLineView { key, usage: (&totals).into() };
        UsageReportView {
            by: self.by,
            since: self.since.map(|at| at.to_string()),
            until: self.until.map(|at| at.to_string()),
            time_zone: self.zone.iana_name().unwrap_or("local").to_owned(),
            lines: self.lines.into_iter().map(view).collect(),
            total: (&total).into(),
            unread: self.unread,
        }
    }
}

impl UsageKey {
    fn set_work(&mut self, kind: String, group: String, item: String) {
        self.board = (kind == "kanban").then_some(group);
        (self.work, self.task) = (Some(kind), Some(item));
    }
}

#[cfg(test)]
mod tests {
    use vestal_conversations::WorkItem;
    use vestal_model::TokenUsage;

    use super::*;

    fn spent(calls: u64, micro_usd: u64) -> Totals {
        let usage = TokenUsage { input: calls, ..TokenUsage::default() };
        Totals { calls, usage, micro_usd, unpriced: 0 }
    }

    fn at(text: &str) -> LedgerGroup {
        LedgerGroup::Time(text.parse().unwrap())
    }

    #[test]
    fn a_day_is_one_of_the_time_zone_also_where_its_offset_is_not_whole_hours() {
        let zone = TimeZone::fixed(jiff::tz::Offset::from_seconds(5 * 3600 + 45 * 60).unwrap());
        let mut report = UsageReport::new(UsageGrouping::Day, zone, None, None);
        // Midnight there is 18:15 here.
        report.add("a", vec![(at("2026-11-17T18:00:00Z"), spent(1, 1))]);
        report.add("b", vec![(at("2026-11-17T18:15:00Z"), spent(2, 2))]);
        report.add("a", vec![(at("2026-11-18T18:00:00Z"), spent(4, 4))]);
        let lines = report.finish().lines;
        let days: Vec<_> =
            lines.iter().map(|line| (line.key.day.as_deref().unwrap(), line.usage.calls)).collect();
        assert_eq!(days, [("2026-11-17", 1), ("2026-11-18", 6)]);
    }

    #[test]
    fn tasks_of_several_profiles_are_one_line_and_the_dearest_comes_first() {
        let task = |item: &str| {
            LedgerGroup::Work(Some(WorkItem {
                kind: "kanban".to_owned(),
                group: "main".to_owned(),
                item: item.to_owned(),
            }))
        };
        let mut report = UsageReport::new(UsageGrouping::Task, TimeZone::UTC, None, None);
        report.add(
            "coder",
            vec![(task("t_1"), spent(1, 10)), (LedgerGroup::Work(None), spent(9, 5))],
        );
        report.add("reviewer", vec![(task("t_1"), spent(1, 20)), (task("t_2"), spent(1, 90))]);
        report.unread("broken", "it is not a database");
        let report = report.finish();
        let lines: Vec<_> = report
            .lines
            .iter()
            .map(|line| (line.key.task.as_deref(), line.usage.cost_usd))
            .collect();
        assert_eq!(lines, [(Some("t_2"), 90e-6), (Some("t_1"), 30e-6), (None, 5e-6)]);
        assert_eq!((report.total.calls, report.unread.len()), (12, 1));
    }
}
