//! What a container is made of, as a whole and setting by setting.

use std::path::PathBuf;

use bollard::models::{ContainerInspectResponse, HostConfig};
use serde_json::{Value, json};

use super::blueprint::{MountSource, Ulimits};
use super::labels::{ContainerLabels, label};
use super::limits::limits_not_applied;
use super::testing::{Bench, INSTANCE, engine};
use crate::Overrides;
use crate::backend::{BackendError, Owner};
use crate::backends::docker::api::Flavour;
use crate::backends::own_system::LimitKind;

const TMP: &str = "rw,exec,nosuid,nodev,size=512m,mode=1777";
const VAR_TMP: &str = "rw,noexec,nosuid,nodev,size=256m,mode=1777";
const RUN: &str = "rw,noexec,nosuid,nodev,size=64m,mode=0755";
const RUN_EXEC: &str = "rw,exec,nosuid,nodev,size=64m,mode=0755";

fn bind(source: &str, target: &str, read_only: bool) -> Value {
    json!({"Type": "bind", "Source": source, "Target": target, "ReadOnly": read_only})
}

/// Returns what is mounted at a place, in whatever form.
fn at(host: &Value, target: &str) -> Option<Value> {
    let mounts = host["Mounts"].as_array().unwrap();
    let mount = mounts.iter().find(|mount| mount["Target"] == target);
    mount.or_else(|| host["Tmpfs"].get(target)).cloned()
}

#[test]
fn a_container_with_default_settings_is_exactly_this() {
    let bench = Bench::new();
    let hash = bench.key.hash();
    let expected = json!({
        "Image": "sha256:1234",
        "Entrypoint": ["/.vestal/boot/guest"],
        "Cmd": ["serve", "--settings", "/.vestal/boot/settings", "--ready-fd", "1"],
        "Healthcheck": {"Test": ["NONE"]},
        "User": "0:0",
        "WorkingDir": "/workspace",
        "Tty": false,
        "OpenStdin": false,
        "AttachStdin": false,
        "AttachStdout": false,
        "AttachStderr": false,
        "StopSignal": "SIGTERM",
        "StopTimeout": 10,
        "Labels": {
            "vestal-agent": "1",
            "vestal-task-id": "my_task",
            "vestal-profile": "default",
            "vestal-key": hash,
            "vestal-home": "feedface",
            "vestal-instance": INSTANCE,
            "vestal-spec": "c0ffee",
            "vestal-persist": "1",
            "vestal-generation": "3",
            "vestal-image": "debian:12",
        },
        "HostConfig": {
            "CapDrop": ["ALL"],
            "CapAdd": ["DAC_OVERRIDE", "CHOWN", "FOWNER", "SETUID", "SETGID"],
            "SecurityOpt": ["no-new-privileges"],
            "Init": false,
            "AutoRemove": false,
            "NanoCpus": 1_000_000_000,
            "Memory": 5_368_709_120_i64,
            "PidsLimit": 256,
            "StorageOpt": {"size": "51200m"},
            "Mounts": [
                bind("/s/boot", "/.vestal/boot", true),
                bind("/s/i:o", "/.vestal/io", false),
                bind("/s/state", "/.vestal/state", false),
                bind("/s/workspace", "/workspace", false),
                bind("/s/home", "/root", false),
            ],
            "Tmpfs": {"/tmp": TMP, "/var/tmp": VAR_TMP, "/run": RUN},
        },
    });
    let plan = bench.plan();
    assert_eq!(serde_json::to_value(&plan.body).unwrap(), expected);
    assert_eq!(plan.name, format!("vestal-my_task-{}", &hash[..12]));
    assert_eq!((plan.unenforced, plan.weakened), (vec![], vec![]));
    assert_eq!((plan.guest_user, plan.platform), (None, None));
    assert!(plan.own_workspace && plan.own_home);
}

#[test]
fn no_value_of_the_user_is_in_the_containers_environment() {
    let bench = Bench::with(&[
        r#"terminal.docker_env={"TOKEN": "hunter2"}"#,
        r#"terminal.env={"OTHER": "hunter2"}"#,
    ]);
    let plan = bench.plan();
    assert_eq!(plan.body.env, None);
    assert!(!format!("{plan:?}").contains("hunter2"));
}

#[test]
fn the_image_is_named_by_its_id() {
    let mut bench = Bench::new();
    bench.image.id = "sha256:abcd".into();
    assert_eq!(bench.json()["Image"], "sha256:abcd");
}

#[test]
fn an_owned_container_removes_itself_and_names_its_owner() {
    let mut bench = Bench::new();
    let owner = Owner::current("docker").unwrap();
    bench.owner = Some(owner.clone());
    let plan = bench.plan();
    assert!(plan.name.ends_with("-01234567"), "{}", plan.name);
    let body = serde_json::to_value(&plan.body).unwrap();
    assert_eq!(body["HostConfig"]["AutoRemove"], true);
    assert_eq!(body["Labels"][label::PERSIST], "0");
    let marks = ContainerLabels::parse(&plan.body.labels.unwrap()).unwrap();
    assert_eq!(marks.owner, Some(owner));
}

#[test]
fn jobs_of_an_image_with_a_user_run_as_that_one_under_a_guest_that_is_root() {
    let bench = Bench::new().non_root();
    let plan = bench.plan();
    assert_eq!(plan.body.user.as_deref(), Some("0:0"));
    assert_eq!(plan.guest_user.as_deref(), Some("app:staff"));
    assert_eq!(at(&bench.host(), "/home/app"), Some(bind("/s/home", "/home/app", false)));
}

#[test]
fn jobs_run_as_the_user_that_the_flags_name() {
    let named = r#"terminal.docker_extra_args=["--user", "other:1"]"#;
    let plan = Bench::with(&[named]).non_root().plan();
    assert_eq!(plan.body.user.as_deref(), Some("0:0"));
    assert_eq!(plan.guest_user.as_deref(), Some("other:1"));
    let tight = r#"terminal.docker_extra_args=["--user=other:1", "--cap-drop=ALL"]"#;
    let plan = Bench::with(&[tight]).non_root().plan();
    assert_eq!(plan.body.user.as_deref(), Some("other:1"));
}

#[test]
fn a_guest_that_may_not_switch_runs_as_the_images_user_itself() {
    for words in [r#"["--cap-drop=SETUID"]"#, r#"["--cap-drop=ALL"]"#] {
        let set = format!("terminal.docker_extra_args={words}");
        let plan = Bench::with(&[&set]).non_root().plan();
        assert_eq!(plan.body.user.as_deref(), Some("app:staff"), "{words}");
        assert_eq!(plan.guest_user, None);
    }
    let set = r#"terminal.docker_extra_args=["--cap-drop=ALL", "--privileged"]"#;
    assert_eq!(Bench::with(&[set]).non_root().plan().body.user.as_deref(), Some("0:0"));
}

#[test]
fn an_init_of_the_image_stays_the_first_process() {
    for init in ["/init", "/package/admin/s6-overlay/command/init"] {
        let mut bench = Bench::new();
        bench.image.entrypoint = vec![init.into()];
        let body = bench.json();
        assert_eq!(body.get("Entrypoint"), None);
        let line = [
            "/.vestal/boot/guest",
            "serve",
            "--settings",
            "/.vestal/boot/settings",
            "--ready-fd",
            "1",
        ];
        assert_eq!(body["Cmd"], json!(line));
        assert_eq!(body["HostConfig"]["Tmpfs"]["/run"], RUN_EXEC);
        assert_eq!(body["User"], "0:0");
        assert_eq!((body.get("Healthcheck"), body.get("StopSignal")), (None, None));
    }
}

#[test]
fn an_entrypoint_is_kept_when_asked_for_and_runs_as_the_images_user() {
    let keep = ["terminal.docker_keep_entrypoint=true"];
    let bench = Bench::with(&keep).non_root();
    let plan = bench.plan();
    assert_eq!(plan.body.entrypoint, None);
    assert_eq!(plan.body.cmd.as_ref().unwrap()[0], "/.vestal/boot/guest");
    assert_eq!(plan.body.user.as_deref(), Some("app:staff"));
    assert_eq!(plan.guest_user, None);
    assert_eq!(bench.host()["CapAdd"], json!([]));
    assert_eq!(bench.host()["Tmpfs"]["/run"], RUN_EXEC);

    let mut without = Bench::with(&keep);
    without.image.entrypoint.clear();
    assert_eq!(without.json()["Entrypoint"], json!(["/.vestal/boot/guest"]));
}

#[test]
fn jobs_run_as_the_hosts_user_when_asked_for() {
    let mut bench = Bench::with(&["terminal.docker_run_as_host_user=true"]).non_root();
    let plan = bench.plan();
    assert_eq!(plan.body.user.as_deref(), Some("1000:100"));
    assert_eq!(plan.guest_user, None);
    let host = bench.host();
    // On Podman whatever is added would be in the hands of that user.
    assert_eq!((&host["CapDrop"], &host["CapAdd"]), (&json!(["ALL"]), &json!([])));
    assert_eq!(host.get("UsernsMode"), None);

    bench.info.userns_remap = true;
    let plan = bench.plan();
    assert_eq!(bench.host()["UsernsMode"], "host");
    assert_eq!(plan.weakened, ["terminal.docker_run_as_host_user goes without user namespaces"]);

    bench.info = engine(Flavour::Podman);
    bench.info.rootless = true;
    assert_eq!(bench.plan().body.user.as_deref(), Some("1000:100"));
    assert_eq!(bench.host()["UsernsMode"], "keep-id");

    bench.info = engine(Flavour::Docker);
    bench.info.rootless = true;
    assert_eq!(bench.plan().body.user.as_deref(), Some("0:0"));
    let host = bench.host();
    assert_eq!(host["CapAdd"], json!(["DAC_OVERRIDE", "CHOWN", "FOWNER"]));
    assert_eq!(host.get("UsernsMode"), None);
}

#[test]
fn files_that_are_not_kept_are_in_memory() {
    let mut bench = Bench::new().non_root();
    bench.workspace = MountSource::Tmpfs;
    bench.home_dir = MountSource::Tmpfs;
    let host = bench.host();
    let workspace = "rw,nosuid,nodev,exec,size=10g,mode=0777";
    assert_eq!(at(&host, "/workspace"), Some(json!(workspace)));
    let home = "rw,nosuid,nodev,exec,size=1g,mode=0777";
    assert_eq!(at(&host, "/home/app"), Some(json!(home)));
    assert_eq!(host["Mounts"].as_array().unwrap().len(), 3);
}

#[test]
fn files_on_an_engine_elsewhere_are_volumes() {
    let mut bench = Bench::new();
    bench.workspace = MountSource::Volume("vestal-w".into());
    bench.home_dir = MountSource::Anonymous;
    bench.boot = MountSource::Anonymous;
    let host = bench.host();
    // The guest has to be sent there.
    let boot = json!({"Type": "volume", "Target": "/.vestal/boot", "ReadOnly": false});
    assert_eq!(at(&host, "/.vestal/boot"), Some(boot));
    let workspace = json!({
        "Type": "volume", "Source": "vestal-w", "Target": "/workspace", "ReadOnly": false,
    });
    assert_eq!(at(&host, "/workspace"), Some(workspace));
    let home = json!({"Type": "volume", "Target": "/root", "ReadOnly": false});
    assert_eq!(at(&host, "/root"), Some(home));
}

#[test]
fn a_mounted_directory_is_the_workspace() {
    let overrides = Overrides { mount: Some("/srv/my:project".into()), ..Overrides::default() };
    let bench = Bench::asking(&[], &overrides);
    let expected = bind("/srv/my:project", "/workspace", false);
    assert_eq!(at(&bench.host(), "/workspace"), Some(expected));
    assert!(!bench.plan().own_workspace);

    let taken = [r#"terminal.docker_volumes=["/x:/workspace"]"#];
    let error = Bench::asking(&taken, &overrides).try_plan().unwrap_err();
    assert!(error.advice().is_some(), "{error}");
}

fn binding(sets: &[&str], binds: &[&str]) -> Bench {
    let binds = binds.iter().map(Into::into).collect();
    Bench::asking(sets, &Overrides { binds, ..Overrides::default() })
}

#[test]
fn directories_of_the_host_are_at_the_same_path() {
    let host = binding(&[], &["/srv/a:b", "/tmp/x", "/root/project", "/workspace/y"]).host();
    for path in ["/srv/a:b", "/tmp/x", "/root/project", "/workspace/y"] {
        assert_eq!(at(&host, path), Some(bind(path, path, false)), "{path}");
    }
    assert!(at(&host, "/workspace").is_some() && at(&host, "/root").is_some());
    let taken = binding(&[], &["/workspace"]);
    assert!(!taken.plan().own_workspace);
}

#[test]
fn a_directory_that_the_settings_mount_already_is_mounted_once() {
    let host = binding(&[r#"terminal.docker_volumes=["/srv/a:/srv/a"]"#], &["/srv/a"]).host();
    assert_eq!(at(&host, "/srv/a"), Some(bind("/srv/a", "/srv/a", false)));
    let others = [
        r#"terminal.docker_volumes=["/srv/a:/srv/a:ro"]"#,
        r#"terminal.docker_volumes=["/srv/b:/srv/a"]"#,
        r#"terminal.docker_volumes=["cache:/srv/a"]"#,
        r#"terminal.docker_extra_args=["--tmpfs", "/srv/a"]"#,
        r#"terminal.docker_extra_args=["--mount", "type=bind,src=/srv/b,dst=/srv/a"]"#,
    ];
    for other in others {
        let error = binding(&[other], &["/srv/a"]).try_plan().unwrap_err();
        assert!(error.advice().is_some(), "{other}: {error}");
    }
}

#[test]
fn places_of_the_system_are_not_covered_with_directories_of_the_host() {
    for path in ["/", "/usr", "/etc", "/proc", "/sys/x", "/dev/shm", "/.vestal/io", "/var"] {
        let error = binding(&[], &[path]).try_plan().unwrap_err();
        assert!(error.to_string().contains(path) && error.advice().is_some(), "{error}");
    }
    for path in ["/usr/src/project", "/var/www", "/opt/x", "/home"] {
        binding(&[], &[path]).plan();
    }
}

#[test]
fn a_path_that_the_engine_cannot_take_is_refused_with_advice() {
    use std::os::unix::ffi::OsStringExt as _;
    let mut bench = Bench::new();
    let odd = std::ffi::OsString::from_vec(b"/srv/\xff".to_vec());
    bench.workspace = MountSource::Bind(PathBuf::from(odd));
    let error = bench.try_plan().unwrap_err();
    assert!(matches!(error, BackendError::Advised { .. }), "{error}");
}

#[test]
fn volumes_of_the_user_are_mounted_with_their_options() {
    let bench = Bench::with(&[r#"terminal.docker_volumes=[
        "/data:/data:ro", "~/src:/src:rslave", "cache:/cache:nocopy", "/label:/label:ro,Z"
    ]"#]);
    let host = bench.host();
    assert_eq!(at(&host, "/data"), Some(bind("/data", "/data", true)));
    let mut src = bind("/home/ada/src", "/src", false);
    src["BindOptions"] = json!({"Propagation": "rslave"});
    assert_eq!(at(&host, "/src"), Some(src));
    let cache = json!({
        "Type": "volume", "Source": "cache", "Target": "/cache", "ReadOnly": false,
        "VolumeOptions": {"NoCopy": true},
    });
    assert_eq!(at(&host, "/cache"), Some(cache));
    assert_eq!(host["Binds"], json!(["/label:/label:ro,Z"]));
}

#[test]
fn podman_gets_a_path_with_a_comma_in_the_older_form() {
    let overrides = Overrides { mount: Some("/srv/a,b".into()), ..Overrides::default() };
    let volumes = [r#"terminal.docker_volumes=["/c,d:/data:ro", "/p,q:/p:rslave"]"#];
    let mut bench = Bench::asking(&volumes, &overrides);
    assert_eq!(bench.host().get("Binds"), None);
    bench.info = engine(Flavour::Podman);
    let host = bench.host();
    let binds = ["/c,d:/data:ro", "/p,q:/p:rslave", "/srv/a,b:/workspace"];
    assert_eq!(host["Binds"], json!(binds));
    assert_eq!(at(&host, "/workspace"), None);

    let neither = Overrides { mount: Some("/srv/a,b:c".into()), ..Overrides::default() };
    let mut bench = Bench::asking(&[], &neither);
    bench.info = engine(Flavour::Podman);
    let error = bench.try_plan().unwrap_err();
    assert!(matches!(error, BackendError::Advised { .. }), "{error}");
}

#[test]
fn what_the_user_mounts_takes_the_place_of_ours() {
    let bench = Bench::with(&[
        r#"terminal.docker_volumes=["/w:/workspace/", "/t:/tmp"]"#,
        r#"terminal.docker_extra_args=["--mount", "type=tmpfs,target=/root", "--tmpfs", "/run:size=1m"]"#,
    ]);
    let host = bench.host();
    assert_eq!(at(&host, "/workspace"), Some(bind("/w", "/workspace", false)));
    assert_eq!(at(&host, "/tmp"), Some(bind("/t", "/tmp", false)));
    assert_eq!(host["Tmpfs"], json!({"/run": "size=1m", "/root": "rw", "/var/tmp": VAR_TMP}));
    assert_eq!(host["Mounts"].as_array().unwrap().len(), 5);
    let plan = bench.plan();
    assert!(!plan.own_workspace && !plan.own_home);

    let beside = Bench::with(&[r#"terminal.docker_volumes=["/w:/workspace2"]"#]);
    assert!(beside.plan().own_workspace);
}

#[test]
fn a_home_that_would_hide_the_image_is_not_mounted() {
    for home in ["/", "", "relative", "/a/../etc", "/proc/x", "/dev", "/.vestal/io", "/workspace"] {
        let mut bench = Bench::new();
        bench.user.home = home.into();
        assert_eq!(bench.host()["Mounts"].as_array().unwrap().len(), 4, "{home}");
        assert!(!bench.plan().own_home);
    }
    let mut bench = Bench::new();
    bench.user.home = "/home//app/".into();
    assert_eq!(at(&bench.host(), "/home/app"), Some(bind("/s/home", "/home/app", false)));
}

#[test]
fn settings_that_contradict_each_other_make_no_container() {
    let contradictory: [&[&str]; 2] = [
        &["terminal.docker_network=false", r#"terminal.docker_extra_args=["--network", "host"]"#],
        &[
            r#"terminal.docker_volumes=["/a:/x"]"#,
            r#"terminal.docker_extra_args=["--tmpfs", "/x"]"#,
        ],
    ];
    for sets in contradictory {
        let error = Bench::with(sets).try_plan().unwrap_err();
        assert!(matches!(error, BackendError::Advised { .. }), "{error}");
    }
}

#[test]
fn a_network_is_off_when_the_settings_say_so() {
    assert_eq!(Bench::new().host().get("NetworkMode"), None);
    let bench = Bench::with(&["terminal.docker_network=false"]);
    assert_eq!(bench.host()["NetworkMode"], "none");
}

#[test]
fn the_start_directory_of_one_sandbox_is_the_containers() {
    let overrides = Overrides { cwd: Some("/srv/app".into()), ..Overrides::default() };
    assert_eq!(Bench::asking(&[], &overrides).json()["WorkingDir"], "/srv/app");
}

#[test]
fn the_engine_gives_jobs_their_time_before_it_kills() {
    let bench = Bench::with(&["terminal.stop_grace_seconds=60"]);
    assert_eq!(bench.json()["StopTimeout"], 65);
}

#[test]
fn limits_are_what_the_settings_say() {
    let host = Bench::with(&[
        "terminal.container_cpu=1.5",
        "terminal.container_memory=512",
        "terminal.container_disk=2G",
        "terminal.container_pids=64",
    ])
    .host();
    assert_eq!(host["NanoCpus"], 1_500_000_000);
    assert_eq!(host["Memory"], 512 << 20);
    assert_eq!(host["StorageOpt"], json!({"size": "2048m"}));
    assert_eq!(host["PidsLimit"], 64);
    assert_eq!(host.get("MemorySwap"), None);
}

const LIMITS: [(LimitKind, &str, &str); 4] = [
    (LimitKind::Cpu, "terminal.container_cpu", "NanoCpus"),
    (LimitKind::Memory, "terminal.container_memory", "Memory"),
    (LimitKind::Disk, "terminal.container_disk", "StorageOpt"),
    (LimitKind::Pids, "terminal.container_pids", "PidsLimit"),
];

fn unable(bench: &mut Bench, kind: LimitKind) {
    match kind {
        LimitKind::Cpu => bench.info.can_limit_cpu = false,
        LimitKind::Memory => bench.info.can_limit_memory = false,
        LimitKind::Disk => bench.info.can_limit_disk = false,
        LimitKind::Pids => bench.info.can_limit_pids = false,
    }
}

#[test]
fn a_default_limit_that_cannot_be_enforced_is_left_out_and_named() {
    for (kind, key, field) in LIMITS {
        let mut unable_engine = Bench::new();
        unable(&mut unable_engine, kind);
        let mut tried_before = Bench::new();
        tried_before.leave_out = vec![kind];
        let mut required = Bench::with(&["terminal.require_limits=true"]);
        unable(&mut required, kind);
        for bench in [unable_engine, tried_before, required] {
            assert_eq!(bench.plan().unenforced, [key]);
            assert_eq!(bench.host().get(field), None, "{field}");
            assert_eq!(
                LIMITS.iter().filter(|limit| bench.host().get(limit.2).is_some()).count(),
                3
            );
        }
    }
}

#[test]
fn a_required_limit_that_cannot_be_enforced_is_an_error_with_advice() {
    for (kind, key, _) in LIMITS {
        let set = format!("{key}=100");
        let mut bench = Bench::with(&[&set]);
        unable(&mut bench, kind);
        assert_eq!(bench.plan().unenforced, [key], "left out unless it is required");
        let mut bench = Bench::with(&[&set, "terminal.require_limits=true"]);
        assert_eq!(bench.plan().unenforced, Vec::<String>::new());
        unable(&mut bench, kind);
        let error = bench.try_plan().unwrap_err();
        assert!(matches!(&error, BackendError::Unenforceable { key: named, .. } if *named == key));
        assert!(error.advice().unwrap().contains(&format!("set {key} to 0")), "{error}");
    }
}

#[test]
fn a_limit_of_none_is_neither_set_nor_missed() {
    for (kind, key, field) in LIMITS {
        let mut bench = Bench::with(&[&format!("{key}=0")]);
        unable(&mut bench, kind);
        assert_eq!(bench.plan().unenforced, Vec::<String>::new());
        assert_eq!(bench.host().get(field), None);
    }
}

#[test]
fn limits_that_the_engine_dropped_are_noticed() {
    let body = Bench::new().plan().body;
    let inspect = |host: HostConfig| ContainerInspectResponse {
        host_config: Some(host),
        ..ContainerInspectResponse::default()
    };
    let asked = body.host_config.clone().unwrap();
    assert_eq!(limits_not_applied(&inspect(asked.clone()), &body), []);
    // Podman reports a quota instead, and Docker may round.
    let quota = HostConfig { nano_cpus: Some(0), cpu_quota: Some(100_000), ..asked.clone() };
    assert_eq!(limits_not_applied(&inspect(quota), &body), []);

    let all = [LimitKind::Cpu, LimitKind::Memory, LimitKind::Pids];
    assert_eq!(limits_not_applied(&ContainerInspectResponse::default(), &body), all);
    let zeros = HostConfig {
        nano_cpus: Some(0),
        memory: Some(0),
        pids_limit: Some(-1),
        ..HostConfig::default()
    };
    assert_eq!(limits_not_applied(&inspect(zeros), &body), all);
    let engines_own = HostConfig { pids_limit: Some(2048), ..asked };
    assert_eq!(limits_not_applied(&inspect(engines_own), &body), [LimitKind::Pids]);

    let none = Bench::with(&[
        "terminal.container_cpu=0",
        "terminal.container_memory=0",
        "terminal.container_pids=0",
    ]);
    assert_eq!(limits_not_applied(&ContainerInspectResponse::default(), &none.plan().body), []);
}

#[test]
fn explicit_process_limits_give_way_to_the_users() {
    let ulimits = Some(Ulimits { nofile: 1024, nproc: 512 });
    let mut bench = Bench::new();
    bench.ulimits = ulimits;
    let limit =
        |name: &str, soft: i64, hard: i64| json!({"Name": name, "Soft": soft, "Hard": hard});
    let expected = json!([limit("nofile", 1024, 1024), limit("nproc", 512, 512)]);
    assert_eq!(bench.host()["Ulimits"], expected);

    let mut bench = Bench::with(&[r#"terminal.docker_extra_args=["--ulimit=nofile=10:20"]"#]);
    bench.ulimits = ulimits;
    let expected = json!([limit("nproc", 512, 512), limit("nofile", 10, 20)]);
    assert_eq!(bench.host()["Ulimits"], expected);
}
