//! Homes with more in them than a page shows: the first of it is shown, all of it is counted and found.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use vestal_dashboard::gate::Right;

use crate::fixtures;
use crate::support::DashboardFixture;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_board_shows_the_first_tasks_counts_all_and_finds_the_rest() {
    let fixture = DashboardFixture::start().await;
    let titles: Vec<String> = (0..250).map(|number| format!("number {number:03}")).collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    fixtures::add_tasks(&fixture.home, "default", &titles).await;
    let session = fixture.login(Right::Viewer).await;
    let column = async |path: &str| {
        let board = fixture.get(path).cookie(&session).send().await.json();
        let columns = board["columns"].as_array().unwrap().clone();
        columns.into_iter().find(|column| column["status"] == "ready").unwrap()
    };
    let all = column("/api/board").await;
    assert_eq!(all["total"], 250);
    assert!(all["tasks"].as_array().unwrap().len() < 250, "the list is cut");
    let one = column("/api/board?search=number%20249").await;
    assert_eq!((one["total"].as_u64(), one["tasks"].as_array().unwrap().len()), (Some(1), 1));
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conversations_are_listed_page_by_page_each_once() {
    let fixture = DashboardFixture::start().await;
    let store = fixtures::conversations(&fixture.home, "default").await;
    for number in 0..120 {
        let words = format!("conversation {number:03}");
        fixtures::converse(&store, None, &[fixtures::user_message(&words)]).await;
    }
    store.close().await.unwrap();
    let session = fixture.login(Right::Viewer).await;
    let (mut seen, mut count, mut before) = (BTreeSet::new(), 0, String::new());
    loop {
        let path = format!("/api/conversations?before={before}");
        let page = fixture.get(&path).cookie(&session).send().await.json();
        let more = page["more"].as_bool().unwrap();
        let page = page["conversations"].as_array().unwrap();
        count += page.len();
        seen.extend(page.iter().map(|one| one["id"].as_str().unwrap().to_owned()));
        assert_eq!(more, count < 120, "it says whether there are more");
        let Some(last) = page.last().filter(|_| more) else { break };
        before = last["updated_at"].as_str().unwrap().replace('+', "%2B");
    }
    assert_eq!((seen.len(), count), (120, 120));
    let found = async |q: &str| {
        let path = format!("/api/conversations/search?q={q}");
        let found = fixture.get(&path).cookie(&session).send().await.json();
        (found["conversations"].as_array().unwrap().len(), found["more"].as_bool().unwrap())
    };
    assert_eq!(found("077").await, (1, false));
    assert_eq!(found("conversation").await, (50, true));
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_long_log_is_shown_and_what_is_rare_is_found_in_all_of_it() {
    let fixture = DashboardFixture::start().await;
    let mut log = String::new();
    for number in 0..20_000 {
        let level = if number == 3 { "ERROR" } else { "INFO" };
        let (minute, second) = (number / 60 % 60, number % 60);
        let hour = number / 3600;
        writeln!(
            log,
            "2026-11-15T{hour:02}:{minute:02}:{second:02}.000Z {level} [-] t: entry {number}"
        )
        .unwrap();
    }
    std::fs::write(fixture.home.join("logs/agent.log"), log).unwrap();
    let session = fixture.login(Right::Viewer).await;
    let entries = async |query: &str| {
        let path = format!("/api/logs?source=agent&{query}");
        let found = fixture.get(&path).cookie(&session).send().await.json();
        let found = found.as_array().unwrap().clone();
        found.iter().map(|one| one["message"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let last: Vec<String> = (19_997..20_000).map(|number| format!("entry {number}")).collect();
    assert_eq!(entries("entries=3").await, last);
    assert_eq!(entries("entries=3&level=error").await, ["entry 3"]);
    assert_eq!(entries("entries=3&text=ENTRY%204").await.len(), 3);
    assert_eq!(entries("entries=3&text=entry%204&level=error").await, Vec::<String>::new());
    let first = "Entry 17"; // So far back that the end of the log does not have it.
    let last = entries(&format!("entries=2000&text={}", first.replace(' ', "%20"))).await;
    assert_eq!(last.first().map(String::as_str), Some("entry 17"));
    fixture.stop().await;
}
