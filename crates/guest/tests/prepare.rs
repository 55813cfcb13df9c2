//! The verbs for throw-away containers: `prepare` and `erase`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Output};

use vestal_testkit::namespaces::{ORDINARY_USER, in_namespace, is_root};

const GUEST: &str = env!("CARGO_BIN_EXE_vestal-guest");

/// Runs shell text as root of a namespace of its own, with a directory as `$1`
/// and the guest as `$2`.
fn with_mounts(dir: &Path, text: &str) -> Output {
    in_namespace(text, &[dir.as_os_str(), GUEST.as_ref()])
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn erasing_leaves_what_is_mounted_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["it/a/mounted", "it/b/c", "outside"] {
        fs::create_dir_all(dir.path().join(name)).unwrap();
    }
    fs::write(dir.path().join("outside/kept"), "x").unwrap();
    fs::write(dir.path().join("it/b/c/file"), "x").unwrap();
    symlink("../outside", dir.path().join("it/link")).unwrap();
    // The same filesystem, so that only the mount itself gives it away.
    let text = "mount --bind \"$1/outside\" \"$1/it/a/mounted\"; \"$2\" erase \"$1/it\"";
    let output = with_mounts(dir.path(), text);
    assert_eq!(output.status.code(), Some(1));
    let mounted = dir.path().join("it/a/mounted");
    let expected = format!(
        "vestal-guest: cannot delete {}: something else is mounted there\nvestal-guest: erase: 1 entries could not be removed\n",
        mounted.display()
    );
    assert_eq!(stderr(&output), expected);
    assert!(dir.path().join("outside/kept").exists());
    assert!(mounted.exists() && !dir.path().join("it/b").exists());
    assert!(!dir.path().join("it/link").is_symlink());

    let again = Command::new(GUEST).arg("erase").arg(dir.path().join("it")).output().unwrap();
    assert!(again.status.success() && again.stderr.is_empty(), "{again:?}");
    assert_eq!(fs::read_dir(dir.path().join("it")).unwrap().count(), 0);
}

#[test]
fn an_owner_erases_what_it_has_closed_to_itself() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let it = dir.path().join("it");
    fs::create_dir_all(it.join("closed/deeper")).unwrap();
    fs::create_dir_all(it.join("fixed")).unwrap();
    let files = ["closed/deeper/file", "fixed/file"].map(|name| it.join(name));
    for file in files {
        fs::write(file, "x").unwrap();
    }
    let mut erase = Command::new("setpriv");
    if is_root() {
        // Root needs no permissions, so that somebody else has to try.
        for path in ["", "closed", "closed/deeper", "fixed"].map(|name| it.join(name)) {
            chown(path, Some(ORDINARY_USER), Some(ORDINARY_USER)).unwrap();
        }
        let id = ORDINARY_USER.to_string();
        erase.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
    }
    for (name, mode) in [("closed", 0o000), ("fixed", 0o555)] {
        fs::set_permissions(it.join(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    // The way to the program may be closed to somebody else.
    let guest = dir.path().join("guest");
    fs::copy(GUEST, &guest).unwrap();
    let output = erase.arg(&guest).arg("erase").arg(&it).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(fs::read_dir(&it).unwrap().count(), 0);
}

#[test]
fn only_so_many_things_that_are_left_are_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("it")).unwrap();
    // A file that is a mount point cannot be removed.
    let text = "cd \"$1/it\"; : > ../x; for i in $(seq 150); do : > $i; mount --bind ../x $i; done; \
        \"$2\" erase .";
    let output = with_mounts(dir.path(), text);
    let printed = stderr(&output);
    assert_eq!((output.status.code(), printed.lines().count()), (Some(1), 101));
    assert!(
        printed.ends_with("vestal-guest: erase: 150 entries could not be removed\n"),
        "{printed}"
    );
}

#[test]
fn a_home_is_prepared_as_the_image_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    for name in ["home/sub/mounted", "fill"] {
        fs::create_dir_all(dir.path().join(name)).unwrap();
    }
    fs::write(home.join("sub/file"), "content").unwrap();
    fs::set_permissions(&home, PermissionsExt::from_mode(0o711)).unwrap();
    symlink("/etc", home.join("link")).unwrap();
    fs::write(dir.path().join("passwd"), format!("someone:x:0:0::{}:/bin/sh\n", home.display()))
        .unwrap();
    fs::write(dir.path().join("group"), "root:x:0:\nextra:x:77:someone\n").unwrap();
    let text = "mount --bind \"$1/passwd\" /etc/passwd; mount --bind \"$1/group\" /etc/group
        mount -t tmpfs none \"$1/home/sub/mounted\"; : > \"$1/home/sub/mounted/foreign\"; cd \"$1\"
        \"$2\" prepare --user someone --fill fill --report report
        \"$2\" prepare --user someone --fill fill";
    let output = with_mounts(dir.path(), text);
    let line = |filled: &str| {
        format!(
            "{{\"version\":1,\"uid\":0,\"gid\":0,\"groups\":[0,77],\"name\":\"someone\",\"home\":\"{}\",\
             \"shell\":\"/bin/sh\",\"filled\":{filled}}}\n",
            home.display()
        )
    };
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), format!("{}{}", line("true"), line("false")));
    let report = dir.path().join("report");
    assert_eq!(fs::read_to_string(&report).unwrap(), line("true"));
    assert_eq!(report.metadata().unwrap().mode() & 0o777, 0o644);
    let fill = dir.path().join("fill");
    assert_eq!(fill.metadata().unwrap().mode() & 0o777, 0o711);
    assert_eq!(fs::read_to_string(fill.join("sub/file")).unwrap(), "content");
    assert_eq!(fs::read_link(fill.join("link")).unwrap(), Path::new("/etc"));
    assert!(!fill.join("sub/mounted").exists());
}

#[test]
fn what_cannot_be_prepared_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &str); 4] = [
        (&["--user", "no-such-user"], "prepare: there is no user \"no-such-user\" in /etc/passwd"),
        (&["--fill", "/no/such/dir"], "prepare: cannot fill /no/such/dir: no such file"),
        (&["--report", "/no/such/dir/x"], "prepare: report /no/such/dir/x: No such file"),
        (&["--what", "x"], "unknown option --what"),
    ];
    for (arguments, expected) in cases {
        let output = Command::new(GUEST)
            .arg("prepare")
            .args(arguments)
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert_eq!((output.status.code(), stdout(&output)), (Some(1), String::new()));
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}
