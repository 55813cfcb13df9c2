//! Random sequences of calls, beside a model that is simple enough to believe.

use proptest::prelude::*;
use vestal_conversations::{
    ConversationId, ConversationStore, Error, MessageKind, MessageStanding, NewMessage, Seq, Stored,
};
use vestal_model::Message;

use crate::{answer, from_cli, user};

/// A call. Numbers choose among what there is.
#[derive(Debug, Clone)]
enum Call {
    Append { conversation: usize, kinds: Vec<MessageSource> },
    Undo { conversation: usize, turns: u32 },
    Compact { conversation: usize, at: usize, length: usize },
    Branch { conversation: usize, at: Option<usize> },
    Reopen,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageSource {
    ByUser,
    ByModel,
    AsNote,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let dialogue = prop_oneof![
        Just(MessageSource::ByUser),
        Just(MessageSource::ByModel),
        Just(MessageSource::AsNote)
    ];
    let call = prop_oneof![
        6 => (any::<usize>(), prop::collection::vec(dialogue, 1..5))
            .prop_map(|(conversation, kinds)| Call::Append { conversation, kinds }),
        2 => (any::<usize>(), 0..4_u32)
            .prop_map(|(conversation, turns)| Call::Undo { conversation, turns }),
        2 => (any::<usize>(), any::<usize>(), 1..3_usize)
            .prop_map(|(conversation, at, length)| Call::Compact { conversation, at, length }),
        2 => (any::<usize>(), prop::option::of(any::<usize>()))
            .prop_map(|(conversation, at)| Call::Branch { conversation, at }),
        1 => Just(Call::Reopen),
    ];
    prop::collection::vec(call, 1..25)
}

/// A message as the model of the store has it.
#[derive(Debug, Clone)]
struct Entry {
    seq: i64,
    text: String,
    starts_turn: bool,
    summary: bool,
    /// For the first message of a summary: what it stands for.
    replaced: Vec<Entry>,
}

/// A conversation as the model of the store has it: what is seen, and all that
/// is not any more.
#[derive(Debug, Clone)]
struct Talk {
    id: ConversationId,
    seen: Vec<Entry>,
    undone: Vec<i64>,
    compacted: Vec<i64>,
    next: i64,
}

impl Talk {
    fn entry(&mut self, text: &str, starts_turn: bool, summary: bool) -> Entry {
        let seq = self.next;
        self.next += 1;
        Entry { seq, text: text.to_owned(), starts_turn, summary, replaced: Vec::new() }
    }

    fn undo(&mut self, turns: u32) -> (u64, u64) {
        let mut undone = (0, 0);
        for _ in 0..turns {
            let Some(at) = self.seen.iter().rposition(|entry| entry.starts_turn) else { break };
            let gone = self.seen.split_off(at);
            undone = (undone.0 + 1, undone.1 + gone.len() as u64);
            self.undone.extend(gone.iter().map(|entry| entry.seq));
        }
        undone
    }

    fn compact(&mut self, mut at: usize, texts: &[String]) {
        // A summary is taken as a whole.
        while self.seen[at].summary && self.seen.get(at + 1).is_some_and(|next| next.summary) {
            at += 1;
        }
        let rest = self.seen.split_off(at + 1);
        let replaced = std::mem::take(&mut self.seen);
        self.compacted.extend(replaced.iter().map(|entry| entry.seq));
        for text in texts {
            let entry = self.entry(text, false, true);
            self.seen.push(entry);
        }
        self.seen[0].replaced = replaced;
        self.seen.extend(rest);
    }
}

/// Returns what was seen when `at` was the last message.
fn back_to(list: &[Entry], at: i64) -> Option<Vec<Entry>> {
    let mut before = Vec::new();
    for entry in list {
        if let Some(mut earlier) = back_to(&entry.replaced, at) {
            before.append(&mut earlier);
            return Some(before);
        }
        before.push(entry.clone());
        if entry.seq == at {
            return Some(before);
        }
    }
    None
}

fn with_summed_up(list: &[Entry], numbers: &mut Vec<i64>) {
    for entry in list {
        with_summed_up(&entry.replaced, numbers);
        numbers.push(entry.seq);
    }
}

async fn apply(store: &ConversationStore, talks: &mut Vec<Talk>, call: &Call, serial: usize) {
    let count = talks.len();
    match call {
        Call::Append { conversation, kinds } => {
            let talk = &mut talks[conversation % count];
            let mut new = Vec::new();
            for (number, dialogue) in kinds.iter().enumerate() {
                let text = format!("said {serial} {number}");
                new.push(match dialogue {
                    MessageSource::ByUser => user(&text),
                    MessageSource::ByModel => answer(&text),
                    MessageSource::AsNote => NewMessage::note(Message::user(text.as_str())),
                });
                let entry = talk.entry(&text, *dialogue == MessageSource::ByUser, false);
                talk.seen.push(entry);
            }
            store.append(&talk.id, &new).await.unwrap();
        }
        Call::Undo { conversation, turns } => {
            let talk = &mut talks[conversation % count];
            let undone = store.undo(&talk.id, *turns).await.unwrap();
            assert_eq!((undone.turns, undone.messages), talk.undo(*turns));
        }
        Call::Compact { conversation, at, length } => {
            let talk = &mut talks[conversation % count];
            if talk.seen.is_empty() {
                let refused = store.compact(&talk.id, Seq(1), &[user("s")]).await;
                assert!(matches!(refused, Err(Error::NoMessage { .. })));
                return;
            }
            let at = at % talk.seen.len();
            let texts: Vec<String> = (0..*length).map(|n| format!("sum {serial} {n}")).collect();
            let summary: Vec<_> = texts.iter().map(|text| user(text)).collect();
            store.compact(&talk.id, Seq(talk.seen[at].seq), &summary).await.unwrap();
            talk.compact(at, &texts);
        }
        Call::Branch { conversation, at } => {
            let from = talks[conversation % count].clone();
            let mut reachable = Vec::new();
            with_summed_up(&from.seen, &mut reachable);
            let at = at.filter(|_| !reachable.is_empty()).map(|at| reachable[at % reachable.len()]);
            let branch = store.branch(&from.id, at.map(Seq), None).await.unwrap();
            let mut seen = match at {
                Some(at) => back_to(&from.seen, at).unwrap(),
                None => from.seen,
            };
            for entry in &mut seen {
                entry.replaced.clear();
            }
            let next = 1 + seen.iter().map(|entry| entry.seq).max().unwrap_or(0);
            talks.push(Talk {
                id: branch.id,
                seen,
                undone: Vec::new(),
                compacted: Vec::new(),
                next,
            });
        }
        Call::Reopen => {}
    }
}

fn numbers(stored: &[Stored], standing: MessageStanding) -> Vec<i64> {
    let mut numbers: Vec<i64> = stored
        .iter()
        .filter(|stored| stored.standing == standing)
        .map(|stored| stored.seq.0)
        .collect();
    numbers.sort_unstable();
    numbers
}

async fn assert_same(store: &ConversationStore, talk: &Talk) {
    let seen: Vec<_> = store.messages(&talk.id).await.unwrap();
    let seen: Vec<(i64, String, bool)> = seen
        .iter()
        .map(|stored| (stored.seq.0, stored.message.text(), stored.kind == MessageKind::Summary))
        .collect();
    let expected: Vec<_> =
        talk.seen.iter().map(|entry| (entry.seq, entry.text.clone(), entry.summary)).collect();
    assert_eq!(seen, expected);
    let history = store.history(&talk.id).await.unwrap();
    for (standing, expected) in
        [(MessageStanding::Undone, &talk.undone), (MessageStanding::Compacted, &talk.compacted)]
    {
        let mut expected = expected.clone();
        expected.sort_unstable();
        assert_eq!(numbers(&history, standing), expected, "{standing:?}");
    }
    let counted = history.iter().filter(|stored| {
        stored.standing != MessageStanding::Undone && stored.kind != MessageKind::Summary
    });
    let summary = store.summary(&talk.id).await.unwrap();
    assert_eq!(summary.messages, counted.count() as u64);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_calls_does_what_a_simple_model_does(calls in calls()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("state.db");
            let mut store = ConversationStore::open(&path).await.unwrap();
            let id = store.create(from_cli()).await.unwrap().id;
            let fresh = Talk { id, seen: vec![], undone: vec![], compacted: vec![], next: 1 };
            let mut talks = vec![fresh];
            for (serial, call) in calls.iter().enumerate() {
                if matches!(call, Call::Reopen) {
                    store.close().await.unwrap();
                    store = ConversationStore::open(&path).await.unwrap();
                }
                apply(&store, &mut talks, call, serial).await;
            }
            for talk in &talks {
                assert_same(&store, talk).await;
            }
        });
    }
}
