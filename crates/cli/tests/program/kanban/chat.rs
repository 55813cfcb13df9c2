//! `/kanban` in a conversation.

use serde_json::json;

use super::{create, kanban};
use crate::support::World;

#[test]
fn a_command_of_the_board_is_done_without_asking_a_model() {
    let world = World::new();
    let id = create(&world, &["Write it"]);
    // There is no model here to be asked.
    let say = |text: &str| world.vestal(["chat", "-q", text]);
    let listed = say("/kanban list --json").exits(0).json();
    assert_eq!(listed[0]["id"], json!(id));
    let made = say("/kanban create 'Send it' --body \"to all\" --json").exits(0).json();
    assert_eq!((&made["title"], &made["body"]), (&json!("Send it"), &json!("to all")));
    let short = say("/kanban").exits(0).text();
    assert!(short.contains("/kanban unblock ID"), "{short}");
    assert!(short.len() < 1000);
    let help = say("/kanban create --help").exits(0).text();
    assert!(help.contains("--idempotency-key"), "{help}");
    say("/kanban show t_zzzzzzzzzzzz").exits(1);
    let wrong = say("/kanban lst").exits(2);
    assert!(wrong.stderr.contains("'list'"), "{wrong:?}");
    let open = say("/kanban comment it's").exits(2);
    assert!(open.stderr.contains("no second '"), "{open:?}");
    // Commands of a conversation need one; help does not.
    let undo = say("/undo").exits(2);
    assert!(undo.stderr.contains("/undo is for an open conversation"), "{undo:?}");
    assert!(say("/help").exits(0).text().contains("/kanban      the board"));
    assert_eq!(say("/sessions list --json").exits(0).json(), json!([]));
    // What only looks like one is meant for the model, and so is what is piped in.
    say("/kanbanx").exits(1);
    world.vestal_with(["chat", "-q", "-"], b"/kanban list").exits(1);
    assert!(kanban(&world, &["list"]).exits(0).text().contains("Send it"));
}
