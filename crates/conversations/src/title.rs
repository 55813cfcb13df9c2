//! Titles: one line, each of one conversation only.

use sqlx::{Row as _, SqliteConnection};

use crate::error::Error;
use crate::id::ConversationId;
use crate::store::Store;
use crate::write::Write;
use crate::{Result, row};

/// Characters of the longest title.
const MAX_LENGTH: usize = 200;

/// A title to be given to a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Title {
    /// As a person wants it: no other conversation may have it.
    Given(String),
    /// As the program thought it up: where another conversation has it, a
    /// number is put behind it.
    Generated(String),
}

/// A text that is no title.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTitle {
    /// It has no letters.
    #[error("a title cannot be empty")]
    Empty,
    /// It has too many.
    #[error("a title has at most {MAX_LENGTH} characters, and this one has {length}")]
    TooLong {
        /// How many it has.
        length: usize,
    },
}

impl Store {
    /// Gives a conversation a title and returns it as it became.
    pub async fn set_title(&self, id: &ConversationId, title: &Title) -> Result<String> {
        let mut write = self.write().await?;
        let key = row::key(&mut write, id).await?;
        let title = settle(&mut write, title, Some(id)).await?;
        sqlx::query("UPDATE conversations SET title = ? WHERE key = ?")
            .bind(&title)
            .bind(key)
            .execute(write.on())
            .await
            .map_err(|error| self.explain(error))?;
        write.commit().await?;
        Ok(title)
    }
}

/// Returns the title as `whose` may have it.
pub(crate) async fn settle(
    write: &mut Write<'_>,
    title: &Title,
    whose: Option<&ConversationId>,
) -> Result<String> {
    match title {
        Title::Given(text) => {
            let text = one_line(text)?;
            match owner(write.on(), &text).await.map_err(|error| write.explain(error))? {
                Some(by) if whose.is_none_or(|id| id.as_str() != by) => {
                    Err(Error::TitleTaken { title: text, by: by.parse()? })
                }
                _ => Ok(text),
            }
        }
        Title::Generated(text) => {
            let text = one_line(&text.chars().take(MAX_LENGTH - 12).collect::<String>())?;
            let own = whose.map(ConversationId::as_str);
            let free = numbered(write.on(), &text, own).await;
            free.map_err(|error| write.explain(error))
        }
    }
}

async fn owner(connection: &mut SqliteConnection, title: &str) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar("SELECT id FROM conversations WHERE title = ?")
        .bind(title)
        .fetch_optional(connection)
        .await
}

/// Returns the title, with the next number behind it if others have it.
async fn numbered(
    connection: &mut SqliteConnection,
    title: &str,
    whose: Option<&str>,
) -> sqlx::Result<String> {
    let base = without_number(title);
    let taken = sqlx::query(
        "SELECT title FROM conversations \
         WHERE substr(title, 1, length(?1)) = ?1 AND id IS NOT ?2",
    )
    .bind(base)
    .bind(whose)
    .fetch_all(connection)
    .await?;
    let mut clash = false;
    let mut highest = 1_u64;
    for row in taken {
        let other: String = row.try_get(0)?;
        if without_number(&other) == base {
            clash |= other == title;
            highest = highest.max(number(&other).unwrap_or(1));
        }
    }
    Ok(if clash { format!("{base} ({})", highest.saturating_add(1)) } else { title.to_owned() })
}

/// Splits `text (3)`.
fn split(title: &str) -> Option<(&str, u64)> {
    let (base, rest) = title.rsplit_once(" (")?;
    let digits = rest.strip_suffix(')')?;
    let plain = (1..=9).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    Some((base, digits.parse().ok().filter(|_| plain)?))
}

fn without_number(title: &str) -> &str {
    split(title).map_or(title, |(base, _)| base)
}

fn number(title: &str) -> Option<u64> {
    split(title).map(|(_, number)| number)
}

/// Returns the text with its white space and control characters made single
/// blanks.
pub(crate) fn one_line(text: &str) -> std::result::Result<String, InvalidTitle> {
    let line = collapse(text);
    match line.chars().count() {
        0 => Err(InvalidTitle::Empty),
        1..=MAX_LENGTH => Ok(line),
        length => Err(InvalidTitle::TooLong { length }),
    }
}

/// Makes white space and control characters single blanks.
pub(crate) fn collapse(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[path = "title_tests.rs"]
mod tests;
