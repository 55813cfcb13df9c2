//! Files of a guest that lies about them.

use vestal_wire::{CallReply, FileReply, FoundMatches, Match, SearchQuery, Stream};

use super::tests::{answer, entry, file_op, metadata, read_reply};
use super::{Depth, FileError, Files};
use crate::client::fake_guest::connected;
use crate::client::{CallError, Connection, Violation};

fn assert_cut_off<T: std::fmt::Debug>(connection: &Connection, result: &Result<T, FileError>) {
    assert!(
        matches!(
            result,
            Err(FileError::Call(CallError::Protocol { violation: Violation::Claim(_), .. }))
        ),
        "{result:?}"
    );
    assert!(connection.is_closed());
}

#[tokio::test]
async fn more_bytes_than_asked_for_are_a_violation() {
    let (connection, mut guest) = connected().await;
    let files = Files::new(connection.clone());
    let (read, ()) = tokio::join!(files.read("file", 4), async {
        let (channel, _) = file_op(&mut guest).await;
        guest.data(channel, Stream::Content, b"12345").await;
        guest.reply(channel, &CallReply::File(read_reply(5, 5, true))).await;
    });
    assert_cut_off(&connection, &read);
}

#[tokio::test]
async fn a_wrong_count_of_bytes_sent_is_a_violation() {
    for claimed in [0, 2, 4, u64::MAX] {
        let (connection, mut guest) = connected().await;
        let files = Files::new(connection.clone());
        let (read, ()) = tokio::join!(files.read("file", 100), async {
            let (channel, _) = file_op(&mut guest).await;
            guest.data(channel, Stream::Content, b"123").await;
            guest.reply(channel, &CallReply::File(read_reply(3, claimed, true))).await;
        });
        assert_cut_off(&connection, &read);
    }
}

#[tokio::test]
async fn a_claimed_size_allocates_nothing() {
    let (connection, mut guest) = connected().await;
    let files = Files::new(connection.clone());
    let (content, ()) = tokio::join!(files.read_range("file", 0, u64::MAX), async {
        let (channel, _) = file_op(&mut guest).await;
        guest.reply(channel, &CallReply::File(read_reply(u64::MAX, 0, false))).await;
    });
    assert_eq!(content.unwrap().bytes.capacity(), 0);
}

#[tokio::test]
async fn names_that_cannot_be_names_are_violations() {
    let bad: [&[u8]; 8] =
        [b"", b".", b"..", b"a/b", b"/etc/passwd", b"../../x", b"nul\0", &[b'x'; 256]];
    for name in bad {
        let (connection, mut guest) = connected().await;
        let files = Files::new(connection.clone());
        let (page, _) = tokio::join!(
            files.list_page("/", 0, 10),
            answer(&mut guest, FileReply::List { entries: vec![entry(name)], more: false })
        );
        assert_cut_off(&connection, &page);
    }
}

#[tokio::test]
async fn pages_that_lie_about_their_length_are_violations() {
    let too_many = vec![entry(b"a"), entry(b"b")];
    for (entries, more) in [(too_many, false), (Vec::new(), true)] {
        let (connection, mut guest) = connected().await;
        let files = Files::new(connection.clone());
        let (page, _) = tokio::join!(
            files.list_page("/", 0, 1),
            answer(&mut guest, FileReply::List { entries, more })
        );
        assert_cut_off(&connection, &page);
    }
}

#[tokio::test]
async fn search_results_from_outside_the_root_are_violations() {
    let bad: [(&[u8], usize, usize); 5] =
        [(b"../x", 1, 1), (b"/etc/passwd", 1, 1), (b"a\0", 1, 1), (b"a", 3_000, 1), (b"a", 1, 3)];
    for (path, text, count) in bad {
        let (connection, mut guest) = connected().await;
        let files = Files::new(connection.clone());
        let query = SearchQuery {
            root: b"/".to_vec().into(),
            glob: None,
            regex: Some("x".to_owned()),
            ignore_case: false,
            hidden: false,
            ignored: false,
            skip: 0,
            limit: 2,
            context: 0,
        };
        let hit = Match {
            path: path.to_vec().into(),
            line: 1,
            text: vec![b'x'; text].into(),
            context: false,
        };
        let found = FoundMatches {
            matches: vec![hit; count],
            more: false,
            files: 1,
            unreadable: 0,
            binary: 0,
        };
        let (result, _) =
            tokio::join!(files.search(query), answer(&mut guest, FileReply::Found(found)));
        assert_cut_off(&connection, &result);
    }
}

#[tokio::test]
async fn an_answer_to_another_operation_is_a_violation() {
    let (connection, mut guest) = connected().await;
    let files = Files::new(connection.clone());
    let (result, _) = tokio::join!(
        files.delete("/x", Depth::One),
        answer(&mut guest, FileReply::Stat(metadata(0)))
    );
    assert!(
        matches!(
            &result,
            Err(FileError::Call(CallError::Protocol { violation: Violation::WrongReply, .. }))
        ),
        "{result:?}"
    );
}
