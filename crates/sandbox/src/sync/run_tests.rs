use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;
use crate::client::fake_guest::connected;

/// Two directories of this machine, one of which plays the sandbox's.
struct Both {
    root: tempfile::TempDir,
}

impl Both {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for name in ["store", "here", "there"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        Self { root }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    async fn sync(&self, direction: SyncDirection, ignore: &str) -> SyncReport {
        let root = |name: &str| Arc::new(OpenTree::open(&self.at(name)).unwrap());
        sync(SyncTask {
            store: &self.at("store"),
            here: root("here"),
            there: TreeEnd::Here(root("there")),
            ignore: ignore.as_bytes().to_vec(),
            direction,
            dry_run: false,
            says_all: true,
            known_only: false,
            progress: &ProgressSink::default(),
        })
        .await
        .unwrap()
    }

    /// Does all that a sync does before it agrees about anything, and dies.
    async fn sync_cut_off(&self) {
        let (store, root) =
            (self.at("store"), |name: &str| OpenTree::open(&self.at(name)).unwrap());
        let ends = Ends {
            here: TreeEnd::Here(Arc::new(root("here"))),
            there: TreeEnd::Here(Arc::new(root("there"))),
        };
        let progress = ProgressSink::default();
        let (_, Agreement { base, here, there, .. }) = Agreement::read(&store).unwrap().unwrap();
        let (here, there) = look(&ends, here, there, b"", &progress).await.unwrap();
        let made = plan(&base, &here.survey.view(), &there.survey.view(), SyncDirection::Both);
        let mut intent = SyncIntent::new(&terms_of(&here, &there, b""));
        intent.add(&store, &made.steps).unwrap();
        ends.carry_out(&made.steps, &progress).await.unwrap();
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.at(path)).ok()
    }

    fn assert_both(&self, name: &str, content: &str) {
        for side in ["here", "there"] {
            let found = self.read(&format!("{side}/{name}"));
            assert_eq!(found.as_deref(), Some(content), "{side}/{name}");
        }
    }
}

#[tokio::test]
async fn what_is_as_it_was_again_after_a_sync_was_cut_off_is_not_lost() {
    for (side, other) in [("here", "there"), ("there", "here")] {
        let both = Both::new();
        for name in ["deleted", "changed"] {
            fs::write(both.at(&format!("{side}/{name}")), "old").unwrap();
        }
        both.sync(SyncDirection::Both, "").await;
        fs::remove_file(both.at(&format!("{side}/deleted"))).unwrap();
        fs::write(both.at(&format!("{side}/changed")), "newer").unwrap();
        both.sync_cut_off().await;
        assert_eq!(both.read(&format!("{other}/deleted")), None);
        assert_eq!(both.read(&format!("{other}/changed")).as_deref(), Some("newer"));
        // As `git stash` and `git stash pop` do.
        for name in ["deleted", "changed"] {
            fs::write(both.at(&format!("{side}/{name}")), "old").unwrap();
        }
        let report = both.sync(SyncDirection::Both, "").await;
        assert!(report.is_quiet(), "{report:?}");
        both.assert_both("deleted", "old");
        both.assert_both("changed", "old");
        assert_eq!(both.sync(SyncDirection::Both, "").await, SyncReport::default());
    }
}

#[tokio::test]
async fn what_a_sync_that_was_cut_off_had_not_made_yet_is_made_by_the_next() {
    let both = Both::new();
    for name in ["deleted", "changed"] {
        fs::write(both.at(&format!("here/{name}")), "old").unwrap();
    }
    both.sync(SyncDirection::Both, "").await;
    fs::remove_file(both.at("here/deleted")).unwrap();
    fs::write(both.at("here/changed"), "newer").unwrap();
    both.sync_cut_off().await;
    // Nothing of it had come there.
    for name in ["deleted", "changed"] {
        fs::write(both.at(&format!("there/{name}")), "old").unwrap();
    }
    both.sync(SyncDirection::Both, "").await;
    assert_eq!(both.read("there/deleted"), None);
    both.assert_both("changed", "newer");
    // One that cannot be read is nobody's word: then nothing was deleted.
    fs::remove_file(both.at("here/changed")).unwrap();
    fs::write(both.at("store/sync-intent.cbor"), "rubbish").unwrap();
    both.sync(SyncDirection::Both, "").await;
    both.assert_both("changed", "newer");
}

#[test]
fn what_comes_back_while_its_deletion_is_carried_out_is_not_deleted() {
    use vestal_wire::tree::Stamp;

    use super::super::plan::{Item, State, SyncAction, SyncStep, View};
    let state = State::File { hash: [1; 32], executable: false };
    let item = Item { state: Ok(state.clone()), stamp: Stamp::default(), mode: 0o644 };
    let with = View { items: [(b"x".to_vec(), item)].into(), ..View::default() };
    let without = View::default();
    for (end, here, there) in [(End::There, &with, &without), (End::Here, &without, &with)] {
        let mut base = AgreedStates::from([(b"x".to_vec(), state.clone())]);
        let action = SyncAction::Delete { stamp: Stamp::default() };
        note_made(&mut base, &[SyncStep { end, path: b"x".to_vec(), action }], here, there);
        let next = plan(&base, here, there, SyncDirection::Both);
        assert!(
            matches!(next.steps[..], [SyncStep { end: to, action: SyncAction::Copy { .. }, .. }]
            if to == end),
            "{next:?}"
        );
    }
}

#[tokio::test]
async fn what_is_private_in_the_sandbox_is_private_here() {
    let both = Both::new();
    fs::create_dir(both.at("there/keys")).unwrap();
    let mode = |path: &str, mode: u32| {
        fs::set_permissions(both.at(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    let bits = |path: &str| fs::metadata(both.at(path)).unwrap().permissions().mode() & 0o777;
    for path in ["there/key", "there/tool", "there/usual"] {
        fs::write(both.at(path), path).unwrap();
    }
    mode("there/keys", 0o700);
    mode("there/key", 0o400);
    mode("there/tool", 0o700);
    mode("there/usual", 0o666);
    both.sync(SyncDirection::Both, "").await;
    fs::write(both.at("here/usual-too"), "").unwrap();
    assert_eq!((bits("here/keys"), bits("here/key"), bits("here/tool")), (0o700, 0o600, 0o700));
    assert_eq!(bits("here/usual"), bits("here/usual-too"));
    // A file that is replaced keeps the bits it has.
    mode("here/usual", 0o640);
    fs::write(both.at("there/usual"), "changed").unwrap();
    both.sync(SyncDirection::Both, "").await;
    assert_eq!((both.read("here/usual").as_deref(), bits("here/usual")), (Some("changed"), 0o640));
}

#[tokio::test]
async fn what_is_on_its_way_for_another_sandbox_is_no_leftover() {
    let both = Both::new();
    let on_its_way = both.at("here/.vestal-sync-0123456789abcdef");
    fs::write(&on_its_way, "on its way").unwrap();
    fs::write(both.at("here/x"), "x").unwrap();
    let other = SyncPresence::of(&OpenTree::open(&both.at("here")).unwrap());
    both.sync(SyncDirection::Both, "").await;
    assert!(on_its_way.exists());
    drop(other);
    fs::write(both.at("here/y"), "y").unwrap();
    both.sync(SyncDirection::Both, "").await;
    assert!(!on_its_way.exists());
}

#[tokio::test]
async fn what_cannot_be_agreed_on_is_reported_and_the_rest_is_synced() {
    let both = Both::new();
    fs::write(both.at("here/x"), "x").unwrap();
    symlink("/outside", both.at("there/link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(both.at("there/socket")).unwrap();
    fs::write(both.at("here/socket"), "in its way").unwrap();
    let report = both.sync(SyncDirection::Both, "").await;
    assert_eq!(report.refused_links, [PathBuf::from("link")]);
    let reason = "it is no file, directory or link".to_owned();
    assert_eq!(report.failed, [("socket".into(), reason)]);
    assert_eq!(fs::read(both.at("there/x")).unwrap(), b"x");
    let notes = report.notes();
    assert_eq!(notes.len(), 2, "{notes:?}");
}

#[tokio::test]
async fn a_damaged_agreement_is_as_good_as_none_and_a_newer_one_is_refused() {
    let both = Both::new();
    fs::write(both.at("here/x"), "x").unwrap();
    both.sync(SyncDirection::Both, "").await;
    fs::write(both.at("store/sync.cbor"), "rubbish").unwrap();
    fs::remove_file(both.at("there/x")).unwrap();
    fs::write(both.at("there/y"), "y").unwrap();
    both.sync(SyncDirection::Both, "").await;
    for path in ["here/x", "here/y", "there/x", "there/y"] {
        assert!(both.at(path).exists(), "{path}");
    }
    // {0: 9}
    fs::write(both.at("store/sync.cbor"), [0xa1, 0x00, 0x09]).unwrap();
    let newer = Agreement::read(&both.at("store"));
    assert!(matches!(newer, Err(StoreError::Newer { found: 9, .. })), "{newer:?}");
}

#[tokio::test]
async fn what_an_interrupted_sync_left_is_removed_by_the_next() {
    let both = Both::new();
    fs::create_dir(both.at("here/d")).unwrap();
    for side in ["here/d", "there"] {
        fs::write(both.at(side).join(".vestal-sync-0123456789abcdef"), "left").unwrap();
    }
    fs::write(both.at("here/x"), "x").unwrap();
    both.sync(SyncDirection::Both, "").await;
    for side in ["here/d", "there", "there/d"] {
        assert!(!both.at(side).join(".vestal-sync-0123456789abcdef").exists(), "{side}");
    }
}

#[tokio::test]
async fn a_large_file_that_was_cut_off_goes_on() {
    let both = Both::new();
    let content: Vec<u8> = (0..6_u32 << 20).map(|at| (at % 251) as u8).collect();
    fs::write(both.at("here/large"), &content).unwrap();
    let hash: [u8; 32] = {
        use sha2::{Digest as _, Sha256};
        Sha256::digest(&content).into()
    };
    let partial = vestal_wire::tree::partial_name(&hash.into());
    let partial = both.at("there").join(String::from_utf8(partial).unwrap());
    for kept in [&content[..5 << 20], b"not its beginning"] {
        fs::write(&partial, kept).unwrap();
        both.sync(SyncDirection::Both, "").await;
        assert_eq!(fs::read(both.at("there/large")).unwrap(), content);
        assert!(!partial.exists());
        fs::remove_file(both.at("there/large")).unwrap();
        fs::remove_file(both.at("store/sync.cbor")).unwrap();
    }
}

#[tokio::test]
async fn a_tree_of_many_directories_comes_over_and_stays_as_it_is() {
    let both = Both::new();
    for number in 0..400 {
        let dir = both.at(&format!("here/{}", number % 40));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(format!("{number}")), format!("{number}")).unwrap();
    }
    let report = both.sync(SyncDirection::Both, "").await;
    assert_eq!(report.copied_files, 400);
    assert_eq!(both.sync(SyncDirection::Both, "").await, SyncReport::default());
}

/// Syncs with a guest that answers a look with these bytes, and returns what came of it.
async fn failure_of(answer: Vec<u8>) -> SyncError {
    use vestal_wire::{CallReply, FileReply, FrameKind, Stream};
    let both = Both::new();
    fs::write(both.at("here/x"), "x").unwrap();
    let (connection, mut guest) = connected().await;
    let lying = tokio::spawn(async move {
        while let Some((opened, _)) = guest.try_frame().await {
            if opened.kind != FrameKind::Open {
                continue;
            }
            let mut credit = vestal_wire::limits::WINDOW as usize;
            for piece in answer.chunks(60 << 10) {
                while credit < piece.len() {
                    let Some((header, payload)) = guest.try_frame().await else { return };
                    if header.kind == FrameKind::Credit {
                        let granted: [u8; 4] = payload.try_into().unwrap();
                        credit += u32::from_le_bytes(granted) as usize;
                    }
                }
                credit -= piece.len();
                guest.data(opened.channel, Stream::Content, piece).await;
            }
            guest.reply(opened.channel, &CallReply::File(FileReply::Done)).await;
        }
    });
    let error = sync(SyncTask {
        store: &both.at("store"),
        here: Arc::new(OpenTree::open(&both.at("here")).unwrap()),
        there: TreeEnd::There { connection, path: b"/w".to_vec().into() },
        ignore: Vec::new(),
        direction: SyncDirection::Both,
        dry_run: false,
        says_all: true,
        known_only: false,
        progress: &ProgressSink::default(),
    })
    .await
    .unwrap_err();
    lying.abort();
    assert_eq!(fs::read_dir(both.at("here")).unwrap().count(), 1);
    assert_eq!(fs::read_dir(both.root.path()).unwrap().count(), 3);
    error
}

#[tokio::test]
async fn a_guest_whose_listings_cannot_be_true_is_cut_off_and_nothing_is_written() {
    use vestal_wire::FileKind;
    use vestal_wire::tree::{Listing, Stamp, TreeItem, TreeRoot, framed};
    let root = framed(&TreeRoot { inode: 1, born_ns: None, now_ns: 0 }).unwrap();
    let entry = |name: &[u8]| TreeItem {
        name: name.to_vec().into(),
        kind: FileKind::Directory,
        mode: 0o755,
        stamp: Stamp::default(),
        target: None,
    };
    let listing = |path: &[u8], names: &[&[u8]]| {
        let listing = Listing {
            path: path.to_vec().into(),
            digest: [1; 16].into(),
            entries: names.iter().map(|name| entry(name)).collect(),
            ignored: 0,
            more: false,
            unreadable: None,
            temporary: Vec::new(),
            is_mounted: None,
        };
        framed(&listing).unwrap()
    };
    for lie in [
        listing(b"", &[b".."]),
        listing(b"", &[b"../x"]),
        listing(b"", &[b"/etc"]),
        listing(b"", &[b""]),
        listing(b"", &[b"a\0b"]),
        listing(b"", &[b"b", b"a"]),
        listing(b"", &[b"a", b"a"]),
        listing(b"", &[b".vestal-sync-0123456789abcdef"]),
        listing(b"../x", &[b"a"]),
        b"rubbish!".to_vec(),
        vec![0xff; 64],
        vec![9, 0, 0, 0],
    ] {
        let error = failure_of([root.clone(), lie.clone()].concat()).await;
        assert!(matches!(error, SyncError::Call(CallError::Protocol { .. })), "{lie:?}: {error:?}");
    }
    let nothing = failure_of(Vec::new()).await;
    assert!(matches!(nothing, SyncError::Call(CallError::Protocol { .. })), "{nothing:?}");
}

#[tokio::test]
async fn a_guest_that_lists_without_end_is_given_up() {
    use vestal_wire::FileKind;
    use vestal_wire::tree::{Listing, Stamp, TreeItem, TreeRoot, framed};
    let mut answer = framed(&TreeRoot { inode: 1, born_ns: None, now_ns: 0 }).unwrap();
    for page in 0..=MAX_ENTRIES / 1000 {
        let entry = |number: usize| TreeItem {
            name: format!("{page:04}-{number:04}").into_bytes().into(),
            kind: FileKind::Other,
            mode: 0,
            stamp: Stamp::default(),
            target: None,
        };
        let listing = Listing {
            path: Vec::new().into(),
            digest: [1; 16].into(),
            entries: (0..1000).map(entry).collect(),
            ignored: 0,
            more: true,
            unreadable: None,
            temporary: Vec::new(),
            is_mounted: None,
        };
        answer.extend(framed(&listing).unwrap());
    }
    let error = failure_of(answer).await;
    assert!(matches!(error, SyncError::TooMany), "{error:?}");
}

#[tokio::test]
async fn a_guest_that_lists_few_files_with_endless_targets_is_given_up() {
    use vestal_wire::FileKind;
    use vestal_wire::tree::{Listing, Stamp, TreeItem, TreeRoot, framed};
    let mut answer = framed(&TreeRoot { inode: 1, born_ns: None, now_ns: 0 }).unwrap();
    for page in 0..60 {
        let entry = |number: usize| TreeItem {
            name: format!("{page:04}-{number:04}").into_bytes().into(),
            kind: FileKind::Symlink,
            mode: 0,
            stamp: Stamp::default(),
            target: Some(vec![b'x'; 4000].into()),
        };
        let listing = Listing {
            path: Vec::new().into(),
            digest: [1; 16].into(),
            entries: (0..50).map(entry).collect(),
            ignored: 0,
            more: true,
            unreadable: None,
            temporary: Vec::new(),
            is_mounted: None,
        };
        answer.extend(framed(&listing).unwrap());
    }
    let error = failure_of(answer).await;
    assert!(matches!(error, SyncError::TooMany), "{error:?}");
}
