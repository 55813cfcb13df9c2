//! Homes with more in them than a page shows: the first of it is shown, all of it is counted and found.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use vestal_dashboard::gate::Right;

use crate::fixtures;
use crate::support::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_board_shows_the_first_tasks_counts_all_and_finds_the_rest() {
    let world = World::start().await;
    let titles: Vec<String> = (0..250).map(|number| format!("number {number:03}")).collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    fixtures::add_tasks(&world.home, "default", &titles).await;
    let session = world.login(Right::Viewer).await;
    let column = async |path: &str| {
        let board = world.get(path).cookie(&session).send().await.json();
        let columns = board["columns"].as_array().unwrap().clone();
        columns.into_iter().find(|column| column["status"] == "ready").unwrap()
    };
    let all = column("/api/board").await;
    assert_eq!(all["total"], 250);
    assert!(all["tasks"].as_array().unwrap().len() < 250, "the list is cut");
    let one = column("/api/board?search=number%20249").await;
    assert_eq!((one["total"].as_u64(), one["tasks"].as_array().unwrap().len()), (Some(1), 1));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conversations_are_listed_page_by_page_each_once() {
    let world = World::start().await;
    let store = fixtures::conversations(&world.home, "default").await;
    for number in 0..120 {
        let words = format!("conversation {number:03}");
        fixtures::converse(&store, None, &[fixtures::user_says(&words)]).await;
    }
    store.close().await.unwrap();
    let session = world.login(Right::Viewer).await;
    let (mut seen, mut count, mut before) = (BTreeSet::new(), 0, String::new());
    loop {
        let path = format!("/api/conversations?before={before}");
        let page = world.get(&path).cookie(&session).send().await.json();
        let page = page["conversations"].as_array().unwrap();
        let Some(last) = page.last() else { break };
        before = last["updated_at"].as_str().unwrap().replace('+', "%2B");
        count += page.len();
        seen.extend(page.iter().map(|one| one["id"].as_str().unwrap().to_owned()));
    }
    assert_eq!((seen.len(), count), (120, 120));
    let found = world.get("/api/conversations/search?q=077").cookie(&session).send().await.json();
    assert_eq!(found["conversations"].as_array().unwrap().len(), 1, "{found}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_long_log_is_shown_and_what_is_rare_is_found_in_all_of_it() {
    let world = World::start().await;
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
    std::fs::write(world.home.join("logs/agent.log"), log).unwrap();
    let session = world.login(Right::Viewer).await;
    let entries = async |query: &str| {
        let path = format!("/api/logs?source=agent&{query}");
        let found = world.get(&path).cookie(&session).send().await.json();
        let found = found.as_array().unwrap().clone();
        found.iter().map(|one| one["message"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let last: Vec<String> = (19_997..20_000).map(|number| format!("entry {number}")).collect();
    assert_eq!(entries("entries=3").await, last);
    assert_eq!(entries("entries=3&level=error").await, ["entry 3"]);
    world.stop().await;
}
