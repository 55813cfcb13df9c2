//! Titles: one line each, unique among conversations.

use async_recursion::async_recursion as boxed;
use sqlx::{Row as _, SqliteConnection};

use crate::conversation::ConversationId;
use crate::error::Error;
use crate::store::{ConversationStore, WriteTransaction};
use crate::{Result, row};

/// Says which title a conversation may have: the wanted one, or, if another has it, the next number
/// behind its beginning. Titles are found by their index: there may be many conversations, and each
/// new one asks this.
///
/// Takes the wanted title, that without its number, and the id of the conversation or null.
macro_rules! free_title {
    () => {
        "WITH wanted (title, base, own) AS (SELECT ?, ?, ?), free (title) AS (SELECT CASE \
         WHEN EXISTS (SELECT 1 FROM conversations o WHERE o.title = w.title AND o.id IS NOT w.own) \
         THEN w.base || ' (' || (1 + coalesce((\
             SELECT max(CAST(substr(o.title, length(w.base) + 3) AS INTEGER)) \
             FROM conversations o WHERE o.title >= w.base || ' (' AND o.title < w.base || ' )' \
             AND o.id IS NOT w.own \
             AND length(o.title) BETWEEN length(w.base) + 4 AND length(w.base) + 12 \
             AND ltrim(substr(o.title, length(w.base) + 3), '0123456789') = ')'), 1)) || ')' \
         ELSE w.title END FROM wanted w) "
    };
}

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
        if let Title::Generated(text) = title {
            return self.generate_title(id, text).await;
        }
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

impl ConversationStore {
    /// Sets a title that may get a number, in one round trip: every new conversation gets one before
    /// its model is asked.
    async fn generate_title(&self, id: &ConversationId, text: &str) -> Result<String> {
        let title = generated(text)?;
        let query = sqlx::query(concat!(
            free_title!(),
            "UPDATE conversations SET title = (SELECT title FROM free) WHERE id = ? RETURNING title"
        ));
        let query = query.bind(&title).bind(without_number(&title));
        let rows = self.write_at_once(query.bind(id.as_str()).bind(id.as_str())).await?;
        let set = rows.first().map(|row| row.try_get(0)).transpose();
        set.map_err(|error| self.explain(error))?.ok_or_else(|| row::not_found(id))
    }
}

/// Returns a text as a title that leaves room for a number.
fn generated(text: &str) -> std::result::Result<String, InvalidTitle> {
    one_line(&text.chars().take(MAX_LENGTH - 12).collect::<String>())
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
            let text = generated(text)?;
            let own = whose.map(ConversationId::as_str);
            let free = numbered(write.on(), &text, own).await;
            free.map_err(|error| write.explain(error).into())
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
    sqlx::query_scalar(concat!(free_title!(), "SELECT title FROM free"))
        .bind(title)
        .bind(without_number(title))
        .bind(whose)
        .fetch_one(connection)
        .await
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
    fn a_number_behind_a_title_is_distinguished_from_other_parentheses() {
        assert_eq!(split("fix (2)"), Some(("fix", 2)));
        for title in ["fix", "fix (two)", "fix (2) more", "fix()", "fix ()", "fix (+2)", "(2)"] {
            assert_eq!(split(title), None, "{title}");
        }
    }
}
