//! Gateways.

use super::Transcript;
use crate::support::ProgramFixture;

#[test]
fn gateways() {
    let fixture = ProgramFixture::automatic();
    let mut calls = Transcript::new(&fixture);
    calls.call(&["gateway", "list"]);
    calls.call_exiting(&["gateway", "status"], 1);
    calls.call(&["gateway", "stop"]);
    insta::assert_snapshot!(calls.text);
}
