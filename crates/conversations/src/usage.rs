//! Token usage and cost of conversations.

use async_recursion::async_recursion as boxed;
use serde::{Deserialize, Serialize};
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;
use vestal_model::{Cost, TokenUsage};

use crate::conversation::ConversationId;
use crate::store::{ConversationStore, WriteTransaction};
use crate::{Result, row};

/// The usage of several calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Number of calls.
    pub calls: u64,
    /// Their tokens.
    pub usage: TokenUsage,
    /// The cost of the calls whose cost is known, in millionths of a US dollar.
    pub micro_usd: u64,
    /// Number of calls of unknown cost.
    pub unpriced: u64,
}

impl std::ops::AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.usage += other.usage;
        self.micro_usd = self.micro_usd.saturating_add(other.micro_usd);
        self.unpriced = self.unpriced.saturating_add(other.unpriced);
    }
}

/// The usage of one model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelTotals {
    /// Its provider.
    pub provider: String,
    /// The model.
    pub model: String,
    /// Its usage.
    pub totals: Totals,
}

impl ConversationStore {
    /// Counts a call that adds no message, such as one that generates a title.
    #[boxed]
    pub async fn record_usage(
        &self,
        id: &ConversationId,
        provider: &str,
        model: &str,
        spent: &TokenUsage,
        cost: Option<Cost>,
    ) -> Result<()> {
        let mut write = self.write().await?;
        let key = row::key(&mut write, id).await?;
        count(&mut write, key, provider, model, spent, cost).await?;
        Ok(write.commit().await?)
    }

    /// Returns the usage of each model, in one conversation or all, most tokens first.
    #[boxed]
    pub async fn usage(&self, of: Option<&ConversationId>) -> Result<Vec<ModelTotals>> {
        let mut reader = self.reader().await?;
        let rows = sqlx::query(concat!(
            "SELECT u.provider, u.model, ",
            total_columns!(),
            " FROM usage u JOIN conversations c ON c.key = u.conversation \
             WHERE ?1 IS NULL OR c.id = ?1 GROUP BY u.provider, u.model \
             ORDER BY sum(u.input + u.output + u.cache_read + u.cache_write) DESC, 1, 2"
        ))
        .bind(of.map(ConversationId::as_str))
        .fetch_all(&mut *reader)
        .await
        .map_err(|error| self.explain(error))?;
        let read = |row: &SqliteRow| -> sqlx::Result<ModelTotals> {
            Ok(ModelTotals {
                provider: row.try_get(0)?,
                model: row.try_get(1)?,
                totals: totals(row)?,
            })
        };
        rows.iter().map(read).collect::<sqlx::Result<_>>().map_err(|error| self.explain(error))
    }
}

/// The largest value of a counter. It keeps sums within 64 bits whatever a provider reports.
const MOST: i64 = 1 << 50;

/// Counts a call.
pub(crate) async fn count(
    write: &mut WriteTransaction<'_>,
    key: i64,
    provider: &str,
    model: &str,
    spent: &TokenUsage,
    cost: Option<Cost>,
) -> Result<()> {
    let (micro_usd, unpriced) = match cost {
        Some(Cost::Known { micro_usd, .. }) => (micro_usd, 0),
        Some(Cost::Unknown) | None => (0, 1),
    };
    let query = sqlx::query(
        "INSERT INTO usage (conversation, provider, model, calls, input, output, cache_read, \
         cache_write, reasoning, micro_usd, unpriced) VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?8, ?9, ?10) \
         ON CONFLICT DO UPDATE SET calls = calls + 1, input = min(?11, input + ?4), \
         output = min(?11, output + ?5), cache_read = min(?11, cache_read + ?6), \
         cache_write = min(?11, cache_write + ?7), reasoning = min(?11, reasoning + ?8), \
         micro_usd = min(?11, micro_usd + ?9), unpriced = unpriced + ?10",
    );
    let counts = [
        spent.input,
        spent.output,
        spent.cache_read,
        spent.cache_write,
        spent.reasoning,
        micro_usd,
        unpriced,
    ];
    let counts = counts.map(|count| i64::try_from(count).unwrap_or(MOST).min(MOST));
    let query = counts
        .into_iter()
        .fold(query.bind(key).bind(provider).bind(model), sqlx::query::Query::bind);
    query.bind(MOST).execute(write.on()).await.map_err(|error| write.explain(error))?;
    // The sums above go with the conversation, this line stays.
    let line = sqlx::query(
        "INSERT INTO ledger (at, conversation, source, work_kind, work_group, work_item, \
         work_attempt, provider, model, calls, input, output, cache_read, cache_write, reasoning, \
         micro_usd, unpriced) SELECT ?2, c.id, c.source, c.work_kind, c.work_group, c.work_item, \
         c.work_attempt, ?3, ?4, 1, ?5, ?6, ?7, ?8, ?9, ?10, ?11 FROM conversations c WHERE c.key = ?1",
    );
    let line = line.bind(key).bind(row::now()).bind(provider).bind(model);
    let line = counts.into_iter().fold(line, sqlx::query::Query::bind);
    line.execute(write.on()).await.map_err(|error| write.explain(error))?;
    Ok(())
}

/// The columns [`totals`] reads, of a group of `usage u`.
macro_rules! total_columns {
    () => {
        "coalesce(sum(u.calls), 0) AS spent_calls, coalesce(sum(u.input), 0) AS spent_input, \
         coalesce(sum(u.output), 0) AS spent_output, \
         coalesce(sum(u.cache_read), 0) AS spent_cache_read, \
         coalesce(sum(u.cache_write), 0) AS spent_cache_write, \
         coalesce(sum(u.reasoning), 0) AS spent_reasoning, \
         coalesce(sum(u.micro_usd), 0) AS spent_micro_usd, \
         coalesce(sum(u.unpriced), 0) AS spent_unpriced"
    };
}
pub(crate) use total_columns;

pub(crate) fn totals(row: &SqliteRow) -> sqlx::Result<Totals> {
    Ok(Totals {
        calls: row::count(row, "spent_calls")?,
        usage: TokenUsage {
            input: row::count(row, "spent_input")?,
            output: row::count(row, "spent_output")?,
            cache_read: row::count(row, "spent_cache_read")?,
            cache_write: row::count(row, "spent_cache_write")?,
            reasoning: row::count(row, "spent_reasoning")?,
        },
        micro_usd: row::count(row, "spent_micro_usd")?,
        unpriced: row::count(row, "spent_unpriced")?,
    })
}
