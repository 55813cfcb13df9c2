//! Many at once.

use std::collections::BTreeSet;

use super::{create, json};
use crate::support::{World, finish};

#[test]
fn of_a_hundred_processes_at_once_every_task_is_there() {
    let world = World::new();
    let calls: Vec<_> = (0..100)
        .map(|number| {
            let title = format!("task {number}");
            let mut command = world.command(["kanban", "create", &title, "--json"]);
            command.spawn().unwrap()
        })
        .collect();
    let made: BTreeSet<String> = calls
        .into_iter()
        .map(|call| finish(call).exits(0).json()["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(made.len(), 100);
    let listed = json(&world, &["list", "--all", "--json"]);
    let found: BTreeSet<String> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(made, found);
}

#[test]
fn of_many_with_one_idempotency_key_one_makes_the_task() {
    let world = World::new();
    let calls: Vec<_> = (0..16)
        .map(|_| {
            let args = ["kanban", "create", "a", "--idempotency-key", "k", "--json"];
            world.command(args).spawn().unwrap()
        })
        .collect();
    let made: BTreeSet<String> = calls
        .into_iter()
        .map(|call| finish(call).exits(0).json()["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(made.len(), 1);
    assert_eq!(json(&world, &["list", "--json"]).as_array().unwrap().len(), 1);
}

#[test]
fn of_many_who_claim_a_task_one_gets_it() {
    let world = World::new();
    let id = create(&world, &["a"]);
    let calls: Vec<_> =
        (0..16).map(|_| world.command(["kanban", "claim", &id]).spawn().unwrap()).collect();
    let mut codes: Vec<i32> = calls.into_iter().map(|call| finish(call).code).collect();
    codes.sort_unstable();
    let mut expected = vec![1; 16];
    expected[0] = 0;
    assert_eq!(codes, expected);
    assert_eq!(json(&world, &["runs", &id, "--json"]).as_array().unwrap().len(), 1);
}
