//! Several boards.

use serde_json::json;

use super::{create, done, json, kanban, refused, steady};
use crate::support::{ProgramFixture, finish};

#[test]
fn boards_are_made_chosen_named_and_kept_apart() {
    let fixture = ProgramFixture::new();
    let made = kanban(&fixture, &["boards", "create", "Web", "--name", "The website"]).exits(0);
    let dir = fixture.home().join("kanban/boards/web");
    assert_eq!(made.text(), format!("created board web in {}\n", dir.display()));
    let again = done(&fixture, &["boards", "new", "web", "--name", "Other"]);
    assert!(again.contains("exists already"), "{again}");
    create(&fixture, &["on default"]);
    let id = create(&fixture, &["also on default"]);
    assert!(json(&fixture, &["--board", "web", "list", "--json"]).as_array().unwrap().is_empty());
    // A task of one board is none of another.
    refused(&fixture, &["--board", "web", "show", &id], 1);
    done(&fixture, &["boards", "switch", "web"]);
    create(&fixture, &["on web"]);
    done(&fixture, &["create", "also on web", "--board", "web"]);
    assert_eq!(json(&fixture, &["list", "--json"]).as_array().unwrap().len(), 2);
    done(&fixture, &["boards", "rename", "web", "Site"]);
    let mut shown = json(&fixture, &["boards", "show", "--json"]);
    assert!(shown["created_at"].is_i64(), "{shown}");
    shown["created_at"] = json!(null);
    assert_eq!(
        shown,
        json!({"slug": "web", "name": "Site", "description": "", "icon": "", "color": "",
            "default_workdir": null, "default_workdir_host": null, "created_at": null,
            "archived": false, "path": dir, "current": true})
    );
    insta::assert_snapshot!(steady(&fixture, &done(&fixture, &["boards", "list"])));
    insta::assert_snapshot!(steady(&fixture, &done(&fixture, &["boards", "show"])));
    // The environment goes before the choice, and the command line before both.
    let named = |board: &str, args: &[&str]| {
        let mut command = fixture.command(["kanban"].iter().chain(args));
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
    let fixture = ProgramFixture::new();
    done(&fixture, &["boards", "create", "web", "--switch"]);
    let id = create(&fixture, &["a"]);
    let removed = kanban(&fixture, &["boards", "rm", "web"]).exits(0);
    assert!(removed.stderr.contains("boards restore web"), "{removed:?}");
    assert_eq!(json(&fixture, &["boards", "show", "--json"])["slug"], "default");
    let archived = refused(&fixture, &["--board", "web", "list"], 1);
    assert!(archived.contains("boards restore web"), "{archived}");
    let slugs = |args: &[&str]| -> Vec<String> {
        let listed = json(&fixture, args);
        let boards = listed.as_array().unwrap().iter();
        boards.map(|board| board["slug"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(slugs(&["boards", "ls", "--json"]), ["default"]);
    assert_eq!(slugs(&["boards", "list", "--all", "--json"]), ["default", "web"]);
    done(&fixture, &["boards", "restore", "web"]);
    assert_eq!(json(&fixture, &["--board", "web", "show", &id, "--json"])["task"]["title"], "a");
    // While somebody works on it, it stays.
    done(&fixture, &["--board", "web", "claim", &id]);
    let busy = refused(&fixture, &["boards", "delete", "web", "--delete"], 1);
    assert!(busy.contains("being worked on"), "{busy}");
    done(&fixture, &["--board", "web", "complete", &id]);
    done(&fixture, &["boards", "remove", "web", "--delete"]);
    assert!(!fixture.home().join("kanban/boards/web").exists());
    refused(&fixture, &["boards", "rm", "default"], 1);
    refused(&fixture, &["boards", "rm", "web"], 1);
}

#[test]
fn no_name_of_a_board_leads_out_of_its_place() {
    let fixture = ProgramFixture::new();
    for bad in ["../x", "a/b", "", ".", "..", "-x", "a b", "ä", &"x".repeat(65)] {
        let reported = kanban(&fixture, &["boards", "create", "--", bad]).exits(1);
        assert!(reported.stderr.contains("is not a valid board name"), "{bad}: {reported:?}");
        let board = format!("--board={bad}");
        kanban(&fixture, &[&board, "list"]).exits(1);
        kanban(&fixture, &[&board, "create", "a"]).exits(1);
    }
    let missing = refused(&fixture, &["--board", "nope", "create", "a"], 1);
    assert!(missing.contains("vestal kanban boards create nope"), "{missing}");
    refused(&fixture, &["boards", "switch", "nope"], 1);
    assert!(!fixture.home().join("kanban/boards").exists());
}

#[test]
fn a_mistyped_board_is_answered_with_the_one_that_was_meant() {
    let fixture = ProgramFixture::new();
    done(&fixture, &["boards", "create", "website"]);
    for args in [
        &["--board", "webiste", "list"][..],
        &["--board", "webiste", "create", "a"],
        &["boards", "switch", "webiste"],
        &["boards", "rm", "webiste"],
        &["boards", "rename", "webiste", "The website"],
    ] {
        let reported = refused(&fixture, args, 1);
        assert!(reported.contains("did you mean website?"), "{args:?}: {reported}");
    }
    // The default board can be meant before it has been made.
    let reported = refused(&fixture, &["--board", "defualt", "list"], 1);
    assert!(reported.contains("did you mean default?"), "{reported}");
}

#[test]
fn what_needs_a_person_is_found_on_every_board() {
    let fixture = ProgramFixture::new();
    done(&fixture, &["boards", "create", "web"]);
    done(&fixture, &["boards", "create", "old"]);
    let mut asked = Vec::new();
    for board in ["default", "web", "old"] {
        let id = json(&fixture, &["--board", board, "create", "choose", "--json"])["id"].clone();
        let id = id.as_str().unwrap().to_owned();
        let why = format!("which of the colours that are on {board} is meant for the roof?");
        done(&fixture, &["--board", board, "block", &id, &why, "--kind", "needs_input"]);
        asked.push((board, id));
    }
    done(&fixture, &["boards", "rm", "old"]);
    let found = json(&fixture, &["list", "--attention", "--all-boards", "--json"]);
    let found: Vec<_> = found
        .as_array()
        .unwrap()
        .iter()
        .map(|task| (task["board"].as_str().unwrap(), task["id"].as_str().unwrap()))
        .collect();
    let expected: Vec<_> = asked[..2].iter().map(|(board, id)| (*board, id.as_str())).collect();
    assert_eq!(found, expected);
    let listed = done(&fixture, &["list", "--attention", "--all-boards"]);
    assert!(
        listed.contains("which of the colours that are on web is meant for the roof?"),
        "{listed}"
    );
    let boards = json(&fixture, &["boards", "list", "--json"]);
    assert_eq!(
        (&boards[1]["tasks"]["blocked"], &boards[1]["needs_attention"]),
        (&1.into(), &1.into())
    );
    kanban(&fixture, &["list", "--all-boards"]).exits(2);
}
