use std::ffi::OsStr;

use proptest::prelude::*;

use vestal_config::Settings;

use super::super::values::{self, Protocol};
use super::*;
use crate::settings::testing::TestHome;
use crate::settings::{HostPath, Propagation, keys};

fn read(words: &[&str]) -> Result<ExtraArgs, ValueRefusal> {
    let json = serde_json::to_string(words).expect("json");
    ExtraArgs::read(SettingInput::Text(OsStr::new(&json)), &())
}

fn taken(words: &[&str]) -> ExtraArgs {
    read(words).unwrap_or_else(|refusal| panic!("{words:?} {}", refusal.reason))
}

/// What the words mean, without the words.
fn meaning(words: &[&str]) -> ExtraArgs {
    ExtraArgs { words: Vec::new(), ..taken(words) }
}

fn reason(words: &[&str]) -> String {
    read(words).expect_err("refused").reason
}

fn text(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

/// A right value for every flag that is read, and its field's content.
fn every_flag() -> Vec<(&'static str, &'static str, ExtraArgs)> {
    let e = || ExtraArgs::EMPTY;
    let some = |value: &str| Some(value.to_owned());
    let pair = |a: &str, b: &str| [(a.to_owned(), b.to_owned())].into();
    vec![
        ("--add-host", "db:10.0.0.1", ExtraArgs { add_hosts: text(&["db:10.0.0.1"]), ..e() }),
        ("--cap-add", "cap_net_admin", ExtraArgs { cap_add: text(&["NET_ADMIN"]), ..e() }),
        ("--cap-drop", "ALL", ExtraArgs { cap_drop: text(&["ALL"]), ..e() }),
        ("--cpu-shares", "512", ExtraArgs { cpu_shares: Some(512), ..e() }),
        ("-c", "512", ExtraArgs { cpu_shares: Some(512), ..e() }),
        ("--cpuset-cpus", "0-3,5", ExtraArgs { cpuset_cpus: some("0-3,5"), ..e() }),
        ("--cpuset-mems", "0", ExtraArgs { cpuset_mems: some("0"), ..e() }),
        (
            "--device",
            "/dev/kvm",
            ExtraArgs {
                devices: vec![Device {
                    host: "/dev/kvm".to_owned(),
                    container: "/dev/kvm".to_owned(),
                    permissions: "rwm".to_owned(),
                }],
                ..e()
            },
        ),
        ("--dns", "1.1.1.1", ExtraArgs { dns: text(&["1.1.1.1"]), ..e() }),
        ("--dns-option", "ndots:1", ExtraArgs { dns_options: text(&["ndots:1"]), ..e() }),
        ("--dns-opt", "ndots:1", ExtraArgs { dns_options: text(&["ndots:1"]), ..e() }),
        ("--dns-search", "corp", ExtraArgs { dns_search: text(&["corp"]), ..e() }),
        ("--gpus", "all", ExtraArgs { gpus: Some(Gpus::All), ..e() }),
        ("--group-add", "video", ExtraArgs { group_add: text(&["video"]), ..e() }),
        ("--hostname", "box", ExtraArgs { hostname: some("box"), ..e() }),
        ("-h", "box", ExtraArgs { hostname: some("box"), ..e() }),
        ("--ipc", "shareable", ExtraArgs { ipc: some("shareable"), ..e() }),
        ("--label", "a=b=c", ExtraArgs { labels: pair("a", "b=c"), ..e() }),
        ("-l", "a", ExtraArgs { labels: pair("a", ""), ..e() }),
        ("--memory-reservation", "64m", ExtraArgs { memory_reservation: Some(64 << 20), ..e() }),
        ("--memory-swap", "-1", ExtraArgs { memory_swap: Some(-1), ..e() }),
        ("--memory-swappiness", "0", ExtraArgs { memory_swappiness: Some(0), ..e() }),
        (
            "--mount",
            "type=tmpfs,target=/cache",
            ExtraArgs {
                mounts: vec![MountFlag {
                    kind: MountKind::Tmpfs { size: None, mode: None },
                    target: "/cache".to_owned(),
                    read_only: false,
                }],
                ..e()
            },
        ),
        ("--network", "backend", ExtraArgs { network: some("backend"), ..e() }),
        ("--net", "none", ExtraArgs { network: some("none"), ..e() }),
        ("--oom-score-adj", "-500", ExtraArgs { oom_score_adj: Some(-500), ..e() }),
        ("--pid", "host", ExtraArgs { pid: some("host"), ..e() }),
        ("--platform", "linux/arm64/v8", ExtraArgs { platform: some("linux/arm64/v8"), ..e() }),
        (
            "--publish",
            "8080:80",
            ExtraArgs { publish: vec![port(None, "8080", 80, Protocol::Tcp)], ..e() },
        ),
        ("-p", "80", ExtraArgs { publish: vec![port(None, "", 80, Protocol::Tcp)], ..e() }),
        ("--runtime", "runsc", ExtraArgs { runtime: some("runsc"), ..e() }),
        (
            "--security-opt",
            "apparmor=mine",
            ExtraArgs { security_opt: vec![SecurityOption::AppArmor("mine".to_owned())], ..e() },
        ),
        ("--shm-size", "1.5g", ExtraArgs { shm_size: Some(3 << 29), ..e() }),
        (
            "--sysctl",
            "net.core.somaxconn=1024",
            ExtraArgs { sysctls: pair("net.core.somaxconn", "1024"), ..e() },
        ),
        ("--tmpfs", "/t:size=64m,exec", ExtraArgs { tmpfs: pair("/t", "size=64m,exec"), ..e() }),
        (
            "--ulimit",
            "nofile=1024:4096",
            ExtraArgs {
                ulimits: vec![Ulimit { name: "nofile".to_owned(), soft: 1024, hard: 4096 }],
                ..e()
            },
        ),
        ("--user", "app:1000", ExtraArgs { user: some("app:1000"), ..e() }),
        ("-u", "0", ExtraArgs { user: some("0"), ..e() }),
        ("--userns", "keep-id", ExtraArgs { userns: some("keep-id"), ..e() }),
        ("--uts", "host", ExtraArgs { uts: some("host"), ..e() }),
    ]
}

fn port(ip: Option<&str>, host: &str, container: u16, protocol: Protocol) -> PortMapping {
    PortMapping {
        host_ip: ip.map(|ip| ip.parse().expect("an address")),
        host_port: host.to_owned(),
        container_port: container,
        protocol,
    }
}

#[test]
fn every_flag_is_read_in_one_word_and_in_two() {
    for (flag, value, expected) in every_flag() {
        assert_eq!(meaning(&[flag, value]), expected, "{flag} {value}");
        assert_eq!(meaning(&[&format!("{flag}={value}")]), expected, "{flag}={value}");
        if flag.len() == 2 {
            assert_eq!(meaning(&[&format!("{flag}{value}")]), expected, "{flag}{value}");
        }
    }
}

#[test]
fn every_flag_that_is_listed_was_tried_above() {
    let tried: Vec<_> = every_flag().into_iter().map(|(flag, ..)| flag).collect();
    let switches = ["--init", "--privileged", "--read-only"];
    for listed in flags::mapped() {
        for flag in listed.split('/') {
            assert!(tried.contains(&flag) || switches.contains(&flag), "{flag}");
        }
    }
}

#[test]
fn switches_may_be_turned_off() {
    let on = meaning(&["--privileged", "--init=true", "--read-only=1"]);
    assert_eq!(on, ExtraArgs { privileged: true, init: true, read_only: true, ..ExtraArgs::EMPTY });
    assert_eq!(meaning(&["--privileged", "--privileged=false"]), ExtraArgs::EMPTY);
    assert_eq!(
        reason(&["--privileged=maybe"]),
        "holds --privileged with something else than true or false"
    );
    // What follows a switch is another word, not its value.
    assert_eq!(reason(&["--privileged", "false"]), "holds \"false\" where a flag is expected");
}

#[test]
fn words_are_kept_as_they_were_given() {
    let words = ["--cap-add", "SYS_PTRACE", "--shm-size=1g"];
    let args = taken(&words);
    assert_eq!(args.words(), words);
    assert_eq!(args.to_value().to_string(), r#"["--cap-add", SYS_PTRACE, "--shm-size=1g"]"#);
    assert!(taken(&[]).is_empty());
}

#[test]
fn lists_grow_and_single_values_are_replaced() {
    let args = taken(&["--dns=1.1.1.1", "--dns=::1", "--pid=host", "--pid=container:x"]);
    assert_eq!(args.dns, ["1.1.1.1", "::1"]);
    assert_eq!(args.pid.as_deref(), Some("container:x"));
    let args = taken(&["--ulimit=nofile=1", "--ulimit=nproc=5", "--ulimit=nofile=2:3"]);
    let limits: Vec<_> = args.ulimits.iter().map(|l| (l.name.as_str(), l.soft, l.hard)).collect();
    assert_eq!(limits, [("nproc", 5, 5), ("nofile", 2, 3)]);
}

#[test]
fn a_flag_with_a_key_of_its_own_is_refused_with_that_key() {
    for (words, advice) in [
        (&["--env", "A=b"][..], "use terminal.docker_env or terminal.docker_forward_env"),
        (&["-eA=b"], "use terminal.docker_env or terminal.docker_forward_env"),
        (&["--env-file=x"], "use terminal.docker_env or terminal.docker_forward_env"),
        (&["--env A=b"], "use terminal.docker_env or terminal.docker_forward_env"),
        (&["-v", "/a:/b"], "use terminal.docker_volumes"),
        (&["--volume=/a:/b"], "use terminal.docker_volumes"),
        (&["--volume /a:/b"], "use terminal.docker_volumes"),
        (&["-w", "/x"], "use terminal.cwd"),
        (&["--workdir=/x"], "use terminal.cwd"),
        (&["--cpus=2"], "use terminal.container_cpu"),
        (&["-m", "1g"], "use terminal.container_memory, in MB"),
        (&["--memory=1g"], "use terminal.container_memory, in MB"),
        (&["--pids-limit=1"], "use terminal.container_pids"),
        (&["--storage-opt=size=1g"], "use terminal.container_disk, in MB"),
        (
            &["--name=x"],
            "Vestal names its containers, so that it finds them again; name the task instead (-t)",
        ),
        (&["--restart=always"], "Vestal starts a stopped container when it is used again"),
    ] {
        let refusal = read(words).expect_err("refused");
        assert_eq!(refusal.suggestion.as_deref(), Some(advice), "{words:?}");
        assert!(refusal.reason.ends_with(", which is not taken from here"), "{}", refusal.reason);
    }
    for word in
        ["--rm", "-d", "--detach", "-i", "-t", "-it", "--tty", "--interactive", "--entrypoint=x"]
    {
        assert!(read(&[word]).expect_err("refused").suggestion.is_some(), "{word}");
    }
}

#[test]
fn any_other_flag_is_named_and_the_mapped_ones_are_listed() {
    let settings = TestHome::new()
        .settings(&[("TERMINAL_DOCKER_EXTRA_ARGS", r#"["--log-driver=none"]"#)], &[]);
    let error = settings.get(&keys::DOCKER_EXTRA_ARGS).expect_err("refused").to_string();
    let start = "terminal.docker_extra_args is \"[\\\"--log-driver=none\\\"]\" (environment variable \
                 TERMINAL_DOCKER_EXTRA_ARGS), which holds --log-driver, which is not a flag that Vestal maps; \
                 allowed: a list of words as for docker run, of the flags --add-host, --cap-add, ";
    assert!(error.starts_with(start), "{error}");
    assert!(error.ends_with("--userns, --uts"), "{error}");
    for words in [&["--"][..], &["-"], &[""], &["run"], &["---x"], &["-Z"], &["--shm"], &["-P"]] {
        assert!(read(words).is_err(), "{words:?}");
    }
    assert_eq!(reason(&["--cap-add"]), "ends in --cap-add, which needs a value");
    let refusal = read(&["--shm-size 1g"]).expect_err("refused");
    assert_eq!(refusal.reason, "holds --shm-size and its value in one word");
    assert_eq!(
        refusal.suggestion.as_deref(),
        Some("write them as two words or as --shm-size=VALUE")
    );
}

#[test]
fn a_secret_given_by_a_flag_is_in_no_message() {
    let late = format!(r#"["--label=a={}", "--cap-add", "-eA=hunter2"]"#, "x".repeat(200));
    for words in [
        r#"["--env", "TOKEN=hunter2"]"#,
        r#"["-eTOKEN=hunter2"]"#,
        r#"["--env TOKEN=hunter2"]"#,
        r#"["--frobnicate", "-e", "TOKEN=hunter2"]"#,
        r#"["--cap-add", "?", "--env=TOKEN=hunter2"]"#,
        r#"["--cap-add", "--env=TOKEN=hunter2"]"#,
        "--env TOKEN=hunter2",
        "-e TOKEN=hunter2",
        &late,
    ] {
        let settings: Settings =
            TestHome::new().settings(&[("TERMINAL_DOCKER_EXTRA_ARGS", words)], &[]);
        let error = settings.get(&keys::DOCKER_EXTRA_ARGS).expect_err("refused");
        let shown = format!("{error} {error:?} {:?} {:?}", settings.rows(), settings.check());
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(error.to_string().contains("use terminal.docker_env"), "{error}");
    }
}

#[test]
fn a_wrong_value_is_refused_with_flag_and_reason() {
    assert_eq!(
        reason(&["--ulimit", "nofiles=1"]),
        "holds --ulimit \"nofiles=1\", which names no limit; there are core, cpu, data, fsize, locks, \
         memlock, msgqueue, nice, nofile, nproc, rss, rtprio, rttime, sigpending, stack"
    );
    assert_eq!(
        reason(&["--label=Vestal-key=x"]),
        "holds --label \"Vestal-key=x\", which is one of Vestal's own, by which it finds its containers"
    );
    assert_eq!(
        reason(&["--tmpfs=/.vestal/x"]),
        "holds --tmpfs \"/.vestal/x\", which has the target \"/.vestal/x\", where Vestal's own files are"
    );
    for word in [
        "--add-host=db",
        "--add-host=db:nowhere",
        "--add-host=:1.1.1.1",
        "--cap-add=",
        "--cap-add=NET ADMIN",
        "--cpu-shares=1",
        "--cpuset-cpus=3-1",
        "--cpuset-cpus=",
        "--device=kvm",
        "--device=/dev/kvm:/dev/kvm:x",
        "--device=/dev/kvm:/dev/kvm:rr",
        "--device=nvidia.com/gpu=all",
        "--dns=resolver",
        "--dns-search=",
        "--gpus=0",
        "--gpus=some",
        "--gpus=device=",
        "--hostname=-x",
        "--hostname=a..b",
        "--ipc=mine",
        "--label==x",
        "--memory-swap=0",
        "--memory-swap=-2",
        "--memory-reservation=lots",
        "--memory-swappiness=101",
        "--network=",
        "--network=name=x,alias=y",
        "--oom-score-adj=1001",
        "--pid=private",
        "--platform=a/b/c/d",
        "--publish=",
        "--publish=0",
        "--publish=70000",
        "--publish=80:80/icmp",
        "--publish=1-2:1-3",
        "--publish=host:80:80",
        "--publish=1-65535",
        "--security-opt=magic",
        "--security-opt=seccomp=profile.json",
        "--security-opt=no-new-privileges=perhaps",
        "--shm-size=0",
        "--shm-size=1x",
        "--shm-size=99999999999g",
        "--sysctl=net.core",
        "--tmpfs=tmp",
        "--tmpfs=/",
        "--ulimit=nofile=5:1",
        "--ulimit=nofile=-1:5",
        "--ulimit=nofile",
        "--uts=container:x",
    ] {
        let refusal = read(&[word]).expect_err(word);
        assert!(refusal.reason.starts_with("holds --"), "{word}: {}", refusal.reason);
    }
}

#[test]
fn mounts_have_the_parts_of_their_kind() {
    let mount = |text: &str| MountFlag::parse(text);
    assert_eq!(
        mount("type=bind,src=~/src,dst=/src/,ro,bind-propagation=rslave"),
        Ok(MountFlag {
            kind: MountKind::Bind {
                source: HostPath::new("~/src").expect("a path"),
                propagation: Some(Propagation::Rslave),
            },
            target: "/src".to_owned(),
            read_only: true,
        })
    );
    assert_eq!(
        mount("source=cache,target=/cache,readonly=false,volume-nocopy"),
        Ok(MountFlag {
            kind: MountKind::Volume { name: Some("cache".to_owned()), no_copy: true },
            target: "/cache".to_owned(),
            read_only: false,
        })
    );
    assert_eq!(
        mount("type=tmpfs,destination=/t,tmpfs-size=64m,tmpfs-mode=1770").map(|m| m.kind),
        Ok(MountKind::Tmpfs { size: Some(64 << 20), mode: Some(0o1770) })
    );
    for (text, reason) in [
        ("type=bind,source=/a", "has no target"),
        ("type=bind,target=/a", "has no source"),
        ("type=bind,source=a,target=/a", "has the source \"a\", which is a relative path"),
        ("type=bind,source,target=/a", "has source without a value"),
        ("type=npipe,target=/a", "has the type \"npipe\"; there are bind, volume and tmpfs"),
        ("type=tmpfs,source=/a,target=/a", "has a source, but type=tmpfs"),
        (
            "type=bind,source=/a,target=/a,tmpfs-size=1",
            "has tmpfs-size, which is for type=tmpfs only",
        ),
        (
            "type=volume,source=/a,target=/a",
            "has the source \"/a\", which is not the name of a volume (type=bind mounts paths)",
        ),
        ("type=tmpfs,target=/", "has the target /, which would hide the image"),
        ("type=tmpfs,target=/a,ro=maybe", "has ro with something else than true or false"),
    ] {
        assert_eq!(mount(text), Err(reason.to_owned()), "{text}");
    }
    assert!(mount("type=tmpfs,target=/a,colour=red").is_err());
    assert!(mount("").is_err());
    assert!(
        reason(&["--tmpfs=/a", "--mount=type=tmpfs,dst=/a/"])
            .ends_with("mounts a second thing at /a")
    );
}

#[test]
fn ports_are_published_one_by_one() {
    let publish = |text: &str| taken(&["-p", text]).publish;
    assert_eq!(
        publish("127.0.0.1:8000-8001:80-81/udp"),
        [
            port(Some("127.0.0.1"), "8000", 80, Protocol::Udp),
            port(Some("127.0.0.1"), "8001", 81, Protocol::Udp),
        ]
    );
    assert_eq!(publish("[::1]::80"), [port(Some("::1"), "", 80, Protocol::Tcp)]);
    assert_eq!(publish("8000-8010:80"), [port(None, "8000-8010", 80, Protocol::Tcp)]);
    assert_eq!(publish("80/sctp"), [port(None, "", 80, Protocol::Sctp)]);
}

#[test]
fn hosts_devices_and_processors_have_several_forms() {
    let args = taken(&[
        "--add-host=a=::1",
        "--add-host=b:[::1]",
        "--add-host=c:host-gateway",
        "--device=/dev/a:r",
        "--device=/dev/a:/dev/b:rw",
        "--gpus=\"device=0,GPU-3a\"",
    ]);
    assert_eq!(args.add_hosts, ["a:::1", "b:::1", "c:host-gateway"]);
    let devices: Vec<_> = args.devices.iter().map(ToString::to_string).collect();
    assert_eq!(devices, ["/dev/a:/dev/a:r", "/dev/a:/dev/b:rw"]);
    assert_eq!(args.gpus, Some(Gpus::Devices(text(&["0", "GPU-3a"]))));
    assert_eq!(taken(&["--gpus=count=2"]).gpus, Some(Gpus::Count(2)));
}

#[test]
fn sizes_are_those_of_docker_run() {
    for (text, bytes) in [
        ("65536", Some(65_536)),
        ("64k", Some(65_536)),
        ("64KB", Some(65_536)),
        ("64KiB", Some(65_536)),
        ("1.5g", Some(3 << 29)),
        ("1 t", Some(1 << 40)),
        ("10b", Some(10)),
        ("", None),
        ("g", None),
        ("1ib", None),
        ("1.g", None),
        ("-1", None),
        ("1e3", None),
        ("99999999999999999999", None),
        ("18446744073709551615k", None),
    ] {
        assert_eq!(values::bytes(text), bytes, "{text}");
    }
}

#[test]
fn what_weakens_isolation_is_named() {
    assert_eq!(ExtraArgs::EMPTY.weakens(), [""; 0]);
    let safe = [
        "--cap-drop=ALL",
        "--security-opt=no-new-privileges",
        "--security-opt=seccomp=/etc/strict.json",
        "--security-opt=apparmor=mine",
        "--security-opt=label=type:mine",
        "--network=none",
        "--ipc=private",
        "--userns=keep-id",
        "--mount=type=bind,src=/srv,dst=/srv",
        "--privileged=false",
        "--read-only",
    ];
    assert_eq!(taken(&safe).weakens(), [""; 0]);
    let words = [
        "--privileged",
        "--cap-add=SYS_ADMIN",
        "--security-opt=seccomp=unconfined",
        "--security-opt=seccomp:unconfined",
        "--security-opt=apparmor=unconfined",
        "--security-opt=label=disable",
        "--security-opt=no-new-privileges=false",
        "--security-opt=systempaths=unconfined",
        "--pid=host",
        "--ipc=container:x",
        "--uts=host",
        "--userns=host",
        "--network=host",
        "--device=/dev/kvm",
        "--gpus=all",
        "--mount=type=bind,src=/var/run/docker.sock,dst=/s",
        "--mount=type=bind,src=/,dst=/host,ro",
    ];
    assert_eq!(
        taken(&words).weakens(),
        [
            "--privileged",
            "--cap-add SYS_ADMIN",
            "--security-opt seccomp=unconfined",
            "--security-opt seccomp=unconfined",
            "--security-opt apparmor=unconfined",
            "--security-opt label=disable",
            "--security-opt no-new-privileges=false",
            "--security-opt systempaths=unconfined",
            "--pid host",
            "--ipc container:x",
            "--uts host",
            "--userns host",
            "--network host",
            "--device /dev/kvm:/dev/kvm:rwm",
            "--gpus all",
            "--mount at /s mounts the socket of a container engine",
            "--mount at /host mounts the whole filesystem of the host",
        ]
    );
}

proptest! {
    #[test]
    fn no_words_panic(words in prop::collection::vec(any::<String>(), 0..5)) {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        drop(read(&words).map(|args| args.weakens()));
    }

    #[test]
    fn no_value_of_any_flag_panics(
        flag in prop::sample::select(flags::mapped()),
        value in "([-a-z0-9=:,./\\[\\]\"~%]|é){0,16}",
    ) {
        let flag = flag.split('/').next().unwrap_or_default().to_owned();
        for words in [vec![format!("{flag}={value}")], vec![flag, value]] {
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            drop(read(&words).map(|args| args.weakens()));
        }
    }
}

#[test]
fn words_that_only_loosen_do_not_isolate_more() {
    let cases: &[(&[&str], &[&str])] = &[
        (&[], &["--cap-add", "SYS_PTRACE"]),
        (&[], &["--privileged"]),
        (&[], &["--network", "host"]),
        (&[], &["--publish", "8080:80"]),
        (&[], &["--shm-size", "1g"]),
        (&[], &["--security-opt", "seccomp=unconfined"]),
        (&[], &["--hostname", "box"]),
        (&["--cap-drop", "ALL"], &[]),
        (&["--read-only"], &[]),
        (&["--user", "1000"], &[]),
        (&["--memory-swap", "1g"], &["--memory-swap", "-1"]),
    ];
    for (was, now) in cases {
        assert!(!taken(now).may_isolate_more_than(&taken(was)), "{was:?} {now:?}");
    }
}

#[test]
fn words_that_take_something_away_or_restrict_may_isolate_more() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["--cap-add", "SYS_PTRACE"], &[]),
        (&["--privileged"], &[]),
        (&["--network", "host"], &[]),
        (&["--network", "one"], &["--network", "two"]),
        (&[], &["--network", "none"]),
        (&["--publish", "8080:80"], &[]),
        (&["--mount", "type=bind,src=/srv,dst=/srv"], &[]),
        (&["--shm-size", "1g"], &[]),
        (&["--group-add", "docker"], &[]),
        (&[], &["--cap-drop", "ALL"]),
        (&[], &["--read-only"]),
        (&[], &["--user", "1000"]),
        (&[], &["--runtime", "runsc"]),
        (&[], &["--cpuset-cpus", "0"]),
        (&[], &["--ulimit", "nofile=1024"]),
        (&[], &["--security-opt", "no-new-privileges"]),
        (&["--cap-add", "SYS_PTRACE"], &["--privileged"]),
    ];
    for (was, now) in cases {
        assert!(taken(now).may_isolate_more_than(&taken(was)), "{was:?} {now:?}");
    }
}
