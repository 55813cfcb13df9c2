//! What is kept with the board under a name.

use serde_json::Value;

use super::row::Columns;
use super::transaction::Transaction;
use crate::Result;

impl Transaction {
    pub(super) async fn note_named(&mut self, name: &str) -> Result<Option<Value>> {
        let text = "SELECT value FROM notes WHERE name = $1";
        let row = self.first(sqlx::query(text).bind(name.to_owned())).await?;
        row.as_ref().map(|row| Columns::of(row, "a note").json()).transpose()
    }

    pub(super) async fn keep_note(&mut self, name: &str, value: Option<&Value>) -> Result<()> {
        let statement = match value {
            Some(value) => sqlx::query(
                "INSERT INTO notes (name, value) VALUES ($1, $2) \
                 ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            )
            .bind(name.to_owned())
            .bind(value.to_string()),
            None => sqlx::query("DELETE FROM notes WHERE name = $1").bind(name.to_owned()),
        };
        self.execute(statement).await?;
        Ok(())
    }
}
