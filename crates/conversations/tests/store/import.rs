//! Conversations that were held in another program.

use jiff::Timestamp;
use serde_json::json;
use vestal_conversations::{
    ConversationEnd, ConversationId, Error, ImportedMessage, ImportedStanding, MessageStanding,
    New, SearchScope, Seq, Title,
};

use crate::{StoreFixture, answer, fixture, from_cli, user};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn message(text: &str, second: i64, standing: ImportedStanding) -> ImportedMessage {
    let message = if second % 2 == 0 { answer(text) } else { user(text) };
    ImportedMessage { message, at: at(second), standing }
}

async fn imported(fixture: &StoreFixture) -> ConversationId {
    let id: ConversationId = "20260301_080000_aa11bb".parse().unwrap();
    let title = Some(Title::Generated("lighthouse".to_owned()));
    let new = New { id: Some(id.clone()), title, ..from_cli() };
    assert_eq!(fixture.import(&new, at(0)).await.unwrap(), id);
    id
}

#[tokio::test]
async fn an_imported_conversation_has_its_own_times_and_is_found() {
    let fixture = fixture().await;
    let id = imported(&fixture).await;
    let messages = [
        message("count the gulls", 1, ImportedStanding::Compacted(Seq(3))),
        message("twelve", 2, ImportedStanding::Compacted(Seq(3))),
        message("gulls were counted", 3, ImportedStanding::Active),
        message("paint it", 5, ImportedStanding::Undone),
    ];
    let progress = json!({"through": 4});
    let last = fixture.import_messages(&id, &messages, ("from", &progress)).await.unwrap();
    assert_eq!(last, Seq(4));
    assert_eq!(fixture.state(&id, "from").await.unwrap(), Some(progress));
    let end = ConversationEnd { at: at(9), reason: "closed".to_owned() };
    fixture.complete_import(&id, Some(&end), ("from", &json!("all"))).await.unwrap();

    let known = fixture.get(&id).await.unwrap();
    assert_eq!((known.started_at, known.updated_at), (at(0), at(5)));
    assert_eq!(known.ended, Some(end));
    let active = fixture.messages(&id).await.unwrap();
    assert_eq!(active.iter().map(|own| (own.seq, own.at)).collect::<Vec<_>>(), [(Seq(3), at(3))]);
    let standings: Vec<MessageStanding> =
        fixture.history(&id).await.unwrap().iter().map(|own| own.standing).collect();
    let (compacted, undone) = (MessageStanding::Compacted, MessageStanding::Undone);
    assert_eq!(standings, [compacted, compacted, MessageStanding::Active, undone]);
    let found = |text: &'static str| {
        let store = &fixture.store;
        async move { store.search(&SearchScope::default(), text, 10).await.unwrap().len() }
    };
    assert_eq!((found("twelve").await, found("paint").await), (1, 0));
    let listed = fixture.list(&vestal_conversations::ConversationFilter::default()).await.unwrap();
    assert_eq!(listed[0].messages, 3, "undone ones do not count");
}

#[tokio::test]
async fn what_comes_later_is_added_and_the_last_number_tells_who_went_on() {
    let fixture = fixture().await;
    let id = imported(&fixture).await;
    assert_eq!(fixture.last_number(&id).await.unwrap(), Seq(0));
    let first = [message("one", 1, ImportedStanding::Active)];
    fixture.import_messages(&id, &first, ("from", &json!(1))).await.unwrap();
    let more = [message("two", 2, ImportedStanding::Active)];
    assert_eq!(fixture.import_messages(&id, &more, ("from", &json!(2))).await.unwrap(), Seq(2));
    assert_eq!(fixture.last_number(&id).await.unwrap(), Seq(2));
    fixture.append(&id, &[user("and here")]).await.unwrap();
    assert_eq!(fixture.last_number(&id).await.unwrap(), Seq(3));
}

#[tokio::test]
async fn a_conversation_that_is_here_is_not_imported_over() {
    let fixture = fixture().await;
    let id = imported(&fixture).await;
    let new = New { id: Some(id.clone()), ..from_cli() };
    assert!(matches!(fixture.import(&new, at(7)).await, Err(Error::Exists { .. })));
    assert_eq!(fixture.get(&id).await.unwrap().started_at, at(0));
}
