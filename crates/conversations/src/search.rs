//! Finding messages.

use async_recursion::async_recursion as boxed;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use crate::conversation::ConversationId;
use crate::message::Seq;
use crate::store::ConversationStore;
use crate::{Result, row};

/// Bytes of a message that can be found: of a longer one its beginning and its
/// end.
const INDEXED: usize = 256 * 1024;

/// Words and phrases of a query that count, and its bytes. The index takes time by
/// the square of their number, and a query with a pasted log should not take
/// for ever.
const TERMS: usize = 64;
const LONGEST_QUERY: usize = 4 * 1024;

/// Words of a snippet.
const SNIPPET: i64 = 24;
/// Characters of a snippet, whose words may be long.
const LONGEST: usize = 400;
/// Characters before the first find of a snippet.
const LEAD: usize = 80;

/// Put between letters that are words of their own. It is not a letter to the
/// index, and is not seen.
const JOINT: char = '\u{200b}';
/// Put around what was found.
const OPEN: char = '\u{1}';
const CLOSE: char = '\u{2}';

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// In which conversation.
    pub conversation: ConversationId,
    /// Its title, if it has one.
    pub title: Option<String>,
    /// In which message.
    pub seq: Seq,
    /// Whose message.
    pub role: MessageAuthor,
    /// When it was stored.
    pub at: Timestamp,
    /// What stands around it.
    pub snippet: Vec<SnippetPiece>,
}

/// Whose message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageAuthor {
    /// A person's.
    User,
    /// The model's.
    Assistant,
    /// A tool's.
    Tool,
}

/// A piece of a snippet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnippetPiece {
    /// Its text.
    pub text: String,
    /// Whether it is what was looked for.
    pub found: bool,
}

/// Where is looked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchScope {
    /// Only in this conversation.
    pub only: Option<ConversationId>,
    /// Not in this one.
    pub without: Option<ConversationId>,
    /// At most so many messages of each, its best, so that one long conversation
    /// does not hide the others.
    pub each: Option<u32>,
}

/// Finds what has ?1. The texts are read of those messages alone that are reported,
/// however many there are: the best are chosen from the index, and what stands
/// around the words is looked up after. The plus has the index gone through once
/// for that, and not once for each of the best.
const FIND: &str = "\
    WITH found AS MATERIALIZED (\
        SELECT words.rowid AS key, words.rank AS rank, c.key AS conversation FROM words \
        JOIN messages m ON m.key = words.rowid JOIN conversations c ON c.key = m.conversation \
        WHERE words MATCH ?1 AND m.undone = 0 AND (?4 IS NULL OR c.id = ?4) \
        AND (?5 IS NULL OR c.id <> ?5)), \
    counted AS (SELECT key, rank, row_number() OVER \
        (PARTITION BY conversation ORDER BY rank, key DESC) AS number FROM found) \
    SELECT c.id, c.title, m.seq, m.role, m.at, \
    snippet(words, 0, char(1), char(2), '…', ?2) \
    FROM words JOIN messages m ON m.key = words.rowid JOIN conversations c ON c.key = m.conversation \
    WHERE words MATCH ?1 AND +words.rowid IN (SELECT key FROM counted \
        WHERE ?6 IS NULL OR number <= ?6 ORDER BY rank, key DESC LIMIT ?3) \
    ORDER BY words.rank, m.key DESC";

impl ConversationStore {
    /// Finds messages that have all the words, each at the beginning of a word
    /// of theirs, whatever the case; words in `"…"` stand beside each other. In
    /// scripts without blanks any part of a text is found. The best come first.
    ///
    /// What a summary stands for is found; what was taken back is not. Of a very
    /// long query the beginning counts.
    #[boxed]
    pub async fn search(&self, scope: &SearchScope, query: &str, limit: u32) -> Result<Vec<Hit>> {
        let expression = expression(query);
        if expression.is_empty() {
            return Ok(Vec::new());
        }
        let mut reader = self.reader().await?;
        let rows = sqlx::query(FIND)
            .bind(expression)
            .bind(SNIPPET)
            .bind(i64::from(limit))
            .bind(scope.only.as_ref().map(ConversationId::as_str))
            .bind(scope.without.as_ref().map(ConversationId::as_str))
            .bind(scope.each)
            .fetch_all(&mut *reader)
            .await
            .map_err(|error| self.explain(error))?;
        rows.iter().map(hit).collect::<sqlx::Result<_>>().map_err(|error| self.explain(error))
    }
}

fn hit(row: &SqliteRow) -> sqlx::Result<Hit> {
    Ok(Hit {
        conversation: row::id(row.try_get(0)?)?,
        title: row.try_get(1)?,
        seq: Seq(row.try_get(2)?),
        role: match row.try_get::<&str, _>(3)? {
            "assistant" => MessageAuthor::Assistant,
            "tool" => MessageAuthor::Tool,
            _ => MessageAuthor::User,
        },
        at: row::time(row.try_get(4)?),
        snippet: pieces(row.try_get(5)?),
    })
}

/// Returns a text as it goes into the index.
pub(crate) fn indexed(text: &str) -> String {
    let mut words = String::with_capacity(text.len().min(INDEXED));
    if text.len() <= INDEXED {
        spread(text, &mut words);
    } else {
        let beginning = text.floor_char_boundary(INDEXED / 4 * 3);
        let end = text.ceil_char_boundary(text.len() - INDEXED / 4);
        spread(&text[..beginning], &mut words);
        words.push_str(" … ");
        spread(&text[end..], &mut words);
    }
    words
}

/// Copies a text, with the letters of scripts without blanks apart, so that each
/// is a word to the index.
fn spread(text: &str, into: &mut String) {
    let mut before = false;
    for letter in text.chars() {
        let alone = is_word_of_its_own(letter);
        if alone || before {
            into.push(JOINT);
        }
        // SQLite takes a text to end there.
        into.push(if letter == '\0' { ' ' } else { letter });
        before = alone;
    }
}

/// Reports whether a letter belongs to a script that puts no blanks between
/// words.
fn is_word_of_its_own(letter: char) -> bool {
    matches!(u32::from(letter),
        0x0e00..=0x0eff // Thai, Lao
        | 0x1000..=0x109f // Burmese
        | 0x1780..=0x17ff // Khmer
        | 0x3040..=0x30ff | 0x31f0..=0x31ff // Kana
        | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x2_0000..=0x3_ffff) // Han
}

/// Returns what the index is asked for a person's words: every word quoted, so
/// that none of them is taken for syntax.
fn expression(query: &str) -> String {
    let query = &query[..query.floor_char_boundary(LONGEST_QUERY)];
    let mut terms: Vec<String> = Vec::new();
    for (at, part) in query.split('"').enumerate() {
        if at % 2 == 1 {
            terms.extend(term(part, ""));
        } else {
            terms.extend(part.split_whitespace().filter_map(|word| term(word, "*")));
        }
    }
    terms.truncate(TERMS);
    terms.join(" ")
}

fn term(words: &str, suffix: &str) -> Option<String> {
    // What has no letters would find nothing, and hide what the others find.
    if !words.chars().any(char::is_alphanumeric) {
        return None;
    }
    let mut spaced = String::with_capacity(words.len());
    spread(words, &mut spaced);
    Some(format!("\"{spaced}\"{suffix}"))
}

/// Takes a snippet apart, and shortens it to what a person reads.
fn pieces(marked: &str) -> Vec<SnippetPiece> {
    let mut pieces: Vec<SnippetPiece> = Vec::new();
    let mut found = false;
    let mut room = LONGEST;
    for part in marked.split_inclusive([OPEN, CLOSE]) {
        let next = part.ends_with(OPEN);
        let text: String = part.chars().filter(|c| !matches!(*c, JOINT | OPEN | CLOSE)).collect();
        let text = if pieces.is_empty() && !found { tail(&text) } else { text };
        let text: String = text.chars().take(room).collect();
        room -= text.chars().count();
        if !text.is_empty() {
            match pieces.last_mut() {
                Some(last) if last.found == found => last.text.push_str(&text),
                _ => pieces.push(SnippetPiece { text, found }),
            }
        }
        found = next;
    }
    pieces
}

/// Returns the end of what stands before the first find.
fn tail(text: &str) -> String {
    let over = text.chars().count().saturating_sub(LEAD);
    if over == 0 {
        text.to_owned()
    } else {
        format!("…{}", text.chars().skip(over).collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_types_is_never_taken_for_syntax() {
        let cases = [
            ("cargo build", "\"cargo\"* \"build\"*"),
            ("\"cargo build\" x", "\"cargo build\" \"x\"*"),
            ("NEAR(a b) OR c*", "\"NEAR(a\"* \"b)\"* \"OR\"* \"c*\"*"),
            ("col:um -x ^y", "\"col:um\"* \"-x\"* \"^y\"*"),
            ("\"open", "\"open\""),
            ("* - \"\" ()", ""),
            ("", ""),
            ("a\0b", "\"a b\"*"),
        ];
        for (query, expected) in cases {
            assert_eq!(expression(query), expected, "{query:?}");
        }
    }

    #[test]
    fn letters_of_scripts_without_blanks_are_words() {
        assert_eq!(expression("東京tower"), "\"\u{200b}東\u{200b}京\u{200b}tower\"*");
        assert_eq!(indexed("in 東京"), "in \u{200b}東\u{200b}京");
    }

    #[test]
    fn of_a_long_text_beginning_and_end_are_indexed() {
        let text = format!("first {}é{} last", "x ".repeat(INDEXED), "é".repeat(INDEXED));
        let words = indexed(&text);
        assert!(words.starts_with("first x") && words.ends_with("é last"));
        assert!(words.len() <= INDEXED + 8, "{}", words.len());
    }

    #[test]
    fn a_snippet_shows_what_was_found_and_little_else() {
        let piece = |text: &str, found| SnippetPiece { text: text.to_owned(), found };
        assert_eq!(
            pieces("a \u{200b}\u{1}b\u{2} c \u{1}d\u{2}"),
            [piece("a ", false), piece("b", true), piece(" c ", false), piece("d", true)]
        );
        let long = format!("{}\u{1}hit\u{2}{}", "x".repeat(5000), "y".repeat(5000));
        let shown = pieces(&long);
        assert_eq!(shown[1], piece("hit", true));
        assert_eq!(shown.iter().map(|piece| piece.text.chars().count()).sum::<usize>(), LONGEST);
        assert_eq!(shown[0].text, format!("…{}", "x".repeat(LEAD)));
        // Marks in the text itself do no harm.
        assert_eq!(pieces("\u{2}\u{2}\u{1}"), []);
    }
}
