//! Titles: one line each, unique among conversations.

use async_recursion::async_recursion as boxed;
use sqlx::{Row as _, SqliteConnection};

use crate::conversation::ConversationId;
use crate::error::Error;
use crate::store::{ConversationStore, WriteTransaction};
use crate::{Result, row};

/// The longest title, in characters.
const MAX_LENGTH: usize = 200;

/// A title to be given to a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Title {
    /// Chosen by a person. It is an error if another conversation has it.
    Given(String),
    /// Generated. If another conversation has it, a number is appended.
    Generated(String),
}

/// Why a text cannot be a title.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTitle {
    /// It is blank.
    #[error("a title cannot be empty")]
    Empty,
    /// It is too long.
    #[error("a title may have at most {MAX_LENGTH} characters; this one has {length}")]
    TooLong {
        /// Its length in characters.
        length: usize,
    },
}

impl ConversationStore {
    /// Sets the title of a conversation and returns it as stored.
    #[boxed]
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

/// Returns the title that `whose` may have: checked if given, numbered if generated.
pub(crate) async fn settle(
    write: &mut WriteTransaction<'_>,
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

/// Returns the title, with the next number appended if it is taken.
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

/// Checks a title and returns it as one line.
pub(crate) fn one_line(text: &str) -> std::result::Result<String, InvalidTitle> {
    let line = collapse(text);
    match line.chars().count() {
        0 => Err(InvalidTitle::Empty),
        1..=MAX_LENGTH => Ok(line),
        length => Err(InvalidTitle::TooLong { length }),
    }
}

/// Replaces runs of white space and control characters by single blanks.
pub(crate) fn collapse(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_line_of_bounded_length() {
        assert_eq!(one_line("  fix\tthe \u{1b}[31m\n build "), Ok("fix the [31m build".to_owned()));
        assert_eq!(one_line(" \n\u{7}"), Err(InvalidTitle::Empty));
        assert_eq!(one_line(&"ä".repeat(200)), Ok("ä".repeat(200)));
        assert_eq!(one_line(&"ä".repeat(201)), Err(InvalidTitle::TooLong { length: 201 }));
    }

    #[test]
    fn a_number_behind_a_title_is_told_from_other_parentheses() {
        assert_eq!(split("fix (2)"), Some(("fix", 2)));
        for title in ["fix", "fix (two)", "fix (2) more", "fix()", "fix ()", "fix (+2)", "(2)"] {
            assert_eq!(split(title), None, "{title}");
        }
    }
}
