use vestal_testkit::files::names;

use super::*;

fn directory(parent: &Path, name: &str, age: Duration) -> PathBuf {
    let path = parent.join(name);
    fs::create_dir(&path).unwrap();
    fs::write(path.join("file"), "").unwrap();
    let dir = File::open(&path).unwrap();
    dir.set_modified(SystemTime::now() - age).unwrap();
    path
}

const OLD: Duration = Duration::from_hours(25);

#[test]
fn only_old_unused_entries_and_leftovers_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    directory(dir, "etc-used", OLD);
    directory(dir, "etc-unused", OLD);
    directory(dir, "etc-young", Duration::from_hours(23));
    directory(dir, "rootfs-unused", OLD);
    directory(dir, ".etc-left.tmp", OLD);
    directory(dir, ".etc-new.tmp", Duration::ZERO);
    directory(dir, "other", OLD);
    let lock = directory(dir, ".etc-lock.tmp", OLD);
    let lock = File::open(lock).unwrap();
    flock(&lock, FlockOperation::LockShared).unwrap();
    prune(dir, CacheKind::Etc, &BTreeSet::from(["used".to_owned()])).unwrap();
    let kept = [".etc-lock.tmp", ".etc-new.tmp", "etc-used", "etc-young", "other", "rootfs-unused"];
    assert_eq!(names(dir), kept);
    prune_leftovers(dir, CacheKind::Rootfs).unwrap();
    assert_eq!(names(dir), kept);
}

#[test]
fn a_use_makes_an_entry_young_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = directory(dir.path(), "etc-a", OLD);
    assert!(touch(&path).unwrap());
    prune(dir.path(), CacheKind::Etc, &BTreeSet::new()).unwrap();
    assert_eq!(names(dir.path()), ["etc-a"]);
    assert!(!touch(&dir.path().join("etc-b")).unwrap());
}

#[test]
fn the_entry_that_was_finished_first_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let name = dir.path().join(CacheKind::Etc.name("a"));
    for content in ["first", "second"] {
        let temporary = dir.path().join(CacheKind::Etc.temporary(content));
        let lock = start_entry(&temporary).unwrap();
        fs::write(temporary.join("file"), content).unwrap();
        publish(&temporary, &name).unwrap();
        drop(lock);
    }
    assert_eq!(fs::read_to_string(name.join("file")).unwrap(), "first");
    assert_eq!(names(dir.path()), ["etc-a"]);
}

#[test]
fn a_missing_cache_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    prune(&dir.path().join("missing"), CacheKind::Rootfs, &BTreeSet::new()).unwrap();
}

#[test]
fn permissions_do_not_prevent_removal() {
    let dir = tempfile::tempdir().unwrap();
    let path = directory(dir.path(), "etc-a", OLD);
    fs::create_dir(path.join("closed")).unwrap();
    fs::write(path.join("closed/file"), "").unwrap();
    fs::set_permissions(path.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    // Permissions do not stop root, so changing them is tested by itself.
    make_removable(&path).unwrap();
    assert_eq!(fs::metadata(path.join("closed")).unwrap().mode() & 0o777, 0o700);
    remove(&path).unwrap();
    remove(&path).unwrap();
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

#[test]
fn a_notice_is_shown_once_per_home() {
    let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    assert!(is_first_notice(home.path(), "a"));
    assert!(!is_first_notice(home.path(), "a"));
    assert!(is_first_notice(home.path(), "b"));
    assert!(is_first_notice(other.path(), "a"));
}
