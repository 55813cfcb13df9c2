//! Removing boards: for now, and for good.

use vestal_board::Error;
use vestal_board::boards::{BoardsError, NewBoard};

use crate::support::{BoardsFixture, claim, names, person, slug, task};

#[tokio::test]
async fn an_archived_board_is_out_of_the_way_and_comes_back_whole() {
    let fixture = BoardsFixture::new();
    let board = fixture.make("ops").await;
    let kept = task(&board, "kept").await;
    let boards = fixture.boards();
    boards.switch(&slug("ops")).await.unwrap();
    boards.remove(&slug("ops")).await.unwrap();
    assert!(boards.current(None).await.unwrap().slug.is_default());
    assert_eq!(boards.current(None).await.unwrap().warning, None);
    assert_eq!(fixture.slugs(false).await, ["default"]);
    assert_eq!(fixture.slugs(true).await, ["default", "ops"]);
    let archived = |error: &Error| matches!(error, Error::Boards(BoardsError::Archived { .. }));
    assert!(archived(&boards.open_to_write(&slug("ops")).await.unwrap_err()));
    assert!(archived(&boards.open_to_read(&slug("ops")).await.unwrap_err()));
    assert!(archived(&boards.switch(&slug("ops")).await.unwrap_err()));
    assert!(archived(&boards.create(&slug("ops"), NewBoard::default()).await.unwrap_err()));
    boards.restore(&slug("ops")).await.unwrap();
    let board = boards.open_to_write(&slug("ops")).await.unwrap();
    assert_eq!(board.get(&kept.id).await.unwrap().title, "kept");
}

#[tokio::test]
async fn a_deleted_board_is_gone_and_its_name_is_free() {
    let fixture = BoardsFixture::new();
    let board = fixture.make("ops").await;
    task(&board, "gone").await;
    board.close().await.unwrap();
    let boards = fixture.boards();
    boards.switch(&slug("ops")).await.unwrap();
    boards.delete(&slug("ops")).await.unwrap();
    assert_eq!(names(&fixture.root().join("boards")), [""; 0]);
    assert!(boards.current(None).await.unwrap().slug.is_default());
    let missing = boards.delete(&slug("ops")).await.unwrap_err();
    assert!(matches!(missing, Error::Boards(BoardsError::Missing { .. })), "{missing}");
    let board = fixture.make("ops").await;
    assert_eq!(board.list(&vestal_board::store::TaskQuery::default()).await.unwrap(), []);
    // An archived one can be deleted, too.
    boards.remove(&slug("ops")).await.unwrap();
    boards.delete(&slug("ops")).await.unwrap();
    assert_eq!(fixture.slugs(true).await, ["default"]);
}

#[tokio::test]
async fn the_default_board_cannot_be_removed() {
    let fixture = BoardsFixture::new();
    fixture.make("default").await;
    let boards = fixture.boards();
    for error in [
        boards.remove(&slug("default")).await.unwrap_err(),
        boards.delete(&slug("Default")).await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::Boards(BoardsError::Default { .. })), "{error}");
    }
    assert_eq!(fixture.slugs(false).await, ["default"]);
}

#[tokio::test]
async fn a_board_whose_tasks_are_worked_on_is_neither_archived_nor_deleted() {
    let fixture = BoardsFixture::new();
    let board = fixture.make("ops").await;
    let task = task(&board, "at work").await;
    claim(&board, &task).await;
    let boards = fixture.boards();
    for error in [
        boards.remove(&slug("ops")).await.unwrap_err(),
        boards.delete(&slug("ops")).await.unwrap_err(),
    ] {
        let busy = matches!(error, Error::Boards(BoardsError::Busy { count: 1, .. }));
        assert!(busy, "{error}");
    }
    assert_eq!(fixture.slugs(false).await, ["default", "ops"]);
    board.reclaim(&person(), &task.id, "enough").await.unwrap();
    boards.delete(&slug("ops")).await.unwrap();
}

#[tokio::test]
async fn what_a_crash_left_of_a_deleted_board_is_finished_by_the_next_one() {
    let fixture = BoardsFixture::new();
    fixture.make("ops").await.close().await.unwrap();
    let all = fixture.root().join("boards");
    // The process died right after the board was out of the way.
    let aside = all.join(".deleted-ops-0123456789abcdef");
    std::fs::rename(all.join("ops"), &aside).unwrap();
    assert_eq!(fixture.slugs(true).await, ["default"]);
    assert!(aside.exists(), "reading removes nothing");
    fixture.make("ops").await.close().await.unwrap();
    assert_eq!(names(&all), ["ops"]);
    std::fs::create_dir(&aside).unwrap();
    fixture.boards().delete(&slug("ops")).await.unwrap();
    assert_eq!(names(&all), [""; 0]);
    std::fs::create_dir(&aside).unwrap();
    fixture.boards().sweep().await.unwrap();
    assert_eq!(names(&all), [""; 0]);
}

#[tokio::test]
async fn work_that_begins_while_a_board_is_deleted_is_not_lost() {
    let fixture = BoardsFixture::new();
    let board = fixture.make("ops").await;
    let task = task(&board, "late").await;
    // A process with the board open takes turns with the one that deletes it: either
    // the claim is there first and the board stays, or it comes too late.
    let boards = fixture.boards();
    let deleting = tokio::spawn(async move { boards.delete(&slug("ops")).await });
    let claimed = {
        let claim = vestal_board::Claim {
            lease: std::time::Duration::from_mins(5),
            profile: None,
            role: vestal_board::Role::Work,
            host: None,
        };
        board.claim(&person(), &task.id, claim).await
    };
    let deleted = deleting.await.unwrap();
    let there = fixture.boards().exists(&slug("ops")).unwrap();
    assert_eq!((there, claimed.is_ok()), (deleted.is_err(), deleted.is_err()), "{deleted:?}");
}

#[tokio::test]
async fn a_link_in_place_of_a_board_takes_nothing_else_along() {
    let fixture = BoardsFixture::new();
    let elsewhere = fixture.beside("elsewhere");
    let board = fixture.make("real").await;
    board.close().await.unwrap();
    let all = fixture.root().join("boards");
    std::fs::rename(all.join("real"), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, all.join("real")).unwrap();
    fixture.boards().delete(&slug("real")).await.unwrap();
    assert_eq!(names(&all), [""; 0]);
    assert!(elsewhere.join("kanban.db").exists());
}

#[tokio::test]
async fn nothing_is_begun_on_a_board_that_was_archived_while_it_was_open() {
    let fixture = BoardsFixture::new();
    let board = fixture.make("ops").await;
    let task = task(&board, "late").await;
    fixture.boards().remove(&slug("ops")).await.unwrap();
    let claim = vestal_board::Claim {
        lease: std::time::Duration::from_mins(5),
        profile: None,
        role: vestal_board::Role::Work,
        host: None,
    };
    let refused = board.claim(&person(), &task.id, claim.clone()).await.unwrap_err();
    assert!(matches!(refused, Error::Boards(BoardsError::Closed)), "{refused}");
    fixture.boards().restore(&slug("ops")).await.unwrap();
    board.claim(&person(), &task.id, claim).await.unwrap();
}

#[tokio::test]
async fn a_board_that_is_made_anew_under_the_same_name_is_another() {
    let fixture = BoardsFixture::new();
    let boards = fixture.boards();
    assert_eq!(boards.identity(&slug("ops")).unwrap(), None);
    fixture.make("ops").await.close().await.unwrap();
    let first = boards.identity(&slug("ops")).unwrap();
    // The number of the file that goes must not be free for the next one.
    let held = fixture.beside("held");
    std::fs::hard_link(boards.dir(&slug("ops")).join("kanban.db"), &held).unwrap();
    boards.delete(&slug("ops")).await.unwrap();
    fixture.make("ops").await;
    assert!(first.is_some() && boards.identity(&slug("ops")).unwrap() != first);
    assert_eq!(boards.names().unwrap(), [slug("ops")]);
}
