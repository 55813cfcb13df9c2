//! Files of the host.

use crate::cell::Cell;

pub(crate) async fn secrets_of_the_host_cannot_be_read(cell: &Cell) {
    let paths = cell.planted.files().iter().map(|file| format!("hunt={}", file.display()));
    let hunts: Vec<String> = paths.collect();
    let hunts: Vec<&str> = hunts.iter().map(String::as_str).collect();
    let outcomes = cell.attempt(&hunts).await;
    let all = if cell.is_enclosed() { Vec::new() } else { hunts };
    let mut reached = outcomes.reached();
    reached.sort_unstable();
    let mut expected = all;
    expected.sort_unstable();
    assert_eq!(reached, expected, "{outcomes:?}");
}

pub(crate) async fn files_of_the_host_cannot_be_written(cell: &Cell) {
    let dir = cell.fixture.scratch("victims");
    std::fs::create_dir(&dir).unwrap();
    let mut attempts = Vec::new();
    for way in ["", "/proc/1/root", "/proc/self/root", "/proc/self/cwd/../../../../../../.."] {
        let file = dir.join(format!("victim-{}", way.len()));
        std::fs::write(&file, "as it was").unwrap();
        attempts.push(format!("truncate={way}{}", file.display()));
    }
    let attempts: Vec<&str> = attempts.iter().map(String::as_str).collect();
    let outcomes = cell.attempt(&attempts).await;
    let changed = |entry: std::fs::DirEntry| std::fs::read(entry.path()).unwrap() != b"as it was";
    let changed: Vec<bool> = dir.read_dir().unwrap().flatten().map(changed).collect();
    let expected = if cell.is_enclosed() { 0 } else { outcomes.reached().len() };
    assert_eq!(changed.iter().filter(|changed| **changed).count(), expected, "{outcomes:?}");
    cell.expect_unreached(!outcomes.reached().is_empty(), "a file of the host, to write");
}

pub(crate) async fn the_guests_program_cannot_be_replaced(cell: &Cell) {
    // The parent of its shell is the job's supervisor, which is the same program.
    let line = cell.run("cd; ./attack truncate=/proc/$PPID/exe").await;
    let outcome = line.trim().rsplit(' ').next().unwrap();
    // That it runs is in the way only until it ends, and is looked at last.
    cell.expect_unreached(["done", "ETXTBSY"].contains(&outcome), &line);
    if cell.is_enclosed() {
        let guest = cell.instance_dir().await.join("boot/guest");
        let before = std::fs::read(&guest).unwrap();
        let ways = [
            "truncate=/.vestal/boot/guest",
            "truncate=/proc/1/exe",
            "write=/.vestal/boot/settings",
            "remount-writable=/.vestal/boot",
            "unmount=/.vestal/boot",
        ];
        cell.expect_refused(&ways).await;
        let text =
            "mv /.vestal/boot /.vestal/b; rm -rf /.vestal/boot/*; echo > /.vestal/boot/guest";
        cell.run(&format!("( {text} ) 2> /dev/null")).await;
        assert_eq!(std::fs::read(&guest).unwrap(), before);
    }
}

pub(crate) async fn variables_of_the_host_are_not_handed_on(cell: &Cell) {
    // The runner of this test has told it so.
    const OURS: &str = "CARGO_PKG_NAME=";
    let own = std::fs::read("/proc/self/environ").unwrap();
    assert!(String::from_utf8_lossy(&own).contains(OURS));
    let printed = cell.run("for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ; done").await;
    assert!(printed.contains("HOME="), "{printed}");
    cell.expect_unreached(printed.contains(OURS), OURS);
}

pub(crate) async fn people_of_the_host_are_not_named(cell: &Cell) {
    let there = cell.run("cat /etc/passwd /etc/group").await;
    let known = std::fs::read_to_string("/etc/passwd").unwrap();
    let is_person = |line: &&str| {
        let id = line.split(':').nth(2).and_then(|id| id.parse::<u32>().ok());
        id.is_some_and(|id| id >= 1000 && id != 65534)
    };
    for line in known.lines().filter(is_person) {
        let name = line.split(':').next().unwrap();
        let named = there.lines().any(|line| line.split(':').next() == Some(name));
        assert!(!named, "{name} is in {there}");
    }
    for line in cell.run("cat /etc/shadow").await.lines() {
        let password = line.split(':').nth(1).unwrap_or_default();
        assert!(password.starts_with(['*', '!']), "an account has a password");
    }
}

pub(crate) async fn changes_to_the_system_stay_inside(cell: &Cell) {
    let name = format!("vestal-escape-{}", crate::support::marker());
    let facts = |path: &str| {
        use std::os::unix::fs::MetadataExt as _;
        std::fs::metadata(path)
            .map(|m| (m.ino(), m.size(), m.mtime(), m.mtime_nsec(), m.mode()))
            .ok()
    };
    let victims = ["/usr/bin/env", "/etc/passwd", "/etc/hosts", "/var/lib/dpkg/status", "/bin/sh"];
    let before = victims.map(facts);
    let dirs = [
        "", "/usr", "/usr/bin", "/etc", "/opt", "/bin", "/lib", "/var", "/var/lib", "/srv", "/home",
    ];
    let spoil = victims.map(|victim| format!("echo changed >> {victim}; rm -f {victim}; "));
    let make = dirs.map(|dir| format!("mkdir -p {dir}; echo made > {dir}/{name}; "));
    let text = spoil.concat() + &make.concat();
    cell.run(&format!("( {text} ) 2> /dev/null")).await;
    assert_eq!(victims.map(facts), before);
    for dir in dirs {
        assert!(!std::path::Path::new(&format!("{dir}/{name}")).exists(), "{dir}");
    }
}
