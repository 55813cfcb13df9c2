use super::*;

fn page(number: usize) -> Page {
    Page { path: "/f".into(), offset: number, limit: 1 }
}

fn version(size: u64) -> Version {
    Version { inode: 1, size, mtime_ns: 0 }
}

#[test]
fn what_was_seen_is_known_until_it_is_forgotten() {
    let sightings = Sightings::default();
    sightings.show(page(1), version(1));
    assert_eq!(sightings.shown(&page(1)), Some(version(1)));
    assert!(sightings.is_stale(Path::new("/f"), version(2)));
    sightings.wrote(Path::new("/f"), version(2));
    assert!(!sightings.is_stale(Path::new("/f"), version(2)));
    sightings.forget();
    assert_eq!(sightings.shown(&page(1)), None);
    assert!(!sightings.is_stale(Path::new("/f"), version(3)));
}

#[test]
fn it_never_grows_without_bound() {
    let sightings = Sightings::default();
    for number in 0..=MAX * 2 {
        sightings.show(page(number), version(1));
    }
    assert!(sightings.seen().pages.len() <= MAX);
    assert_eq!(sightings.shown(&page(MAX * 2)), Some(version(1)));
}
