use vestal_config::AnyKey as _;
use vestal_wire::{IdRange, Mapping, Network, Purpose};

use super::testing::{PlanFixture, text};
use super::users;
use crate::backends::native::facts::{SubordinateIds, SystemDirKind};
use crate::backends::native::private::PrivatePaths;
use crate::backends::native::tier::{Owners, Tier};
use crate::settings::keys;

#[test]
fn an_ordinary_users_sandbox_sees_the_host_and_can_change_nothing_of_it() {
    let expected = "\
root /s/i/layers/root
/proc processes
/dev devices 65536K
/workspace bind /s/workspace recursive
/root bind /s/home recursive
/usr bind /usr ro recursive
/opt bind /opt ro recursive
/bin link usr/bin
/sbin link usr/sbin
/lib link usr/lib
/lib64 link /usr/lib64
/home directory 0755
/media directory 0755
/mnt directory 0755
/srv directory 0755
/var directory 0755
/etc bind /c/etc-1 ro recursive
/tmp memory 524288K 1777 exec
/run memory 65536K 0755
/.vestal/boot bind /s/i/boot ro recursive
/.vestal/io bind /s/i/io recursive
/.vestal/state bind /s/state recursive
/opt/vault memory 64K 0555
/var/cache directory 0755
/var/lib directory 0755
/var/log directory 0755
/var/spool directory 0755
/run/lock directory 1777
/var/lock link /run/lock
/var/run link /run
/var/tmp memory 262144K 1777
make /s/i/io 0700 us
make /s/state 0700 us
make /s/workspace 0755 us
make /s/home 0700 us
make /s/i/layers 0700 us
make /s/i/layers/root 0755 us
uid 0 1000 1
uid 1 100000 65535
gid 0 100 1
gid 1 200000 65535
users Helpers, network Host, host vestal, capabilities 0xfb, processes Some(256)
";
    let mut fixture = PlanFixture::new(Tier::ReadOnly).ordinary();
    assert_eq!(text(&fixture.plan()), expected);
    fixture.facts.sub_gids.clear();
    let alone = text(&fixture.plan());
    let users = alone.find("uid 0").map(|start| &alone[start..]);
    let expected = "\
uid 0 1000 1
gid 0 100 1
users Own, network Host, host vestal, capabilities 0x0, processes Some(256)
";
    assert_eq!(users, Some(expected));
}

#[test]
fn roots_sandbox_changes_layers_of_its_own_as_users_that_the_host_has_not() {
    let expected = "\
root /s/i/layers/root
/proc processes
/dev devices 65536K
/workspace bind /s/workspace shifted
/root bind /s/home shifted
/usr layers /s/i/layers/usr/upper over /usr shifted
/opt layers /s/i/layers/opt/upper over /opt shifted
/bin link usr/bin
/sbin link usr/sbin
/lib link usr/lib
/lib64 link /usr/lib64
/home directory 0755
/media directory 0755
/mnt directory 0755
/srv directory 0755
/var directory 0755
/etc layers /s/i/layers/etc/upper over /c/etc-1 shifted
/tmp memory 524288K 1777 exec
/run memory 65536K 0755
/.vestal/boot bind /s/i/boot ro shifted
/.vestal/io bind /s/i/io shifted
/.vestal/state bind /s/state shifted
/opt/vault memory 64K 0555
/var/cache directory 0755
/var/lib directory 0755
/var/log directory 0755
/var/spool directory 0755
/run/lock directory 1777
/var/lock link /run/lock
/var/run link /run
/var/tmp memory 262144K 1777
/var/lib/dpkg layers /s/i/layers/dpkg/upper over /var/lib/dpkg shifted
make /s/i/io 0700 us
make /s/state 0700 us
make /s/workspace 0755 us
make /s/home 0700 us
make /s/i/layers 0700 us
make /s/i/layers/root 0755 1879048192:1879048192
make /s/i/layers/usr 0700 us
make /s/i/layers/usr/upper 0755 1879048192:1879048192
make /s/i/layers/usr/work 0700 1879048192:1879048192
make /s/i/layers/opt 0700 us
make /s/i/layers/opt/upper 0755 1879048192:1879048192
make /s/i/layers/opt/work 0700 1879048192:1879048192
make /s/i/layers/dpkg 0700 us
make /s/i/layers/dpkg/upper 0755 1879048192:1879048192
make /s/i/layers/dpkg/work 0700 1879048192:1879048192
make /s/i/layers/etc 0700 us
make /s/i/layers/etc/upper 0755 1879048192:1879048192
make /s/i/layers/etc/work 0700 1879048192:1879048192
uid 0 1879048192 65536
gid 0 1879048192 65536
users Privileged, network Host, host vestal, capabilities 0xfb, processes Some(256)
";
    assert_eq!(text(&PlanFixture::new(Tier::Overlay).plan()), expected);
}

#[test]
fn a_system_of_its_own_has_nothing_of_the_hosts_programs() {
    let expected = "\
root layers /s/i/layers/root/upper over /c/rootfs-1
/proc processes
/dev devices 65536K
/workspace bind /s/workspace recursive
/root bind /s/home recursive
/tmp memory 524288K 1777 exec
/run memory 65536K 0755
/.vestal/boot bind /s/i/boot ro recursive
/.vestal/io bind /s/i/io recursive
/.vestal/state bind /s/state recursive
/etc/hosts bind /c/etc-1/hosts ro recursive
/etc/resolv.conf bind /c/etc-1/resolv.conf ro recursive
/var/tmp memory 262144K 1777
make /s/i/io 0700 us
make /s/state 0700 us
make /s/workspace 0755 us
make /s/home 0700 us
make /s/i/layers 0700 us
make /s/i/layers/root 0700 us
make /s/i/layers/root/upper 0755 us
make /s/i/layers/root/work 0700 us
uid 0 1000 1
uid 1 100000 65535
gid 0 100 1
gid 1 200000 65535
users Helpers, network Host, host vestal, capabilities 0xfb, processes Some(256)
";
    assert_eq!(text(&PlanFixture::new(Tier::Rootfs).ordinary().plan()), expected);
    // Root shifts ids in every tier.
    let plan = text(&PlanFixture::new(Tier::Rootfs).plan());
    assert!(plan.starts_with("root layers /s/i/layers/root/upper over /c/rootfs-1 shifted\n"));
    assert!(plan.contains("\nuid 0 1879048192 65536\n"), "{plan}");
}

#[test]
fn host_root_is_in_no_map() {
    for tier in [Tier::ReadOnly, Tier::Overlay, Tier::Rootfs] {
        for fixture in [PlanFixture::new(tier), PlanFixture::new(tier).ordinary()] {
            let users = users(tier, &fixture.facts);
            for range in users.uids.iter().chain(&users.gids) {
                assert!(range.outside > 0 && range.count <= 65_536, "{range:?}");
            }
        }
    }
}

#[test]
fn subordinate_users_are_taken_where_there_are_any() {
    let mut fixture = PlanFixture::new(Tier::Rootfs).ordinary();
    fixture.facts.sub_uids = vec![
        SubordinateIds { first: 900, count: 200 },
        SubordinateIds { first: 5000, count: 10 },
        SubordinateIds { first: 9000, count: 100_000 },
    ];
    let range = |inside, outside, count| IdRange { inside, outside, count };
    // The first range contains the user's own id, which must not be mapped twice.
    let expected = [range(0, 1000, 1), range(1, 5000, 10), range(11, 9000, 65_525)];
    assert_eq!(users(Tier::Rootfs, &fixture.facts).uids, expected);
    fixture.facts.helpers = None;
    for tier in [Tier::ReadOnly, Tier::Rootfs] {
        assert_eq!(users(tier, &fixture.facts).mapping, Mapping::Own);
    }
    let mut fixture = PlanFixture::new(Tier::Rootfs).ordinary();
    fixture.facts.sub_gids.clear();
    assert_eq!(users(Tier::Rootfs, &fixture.facts).mapping, Mapping::Own);
}

#[test]
fn apt_does_without_a_user_of_its_own_where_there_is_none() {
    let root = tempfile::tempdir().unwrap();
    let mount = "/etc/apt/apt.conf.d/90vestal-alone";
    let mut fixture = PlanFixture::new(Tier::Rootfs).ordinary();
    fixture.rootfs = Some(root.path().to_owned());
    fixture.facts.sub_uids.clear();
    assert_eq!(fixture.at(mount), None, "there is no apt");
    std::fs::create_dir_all(root.path().join("etc/apt/apt.conf.d")).unwrap();
    let expected = format!("{mount} bind /c/etc-1/vestal/apt-alone.conf ro recursive");
    assert_eq!(fixture.at(mount), Some(expected));
    fixture.facts = PlanFixture::new(Tier::Rootfs).ordinary().facts;
    assert_eq!(fixture.at(mount), None, "there are users enough");
}

#[test]
fn files_that_are_not_kept_are_in_memory() {
    let mut fixture = PlanFixture::with(Tier::Overlay, &["terminal.container_persistent=false"]);
    let memory = |target: &str| fixture.at(target).unwrap();
    assert_eq!(memory("/workspace"), "/workspace memory 10485760K 0777 exec");
    assert_eq!(memory("/root"), "/root memory 1048576K 0700 exec");
    let made: Vec<_> = fixture.plan().dirs_to_make.into_iter().map(|dir| dir.path).collect();
    assert!(!made.contains(&fixture.dirs.workspace) && !made.contains(&fixture.dirs.home));
    fixture.settings.mount = Some("/srv/project".into());
    let mounted = "/workspace bind /srv/project recursive shifted";
    assert_eq!(fixture.at("/workspace").unwrap(), mounted);
}

#[test]
fn a_sandbox_without_a_network_has_none() {
    let fixture = PlanFixture::with(Tier::ReadOnly, &["terminal.docker_network=false"]);
    assert_eq!(fixture.plan().enclosure.network, Network::None);
}

#[test]
fn commands_start_in_the_workspace_or_where_they_are_asked_to() {
    let plan = PlanFixture::new(Tier::ReadOnly).plan();
    assert_eq!((plan.start_dir, plan.home), ("/workspace".into(), "/root".into()));
    let at = |tier, cwd: &str| {
        let fixture = PlanFixture::with(tier, &[&format!("terminal.cwd={cwd}")]);
        (fixture.plan().start_dir, fixture.at(cwd))
    };
    let made = Some("/srv/app directory 0755".to_owned());
    assert_eq!(at(Tier::ReadOnly, "/srv/app"), ("/srv/app".into(), made));
    // Nothing is planned in a read-only directory, or where a mount exists.
    assert_eq!(at(Tier::ReadOnly, "/usr/none"), ("/usr/none".into(), None));
    let made = Some("/usr/none directory 0755".to_owned());
    assert_eq!(at(Tier::Overlay, "/usr/none"), ("/usr/none".into(), made));
    let there = Some("/tmp memory 524288K 1777 exec".to_owned());
    assert_eq!(at(Tier::Overlay, "/tmp"), ("/tmp".into(), there));
    // Links are resolved as in the sandbox.
    let fixture = PlanFixture::with(Tier::Overlay, &["terminal.cwd=/bin/x"]);
    assert_eq!(fixture.at("/bin/x"), None);
    assert_eq!(fixture.at("/usr/bin/x").unwrap(), "/usr/bin/x directory 0755");
}

#[test]
fn our_own_files_are_hidden_where_they_are_below_what_is_shown() {
    let mut fixture = PlanFixture::new(Tier::ReadOnly).ordinary();
    fixture.settings.own_dirs = vec!["/opt/v".into(), "/opt/v/sandboxes".into(), "/srv/v".into()];
    fixture.facts.restricted.clear();
    let covered: Vec<String> =
        fixture.mounts().into_iter().filter(|line| line.ends_with("memory 64K 0555")).collect();
    assert_eq!(covered, ["/opt/v memory 64K 0555"]);
    // A root filesystem shows nothing of the host's.
    fixture.tier = Tier::Rootfs;
    fixture.rootfs = Some("/c/rootfs-1".into());
    assert_eq!(fixture.at("/opt/v"), None);
}

#[test]
fn what_is_not_for_everyone_is_left_out_where_permissions_keep_nobody_out() {
    let mut fixture = PlanFixture::new(Tier::Overlay);
    fixture.private = PrivatePaths::from_list(&[
        ("/usr", &["local/etc/key"]),
        ("/opt", &["vault", "tool/key"]),
        ("/var/lib/dpkg", &["lock"]),
    ]);
    let without = |fixture: &PlanFixture, target: &str| -> Vec<String> {
        let mount = fixture.at(target).unwrap();
        mount.split(" without ").skip(1).map(str::to_owned).collect()
    };
    assert_eq!(without(&fixture, "/usr"), ["local/etc/key"]);
    assert_eq!(without(&fixture, "/opt"), ["vault", "tool/key"]);
    assert_eq!(without(&fixture, "/var/lib/dpkg"), ["lock"]);
    assert_eq!(fixture.at("/opt/vault"), None, "what is not there needs no cover");
    // The same for a directory without layers.
    fixture.settings.own_dirs = vec!["/opt/v".into()];
    let mount = fixture.at("/opt").unwrap();
    assert_eq!(mount, "/opt bind /opt ro shifted without vault without tool/key");
    // Where the kernel keeps it private as well, every mount that shows some of it says so.
    fixture.private = fixture.private.kept_by_kernel();
    let mount = fixture.at("/opt").unwrap();
    assert_eq!(mount, "/opt bind /opt ro shifted public without vault without tool/key");
    assert!(
        fixture.at("/usr").unwrap().ends_with("over /usr shifted public without local/etc/key")
    );
}

#[test]
fn layers_are_not_laid_over_the_directory_that_they_are_in() {
    let mut fixture = PlanFixture::new(Tier::Overlay);
    fixture.settings.own_dirs = vec!["/opt/v".into()];
    let plan = fixture.plan();
    assert_eq!(fixture.at("/opt").unwrap(), "/opt bind /opt ro shifted");
    assert_eq!(fixture.at("/opt/v").unwrap(), "/opt/v memory 64K 0555");
    assert!(fixture.at("/usr").unwrap().starts_with("/usr layers "));
    let remark = "/opt cannot be changed in the sandbox: Vestal's own files are in it";
    assert_eq!(plan.remarks, [remark]);
}

#[test]
fn old_hosts_have_directories_in_place_of_links() {
    let mut fixture = PlanFixture::new(Tier::ReadOnly).ordinary();
    let bin = fixture.facts.system.iter_mut().find(|dir| dir.name == "bin").unwrap();
    bin.kind = SystemDirKind::Directory { source: "/bin".into(), mode: 0o755 };
    assert_eq!(fixture.at("/bin").unwrap(), "/bin bind /bin ro recursive");
    fixture.tier = Tier::Overlay;
    fixture.facts.uid = 0;
    let layers = "/bin layers /s/i/layers/bin/upper over /bin shifted";
    assert_eq!(fixture.at("/bin").unwrap(), layers);
}

#[test]
fn a_host_whose_programs_are_elsewhere_is_reported() {
    let mut fixture = PlanFixture::new(Tier::Overlay);
    fixture.facts.has_shell = false;
    assert!(fixture.refused().contains("/bin/sh"), "{}", fixture.refused());
    let mut fixture = PlanFixture::new(Tier::Rootfs);
    fixture.facts.has_shell = false;
    fixture.plan();
}

#[test]
fn what_the_backend_has_decided_goes_to_the_stage_as_it_is() {
    let mut fixture = PlanFixture::new(Tier::Overlay);
    fixture.cgroups = vec!["/sys/fs/cgroup/x/cgroup.procs".into()];
    let enclosure = fixture.plan().enclosure;
    assert_eq!(enclosure.cgroups, [b"/sys/fs/cgroup/x/cgroup.procs".to_vec().into()]);
    assert_eq!(enclosure.max_processes, Some(256));
    assert_eq!(enclosure.purpose, Purpose::Trial);
    assert!(enclosure.filters.len() >= 3);
}

#[test]
fn the_guest_gets_its_socket_and_nothing_of_the_host() {
    let serve = |owners| super::serve_purpose(std::path::Path::new("/s/i/init.json"), 1, 2, owners);
    let purpose = serve(Owners::Many);
    let bytes = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec().into()).collect();
    let expected = Purpose::Serve {
        arguments: bytes(&[
            "/.vestal/boot/guest",
            "serve",
            "--settings",
            "/.vestal/boot/settings",
            "--ready-fd",
            "1",
            "--hold-fd",
            "2",
        ]),
        environment: bytes(&[
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME=/root",
            "USER=root",
            "LOGNAME=root",
        ]),
        record: b"/s/i/init.json".to_vec().into(),
    };
    assert_eq!(purpose, expected);
    // With a single user, tar must not change owners.
    let Purpose::Serve { environment, .. } = serve(Owners::One) else { panic!("it serves") };
    assert_eq!(environment[4..], bytes(&["TAR_OPTIONS=--no-same-owner"]) as Vec<_>);
}

#[test]
fn a_volume_that_weakens_isolation_is_named() {
    let set = format!(r#"{}=["/:/host"]"#, keys::DOCKER_VOLUMES.name());
    let weakened = PlanFixture::with(Tier::Overlay, &[&set]).plan().weakened;
    assert_eq!(weakened.len(), 1);
    assert!(weakened[0].starts_with("/:/host mounts "), "{weakened:?}");
}
