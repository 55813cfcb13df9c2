//! The ledger: what was spent, whatever became of what it was spent on.

use vestal_conversations::{
    ConversationStore, LedgerFilter, LedgerGroup, LedgerGrouping, New, NewMessage, ParentKind,
    WorkAttempt, WorkItem,
};
use vestal_model::{Cost, CostSource, TokenUsage};
use vestal_testkit::sqlite::execute;

use crate::{answer, begin, fixture, from_cli, user};

/// An answer that took ten tokens and cost so much.
fn paid(micro_usd: u64) -> NewMessage {
    NewMessage {
        usage: Some(TokenUsage { input: 10, ..TokenUsage::default() }),
        cost: Some(Cost::Known { micro_usd, source: CostSource::Provider }),
        ..answer("done")
    }
}

async fn sums(store: &ConversationStore, by: LedgerGrouping) -> Vec<(LedgerGroup, u64)> {
    let sums = store.ledger(&LedgerFilter::default(), by).await.unwrap();
    sums.into_iter().map(|(group, totals)| (group, totals.micro_usd)).collect()
}

async fn spent(store: &ConversationStore, filter: &LedgerFilter) -> u64 {
    let sums = store.ledger(filter, LedgerGrouping::Source).await.unwrap();
    sums.iter().map(|(_, totals)| totals.micro_usd).sum()
}

#[tokio::test]
async fn the_ledger_keeps_what_a_deleted_and_an_undone_conversation_took() {
    let fixture = fixture().await;
    let (kept, gone) = (begin(&fixture).await, begin(&fixture).await);
    fixture.append(&kept, &[user("a"), paid(5)]).await.unwrap();
    fixture.undo(&kept, 1).await.unwrap();
    fixture.append(&gone, &[user("b"), paid(30)]).await.unwrap();
    let title = TokenUsage { output: 3, ..TokenUsage::default() };
    fixture.record_usage(&gone, "acme", "small", &title, None).await.unwrap();
    fixture.delete(&gone).await.unwrap();
    assert_eq!(
        sums(&fixture, LedgerGrouping::Conversation).await,
        [(LedgerGroup::Conversation(gone), 30), (LedgerGroup::Conversation(kept), 5)]
    );
    let by_model = fixture.ledger(&LedgerFilter::default(), LedgerGrouping::Model).await.unwrap();
    let unpriced: Vec<_> = by_model
        .iter()
        .map(|(group, totals)| (group.clone(), totals.calls, totals.unpriced))
        .collect();
    let model =
        |model: &str| LedgerGroup::Model { provider: "acme".to_owned(), model: model.to_owned() };
    assert_eq!(unpriced, [(model("large"), 2, 0), (model("small"), 1, 1)]);
}

#[tokio::test]
async fn nothing_takes_a_line_of_the_ledger_back() {
    let fixture = fixture().await;
    let id = begin(&fixture).await;
    fixture.append(&id, &[user("a"), paid(5)]).await.unwrap();
    for text in ["DELETE FROM ledger", "UPDATE ledger SET micro_usd = 0"] {
        let path = fixture.path().to_owned();
        let tried = tokio::spawn(async move { execute(&path, text).await }).await;
        assert!(tried.is_err(), "{text} was carried out");
    }
    assert_eq!(spent(&fixture, &LedgerFilter::default()).await, 5);
}

#[tokio::test]
async fn what_a_delegated_conversation_takes_counts_for_the_work_of_its_parent() {
    let fixture = fixture().await;
    let id = begin(&fixture).await;
    let work = |attempt: &str| WorkAttempt {
        kind: "kanban".to_owned(),
        group: "main".to_owned(),
        item: "t_1".to_owned(),
        attempt: attempt.to_owned(),
    };
    fixture.set_work(&id, &work("7")).await.unwrap();
    let child = |kind| New { parent: Some((kind, id.clone())), ..from_cli() };
    let delegated = fixture.create(child(ParentKind::Delegation)).await.unwrap().id;
    let branch = fixture.create(child(ParentKind::Branch)).await.unwrap().id;
    for (id, cost) in [(&id, 1), (&delegated, 10), (&branch, 100)] {
        fixture.append(id, &[user("a"), paid(cost)]).await.unwrap();
    }
    fixture.set_work(&id, &work("8")).await.unwrap();
    fixture.append(&id, &[user("again"), paid(1000)]).await.unwrap();
    assert_eq!(
        sums(&fixture, LedgerGrouping::Attempt).await,
        [
            (LedgerGroup::Attempt(Some(work("7"))), 11),
            (LedgerGroup::Attempt(None), 100),
            (LedgerGroup::Attempt(Some(work("8"))), 1000),
        ]
    );
    let WorkAttempt { kind, group, item, .. } = work("8");
    let task = WorkItem { kind, group, item };
    assert_eq!(
        sums(&fixture, LedgerGrouping::Work).await,
        [(LedgerGroup::Work(Some(task.clone())), 1011), (LedgerGroup::Work(None), 100)]
    );
    let filter = LedgerFilter { work: Some(task), ..LedgerFilter::default() };
    assert_eq!(spent(&fixture, &filter).await, 1011);
}

#[tokio::test]
async fn a_time_leaves_out_what_was_spent_before_and_after_it() {
    let fixture = fixture().await;
    let id = begin(&fixture).await;
    fixture.append(&id, &[user("a"), paid(5)]).await.unwrap();
    let now = jiff::Timestamp::now();
    let (before, after) =
        (now - jiff::SignedDuration::from_hours(1), now + jiff::SignedDuration::from_hours(1));
    for (since, until, expected) in [
        (Some(before), Some(after), 5),
        (Some(after), None, 0),
        (None, Some(before), 0),
        (None, None, 5),
    ] {
        let filter = LedgerFilter { since, until, work: None };
        assert_eq!(spent(&fixture, &filter).await, expected, "{since:?} {until:?}");
    }
    let times = sums(&fixture, LedgerGrouping::Time).await;
    let [(LedgerGroup::Time(at), 5)] = times.as_slice() else { panic!("{times:?}") };
    assert_eq!(at.as_second() % 900, 0);
}

/// A file of the first version, with a conversation and what it took.
const COUNTED: &str = concat!(
    include_str!("../../src/schema/1.sql"),
    "INSERT INTO conversations (key, id, source, provider, model, started_at, updated_at) \
     VALUES (1, '20261115-103001-k3f9ab', 'cli', 'acme', 'large-1', 1, 2000000); \
     INSERT INTO usage VALUES (1, 'acme', 'large-1', 3, 10, 20, 0, 0, 0, 77, 1); \
     PRAGMA user_version = 1; PRAGMA application_id = 1450406979"
);

#[tokio::test]
async fn what_was_counted_before_there_was_a_ledger_is_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    execute(&path, COUNTED).await;
    let store = ConversationStore::open(&path).await.unwrap();
    let sums = store.ledger(&LedgerFilter::default(), LedgerGrouping::Source).await.unwrap();
    let [(LedgerGroup::Source(source), totals)] = sums.as_slice() else { panic!("{sums:?}") };
    assert_eq!(
        (source.as_str(), totals.calls, totals.micro_usd, totals.unpriced),
        ("cli", 3, 77, 1)
    );
}
