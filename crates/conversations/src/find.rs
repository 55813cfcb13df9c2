//! Listing conversations, and finding the one a person means.

use async_recursion::async_recursion as boxed;
use jiff::Timestamp;
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use crate::conversation::{ConversationId, ConversationSummary};
use crate::error::{Error, MatchingConversation};
use crate::store::ConversationStore;
use crate::{Result, row, usage};

/// Which conversations to list.
#[derive(Debug, Clone)]
pub struct ConversationFilter {
    /// Only those of this front end.
    pub source: Option<String>,
    /// Only those last used before this moment.
    pub before: Option<Timestamp>,
    /// At most this many.
    pub limit: u32,
    /// Also ended ones.
    pub include_ended: bool,
    /// Also delegated ones.
    pub include_delegated: bool,
}

impl Default for ConversationFilter {
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

impl ConversationStore {
    /// Lists conversations, most recently used first.
    #[boxed]
    pub async fn list(&self, filter: &ConversationFilter) -> Result<Vec<ConversationSummary>> {
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

    /// Returns one conversation as in a list.
    #[boxed]
    pub async fn summary(&self, id: &ConversationId) -> Result<ConversationSummary> {
        let mut reader = self.reader().await?;
        let found = sqlx::query(summaries!("SELECT * FROM conversations WHERE id = ?"))
            .bind(id.as_str())
            .fetch_optional(&mut *reader)
            .await
            .map_err(|error| self.explain(error))?
            .ok_or_else(|| row::not_found(id))?;
        summary(&found).map_err(|error| self.explain(error))
    }

    /// Finds a conversation by its id or title, or by an unambiguous prefix of its id, of the id's
    /// last part (at least four letters) or of its title.
    #[boxed]
    pub async fn find(&self, wanted: &str) -> Result<ConversationId> {
        let wanted = wanted.trim();
        let mut reader = self.reader().await?;
        let exact: Option<String> = sqlx::query_scalar(
            "SELECT id FROM conversations WHERE id = ?1 OR title = ?1 ORDER BY id = ?1 DESC",
        )
        .bind(wanted)
        .fetch_optional(&mut *reader)
        .await
        .map_err(|error| self.explain(error))?;
        if let Some(exact) = exact {
            return row::id(&exact).map_err(|error| self.explain(error));
        }
        if wanted.is_empty() {
            return Err(Error::NotFound { wanted: wanted.to_owned() });
        }
        let escaped = escape(wanted);
        let last_part =
            (wanted.len() >= SHORTEST && !wanted.contains('-')).then(|| format!("%-{escaped}%"));
        let rows = sqlx::query(
            "SELECT id, title FROM conversations WHERE id LIKE ?1 ESCAPE '\\' \
             OR title LIKE ?1 ESCAPE '\\' \
             OR (id LIKE ?2 ESCAPE '\\' AND id NOT LIKE ?2 || '-%' ESCAPE '\\') \
             ORDER BY updated_at DESC, key DESC LIMIT ?3",
        )
        .bind(format!("{escaped}%"))
        .bind(last_part)
        .bind(MOST)
        .fetch_all(&mut *reader)
        .await
        .map_err(|error| self.explain(error))?;
        let candidates = rows
            .iter()
            .map(candidate)
            .collect::<sqlx::Result<Vec<_>>>()
            .map_err(|error| self.explain(error))?;
        match candidates.as_slice() {
            [] => Err(Error::NotFound { wanted: wanted.to_owned() }),
            [only] => Ok(only.id.clone()),
            _ => Err(Error::Ambiguous { wanted: wanted.to_owned(), candidates }),
        }
    }

    /// Returns the conversation last used from the command line, without delegated ones.
    #[boxed]
    pub async fn latest(&self) -> Result<ConversationId> {
        let mut reader = self.reader().await?;
        let latest: Option<String> = sqlx::query_scalar(
            "SELECT id FROM conversations WHERE source = 'cli' \
             AND parent_kind IS NOT 'delegation' ORDER BY updated_at DESC, key DESC LIMIT 1",
        )
        .fetch_optional(&mut *reader)
        .await
        .map_err(|error| self.explain(error))?;
        row::id(&latest.ok_or(Error::NoneYet)?).map_err(|error| self.explain(error))
    }
}

fn summary(row: &SqliteRow) -> sqlx::Result<ConversationSummary> {
    Ok(ConversationSummary {
        conversation: row::conversation(row)?,
        messages: row::count(row, "messages")?,
        tool_calls: row::count(row, "tool_calls")?,
        totals: usage::totals(row)?,
        preview: row.try_get("preview")?,
    })
}

/// The shortest prefix of an id's last part that is searched for.
const SHORTEST: usize = 4;

/// The most candidates that are returned.
const MOST: i64 = 50;

fn candidate(row: &SqliteRow) -> sqlx::Result<MatchingConversation> {
    Ok(MatchingConversation { id: row::id(row.try_get(0)?)?, title: row.try_get(1)? })
}

/// Escapes the wildcards of a `LIKE` pattern.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, '%' | '_' | '\\') {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}
