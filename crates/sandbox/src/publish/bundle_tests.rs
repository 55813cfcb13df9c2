use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

fn paths(bundle: &Bundle) -> Vec<String> {
    bundle.items().iter().map(|item| item.path.display().to_string()).collect()
}

#[test]
fn the_same_files_have_one_digest_and_any_change_has_another() {
    let one = tree(&[("SKILL.md", "x"), ("scripts/run", "y")]);
    let digest = |dir: &tempfile::TempDir| Bundle::read(dir.path()).unwrap().digest().to_owned();
    let first = digest(&one);
    assert_eq!(first, digest(&tree(&[("scripts/run", "y"), ("SKILL.md", "x")])));
    let run = one.path().join("scripts/run");
    fs::set_permissions(&run, fs::Permissions::from_mode(0o755)).unwrap();
    let second = digest(&one);
    assert_ne!(first, second);
    fs::write(&run, "z").unwrap();
    assert_ne!(second, digest(&one));
    assert_ne!(digest(&tree(&[("ab", "c")])), digest(&tree(&[("a", "bc")])));
}

#[test]
fn hidden_names_stay_out() {
    let dir = tree(&[("SKILL.md", "x"), (".env", "KEY=1"), (".git/config", "x"), ("a/.x", "x")]);
    assert_eq!(paths(&Bundle::read(dir.path()).unwrap()), ["SKILL.md", "a"]);
}

#[test]
fn links_within_are_kept_and_links_that_leave_are_refused() {
    let dir = tree(&[("a/file", "x")]);
    for target in ["file", "./file", "../a/file", "../b/../a/file"] {
        symlink(target, dir.path().join("a/link")).unwrap();
        let bundle = Bundle::read(dir.path()).unwrap();
        let link = &bundle.items()[2];
        assert_eq!(link.content, BundleContent::Link(target.into()), "{link:?}");
        fs::remove_file(dir.path().join("a/link")).unwrap();
    }
    for target in ["/etc/passwd", "../../etc/passwd", "../..", "x/../../../y"] {
        symlink(target, dir.path().join("a/link")).unwrap();
        let error = Bundle::read(dir.path()).unwrap_err();
        assert!(matches!(&error, BundleError::Link(path) if path == "a/link"), "{target}: {error}");
        fs::remove_file(dir.path().join("a/link")).unwrap();
    }
    symlink(dir.path(), dir.path().with_extension("link")).unwrap();
    let error = Bundle::read(&dir.path().with_extension("link")).unwrap_err();
    fs::remove_file(dir.path().with_extension("link")).unwrap();
    assert!(matches!(error, BundleError::NoDirectory), "{error}");
}

#[test]
fn what_is_no_file_is_refused_by_name_and_keeps_nobody_waiting() {
    let dir = tree(&[("file", "x")]);
    let pipe = dir.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0)
        .unwrap();
    let error = Bundle::read(dir.path()).unwrap_err();
    assert!(matches!(&error, BundleError::Kind(path) if path == "pipe"), "{error}");
    assert!(matches!(Bundle::read(&dir.path().join("file")), Err(BundleError::NoDirectory)));
    assert!(matches!(Bundle::read(&dir.path().join("none")), Err(BundleError::Io { .. })));
}

#[test]
fn what_is_too_large_too_many_or_too_deep_is_refused() {
    let dir = tree(&[]);
    let large = fs::File::create(dir.path().join("large")).unwrap();
    large.set_len(MAX_BYTES + 1).unwrap();
    assert!(matches!(Bundle::read(dir.path()), Err(BundleError::TooLarge)));
    large.set_len(0).unwrap();
    for number in 0..MAX_ITEMS {
        fs::write(dir.path().join(number.to_string()), "").unwrap();
    }
    assert!(matches!(Bundle::read(dir.path()), Err(BundleError::TooLarge)));
    let deep = tree(&[]);
    fs::create_dir_all(deep.path().join("d/".repeat(MAX_DEPTH + 1))).unwrap();
    assert!(matches!(Bundle::read(deep.path()), Err(BundleError::TooDeep(_))));
}
