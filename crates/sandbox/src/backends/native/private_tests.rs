use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// A time at which nothing has changed lately.
const LATER: u64 = 4_000_000_000;

struct Host {
    root: tempfile::TempDir,
    cache: tempfile::TempDir,
}

impl Host {
    fn new() -> Self {
        let host = Self { root: tempfile::tempdir().unwrap(), cache: tempfile::tempdir().unwrap() };
        host.mode("", 0o755);
        host
    }

    fn mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.at(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn file(&self, path: &str, mode: u32) {
        let mut dir = PathBuf::new();
        for name in Path::new(path).parent().unwrap() {
            dir.push(name);
            if !self.root.path().join(&dir).exists() {
                fs::create_dir(self.root.path().join(&dir)).unwrap();
                self.mode(dir.to_str().unwrap(), 0o755);
            }
        }
        fs::write(self.at(path), "").unwrap();
        self.mode(path, mode);
    }

    /// Scans it some seconds after [`LATER`].
    fn scan(&self, seconds: u64) -> Vec<PathBuf> {
        let sources = [self.root.path().to_owned()];
        let found = scan_sources(&sources, self.cache.path(), LATER + seconds).unwrap();
        found.of(self.root.path()).to_vec()
    }
}

fn paths(paths: &[&str]) -> Vec<PathBuf> {
    paths.iter().map(PathBuf::from).collect()
}

#[test]
fn what_not_everyone_may_read_is_found_at_any_depth() {
    let host = Host::new();
    for (path, mode) in [
        ("a/b/c/key", 0o600),
        ("a/b/c/public", 0o644),
        ("a/settings", 0o640),
        ("a/su", 0o4711),
        ("a/program", 0o711),
        ("closed/key", 0o644),
        ("unlisted/x", 0o644),
    ] {
        host.file(path, mode);
    }
    host.mode("closed", 0o750);
    host.mode("unlisted", 0o711);
    std::os::unix::fs::symlink("a/settings", host.at("link")).unwrap();
    let expected = paths(&["closed", "unlisted", "a/program", "a/settings", "a/b/c/key"]);
    assert_eq!(host.scan(0), expected);
    assert_eq!(host.scan(1), expected, "the cache gives the same");
    let fresh = Host { cache: tempfile::tempdir().unwrap(), ..host };
    assert_eq!(fresh.scan(1), expected);
}

#[test]
fn what_changes_in_a_directory_is_found_the_next_time() {
    let host = Host::new();
    host.file("a/b/public", 0o644);
    host.file("c/d/public", 0o644);
    assert_eq!(host.scan(0), paths(&[]));
    host.file("a/b/key", 0o600);
    host.file("a/new/deep/key", 0o600);
    host.mode("c/d", 0o700);
    assert_eq!(host.scan(1), paths(&["a/b/key", "a/new/deep/key", "c/d"]));
    fs::remove_file(host.at("a/b/key")).unwrap();
    host.mode("c/d", 0o755);
    host.mode("a/new/deep/key", 0o644);
    assert_eq!(host.scan(2), paths(&[]), "what was opened is shown again");
}

#[test]
fn a_file_that_is_closed_where_it_is_is_found_while_its_directory_is_new_and_when_all_is_seen() {
    let host = Host::new();
    host.file("a/file", 0o644);
    let sources = [host.root.path().to_owned()];
    let scan = |now| scan_sources(&sources, host.cache.path(), now).unwrap();
    let found = |private: PrivatePaths| private.of(host.root.path()).to_vec();
    assert_eq!(found(scan(seconds_now())), paths(&[]));
    host.mode("a/file", 0o600);
    assert_eq!(found(scan(seconds_now() + 1)), paths(&["a/file"]));

    let other = Host::new();
    other.file("a/file", 0o644);
    assert_eq!(other.scan(0), paths(&[]));
    other.mode("a/file", 0o600);
    assert_eq!(other.scan(FULL_SCAN_AFTER), paths(&["a/file"]));
}

#[test]
fn a_damaged_cache_is_replaced_by_a_new_scan() {
    let host = Host::new();
    host.file("a/key", 0o600);
    host.scan(0);
    let cache = fs::read_dir(host.cache.path()).unwrap().next().unwrap().unwrap().path();
    fs::write(&cache, "rubbish").unwrap();
    assert_eq!(host.scan(1), paths(&["a/key"]));
    assert_eq!(host.scan(2), paths(&["a/key"]));
    assert_ne!(fs::read(&cache).unwrap(), b"rubbish");
}

#[test]
fn where_the_kernel_keeps_it_private_what_to_leave_out_is_searched_once_an_hour() {
    let host = Host::new();
    host.file("a/key", 0o600);
    let sources = [host.root.path().to_owned()];
    let find = |seconds| {
        let found = find_what_to_leave_out(&sources, host.cache.path(), LATER + seconds).unwrap();
        assert!(found.is_kept_by_kernel());
        found.of(host.root.path()).to_vec()
    };
    assert_eq!(find(0), paths(&["a/key"]));
    host.file("b/key", 0o600);
    assert_eq!(find(FULL_SCAN_AFTER - 1), paths(&["a/key"]));
    assert_eq!(find(FULL_SCAN_AFTER), paths(&["a/key", "b/key"]));
    // A clock that was set back makes no list last longer.
    host.file("c/key", 0o600);
    assert_eq!(find(10), paths(&["a/key", "b/key", "c/key"]));
    // A list of other directories, or a damaged one, is none.
    let other = tempfile::tempdir().unwrap();
    let both = [sources[0].clone(), other.path().to_owned()];
    let found = find_what_to_leave_out(&both, host.cache.path(), LATER + 11).unwrap();
    assert_eq!(found.of(other.path()), paths(&[]));
    fs::write(host.cache.path().join(LEFT_OUT_FILE), "rubbish").unwrap();
    assert_eq!(find(12), paths(&["a/key", "b/key", "c/key"]));
}

#[test]
fn what_a_mount_covers_is_left_out() {
    let mut found = PrivatePaths::from_list(&[("/opt", &["vault"]), ("/usr", &[])]);
    found.add_mount_points(
        "27 1 254:0 / / rw - ext4 /dev/vda rw\n\
         28 27 254:0 / /opt rw - ext4 /dev/vda rw\n\
         29 28 0:25 / /opt/with\\040blank rw - tmpfs none rw\n\
         30 28 0:26 / /opt/vault/deep rw - tmpfs none rw\n\
         31 28 0:27 / /optional rw - tmpfs none rw\n",
    );
    assert_eq!(found.of(Path::new("/opt")), paths(&["vault", "with blank"]));
    assert_eq!(found.of(Path::new("/usr")), paths(&[]));
}
