use std::process::Stdio;

use vestal_conversations::{ConversationStore, Error};
use vestal_testkit::programs::lines;

use crate::{conversation, worker};

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
