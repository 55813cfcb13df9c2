use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use super::provide_from;
use vestal_stage::survey::etc::EtcScan;

/// A fake host and the directory of its snapshots.
struct MadeUp {
    root: tempfile::TempDir,
    snapshots: tempfile::TempDir,
}

impl MadeUp {
    fn new() -> Self {
        let host =
            Self { root: tempfile::tempdir().unwrap(), snapshots: tempfile::tempdir().unwrap() };
        host.file("/bin/bash", "", 0o755);
        host.file("/etc/passwd", "ada:x:1000:1000:Ada:/home/ada:/bin/sh\n", 0o644);
        host.file("/etc/shadow", "root:$6$secret:::::::\n", 0o640);
        host
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    fn file(&self, path: &str, content: &str, mode: u32) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), content).unwrap();
        fs::set_permissions(self.at(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn link(&self, path: &str, text: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        symlink(text, self.at(path)).unwrap();
    }

    fn close(&self, path: &str, mode: u32) {
        fs::set_permissions(self.at(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Returns everything in the snapshot of the host as it is now.
    fn snapshot(&self) -> BTreeMap<String, String> {
        let snapshot = provide_from(self.root.path(), self.snapshots.path()).unwrap();
        let mut found = BTreeMap::new();
        read(&snapshot.dir, Path::new(""), &mut found);
        found
    }

    /// Returns the same without what every snapshot has.
    fn shown(&self) -> BTreeMap<String, String> {
        let mut found = self.snapshot();
        for name in ALWAYS {
            assert!(found.remove(name).is_some(), "{name}");
        }
        found
    }
}

const ALWAYS: [&str; 9] = [
    "group",
    "gshadow",
    "hosts",
    "mtab",
    "passwd",
    "resolv.conf",
    "shadow",
    "vestal",
    "vestal/apt-alone.conf",
];

fn read(top: &Path, name: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(top.join(name)).unwrap() {
        let entry = entry.unwrap();
        let name = name.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        let text = if kind.is_dir() {
            read(top, &name, found);
            "/".to_owned()
        } else if kind.is_symlink() {
            format!("-> {}", fs::read_link(entry.path()).unwrap().display())
        } else {
            fs::read_to_string(entry.path()).unwrap()
        };
        found.insert(name.to_str().unwrap().to_owned(), text);
    }
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn nothing_is_shown_that_is_not_listed() {
    let host = MadeUp::new();
    let secrets = [
        "/etc/secret",
        "/etc/ssh/ssh_host_ed25519_key",
        "/etc/ssh/sshd_config",
        "/etc/ssl/private/server.key",
        "/etc/sudoers",
        "/etc/sudoers.d/ada",
        "/etc/environment",
        "/etc/machine-id",
        "/etc/hostname",
        "/etc/fstab",
        "/etc/crontab",
        "/etc/cron.d/job",
        "/etc/gitconfig",
        "/etc/npmrc",
        "/etc/docker/daemon.json",
        "/etc/kubernetes/admin.conf",
        "/etc/wireguard/wg0.conf",
        "/etc/NetworkManager/system-connections/home",
        "/etc/apt/auth.conf",
        "/etc/apt/auth.conf.d/mine.conf",
        "/etc/zypp/credentials.d/mine",
        "/etc/pacman.d/gnupg/pubring.gpg",
        "/etc/security/opasswd",
        "/etc/subuid",
        "/etc/passwd-",
        "/etc/shadow-",
        "/etc/profile.local",
        "/etc/ssl-secrets",
        "/etc/javax",
    ];
    for secret in secrets {
        host.file(secret, "secret", 0o644);
    }
    assert_eq!(host.shown(), BTreeMap::new());
}

#[test]
fn what_is_listed_is_shown_with_what_is_in_it() {
    let host = MadeUp::new();
    host.file("/etc/ld.so.cache", "cache", 0o644);
    host.file("/etc/profile.d/a.sh", "a", 0o755);
    host.file("/etc/apt/sources.list.d/debian.sources", "deb", 0o644);
    host.file("/etc/apt/auth.conf", "secret", 0o644);
    host.file("/etc/java-17-openjdk/security/java.security", "java", 0o644);
    let expected = map(&[
        ("apt", "/"),
        ("apt/sources.list.d", "/"),
        ("apt/sources.list.d/debian.sources", "deb"),
        ("java-17-openjdk", "/"),
        ("java-17-openjdk/security", "/"),
        ("java-17-openjdk/security/java.security", "java"),
        ("ld.so.cache", "cache"),
        ("profile.d", "/"),
        ("profile.d/a.sh", "a"),
    ]);
    assert_eq!(host.shown(), expected);
    let snapshot = provide_from(host.root.path(), host.snapshots.path()).unwrap();
    let mode = |name: &str| fs::metadata(snapshot.dir.join(name)).unwrap().mode() & 0o7777;
    let modes = ["", "apt", "profile.d/a.sh", "ld.so.cache", "passwd", "shadow"].map(mode);
    assert_eq!(modes, [0o755, 0o755, 0o755, 0o644, 0o644, 0o600]);
}

#[test]
fn what_not_everyone_can_read_is_never_shown() {
    let host = MadeUp::new();
    host.file("/etc/profile", "mine", 0o640);
    host.file("/etc/profile.d/closed.sh", "mine", 0o600);
    host.file("/etc/ssl/certs/server.pem", "mine", 0o660);
    host.file("/etc/dpkg/origins/debian", "closed", 0o644);
    host.close("/etc/dpkg/origins", 0o700);
    host.file("/etc/apt/keyrings/key.gpg", "closed", 0o644);
    host.close("/etc/apt/keyrings", 0o750);
    // A nested name is only copied if its parents are world-readable.
    host.file("/etc/security/limits.conf", "closed", 0o644);
    host.close("/etc/security", 0o750);
    let shown = host.shown();
    assert_eq!(shown, map(&[("dpkg", "/"), ("profile.d", "/"), ("ssl", "/"), ("ssl/certs", "/")]));
    host.close("/etc/dpkg/origins", 0o755);
    host.close("/etc/apt/keyrings", 0o755);
}

#[test]
fn a_private_key_is_never_shown_even_where_everyone_can_read_it() {
    let host = MadeUp::new();
    let key = "-----BEGIN RSA PRIVATE KEY-----\nsecret\n-----END RSA PRIVATE KEY-----\n";
    host.file("/etc/ssl/certs/server.key", key, 0o644);
    host.file("/etc/ssl/certs/both.pem", &format!("-----BEGIN CERTIFICATE-----\n{key}"), 0o644);
    host.file("/etc/ssl/certs/ca.pem", "-----BEGIN CERTIFICATE-----\n", 0o644);
    let expected =
        [("ssl", "/"), ("ssl/certs", "/"), ("ssl/certs/ca.pem", "-----BEGIN CERTIFICATE-----\n")];
    assert_eq!(host.shown(), map(&expected));
}

#[test]
fn links_are_shown_where_they_lead_to_what_is() {
    let host = MadeUp::new();
    host.file("/home/ada/.ssh/id_ed25519", "secret", 0o644);
    host.file("/root/secret", "secret", 0o644);
    host.file("/var/lib/ca-certificates/ca-bundle.pem", "bundle", 0o644);
    host.file("/var/lib/other/file", "secret", 0o644);
    host.link("/etc/localtime", "/usr/share/zoneinfo/UTC");
    host.link("/etc/os-release", "../usr/lib/os-release");
    host.link("/etc/alternatives/editor", "/bin/nano");
    host.link("/etc/profile", "/home/ada/.ssh/id_ed25519");
    host.link("/etc/inputrc", "../root/secret");
    host.link("/etc/ssl/ca-bundle.pem", "../../var/lib/ca-certificates/ca-bundle.pem");
    host.link("/etc/ssl/cert.pem", "/usr/../var/lib/other/file");
    host.link("/etc/zshrc", "/var/lib/ca-certificates/../other/file");
    let expected = map(&[
        ("alternatives", "/"),
        ("alternatives/editor", "-> /bin/nano"),
        ("localtime", "-> /usr/share/zoneinfo/UTC"),
        ("os-release", "-> ../usr/lib/os-release"),
        ("ssl", "/"),
        ("ssl/ca-bundle.pem", "bundle"),
    ]);
    assert_eq!(host.shown(), expected);
}

#[test]
fn accounts_are_generated_without_passwords() {
    let host = MadeUp::new();
    host.file(
        "/etc/passwd",
        "root:x:0:0::/root:/bin/zsh\nada:x:1000:1000:Ada:/home/ada:/bin/sh\n",
        0o644,
    );
    host.file("/etc/group", "adm:x:4:ada\n", 0o644);
    let snapshot = host.snapshot();
    assert!(snapshot["passwd"].starts_with("root:x:0:0:root:/root:/bin/bash\n"));
    assert_eq!(snapshot["group"], "root:x:0:\nadm:x:4:\nnogroup:x:65534:\n");
    assert_eq!(snapshot["shadow"], "root:*:::::::\nnobody:*:::::::\n");
    assert!(snapshot.values().all(|text| !text.contains("ada") && !text.contains("secret")));
    assert_eq!(snapshot["mtab"], "-> ../proc/self/mounts");
}

#[test]
fn machines_are_found_by_name_as_on_the_host() {
    let host = MadeUp::new();
    let snapshot = host.snapshot();
    assert_eq!(snapshot["resolv.conf"], "");
    assert_eq!(snapshot["hosts"], "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 vestal\n");
    host.file("/run/systemd/resolve/stub-resolv.conf", "nameserver 127.0.0.53\n", 0o644);
    host.link("/etc/resolv.conf", "../run/systemd/resolve/stub-resolv.conf");
    host.file("/etc/hosts", "127.0.0.1 localhost\n10.0.0.7 db", 0o644);
    let snapshot = host.snapshot();
    assert_eq!(snapshot["resolv.conf"], "nameserver 127.0.0.53\n");
    assert_eq!(snapshot["hosts"], "127.0.0.1 localhost\n10.0.0.7 db\n127.0.1.1 vestal\n");
}

#[test]
fn a_snapshot_is_made_once_per_state_of_the_host() {
    let host = MadeUp::new();
    host.file("/etc/profile", "one", 0o644);
    let provide = || provide_from(host.root.path(), host.snapshots.path()).unwrap();
    let first = provide();
    let inode = |dir: &Path| fs::metadata(dir).unwrap().ino();
    let made = inode(&first.dir);
    assert_eq!(provide(), first);
    assert_eq!(inode(&first.dir), made);
    assert!(first.dir.ends_with(format!("etc-{}", first.digest)));
    // Files outside of the allow-list do not change the digest.
    host.file("/etc/secret", "secret", 0o644);
    assert_eq!(provide(), first);
    let mut seen = vec![first.digest];
    let mut differs = |what: &str| {
        let digest = provide().digest;
        assert!(!seen.contains(&digest), "{what}");
        seen.push(digest);
    };
    host.file("/etc/profile", "two!", 0o644);
    differs("another file");
    host.close("/etc/profile", 0o755);
    differs("other permissions");
    host.file("/etc/group", "adm:x:4:\n", 0o644);
    differs("another account");
    host.file("/etc/resolv.conf", "nameserver 9.9.9.9\n", 0o644);
    differs("another network");
    host.link("/etc/localtime", "/usr/share/zoneinfo/UTC");
    differs("another link");
    let made = fs::read_dir(host.snapshots.path()).unwrap();
    assert_eq!(made.count(), seen.len(), "nothing else is left");
}

#[test]
fn a_tree_without_end_is_no_trap() {
    let host = MadeUp::new();
    let deep = "/d".repeat(40);
    host.file(&format!("/etc/profile.d{deep}/file"), "", 0o644);
    host.link("/etc/profile.d/loop", "../profile.d");
    let depth = |path: &Path| path.components().count();
    let scan = EtcScan::of(host.root.path());
    assert!(scan.entries.keys().all(|name| depth(name) < 12));
}

#[test]
fn the_snapshot_of_this_machine_names_no_person() {
    let snapshots = tempfile::tempdir().unwrap();
    let snapshot = super::provide(snapshots.path()).unwrap();
    let passwd = fs::read_to_string(snapshot.dir.join("passwd")).unwrap();
    let uids = passwd.lines().map(|line| line.split(':').nth(2).unwrap().parse::<u32>().unwrap());
    assert!(uids.into_iter().all(|uid| uid < 1000 || uid == 65_534), "{passwd}");
    for never in ["ssh", "ssl/private", "sudoers", "machine-id", "apt/auth.conf"] {
        assert!(snapshot.dir.join(never).symlink_metadata().is_err(), "{never}");
    }
}
