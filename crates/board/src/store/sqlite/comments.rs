//! What was said about tasks.

use super::row::Columns;
use super::transaction::Transaction;
use crate::Result;
use crate::id::TaskId;
use crate::task::Comment;

impl Transaction {
    pub(super) async fn last_comments(&mut self, id: &TaskId, last: u32) -> Result<Vec<Comment>> {
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

    pub(super) async fn add_comment(
        &mut self,
        id: &TaskId,
        author: &str,
        body: &str,
    ) -> Result<i64> {
        let text = "INSERT INTO comments (task_id, author, body, created_at) \
                    VALUES ($1, $2, $3, $4) RETURNING id";
        let statement = sqlx::query(text)
            .bind(id.as_str())
            .bind(author.to_owned())
            .bind(body.to_owned())
            .bind(self.moment().millis());
        self.number(statement).await
    }
}
