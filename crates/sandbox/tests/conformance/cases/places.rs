//! What is kept where, in a sandbox with a system of its own.

use vestal_sandbox::{Command, Engine, FilesOnRemoval, TaskName};

use crate::support::{BackendFixture, Kind};

/// Places and what becomes of what is in them when the instance is stopped, and
/// when it is removed.
const PLACES: [(&str, bool, bool); 7] = [
    ("/workspace", true, true),
    ("$HOME", true, true),
    ("/usr", true, false),
    ("/opt", true, false),
    ("/tmp", false, false),
    ("/run", false, false),
    ("/var/tmp", false, false),
];

/// Returns whether something can be left in a place at all: the system that an
/// ordinary user's sandbox is made of is the host's, and stays as it is.
fn can_be_written(fixture: &BackendFixture, place: &str) -> bool {
    let shown = matches!(fixture.kind(), Kind::Native) && !rustix::process::getuid().is_root();
    !(shown && ["/usr", "/opt"].contains(&place))
}

async fn mark(engine: &Engine) {
    let places: Vec<&str> = PLACES.iter().map(|(place, ..)| *place).collect();
    let text = format!("for p in {}; do mkdir -p $p; echo > $p/mark; done; true", places.join(" "));
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(sandbox.run(Command::shell(text)).await.unwrap().exit.code, Some(0));
}

/// Returns which of the places still have their mark.
async fn marked(engine: &Engine) -> Vec<bool> {
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    let mut marked = Vec::new();
    for (place, ..) in PLACES {
        let command = Command::shell(format!("[ -e {place}/mark ]"));
        marked.push(sandbox.run(command).await.unwrap().exit.code == Some(0));
    }
    marked
}

pub(crate) async fn files_are_kept_as_long_as_their_place_says(fixture: &BackendFixture) {
    mark(&fixture.engine()).await;
    fixture.engine().stop(&TaskName::default_task()).await.unwrap();
    let expected = PLACES.map(|(place, stopped, _)| stopped && can_be_written(fixture, place));
    assert_eq!(marked(&fixture.engine()).await, expected);
    mark(&fixture.engine()).await;
    fixture.engine().remove(&TaskName::default_task(), FilesOnRemoval::Keep).await.unwrap();
    assert_eq!(marked(&fixture.engine()).await, PLACES.map(|(.., removed)| removed));
}

pub(crate) async fn files_that_are_not_to_be_kept_are_never_on_disk(fixture: &BackendFixture) {
    let fleeting = || fixture.engine_with(&["terminal.container_persistent=false"]);
    mark(&fleeting()).await;
    assert_eq!(fixture.left_of("default"), ["instances", "lock", "sandbox.json", "state"]);
    fleeting().stop(&TaskName::default_task()).await.unwrap();
    let expected = PLACES.map(|(place, stopped, _)| {
        stopped && !is_of_the_sandbox(place) && can_be_written(fixture, place)
    });
    assert_eq!(marked(&fleeting()).await, expected);
    let removal = fleeting().remove(&TaskName::default_task(), FilesOnRemoval::Keep).await.unwrap();
    assert_eq!((removal.instances, removal.kept), (1, Vec::new()));
    assert!(!fixture.sandbox_dir("default").exists(), "there is nothing to keep");
}

fn is_of_the_sandbox(place: &str) -> bool {
    ["/workspace", "$HOME"].contains(&place)
}
