use super::*;

fn directory(parent: &Path, name: &str, age: Duration) -> PathBuf {
    let path = parent.join(name);
    fs::create_dir(&path).unwrap();
    fs::write(path.join("file"), "").unwrap();
    let dir = File::open(&path).unwrap();
    dir.set_modified(SystemTime::now() - age).unwrap();
    path
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

const OLD: Duration = Duration::from_hours(25);

#[test]
fn only_what_is_neither_used_nor_young_nor_being_made_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    directory(dir, "etc-used", OLD);
    directory(dir, "etc-unused", OLD);
    directory(dir, "etc-young", Duration::from_hours(23));
    directory(dir, "rootfs-unused", OLD);
    directory(dir, ".etc-left.tmp", OLD);
    directory(dir, ".etc-new.tmp", Duration::ZERO);
    directory(dir, "other", OLD);
    let held = directory(dir, ".etc-held.tmp", OLD);
    let held = File::open(held).unwrap();
    flock(&held, FlockOperation::LockShared).unwrap();
    prune(dir, Kind::Etc, &BTreeSet::from(["used".to_owned()])).unwrap();
    let kept = [".etc-held.tmp", ".etc-new.tmp", "etc-used", "etc-young", "other", "rootfs-unused"];
    assert_eq!(names(dir), kept);
    prune_leftovers(dir, Kind::Rootfs).unwrap();
    assert_eq!(names(dir), kept);
}

#[test]
fn what_is_asked_for_is_young_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = directory(dir.path(), "etc-a", OLD);
    assert!(use_now(&path).unwrap());
    prune(dir.path(), Kind::Etc, &BTreeSet::new()).unwrap();
    assert_eq!(names(dir.path()), ["etc-a"]);
    assert!(!use_now(&dir.path().join("etc-b")).unwrap());
}

#[test]
fn whoever_is_second_takes_what_the_first_has_made() {
    let dir = tempfile::tempdir().unwrap();
    let name = dir.path().join(Kind::Etc.name("a"));
    for content in ["first", "second"] {
        let temporary = dir.path().join(Kind::Etc.temporary(content));
        let held = begin(&temporary).unwrap();
        fs::write(temporary.join("file"), content).unwrap();
        settle(&temporary, &name).unwrap();
        drop(held);
    }
    assert_eq!(fs::read_to_string(name.join("file")).unwrap(), "first");
    assert_eq!(names(dir.path()), ["etc-a"]);
}

#[test]
fn nothing_to_prune_is_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    prune(&dir.path().join("missing"), Kind::Rootfs, &BTreeSet::new()).unwrap();
}

#[test]
fn permissions_are_not_in_the_way_of_removing() {
    let dir = tempfile::tempdir().unwrap();
    let path = directory(dir.path(), "etc-a", OLD);
    fs::create_dir(path.join("closed")).unwrap();
    fs::write(path.join("closed/file"), "").unwrap();
    fs::set_permissions(path.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    // Whoever is root is stopped by no permissions: what opens them is tried by itself.
    open_up(&path).unwrap();
    assert_eq!(fs::metadata(path.join("closed")).unwrap().mode() & 0o777, 0o700);
    remove(&path).unwrap();
    remove(&path).unwrap();
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

#[test]
fn a_text_is_new_once_per_home() {
    let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    assert!(is_new(home.path(), "a"));
    assert!(!is_new(home.path(), "a"));
    assert!(is_new(home.path(), "b"));
    assert!(is_new(other.path(), "a"));
}
