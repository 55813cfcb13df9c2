//! Every verb on a task of every status: where it leads, or that it is refused
//! and changes nothing.

use vestal_board::testing::{TestBoard, profile};
use vestal_board::{BlockKind, Claim, Promotion, Role, Status, TaskId};

use crate::support::{LEASE, ann, at, because, done, place};

/// Does a verb as a person, and returns where the task stands then; nothing
/// where it is gone.
async fn does(place: &TestBoard, verb: &str, id: &TaskId) -> vestal_board::Result<Option<Status>> {
    let ann = ann();
    let claim = |role| Claim { lease: LEASE, profile: None, role, host: None };
    match verb {
        "claim" => place.claim(&ann, id, claim(Role::Work)).await.map(drop)?,
        "claim for review" => place.claim(&ann, id, claim(Role::Review)).await.map(drop)?,
        "complete" => place.complete(&ann, id, done("done")).await.map(drop)?,
        "submit" => place.submit(&ann, id, done("done")).await.map(drop)?,
        "request changes" => place.request_changes(&ann, id, "more").await.map(drop)?,
        "block" => place.block(&ann, id, because(BlockKind::NeedsInput)).await.map(drop)?,
        "schedule" => place.schedule(&ann, id, "later", None).await.map(drop)?,
        "unblock" => place.unblock(&ann, id, Some("go")).await.map(drop)?,
        "promote" => place.promote(&ann, id, Promotion::default()).await.map(drop)?,
        "promote by force" => {
            let promotion = Promotion { force: true, ..Promotion::default() };
            place.promote(&ann, id, promotion).await.map(drop)?;
        }
        "reclaim" => place.reclaim(&ann, id, "mine").await.map(drop)?,
        "reopen" => place.reopen(&ann, id, "again").await.map(drop)?,
        "archive" => place.archive(&ann, id).await.map(drop)?,
        "assign" => place.assign(&ann, id, Some(profile("beta"))).await.map(drop)?,
        "delete" => {
            place.delete(&ann, id).await?;
            return Ok(None);
        }
        other => panic!("no verb {other}"),
    }
    Ok(Some(place.get(id).await?.status))
}

/// From where to where a verb leads; to nowhere where the task is gone then.
type Ways = Vec<(Status, Option<Status>)>;

/// Where a verb leads from each status; what is not named is refused.
fn table() -> Vec<(&'static str, Ways)> {
    use Status::{Archived, Blocked, Done, Ready, Review, Running, Scheduled, Todo, Triage};
    let to = |to: Status, from: &[Status]| from.iter().map(|one| (*one, Some(to))).collect();
    let same = |statuses: &[Status]| statuses.iter().map(|one| (*one, Some(*one))).collect();
    vec![
        ("claim", to(Running, &[Ready])),
        ("claim for review", to(Running, &[Review])),
        ("complete", to(Done, &[Ready, Running, Blocked, Review])),
        ("submit", to(Review, &[Ready, Running, Blocked])),
        ("request changes", to(Ready, &[Review])),
        ("block", to(Blocked, &[Todo, Scheduled, Ready, Running, Review])),
        ("schedule", to(Scheduled, &[Todo, Scheduled, Ready, Running, Blocked, Review])),
        ("unblock", to(Ready, &[Scheduled, Blocked])),
        ("promote", to(Ready, &[Triage, Scheduled, Blocked])),
        ("promote by force", to(Ready, &[Triage, Todo, Scheduled, Blocked])),
        ("reclaim", to(Ready, &[Running])),
        ("reopen", to(Ready, &[Done, Archived])),
        (
            "archive",
            to(Archived, &[Triage, Todo, Scheduled, Ready, Running, Blocked, Review, Done]),
        ),
        ("assign", same(&[Triage, Todo, Scheduled, Ready, Blocked, Review, Done])),
        ("delete", vec![(Archived, None)]),
    ]
}

#[tokio::test]
async fn every_verb_leads_where_the_table_says_and_is_refused_elsewhere() {
    let place = place().await;
    for (verb, ways) in table() {
        for from in Status::ALL {
            let id = at(&place, *from).await;
            let before = place.show(&id).await.unwrap();
            let way = ways.iter().find(|(status, _)| status == from).map(|(_, to)| *to);
            match (does(&place, verb, &id).await, way) {
                (Ok(to), Some(wanted)) => assert_eq!(to, wanted, "{verb} of {from}"),
                (Err(_), None) => {
                    let after = place.show(&id).await.unwrap();
                    assert_eq!(after, before, "{verb} of {from} was refused");
                }
                (Ok(to), None) => panic!("{verb} of {from} led to {to:?}"),
                (Err(error), Some(_)) => panic!("{verb} of {from} was refused: {error}"),
            }
        }
    }
}

#[tokio::test]
async fn every_change_of_status_is_an_event() {
    let place = place().await;
    for (verb, ways) in table() {
        for (from, to) in ways {
            let id = at(&place, from).await;
            let last = |sheet: vestal_board::TaskSheet| sheet.events.last().map(|event| event.id);
            let before = last(place.show(&id).await.unwrap());
            does(&place, verb, &id).await.unwrap();
            if to.is_some() {
                let after = last(place.show(&id).await.unwrap());
                assert!(after > before, "{verb} of {from} told nobody");
            }
        }
    }
}
