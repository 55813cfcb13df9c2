use vestal_conversations::{ConversationId, Error, New, Store, Title};

use crate::{from_cli, place};

async fn named(store: &Store, id: &str, title: Option<&str>) -> ConversationId {
    let title = title.map(|title| Title::Given(title.to_owned()));
    let new = New { id: Some(id.parse().unwrap()), title, ..from_cli() };
    store.create(new).await.unwrap().id
}

#[tokio::test]
async fn a_conversation_is_found_by_what_a_person_can_remember() {
    let place = place().await;
    let build = named(&place, "20261115-103001-k3f9ab", Some("Fix the build")).await;
    let plain = named(&place, "20261116-090000-k3zzzz", None).await;
    let odd = named(&place, "20261117-090000-aaaaaa", Some("100% done_")).await;
    let found = [
        ("20261115-103001-k3f9ab", &build),
        ("20261115", &build),
        ("20261115-1", &build),
        ("k3f9", &build),
        ("K3F9AB", &build),
        ("Fix the build", &build),
        ("fix", &build),
        (" 20261116 ", &plain),
        ("100%", &odd),
    ];
    for (text, id) in found {
        assert_eq!(&place.find(text).await.unwrap(), id, "{text:?}");
    }
    for text in ["", "x", "103001", "k3f", "%", "1_0", "build", "0900-aaaa", "090000-aaaa"] {
        let missing = place.find(text).await;
        assert!(matches!(missing, Err(Error::NotFound { .. })), "{text:?}: {missing:?}");
    }
}

#[tokio::test]
async fn who_may_be_meant_is_told_when_it_is_not_clear() {
    let place = place().await;
    let first = named(&place, "20261115-103001-k3f9ab", Some("Fix the build")).await;
    let second = named(&place, "20261115-103002-k3f9cd", None).await;
    // One is known by its title, the other by its name.
    let third = named(&place, "20261116-103002-zzzzzz", Some("20261115 retrospective")).await;
    for (text, expected) in [
        ("20261115-", vec![&second, &first]),
        ("k3f9", vec![&second, &first]),
        ("20261115", vec![&third, &second, &first]),
    ] {
        match place.find(text).await {
            Err(Error::Ambiguous { candidates, .. }) => {
                let ids: Vec<_> = candidates.iter().map(|candidate| &candidate.id).collect();
                assert_eq!(ids, expected, "{text}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    // A whole title or name is clear, whatever else begins with it.
    let exact = named(&place, "20261117-000000-bbbbbb", Some("Fix")).await;
    assert_eq!(place.find("Fix").await.unwrap(), exact);
}

#[tokio::test]
async fn the_latest_is_a_persons_own() {
    let place = place().await;
    assert!(matches!(place.latest().await, Err(Error::NoneYet)));
    let own = crate::begin(&place).await;
    let source = "delegate".to_owned();
    place.create(New { source, ..from_cli() }).await.unwrap();
    let parent = Some((vestal_conversations::ParentKind::Delegation, own.clone()));
    place.create(New { parent, ..from_cli() }).await.unwrap();
    assert_eq!(place.latest().await.unwrap(), own);
}
