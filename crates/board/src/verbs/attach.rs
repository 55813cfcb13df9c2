//! Adding a file to a task.

use std::path::PathBuf;

use serde_json::json;

use super::{authority, limits, scene};
use crate::attachments::{self, Source};
use crate::authority::Authority;
use crate::error::Error;
use crate::event::{Kind, NewEvent};
use crate::id::TaskId;
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
        // What is going to be refused need not be copied.
        let mut tx = self.read().await?;
        let task = scene::find(&mut *tx, id).await?;
        authority::own(by, "attach to", &task)?;
        let count = tx.attachments(id).await?.len();
        drop(tx);
        room(id, count)?;
        let stored = attachments::take_in(self, id, new.source).await?;

        let mut tx = self.write().await?;
        let task = scene::find(&mut *tx, id).await?;
        authority::own(by, "attach to", &task)?;
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
        tx.tell(&[NewEvent { task: id.clone(), run, kind: Kind::Attached, payload }]).await?;
        // Whether a commit that failed took effect is not always known, and
        // bytes too many do no harm.
        stored.keep();
        tx.commit().await?;
        Ok(attachment)
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
