//! Taking a file from a task.

use std::fs;
use std::io::ErrorKind;

use serde_json::json;

use super::{authority, scene};
use crate::authority::Authority;
use crate::error::Error;
use crate::event::{Kind, NewEvent};
use crate::{Board, Result};

impl Board {
    /// Takes a file from its task. A worker may take from its own, while it
    /// holds it.
    ///
    /// The board forgets the file before its bytes go; those that another host
    /// has, or that a crash left, are collected there later.
    pub async fn detach(&self, by: &Authority, number: i64) -> Result<()> {
        let mut tx = self.write().await?;
        let Some(attachment) = tx.attachment(number).await? else {
            let what = format!("attachment {number}");
            return Err(Error::Invalid { what, reason: "does not exist".to_owned() });
        };
        let task = scene::find(&mut *tx, &attachment.task_id).await?;
        authority::own(by, "detach from", &task)?;
        tx.remove_attachment(number).await?;
        let event = NewEvent {
            task: task.id,
            run: by.fence().map(|fence| fence.run),
            kind: Kind::AttachmentRemoved,
            payload: json!({ "filename": attachment.filename, "by": by.name() }),
        };
        tx.tell(&[event]).await?;
        tx.commit().await?;
        if attachment.host == self.host().name {
            let path = self.attachment_path(&attachment);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    tracing::warn!(%error, path = %path.display(), "cannot be removed now");
                }
                _ => {}
            }
            // The last file of a task leaves an empty directory, others do not.
            path.parent().map(fs::remove_dir);
        }
        Ok(())
    }
}
