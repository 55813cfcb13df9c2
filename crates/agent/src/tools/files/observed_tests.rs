use super::*;

fn page(number: usize) -> FilePage {
    FilePage { path: "/f".into(), offset: number, limit: 1 }
}

fn version(size: u64) -> Version {
    Version { inode: 1, size, mtime_ns: 0 }
}

#[test]
fn what_was_seen_is_known_until_it_is_forgotten() {
    let observed_files = ObservedFiles::default();
    observed_files.record_page(page(1), version(1));
    assert_eq!(observed_files.page_version(&page(1)), Some(version(1)));
    assert!(observed_files.is_stale(Path::new("/f"), version(2)));
    observed_files.record_file(Path::new("/f"), version(2));
    assert!(!observed_files.is_stale(Path::new("/f"), version(2)));
    observed_files.clear();
    assert_eq!(observed_files.page_version(&page(1)), None);
    assert!(!observed_files.is_stale(Path::new("/f"), version(3)));
}

#[test]
fn it_never_grows_without_bound() {
    let observed_files = ObservedFiles::default();
    for number in 0..=MAX * 2 {
        observed_files.record_page(page(number), version(1));
    }
    assert!(observed_files.seen().pages.len() <= MAX);
    assert_eq!(observed_files.page_version(&page(MAX * 2)), Some(version(1)));
}
