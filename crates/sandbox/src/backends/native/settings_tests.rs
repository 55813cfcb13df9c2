use std::collections::BTreeMap;

use vestal_config::{Environment, Home, Override};

use super::*;
use crate::backends::own_system::Limit;
use crate::overrides::BINDS;

fn read(sets: &[&str], overrides: &Overrides) -> NativeSettings {
    let home = tempfile::tempdir().unwrap();
    let sets = sets.iter().map(|text| Override::parse(&crate::schema(), text).unwrap()).collect();
    let env = Environment::from_pairs([("HOME", "/home/ada")]);
    let settings = Settings::load(&crate::schema(), Home::at(home.path()), env, sets);
    NativeSettings::read(&settings, overrides).unwrap()
}

fn spec(sets: &[&str]) -> BTreeMap<String, String> {
    read(sets, &Overrides::default()).spec().to_map()
}

#[test]
fn settings_at_their_defaults_are_in_no_spec() {
    assert_eq!(spec(&[]), BTreeMap::new());
    let same = ["terminal.container_memory=5G", "terminal.native_rootfs=host"];
    assert_eq!(spec(&same), BTreeMap::new());
}

#[test]
fn every_setting_that_shapes_a_native_sandbox_is_in_the_spec() {
    let sets = [
        "terminal.native_rootfs=~/debian",
        r#"terminal.docker_volumes=["/z:/z", "/a:/a:ro"]"#,
        "terminal.docker_network=false",
        "terminal.container_cpu=1.5",
        "terminal.container_memory=0",
        "terminal.container_disk=100",
        "terminal.container_pids=300",
        "terminal.container_persistent=false",
    ];
    let overrides = Overrides {
        mount: Some("/srv/project".into()),
        binds: vec!["/srv/a".into(), "/srv/b".into()],
        ..Overrides::default()
    };
    let expected = [
        ("binds", r#"["/srv/a","/srv/b"]"#),
        ("terminal.container_cpu", "1.5"),
        ("terminal.container_disk", "100"),
        ("terminal.container_memory", "none"),
        ("terminal.container_persistent", "false"),
        ("terminal.container_pids", "300"),
        ("terminal.docker_mount_cwd_to_workspace", "/srv/project"),
        ("terminal.docker_network", "false"),
        ("terminal.docker_volumes", r#"["/a:/a:ro","/z:/z"]"#),
        ("terminal.native_rootfs", "/home/ada/debian"),
    ];
    let expected: BTreeMap<String, String> =
        expected.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    assert_eq!(read(&sets, &overrides).spec().to_map(), expected);
}

#[test]
fn what_means_something_to_containers_alone_shapes_no_native_sandbox() {
    let sets = [
        "terminal.docker_image=debian:12",
        r#"terminal.docker_extra_args=["--privileged"]"#,
        "terminal.docker_run_as_host_user=true",
        "terminal.docker_keep_entrypoint=true",
        "terminal.docker_transport=exec",
    ];
    assert_eq!(spec(&sets), BTreeMap::new());
}

#[test]
fn what_may_isolate_more_is_never_ignored() {
    let volumes = [r#"terminal.docker_volumes=["/a:/a"]"#];
    let cases: [(&[&str], &[&str], bool); 7] = [
        (&volumes, &[], true),
        (&[], &volumes, false),
        (&[], &["terminal.docker_network=false"], true),
        (&["terminal.docker_network=false"], &[], false),
        (&[], &["terminal.container_memory=512"], true),
        (&["terminal.container_memory=512"], &[], false),
        (&[], &["terminal.native_rootfs=/srv/debian"], false),
    ];
    for (was, now, expected) in cases {
        let drift = read(now, &Overrides::default()).spec();
        let drift = drift.drift_from(&spec(was), tightening);
        let tightens: Vec<bool> = drift.iter().map(|drift| drift.tightens).collect();
        assert_eq!(tightens, [expected], "{was:?} {now:?}");
    }
    let bound = Overrides { binds: vec!["/a".into()], ..Overrides::default() };
    let drift = read(&[], &bound).spec().drift_from(&BTreeMap::new(), tightening);
    let drift: Vec<_> = drift.iter().map(|own| (own.key.as_str(), own.tightens)).collect();
    assert_eq!(drift, [(BINDS, true)]);
}

#[test]
fn a_root_filesystem_is_known_with_where_it_was_named() {
    let made = read(&["terminal.native_rootfs=/srv/debian.tar"], &Overrides::default());
    let source = ValueSource::CommandLine { key: "terminal.native_rootfs".into() };
    assert_eq!(made.rootfs, Some(RootfsSetting { path: "/srv/debian.tar".into(), source }));
    assert_eq!(made.limits.memory_mb, Limit { value: 5120, set_by_user: false });
}

#[test]
fn our_own_directories_are_known_wherever_they_are() {
    let made = read(&["terminal.sandbox_dir=/opt/boxes"], &Overrides::default());
    assert!(made.own_dirs.contains(&PathBuf::from("/opt/boxes")), "{:?}", made.own_dirs);
    assert_eq!(made.own_dirs.len(), 3);
    assert_eq!(made.busy_dirs.len(), 2);
    assert!(made.busy_dirs.contains(&PathBuf::from("/opt/boxes")), "{:?}", made.busy_dirs);
}

#[test]
fn a_root_filesystem_is_the_hosts_or_named_by_its_whole_path() {
    let home = Some(Path::new("/home/ada"));
    let resolve = |text: &str| {
        RootfsChoice::read(SettingInput::Text(text.as_ref()), &())
            .map(|rootfs| rootfs.resolve(home))
    };
    assert_eq!(resolve("host"), Ok(None));
    assert_eq!(resolve("/srv/debian"), Ok(Some(PathBuf::from("/srv/debian"))));
    assert_eq!(resolve("~/debian.tar"), Ok(Some(PathBuf::from("/home/ada/debian.tar"))));
    for wrong in ["debian", "./debian", ""] {
        assert!(resolve(wrong).is_err(), "{wrong}");
    }
    assert_eq!(RootfsChoice::Host.to_value(), SettingValue::Text("host".to_owned()));
}
