use vestal_conversations::{ConversationStore, Hit, MessageAuthor, SearchScope};

use crate::{answer, begin, call, fixture, result, user};

async fn hits(store: &ConversationStore, query: &str) -> Vec<i64> {
    let mut found: Vec<i64> = store
        .search(&SearchScope::default(), query, 100)
        .await
        .unwrap()
        .iter()
        .map(|hit| hit.seq.0)
        .collect();
    found.sort_unstable();
    found
}

fn marked(hit: &Hit) -> String {
    let shown = hit
        .snippet
        .iter()
        .map(|piece| if piece.found { format!("[{}]", piece.text) } else { piece.text.clone() });
    shown.collect()
}

#[tokio::test]
async fn words_are_found_in_messages_of_all_roles() {
    let fixture = fixture().await;
    let id = begin(&fixture).await;
    fixture
        .append(
            &id,
            &[
                user("Where is the Straße to Zürich?"),
                answer("Follow max_page_count, then ask the categories."),
                call("terminal"),
                result("error: expected `;`, found `}`"),
                user("我们明天去東京タワー看看"),
            ],
        )
        .await
        .unwrap();
    for (query, expected) in [
        ("zurich", vec![1]),
        ("ZÜRICH where", vec![1]),
        ("zurich page", vec![]),
        ("max_page_count", vec![2]),
        ("page_cou", vec![2]),
        ("cat", vec![2]),
        ("\"cat\"", vec![]),
        ("\"ask the\"", vec![2]),
        ("\"the ask\"", vec![]),
        ("expected `;`", vec![4]),
        ("東京", vec![5]),
        ("京タ", vec![5]),
        ("東タ", vec![]),
        ("明天 東京", vec![5]),
        ("看", vec![5]),
    ] {
        assert_eq!(hits(&fixture, query).await, expected, "{query}");
    }
    let found = fixture.search(&SearchScope::default(), "page then", 10).await.unwrap();
    assert_eq!(found[0].role, MessageAuthor::Assistant);
    assert_eq!(found[0].conversation, id);
    let shown = marked(&found[0]);
    assert_eq!(shown, "Follow max_[page]_count, [then] ask the categories.");
    let found = fixture.search(&SearchScope::default(), "東京", 10).await.unwrap();
    assert_eq!(marked(&found[0]).replace("][", ""), "我们明天去[東京]タワー看看");
}

#[tokio::test]
async fn no_query_fails() {
    let fixture = fixture().await;
    let id = begin(&fixture).await;
    fixture.append(&id, &[user("a plain text")]).await.unwrap();
    let odd = [
        "",
        "\"",
        "\"\"\"",
        "*",
        "a*",
        "NEAR(",
        "a OR",
        "AND",
        "text:",
        "-a",
        "^",
        "{a b}",
        "a\0b",
        "\u{200b}",
        "'; DROP TABLE words; --",
        "\u{1f600}",
        "+ +",
        "(((",
        "\\",
    ];
    for query in odd {
        fixture.search(&SearchScope::default(), query, 10).await.unwrap();
    }
    let long = "plain ".repeat(5_000);
    fixture.search(&SearchScope::default(), &long, 10).await.unwrap();
    fixture.search(&SearchScope::default(), &"x".repeat(100_000), 10).await.unwrap();
    assert_eq!(hits(&fixture, "plain").await, [1]);
}

#[tokio::test]
async fn what_was_taken_back_or_deleted_is_not_found() {
    let fixture = fixture().await;
    let (id, other) = (begin(&fixture).await, begin(&fixture).await);
    fixture.append(&id, &[user("needle one"), user("needle two")]).await.unwrap();
    fixture.append(&other, &[user("needle three")]).await.unwrap();
    fixture.undo(&id, 1).await.unwrap();
    assert_eq!(fixture.search(&SearchScope::default(), "needle", 10).await.unwrap().len(), 2);
    fixture.delete(&other).await.unwrap();
    assert_eq!(hits(&fixture, "needle").await, [1]);
    assert_eq!(fixture.search(&SearchScope::default(), "needle", 0).await.unwrap().len(), 0);
}

#[tokio::test]
async fn one_conversation_is_searched_alone_or_left_out() {
    let fixture = fixture().await;
    let (one, other) = (begin(&fixture).await, begin(&fixture).await);
    let many: Vec<_> = (0..20).map(|n| user(&format!("needle {n}"))).collect();
    fixture.append(&one, &many).await.unwrap();
    fixture.append(&other, &[user("a needle in much hay, and more of it")]).await.unwrap();
    let only = SearchScope { only: Some(other.clone()), ..SearchScope::default() };
    let without = SearchScope { without: Some(one.clone()), ..SearchScope::default() };
    for scope in [only, without] {
        let found = fixture.search(&scope, "needle", 5).await.unwrap();
        let whose: Vec<_> = found.iter().map(|hit| &hit.conversation).collect();
        assert_eq!(whose, [&other], "{scope:?}");
    }
    let both = SearchScope { only: Some(one.clone()), without: Some(one), each: None };
    assert_eq!(fixture.search(&both, "needle", 5).await.unwrap(), []);
}

#[tokio::test]
async fn a_long_conversation_does_not_hide_the_others() {
    let fixture = fixture().await;
    let (long, other) = (begin(&fixture).await, begin(&fixture).await);
    let many: Vec<_> = (0..50).map(|n| user(&format!("needle needle {n}"))).collect();
    fixture.append(&long, &many).await.unwrap();
    fixture.append(&other, &[user("once, in much hay, there was a needle")]).await.unwrap();
    let scope = SearchScope { each: Some(2), ..SearchScope::default() };
    let found = fixture.search(&scope, "needle", 10).await.unwrap();
    let whose: Vec<_> = found.iter().map(|hit| (&hit.conversation, hit.seq.0)).collect();
    assert_eq!(whose, [(&long, 50), (&long, 49), (&other, 1)]);
    assert_eq!(marked(&found[0]), "[needle] [needle] 49");
}

#[tokio::test]
async fn a_log_for_a_query_is_answered_at_once() {
    let fixture = fixture().await;
    let id = begin(&fixture).await;
    fixture.append(&id, &[user("a needle in the hay")]).await.unwrap();
    // Unbounded, this takes the index an hour or so.
    let log = "needle ".repeat(500_000);
    assert_eq!(hits(&fixture, &log).await, [1]);
    assert_eq!(hits(&fixture, &format!("\"{log}")).await, [0; 0]);
    assert_eq!(hits(&fixture, &"\u{6771}".repeat(100_000)).await, [0; 0]);
}
