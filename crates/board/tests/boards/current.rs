//! Which board is meant when nobody says.

use vestal_board::Error;
use vestal_board::boards::{BoardsError, ChosenBy};

use crate::support::{World, names, slug};

#[tokio::test]
async fn the_environment_goes_before_the_switch_and_that_before_the_default() {
    let world = World::new();
    world.make("ops").await;
    let boards = world.boards();
    assert_eq!(boards.current(None).await.unwrap().by, ChosenBy::Nobody);
    boards.switch(&slug("ops")).await.unwrap();
    let current = world.boards().current(None).await.unwrap();
    assert_eq!((current.slug.as_str(), current.by), ("ops", ChosenBy::Switch));
    assert_eq!(current.warning, None);
    let current = boards.current(Some(" Other ")).await.unwrap();
    assert_eq!((current.slug.as_str(), current.by), ("other", ChosenBy::Environment));
    assert_eq!(boards.current(Some("  ")).await.unwrap().slug.as_str(), "ops");
    let wrong = boards.current(Some("../x")).await.unwrap_err();
    assert!(matches!(wrong, Error::Boards(BoardsError::Name(_))), "{wrong}");
    boards.switch(&slug("default")).await.unwrap();
    assert!(boards.current(None).await.unwrap().slug.is_default());
}

#[tokio::test]
async fn a_switch_to_a_board_that_is_not_there_is_refused_and_changes_nothing() {
    let world = World::new();
    world.make("ops").await;
    let boards = world.boards();
    boards.switch(&slug("ops")).await.unwrap();
    assert!(boards.switch(&slug("nope")).await.is_err());
    assert_eq!(boards.current(None).await.unwrap().slug.as_str(), "ops");
    assert_eq!(names(&world.root()), [".boards.lock", "boards", "current"]);
}

#[tokio::test]
async fn a_choice_that_cannot_be_followed_is_said() {
    let world = World::new();
    world.make("ops").await.close().await.unwrap();
    let boards = world.boards();
    boards.switch(&slug("ops")).await.unwrap();
    std::fs::remove_dir_all(world.root().join("boards/ops")).unwrap();
    let current = boards.current(None).await.unwrap();
    assert_eq!((current.slug.as_str(), current.by), ("default", ChosenBy::Nobody));
    assert_eq!(
        current.warning.as_deref(),
        Some("board ops, which was switched to, does not exist any more; board default is used")
    );
    for garbage in [&b"../../etc\n"[..], b"\xff\xfe", &vec![b'a'; 100_000]] {
        std::fs::write(world.root().join("current"), garbage).unwrap();
        let current = boards.current(None).await.unwrap();
        assert!(current.slug.is_default() && current.warning.is_some(), "{current:?}");
    }
}
