//! What belongs to a task: links, comments, attachments; and notes of the board.

use async_trait::async_trait;
use serde_json::Value;
use sqlx::sqlite::SqliteRow;

use super::row::Columns;
use super::transaction::Transaction;
use crate::Result;
use crate::id::{HostName, TaskId};
use crate::store::{ReadDetails, Relative, WriteDetails};
use crate::task::{Attachment, Comment};
use crate::time::Time;

fn relative(row: &SqliteRow) -> Result<Relative> {
    let mut columns = Columns::of(row, "a linked task");
    Ok(Relative { id: columns.word()?, title: columns.text()?, status: columns.word()? })
}

fn read_attachment(row: &SqliteRow) -> Result<Attachment> {
    let mut columns = Columns::of(row, "an attachment");
    Ok(Attachment {
        id: columns.int()?,
        task_id: columns.word()?,
        filename: columns.text()?,
        stored_as: columns.text()?,
        host: HostName::new(&columns.text()?),
        content_type: columns.texts()?,
        size: columns.count()?,
        uploaded_by: columns.text()?,
        created_at: columns.time()?,
    })
}

#[async_trait]
impl ReadDetails for Transaction {
    async fn parents(&mut self, id: &TaskId) -> Result<Vec<Relative>> {
        let text = "SELECT tasks.id, tasks.title, tasks.status FROM links \
                    JOIN tasks ON tasks.id = links.parent \
                    WHERE links.child = $1 ORDER BY tasks.seq";
        self.each(sqlx::query(text).bind(id.as_str()), relative).await
    }

    async fn children(&mut self, id: &TaskId) -> Result<Vec<Relative>> {
        let text = "SELECT tasks.id, tasks.title, tasks.status FROM links \
                    JOIN tasks ON tasks.id = links.child \
                    WHERE links.parent = $1 ORDER BY tasks.seq";
        self.each(sqlx::query(text).bind(id.as_str()), relative).await
    }

    async fn waits_for(&mut self, from: &TaskId, to: &TaskId) -> Result<bool> {
        let text = "WITH RECURSIVE above (id) AS ( \
                        SELECT CAST($1 AS TEXT) \
                        UNION \
                        SELECT links.parent FROM links JOIN above ON links.child = above.id \
                    ) SELECT 1 FROM above WHERE id = $2 LIMIT 1";
        let statement = sqlx::query(text).bind(from.as_str()).bind(to.as_str());
        Ok(self.first(statement).await?.is_some())
    }

    async fn comments(&mut self, id: &TaskId, last: u32) -> Result<Vec<Comment>> {
        let text = "SELECT id, author, body, created_at FROM comments \
                    WHERE task_id = $1 ORDER BY id DESC LIMIT $2";
        let statement = sqlx::query(text).bind(id.as_str()).bind(i64::from(last));
        let mut comments = self
            .each(statement, |row| {
                let mut columns = Columns::of(row, "a comment");
                Ok(Comment {
                    id: columns.int()?,
                    author: columns.text()?,
                    body: columns.text()?,
                    created_at: columns.time()?,
                })
            })
            .await?;
        comments.reverse();
        Ok(comments)
    }

    async fn attachments(&mut self, id: &TaskId) -> Result<Vec<Attachment>> {
        let text = "SELECT id, task_id, filename, stored_as, host, content_type, size, \
                    uploaded_by, created_at FROM attachments WHERE task_id = $1 ORDER BY id";
        self.each(sqlx::query(text).bind(id.as_str()), read_attachment).await
    }

    async fn attachment(&mut self, number: i64) -> Result<Option<Attachment>> {
        let text = "SELECT id, task_id, filename, stored_as, host, content_type, size, \
                    uploaded_by, created_at FROM attachments WHERE id = $1";
        let row = self.first(sqlx::query(text).bind(number)).await?;
        row.as_ref().map(read_attachment).transpose()
    }

    async fn stored_files(&mut self) -> Result<Vec<String>> {
        let text = "SELECT stored_as FROM attachments ORDER BY id";
        self.each(sqlx::query(text), |row| Columns::of(row, "an attachment").text()).await
    }

    async fn note(&mut self, name: &str) -> Result<Option<Value>> {
        let text = "SELECT value FROM notes WHERE name = $1";
        let row = self.first(sqlx::query(text).bind(name.to_owned())).await?;
        row.as_ref().map(|row| Columns::of(row, "a note").json()).transpose()
    }
}

#[async_trait]
impl WriteDetails for Transaction {
    async fn link(&mut self, parent: &TaskId, child: &TaskId) -> Result<bool> {
        let text = "INSERT INTO links (parent, child) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        let statement = sqlx::query(text).bind(parent.as_str()).bind(child.as_str());
        Ok(self.execute(statement).await? > 0)
    }

    async fn unlink(&mut self, parent: &TaskId, child: &TaskId) -> Result<bool> {
        let text = "DELETE FROM links WHERE parent = $1 AND child = $2";
        let statement = sqlx::query(text).bind(parent.as_str()).bind(child.as_str());
        Ok(self.execute(statement).await? > 0)
    }

    async fn comment(&mut self, id: &TaskId, author: &str, body: &str) -> Result<i64> {
        let now = self.moment();
        self.comment_at(id, author, body, now).await
    }

    async fn comment_at(&mut self, id: &TaskId, author: &str, body: &str, at: Time) -> Result<i64> {
        let text = "INSERT INTO comments (task_id, author, body, created_at) \
                    VALUES ($1, $2, $3, $4) RETURNING id";
        let statement = sqlx::query(text)
            .bind(id.as_str())
            .bind(author.to_owned())
            .bind(body.to_owned())
            .bind(at.millis());
        self.number(statement).await
    }

    async fn add_attachment(&mut self, new: &Attachment) -> Result<i64> {
        let text = "INSERT INTO attachments (task_id, filename, stored_as, host, content_type, \
                    size, uploaded_by, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) \
                    RETURNING id";
        let statement = sqlx::query(text)
            .bind(new.task_id.as_str())
            .bind(new.filename.clone())
            .bind(new.stored_as.clone())
            .bind(new.host.as_str())
            .bind(new.content_type.clone())
            .bind(i64::try_from(new.size).unwrap_or(i64::MAX))
            .bind(new.uploaded_by.clone())
            .bind(new.created_at.millis());
        self.number(statement).await
    }

    async fn remove_attachment(&mut self, number: i64) -> Result<()> {
        self.execute(sqlx::query("DELETE FROM attachments WHERE id = $1").bind(number)).await?;
        Ok(())
    }

    async fn set_note(&mut self, name: &str, value: Option<&Value>) -> Result<()> {
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
