use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::testing::PlanFixture;
use crate::Overrides;
use crate::backend::BackendError;
use crate::backends::native::facts::SystemDirKind;
use crate::backends::native::tier::Tier;

fn volumes(list: &str) -> String {
    format!("terminal.docker_volumes={list}")
}

fn fixture(tier: Tier, list: &str) -> PlanFixture {
    PlanFixture::with(tier, &[&volumes(list)])
}

fn asking(tier: Tier, binds: &[&str]) -> PlanFixture {
    let binds = binds.iter().map(PathBuf::from).collect();
    PlanFixture::asking(tier, &[], &Overrides { binds, ..Overrides::default() })
}

#[test]
fn volumes_are_mounted_with_what_is_below_them() {
    let fixture = fixture(Tier::Overlay, r#"["/a:/data:ro", "~/src:/src", "/b:/data/b:rprivate"]"#);
    assert_eq!(fixture.at("/data").unwrap(), "/data bind /a ro recursive shifted");
    assert_eq!(fixture.at("/src").unwrap(), "/src bind /home/ada/src recursive shifted");
    let mounts = fixture.mounts();
    let at = |target: &str| mounts.iter().position(|line| line.starts_with(target)).unwrap();
    assert!(at("/data bind") < at("/data/b bind"), "{mounts:?}");
    let fixture = PlanFixture::with(Tier::ReadOnly, &[&volumes(r#"["/a:/data"]"#)]).ordinary();
    assert_eq!(fixture.at("/data").unwrap(), "/data bind /a recursive");
}

#[test]
fn what_the_user_mounts_goes_before_ours() {
    let list = r#"["/a:/tmp", "/b:/root", "/c:/workspace", "/d:/etc", "/e:/bin"]"#;
    let fixture = fixture(Tier::Overlay, list);
    for (target, source) in
        [("/tmp", "/a"), ("/root", "/b"), ("/workspace", "/c"), ("/etc", "/d"), ("/bin", "/e")]
    {
        let expected = format!("{target} bind {source} recursive shifted");
        assert_eq!(fixture.at(target).unwrap(), expected);
    }
    let targets: Vec<String> =
        fixture.mounts().iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    let mut once = targets.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), targets.len(), "{targets:?}");
}

#[test]
fn nothing_of_ours_is_laid_out_in_the_users_directories() {
    let fixture = fixture(Tier::Overlay, r#"["/a:/var", "/b:/run"]"#);
    for ours in ["/var/cache", "/var/run", "/var/lock", "/run/lock"] {
        assert_eq!(fixture.at(ours), None, "{ours}");
    }
    assert!(fixture.at("/home").is_some());
}

#[test]
fn paths_of_the_kernel_and_of_vestal_are_refused() {
    for target in ["/proc", "/proc/sys", "/dev", "/dev/shm", "/sys", "/sys/fs/cgroup"] {
        let problem = fixture(Tier::Overlay, &format!(r#"["/a:{target}"]"#)).refused();
        assert!(problem.starts_with(&format!("nothing can be mounted at {target}: ")), "{problem}");
    }
}

#[test]
fn two_mounts_at_one_target_are_refused() {
    // Targets are compared after resolving links.
    let problem = fixture(Tier::Overlay, r#"["/a:/bin/x", "/b:/usr/bin/x"]"#).refused();
    assert_eq!(problem, "two things are to be mounted at /usr/bin/x");
    let mut fixture = fixture(Tier::Overlay, r#"["/a:/workspace"]"#);
    fixture.settings.mount = Some("/srv/project".into());
    assert!(
        fixture.refused().starts_with("both the launch directory and"),
        "{}",
        fixture.refused()
    );
}

#[test]
fn what_only_an_engine_has_is_refused() {
    let problem = fixture(Tier::Overlay, r#"["cache:/cache"]"#).refused();
    assert!(problem.contains("cache is a volume of a container engine"), "{problem}");
    for word in ["shared", "rshared", "slave", "rslave"] {
        let problem = fixture(Tier::Overlay, &format!(r#"["/a:/a:{word}"]"#)).refused();
        assert!(problem.contains(&format!("asks for {word}")), "{problem}");
    }
}

#[test]
fn links_of_the_sandbox_are_followed_and_stay() {
    let list = r#"["/a:/bin/tool", "/b:/lib64/x", "/c:/var/run/d.sock", "/e:/var/lock/l"]"#;
    let fixture = fixture(Tier::Overlay, list);
    for (target, source) in [
        ("/usr/bin/tool", "/a"),
        ("/usr/lib64/x", "/b"),
        ("/run/d.sock", "/c"),
        ("/run/lock/l", "/e"),
    ] {
        let expected = format!("{target} bind {source} recursive shifted");
        assert_eq!(fixture.at(target).unwrap(), expected);
    }
    assert_eq!(fixture.at("/bin").unwrap(), "/bin link usr/bin");
}

#[test]
fn links_of_a_system_of_its_own_are_followed_within_it() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("usr/bin")).unwrap();
    symlink("usr/bin", root.path().join("bin")).unwrap();
    symlink("/../../proc", root.path().join("sneaky")).unwrap();
    fs::create_dir(root.path().join("proc")).unwrap();
    let mut fixture = fixture(Tier::Rootfs, r#"["/a:/bin/tool"]"#);
    fixture.rootfs = Some(root.path().to_owned());
    assert_eq!(fixture.at("/usr/bin/tool").unwrap(), "/usr/bin/tool bind /a recursive shifted");
    let mut fixture = self::fixture(Tier::Rootfs, r#"["/a:/sneaky/x"]"#);
    fixture.rootfs = Some(root.path().to_owned());
    assert!(fixture.refused().contains("the kernel or Vestal uses"), "{}", fixture.refused());
}

#[test]
fn an_ordinary_users_mounts_need_something_to_be_mounted_over() {
    let host = tempfile::tempdir().unwrap();
    fs::create_dir_all(host.path().join("usr/there")).unwrap();
    fs::create_dir_all(host.path().join("etc/there")).unwrap();
    let ready = |list: &str| {
        let mut fixture = fixture(Tier::ReadOnly, list).ordinary();
        fixture.facts.system[0].kind =
            SystemDirKind::Directory { source: host.path().join("usr"), mode: 0o755 };
        fixture.etc_dir = host.path().join("etc");
        fixture
    };
    for there in ["/usr/there", "/etc/there", "/data", "/root/new", "/workspace/new"] {
        assert!(ready(&format!(r#"["/a:{there}"]"#)).at(there).is_some(), "{there}");
    }
    for missing in ["/usr/missing", "/etc/missing", "/bin/missing"] {
        let problem = ready(&format!(r#"["/a:{missing}"]"#)).refused();
        assert!(problem.contains("can only read"), "{missing}: {problem}");
    }
    // Inside of a mount of the user, the target can be made.
    let own = ready(r#"["/a:/usr/there", "/b:/usr/there/new"]"#);
    assert!(own.at("/usr/there/new").is_some());
}

#[test]
fn directories_are_in_the_sandbox_at_the_same_path() {
    let fixture = asking(Tier::Overlay, &["/srv/a", "/root/work", "/tmp/b"]);
    for dir in ["/srv/a", "/root/work", "/tmp/b"] {
        assert_eq!(fixture.at(dir).unwrap(), format!("{dir} bind {dir} recursive shifted"));
    }
    let mounts = fixture.mounts();
    let at = |target: &str| mounts.iter().position(|line| line.starts_with(target)).unwrap();
    assert!(at("/root bind") < at("/root/work") && at("/tmp memory") < at("/tmp/b"), "{mounts:?}");
}

#[test]
fn a_directory_that_would_hide_the_system_is_refused() {
    for dir in ["/", "/usr", "/etc", "/proc/1", "/dev", "/.vestal/boot", "/var", "/bin"] {
        let problem = asking(Tier::Overlay, &[dir]).refused();
        let expected = format!("{dir} cannot be in the sandbox at the same path: ");
        assert!(problem.starts_with(&expected), "{problem}");
    }
}

#[test]
fn a_directory_that_the_settings_mount_is_mounted_once() {
    let overrides = Overrides { binds: vec!["/srv/a".into()], ..Overrides::default() };
    let with = |list: &str| PlanFixture::asking(Tier::Overlay, &[&volumes(list)], &overrides);
    let same = with(r#"["/srv/a:/srv/a"]"#);
    assert_eq!(same.at("/srv/a").unwrap(), "/srv/a bind /srv/a recursive shifted");
    for other in [r#"["/srv/b:/srv/a"]"#, r#"["/srv/a:/srv/a:ro"]"#] {
        assert!(with(other).refused().contains("mount something else there"), "{other}");
    }
}

#[test]
fn what_is_to_be_mounted_has_to_be_there() {
    let dir = tempfile::tempdir().unwrap();
    let (there, missing) = (dir.path().join("there"), dir.path().join("missing"));
    let file = dir.path().join("file");
    fs::create_dir(&there).unwrap();
    fs::write(&file, "").unwrap();
    let volume = |source: &PathBuf| volumes(&format!(r#"["{}:/data"]"#, source.display()));
    let check = |sets: &[&str], overrides: &Overrides| {
        PlanFixture::asking(Tier::Overlay, sets, overrides).settings.user_mounts().check()
    };
    let nothing = Overrides::default();
    check(&[&volume(&there)], &nothing).unwrap();
    check(&[&volume(&file)], &nothing).unwrap();
    let bound = |path: &PathBuf| Overrides { binds: vec![path.clone()], ..Overrides::default() };
    let mounted = |path: &PathBuf| Overrides { mount: Some(path.clone()), ..Overrides::default() };
    check(&[], &bound(&there)).unwrap();
    check(&[], &mounted(&there)).unwrap();
    let refusals = [
        check(&[&volume(&missing)], &nothing),
        check(&[], &bound(&missing)),
        check(&[], &bound(&file)),
        check(&[], &mounted(&missing)),
        check(&[], &mounted(&file)),
        check(&[&volumes(r#"["cache:/cache"]"#)], &nothing),
    ];
    for refused in refusals {
        assert!(matches!(refused, Err(BackendError::Advised { .. })), "{refused:?}");
    }
}
