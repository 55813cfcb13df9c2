use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::{fs, io};

use super::*;

fn session() -> SavedSession {
    SavedSession { cwd: b"/some/\xffplace".to_vec(), ..SavedSession::default() }
}

#[test]
fn what_is_stored_is_loaded_and_private() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("main");
    assert_eq!(SavedSession::load(&path).unwrap(), None);
    session().store(&path).unwrap();
    session().store(&path).unwrap();
    assert_eq!(SavedSession::load(&path).unwrap(), Some(session()));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn a_file_is_replaced_only_by_another_state() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("main");
    let store = |session: &SavedSession| {
        session.store(&path).unwrap();
        assert_eq!(SavedSession::load(&path).unwrap().as_ref(), Some(session));
        fs::metadata(&path).unwrap().ino()
    };
    let first = store(&session());
    // As long as it is held, no other file gets its number.
    let held = fs::File::open(&path).unwrap();
    assert_eq!(store(&session()), first);
    let other = SavedSession { cwd: b"/some/\xfeplace".to_vec(), ..SavedSession::default() };
    assert_ne!(store(&other), first);
    drop(held);
}

#[test]
fn a_leftover_of_a_crash_is_no_obstacle() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("main");
    fs::write(directory.path().join("main.new"), "half").unwrap();
    session().store(&path).unwrap();
    assert_eq!(SavedSession::load(&path).unwrap(), Some(session()));
}

#[test]
fn a_newer_version_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("main");
    // A later version may have changed everything but the place of the number.
    let newer = minicbor::to_vec(SavedBody { version: VERSION + 1, session: "changed" }).unwrap();
    fs::write(&path, &newer).unwrap();
    let error = SavedSession::load(&path).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert_eq!(
        error.to_string(),
        "session file has version 2, newer than 1, which this program knows"
    );
    assert_eq!(fs::read(&path).unwrap(), newer);
}

#[test]
fn a_damaged_file_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("main");
    session().store(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        assert_eq!(SavedSession::load(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}

#[test]
fn what_is_no_session_is_moved_aside_and_a_new_one_begun() {
    let directory = tempfile::tempdir().unwrap();
    let (path, aside) = (directory.path().join("main"), directory.path().join("main.damaged"));
    let plants: [fn(&Path); 4] = [
        |path| fs::write(path, [0xff; 1000]).unwrap(),
        |path| fs::create_dir_all(path.join("deeper")).unwrap(),
        |path| {
            let kind = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, path, kind, 0o600.into(), 0).unwrap();
        },
        |path| File::create(path).and_then(|file| file.set_len(MAX_SIZE + 1)).unwrap(),
    ];
    for plant in plants {
        plant(&path);
        let begun = SavedSession::load_or_begin(&path).unwrap();
        assert_eq!(begun, (SavedSession::default(), Some(aside.clone())));
        assert!(!path.exists() && aside.exists());
    }
    session().store(&path).unwrap();
    assert_eq!(SavedSession::load_or_begin(&path).unwrap(), (session(), None));
    let newer = minicbor::to_vec(SavedBody { version: VERSION + 1, session: "changed" }).unwrap();
    fs::write(&path, &newer).unwrap();
    SavedSession::load_or_begin(&path).unwrap_err();
    assert_eq!(fs::read(&path).unwrap(), newer, "a newer program wrote it");
}

#[test]
fn a_session_that_cannot_be_written_leaves_the_old_one() {
    let directory = tempfile::tempdir().unwrap();
    // The name of the new file would be longer than any name.
    let path = directory.path().join("x".repeat(254));
    session().store(&directory.path().join("main")).unwrap();
    fs::rename(directory.path().join("main"), &path).unwrap();
    SavedSession::default().store(&path).unwrap_err();
    assert_eq!(SavedSession::load(&path).unwrap(), Some(session()));
}
