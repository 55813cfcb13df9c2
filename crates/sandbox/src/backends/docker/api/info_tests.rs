use serde_json::json;

use super::*;

fn info(value: serde_json::Value, flavour: Flavour) -> EngineInfo {
    EngineInfo::new(serde_json::from_value(value).unwrap(), flavour, "1.41".to_owned())
}

fn docker() -> serde_json::Value {
    json!({
        "ID": "AAAA:BBBB",
        "Driver": "overlay2",
        "DriverStatus": [["Backing Filesystem", "extfs"], ["Supports d_type", "true"]],
        "MemoryLimit": true, "CpuCfsPeriod": true, "CpuCfsQuota": true, "PidsLimit": true,
        "CgroupDriver": "systemd", "CgroupVersion": "2",
        "SecurityOptions": ["name=apparmor", "name=seccomp,profile=default"],
        "ServerVersion": "20.10.24", "OperatingSystem": "Debian", "Architecture": "x86_64", "DefaultRuntime": "runc",
        "LiveRestoreEnabled": true,
    })
}

#[test]
fn everything_an_engine_says_is_read() {
    let expected = EngineInfo {
        id: "AAAA:BBBB".to_owned(),
        flavour: Flavour::Docker,
        version: "20.10.24".to_owned(),
        api_version: "1.41".to_owned(),
        rootless: false,
        userns_remap: false,
        storage_driver: "overlay2".to_owned(),
        backing_filesystem: "extfs".to_owned(),
        cgroup_version: "2".to_owned(),
        cgroup_driver: "systemd".to_owned(),
        can_limit_memory: true,
        can_limit_cpu: true,
        can_limit_pids: true,
        can_limit_disk: false,
        live_restore: true,
        seccomp: true,
        architecture: "x86_64".to_owned(),
        operating_system: "Debian".to_owned(),
        default_runtime: "runc".to_owned(),
    };
    assert_eq!(info(docker(), Flavour::Docker), expected);
}

#[test]
fn an_engine_that_says_nothing_promises_nothing() {
    let nothing = info(json!({}), Flavour::Docker);
    assert!(!nothing.can_limit_memory && !nothing.can_limit_cpu && !nothing.can_limit_pids);
    assert!(!nothing.can_limit_disk && !nothing.seccomp && !nothing.rootless);
    assert_eq!(nothing.version, "");
}

#[test]
fn limits_without_a_manager_of_cgroups_are_none() {
    let mut response = docker();
    response["CgroupDriver"] = json!("none");
    let rootless = info(response, Flavour::Docker);
    assert!(!rootless.can_limit_memory && !rootless.can_limit_cpu && !rootless.can_limit_pids);
}

#[test]
fn limits_that_podman_drops_silently_are_none() {
    let mut response = docker();
    response["CgroupVersion"] = json!("1");
    response["SecurityOptions"] = json!(["name=rootless", "name=seccomp,profile=default"]);
    let podman = info(response.clone(), Flavour::Podman);
    assert!(!podman.can_limit_memory && !podman.can_limit_cpu && !podman.can_limit_pids);
    response["CgroupVersion"] = json!("2");
    assert!(info(response, Flavour::Podman).can_limit_memory);
}

#[test]
fn podman_is_known_by_its_store_because_its_id_changes() {
    let response = |id: &str| json!({"ID": id, "Name": "host", "DockerRootDir": "/store"});
    let id = |id: &str| info(response(id), Flavour::Podman).id;
    assert_eq!(id("one"), "podman:host:/store");
    assert_eq!(id("one"), id("two"));
}

#[test]
fn a_disk_limit_depends_on_driver_and_filesystem() {
    for (driver, filesystem, can) in [
        ("overlay2", "xfs", true),
        ("overlay", "xfs", true),
        ("overlay2", "extfs", false),
        ("overlay2", "", false),
        ("vfs", "extfs", false),
        ("btrfs", "btrfs", true),
        ("zfs", "zfs", true),
        ("fuse-overlayfs", "xfs", false),
    ] {
        assert_eq!(can_limit_disk(driver, filesystem), can, "{driver} on {filesystem}");
    }
}

#[test]
fn security_options_old_and_new_are_read() {
    let options = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    assert!(has_seccomp(&options(&["seccomp"])));
    assert!(has_seccomp(&options(&["name=seccomp,profile=builtin"])));
    assert!(!has_seccomp(&options(&["name=seccomp,profile=unconfined"])));
    assert!(!has_seccomp(&options(&["name=noseccomp", "", ",,="])));
    assert!(has_option(&options(&["name=userns"]), "userns"));
    assert!(!has_option(&options(&["name=rootless-not"]), "rootless"));
}

#[test]
fn hostile_answers_stay_on_one_line() {
    let response = json!({
        "ServerVersion": "1\n2\u{1b}[2J",
        "DriverStatus": [[], ["Backing Filesystem"], ["Backing Filesystem", "x\ny", "z"]],
    });
    let read = info(response, Flavour::Docker);
    assert_eq!(read.version, "1 2 [2J");
    assert_eq!(read.backing_filesystem, "x y");
}

#[test]
fn podman_is_known_by_its_parts() {
    let version = |name: &str| {
        let response = json!({"Components": [{"Name": name, "Version": "1"}]});
        Flavour::of(&serde_json::from_value(response).unwrap())
    };
    assert_eq!(version("Podman Engine"), Flavour::Podman);
    assert_eq!(version("Engine"), Flavour::Docker);
    assert_eq!(Flavour::of(&SystemVersion::default()), Flavour::Docker);
}
