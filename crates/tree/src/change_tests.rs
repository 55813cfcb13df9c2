use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use vestal_wire::tree::{
    ContentHash, HashedFile, Listing, TreeItem, TreePath, TreeRoot, framed, framed_bytes,
    partial_name,
};
use vestal_wire::{FileKind, TreeOp};

use super::*;
use crate::serve::{TreeSink, serve};

static NEVER: AtomicBool = AtomicBool::new(false);

#[derive(Default)]
struct Sent(Vec<u8>);

impl TreeSink for Sent {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

fn served(root: &Path, op: &TreeOp, input: &[u8]) -> Result<Vec<u8>, TreeError> {
    let mut sent = Sent::default();
    serve(&OpenTree::open(root)?, op, input, &mut sent, &NEVER)?;
    Ok(sent.0)
}

fn listings(root: &Path, ignore: &str, input: &[u8]) -> Vec<Listing> {
    let op = TreeOp::Scan { ignore: ignore.as_bytes().to_vec().into() };
    let sent = served(root, &op, input).unwrap();
    let mut records = RecordReader::new(&sent[..]);
    records.record::<TreeRoot>().unwrap().unwrap();
    std::iter::from_fn(|| records.record().unwrap()).collect()
}

fn entry(root: &Path, directory: &str, name: &str) -> TreeItem {
    let all = listings(root, "", b"");
    let of = all.iter().find(|listing| listing.path.as_slice() == directory.as_bytes()).unwrap();
    of.entries.iter().find(|entry| entry.name.as_slice() == name.as_bytes()).unwrap().clone()
}

fn hash(content: &[u8]) -> ContentHash {
    finished(Sha256::new_with_prefix(content))
}

fn file(path: &str, content: &[u8], replaces: Option<Stamp>) -> (TreeChange, Vec<u8>) {
    let change = TreeChange::File {
        path: path.as_bytes().to_vec().into(),
        hash: hash(content),
        mode: None,
        executable: false,
        mtime_ns: 1_000_000_000,
        replaces,
        offset: 0,
        resumable: false,
    };
    let stream = [framed(&change).unwrap(), pieces(content)].concat();
    (change, stream)
}

fn pieces(content: &[u8]) -> Vec<u8> {
    let mut stream: Vec<u8> = content.chunks(7).flat_map(framed_bytes).collect();
    stream.extend(framed_bytes(b""));
    stream
}

fn changed(root: &Path, stream: &[u8]) -> Vec<TreeOutcome> {
    let sent = served(root, &TreeOp::Change, stream).unwrap();
    let mut records = RecordReader::new(&sent[..]);
    std::iter::from_fn(|| records.record().unwrap()).collect()
}

fn one(root: &Path, change: &TreeChange) -> TreeOutcome {
    changed(root, &framed(change).unwrap()).remove(0)
}

fn names(root: &Path) -> Vec<String> {
    let read = fs::read_dir(root).unwrap();
    let mut names: Vec<String> =
        read.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_file_is_put_whole_with_its_time_and_bits_and_nothing_else_is_left() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let (mut change, _) = file("x", b"a longer content", None);
    if let TreeChange::File { mode, .. } = &mut change {
        *mode = Some(0o640);
    }
    let stream = [framed(&change).unwrap(), pieces(b"a longer content")].concat();
    assert_eq!(changed(root, &stream), [TreeOutcome::Made]);
    let put = fs::metadata(root.join("x")).unwrap();
    assert_eq!(fs::read(root.join("x")).unwrap(), b"a longer content");
    assert_eq!(put.permissions().mode() & 0o7777, 0o640);
    assert_eq!(entry(root, "", "x").stamp.mtime_ns, 1_000_000_000);
    assert_eq!(names(root), ["x"]);
}

#[test]
fn a_content_that_is_not_what_was_announced_is_not_put_there() {
    let root = tempfile::tempdir().unwrap();
    let (change, _) = file("x", b"what was announced", None);
    let other = [framed(&change).unwrap(), pieces(b"something else")].concat();
    let (_, next) = file("y", b"y", None);
    assert_eq!(
        changed(root.path(), &[other, next].concat()),
        [TreeOutcome::Overtaken, TreeOutcome::Made],
        "and what follows is not mistaken for it"
    );
    assert_eq!(names(root.path()), ["y"]);
}

#[test]
fn what_the_other_side_has_not_seen_is_neither_replaced_nor_deleted() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    fs::write(root.join("x"), "old").unwrap();
    let seen = entry(root, "", "x").stamp;
    fs::write(root.join("x"), "newer").unwrap();
    let (_, replace) = file("x", b"mine", Some(seen));
    let (_, create) = file("x", b"mine", None);
    let delete = TreeChange::Delete { path: b"x".to_vec().into(), stamp: seen };
    let link = TreeChange::Link {
        path: b"x".to_vec().into(),
        target: b"y".to_vec().into(),
        replaces: Some(seen),
    };
    let streams = [replace, create, framed(&delete).unwrap(), framed(&link).unwrap()];
    assert_eq!(changed(root, &streams.concat()), vec![TreeOutcome::Overtaken; 4]);
    assert_eq!(fs::read(root.join("x")).unwrap(), b"newer");
    let seen = entry(root, "", "x").stamp;
    let (_, replace) = file("x", b"mine", Some(seen));
    assert_eq!(changed(root, &replace), [TreeOutcome::Made]);
    assert_eq!(fs::read(root.join("x")).unwrap(), b"mine");
    let stamp = entry(root, "", "x").stamp;
    assert_eq!(
        one(root, &TreeChange::Delete { path: b"x".to_vec().into(), stamp }),
        TreeOutcome::Made
    );
    assert_eq!(names(root), [""; 0]);
}

#[test]
fn a_file_written_to_between_the_look_and_the_exchange_stays() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("x"), "old").unwrap();
    let opened = OpenTree::open(root.path()).unwrap();
    let seen = entry(root.path(), "", "x").stamp;
    let path = b"x".to_vec();
    let Ok(place) = opened.place(&path, "write", Some(seen)) else { panic!("it is as it was") };
    let Ok((_, mut waiting)) = place.fresh(false) else { panic!("it can be made") };
    // The look is behind us.
    fs::write(root.path().join("x"), "written").unwrap();
    assert!(matches!(place.publish(&mut waiting, Some(seen)), Err(Undone::Overtaken)));
    assert!(matches!(place.delete(seen), Err(Undone::Overtaken)));
    drop(waiting);
    assert_eq!(fs::read(root.path().join("x")).unwrap(), b"written");
    assert_eq!(names(root.path()), ["x"]);
}

#[test]
fn nothing_outside_is_reached_by_a_link_or_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
    fs::create_dir(&root).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    symlink(&outside, root.join("way")).unwrap();
    symlink(outside.join("secret"), root.join("file")).unwrap();
    let (_, through) = file("way/new", b"x", None);
    let (_, over) = file("file", b"x", None);
    assert_eq!(changed(&root, &[through, over].concat()), vec![TreeOutcome::Overtaken; 2]);
    for bad in ["../outside/new", "/etc/new", "a/../../outside/new", "", ".", "a//b", "a\0b"] {
        let (_, stream) = file(bad, b"x", None);
        assert!(matches!(served(&root, &TreeOp::Change, &stream), Err(TreeError::Path)), "{bad:?}");
    }
    for path in ["way/secret", "file"] {
        let wanted = TreePath { path: path.as_bytes().to_vec().into(), offset: 0, end: None };
        let sent = served(&root, &TreeOp::Hash, &framed(&wanted).unwrap()).unwrap();
        let hashed: HashedFile = RecordReader::new(&sent[..]).record().unwrap().unwrap();
        assert!(hashed.hash.is_none() && hashed.error.is_some(), "{hashed:?}");
    }
    assert!(listings(&root, "", b"").iter().all(|listing| listing.path.is_empty()));
    assert_eq!(names(&outside), ["secret"]);
    assert!(OpenTree::open(&root.join("way")).is_err(), "nor is the root itself a link");
}

#[test]
fn a_directory_is_opened_without_following_where_the_kernel_cannot_do_it_at_once() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("a/b")).unwrap();
    symlink("b", dir.path().join("a/link")).unwrap();
    let root = OpenTree::open(dir.path()).unwrap();
    assert!(root.directory_by_steps(b"a/b").is_ok());
    assert!(root.directory_by_steps(b"a/link").is_err());
}

#[test]
fn a_known_directory_is_not_listed_again_and_a_changed_one_is() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(root.join("a/b/x"), "1").unwrap();
    fs::create_dir(root.join("node_modules")).unwrap();
    fs::write(root.join("node_modules/y"), "1").unwrap();
    let all = listings(root, "node_modules/", b"");
    let paths = |all: &[Listing]| -> Vec<Vec<u8>> {
        all.iter().map(|listing| listing.path.to_vec()).collect()
    };
    assert_eq!(paths(&all), [b"".to_vec(), b"a".to_vec(), b"a/b".to_vec()]);
    assert_eq!((all[0].ignored, all[0].entries.len()), (1, 1));
    let known: Vec<u8> = all
        .iter()
        .flat_map(|Listing { path, digest, .. }| {
            framed(&vestal_wire::tree::KnownDirectory { path: path.clone(), digest: *digest })
                .unwrap()
        })
        .collect();
    assert_eq!(listings(root, "node_modules/", &known), []);
    fs::set_permissions(root.join("a/b/x"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(paths(&listings(root, "node_modules/", &known)), [b"a/b".to_vec()]);
}

#[test]
fn a_large_directory_is_listed_in_pages() {
    let root = tempfile::tempdir().unwrap();
    for number in 0..2500 {
        fs::write(root.path().join(format!("{number:04}")), "").unwrap();
    }
    let pages = listings(root.path(), "", b"");
    let shape: Vec<_> = pages.iter().map(|page| (page.entries.len(), page.more)).collect();
    assert_eq!(shape, [(1000, true), (1000, true), (500, false)]);
}

#[test]
fn a_directory_that_cannot_be_read_is_distinguished_from_an_empty_one() {
    let root = tempfile::tempdir().unwrap();
    let mut deep = root.path().to_owned();
    for _ in 0..vestal_wire::limits::MAX_DEPTH + 2 {
        deep.push("d");
    }
    fs::create_dir_all(&deep).unwrap();
    let all = listings(root.path(), "", b"");
    let unknown: Vec<_> = all.iter().filter(|listing| listing.unreadable.is_some()).collect();
    assert_eq!(unknown.len(), 1, "and nobody goes on below it");
    assert_eq!(all.last().unwrap().entries[0].kind, FileKind::Directory);
}

#[test]
fn a_large_file_that_was_cut_off_goes_on_where_it_was() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let content = vec![7; 100_000];
    let whole = |offset: u64| TreeChange::File {
        path: b"x".to_vec().into(),
        hash: hash(&content),
        mode: None,
        executable: true,
        mtime_ns: 0,
        replaces: None,
        offset,
        resumable: true,
    };
    // The line is cut after a part of it.
    let cut = [framed(&whole(0)).unwrap(), framed_bytes(&content[..40_000])].concat();
    assert!(matches!(served(root, &TreeOp::Change, &cut), Err(TreeError::Stream(_))));
    let part = String::from_utf8(partial_name(&hash(&content))).unwrap();
    assert_eq!(names(root), std::slice::from_ref(&part));
    assert_eq!(listings(root, "", b"")[0].temporary, [part.into_bytes().into()]);
    assert_eq!(listings(root, "", b"")[0].entries, []);
    // More is said to be there than is: nothing is made of it.
    let rest: Vec<u8> = content[40_000..].chunks(60_000).flat_map(framed_bytes).collect();
    let rest = [rest, framed_bytes(b"")].concat();
    let lie = [framed(&whole(50_000)).unwrap(), rest.clone()].concat();
    assert_eq!(changed(root, &lie), [TreeOutcome::Overtaken]);
    let go_on = [framed(&whole(40_000)).unwrap(), rest].concat();
    assert_eq!(changed(root, &go_on), [TreeOutcome::Made]);
    assert_eq!(fs::read(root.join("x")).unwrap(), content);
    assert_eq!(fs::metadata(root.join("x")).unwrap().permissions().mode() & 0o111, 0o111);
    assert_eq!(names(root), ["x"]);
}

#[test]
fn two_changes_do_not_write_the_same_beginning_of_a_content() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let content = vec![7; 100_000];
    let part = root.join(String::from_utf8(partial_name(&hash(&content))).unwrap());
    fs::write(&part, &content[..40_000]).unwrap();
    let other = File::open(&part).unwrap();
    flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    let (mut change, _) = file("x", &content, None);
    if let TreeChange::File { resumable, .. } = &mut change {
        *resumable = true;
    }
    let all: Vec<u8> = content.chunks(60_000).flat_map(framed_bytes).collect();
    let stream = [framed(&change).unwrap(), all, framed_bytes(b"")].concat();
    assert_eq!(changed(root, &stream), [TreeOutcome::Made]);
    assert_eq!(fs::read(root.join("x")).unwrap(), content);
    assert_eq!(fs::read(&part).unwrap(), &content[..40_000], "the other one's is as it was");
}

#[test]
fn a_file_is_readable_by_nobody_else_on_its_way_than_in_its_place() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    fs::write(root.join("x"), "old").unwrap();
    fs::set_permissions(root.join("x"), fs::Permissions::from_mode(0o600)).unwrap();
    let content = vec![7; 100_000];
    let (mut change, _) = file("x", &content, Some(entry(root, "", "x").stamp));
    if let TreeChange::File { resumable, .. } = &mut change {
        *resumable = true;
    }
    let cut = [framed(&change).unwrap(), framed_bytes(&content[..40_000])].concat();
    assert!(matches!(served(root, &TreeOp::Change, &cut), Err(TreeError::Stream(_))));
    let part = root.join(String::from_utf8(partial_name(&hash(&content))).unwrap());
    assert_eq!(fs::metadata(part).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_file_that_replaces_a_link_has_the_usual_bits_and_not_those_of_the_link() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    symlink("elsewhere", root.join("x")).unwrap();
    fs::write(root.join("usual"), "").unwrap();
    let usual = fs::metadata(root.join("usual")).unwrap().permissions().mode();
    let (_, stream) = file("x", b"new", Some(entry(root, "", "x").stamp));
    assert_eq!(changed(root, &stream), [TreeOutcome::Made]);
    assert_eq!(fs::symlink_metadata(root.join("x")).unwrap().permissions().mode(), usual);
}

#[test]
fn what_is_put_back_never_goes_whatever_has_its_name_meanwhile() {
    let root = tempfile::tempdir().unwrap();
    let path = b"x".to_vec();
    let opened = OpenTree::open(root.path()).unwrap();
    let waiting = root.path().join(".vestal-sync-0123456789abcdef");
    let old = CString::new(waiting.file_name().unwrap().as_encoded_bytes()).unwrap();
    let inode = |name: &str| {
        fs::metadata(root.path().join(name))
            .map_or(0, |of| std::os::unix::fs::MetadataExt::ino(&of))
    };
    let Ok(place) = opened.place(&path, "write", None) else { panic!("nothing is there") };
    // What was exchanged for it was replaced at once by a newer version: that one stays.
    fs::write(&waiting, "saved").unwrap();
    fs::write(root.path().join("x"), "saved again").unwrap();
    assert!(place.put_back(&old, u64::MAX).is_ok());
    assert_eq!(fs::read(root.path().join("x")).unwrap(), b"saved again");
    // As usual.
    fs::write(&waiting, "saved").unwrap();
    fs::write(root.path().join("x"), "ours").unwrap();
    assert!(place.put_back(&old, inode("x")).is_ok());
    assert_eq!(fs::read(root.path().join("x")).unwrap(), b"saved");
    // The name was deleted.
    fs::remove_file(root.path().join("x")).unwrap();
    fs::write(&waiting, "saved").unwrap();
    assert!(place.put_back(&old, u64::MAX).is_ok());
    assert_eq!(fs::read(root.path().join("x")).unwrap(), b"saved");
}

#[test]
fn only_what_a_change_left_behind_is_discarded() {
    let root = tempfile::tempdir().unwrap();
    let fresh = fresh_name().unwrap().into_bytes();
    let part = partial_name(&hash(b"x"));
    let discard = |path: &[u8]| TreeChange::Discard { path: path.to_vec().into() };
    for left in [fresh, part] {
        fs::write(root.path().join(OsStr::from_bytes(&left)), "").unwrap();
        assert_eq!(one(root.path(), &discard(&left)), TreeOutcome::Made);
    }
    // Somebody's own file takes part like any other, whatever its name begins with.
    for name in ["x", ".vestal-sync-notes", ".vestal-sync-part-0123", ".vestal-sync-"] {
        fs::write(root.path().join(name), "").unwrap();
        entry(root.path(), "", name);
        let refused =
            served(root.path(), &TreeOp::Change, &framed(&discard(name.as_bytes())).unwrap());
        assert!(matches!(refused, Err(TreeError::Path)), "{refused:?}");
    }
    assert_eq!(names(root.path()).len(), 4);
}

#[test]
fn a_directory_that_is_another_filesystem_is_reported() {
    use std::os::unix::fs::MetadataExt as _;
    let device = fs::metadata("/dev").unwrap().dev();
    let opened = OpenTree::open(Path::new("/dev")).unwrap();
    let mut reported = 0;
    let rules = crate::ignore::IgnoreRules::default();
    let known = crate::scan::Known::default();
    let each = &mut |listing: Listing| {
        let path = Path::new("/dev").join(OsStr::from_bytes(&listing.path));
        if let (Some(is_mounted), Ok(found)) = (listing.is_mounted, fs::metadata(&path)) {
            assert_eq!(is_mounted, found.dev() != device, "{}", path.display());
            reported += 1;
        }
        Ok(())
    };
    opened.scan(&rules, &known, &NEVER, each).unwrap();
    assert!(reported > 0);
}
