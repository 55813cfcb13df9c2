//! What the store promises, within one process.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod find;
mod import;
mod ledger;
mod messages;
mod property;
mod search;
mod turns;

use tempfile::TempDir;
use vestal_conversations::{
    ConversationId, ConversationRecord, ConversationStore, New, NewMessage, Seq, Stored, Title,
};
use vestal_model::{AssistantMessage, FinishReason, Message, ToolCall, ToolResult};

/// A store in a directory that goes with it.
struct StoreFixture {
    store: ConversationStore,
    dir: TempDir,
}

impl std::ops::Deref for StoreFixture {
    type Target = ConversationStore;

    fn deref(&self) -> &ConversationStore {
        &self.store
    }
}

async fn fixture() -> StoreFixture {
    let dir = tempfile::tempdir().unwrap();
    let store = ConversationStore::open(dir.path().join("state.db")).await.unwrap();
    StoreFixture { store, dir }
}

fn from_cli() -> New {
    New {
        source: "cli".to_owned(),
        provider: "acme".to_owned(),
        model: "large".to_owned(),
        ..New::default()
    }
}

async fn begin(store: &ConversationStore) -> ConversationId {
    store.create(from_cli()).await.unwrap().id
}

async fn titled(store: &ConversationStore, title: &str) -> ConversationRecord {
    let title = Some(Title::Given(title.to_owned()));
    store.create(New { title, ..from_cli() }).await.unwrap()
}

fn user(text: &str) -> NewMessage {
    NewMessage::new(Message::user(text))
}

fn answer(text: &str) -> NewMessage {
    let message = AssistantMessage { text: text.to_owned(), ..AssistantMessage::default() };
    NewMessage::new(Message::Assistant(message))
}

fn call(tool: &str) -> NewMessage {
    NewMessage::new(Message::Assistant(AssistantMessage {
        calls: vec![ToolCall {
            id: "call-1".to_owned(),
            name: tool.to_owned(),
            arguments: "{}".to_owned(),
        }],
        finish: FinishReason::ToolCalls,
        ..AssistantMessage::default()
    }))
}

fn result(text: &str) -> NewMessage {
    NewMessage::new(Message::Tool(ToolResult {
        call: "call-1".to_owned(),
        name: "terminal".to_owned(),
        content: text.to_owned(),
        ..ToolResult::default()
    }))
}

fn texts(stored: &[Stored]) -> Vec<(i64, String)> {
    stored.iter().map(|stored| (stored.seq.0, stored.message.text())).collect()
}

/// Returns numbers and texts of what the model sees.
async fn seen(store: &ConversationStore, id: &ConversationId) -> Vec<(i64, String)> {
    texts(&store.messages(id).await.unwrap())
}

fn expected(list: &[(i64, &str)]) -> Vec<(i64, String)> {
    list.iter().map(|(seq, text)| (*seq, (*text).to_owned())).collect()
}

fn numbers(list: &[Seq]) -> Vec<i64> {
    list.iter().map(|seq| seq.0).collect()
}
