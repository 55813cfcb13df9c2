use super::*;

async fn store(dir: &tempfile::TempDir) -> AuthStore {
    AuthStore::open(&store_path(dir.path())).await.unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

#[tokio::test]
async fn a_link_lets_somebody_in_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir).await;
    let link = store.create_link(Right::Viewer, at(0)).await.unwrap();
    let (session, who) = store.redeem_link(link.token(), at(1)).await.unwrap().unwrap();
    assert_eq!((who.right, who.method), (Right::Viewer, "link"));
    assert!(store.redeem_link(link.token(), at(1)).await.unwrap().is_none(), "it was used");
    assert_eq!(store.session(&session, at(2)).await.unwrap().unwrap().1, who);
    assert!(store.session(link.token(), at(2)).await.unwrap().is_none(), "a link is not a session");
    store.close().await;
}

#[tokio::test]
async fn a_link_is_refused_after_ten_minutes() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir).await;
    let link = store.create_link(Right::Operator, at(0)).await.unwrap();
    assert!(store.redeem_link(link.token(), at(600)).await.unwrap().is_none());
    assert!(store.redeem_link(link.token(), at(1)).await.unwrap().is_none(), "and is gone then");
    store.close().await;
}

#[tokio::test]
async fn of_two_who_redeem_a_link_at_once_one_wins() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (store(&dir).await, store(&dir).await);
    for _ in 0..8 {
        let link = first.create_link(Right::Operator, at(0)).await.unwrap();
        let (a, b) = tokio::join!(
            first.redeem_link(link.token(), at(1)),
            second.redeem_link(link.token(), at(1))
        );
        let winners = [a.unwrap(), b.unwrap()].into_iter().flatten().count();
        assert_eq!(winners, 1);
    }
    first.close().await;
    second.close().await;
}

#[tokio::test]
async fn a_session_ends_when_idle_for_twelve_hours_and_after_seven_days() {
    const HOUR: i64 = 3600;
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir).await;
    let who = Principal { name: "a".into(), right: Right::Operator, method: "password" };
    let idle = store.begin_session(&who, at(0)).await.unwrap();
    assert!(store.session(&idle, at(12 * HOUR - 1)).await.unwrap().is_some());
    assert!(store.session(&idle, at(24 * HOUR - 2)).await.unwrap().is_some(), "use keeps it");
    assert!(store.session(&idle, at(36 * HOUR)).await.unwrap().is_none());
    let used = store.begin_session(&who, at(0)).await.unwrap();
    for hours in (0..168).step_by(6) {
        assert!(store.session(&used, at(hours * HOUR)).await.unwrap().is_some(), "{hours}");
    }
    assert!(store.session(&used, at(168 * HOUR)).await.unwrap().is_none(), "whatever its use");
    store.close().await;
}

#[tokio::test]
async fn no_secret_is_in_the_file_and_a_restart_keeps_sessions() {
    let dir = tempfile::tempdir().unwrap();
    let first = store(&dir).await;
    let link = first.create_link(Right::Operator, at(0)).await.unwrap();
    let kept = first.create_link(Right::Operator, at(0)).await.unwrap();
    let (session, who) = first.redeem_link(link.token(), at(1)).await.unwrap().unwrap();
    first.close().await;
    let path = store_path(dir.path());
    let bytes = std::fs::read(&path).unwrap();
    for secret in [link.token(), kept.token(), &session] {
        let secret = secret.expose().as_bytes();
        assert!(!bytes.windows(secret.len()).any(|window| window == secret));
    }
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
    assert_eq!(mode & 0o777, 0o600);
    let second = store(&dir).await;
    assert_eq!(second.session(&session, at(2)).await.unwrap().unwrap().1, who);
    assert_eq!(format!("{session:?}"), "Token(…)");
    second.close().await;
}

#[tokio::test]
async fn a_session_of_another_home_does_not_count() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (here, there) = (store(&here).await, store(&there).await);
    let who = Principal { name: "a".into(), right: Right::Operator, method: "password" };
    let session = there.begin_session(&who, at(0)).await.unwrap();
    assert!(here.session(&session, at(1)).await.unwrap().is_none());
    assert_ne!(here.home_mark(), there.home_mark());
    here.close().await;
    there.close().await;
}

#[tokio::test]
async fn a_new_password_ends_the_sessions_of_the_old_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir).await;
    store.set_password("correct horse battery", at(0)).await.unwrap();
    let who = Principal { name: "a".into(), right: Right::Operator, method: "password" };
    let session = store.begin_session(&who, at(0)).await.unwrap();
    assert!(store.check_password("correct horse battery").await.unwrap());
    assert!(!store.check_password("correct horse batterz").await.unwrap());
    store.set_password("another one entirely", at(1)).await.unwrap();
    assert!(store.session(&session, at(2)).await.unwrap().is_none());
    assert!(!store.check_password("correct horse battery").await.unwrap());
    store.remove_password(at(3)).await.unwrap();
    assert!(!store.check_password("another one entirely").await.unwrap());
    assert!(matches!(store.set_password("short", at(4)).await, Err(PasswordError::Short { .. })));
    store.close().await;
}

use crate::auth::PasswordError;
