//! Making a conversation.

use std::os::unix::ffi::OsStrExt as _;

use crate::conversation::{Conversation, New};
use crate::error::Error;
use crate::id::ConversationId;
use crate::store::Store;
use crate::write::Write;
use crate::{Result, row, title};

impl Store {
    /// Makes a conversation.
    pub async fn create(&self, new: New) -> Result<Conversation> {
        let mut write = self.write().await?;
        let (id, _) = insert(&mut write, &new).await?;
        write.commit().await?;
        self.get(&id).await
    }
}

/// Makes a conversation within a transaction and returns its row.
pub(crate) async fn insert(write: &mut Write<'_>, new: &New) -> Result<(ConversationId, i64)> {
    let id = name(write, new.id.as_ref()).await?;
    let title = match &new.title {
        Some(title) => Some(title::settle(write, title, None).await?),
        None => None,
    };
    let parent = match &new.parent {
        Some((_, parent)) => Some(row::key(write, parent).await?),
        None => None,
    };
    let inserted = sqlx::query_scalar(
        "INSERT INTO conversations \
         (id, title, source, parent, parent_kind, provider, model, cwd, started_at, updated_at) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?9, ?9) RETURNING key",
    )
    .bind(id.as_str())
    .bind(title)
    .bind(&new.source)
    .bind(parent)
    .bind(new.parent.as_ref().map(|(kind, _)| kind.name()))
    .bind(&new.provider)
    .bind(&new.model)
    .bind(new.cwd.as_ref().map(|cwd| cwd.as_os_str().as_bytes()))
    .bind(row::now())
    .fetch_one(write.on())
    .await;
    let key: i64 = inserted.map_err(|error| write.explain(error))?;
    sqlx::query("INSERT INTO prompts (conversation, text) VALUES (?, ?)")
        .bind(key)
        .bind(&new.system_prompt)
        .execute(write.on())
        .await
        .map_err(|error| write.explain(error))?;
    Ok((id, key))
}

/// Returns the name a new conversation gets.
async fn name(write: &mut Write<'_>, wanted: Option<&ConversationId>) -> Result<ConversationId> {
    loop {
        let id = match wanted {
            Some(id) => id.clone(),
            None => ConversationId::generate()
                .map_err(|source| Error::Io { path: "/dev/urandom".into(), source })?,
        };
        let taken = row::find_key(write.on(), &id).await.map_err(|error| write.explain(error))?;
        match taken {
            None => return Ok(id),
            Some(_) if wanted.is_some() => return Err(Error::Exists { id }),
            Some(_) => {}
        }
    }
}
