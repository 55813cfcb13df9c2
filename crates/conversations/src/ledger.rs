//! The ledger: what every call of a model took, kept whatever becomes of its conversation.

use async_recursion::async_recursion as boxed;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use crate::conversation::ConversationId;
use crate::store::ConversationStore;
use crate::usage::{self, Totals};
use crate::{Result, row};

/// An attempt at work that a conversation does for somebody else, so that its cost can be listed by task.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkAttempt {
    /// What kind of work: `kanban`, `cron`.
    pub kind: String,
    /// What it is part of, such as the name of a board; may be empty.
    pub group: String,
    /// The task or schedule.
    pub item: String,
    /// Which attempt at it.
    pub attempt: String,
}

/// Which lines of the ledger are summed up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LedgerFilter {
    /// Calls from this moment on.
    pub since: Option<Timestamp>,
    /// Calls before this moment.
    pub until: Option<Timestamp>,
    /// Calls for this work, whatever the attempt.
    pub work: Option<WorkItem>,
}

/// A piece of work, whatever the attempt.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkItem {
    /// What kind of work.
    pub kind: String,
    /// What it is part of.
    pub group: String,
    /// The task or schedule.
    pub item: String,
}

/// What lines of the ledger are summed up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerGrouping {
    /// Quarters of an hour, in order. Every time zone begins its days with one.
    Time,
    /// The model that was asked.
    Model,
    /// The front end: `cli`, `kanban`, …
    Source,
    /// The work it was for, without its attempts.
    Work,
    /// The attempts at each piece of work.
    Attempt,
    /// The conversation.
    Conversation,
}

/// What a sum of the ledger is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerGroup {
    /// The quarter of an hour that begins now.
    Time(Timestamp),
    /// A model.
    Model {
        /// Its provider.
        provider: String,
        /// The model.
        model: String,
    },
    /// A front end.
    Source(String),
    /// A piece of work; none: what people did themselves.
    Work(Option<WorkItem>),
    /// An attempt; none: what people did themselves.
    Attempt(Option<WorkAttempt>),
    /// A conversation, which may be gone.
    Conversation(ConversationId),
}

/// A quarter of an hour, in microseconds.
const QUARTER: i64 = 15 * 60 * 1_000_000;

impl LedgerGrouping {
    /// Returns the columns that make a group, and the order of the groups.
    const fn columns(self) -> (&'static str, &'static str) {
        const BY_COST: &str = "spent_micro_usd DESC, \
             sum(u.input + u.output + u.cache_read + u.cache_write) DESC, 1";
        match self {
            Self::Time => ("u.at / 900000000 AS quarter", "quarter"),
            Self::Model => ("u.provider, u.model", BY_COST),
            Self::Source => ("u.source", BY_COST),
            Self::Work => ("u.work_kind, u.work_group, u.work_item", BY_COST),
            Self::Attempt => (
                "u.work_kind, u.work_group, u.work_item, u.work_attempt",
                // Attempts are read in the order they were made.
                "min(u.key)",
            ),
            Self::Conversation => ("u.conversation", BY_COST),
        }
    }

    const fn column_count(self) -> usize {
        match self {
            Self::Time | Self::Source | Self::Conversation => 1,
            Self::Model => 2,
            Self::Work => 3,
            Self::Attempt => 4,
        }
    }

    fn read(self, row: &SqliteRow) -> sqlx::Result<LedgerGroup> {
        Ok(match self {
            Self::Time => {
                let quarter: i64 = row.try_get(0)?;
                LedgerGroup::Time(row::time(quarter.saturating_mul(QUARTER)))
            }
            Self::Model => LedgerGroup::Model { provider: row.try_get(0)?, model: row.try_get(1)? },
            Self::Source => LedgerGroup::Source(row.try_get(0)?),
            Self::Work => LedgerGroup::Work(work_item(row)?),
            Self::Attempt => LedgerGroup::Attempt(match work_item(row)? {
                Some(WorkItem { kind, group, item }) => {
                    Some(WorkAttempt { kind, group, item, attempt: text(row, 3)? })
                }
                None => None,
            }),
            Self::Conversation => LedgerGroup::Conversation(row::id(row.try_get(0)?)?),
        })
    }
}

fn work_item(row: &SqliteRow) -> sqlx::Result<Option<WorkItem>> {
    let Some(kind) = row.try_get::<Option<String>, _>(0)? else { return Ok(None) };
    Ok(Some(WorkItem { kind, group: text(row, 1)?, item: text(row, 2)? }))
}

fn text(row: &SqliteRow, column: usize) -> sqlx::Result<String> {
    Ok(row.try_get::<Option<String>, _>(column)?.unwrap_or_default())
}

impl ConversationStore {
    /// Records which work a conversation does. Calls from now on are counted for it; conversations
    /// that it delegates to later count for it, too.
    #[boxed]
    pub async fn set_work(&self, id: &ConversationId, work: &WorkAttempt) -> Result<()> {
        let query = sqlx::query(
            "UPDATE conversations SET work_kind = ?, work_group = ?, work_item = ?, \
             work_attempt = ? WHERE id = ? RETURNING 1",
        );
        let query = query.bind(&work.kind).bind(&work.group).bind(&work.item).bind(&work.attempt);
        self.update(id, query).await
    }

    /// Sums up lines of the ledger. Deleting a conversation takes nothing from them.
    #[boxed]
    pub async fn ledger(
        &self,
        filter: &LedgerFilter,
        by: LedgerGrouping,
    ) -> Result<Vec<(LedgerGroup, Totals)>> {
        let (columns, order) = by.columns();
        let groups: Vec<String> = (1..=by.column_count()).map(|place| place.to_string()).collect();
        let statement = format!(
            "SELECT {columns}, {totals} FROM ledger u WHERE (?1 IS NULL OR u.at >= ?1) \
             AND (?2 IS NULL OR u.at < ?2) AND (?3 IS NULL OR \
             (u.work_kind = ?3 AND u.work_group = ?4 AND u.work_item = ?5)) \
             GROUP BY {groups} ORDER BY {order}",
            totals = usage::total_columns!(),
            groups = groups.join(", "),
        );
        let work = filter.work.as_ref();
        let mut reader = self.reader().await?;
        // Made of constants only.
        let rows = sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(filter.since.map(Timestamp::as_microsecond))
            .bind(filter.until.map(Timestamp::as_microsecond))
            .bind(work.map(|work| work.kind.as_str()))
            .bind(work.map(|work| work.group.as_str()))
            .bind(work.map(|work| work.item.as_str()))
            .fetch_all(&mut *reader)
            .await
            .map_err(|error| self.explain(error))?;
        rows.iter()
            .map(|row| Ok((by.read(row)?, usage::totals(row)?)))
            .collect::<sqlx::Result<_>>()
            .map_err(|error| self.explain(error))
    }
}
