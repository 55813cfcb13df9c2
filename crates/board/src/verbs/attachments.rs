//! The files of a task.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use serde_json::json;

use super::limits;
use super::transition::{Permit, find, record};
use crate::attachments::{self, Source};
use crate::error::Error;
use crate::event::Kind;
use crate::id::{Authority, TaskId};
use crate::task::Attachment;
use crate::{Board, Result};

/// Files that a task may have.
const MAX_FILES: usize = 100;

/// A file to be added to a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAttachment {
    /// Its name; what is not safe in one is left out.
    pub name: String,
    /// What is in it: `type/subtype`.
    pub content_type: Option<String>,
    /// Where its bytes come from.
    pub source: Source,
}

impl Board {
    /// Adds a file to a task. A worker may add to its own, while it holds it.
    ///
    /// The bytes are on the disk before the board knows of them, and copied
    /// while nobody waits: a crash in between leaves bytes that belong to no
    /// task, and never a task with a file that is not there.
    pub async fn attach(
        &self,
        by: &Authority,
        id: &TaskId,
        new: NewAttachment,
    ) -> Result<Attachment> {
        let content_type = attachments::content_type(new.content_type.as_deref())?;
        let name = attachments::safe_name(&new.name);
        let author = limits::name("the author", by.name())?;
        let permit = Permit::Holder("attach to");
        // What is going to be refused need not be copied.
        let mut tx = self.read().await?;
        permit.check(by, &find(&mut *tx, id).await?)?;
        let count = tx.attachments(id).await?.len();
        drop(tx);
        room(id, count)?;
        let stored = attachments::take_in(self, id, new.source).await?;

        let mut tx = self.write().await?;
        permit.check(by, &find(&mut *tx, id).await?)?;
        let others = tx.attachments(id).await?;
        room(id, others.len())?;
        let taken: Vec<&str> = others.iter().map(|other| other.filename.as_str()).collect();
        let mut attachment = Attachment {
            id: 0,
            task_id: id.clone(),
            filename: attachments::unique_name(&name, &taken),
            stored_as: stored.name.clone(),
            host: self.host().name.clone(),
            content_type,
            size: stored.size,
            uploaded_by: author.clone(),
            created_at: tx.now(),
        };
        attachment.id = tx.add_attachment(&attachment).await?;
        let payload =
            json!({ "filename": attachment.filename, "size": attachment.size, "by": author });
        let run = by.fence().map(|fence| fence.run);
        record(&mut *tx, id, run, Kind::Attached, payload).await?;
        // Whether a commit that failed took effect is not always known, and
        // bytes too many do no harm.
        stored.keep();
        tx.commit().await?;
        Ok(attachment)
    }

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
        let task = find(&mut *tx, &attachment.task_id).await?;
        Permit::Holder("detach from").check(by, &task)?;
        tx.remove_attachment(number).await?;
        let run = by.fence().map(|fence| fence.run);
        let payload = json!({ "filename": attachment.filename, "by": by.name() });
        record(&mut *tx, &task.id, run, Kind::AttachmentRemoved, payload).await?;
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

    /// Returns where the bytes of a file are, on the host that has them.
    pub fn attachment_path(&self, attachment: &Attachment) -> PathBuf {
        attachments::path_of(self.dir(), &attachment.task_id, &attachment.stored_as)
    }
}

fn room(id: &TaskId, count: usize) -> Result<()> {
    if count < MAX_FILES {
        return Ok(());
    }
    let (what, reason) = (format!("task {id}"), format!("has {count} files, and may have no more"));
    Err(Error::Invalid { what, reason })
}
