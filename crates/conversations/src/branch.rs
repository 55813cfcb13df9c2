//! Branching: a conversation that starts with the messages of another.

use serde_json::Value;

use crate::conversation::{Conversation, ConversationId, New, ParentKind};
use crate::history::{NumberScope, place};
use crate::message::Seq;
use crate::store::{Store, WriteTransaction};
use crate::title::Title;
use crate::{Result, lifecycle, row};

impl Store {
    /// Creates a conversation with the messages that the model saw of another, up to and including
    /// `at`, or all of them. `at` may be a message that was compacted since: the branch has what the
    /// model saw then.
    ///
    /// The messages keep their numbers. Usage stays with the original, and so does its
    /// [state](Store::state). Without a title the branch gets the original's with a number.
    pub async fn branch(
        &self,
        id: &ConversationId,
        at: Option<Seq>,
        title: Option<Title>,
    ) -> Result<Conversation> {
        let mut write = self.write().await?;
        let (branch, _, _) = self.copy(&mut write, id, at, title).await?;
        write.commit().await?;
        self.get(&branch).await
    }

    /// Branches at the last message and copies the state, with `own` replacing entries of the same
    /// name. Both happen in one transaction: there is never a branch without its state.
    pub async fn branch_with_state(
        &self,
        id: &ConversationId,
        title: Option<Title>,
        own: &[(&str, &Value)],
    ) -> Result<Conversation> {
        let mut write = self.write().await?;
        let (branch, from, to) = self.copy(&mut write, id, None, title).await?;
        lifecycle::copy_state(&mut write, from, to).await?;
        for (name, value) in own {
            lifecycle::put_state(&mut write, to, name, Some(value)).await?;
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
        };
        let (branch, branch_key) = lifecycle::insert_conversation(write, &new).await?;
        for step in COPY {
            sqlx::query(step)
                .bind(key)
                .bind(branch_key)
                .bind(place)
                .bind(seq)
                .execute(write.on())
                .await
                .map_err(|error| write.explain(error))?;
        }
        Ok((branch, key, branch_key))
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
