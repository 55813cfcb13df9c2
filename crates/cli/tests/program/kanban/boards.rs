//! Several boards.

use serde_json::json;

use super::{create, done, json, kanban, refused, steady};
use crate::support::{World, finish};

#[test]
fn boards_are_made_chosen_named_and_kept_apart() {
    let world = World::new();
    let made = kanban(&world, &["boards", "create", "Web", "--name", "The website"]).exits(0);
    let dir = world.home().join("kanban/boards/web");
    assert_eq!(made.text(), format!("created board web in {}\n", dir.display()));
    let again = done(&world, &["boards", "new", "web", "--name", "Other"]);
    assert!(again.contains("exists already"), "{again}");
    create(&world, &["on default"]);
    let id = create(&world, &["also on default"]);
    assert!(json(&world, &["--board", "web", "list", "--json"]).as_array().unwrap().is_empty());
    // A task of one board is none of another.
    refused(&world, &["--board", "web", "show", &id], 1);
    done(&world, &["boards", "switch", "web"]);
    create(&world, &["on web"]);
    done(&world, &["create", "also on web", "--board", "web"]);
    assert_eq!(json(&world, &["list", "--json"]).as_array().unwrap().len(), 2);
    done(&world, &["boards", "rename", "web", "Site"]);
    let mut shown = json(&world, &["boards", "show", "--json"]);
    assert!(shown["created_at"].is_i64(), "{shown}");
    shown["created_at"] = json!(null);
    assert_eq!(
        shown,
        json!({"slug": "web", "name": "Site", "description": "", "icon": "", "color": "",
            "default_workdir": null, "default_workdir_host": null, "created_at": null,
            "archived": false, "path": dir, "current": true})
    );
    insta::assert_snapshot!(steady(&world, &done(&world, &["boards", "list"])));
    insta::assert_snapshot!(steady(&world, &done(&world, &["boards", "show"])));
    // The environment goes before the choice, and the command line before both.
    let named = |board: &str, args: &[&str]| {
        let mut command = world.command(["kanban"].iter().chain(args));
        finish(command.env("VESTAL_KANBAN_BOARD", board).spawn().unwrap())
    };
    let listed = named("default", &["list", "--json"]).exits(0).json();
    assert_eq!(listed.as_array().unwrap().len(), 2);
    let listed = named("default", &["--board", "web", "list", "--json"]).exits(0).json();
    assert_eq!(listed.as_array().unwrap().len(), 2);
    named("nope", &["list"]).exits(1);
}

#[test]
fn a_board_that_is_removed_comes_back_or_goes_for_good() {
    let world = World::new();
    done(&world, &["boards", "create", "web", "--switch"]);
    let id = create(&world, &["a"]);
    let removed = kanban(&world, &["boards", "rm", "web"]).exits(0);
    assert!(removed.stderr.contains("boards restore web"), "{removed:?}");
    assert_eq!(json(&world, &["boards", "show", "--json"])["slug"], "default");
    let archived = refused(&world, &["--board", "web", "list"], 1);
    assert!(archived.contains("boards restore web"), "{archived}");
    let slugs = |args: &[&str]| -> Vec<String> {
        let listed = json(&world, args);
        let boards = listed.as_array().unwrap().iter();
        boards.map(|board| board["slug"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(slugs(&["boards", "ls", "--json"]), ["default"]);
    assert_eq!(slugs(&["boards", "list", "--all", "--json"]), ["default", "web"]);
    done(&world, &["boards", "restore", "web"]);
    assert_eq!(json(&world, &["--board", "web", "show", &id, "--json"])["task"]["title"], "a");
    // While somebody works on it, it stays.
    done(&world, &["--board", "web", "claim", &id]);
    let busy = refused(&world, &["boards", "delete", "web", "--delete"], 1);
    assert!(busy.contains("being worked on"), "{busy}");
    done(&world, &["--board", "web", "complete", &id]);
    done(&world, &["boards", "remove", "web", "--delete"]);
    assert!(!world.home().join("kanban/boards/web").exists());
    refused(&world, &["boards", "rm", "default"], 1);
    refused(&world, &["boards", "rm", "web"], 1);
}

#[test]
fn no_name_of_a_board_leads_out_of_its_place() {
    let world = World::new();
    for bad in ["../x", "a/b", "", ".", "..", "-x", "a b", "ä", &"x".repeat(65)] {
        let told = kanban(&world, &["boards", "create", "--", bad]).exits(1);
        assert!(told.stderr.contains("is not a valid board name"), "{bad}: {told:?}");
        let board = format!("--board={bad}");
        kanban(&world, &[&board, "list"]).exits(1);
        kanban(&world, &[&board, "create", "a"]).exits(1);
    }
    let missing = refused(&world, &["--board", "nope", "create", "a"], 1);
    assert!(missing.contains("vestal kanban boards create nope"), "{missing}");
    refused(&world, &["boards", "switch", "nope"], 1);
    assert!(!world.home().join("kanban/boards").exists());
}

#[test]
fn a_mistyped_board_is_answered_with_the_one_that_was_meant() {
    let world = World::new();
    done(&world, &["boards", "create", "website"]);
    for args in [
        &["--board", "webiste", "list"][..],
        &["--board", "webiste", "create", "a"],
        &["boards", "switch", "webiste"],
        &["boards", "rm", "webiste"],
        &["boards", "rename", "webiste", "The website"],
    ] {
        let told = refused(&world, args, 1);
        assert!(told.contains("did you mean website?"), "{args:?}: {told}");
    }
    // The default board can be meant before it has been made.
    let told = refused(&world, &["--board", "defualt", "list"], 1);
    assert!(told.contains("did you mean default?"), "{told}");
}

#[test]
fn what_needs_a_person_is_found_on_every_board() {
    let world = World::new();
    done(&world, &["boards", "create", "web"]);
    done(&world, &["boards", "create", "old"]);
    let mut asked = Vec::new();
    for board in ["default", "web", "old"] {
        let id = json(&world, &["--board", board, "create", "choose", "--json"])["id"].clone();
        let id = id.as_str().unwrap().to_owned();
        let why = format!("which of the colours that are on {board} is meant for the roof?");
        done(&world, &["--board", board, "block", &id, &why, "--kind", "needs_input"]);
        asked.push((board, id));
    }
    done(&world, &["boards", "rm", "old"]);
    let found = json(&world, &["list", "--attention", "--all-boards", "--json"]);
    let found: Vec<_> = found
        .as_array()
        .unwrap()
        .iter()
        .map(|task| (task["board"].as_str().unwrap(), task["id"].as_str().unwrap()))
        .collect();
    let expected: Vec<_> = asked[..2].iter().map(|(board, id)| (*board, id.as_str())).collect();
    assert_eq!(found, expected);
    let listed = done(&world, &["list", "--attention", "--all-boards"]);
    assert!(
        listed.contains("which of the colours that are on web is meant for the roof?"),
        "{listed}"
    );
    let boards = json(&world, &["boards", "list", "--json"]);
    assert_eq!(
        (&boards[1]["tasks"]["blocked"], &boards[1]["needs_attention"]),
        (&1.into(), &1.into())
    );
    kanban(&world, &["list", "--all-boards"]).exits(2);
}
