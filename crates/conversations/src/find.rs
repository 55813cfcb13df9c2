//! Which conversation is meant.

use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use crate::error::{Candidate, Error};
use crate::id::ConversationId;
use crate::store::Store;
use crate::{Result, row};

/// Letters of the last part of a name that are enough to mean it.
const SHORTEST: usize = 4;

/// Of those that may be meant, how many are told.
const MOST: i64 = 50;

impl Store {
    /// Finds the conversation that a person means: by its name or title, else
    /// by the beginning of its name, of the name's last part (four letters at
    /// least) or of its title, if that means only one.
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

    /// Returns the conversation that was last used from the command line,
    /// delegated ones left out.
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

fn candidate(row: &SqliteRow) -> sqlx::Result<Candidate> {
    Ok(Candidate { id: row::id(row.try_get(0)?)?, title: row.try_get(1)? })
}

/// Takes the special meaning from the signs of a pattern.
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
