use vestal_conversations::{Error, Filter, InvalidTitle, New, Title};

use crate::{begin, from_cli, place, titled};

#[tokio::test]
async fn two_conversations_never_have_the_same_title() {
    let place = place().await;
    let first = titled(&place, "fix the build").await;
    let second = begin(&place).await;
    let given = Title::Given(" fix the\n build ".to_owned());
    match place.set_title(&second, &given).await {
        Err(Error::TitleTaken { title, by }) => {
            assert_eq!((title.as_str(), by), ("fix the build", first.id.clone()));
        }
        other => panic!("{other:?}"),
    }
    let refused = place.create(New { title: Some(given.clone()), ..from_cli() }).await;
    assert!(matches!(refused, Err(Error::TitleTaken { .. })));
    assert_eq!(place.list(&Filter::default()).await.unwrap().len(), 2);
    // Its own title is not in its own way.
    assert_eq!(place.set_title(&first.id, &given).await.unwrap(), "fix the build");
}

#[tokio::test]
async fn a_generated_title_that_is_taken_gets_the_next_number() {
    let place = place().await;
    let make = async |text: &str| {
        let title = Some(Title::Generated(text.to_owned()));
        place.create(New { title, ..from_cli() }).await.unwrap()
    };
    let titles = [
        make("fix").await.title,
        make("fix").await.title,
        make("fix (2)").await.title,
        make("fixed").await.title,
        make("fix").await.title,
    ];
    let expected = ["fix", "fix (2)", "fix (3)", "fixed", "fix (4)"];
    assert_eq!(titles, expected.map(|title| Some(title.to_owned())));
    let last = make("fix").await;
    let again = place.set_title(&last.id, &Title::Generated("fix (5)".to_owned())).await.unwrap();
    assert_eq!(again, "fix (5)");
}

#[tokio::test]
async fn what_is_no_title_is_refused() {
    let place = place().await;
    let id = begin(&place).await;
    let empty = place.set_title(&id, &Title::Given("\t".to_owned())).await;
    assert!(matches!(empty, Err(Error::InvalidTitle(InvalidTitle::Empty))));
    let long = place.set_title(&id, &Title::Given("x".repeat(201))).await;
    assert!(matches!(long, Err(Error::InvalidTitle(InvalidTitle::TooLong { length: 201 }))));
    // A model that writes a title at length is cut short instead.
    let long = place.set_title(&id, &Title::Generated("x".repeat(900))).await.unwrap();
    assert!(long.len() < 200);
}
