//! Which task waits for which.

use sqlx::sqlite::SqliteRow;

use super::row::Columns;
use super::transaction::Transaction;
use crate::Result;
use crate::id::TaskId;
use crate::store::Relative;

fn relative(row: &SqliteRow) -> Result<Relative> {
    let mut columns = Columns::of(row, "a linked task");
    Ok(Relative { id: columns.word()?, title: columns.text()?, status: columns.word()? })
}

impl Transaction {
    pub(super) async fn parents_of(&mut self, id: &TaskId) -> Result<Vec<Relative>> {
        let text = "SELECT tasks.id, tasks.title, tasks.status FROM links \
                    JOIN tasks ON tasks.id = links.parent \
                    WHERE links.child = $1 ORDER BY tasks.seq";
        self.each(sqlx::query(text).bind(id.as_str()), relative).await
    }

    pub(super) async fn children_of(&mut self, id: &TaskId) -> Result<Vec<Relative>> {
        let text = "SELECT tasks.id, tasks.title, tasks.status FROM links \
                    JOIN tasks ON tasks.id = links.child \
                    WHERE links.parent = $1 ORDER BY tasks.seq";
        self.each(sqlx::query(text).bind(id.as_str()), relative).await
    }

    pub(super) async fn is_reached(&mut self, from: &TaskId, to: &TaskId) -> Result<bool> {
        let text = "WITH RECURSIVE above (id) AS ( \
                        SELECT CAST($1 AS TEXT) \
                        UNION \
                        SELECT links.parent FROM links JOIN above ON links.child = above.id \
                    ) SELECT 1 FROM above WHERE id = $2 LIMIT 1";
        let statement = sqlx::query(text).bind(from.as_str()).bind(to.as_str());
        Ok(self.first(statement).await?.is_some())
    }

    pub(super) async fn add_link(&mut self, parent: &TaskId, child: &TaskId) -> Result<bool> {
        let text = "INSERT INTO links (parent, child) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        let statement = sqlx::query(text).bind(parent.as_str()).bind(child.as_str());
        Ok(self.execute(statement).await? > 0)
    }

    pub(super) async fn remove_link(&mut self, parent: &TaskId, child: &TaskId) -> Result<bool> {
        let text = "DELETE FROM links WHERE parent = $1 AND child = $2";
        let statement = sqlx::query(text).bind(parent.as_str()).bind(child.as_str());
        Ok(self.execute(statement).await? > 0)
    }
}
