//! Which boards there are, and which is the current one.

use std::path::PathBuf;

use vestal_board::Error;
use vestal_board::boards::{BoardEdit, BoardsError, ChosenBy, Make, NewBoard};

use crate::support::{BoardsFixture, names, slug, task};

#[tokio::test]
async fn reading_a_board_that_is_not_there_makes_nothing() {
    let fixture = BoardsFixture::new();
    let boards = fixture.boards();
    assert!(boards.open_to_read(&slug("default")).await.unwrap().is_none());
    assert_eq!(fixture.slugs(true).await, ["default"]);
    assert!(boards.current(None).await.unwrap().slug.is_default());
    let missing = boards.open(&slug("default"), Make::Never).await.unwrap_err();
    assert!(matches!(missing, Error::Boards(BoardsError::Missing { .. })), "{missing}");
    boards.sweep().await.unwrap();
    assert!(!fixture.root().exists());
}

#[tokio::test]
async fn the_default_board_is_made_by_the_first_write_and_no_other_is() {
    let fixture = BoardsFixture::new();
    let board = fixture.boards().open_to_write(&slug("default")).await.unwrap();
    let made = task(&board, "first").await;
    assert_eq!(board.dir(), fixture.root().join("boards/default"));
    let read = fixture.boards().open_to_read(&slug("default")).await.unwrap().unwrap();
    assert_eq!(read.get(&made.id).await.unwrap().title, "first");
    for make in [Make::IfMissing, Make::Never] {
        let error = fixture.boards().open(&slug("nope"), make).await.unwrap_err().to_string();
        assert_eq!(
            error,
            "board nope does not exist; make it with: vestal kanban boards create nope"
        );
    }
    assert_eq!(names(&fixture.root().join("boards")), ["default"]);
}

#[tokio::test]
async fn a_board_is_made_once_with_its_description() {
    let fixture = BoardsFixture::new();
    let workdir = fixture.beside("project");
    std::fs::create_dir(&workdir).unwrap();
    let new = NewBoard {
        name: Some(" Ops ".to_owned()),
        description: Some("what runs".to_owned()),
        icon: Some("⚙".to_owned()),
        color: Some("#aabbcc".to_owned()),
        default_workdir: Some(workdir.clone()),
    };
    let first = fixture.boards().create(&slug("ops"), new).await.unwrap();
    assert!(!first.existed && first.info.created_at.is_some() && !first.info.archived);
    assert_eq!((first.info.name.as_str(), first.info.icon.as_str()), ("Ops", "⚙"));
    assert_eq!(first.info.default_workdir, Some(workdir));
    assert_eq!(first.info.default_workdir_host.as_ref().unwrap().as_str(), "here");

    let other = NewBoard { name: Some("Other".to_owned()), ..NewBoard::default() };
    let again = fixture.boards_of("there").create(&slug("OPS"), other).await.unwrap();
    assert!(again.existed);
    assert_eq!(again.info, first.info);
    assert_eq!(fixture.slugs(false).await, ["default", "ops"]);
}

#[tokio::test]
async fn of_many_who_make_a_board_at_once_one_does() {
    let fixture = BoardsFixture::new();
    let made: Vec<_> = (0..8)
        .map(|number| {
            let boards = fixture.boards();
            let name = Some(format!("by {number}"));
            tokio::spawn(async move {
                boards.create(&slug("shared"), NewBoard { name, ..NewBoard::default() }).await
            })
        })
        .collect();
    let mut created = Vec::new();
    for one in made {
        created.push(one.await.unwrap().unwrap());
    }
    assert_eq!(created.iter().filter(|own| !own.existed).count(), 1);
    assert!(created.iter().all(|own| own.info == created[0].info));
}

#[tokio::test]
async fn a_board_that_a_crash_left_without_information_is_made_anew() {
    let fixture = BoardsFixture::new();
    // Its file was made, and then the process died.
    let dir = fixture.root().join("boards/half");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("kanban.db"), "").unwrap();
    let new = NewBoard { name: Some("Whole".to_owned()), ..NewBoard::default() };
    let made = fixture.boards().create(&slug("half"), new).await.unwrap();
    assert_eq!((made.existed, made.info.name.as_str()), (false, "Whole"));
}

#[tokio::test]
async fn what_is_known_about_a_board_can_be_changed_and_the_rest_stays() {
    let fixture = BoardsFixture::new();
    let board = fixture.make("b").await;
    // What a later version adds is none of this one's business.
    let mut write = board.write().await.unwrap();
    let mut note = write.note("board").await.unwrap().unwrap();
    note["added_later"] = serde_json::json!({ "x": 1 });
    write.set_note("board", Some(&note)).await.unwrap();
    write.commit().await.unwrap();

    let boards = fixture.boards();
    assert_eq!(boards.rename(&slug("b"), "Bee").await.unwrap().name, "Bee");
    let edit = BoardEdit { color: Some("red".to_owned()), ..BoardEdit::default() };
    let info = boards.edit(&slug("b"), edit).await.unwrap();
    assert_eq!((info.name.as_str(), info.color.as_str()), ("Bee", "red"));
    let note = board.read().await.unwrap().note("board").await.unwrap().unwrap();
    assert_eq!(note["added_later"]["x"], 1);
}

#[tokio::test]
async fn an_invalid_description_of_a_board_is_refused() {
    let fixture = BoardsFixture::new();
    fixture.make("b").await;
    let boards = fixture.boards();
    for name in ["", "  ", "a\nb", &"x".repeat(201)] {
        let error = boards.rename(&slug("b"), name).await.unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }), "{error}");
    }
    let file = fixture.beside("file");
    std::fs::write(&file, "").unwrap();
    for wrong in [PathBuf::from("relative"), fixture.beside("missing"), file] {
        let error = boards.set_default_workdir(&slug("b"), Some(&wrong)).await.unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }), "{error}");
    }
    let here = fixture.beside("");
    assert!(boards.set_default_workdir(&slug("b"), Some(&here)).await.is_ok());
    let none = boards.set_default_workdir(&slug("b"), None).await.unwrap();
    assert_eq!((none.default_workdir, none.default_workdir_host), (None, None));
}

#[tokio::test]
async fn a_damaged_board_is_listed_with_what_is_wrong_and_hides_no_other() {
    let fixture = BoardsFixture::new();
    fixture.make("good").await.close().await.unwrap();
    let dir = fixture.root().join("boards/bad");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("kanban.db"), vec![b'x'; 4096]).unwrap();
    std::fs::create_dir_all(fixture.root().join("boards/Not a slug")).unwrap();
    std::fs::create_dir_all(fixture.root().join("boards/empty")).unwrap();
    let listed = fixture.boards().list(false).await.unwrap();
    let shown: Vec<_> =
        listed.iter().map(|own| (own.slug.as_str(), own.trouble.is_some())).collect();
    assert_eq!(shown, [("default", false), ("bad", true), ("good", false)]);
    assert_eq!(std::fs::read(dir.join("kanban.db")).unwrap(), vec![b'x'; 4096]);
}

#[tokio::test]
async fn a_list_as_json_has_the_keys_people_know() {
    let fixture = BoardsFixture::new();
    fixture.make("ops").await;
    let listed = serde_json::to_value(fixture.boards().list(false).await.unwrap()).unwrap();
    let keys: Vec<&str> = listed[1].as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected = [
        "slug",
        "name",
        "description",
        "icon",
        "color",
        "default_workdir",
        "default_workdir_host",
        "created_at",
        "archived",
        "tasks",
        "needs_attention",
    ];
    expected.sort_unstable();
    let mut keys = keys;
    keys.sort_unstable();
    assert_eq!(keys, expected);
    assert_eq!(listed[1]["slug"], "ops");
    assert_eq!(listed[1]["name"], "Ops");
}

#[tokio::test]
async fn the_environment_goes_before_the_switch_and_that_before_the_default() {
    let fixture = BoardsFixture::new();
    fixture.make("ops").await;
    let boards = fixture.boards();
    assert_eq!(boards.current(None).await.unwrap().by, ChosenBy::Nobody);
    boards.switch(&slug("ops")).await.unwrap();
    let current = fixture.boards().current(None).await.unwrap();
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
    let fixture = BoardsFixture::new();
    fixture.make("ops").await;
    let boards = fixture.boards();
    boards.switch(&slug("ops")).await.unwrap();
    assert!(boards.switch(&slug("nope")).await.is_err());
    assert_eq!(boards.current(None).await.unwrap().slug.as_str(), "ops");
    assert_eq!(names(&fixture.root()), [".boards.lock", "boards", "current"]);
}

#[tokio::test]
async fn a_choice_that_cannot_be_followed_is_reported() {
    let fixture = BoardsFixture::new();
    fixture.make("ops").await.close().await.unwrap();
    let boards = fixture.boards();
    boards.switch(&slug("ops")).await.unwrap();
    std::fs::remove_dir_all(fixture.root().join("boards/ops")).unwrap();
    let current = boards.current(None).await.unwrap();
    assert_eq!((current.slug.as_str(), current.by), ("default", ChosenBy::Nobody));
    assert_eq!(
        current.warning.as_deref(),
        Some("board ops, which was switched to, does not exist any more; board default is used")
    );
    for garbage in [&b"../../etc\n"[..], b"\xff\xfe", &vec![b'a'; 100_000]] {
        std::fs::write(fixture.root().join("current"), garbage).unwrap();
        let current = boards.current(None).await.unwrap();
        assert!(current.slug.is_default() && current.warning.is_some(), "{current:?}");
    }
}
