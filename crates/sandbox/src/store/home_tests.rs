use std::cell::RefCell;
use std::process::Command;

use super::*;
use crate::store::{RecordedHome, SandboxDir, SandboxRecord};
use crate::{Key, Overrides};

/// A machine's user, and what runs.
struct Machine {
    root: tempfile::TempDir,
    guests: Guests,
}

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("user")).unwrap();
        Self { root, guests: Guests::None }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn open_with(
        &self,
        name: &str,
        adopt_sandboxes: &AdoptSandboxes<'_>,
    ) -> Result<HomeId, HomeError> {
        let notes = Some(HomeNotes::of_user(&self.path("user")));
        let context = HomeContext {
            notes,
            guests: &|| self.guests,
            machine: this_machine,
            sandboxes: Some(self.path(name).join("sandboxes")),
            adopt_sandboxes,
        };
        open_home(&self.path(name), &context)
    }

    /// Opens a home that is none's copy.
    fn open(&self, name: &str) -> HomeId {
        self.open_with(name, &|_, _, _| panic!("{name} is taken for a copy")).unwrap()
    }

    /// Opens a home that is a copy.
    fn open_copy(&self, name: &str) -> HomeId {
        let old = RefCell::new(None);
        let own = self.open_with(name, &|was, _, _| {
            *old.borrow_mut() = Some(was.clone());
            Ok(())
        });
        let old = old.take().unwrap_or_else(|| panic!("{name} is not taken for a copy"));
        let own = own.unwrap();
        assert_ne!(own, old);
        own
    }

    fn copy(&self, from: &str, to: &str) {
        copy(&self.path(from), &self.path(to));
    }

    fn mv(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    fn remove(&self, name: &str) {
        fs::remove_dir_all(self.path(name)).unwrap();
    }
}

fn open(home: &Path) -> HomeId {
    let adopt_sandboxes = |_: &HomeId, _: &HomeId, _: Option<&Path>| -> Result<(), HomeError> {
        panic!("{} is taken for a copy", home.display())
    };
    open_home(home, &context(&adopt_sandboxes)).unwrap()
}

/// What is around a home that nobody knows of.
fn context<'a>(adopt_sandboxes: &'a AdoptSandboxes<'a>) -> HomeContext<'a> {
    HomeContext {
        notes: None,
        guests: &|| Guests::None,
        machine: this_machine,
        sandboxes: None,
        adopt_sandboxes,
    }
}

#[expect(clippy::unnecessary_wraps, reason = "some machines cannot be distinguished from others")]
fn this_machine() -> Option<String> {
    Some("this".to_owned())
}

/// Changes the mark of a home in its file, which stays the same file.
fn change_mark(home: &Path, change: impl FnOnce(&mut serde_json::Value)) {
    let file = home.join(FILE);
    let mut content: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    change(&mut content["mark"]);
    fs::write(&file, content.to_string()).unwrap();
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
    let machine = Machine::new();
    let id = machine.open("home");
    machine.copy("home", "copy");
    let own = machine.open_copy("copy");
    assert_eq!((machine.open("home"), machine.open("copy")), (id, own));
}

#[test]
fn a_home_that_is_moved_stays_the_same_and_a_copy_put_in_its_place_does_not() {
    let machine = Machine::new();
    let id = machine.open("home");
    machine.mv("home", "moved");
    machine.copy("moved", "home");
    // Whichever is used first.
    let order = Machine::new();
    let same = order.open("home");
    order.mv("home", "moved");
    order.copy("moved", "home");
    assert_eq!(machine.open("moved"), id);
    machine.open_copy("home");
    assert_eq!(machine.open("moved"), id);
    order.open_copy("home");
    assert_eq!(order.open("moved"), same);
}

#[test]
fn a_home_that_is_restored_to_its_place_stays_the_same() {
    let machine = Machine::new();
    let id = machine.open("home");
    machine.copy("home", "backup");
    machine.remove("home");
    machine.mv("backup", "home");
    assert_eq!(machine.open("home"), id);
    machine.copy("home", "copy");
    machine.open_copy("copy");
    assert_eq!(machine.open("home"), id);
}

#[test]
fn a_home_that_was_put_on_another_disk_and_linked_to_stays_the_same() {
    let machine = Machine::new();
    let id = machine.open("home");
    fs::create_dir(machine.path("disk")).unwrap();
    machine.copy("home", "disk/home");
    machine.remove("home");
    std::os::unix::fs::symlink(machine.path("disk/home"), machine.path("home")).unwrap();
    assert_eq!(machine.open("home"), id);
    assert_eq!(machine.open("disk/home"), id);
}

#[test]
fn an_old_backup_at_the_former_place_of_a_home_is_a_copy() {
    let machine = Machine::new();
    let id = machine.open("home");
    fs::create_dir(machine.path("far")).unwrap();
    machine.copy("home", "backup");
    machine.mv("home", "far/home");
    assert_eq!(machine.open("far/home"), id);
    machine.mv("backup", "home");
    machine.open_copy("home");
    assert_eq!(machine.open("far/home"), id);
    // Once the moved one is gone, another backup is the home again.
    machine.copy("far/home", "backup");
    machine.remove("far/home");
    machine.mv("backup", "far/home");
    assert_eq!(machine.open("far/home"), id);
}

#[test]
fn of_two_homes_with_one_id_whose_move_nobody_saw_one_keeps_it() {
    let machine = Machine::new();
    let id = machine.open("home");
    fs::create_dir(machine.path("far")).unwrap();
    machine.mv("home", "far/home");
    machine.copy("far/home", "home");
    assert_eq!(machine.open("home"), id, "the one that is where the home was");
    machine.open_copy("far/home");
    assert_eq!(machine.open("home"), id);
}

#[test]
fn guests_that_run_on_the_files_of_another_home_make_a_restored_one_a_copy() {
    let mut machine = Machine::new();
    machine.open("home");
    machine.copy("home", "backup");
    machine.remove("home");
    machine.mv("backup", "home");
    machine.guests = Guests::Elsewhere;
    machine.open_copy("home");
}

#[test]
fn a_home_whose_file_alone_was_replaced_while_its_guests_run_stays_the_same() {
    let mut machine = Machine::new();
    let id = machine.open("home");
    machine.copy("home/home.json", "elsewhere.json");
    machine.mv("elsewhere.json", "home/home.json");
    machine.mv("home", "moved");
    machine.guests = Guests::Here;
    assert_eq!(machine.open("moved"), id);
}

#[test]
fn a_copy_made_of_hard_links_is_a_copy() {
    let machine = Machine::new();
    let id = machine.open("home");
    fs::create_dir(machine.path("copy")).unwrap();
    fs::hard_link(machine.path("home").join(FILE), machine.path("copy").join(FILE)).unwrap();
    machine.open_copy("copy");
    assert_eq!(machine.open("home"), id);
}

#[test]
fn a_process_that_dies_while_it_leaves_the_original_is_followed_by_one_with_the_same_id() {
    let machine = Machine::new();
    machine.open("home");
    machine.copy("home", "copy");
    let died = RefCell::new(None);
    machine
        .open_with("copy", &|_, new, _| {
            *died.borrow_mut() = Some(new.clone());
            Err(StoreError::io("write", "copy", ErrorKind::StorageFull.into()).into())
        })
        .unwrap_err();
    assert_eq!(Some(machine.open_copy("copy")), died.take());
    assert!(!machine.path("copy").join(NEXT).exists());
}

#[test]
fn a_home_of_an_earlier_version_keeps_its_id_and_its_later_copies_are_noticed() {
    let machine = Machine::new();
    fs::create_dir(machine.path("home")).unwrap();
    fs::write(machine.path("home").join(FILE), r#"{"version":1,"id":"early"}"#).unwrap();
    assert_eq!(machine.open("home"), HomeId("early".into()));
    machine.copy("home", "copy");
    machine.open_copy("copy");
    assert_eq!(machine.open("home"), HomeId("early".into()));
}

#[test]
fn a_home_that_was_marked_without_its_machine_is_marked_with_it_and_can_be_restored() {
    let machine = Machine::new();
    let id = machine.open("home");
    change_mark(&machine.path("home"), |mark| {
        mark.as_object_mut().unwrap().remove("machine").unwrap();
    });
    assert_eq!(machine.open("home"), id);
    machine.copy("home", "backup");
    machine.remove("home");
    machine.mv("backup", "home");
    assert_eq!(machine.open("home"), id);
}

#[test]
fn a_home_that_is_what_it_was_waits_for_no_other() {
    let machine = Machine::new();
    let id = machine.open("home");
    // Marked by another path to the same directory, as through a bind mount.
    std::os::unix::fs::symlink(machine.path("home"), machine.path("other")).unwrap();
    let other = machine.path("other");
    change_mark(&machine.path("home"), |mark| mark["path"] = other.to_str().unwrap().into());
    assert_eq!(machine.open("home"), id);
    assert_eq!(fs::read_dir(machine.path("user")).unwrap().count(), 0, "no lock was taken");
}

#[test]
fn a_home_that_is_marked_anew_all_the_time_is_never_taken_for_a_copy() {
    let machine = Machine::new();
    let id = machine.open("home");
    let home = machine.path("home");
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..100 {
                mark_anew(&home, id.clone(), &context(&|_, _, _| Ok(())));
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            let found = read(&home).unwrap().unwrap();
            assert!(found.is_marked_file(), "{found:?}");
        }
    });
}

#[test]
fn network_filesystems_are_known_by_their_magic_and_local_ones_are_not() {
    assert_eq!(network_filesystem(0x6969), Some("NFS"));
    assert_eq!(network_filesystem(0xef53), None, "ext4");
    assert_eq!(network_filesystem(0x0102_1994), None, "tmpfs");
}

/// Records a sandbox of a home with this id, as making it does.
fn record_sandbox(home: &Path, id: &HomeId, task: &str) {
    let dir = SandboxDir::new(home.join("sandboxes").join(task));
    dir.make().unwrap();
    let key = Key::new(id.clone(), "default", task.parse().unwrap());
    let now = jiff::Timestamp::UNIX_EPOCH;
    let mut record = SandboxRecord::new(&key, "native", Overrides::default(), now);
    record.home = RecordedHome::of(id, &dir);
    dir.write_record(&record).unwrap();
}

#[test]
fn a_home_whose_file_was_lost_or_damaged_has_the_identity_that_its_sandboxes_agree_on() {
    let machine = Machine::new();
    let id = machine.open("home");
    let home = machine.path("home");
    fs::create_dir(home.join("sandboxes")).unwrap();
    for task in ["one", "two"] {
        record_sandbox(&home, &id, task);
    }
    fs::remove_file(home.join(FILE)).unwrap();
    assert_eq!(machine.open("home"), id);
    for damaged in ["", "{\"version\":1,\"id", "\0\0\0"] {
        fs::write(home.join(FILE), damaged).unwrap();
        assert_eq!(machine.open("home"), id);
        assert_eq!(fs::read_to_string(home.join(DAMAGED)).unwrap(), damaged, "it is kept");
    }
    // Moved meanwhile, and with its file lost.
    fs::remove_file(home.join(FILE)).unwrap();
    machine.mv("home", "moved");
    assert_eq!(machine.open("moved"), id);
    machine.copy("moved", "copy");
    machine.open_copy("copy");
}

#[test]
fn sandboxes_that_were_copied_from_another_home_restore_no_identity() {
    let machine = Machine::new();
    let id = machine.open("home");
    fs::create_dir(machine.path("home").join("sandboxes")).unwrap();
    record_sandbox(&machine.path("home"), &id, "one");
    machine.copy("home", "copy");
    fs::remove_file(machine.path("copy").join(FILE)).unwrap();
    machine.open_copy("copy");
    assert_eq!(machine.open("home"), id);
    // Two identities: neither is the home's for certain.
    let other = machine.open("other");
    fs::create_dir(machine.path("other").join("sandboxes")).unwrap();
    record_sandbox(&machine.path("other"), &other, "own");
    record_sandbox(&machine.path("other"), &id, "strange");
    fs::remove_file(machine.path("other").join(FILE)).unwrap();
    let new = machine.open("other");
    assert!(new != other && new != id);
}

#[test]
fn a_damaged_file_of_a_home_is_an_error_where_no_record_says_what_was_in_it() {
    let machine = Machine::new();
    machine.open("home");
    fs::write(machine.path("home").join(FILE), "{").unwrap();
    let opened = machine.open_with("home", &|_, _, _| Ok(()));
    assert!(matches!(opened, Err(HomeError::Store(StoreError::Damaged { .. }))), "{opened:?}");
}
