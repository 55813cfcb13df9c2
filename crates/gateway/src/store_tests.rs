use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::*;

struct Kept {
    _dir: tempfile::TempDir,
    store: GatewayStore,
    /// When everything was stored.
    now: Timestamp,
}

fn days(count: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * count)
}

fn answer() -> Replay {
    Replay { status: 200, headers: Vec::new(), body: b"{}".to_vec() }
}

/// Stores an ended run, one in progress, a response, an answer and a request in progress.
async fn kept() -> Kept {
    let dir = tempfile::tempdir().unwrap();
    let store = GatewayStore::open(&store_path(dir.path())).await.unwrap();
    let new = |id: &str| NewAgentRun {
        id: id.to_owned(),
        session: "s".to_owned(),
        model: "m".to_owned(),
        claim: None,
    };
    let ended = store.create_run(&new("ended")).await.unwrap();
    store.create_run(&new("open")).await.unwrap();
    let event = StoredEvent {
        seq: 1,
        at: Timestamp::now(),
        name: "run.completed".to_owned(),
        data: json!({}).to_string(),
    };
    let end = AgentRunEnd { status: RunStatus::Completed, output: None, usage: None, error: None };
    let writer = EventWriter::start(store.clone());
    writer.append(ended.key, vec![event], RunProgress::Ended(end)).await.unwrap();
    let response = StoredResponse {
        id: "resp".to_owned(),
        session: "s".to_owned(),
        last_message: 1,
        body: json!({}),
    };
    store.put_response(&response).await.unwrap();
    let ReplayClaim::New(key) = store.claim("r", "answered", b"f").await.unwrap() else { panic!() };
    store.settle_claim(key, &answer()).await.unwrap();
    assert!(matches!(store.claim("r", "open", b"f").await.unwrap(), ReplayClaim::New(_)));
    Kept { _dir: dir, store, now: Timestamp::now() }
}

impl Kept {
    /// Returns what is left: runs, events of the ended one, responses, answers.
    async fn left(&self) -> (Vec<String>, usize, bool, bool) {
        let runs = self.store.runs(10).await.unwrap();
        let events = self.store.events(1, 0, 10).await.unwrap().len();
        let response = self.store.response("resp").await.unwrap().is_some();
        let mut reader = self.store.reader().await.unwrap();
        let answered: i64 =
            sqlx::query_scalar("SELECT count(*) FROM replays WHERE name = 'answered'")
                .fetch_one(&mut *reader)
                .await
                .unwrap();
        (runs.into_iter().map(|run| run.id).collect(), events, response, answered == 1)
    }

    async fn is_open_claim_kept(&self) -> bool {
        matches!(self.store.claim("r", "open", b"f").await.unwrap(), ReplayClaim::InProgress)
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[tokio::test]
async fn what_was_kept_for_long_enough_goes_and_what_is_in_progress_stays() {
    let kept = kept().await;
    kept.store.prune(kept.now + SignedDuration::from_hours(23)).await.unwrap();
    assert_eq!(kept.left().await, (names(&["open", "ended"]), 1, true, true));
    kept.store.prune(kept.now + SignedDuration::from_hours(25)).await.unwrap();
    assert_eq!(kept.left().await, (names(&["open", "ended"]), 1, true, false));
    kept.store.prune(kept.now + days(8)).await.unwrap();
    assert_eq!(kept.left().await, (names(&["open"]), 0, true, false));
    kept.store.prune(kept.now + days(31)).await.unwrap();
    assert_eq!(kept.left().await, (names(&["open"]), 0, false, false));
    assert!(kept.is_open_claim_kept().await);
}

#[tokio::test]
async fn what_was_stored_while_the_clock_was_ahead_is_kept_no_longer_than_the_rest() {
    let kept = kept().await;
    // The clock was right again: a year earlier than all that was stored.
    let right = kept.now - days(365);
    kept.store.prune(right).await.unwrap();
    assert_eq!(kept.left().await, (names(&["open", "ended"]), 1, true, true));
    kept.store.prune(right + days(31)).await.unwrap();
    assert_eq!(kept.left().await, (names(&["open"]), 0, false, false));
}

#[tokio::test]
async fn a_file_of_the_first_version_is_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = store_path(dir.path());
    let first = Layout { application: LAYOUT.application, steps: &LAYOUT.steps[..1] };
    vestal_database::make(&path).unwrap();
    first.upgrade(&path, &options(&path).writer).await.unwrap();
    let store = GatewayStore::open(&path).await.unwrap();
    let ReplayClaim::New(key) = store.claim("r", "k", b"f").await.unwrap() else { panic!() };
    store.note_claim(key, "s").await.unwrap();
    let lost = LostClaim { key, session: Some("s".to_owned()), run: None };
    assert_eq!(store.lost_claims().await.unwrap(), [lost]);
}
