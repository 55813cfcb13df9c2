//! Every extra argument has its field.

use serde_json::{Value, json};

use super::testing::{Bench, engine};
use crate::backends::docker::api::Flavour;

fn bench(words: &[&str]) -> Bench {
    let words = serde_json::to_string(words).unwrap();
    Bench::with(&[&format!("terminal.docker_extra_args={words}")])
}

fn host(words: &[&str]) -> Value {
    bench(words).host()
}

#[test]
fn every_argument_of_the_host_has_its_field() {
    let cases: Vec<(&[&str], &str, Value)> = vec![
        (&["--add-host", "db:10.0.0.1"], "ExtraHosts", json!(["db:10.0.0.1"])),
        (&["--cpu-shares", "512"], "CpuShares", json!(512)),
        (&["--cpuset-cpus", "0-1"], "CpusetCpus", json!("0-1")),
        (&["--cpuset-mems", "0"], "CpusetMems", json!("0")),
        (
            &["--device", "/dev/fuse:/dev/f:rw"],
            "Devices",
            json!([{
                "PathOnHost": "/dev/fuse", "PathInContainer": "/dev/f", "CgroupPermissions": "rw",
            }]),
        ),
        (&["--dns", "1.1.1.1"], "Dns", json!(["1.1.1.1"])),
        (&["--dns-option", "ndots:1"], "DnsOptions", json!(["ndots:1"])),
        (&["--dns-search", "lan"], "DnsSearch", json!(["lan"])),
        (&["--gpus", "all"], "DeviceRequests", json!([{"Count": -1, "Capabilities": [["gpu"]]}])),
        (&["--gpus", "2"], "DeviceRequests", json!([{"Count": 2, "Capabilities": [["gpu"]]}])),
        (
            &["--gpus", "device=0,1"],
            "DeviceRequests",
            json!([{"DeviceIDs": ["0", "1"], "Capabilities": [["gpu"]]}]),
        ),
        (&["--group-add", "video"], "GroupAdd", json!(["video"])),
        (&["--init"], "Init", json!(false)),
        (&["--ipc", "host"], "IpcMode", json!("host")),
        (&["--memory-reservation", "1g"], "MemoryReservation", json!(1 << 30)),
        (&["--memory-swap", "-1"], "MemorySwap", json!(-1)),
        (&["--memory-swappiness", "10"], "MemorySwappiness", json!(10)),
        (&["--network", "backend"], "NetworkMode", json!("backend")),
        (&["--oom-score-adj", "100"], "OomScoreAdj", json!(100)),
        (&["--pid", "host"], "PidMode", json!("host")),
        (&["--privileged"], "Privileged", json!(true)),
        (
            &["-p", "127.0.0.1:8080:80", "-p", "81:80", "-p", "53/udp"],
            "PortBindings",
            json!({
                "80/tcp": [
                    {"HostIp": "127.0.0.1", "HostPort": "8080"}, {"HostPort": "81"},
                ],
                "53/udp": [{"HostPort": ""}],
            }),
        ),
        (&["--read-only"], "ReadonlyRootfs", json!(true)),
        (&["--runtime", "runsc"], "Runtime", json!("runsc")),
        (&["--shm-size", "1g"], "ShmSize", json!(1 << 30)),
        (&["--sysctl", "net.x=1"], "Sysctls", json!({"net.x": "1"})),
        (&["--ulimit", "nofile=1:2"], "Ulimits", json!([{"Name": "nofile", "Soft": 1, "Hard": 2}])),
        (&["--userns", "host"], "UsernsMode", json!("host")),
        (&["--uts", "host"], "UTSMode", json!("host")),
    ];
    let plain = Bench::new().host();
    for (words, field, expected) in cases {
        let mut host = host(words);
        assert_eq!(host[field], expected, "{words:?}");
        // Nothing else has changed.
        host.as_object_mut().unwrap().remove(field);
        let mut rest = plain.clone();
        rest.as_object_mut().unwrap().remove(field);
        assert_eq!(host, rest, "{words:?}");
    }
}

#[test]
fn arguments_of_the_container_have_their_fields() {
    assert_eq!(bench(&["--hostname", "box"]).json()["Hostname"], "box");
    assert_eq!(
        bench(&["--platform", "linux/arm64"]).plan().platform.as_deref(),
        Some("linux/arm64")
    );
    let published = bench(&["-p", "8080:80", "-p", "81:80"]).json();
    assert_eq!(published["ExposedPorts"], json!({"80/tcp": {}}));
}

#[test]
fn mounts_and_tmpfs_have_their_fields() {
    let host = host(&[
        "--mount",
        "type=bind,source=/a,target=/b,readonly,bind-propagation=shared",
        "--mount",
        "type=volume,source=vol,target=/c,volume-nocopy",
        "--mount",
        "type=volume,target=/d",
        "--mount",
        "type=tmpfs,target=/e,tmpfs-size=1m,tmpfs-mode=0700",
        "--tmpfs",
        "/f:size=1m",
    ]);
    let expected = json!([
        {
            "Type": "bind", "Source": "/a", "Target": "/b", "ReadOnly": true,
            "BindOptions": {"Propagation": "shared"},
        },
        {
            "Type": "volume", "Source": "vol", "Target": "/c", "ReadOnly": false,
            "VolumeOptions": {"NoCopy": true},
        },
        {"Type": "volume", "Target": "/d", "ReadOnly": false},
    ]);
    assert_eq!(host["Mounts"].as_array().unwrap()[..3], *expected.as_array().unwrap());
    assert_eq!(host["Tmpfs"]["/e"], "rw,size=1048576,mode=0700");
    assert_eq!(host["Tmpfs"]["/f"], "size=1m");
}

#[test]
fn capabilities_of_the_user_go_to_ours() {
    let host = host(&["--cap-add", "SYS_PTRACE", "--cap-drop", "CHOWN"]);
    assert_eq!(host["CapDrop"], json!(["ALL"]));
    assert_eq!(host["CapAdd"], json!(["DAC_OVERRIDE", "FOWNER", "SETUID", "SETGID", "SYS_PTRACE"]));
}

#[test]
fn security_options_go_to_ours_and_can_take_them_back() {
    let options = |words: &[&str], flavour: Flavour| {
        let mut bench = bench(words);
        bench.info = engine(flavour);
        bench.host()["SecurityOpt"].take()
    };
    let (docker, podman) = (Flavour::Docker, Flavour::Podman);
    let more = ["--security-opt", "apparmor=mine", "--security-opt", "label=disable"];
    let expected = json!(["no-new-privileges", "apparmor=mine", "label=disable"]);
    assert_eq!(options(&more, docker), expected);
    assert_eq!(options(&more, podman), expected);
    let off = ["--security-opt", "no-new-privileges=false"];
    assert_eq!(options(&off, docker), json!(["no-new-privileges=false"]));
    assert_eq!(options(&off, podman), json!([]));
    let unconfined = ["--security-opt", "seccomp=unconfined"];
    assert_eq!(options(&unconfined, docker), json!(["no-new-privileges", "seccomp=unconfined"]));
}

#[test]
fn the_builtin_filter_is_named_only_where_it_has_a_name() {
    let mut made = bench(&["--security-opt", "seccomp=builtin"]);
    for (flavour, api, expected) in [
        (Flavour::Docker, "1.41", json!(["no-new-privileges"])),
        (Flavour::Docker, "1.42", json!(["no-new-privileges", "seccomp=builtin"])),
        (Flavour::Podman, "1.43", json!(["no-new-privileges"])),
    ] {
        made.info = engine(flavour);
        made.info.api_version = api.into();
        assert_eq!(made.host()["SecurityOpt"], expected, "{flavour:?} {api}");
    }
}

#[test]
fn hidden_system_paths_are_shown_in_each_engines_way() {
    let words = ["--security-opt", "systempaths=unconfined"];
    let mut bench = bench(&words);
    let host = bench.host();
    assert_eq!((&host["MaskedPaths"], &host["ReadonlyPaths"]), (&json!([]), &json!([])));
    assert_eq!(host["SecurityOpt"], json!(["no-new-privileges"]));
    bench.info = engine(Flavour::Podman);
    let host = bench.host();
    assert_eq!(host.get("MaskedPaths"), None);
    assert_eq!(host["SecurityOpt"], json!(["no-new-privileges", "unmask=ALL"]));
}

#[test]
fn a_seccomp_profile_is_sent_as_the_engine_wants_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("profile.json");
    std::fs::write(&path, "{\"x\":1}").unwrap();
    let word = format!("seccomp={}", path.display());
    let mut made = bench(&["--security-opt", &word]);
    assert_eq!(made.host()["SecurityOpt"][1], "seccomp={\"x\":1}");
    made.info = engine(Flavour::Podman);
    assert_eq!(made.host()["SecurityOpt"][1], word);
    let missing = bench(&["--security-opt", "seccomp=/does/not/exist"]);
    let error = missing.try_plan().unwrap_err();
    assert!(error.to_string().contains("/does/not/exist"), "{error}");
    assert!(error.advice().is_some());
}

#[test]
fn what_weakens_isolation_is_named() {
    let words = r#"terminal.docker_extra_args=["--privileged", "--cap-add=SYS_ADMIN"]"#;
    let made =
        Bench::with(&[words, r#"terminal.docker_volumes=["/:/host", "/var/run/docker.sock:/d"]"#]);
    let weakened = made.plan().weakened;
    assert_eq!(weakened.len(), 4, "{weakened:?}");
    assert_eq!(weakened[..2], ["--privileged", "--cap-add SYS_ADMIN"]);
    assert!(weakened[2].contains("the whole filesystem"), "{weakened:?}");
    assert!(weakened[3].contains("socket"), "{weakened:?}");
}
