//! Files that belong to tasks.

use sqlx::sqlite::SqliteRow;

use super::row::Columns;
use super::transaction::Transaction;
use crate::Result;
use crate::host::HostName;
use crate::id::TaskId;
use crate::task::Attachment;

fn read(row: &SqliteRow) -> Result<Attachment> {
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

impl Transaction {
    pub(super) async fn attachments_of(&mut self, id: &TaskId) -> Result<Vec<Attachment>> {
        let text = "SELECT id, task_id, filename, stored_as, host, content_type, size, \
                    uploaded_by, created_at FROM attachments WHERE task_id = $1 ORDER BY id";
        self.each(sqlx::query(text).bind(id.as_str()), read).await
    }

    pub(super) async fn attachment_numbered(&mut self, number: i64) -> Result<Option<Attachment>> {
        let text = "SELECT id, task_id, filename, stored_as, host, content_type, size, \
                    uploaded_by, created_at FROM attachments WHERE id = $1";
        let row = self.first(sqlx::query(text).bind(number)).await?;
        row.as_ref().map(read).transpose()
    }

    pub(super) async fn files_stored(&mut self) -> Result<Vec<String>> {
        let text = "SELECT stored_as FROM attachments ORDER BY id";
        self.each(sqlx::query(text), |row| Columns::of(row, "an attachment").text()).await
    }

    pub(super) async fn insert_attachment(&mut self, new: &Attachment) -> Result<i64> {
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

    pub(super) async fn delete_attachment(&mut self, number: i64) -> Result<()> {
        self.execute(sqlx::query("DELETE FROM attachments WHERE id = $1").bind(number)).await?;
        Ok(())
    }
}
