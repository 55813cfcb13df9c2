//! Files, against a guest that is played.

use std::io;

use vestal_wire::limits::{MAX_DATA, WINDOW};
use vestal_wire::{
    CallReply, CallRequest, CreateMode, DirectoryEntry, Fault, FaultCode, FileCall, FileEdit,
    FileKind, FileOp, FileReply, FileVersion, FoundMatches, FrameKind, Match, Metadata,
    SearchQuery, Stream,
};

use super::{Depth, FileError, Files, Links, Overwrite, Parents, WriteOptions, Written};
use crate::client::CallError;
use crate::client::fake_guest::{FakeGuest, connected, soon};

pub(super) fn metadata(size: u64) -> Metadata {
    Metadata {
        path: b"/workspace/file".to_vec().into(),
        kind: FileKind::File,
        mode: 0o644,
        uid: 0,
        gid: 0,
        version: FileVersion { inode: 1, size, mtime_ns: 2 },
        target: None,
    }
}

pub(super) fn entry(name: &[u8]) -> DirectoryEntry {
    DirectoryEntry {
        name: name.to_vec().into(),
        kind: FileKind::File,
        size: 0,
        mode: 0,
        mtime_ns: 0,
    }
}

pub(super) async fn file_op(guest: &mut FakeGuest) -> (u32, FileOp) {
    match guest.request().await {
        (channel, CallRequest::File(FileCall { op, .. })) => (channel, op),
        other => panic!("{other:?}"),
    }
}

pub(super) async fn answer(guest: &mut FakeGuest, reply: FileReply) -> FileOp {
    let (channel, op) = file_op(guest).await;
    guest.reply(channel, &CallReply::File(reply)).await;
    op
}

pub(super) fn read_reply(size: u64, sent: u64, eof: bool) -> FileReply {
    FileReply::Read { metadata: metadata(size), sent, eof }
}

fn written() -> FileReply {
    FileReply::Written { metadata: metadata(3), created: true, in_place: false, replaced: 0 }
}

#[tokio::test]
async fn a_file_is_read_byte_for_byte() {
    let (connection, mut guest) = connected().await;
    let content: Vec<u8> = (0..3 * WINDOW).map(|n| n.to_le_bytes()[0]).collect();
    let files = Files::new(connection.clone()).session("main").start_dir("/workspace");
    let serve = async {
        let (channel, request) = guest.request().await;
        let CallRequest::File(call) = request else { panic!("{request:?}") };
        assert_eq!(call.session.as_deref(), Some("main"));
        assert_eq!(call.start_dir.as_ref().map(|dir| dir.to_vec()), Some(b"/workspace".to_vec()));
        let mut credit = WINDOW as usize;
        for chunk in content.chunks(MAX_DATA) {
            while credit < chunk.len() {
                let payload = guest.expect(channel, FrameKind::Credit, Stream::Content).await;
                credit += u32::from_le_bytes(payload.try_into().unwrap()) as usize;
            }
            credit -= chunk.len();
            guest.data(channel, Stream::Content, chunk).await;
        }
        guest.send(channel, FrameKind::End, Stream::Content, &[]).await;
        let sent = content.len() as u64;
        guest.reply(channel, &CallReply::File(read_reply(sent, sent, true))).await;
    };
    let (read, ()) = soon(async { tokio::join!(files.read("file", u64::MAX), serve) }).await;
    assert!(read.unwrap() == content);
}

#[tokio::test]
async fn a_file_over_the_limit_is_refused() {
    let (connection, mut guest) = connected().await;
    let files = Files::new(connection.clone());
    let (read, ()) = tokio::join!(files.read("file", 4), async {
        let (channel, op) = file_op(&mut guest).await;
        assert!(matches!(op, FileOp::Read { offset: 0, limit: Some(4), .. }));
        guest.data(channel, Stream::Content, b"1234").await;
        guest.reply(channel, &CallReply::File(read_reply(9, 4, false))).await;
    });
    assert!(matches!(read, Err(FileError::TooLarge { max: 4 })), "{read:?}");
    assert!(!connection.is_closed());
}

#[tokio::test]
async fn a_range_is_passed_on_to_a_writer() {
    let (connection, mut guest) = connected().await;
    let files = Files::new(connection.clone());
    let mut target = Vec::new();
    let (summary, ()) = tokio::join!(files.read_to("file", &mut target, 7, Some(10)), async {
        let (channel, op) = file_op(&mut guest).await;
        assert!(matches!(op, FileOp::Read { offset: 7, limit: Some(10), .. }));
        guest.data(channel, Stream::Content, b"12").await;
        guest.data(channel, Stream::Content, b"345").await;
        guest.reply(channel, &CallReply::File(read_reply(12, 5, true))).await;
    });
    let summary = summary.unwrap();
    assert_eq!((summary.bytes, summary.eof), (5, true));
    assert_eq!(target, b"12345");
}

#[tokio::test]
async fn a_file_is_written_from_bytes_and_from_a_reader() {
    let content = vec![7; 2 * WINDOW as usize + 5];
    for from_reader in [false, true] {
        let (connection, mut guest) = connected().await;
        let files = Files::new(connection.clone());
        let options = WriteOptions {
            create: CreateMode::New,
            parents: Parents::Make,
            mode: Some(0o600),
            expect: None,
        };
        let writing = async {
            if from_reader {
                let mut reader = io::Cursor::new(content.clone());
                files.write_from("~/file", &mut reader, options).await
            } else {
                files.write("~/file", &content, options).await
            }
        };
        let (result, received) = soon(async {
            tokio::join!(writing, async {
                let (channel, op) = file_op(&mut guest).await;
                assert_eq!(
                    op,
                    FileOp::Write {
                        path: b"~/file".to_vec().into(),
                        create: CreateMode::New,
                        parents: true,
                        mode: Some(0o600),
                        expect: None,
                    }
                );
                let mut received = 0;
                loop {
                    let (header, _) = guest.frame().await;
                    if header.kind == FrameKind::End {
                        break;
                    }
                    received += header.len as usize;
                    guest.credit(channel, Stream::Input, header.len).await;
                }
                guest.reply(channel, &CallReply::File(written())).await;
                received
            })
        })
        .await;
        assert_eq!(received, content.len());
        let expected =
            Written { metadata: metadata(3), created: true, in_place: false, replaced: 0 };
        assert_eq!(result.unwrap(), expected);
    }
}

#[tokio::test]
async fn a_write_that_is_refused_half_way_ends_with_the_fault() {
    let (connection, mut guest) = connected().await;
    let files = Files::new(connection.clone());
    let content = vec![0; 4 * WINDOW as usize];
    let writing = files.write("/full", &content, WriteOptions::default());
    let (result, ()) = soon(async {
        tokio::join!(writing, async {
            let (channel, _) = file_op(&mut guest).await;
            guest.frame().await;
            let fault = Fault::new(FaultCode::NoSpace, "no space left");
            guest.reply(channel, &CallReply::Fault(fault)).await;
        })
    })
    .await;
    let Err(FileError::Call(CallError::Fault(fault))) = result else { panic!("{result:?}") };
    assert_eq!(fault.code, FaultCode::NoSpace);
    assert!(!connection.is_closed());
}

#[tokio::test]
async fn a_source_that_fails_cancels_the_write() {
    let (connection, mut guest) = connected().await;
    let files = Files::new(connection.clone());
    let (mut reader, writer) = tokio::io::duplex(16);
    drop(writer);
    let mut reader = FailAfter(&mut reader);
    let writing = files.write_from("/file", &mut reader, WriteOptions::default());
    let (result, ()) = soon(async {
        tokio::join!(writing, async {
            let (channel, _) = file_op(&mut guest).await;
            guest.expect(channel, FrameKind::Cancel, Stream::Input).await;
        })
    })
    .await;
    assert!(matches!(result, Err(FileError::Io(_))), "{result:?}");
}

/// A reader that fails where the one inside ends.
struct FailAfter<'a>(&'a mut tokio::io::DuplexStream);

impl tokio::io::AsyncRead for FailAfter<'_> {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        let before = buffer.filled().len();
        std::task::ready!(std::pin::Pin::new(&mut *self.0).poll_read(context, buffer))?;
        if buffer.filled().len() == before {
            return std::task::Poll::Ready(Err(io::Error::other("broken source")));
        }
        std::task::Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn the_other_operations_carry_their_questions_and_answers() {
    let (connection, mut guest) = connected().await;
    let files = Files::new(connection.clone());
    let edits = vec![FileEdit { old: b"a".to_vec().into(), new: b"b".to_vec().into(), all: true }];
    let query = SearchQuery {
        root: b".".to_vec().into(),
        glob: Some("*.rs".to_owned()),
        regex: Some("fn".to_owned()),
        ignore_case: false,
        hidden: false,
        ignored: false,
        skip: 0,
        limit: 10,
        context: 1,
    };
    let found = FoundMatches {
        matches: vec![Match {
            path: b"src/lib.rs".to_vec().into(),
            line: 1,
            text: b"fn main".to_vec().into(),
            context: false,
        }],
        more: false,
        files: 1,
        unreadable: 0,
        binary: 0,
    };
    let serve = async {
        let op = answer(&mut guest, written()).await;
        let path = b"f".to_vec().into();
        assert_eq!(op, FileOp::Patch { path, edits: edits.clone(), expect: None });
        let op = answer(&mut guest, FileReply::Stat(metadata(9))).await;
        assert_eq!(op, FileOp::Stat { path: b"f".to_vec().into(), follow: false });
        let op = answer(&mut guest, FileReply::Found(found.clone())).await;
        assert_eq!(op, FileOp::Search(query.clone()));
        let op = answer(&mut guest, FileReply::Done).await;
        assert!(matches!(op, FileOp::Mkdir { parents: true, mode: None, .. }));
        let op = answer(&mut guest, FileReply::Done).await;
        assert!(matches!(op, FileOp::Move { overwrite: false, .. }));
        let op = answer(&mut guest, FileReply::Done).await;
        assert!(matches!(op, FileOp::Delete { recursive: true, .. }));
    };
    let ask = async {
        files.patch("f", edits.clone(), None).await.unwrap();
        assert_eq!(files.stat("f", Links::Keep).await.unwrap(), metadata(9));
        assert_eq!(files.search(query.clone()).await.unwrap(), found);
        files.mkdir("d", Parents::Make, None).await.unwrap();
        files.rename("a", "b", Overwrite::Never).await.unwrap();
        files.delete("d", Depth::Recursive).await.unwrap();
    };
    soon(async { tokio::join!(serve, ask) }).await;
}

#[tokio::test]
async fn a_listing_goes_on_page_by_page() {
    let (connection, mut guest) = connected().await;
    let files = Files::new(connection.clone());
    let serve = async {
        let first = FileReply::List { entries: vec![entry(b"a"), entry(b"b")], more: true };
        let op = answer(&mut guest, first).await;
        assert!(matches!(op, FileOp::List { skip: 0, .. }));
        let last = FileReply::List { entries: vec![entry(b"c")], more: false };
        let op = answer(&mut guest, last).await;
        assert!(matches!(op, FileOp::List { skip: 2, .. }));
    };
    let ask = async {
        let mut listing = files.listing("/").unwrap();
        let mut names = Vec::new();
        while let Some(entry) = listing.next().await.unwrap() {
            names.push(entry.name.to_vec());
        }
        assert_eq!(names, [b"a", b"b", b"c"]);
    };
    soon(async { tokio::join!(serve, ask) }).await;
}

#[tokio::test]
async fn a_list_stops_at_its_limit() {
    let (connection, mut guest) = connected().await;
    let files = Files::new(connection.clone());
    let (page, ()) = soon(async {
        tokio::join!(files.list("/", 3), async {
            let first = FileReply::List { entries: vec![entry(b"a"), entry(b"b")], more: true };
            answer(&mut guest, first).await;
            let next = FileReply::List { entries: vec![entry(b"c")], more: true };
            let op = answer(&mut guest, next).await;
            assert!(matches!(op, FileOp::List { skip: 2, limit: 1, .. }));
        })
    })
    .await;
    let page = page.unwrap();
    assert_eq!((page.entries.len(), page.more), (3, true));
}

#[tokio::test]
async fn impossible_paths_are_refused_before_they_are_sent() {
    let (connection, _guest) = connected().await;
    let files = Files::new(connection.clone());
    for path in ["", "a\0b"] {
        let result = files.read(path, 1).await;
        assert!(matches!(result, Err(FileError::Invalid(_))), "{result:?}");
    }
    let result = files.session("").read("/x", 1).await;
    assert!(matches!(result, Err(FileError::Invalid(_))), "{result:?}");
}
