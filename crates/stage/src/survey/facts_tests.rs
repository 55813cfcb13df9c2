use std::os::unix::fs::symlink;

use super::*;

const ADA: UserIds = UserIds { uid: 1000, gid: 1000 };

struct FakeHost(tempfile::TempDir);

impl FakeHost {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn locate(&self, path: &str) -> PathBuf {
        self.0.path().join(path.trim_start_matches('/'))
    }

    fn directory(&self, path: &str, mode: u32) -> &Self {
        fs::create_dir_all(self.locate(path)).unwrap();
        fs::set_permissions(self.locate(path), fs::Permissions::from_mode(mode)).unwrap();
        self
    }

    fn file(&self, path: &str, content: &str, mode: u32) -> &Self {
        fs::create_dir_all(self.locate(path).parent().unwrap()).unwrap();
        fs::write(self.locate(path), content).unwrap();
        fs::set_permissions(self.locate(path), fs::Permissions::from_mode(mode)).unwrap();
        self
    }

    fn link(&self, path: &str, text: &str) -> &Self {
        symlink(text, self.locate(path)).unwrap();
        self
    }

    fn facts(&self) -> HostFacts {
        HostFacts::gather_from(self.0.path(), ADA)
    }

    fn kind(&self, path: &str, mode: u32) -> SystemDirKind {
        SystemDirKind::Directory { source: self.locate(path), mode }
    }
}

#[test]
fn only_directories_of_programs_are_found_and_links_stay_links() {
    let host = FakeHost::new();
    for dir in ["/usr/bin", "/usr/lib", "/home/ada", "/root", "/srv", "/var/lib", "/boot", "/libs"]
    {
        host.directory(dir, 0o755);
    }
    host.directory("/opt", 0o711).directory("/sbin", 0o755);
    host.link("/bin", "usr/bin").link("/lib64", "/usr/lib").link("/lib", "/srv/away");
    host.link("/lib32", "usr/nowhere").directory("/srv/away", 0o755);
    host.file("/libx32", "", 0o644);
    let link = |text: &str| SystemDirKind::Link(text.into());
    let expected = [
        ("usr", host.kind("/usr", 0o755)),
        ("opt", host.kind("/opt", 0o711)),
        ("bin", link("usr/bin")),
        ("sbin", host.kind("/sbin", 0o755)),
        // It leads out of the system directories.
        ("lib", host.kind("/srv/away", 0o755)),
        ("lib64", link("/usr/lib")),
    ];
    let expected = expected.map(|(name, kind)| SystemDir { name, kind });
    assert_eq!(host.facts().system, expected);
}

#[test]
fn lists_of_packages_are_found_wherever_they_are_kept() {
    let host = FakeHost::new();
    host.directory("/var/lib/dpkg", 0o755).directory("/usr/lib/sysimage/rpm", 0o755);
    host.directory("/var/lib/secrets", 0o755);
    host.link("/var/lib/rpm", "../../usr/lib/sysimage/rpm");
    let expected = [
        PackageDatabase {
            name: "dpkg",
            target: "/var/lib/dpkg",
            kind: host.kind("/var/lib/dpkg", 0o755),
        },
        PackageDatabase {
            name: "rpm",
            target: "/var/lib/rpm",
            kind: SystemDirKind::Link("../../usr/lib/sysimage/rpm".into()),
        },
    ];
    assert_eq!(host.facts().packages, expected);
}

#[test]
fn a_shell_counts_where_it_is_shown() {
    let host = FakeHost::new();
    host.directory("/usr/bin", 0o755).link("/bin", "usr/bin");
    assert!(!host.facts().has_shell);
    host.file("/usr/bin/dash", "", 0o644).link("/usr/bin/sh", "dash");
    assert!(!host.facts().has_shell, "it is not a program");
    host.file("/usr/bin/dash", "", 0o755);
    assert!(host.facts().has_shell);
    fs::remove_file(host.locate("/usr/bin/sh")).unwrap();
    host.file("/nix/store/sh", "", 0o755).link("/usr/bin/sh", "/nix/store/sh");
    assert!(!host.facts().has_shell, "a sandbox does not see it");
}

#[test]
fn directories_that_are_not_for_everyone_are_found() {
    let host = FakeHost::new();
    host.file(
        "/etc/passwd",
        "ada:x:1000:1000::/opt/ada:/bin/sh\nbob:x:1001:1001::/home/bob:/bin/sh\n\
         app:x:400:400::/opt/app:/bin/sh\neve:x:1002:1002::/opt:/bin/sh\n\
         mal:x:1003:1003::/opt/gone:/bin/sh\n",
        0o644,
    );
    host.directory("/opt/ada", 0o755).directory("/opt/app", 0o755);
    host.directory("/opt/vault", 0o700).directory("/opt/group", 0o750);
    host.directory("/opt/enter", 0o711).directory("/usr/local/lib", 0o755);
    host.directory("/usr/local/keys", 0o700).directory("/usr/local/etc/db", 0o750);
    host.file("/opt/file", "", 0o600).link("/opt/link", "vault");
    let expected = [
        "/opt/ada",
        "/opt/enter",
        "/opt/group",
        "/opt/vault",
        "/usr/local/etc/db",
        "/usr/local/keys",
    ];
    assert_eq!(host.facts().restricted, expected.map(PathBuf::from));
}

#[test]
fn subordinate_numbers_are_found_by_name_and_by_number() {
    let host = FakeHost::new();
    host.file("/etc/passwd", "ada:x:1000:1000::/home/ada:/bin/sh\n", 0o644);
    host.file("/etc/subuid", "bob:100000:65536\nada:165536:65536\n1000:300000:10\n", 0o644);
    host.file("/etc/subgid", "ada:0:65536\nada:5:0\nada:4294967295:2\nada:x:1\nada:7:3\n", 0o644);
    let facts = host.facts();
    assert_eq!(facts.user, "ada");
    let range = |first, count| SubordinateIds { first, count };
    assert_eq!(facts.sub_uids, [range(165_536, 65_536), range(300_000, 10)]);
    // Ranges with root, empty ranges and overflows are ignored.
    assert_eq!(facts.sub_gids, [range(7, 3)]);
}

#[test]
fn helpers_count_where_they_have_the_rights_it_takes() {
    let host = FakeHost::new();
    host.file("/etc/subuid", "1000:100000:65536\n", 0o644);
    host.file("/etc/subgid", "1000:100000:65536\n", 0o644);
    host.file("/usr/bin/newuidmap", "", 0o4755).file("/usr/bin/newgidmap", "", 0o755);
    let facts = host.facts();
    assert_eq!(
        (facts.helpers.clone(), facts.single_user_reason()),
        (None, Some(SingleUserReason::NoHelpers))
    );
    host.file("/usr/bin/newgidmap", "", 0o4755);
    // A setuid program of another user does not run as root.
    if rustix::process::geteuid().is_root() {
        let expected = Helpers {
            newuidmap: host.locate("/usr/bin/newuidmap"),
            newgidmap: host.locate("/usr/bin/newgidmap"),
        };
        let facts = host.facts();
        assert_eq!((facts.helpers.clone(), facts.single_user_reason()), (Some(expected), None));
    }
}

#[test]
fn a_host_that_tells_nothing_has_nothing() {
    let host = FakeHost::new();
    let facts = host.facts();
    let expected = HostFacts {
        uid: 1000,
        gid: 1000,
        user: "1000".into(),
        system: Vec::new(),
        packages: Vec::new(),
        restricted: Vec::new(),
        has_shell: false,
        // Resource limits are those of this process.
        quotas: UserQuotas { inotify_instances: None, inotify_watches: None, ..facts.quotas },
        helpers: None,
        sub_uids: Vec::new(),
        sub_gids: Vec::new(),
    };
    assert_eq!(facts, expected);
    assert_eq!(facts.single_user_reason(), Some(SingleUserReason::NoSubordinateIds));
}
