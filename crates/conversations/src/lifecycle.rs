//! Creating, branching, changing, ending and deleting conversations, and the state they keep.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use async_recursion::async_recursion as boxed;
use serde_json::Value;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Row as _, Sqlite};

use crate::conversation::{ConversationId, ConversationRecord, New, Parent, ParentKind};
use crate::error::Error;
use crate::history::{NumberScope, place};
use crate::message::Seq;
use crate::store::{ConversationStore, WriteTransaction};
use crate::title::{self, Title};
use crate::{Result, row};

impl ConversationStore {
    /// Creates a conversation.
    #[boxed]
    pub async fn create(&self, new: New) -> Result<ConversationRecord> {
        let inserted = match &new {
            New { id: Some(id), title: None, parent: None, .. } => {
                self.insert_plain(id, &new).await?
            }
            _ => {
                let mut write = self.write().await?;
                let inserted = insert_conversation(&mut write, &new).await?;
                write.commit().await?;
                inserted
            }
        };
        let New { source, parent, provider, model, cwd, .. } = new;
        Ok(ConversationRecord {
            id: inserted.id,
            title: inserted.title,
            source,
            parent: parent.map(|(kind, id)| Parent { kind, id: Some(id) }),
            provider,
            model,
            cwd,
            started_at: row::time(inserted.at),
            updated_at: row::time(inserted.at),
            ended: None,
        })
    }

    /// Creates a conversation that refers to no other, in one round trip: hundreds may begin at one
    /// instant.
    async fn insert_plain(&self, id: &ConversationId, new: &New) -> Result<InsertedConversation> {
        let at = row::now();
        let state: Vec<(&str, String)> =
            new.state.iter().map(|(name, value)| (name.as_str(), value.to_string())).collect();
        let state = serde_json::to_string(&state).map_err(Error::Unwritable)?;
        let query = sqlx::query(
            "INSERT INTO conversations (id, source, provider, model, cwd, started_at, updated_at) \
             VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING key; \
             INSERT INTO prompts (conversation, text) \
             SELECT key, ? FROM conversations WHERE id = ?; \
             INSERT INTO state (conversation, name, value) \
             SELECT c.key, s.value ->> 0, s.value ->> 1 \
             FROM conversations c, json_each(?) s WHERE c.id = ?",
        )
        .bind(id.as_str())
        .bind(&new.source)
        .bind(&new.provider)
        .bind(&new.model)
        .bind(new.cwd.as_ref().map(|cwd| cwd.as_os_str().as_bytes()))
        .bind(at)
        .bind(at)
        .bind(&new.system_prompt)
        .bind(id.as_str())
        .bind(state)
        .bind(id.as_str());
        let rows = match self.write_at_once(query).await {
            Ok(rows) => rows,
            Err(error) if error.is_taken() => return Err(Error::Exists { id: id.clone() }),
            Err(error) => return Err(error),
        };
        let key = rows.first().map(|row| row.try_get(0)).transpose();
        let key = key.map_err(|error| self.explain(error))?.ok_or_else(|| row::not_found(id))?;
        Ok(InsertedConversation { id: id.clone(), key, title: None, at })
    }

    /// Changes the system prompt.
    #[boxed]
    pub async fn set_system_prompt(&self, id: &ConversationId, text: &str) -> Result<()> {
        let query = sqlx::query(
            "UPDATE prompts SET text = ? \
             WHERE conversation = (SELECT key FROM conversations WHERE id = ?) RETURNING 1",
        );
        self.update(id, query.bind(text)).await
    }

    /// Changes which model is asked.
    #[boxed]
    pub async fn set_model(&self, id: &ConversationId, provider: &str, model: &str) -> Result<()> {
        let query = sqlx::query(
            "UPDATE conversations SET provider = ?, model = ? WHERE id = ? RETURNING 1",
        );
        self.update(id, query.bind(provider).bind(model)).await
    }

    /// Changes the working directory on the host.
    #[boxed]
    pub async fn set_cwd(&self, id: &ConversationId, cwd: &Path) -> Result<()> {
        let query = sqlx::query("UPDATE conversations SET cwd = ? WHERE id = ? RETURNING 1");
        self.update(id, query.bind(cwd.as_os_str().as_bytes())).await
    }

    /// Marks a conversation as used now. One that had ended is open again.
    #[boxed]
    pub async fn touch(&self, id: &ConversationId) -> Result<()> {
        let query = sqlx::query(
            "UPDATE conversations SET updated_at = max(updated_at, ?), ended_at = NULL, \
             end_reason = NULL WHERE id = ? RETURNING 1",
        );
        self.update(id, query.bind(row::now())).await
    }

    /// Marks a conversation as ended. The next [`ConversationStore::append`] or [`ConversationStore::touch`] opens it again.
    #[boxed]
    pub async fn end(&self, id: &ConversationId, reason: &str) -> Result<()> {
        let query = sqlx::query(
            "UPDATE conversations SET ended_at = ?, end_reason = ?, \
             updated_at = max(updated_at, ?) WHERE id = ? RETURNING 1",
        );
        let now = row::now();
        self.update(id, query.bind(now).bind(reason).bind(now)).await
    }

    /// The same, and removes an entry of its state with it, in one transaction.
    #[boxed]
    pub async fn end_without(&self, id: &ConversationId, reason: &str, state: &str) -> Result<()> {
        let query = sqlx::query(
            "UPDATE conversations SET ended_at = ?, end_reason = ?, \
             updated_at = max(updated_at, ?) WHERE id = ? RETURNING 1; \
             DELETE FROM state WHERE conversation = \
             (SELECT key FROM conversations WHERE id = ?) AND name = ?",
        );
        let now = row::now();
        let query = query.bind(now).bind(reason).bind(now).bind(id.as_str());
        let rows = self.write_at_once(query.bind(id.as_str()).bind(state)).await?;
        if rows.is_empty() { Err(row::not_found(id)) } else { Ok(()) }
    }

    /// Deletes a conversation with its messages and state. Its branches and delegated conversations
    /// stay, without a parent; the [ledger](ConversationStore::ledger) keeps what it took.
    ///
    /// The caller should hold the conversation's [lease](ConversationStore::lease).
    #[boxed]
    pub async fn delete(&self, id: &ConversationId) -> Result<()> {
        self.update(id, sqlx::query("DELETE FROM conversations WHERE id = ? RETURNING 1")).await
    }

    /// Runs one statement on a conversation; its id is the last parameter. It returns a row if there
    /// is the conversation.
    pub(crate) async fn update(
        &self,
        id: &ConversationId,
        query: Query<'_, Sqlite, SqliteArguments>,
    ) -> Result<()> {
        let rows = self.write_at_once(query.bind(id.as_str())).await?;
        if rows.is_empty() { Err(row::not_found(id)) } else { Ok(()) }
    }

    /// Returns an entry of the conversation's state.
    #[boxed]
    pub async fn state(&self, id: &ConversationId, name: &str) -> Result<Option<Value>> {
        let mut reader = self.reader().await?;
        let found: Option<Option<String>> = sqlx::query_scalar(
            "SELECT s.value FROM conversations c LEFT JOIN state s \
             ON s.conversation = c.key AND s.name = ? WHERE c.id = ?",
        )
        .bind(name)
        .bind(id.as_str())
        .fetch_optional(&mut *reader)
        .await
        .map_err(|error| self.explain(error))?;
        let Some(text) = found.ok_or_else(|| row::not_found(id))? else { return Ok(None) };
        let value = serde_json::from_str(&text);
        value.map(Some).map_err(|source| Error::Unreadable {
            id: id.clone(),
            what: format!("the state {name:?}"),
            source,
        })
    }

    /// Returns all conversations whose state has an entry of a name, with the entry, the oldest
    /// conversation first. It looks at the state of every conversation: for the start of a program,
    /// not for every call. An entry that cannot be read is null.
    #[boxed]
    pub async fn with_state(&self, name: &str) -> Result<Vec<(ConversationId, Value)>> {
        let mut reader = self.reader().await?;
        let rows: Vec<(String, String)> = sqlx::query_as(
            "SELECT c.id, s.value FROM state s JOIN conversations c ON c.key = s.conversation \
             WHERE s.name = ? ORDER BY c.key",
        )
        .bind(name)
        .fetch_all(&mut *reader)
        .await
        .map_err(|error| self.explain(error))?;
        let ids = rows.into_iter().filter_map(|(id, value)| {
            // Every id in the file was made by this crate.
            let id = id.parse().ok()?;
            Some((id, serde_json::from_str(&value).unwrap_or_default()))
        });
        Ok(ids.collect())
    }

    /// Sets an entry of the conversation's state; `None` removes it.
    #[boxed]
    pub async fn set_state(
        &self,
        id: &ConversationId,
        name: &str,
        value: Option<&Value>,
    ) -> Result<()> {
        let query = match value {
            Some(value) => sqlx::query(
                "INSERT INTO state (conversation, name, value) \
                 SELECT key, ?, ? FROM conversations WHERE id = ? \
                 ON CONFLICT DO UPDATE SET value = excluded.value RETURNING 1",
            )
            .bind(name)
            .bind(value.to_string())
            .bind(id.as_str()),
            None => sqlx::query(
                "SELECT 1 FROM conversations WHERE id = ?; \
                 DELETE FROM state WHERE conversation = \
                 (SELECT key FROM conversations WHERE id = ?) AND name = ?",
            )
            .bind(id.as_str())
            .bind(id.as_str())
            .bind(name),
        };
        let rows = self.write_at_once(query).await?;
        if rows.is_empty() { Err(row::not_found(id)) } else { Ok(()) }
    }
}

/// A conversation that a transaction has created.
pub(crate) struct InsertedConversation {
    pub(crate) id: ConversationId,
    pub(crate) key: i64,
    /// Its title, which may have got a number.
    title: Option<String>,
    at: i64,
}

/// Creates a conversation within a transaction.
pub(crate) async fn insert_conversation(
    write: &mut WriteTransaction<'_>,
    new: &New,
) -> Result<InsertedConversation> {
    let id = free_id(write, new.id.as_ref()).await?;
    let title = match &new.title {
        Some(title) => Some(title::settle(write, title, None).await?),
        None => None,
    };
    let parent = match &new.parent {
        Some((_, parent)) => Some(row::key(write, parent).await?),
        None => None,
    };
    let at = row::now();
    let inserted = sqlx::query_scalar(
        "INSERT INTO conversations \
         (id, title, source, parent, parent_kind, provider, model, cwd, started_at, updated_at) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?9, ?9) RETURNING key",
    )
    .bind(id.as_str())
    .bind(&title)
    .bind(&new.source)
    .bind(parent)
    .bind(new.parent.as_ref().map(|(kind, _)| kind.name()))
    .bind(&new.provider)
    .bind(&new.model)
    .bind(new.cwd.as_ref().map(|cwd| cwd.as_os_str().as_bytes()))
    .bind(at)
    .fetch_one(write.on())
    .await;
    let key: i64 = inserted.map_err(|error| write.explain(error))?;
    if let (Some((ParentKind::Delegation, _)), Some(parent)) = (&new.parent, parent) {
        // A part of the work is done for whom the work is done for.
        sqlx::query(
            "UPDATE conversations SET (work_kind, work_group, work_item, work_attempt) = \
             (SELECT work_kind, work_group, work_item, work_attempt FROM conversations \
              WHERE key = ?1) WHERE key = ?2",
        )
        .bind(parent)
        .bind(key)
        .execute(write.on())
        .await
        .map_err(|error| write.explain(error))?;
    }
    sqlx::query("INSERT INTO prompts (conversation, text) VALUES (?, ?)")
        .bind(key)
        .bind(&new.system_prompt)
        .execute(write.on())
        .await
        .map_err(|error| write.explain(error))?;
    for (name, value) in &new.state {
        put_state(write, key, name, Some(value)).await?;
    }
    Ok(InsertedConversation { id, key, title, at })
}

/// Returns the id of a new conversation.
async fn free_id(
    write: &mut WriteTransaction<'_>,
    wanted: Option<&ConversationId>,
) -> Result<ConversationId> {
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

/// Sets or removes an entry of the state, within a transaction.
pub(crate) async fn put_state(
    write: &mut WriteTransaction<'_>,
    key: i64,
    name: &str,
    value: Option<&Value>,
) -> Result<()> {
    let query = match value {
        Some(value) => sqlx::query(
            "INSERT INTO state (conversation, name, value) VALUES (?1, ?2, ?3) \
             ON CONFLICT DO UPDATE SET value = ?3",
        )
        .bind(key)
        .bind(name)
        .bind(value.to_string()),
        None => sqlx::query("DELETE FROM state WHERE conversation = ? AND name = ?")
            .bind(key)
            .bind(name),
    };
    query.execute(write.on()).await.map_err(|error| write.explain(error))?;
    Ok(())
}

/// Copies the state of one conversation to another.
pub(crate) async fn copy_state(write: &mut WriteTransaction<'_>, from: i64, to: i64) -> Result<()> {
    let query = sqlx::query(
        "INSERT OR REPLACE INTO state (conversation, name, value) \
         SELECT ?2, name, value FROM state WHERE conversation = ?1",
    );
    let done = query.bind(from).bind(to).execute(write.on()).await;
    done.map_err(|error| write.explain(error))?;
    Ok(())
}

impl ConversationStore {
    /// Creates a conversation with the messages that the model saw of another, up to and including
    /// `at`, or all of them. `at` may be a message that was compacted since: the branch has what the
    /// model saw then.
    ///
    /// The messages keep their numbers. Usage stays with the original, and so does its
    /// [state](ConversationStore::state). Without a title the branch gets the original's with a number.
    #[boxed]
    pub async fn branch(
        &self,
        id: &ConversationId,
        at: Option<Seq>,
        title: Option<Title>,
    ) -> Result<ConversationRecord> {
        let mut write = self.write().await?;
        let (branch, _, _) = self.copy(&mut write, id, at, title).await?;
        write.commit().await?;
        self.get(&branch).await
    }

    /// Branches at the last message and copies the state, with `own` replacing entries of the same
    /// name. Both happen in one transaction: there is never a branch without its state.
    #[boxed]
    pub async fn branch_with_state(
        &self,
        id: &ConversationId,
        title: Option<Title>,
        own: &[(&str, &Value)],
    ) -> Result<ConversationRecord> {
        let mut write = self.write().await?;
        let (branch, from, to) = self.copy(&mut write, id, None, title).await?;
        copy_state(&mut write, from, to).await?;
        for (name, value) in own {
            put_state(&mut write, to, name, Some(value)).await?;
        }
        write.commit().await?;
        self.get(&branch).await
    }

    /// Creates the branch within a transaction. Returns its id and the keys of the original and the
    /// branch.
    async fn copy(
        &self,
        write: &mut WriteTransaction<'_>,
        id: &ConversationId,
        at: Option<Seq>,
        title: Option<Title>,
    ) -> Result<(ConversationId, i64, i64)> {
        // The write lock is held, so a reader sees exactly what is copied.
        let from = self.get(id).await?;
        let system_prompt = self.system_prompt(id).await?;
        let key = row::key(write, id).await?;
        let (place, seq) = match at {
            Some(seq) => (place(write, id, key, seq, NumberScope::NotUndone).await?, seq.0),
            None => (i64::MAX, i64::MAX),
        };
        let new = New {
            id: None,
            title: title.or_else(|| from.title.map(Title::Generated)),
            source: from.source,
            parent: Some((ParentKind::Branch, id.clone())),
            provider: from.provider,
            model: from.model,
            cwd: from.cwd,
            system_prompt,
            state: Vec::new(),
        };
        let branch = insert_conversation(write, &new).await?;
        for step in COPY {
            sqlx::query(step)
                .bind(key)
                .bind(branch.key)
                .bind(place)
                .bind(seq)
                .execute(write.on())
                .await
                .map_err(|error| write.explain(error))?;
        }
        Ok((branch.id, key, branch.key))
    }
}

/// Copies messages from ?1 to ?2 up to (?3, ?4).
///
/// Messages are left out if a summary before that point replaces them; a later summary does not
/// count.
const COPY: [&str; 3] = [
    "INSERT INTO messages \
     (conversation, seq, place, kind, role, at, calls, provider, model, body) \
     SELECT ?2, m.seq, m.place, m.kind, m.role, m.at, m.calls, m.provider, m.model, m.body \
     FROM messages m WHERE m.conversation = ?1 AND m.undone = 0 AND (m.place, m.seq) <= (?3, ?4) \
     AND NOT EXISTS (SELECT 1 FROM messages s WHERE s.conversation = ?1 \
                     AND s.seq = m.archived_by AND (s.place, s.seq) <= (?3, ?4)) \
     ORDER BY m.place, m.seq",
    "INSERT INTO words (rowid, text) SELECT n.key, w.text FROM messages n \
     JOIN messages m ON m.conversation = ?1 AND m.place = n.place AND m.seq = n.seq \
     JOIN words w ON w.rowid = m.key WHERE n.conversation = ?2",
    "UPDATE conversations SET \
     next_seq = 1 + (SELECT coalesce(max(seq), 0) FROM messages WHERE conversation = ?2), \
     messages = (SELECT count(*) FROM messages WHERE conversation = ?2 AND kind <> 'summary'), \
     tool_calls = (SELECT coalesce(sum(calls), 0) FROM messages WHERE conversation = ?2), \
     preview = (SELECT preview FROM conversations WHERE key = ?1) WHERE key = ?2",
];
