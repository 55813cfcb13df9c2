//! Gateways.

use super::Transcript;
use crate::support::World;

#[test]
fn gateways() {
    let world = World::automatic();
    let mut calls = Transcript::new(&world);
    calls.call(&["gateway", "list"]);
    calls.call_exiting(&["gateway", "status"], 1);
    calls.call(&["gateway", "stop"]);
    insta::assert_snapshot!(calls.text);
}
