//! The files of tasks.

use std::path::{Path, PathBuf};

use vestal_board::{
    Attachment, AttachmentSource, Authority, Board, BoardRefusal, Error, Fence, MAX_ATTACHMENT,
    NewAttachment, RunId, Task, TaskId,
};
use vestal_config::ProfileName;

use crate::support::{BoardsFixture, claim, names, person, slug, task};

fn file(name: &str, source: AttachmentSource) -> NewAttachment {
    NewAttachment { name: name.to_owned(), content_type: None, source }
}

fn bytes(name: &str, bytes: &[u8]) -> NewAttachment {
    file(name, AttachmentSource::Bytes(bytes.to_vec()))
}

async fn attach(board: &Board, task: &Task, new: NewAttachment) -> Result<Attachment, Error> {
    board.attach(&person(), &task.id, new).await
}

/// Returns what is stored for a task.
fn stored(board: &Board, task: &TaskId) -> Vec<String> {
    names(&board.dir().join("attachments").join(task.as_str()))
}

async fn kinds(board: &Board, task: &Task) -> Vec<String> {
    let events = board.show(&task.id).await.unwrap().events;
    events.into_iter().map(|event| event.kind).collect()
}

#[tokio::test]
async fn a_file_is_kept_byte_for_byte_and_reported() {
    let fixture = BoardsFixture::new();
    let board = fixture.make("b").await;
    let task = task(&board, "t").await;
    let source = fixture.beside("report.pdf");
    std::fs::write(&source, b"\0\xffcontent").unwrap();
    let new = NewAttachment {
        name: "report.pdf".to_owned(),
        content_type: Some("application/pdf".to_owned()),
        source: AttachmentSource::File(source),
    };
    let attached = attach(&board, &task, new).await.unwrap();
    assert_eq!((attached.filename.as_str(), attached.size), ("report.pdf", 9));
    assert_eq!(attached.content_type.as_deref(), Some("application/pdf"));
    assert_eq!((attached.uploaded_by.as_str(), attached.host.as_str()), ("ada", "here"));
    assert_eq!(std::fs::read(board.attachment_path(&attached)).unwrap(), b"\0\xffcontent");
    let sheet = board.show(&task.id).await.unwrap();
    assert_eq!(sheet.attachments, std::slice::from_ref(&attached));
    let event = sheet.events.last().unwrap();
    assert_eq!(event.kind, "attached");
    assert_eq!(
        event.payload,
        serde_json::json!({ "filename": "report.pdf", "size": 9, "by": "ada" })
    );
    assert!(board.context(&task.id).await.unwrap().contains("report.pdf"));
}

#[tokio::test]
async fn no_name_leads_out_of_the_directory_of_its_task() {
    let fixture = BoardsFixture::new();
    let board = fixture.make("b").await;
    let task = task(&board, "t").await;
    let dir = board.dir().join("attachments").join(task.id.as_str());
    for name in ["../../../etc/passwd", "/etc/passwd", "..", ".hidden", "a\0/b", "x\\..\\y", ""] {
        let attached = attach(&board, &task, bytes(name, b"x")).await.unwrap();
        let path = board.attachment_path(&attached);
        assert_eq!(path.parent(), Some(dir.as_path()), "{name:?}");
        assert!(path.is_file());
        let safe = !attached.filename.contains('/') && !attached.filename.starts_with('.');
        assert!(safe, "{attached:?}");
    }
    let mut forged = attach(&board, &task, bytes("f", b"x")).await.unwrap();
    for name in ["../../kanban.db", "/etc/passwd", "..", ""] {
        forged.stored_as = name.to_owned();
        assert!(board.attachment_path(&forged).starts_with(&dir), "{name:?}");
    }
}

#[tokio::test]
async fn files_with_one_name_are_distinguished() {
    let fixture = BoardsFixture::new();
    let board = fixture.make("b").await;
    let task = task(&board, "t").await;
    let mut names = Vec::new();
    for content in [b"1", b"2", b"3"] {
        let attached = attach(&board, &task, bytes("a.txt", content)).await.unwrap();
        assert_eq!(std::fs::read(board.attachment_path(&attached)).unwrap(), content);
        names.push(attached.filename);
    }
    assert_eq!(names, ["a.txt", "a (1).txt", "a (2).txt"]);
}

#[tokio::test]
async fn a_file_that_is_too_large_is_refused_and_leaves_nothing() {
    let fixture = BoardsFixture::new();
    let board = fixture.make("b").await;
    let task = task(&board, "t").await;
    let source = fixture.beside("large");
    let large = std::fs::File::create(&source).unwrap();
    large.set_len(MAX_ATTACHMENT + 1).unwrap();
    let most = usize::try_from(MAX_ATTACHMENT).unwrap();
    for source in
        [AttachmentSource::File(source.clone()), AttachmentSource::Bytes(vec![0; most + 1])]
    {
        let error = attach(&board, &task, file("large", source)).await.unwrap_err().to_string();
        assert!(error.ends_with("is larger than 25 MiB"), "{error}");
    }
    assert_eq!(stored(&board, &task.id), [""; 0]);
    assert_eq!(kinds(&board, &task).await, ["created"]);
    large.set_len(MAX_ATTACHMENT).unwrap();
    let whole = attach(&board, &task, file("large", AttachmentSource::File(source))).await.unwrap();
    assert_eq!(whole.size, MAX_ATTACHMENT);
}

#[tokio::test]
async fn the_size_a_file_claims_is_not_believed() {
    let fixture = BoardsFixture::new();
    let board = fixture.make("b").await;
    let task = task(&board, "t").await;
    let source = PathBuf::from("/proc/self/status");
    assert_eq!(std::fs::metadata(&source).unwrap().len(), 0);
    let attached =
        attach(&board, &task, file("status", AttachmentSource::File(source))).await.unwrap();
    let kept = std::fs::read(board.attachment_path(&attached)).unwrap();
    assert!(attached.size > 0 && kept.starts_with(b"Name:"));
    assert_eq!(kept.len() as u64, attached.size);
}

#[tokio::test]
async fn only_regular_files_are_taken_and_nothing_is_waited_for() {
    let fixture = BoardsFixture::new();
    let board = fixture.make("b").await;
    let task = task(&board, "t").await;
    let (pipe, link, target) =
        (fixture.beside("pipe"), fixture.beside("link"), fixture.beside("target"));
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    std::fs::write(&target, "x").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let socket = fixture.beside("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let device = PathBuf::from("/dev/zero");
    for wrong in [pipe, link, socket, device, fixture.beside("")] {
        let error =
            attach(&board, &task, file("f", AttachmentSource::File(wrong))).await.unwrap_err();
        assert!(error.to_string().ends_with("is not a regular file"), "{error}");
    }
    let missing = file("f", AttachmentSource::File(fixture.beside("missing")));
    assert!(matches!(attach(&board, &task, missing).await.unwrap_err(), Error::Io { .. }));
    assert_eq!(stored(&board, &task.id), [""; 0]);
}

#[tokio::test]
async fn a_file_for_a_task_that_is_not_there_is_not_even_copied() {
    let fixture = BoardsFixture::new();
    let board = fixture.make("b").await;
    let nobody: TaskId = "t_000000000000".parse().unwrap();
    let error = board.attach(&person(), &nobody, bytes("f", b"x")).await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
    assert!(!board.dir().join("attachments").exists());
    let wrong = NewAttachment { content_type: Some("x".to_owned()), ..bytes("f", b"x") };
    let task = task(&board, "t").await;
    assert!(matches!(attach(&board, &task, wrong).await.unwrap_err(), Error::Invalid { .. }));
}

#[tokio::test]
async fn a_worker_adds_files_to_its_own_task_while_it_holds_it() {
    let fixture = BoardsFixture::new();
    let board = fixture.make("b").await;
    let (own, other) = (task(&board, "own").await, task(&board, "other").await);
    let run = claim(&board, &own).await;
    let worker = |task: &Task, run: RunId| {
        let profile = ProfileName::new("alpha").unwrap();
        Authority::Worker(Fence { task: task.id.clone(), run, profile })
    };
    let by = worker(&own, run.id);
    let attached = board.attach(&by, &own.id, bytes("f", b"x")).await.unwrap();
    assert_eq!(attached.uploaded_by, "alpha");
    let error = board.attach(&by, &other.id, bytes("f", b"x")).await.unwrap_err();
    assert!(matches!(error, Error::Refused(BoardRefusal::NotYours { .. })), "{error}");
    let stale = worker(&own, RunId::new(run.id.get() + 1));
    for error in [
        board.attach(&stale, &own.id, bytes("f", b"x")).await.unwrap_err(),
        board.detach(&stale, attached.id).await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::Fenced { .. }), "{error}");
    }
    assert_eq!(stored(&board, &own.id).len(), 1);
    assert_eq!(stored(&board, &other.id), [""; 0]);
    board.detach(&by, attached.id).await.unwrap();
}

#[tokio::test]
async fn a_file_is_copied_while_others_write() {
    let fixture = BoardsFixture::new();
    let board = fixture.make("b").await;
    let task = task(&board, "t").await;
    let held = board.write().await.unwrap();
    let (copier, id) = (fixture.boards().open_to_write(&slug("b")).await.unwrap(), task.id.clone());
    let attaching =
        tokio::spawn(async move { copier.attach(&person(), &id, bytes("f", &[7; 4096])).await });
    let dir = board.dir().join("attachments").join(task.id.as_str());
    // The bytes are there although nobody can write to the board.
    vestal_testkit::until("the bytes are there", || sizes(&dir) == [4096]).await;
    assert!(!attaching.is_finished());
    drop(held);
    attaching.await.unwrap().unwrap();
    assert_eq!(board.show(&task.id).await.unwrap().attachments.len(), 1);
}

fn sizes(dir: &Path) -> Vec<u64> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().metadata().unwrap().len()).collect()
}

#[tokio::test]
async fn a_file_that_is_taken_away_is_forgotten_and_its_bytes_go() {
    let fixture = BoardsFixture::new();
    let board = fixture.make("b").await;
    let task = task(&board, "t").await;
    let attached = attach(&board, &task, bytes("f", b"x")).await.unwrap();
    let kept = attach(&board, &task, bytes("g", b"x")).await.unwrap();
    board.detach(&person(), attached.id).await.unwrap();
    assert!(!board.attachment_path(&attached).exists());
    assert!(board.attachment_path(&kept).exists());
    assert_eq!(board.show(&task.id).await.unwrap().attachments, [kept]);
    assert_eq!(kinds(&board, &task).await.last().unwrap(), "attachment_removed");
    let again = board.detach(&person(), attached.id).await.unwrap_err().to_string();
    assert_eq!(again, format!("attachment {} does not exist", attached.id));
}

#[tokio::test]
async fn bytes_that_another_host_has_are_not_looked_for_here() {
    let fixture = BoardsFixture::new();
    let board = fixture.make("b").await;
    let task = task(&board, "t").await;
    let attached = attach(&board, &task, bytes("f", b"x")).await.unwrap();
    let there = fixture.boards_of("there").open_to_write(&slug("b")).await.unwrap();
    there.detach(&person(), attached.id).await.unwrap();
    assert!(board.attachment_path(&attached).exists());
    assert_eq!(board.show(&task.id).await.unwrap().attachments, []);
}

#[tokio::test]
async fn a_task_has_no_files_without_end() {
    let fixture = BoardsFixture::new();
    let board = fixture.make("b").await;
    let task = task(&board, "t").await;
    for _ in 0..100 {
        attach(&board, &task, bytes("f", b"")).await.unwrap();
    }
    let error = attach(&board, &task, bytes("f", b"")).await.unwrap_err();
    assert!(matches!(error, Error::Invalid { .. }), "{error}");
    assert_eq!(stored(&board, &task.id).len(), 100);
}
