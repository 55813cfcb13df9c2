//! A sandbox is what its plan says and nothing else.

#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it must be")]

mod files;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use support::{By, TestSandbox, bytes};
use vestal_testkit::namespaces::{ORDINARY_USER, is_root};
use vestal_wire::{Bind, Network, SandboxMount};

#[test]
fn a_program_becomes_the_first_process_of_a_sandbox() {
    for by in By::all() {
        let printed =
            TestSandbox::new(by).run("echo $$ $(id -u) $(id -g) $(hostname) $(pwd) $(umask)");
        assert_eq!(printed, "1 0 0 sandbox / 0022\n", "{by:?}");
    }
}

#[test]
fn only_planned_mounts_are_visible() {
    for by in By::all() {
        let sandbox = TestSandbox::new(by);
        let script = "ls -A / | tr '\\n' ' '; echo; cut -d' ' -f5 /proc/self/mountinfo";
        let printed = sandbox.run(script);
        let (names, mounts) = printed.split_once('\n').unwrap();
        let names: BTreeSet<&str> = names.split_whitespace().collect();
        let links = ["bin", "sbin", "lib", "lib64"];
        let links = links.into_iter().filter(|name| fs::read_link(format!("/{name}")).is_ok());
        let expected = [".vestal", "dev", "proc", "tmp", "usr", "workspace"];
        assert_eq!(names, expected.into_iter().chain(links).collect(), "{by:?}");
        // The root of the host is not among the mounts, nor anything below it.
        let own = ["/", "/.vestal/io", "/proc", "/dev", "/tmp", "/usr", "/workspace"];
        for mount in mounts.lines() {
            let known = own.contains(&mount)
                || mount.starts_with("/proc/")
                || mount.starts_with("/dev/")
                || mount.starts_with("/usr/");
            assert!(known, "{by:?}: {mount} is mounted");
        }
        assert_eq!(mounts.lines().filter(|mount| *mount == "/").count(), 1, "{by:?}");
    }
}

#[test]
fn the_host_is_not_found_by_any_way_out() {
    for by in By::all() {
        let sandbox = TestSandbox::new(by);
        let secret = sandbox.dir.path().join("secret");
        fs::write(&secret, "secret").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o666)).unwrap();
        let path = secret.display();
        let script = format!(
            "for root in '' /.. /../.. /proc/1/root /proc/1/root/.. /proc/1/cwd \
                 /proc/self/root /dev/fd /proc/1/fd/0 /proc/1/fd/1 /proc/1/fd/2; do \
                 cat \"$root{path}\" 2>/dev/null; \
             done; set -- /proc/[0-9]*; echo $#"
        );
        // The only process is the shell.
        assert_eq!(sandbox.run(&script), "1\n", "{by:?}");
    }
}

#[test]
fn only_the_named_descriptors_are_inherited() {
    for by in By::all() {
        let sandbox = TestSandbox::new(by);
        let plan = vestal_wire::encode(&sandbox.plan("ls -l /proc/1/fd; true"));
        let mut command = sandbox.command();
        // A shell in between leaves more descriptors open.
        let stage = command.get_program().to_owned();
        let mut leaking = std::process::Command::new("sh");
        leaking.args(["-c", "exec 7</ 8>/dev/null 9</etc; exec \"$@\"", "sh"]).arg(stage);
        for (name, value) in command.get_envs() {
            leaking.env(name, value.unwrap());
        }
        leaking.stdin(std::process::Stdio::piped());
        if by == By::Ordinary && is_root() {
            use std::os::unix::process::CommandExt as _;
            leaking.uid(ORDINARY_USER).gid(ORDINARY_USER);
        }
        command = leaking;
        let printed = sandbox.start_by(command, &plan.unwrap()).printed();
        // The number and the kind: the rest of a pipe's name is its inode.
        let open: Vec<&str> = printed
            .lines()
            .filter_map(|line| line.split_once(" -> "))
            .map(|(before, what)| (before.rsplit(' ').next().unwrap(), what))
            .flat_map(|(number, what)| [number, what.split(':').next().unwrap()])
            .collect();
        assert_eq!(open, ["0", "/dev/null", "1", "pipe", "2", "pipe"], "{by:?}");
    }
}

#[test]
fn the_environment_and_the_signals_are_the_plans_alone() {
    for by in By::all() {
        let sandbox = TestSandbox::new(by);
        let script = "tr '\\0' ' ' < /proc/1/environ; grep -E '^Sig(Blk|Ign|Cgt)' /proc/1/status \
            | tr -d '\\t' | tr '\\n' ' '; cut -d' ' -f5,6 /proc/1/stat";
        let printed = sandbox.run(script);
        let none = "0000000000000000";
        // Its group and session are its own.
        let expected = format!("PATH=/usr/bin:/bin SigBlk:{none} SigIgn:{none} ");
        assert!(printed.starts_with(&expected), "{by:?}: {printed}");
        assert!(printed.trim_end().ends_with(" 1 1"), "{by:?}: {printed}");
    }
}

#[test]
fn user_0_of_the_host_is_in_no_sandbox() {
    for by in By::all() {
        let sandbox = TestSandbox::new(by);
        let map = sandbox.run("cat /proc/self/uid_map /proc/self/gid_map");
        for line in map.lines() {
            let numbers: Vec<u64> =
                line.split_whitespace().map(|number| number.parse().unwrap()).collect();
            assert!(numbers[1] > 0, "{by:?}: {map}");
        }
        let mut plan = sandbox.plan("echo ran");
        plan.users.uids[0].outside = 0;
        let printed = sandbox.start(&plan).printed();
        assert!(printed.starts_with("error: {\"step\":\"plan\""), "{by:?}: {printed}");
    }
}

#[test]
fn every_mount_is_nosuid_and_all_but_devices_are_nodev() {
    for by in By::all() {
        let printed = TestSandbox::new(by).run("cut -d' ' -f5,6 /proc/self/mountinfo");
        for line in printed.lines() {
            let (target, options) = line.split_once(' ').unwrap();
            let options: Vec<&str> = options.split(',').collect();
            assert!(options.contains(&"nosuid"), "{by:?}: {line}");
            // A mask is /dev/null.
            let device = (target.starts_with("/dev/") && target != "/dev/shm")
                || (target.starts_with("/proc/") && options.contains(&"ro"));
            assert!(device || options.contains(&"nodev"), "{by:?}: {line}");
            let noexec = target.starts_with("/dev") || target.starts_with("/proc");
            assert_eq!(options.contains(&"noexec"), noexec, "{by:?}: {line}");
        }
    }
}

#[test]
fn a_planted_link_in_the_root_is_not_followed() {
    for by in By::all() {
        let sandbox = TestSandbox::new(by);
        let trap = sandbox.make("trap", sandbox.owner());
        for name in ["workspace", "dev", "tmp", "usr", ".vestal", "proc"] {
            symlink(&trap, sandbox.path("root").join(name)).unwrap();
        }
        fs::write(sandbox.path("root").join("file"), "in the way").unwrap();
        let mut plan = sandbox.plan("echo made > /workspace/made; ls -d /usr/bin /file/below");
        plan.mounts.push(SandboxMount::Directory { target: bytes("/file/below"), mode: 0o700 });
        assert_eq!(sandbox.start(&plan).printed(), "/file/below\n/usr/bin\n", "{by:?}");
        assert_eq!(fs::read_dir(&trap).unwrap().count(), 0, "{by:?}: the link was followed");
        assert!(sandbox.path("workspace/made").exists(), "{by:?}");
    }
}

#[test]
fn an_obstacle_in_a_directory_of_the_host_is_kept() {
    for by in By::all() {
        let sandbox = TestSandbox::new(by);
        let trap = sandbox.make("trap", sandbox.owner());
        symlink(&trap, sandbox.path("workspace/link")).unwrap();
        fs::write(sandbox.path("workspace/file"), "mine").unwrap();
        for name in ["link", "file"] {
            let mut plan = sandbox.plan("echo ran");
            let target = format!("/workspace/{name}");
            plan.mounts.push(sandbox.bind("io", &target, by == By::Root));
            let printed = sandbox.start(&plan).printed();
            let expected = format!("error: {{\"step\":\"target\",\"target\":\"{target}\"");
            assert!(printed.starts_with(&expected), "{by:?}: {printed}");
            assert!(printed.contains("in the way"), "{by:?}: {printed}");
        }
        assert_eq!(fs::read_link(sandbox.path("workspace/link")).unwrap(), trap);
        assert_eq!(fs::read(sandbox.path("workspace/file")).unwrap(), b"mine");
    }
}

#[test]
fn a_source_behind_a_link_of_the_kernels_is_refused() {
    for by in By::all() {
        let sandbox = TestSandbox::new(by);
        symlink("/proc/self/root", sandbox.path("io/link")).unwrap();
        for source in ["/proc/self/root/etc", "/proc/self/cwd", "/io/link/etc"] {
            let source = match source.strip_prefix("/io/") {
                Some(rest) => sandbox.path("io").join(rest),
                None => source.into(),
            };
            let mut plan = sandbox.plan("echo ran");
            plan.mounts.push(SandboxMount::Bind(Bind {
                source: bytes(source),
                target: bytes("/etc"),
                read_only: true,
                recursive: true,
                shifted: false,
                identity: None,
                hidden: Vec::new(),
                public_only: false,
            }));
            let printed = sandbox.start(&plan).printed();
            assert!(printed.starts_with("error: {\"step\":\"source\""), "{by:?}: {printed}");
            assert!(printed.contains("\"errno\":40,"), "{by:?}: {printed}");
        }
    }
}

#[test]
fn directories_on_the_way_to_a_target_belong_to_root_of_the_sandbox() {
    for by in By::all() {
        let sandbox = TestSandbox::new(by);
        let mut plan = sandbox.plan("stat -c '%u %a' /workspace/new /new /new/below /tmp/new");
        plan.mounts.push(sandbox.bind("io", "/workspace/new/place", by == By::Root));
        plan.mounts.push(sandbox.bind("io", "/new/below/place", by == By::Root));
        plan.mounts.push(sandbox.bind("io", "/tmp/new/place", by == By::Root));
        assert_eq!(sandbox.start(&plan).printed(), "0 755\n0 755\n0 755\n0 755\n", "{by:?}");
        let made = fs::metadata(sandbox.path("workspace/new")).unwrap();
        let workspace = fs::metadata(sandbox.path("workspace")).unwrap();
        assert_eq!(made.uid(), workspace.uid(), "{by:?}");
        let below = fs::metadata(sandbox.path("root/new/below")).unwrap();
        assert_eq!(below.uid(), fs::metadata(sandbox.path("root")).unwrap().uid(), "{by:?}");
    }
}

#[test]
fn what_reaches_the_host_through_proc_is_masked_or_read_only() {
    for by in By::all() {
        let script = "cat /proc/timer_list /proc/keys /proc/kcore 2>/dev/null | head -c 100; \
            ls -A /proc/acpi /proc/scsi 2>/dev/null | grep -v '^/proc\\|^$'; \
            for f in sys/kernel/core_pattern sys/kernel/hostname sysrq-trigger; do \
                (echo x > /proc/$f) 2>/dev/null && echo \"$f can be written\"; \
            done; echo done; cut -d' ' -f5,6 /proc/self/mountinfo";
        let printed = TestSandbox::new(by).run(script);
        let (written, mounts) = printed.split_once('\n').unwrap();
        assert_eq!(written, "done", "{by:?}");
        // The attribute applies to every owner.
        for name in ["bus", "fs", "irq", "sys", "sysrq-trigger", "timer_list", "keys"] {
            let line = mounts.lines().find(|line| line.starts_with(&format!("/proc/{name} ")));
            let held = line.is_some_and(|line| line.contains(" ro,"));
            let there = fs::exists(format!("/proc/{name}")).unwrap();
            assert_eq!(held, there, "{by:?}: {name}: {line:?}");
        }
    }
}

#[test]
fn devices_work_and_terminals_are_its_own() {
    for by in By::all() {
        let script = "head -c 4 /dev/zero | wc -c; echo lost > /dev/null; \
            head -c 8 /dev/urandom | wc -c; ls /dev/pts; echo x > /dev/shm/x && cat /dev/fd/1 \
            < /dev/null; script -qec tty /dev/null < /dev/null | tr -d '\\r'; mknod /tmp/d c 1 3 \
            2>/dev/null && echo made; ls /dev | tr '\\n' ' '";
        let printed = TestSandbox::new(by).run(script);
        let expected = "4\n8\nptmx\n/dev/pts/0\n\
            fd full null ptmx pts random shm stderr stdin stdout tty urandom zero ";
        assert_eq!(printed.replace("/dev/pts/0\n\n", "/dev/pts/0\n"), expected, "{by:?}");
    }
}

#[test]
fn memory_is_sized_and_runs_programs_only_where_it_may() {
    for by in By::all() {
        let sandbox = TestSandbox::new(by);
        let mut plan = sandbox.plan(
            "stat -c '%a %u' /tmp /run; head -c 2000000 /dev/zero > /tmp/x 2>/dev/null || echo full; \
             for d in /tmp /run; do rm -f $d/x; cp /bin/true $d/t && $d/t 2>/dev/null; echo $?; done",
        );
        let size = 1 << 20;
        plan.mounts.push(SandboxMount::Tmpfs {
            target: bytes("/run"),
            size,
            mode: 0o750,
            exec: false,
        });
        assert_eq!(sandbox.start(&plan).printed(), "1777 0\n750 0\nfull\n0\n126\n", "{by:?}");
    }
}

#[test]
fn a_network_of_its_own_has_a_loopback_and_nothing_else() {
    for by in By::all() {
        let sandbox = TestSandbox::new(by);
        let mut plan = sandbox.plan(
            "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; \
             grep -c 127.0.0.1 /proc/net/fib_trie; cat /proc/sys/net/ipv4/ping_group_range",
        );
        plan.network = Network::None;
        // All its groups may ping.
        let groups = plan.users.gids[0].count - 1;
        assert_eq!(sandbox.start(&plan).printed(), format!("lo\n2\n0\t{groups}\n"), "{by:?}");
    }
}
