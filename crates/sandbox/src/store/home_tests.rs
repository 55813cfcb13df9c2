use std::cell::RefCell;
use std::process::Command;

use super::*;

fn open(home: &Path) -> HomeId {
    open_home(home, |_, _| panic!("{} is taken for a copy", home.display())).unwrap()
}

/// Copies a home as people do.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}

#[test]
fn a_home_keeps_its_id_and_another_has_another() {
    let root = tempfile::tempdir().unwrap();
    let first = open(&root.path().join("a"));
    assert_eq!(open(&root.path().join("a")), first);
    assert_ne!(open(&root.path().join("b")), first);
}

#[test]
fn many_threads_that_open_a_home_agree_on_its_id() {
    let root = tempfile::tempdir().unwrap();
    let home = root.path().join("home");
    let ids: Vec<HomeId> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(|| open(&home))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]));
    assert_eq!(fs::read_dir(&home).unwrap().count(), 1, "only home.json is left");
}

#[test]
fn a_copied_home_takes_an_identity_of_its_own_and_the_original_keeps_its() {
    let root = tempfile::tempdir().unwrap();
    let (home, other) = (root.path().join("home"), root.path().join("copy"));
    let id = open(&home);
    copy(&home, &other);
    let seen = RefCell::new(Vec::new());
    let own = open_home(&other, |old, new| {
        seen.borrow_mut().push((old.clone(), new.clone()));
        Ok(())
    })
    .unwrap();
    assert_ne!(own, id);
    assert_eq!(seen.take(), [(id.clone(), own.clone())]);
    assert_eq!((open(&home), open(&other)), (id, own));
}

#[test]
fn a_home_that_is_moved_stays_the_same_and_a_copy_put_in_its_place_does_not() {
    let root = tempfile::tempdir().unwrap();
    let (home, moved) = (root.path().join("home"), root.path().join("moved"));
    let id = open(&home);
    fs::rename(&home, &moved).unwrap();
    assert_eq!(open(&moved), id);
    copy(&moved, &home);
    assert_ne!(open_home(&home, |_, _| Ok(())).unwrap(), id);
    assert_eq!(open(&moved), id);
}

#[test]
fn a_copy_made_of_hard_links_is_a_copy() {
    let root = tempfile::tempdir().unwrap();
    let (home, other) = (root.path().join("home"), root.path().join("copy"));
    let id = open(&home);
    fs::create_dir(&other).unwrap();
    fs::hard_link(home.join(FILE), other.join(FILE)).unwrap();
    assert_ne!(open_home(&other, |_, _| Ok(())).unwrap(), id);
    assert_eq!(open(&home), id);
}

#[test]
fn a_process_that_dies_while_it_leaves_the_original_is_followed_by_one_with_the_same_id() {
    let root = tempfile::tempdir().unwrap();
    let (home, other) = (root.path().join("home"), root.path().join("copy"));
    let id = open(&home);
    copy(&home, &other);
    let died = RefCell::new(None);
    let error = || StoreError::io("write", &other, ErrorKind::StorageFull.into());
    open_home(&other, |_, new| {
        *died.borrow_mut() = Some(new.clone());
        Err(error())
    })
    .unwrap_err();
    let own = open_home(&other, |_, _| Ok(())).unwrap();
    assert_eq!(Some(own.clone()), died.take());
    assert_ne!(own, id);
    assert!(!other.join(NEXT).exists());
}

#[test]
fn a_home_of_an_earlier_version_keeps_its_id_and_its_later_copies_are_noticed() {
    let root = tempfile::tempdir().unwrap();
    let (home, other) = (root.path().join("home"), root.path().join("copy"));
    fs::create_dir(&home).unwrap();
    fs::write(home.join(FILE), r#"{"version":1,"id":"early"}"#).unwrap();
    assert_eq!(open(&home), HomeId("early".into()));
    copy(&home, &other);
    assert_ne!(open_home(&other, |_, _| Ok(())).unwrap(), HomeId("early".into()));
    assert_eq!(open(&home), HomeId("early".into()));
}

#[test]
fn network_filesystems_are_known_by_their_magic_and_local_ones_are_not() {
    assert_eq!(network_filesystem(0x6969), Some("NFS"));
    assert_eq!(network_filesystem(0xef53), None, "ext4");
    assert_eq!(network_filesystem(0x0102_1994), None, "tmpfs");
}
