//! Lists, titles and usage, and finding a conversation.

use vestal_conversations::{
    ConversationFilter, ConversationId, ConversationStore, Error, InvalidTitle, ModelTotals, New,
    NewMessage, Title, Totals,
};
use vestal_model::{AssistantMessage, Cost, CostSource, ModelAnswer, TokenUsage};

use crate::{answer, begin, fixture, from_cli, titled, user};

async fn named(store: &ConversationStore, id: &str, title: Option<&str>) -> ConversationId {
    let title = title.map(|title| Title::Given(title.to_owned()));
    let new = New { id: Some(id.parse().unwrap()), title, ..from_cli() };
    store.create(new).await.unwrap().id
}

#[tokio::test]
async fn a_conversation_is_found_by_what_a_person_can_remember() {
    let fixture = fixture().await;
    let build = named(&fixture, "20261115-103001-k3f9ab", Some("Fix the build")).await;
    let plain = named(&fixture, "20261116-090000-k3zzzz", None).await;
    let odd = named(&fixture, "20261117-090000-aaaaaa", Some("100% done_")).await;
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
        assert_eq!(&fixture.find(text).await.unwrap(), id, "{text:?}");
    }
    for text in ["", "x", "103001", "k3f", "%", "1_0", "build", "0900-aaaa", "090000-aaaa"] {
        let missing = fixture.find(text).await;
        assert!(matches!(missing, Err(Error::NotFound { .. })), "{text:?}: {missing:?}");
    }
}

#[tokio::test]
async fn who_may_be_meant_is_reported_when_it_is_not_clear() {
    let fixture = fixture().await;
    let first = named(&fixture, "20261115-103001-k3f9ab", Some("Fix the build")).await;
    let second = named(&fixture, "20261115-103002-k3f9cd", None).await;
    // One is known by its title, the other by its name.
    let third = named(&fixture, "20261116-103002-zzzzzz", Some("20261115 retrospective")).await;
    for (text, expected) in [
        ("20261115-", vec![&second, &first]),
        ("k3f9", vec![&second, &first]),
        ("20261115", vec![&third, &second, &first]),
    ] {
        match fixture.find(text).await {
            Err(Error::Ambiguous { candidates, .. }) => {
                let ids: Vec<_> = candidates.iter().map(|candidate| &candidate.id).collect();
                assert_eq!(ids, expected, "{text}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    // A whole title or name is clear, whatever else begins with it.
    let exact = named(&fixture, "20261117-000000-bbbbbb", Some("Fix")).await;
    assert_eq!(fixture.find("Fix").await.unwrap(), exact);
}

#[tokio::test]
async fn the_latest_is_a_persons_own() {
    let fixture = fixture().await;
    assert!(matches!(fixture.latest().await, Err(Error::NoneYet)));
    let own = crate::begin(&fixture).await;
    let source = "delegate".to_owned();
    fixture.create(New { source, ..from_cli() }).await.unwrap();
    let parent = Some((vestal_conversations::ParentKind::Delegation, own.clone()));
    fixture.create(New { parent, ..from_cli() }).await.unwrap();
    assert_eq!(fixture.latest().await.unwrap(), own);
}

#[tokio::test]
async fn two_conversations_never_have_the_same_title() {
    let fixture = fixture().await;
    let first = titled(&fixture, "fix the build").await;
    let second = begin(&fixture).await;
    let given = Title::Given(" fix the\n build ".to_owned());
    match fixture.set_title(&second, &given).await {
        Err(Error::TitleTaken { title, by }) => {
            assert_eq!((title.as_str(), by), ("fix the build", first.id.clone()));
        }
        other => panic!("{other:?}"),
    }
    let refused = fixture.create(New { title: Some(given.clone()), ..from_cli() }).await;
    assert!(matches!(refused, Err(Error::TitleTaken { .. })));
    assert_eq!(fixture.list(&ConversationFilter::default()).await.unwrap().len(), 2);
    // Its own title is not in its own way.
    assert_eq!(fixture.set_title(&first.id, &given).await.unwrap(), "fix the build");
}

#[tokio::test]
async fn a_generated_title_that_is_taken_gets_the_next_number() {
    let fixture = fixture().await;
    let make = async |text: &str| {
        let title = Some(Title::Generated(text.to_owned()));
        fixture.create(New { title, ..from_cli() }).await.unwrap()
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
    let again = fixture.set_title(&last.id, &Title::Generated("fix (5)".to_owned())).await.unwrap();
    assert_eq!(again, "fix (5)");
    // What merely looks like a number, or begins alike, is another title.
    for other in ["fix (x)", "fix ()", "fix (12)3", "fix (9999999999)", "fix it (70)", "fi (80)"] {
        fixture.set_title(&begin(&fixture).await, &Title::Given(other.to_owned())).await.unwrap();
    }
    let next = begin(&fixture).await;
    let next = fixture.set_title(&next, &Title::Generated("fix".to_owned())).await.unwrap();
    assert_eq!(next, "fix (6)");
    let missing = "20200101-000000-nobody".parse().unwrap();
    let refused = fixture.set_title(&missing, &Title::Generated("x".to_owned())).await;
    assert!(matches!(refused, Err(Error::NotFound { .. })), "{refused:?}");
}

#[tokio::test]
async fn what_is_no_title_is_refused() {
    let fixture = fixture().await;
    let id = begin(&fixture).await;
    let empty = fixture.set_title(&id, &Title::Given("\t".to_owned())).await;
    assert!(matches!(empty, Err(Error::InvalidTitle(InvalidTitle::Empty))));
    let long = fixture.set_title(&id, &Title::Given("x".repeat(201))).await;
    assert!(matches!(long, Err(Error::InvalidTitle(InvalidTitle::TooLong { length: 201 }))));
    // A model that writes a title at length is cut short instead.
    let long = fixture.set_title(&id, &Title::Generated("x".repeat(900))).await.unwrap();
    assert!(long.len() < 200);
}

/// The most that the database could count at all.
const ABSURD: u64 = u64::MAX >> 1;

fn totals(calls: u64, input: u64, micro_usd: u64, unpriced: u64) -> Totals {
    Totals { calls, usage: TokenUsage { input, ..TokenUsage::default() }, micro_usd, unpriced }
}

#[tokio::test]
async fn usage_is_counted_per_model_and_stays_when_turns_are_undone() {
    let fixture = fixture().await;
    let (id, other) = (begin(&fixture).await, begin(&fixture).await);
    let completion = ModelAnswer {
        message: AssistantMessage::default(),
        usage: TokenUsage { input: 100, ..TokenUsage::default() },
        cost: Cost::Known { micro_usd: 7, source: CostSource::Provider },
        provider: "acme".to_owned(),
        model: "small".to_owned(),
    };
    let unknown = ModelAnswer { cost: Cost::Unknown, ..completion.clone() };
    fixture.append(&id, &[user("a"), (&completion).into(), (&unknown).into()]).await.unwrap();
    let plain =
        NewMessage { usage: Some(TokenUsage { input: 1, ..TokenUsage::default() }), ..answer("b") };
    fixture.append(&other, &[plain]).await.unwrap();
    fixture
        .record_usage(&other, "acme", "small", &completion.usage, Some(completion.cost))
        .await
        .unwrap();
    fixture.undo(&id, 1).await.unwrap();
    let of = |model: &str, totals| ModelTotals {
        provider: "acme".to_owned(),
        model: model.to_owned(),
        totals,
    };
    let all = [of("small", totals(3, 300, 14, 1)), of("large", totals(1, 1, 0, 1))];
    assert_eq!(fixture.usage(None).await.unwrap(), all);
    assert_eq!(fixture.usage(Some(&id)).await.unwrap(), [of("small", totals(2, 200, 7, 1))]);
    assert_eq!(fixture.summary(&id).await.unwrap().totals, totals(2, 200, 7, 1));
}

#[tokio::test]
async fn absurd_counts_do_not_break_the_sums() {
    let fixture = fixture().await;
    let id = begin(&fixture).await;
    let usage = TokenUsage {
        input: ABSURD,
        output: ABSURD,
        cache_read: ABSURD,
        cache_write: ABSURD,
        reasoning: ABSURD,
    };
    let cost = Some(Cost::Known { micro_usd: ABSURD, source: CostSource::Provider });
    for model in ["a", "b", "a"] {
        fixture.record_usage(&id, "acme", model, &usage, cost).await.unwrap();
    }
    assert_eq!(fixture.summary(&id).await.unwrap().totals.calls, 3);
    assert_eq!(fixture.usage(None).await.unwrap().len(), 2);
}
