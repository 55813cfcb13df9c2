use super::*;

#[tokio::test]
async fn only_one_has_a_conversation_and_the_next_gets_it_after() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("state.db")).await.unwrap();
    let id: ConversationId = "a".parse().unwrap();
    let other: ConversationId = "b".parse().unwrap();
    let held = store.lease(&id).unwrap();
    let elsewhere = store.lease(&other).unwrap();
    match store.clone().lease(&id) {
        Err(Error::Busy { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
        other => panic!("{other:?}"),
    }
    drop(held);
    drop(store.lease(&id).unwrap());
    drop(elsewhere);
    assert_eq!(std::fs::read_dir(dir.path().join("run")).unwrap().count(), 0);
}

#[test]
fn a_lock_whose_file_was_removed_meanwhile_is_not_taken_for_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    let early = open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(attempt(&early, &path).unwrap(), LockAttempt::Stale);
    let current = acquire(dir.path(), &path).unwrap().unwrap();
    assert_eq!(attempt(&early, &path).unwrap(), LockAttempt::Stale);
    assert_eq!(attempt(&open(&path).unwrap(), &path).unwrap(), LockAttempt::Held);
    // The end of the early one leaves the other's file alone.
    drop(Lease { file: early, path: path.clone() });
    assert!(is_at(&current, &path).unwrap());
}
