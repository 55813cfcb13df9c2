use std::collections::BTreeMap;
use std::process::Stdio;

use vestal_conversations::{ConversationStore, Error, Stored};
use vestal_testkit::programs::{kill_after, lines};
use vestal_testkit::random::{Random, soak};

use crate::{assert_whole, conversation, worker};

const WRITERS: usize = 4;

#[tokio::test]
async fn soak_what_killed_processes_acknowledged_is_found_again_in_order() {
    let rounds = soak("VESTAL_SOAK_ROUNDS", 12) / 4;
    let mut random = Random::from_environment();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    let store = ConversationStore::open(&path).await.unwrap();
    conversation(&store, "shared").await;
    for writer in 0..WRITERS {
        conversation(&store, &format!("own{writer}")).await;
    }

    let mut acknowledged: BTreeMap<String, BTreeMap<i64, String>> = BTreeMap::new();
    for round in 0..rounds {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (own, name) = (format!("own{writer}"), format!("{round}.{writer}"));
                let child = worker(&path, &["write", &own, "shared", &name, "1000000"]).spawn();
                let (child, lines) =
                    (child.unwrap(), usize::try_from(8 + random.below(60)).unwrap());
                (own, std::thread::spawn(move || kill_after(child, lines)))
            })
            .collect();
        for (own, killer) in writers {
            for line in killer.join().unwrap() {
                let mut words = line.splitn(3, ' ');
                let which = if words.next() == Some("own") { own.clone() } else { "shared".into() };
                let seq = words.next().unwrap().parse().unwrap();
                let text = words.next().unwrap().to_owned();
                let before = acknowledged.entry(which).or_default().insert(seq, text);
                assert_eq!(before, None, "number {seq} was given twice");
            }
        }
    }

    assert_eq!(acknowledged.len(), WRITERS + 1);
    for (id, expected) in acknowledged {
        let stored = store.messages(&id.parse().unwrap()).await.unwrap();
        let found: BTreeMap<i64, String> =
            stored.iter().map(|stored| (stored.seq.0, stored.message.text())).collect();
        for (seq, text) in &expected {
            assert_eq!(found.get(seq), Some(text), "message {seq} of {id}");
        }
        assert_in_order(&stored);
    }
    store.close().await.unwrap();
    assert_whole(&path).await;
}

/// Asserts that numbers have no gaps, that both messages of an append stand
/// together, and that every writer's messages stand as it wrote them.
fn assert_in_order(stored: &[Stored]) {
    let numbers: Vec<i64> = stored.iter().map(|stored| stored.seq.0).collect();
    assert_eq!(numbers, (1..=i64::try_from(stored.len()).unwrap()).collect::<Vec<_>>());
    let mut last: BTreeMap<String, u32> = BTreeMap::new();
    for pair in stored.chunks(2) {
        let texts: Vec<String> = pair.iter().map(|stored| stored.message.text()).collect();
        assert_eq!(texts.len(), 2);
        assert_eq!(texts[0], texts[1]);
        let (name, number) = texts[0].split_once(' ').unwrap();
        let number: u32 = number.parse().unwrap();
        if let Some(before) = last.insert(name.to_owned(), number) {
            assert_eq!(number, before + 1, "{name}");
        } else {
            assert_eq!(number, 0, "{name}");
        }
    }
}

#[tokio::test]
async fn a_conversation_is_free_again_when_its_holder_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    let store = ConversationStore::open(&path).await.unwrap();
    let id = conversation(&store, "held").await;

    let mut holder = worker(&path, &["lease", "held"]).stdin(Stdio::piped()).spawn().unwrap();
    assert_eq!(lines(&mut holder).next().unwrap().unwrap(), "leased");
    match store.lease(&id) {
        Err(Error::Busy { id: held, pid }) => {
            assert_eq!((held, pid), (id.clone(), Some(holder.id())));
        }
        other => panic!("{other:?}"),
    }

    holder.kill().unwrap();
    holder.wait().unwrap();
    drop(store.lease(&id).unwrap());
    assert_eq!(std::fs::read_dir(dir.path().join("run")).unwrap().count(), 0);
    store.close().await.unwrap();
}
