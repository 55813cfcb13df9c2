//! Conversations at a glance.

use jiff::Timestamp;
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use crate::conversation::Summary;
use crate::id::ConversationId;
use crate::store::Store;
use crate::{Result, row, usage};

/// Which conversations are listed.
#[derive(Debug, Clone)]
pub struct Filter {
    /// Only those made by this source.
    pub source: Option<String>,
    /// Only those last used before this moment.
    pub before: Option<Timestamp>,
    /// At most so many.
    pub limit: u32,
    /// Also those that ended.
    pub include_ended: bool,
    /// Also those that were given a part of another's work.
    pub include_delegated: bool,
}

impl Default for Filter {
    /// The fifty most recently used, without delegated ones.
    fn default() -> Self {
        Self {
            source: None,
            before: None,
            limit: 50,
            include_ended: true,
            include_delegated: false,
        }
    }
}

macro_rules! summaries {
    ($rest:literal) => {
        concat!(
            "SELECT ",
            row::conversation_columns!(),
            ", c.messages, c.tool_calls, c.preview, ",
            usage::total_columns!(),
            " FROM (",
            $rest,
            ") c LEFT JOIN conversations p ON p.key = c.parent \
             LEFT JOIN usage u ON u.conversation = c.key \
             GROUP BY c.key ORDER BY c.updated_at DESC, c.key DESC"
        )
    };
}

impl Store {
    /// Lists conversations, the most recently used first.
    pub async fn list(&self, filter: &Filter) -> Result<Vec<Summary>> {
        let mut reader = self.reader().await?;
        let rows = sqlx::query(summaries!(
            "SELECT * FROM conversations WHERE (?1 IS NULL OR source = ?1) \
             AND (?2 IS NULL OR updated_at < ?2) AND (?3 OR ended_at IS NULL) \
             AND (?4 OR parent_kind IS NOT 'delegation') \
             ORDER BY updated_at DESC, key DESC LIMIT ?5"
        ))
        .bind(filter.source.as_deref())
        .bind(filter.before.map(Timestamp::as_microsecond))
        .bind(filter.include_ended)
        .bind(filter.include_delegated)
        .bind(i64::from(filter.limit))
        .fetch_all(&mut *reader)
        .await
        .map_err(|error| self.explain(error))?;
        rows.iter().map(summary).collect::<sqlx::Result<_>>().map_err(|error| self.explain(error))
    }

    /// Returns one conversation as it is listed.
    pub async fn summary(&self, id: &ConversationId) -> Result<Summary> {
        let mut reader = self.reader().await?;
        let found = sqlx::query(summaries!("SELECT * FROM conversations WHERE id = ?"))
            .bind(id.as_str())
            .fetch_optional(&mut *reader)
            .await
            .map_err(|error| self.explain(error))?
            .ok_or_else(|| row::not_found(id))?;
        summary(&found).map_err(|error| self.explain(error))
    }
}

fn summary(row: &SqliteRow) -> sqlx::Result<Summary> {
    Ok(Summary {
        conversation: row::conversation(row)?,
        messages: row::count(row, "messages")?,
        tool_calls: row::count(row, "tool_calls")?,
        totals: usage::totals(row)?,
        preview: row.try_get("preview")?,
    })
}
