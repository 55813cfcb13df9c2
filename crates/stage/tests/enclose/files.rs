//! Files of the host and layers in a sandbox, and the record of its first process.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use vestal_testkit::{is_alive, wait_until};
use vestal_wire::{Bind, OverlayDirs, Purpose, Root, SandboxMount};

use crate::support::{self, By, SHIFTED, TestSandbox, bytes, end};

#[test]
fn a_read_only_bind_cannot_be_written_and_a_file_can_be_bound() {
    for by in By::all() {
        let sandbox = TestSandbox::new(by);
        fs::write(sandbox.path("io/file"), "content").unwrap();
        let mut plan = sandbox.plan("cat /etc/file; (echo x > /etc/file) 2>&1 | grep -c Read-only");
        plan.mounts.push(SandboxMount::Bind(Bind {
            source: bytes(sandbox.path("io/file")),
            target: bytes("/etc/file"),
            read_only: true,
            recursive: false,
            shifted: false,
            identity: None,
            hidden: Vec::new(),
            public_only: false,
        }));
        assert_eq!(sandbox.start(&plan).printed(), "content1\n", "{by:?}");
        assert_eq!(fs::read(sandbox.path("io/file")).unwrap(), b"content", "{by:?}");
    }
}

#[test]
fn the_record_is_there_before_anything_runs_and_names_the_first_process() {
    for by in By::all() {
        let sandbox = TestSandbox::new(by);
        let mut plan = sandbox.plan("cat /.vestal/io/init.json; echo; exec sleep 1000");
        let Purpose::Serve { record, .. } = &mut plan.purpose else { unreachable!() };
        let path = sandbox.path("io/init.json");
        *record = bytes(&path);
        let stage = sandbox.start(&plan);
        let seen = stage.line();
        let record = fs::read_to_string(&path).unwrap();
        assert_eq!(seen, record.trim_end(), "{by:?}");
        let pid: u32 = record.split(['{', ':', ',']).nth(2).unwrap().parse().unwrap();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let start = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let expected =
            format!("{{\"pid\":{pid},\"pid_start\":{start},\"boot\":\"{}\"}}\n", boot.trim());
        assert_eq!(record, expected, "{by:?}");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600, "{by:?}");
        end(pid);
        assert!(!is_alive(pid));
        assert_eq!(fs::read_dir(sandbox.path("io")).unwrap().count(), 1, "{by:?}");
    }
}

#[test]
fn the_first_process_is_put_into_cgroups_before_anything_runs() {
    for by in By::all() {
        let sandbox = TestSandbox::new(by);
        let list = sandbox.path("io/procs");
        fs::write(&list, "").unwrap();
        fs::set_permissions(&list, fs::Permissions::from_mode(0o666)).unwrap();
        let mut plan = sandbox.plan("cat /.vestal/io/procs; exec sleep 1000");
        plan.cgroups = vec![bytes(&list)];
        let stage = sandbox.start(&plan);
        let seen = stage.line();
        let first = stage.first();
        // 0 stands for the writing process; its children start in the same group.
        assert_eq!(seen, "0", "{by:?}");
        end(first);
    }
}

#[test]
fn a_stage_is_gone_when_the_guest_runs_and_the_sandbox_stays() {
    for by in By::all() {
        let sandbox = TestSandbox::new(by);
        let stage = sandbox.start(&sandbox.plan("echo up; exec sleep 1000"));
        assert_eq!(stage.line(), "up", "{by:?}");
        let first = stage.first();
        wait_until("only the first process runs", || support::processes_of(&sandbox) == [first]);
        drop(stage);
        assert!(is_alive(first), "{by:?}");
        end(first);
        support::assert_nothing_runs(&sandbox, "ended");
    }
}

/// What root builds: files of the host as the sandbox's users.
#[test]
fn root_of_a_sandbox_changes_layers_and_not_the_host() {
    if !By::all().contains(&By::Root) {
        return;
    }
    let sandbox = TestSandbox::new(By::Root);
    let mut plan = sandbox.plan(
        "stat -c '%u:%g' /usr/bin /usr/bin/env; echo new > /usr/bin/new-program; \
         rm /usr/bin/env; stat -c '%u' /usr/bin/new-program; touch /workspace/made; \
         chown 33:44 /workspace/made; stat -c '%u:%g' /workspace/made; cat /proc/self/mountinfo \
         | grep ' /usr ' | grep -c /proc/self/fd; for a in trusted.overlay.opaque user.x; do \
         setfattr -n $a -v y /usr/bin/new-program 2>/dev/null; done; echo done",
    );
    plan.capabilities = 0xfb;
    let printed = sandbox.start(&plan).printed();
    assert_eq!(printed, "0:0\n0:0\n0\n33:44\n1\ndone\n");
    let program = fs::metadata(sandbox.path("upper/bin/new-program")).unwrap();
    assert_eq!((program.uid(), program.gid()), (SHIFTED, SHIFTED));
    let whiteout = fs::metadata(sandbox.path("upper/bin/env")).unwrap();
    assert_eq!(whiteout.rdev(), 0);
    assert!(fs::metadata("/usr/bin/env").unwrap().len() > 0);
    assert!(!fs::exists("/usr/bin/new-program").unwrap());
    let made = fs::metadata(sandbox.path("workspace/made")).unwrap();
    assert_eq!((made.uid(), made.gid()), (33, 44));
}

#[test]
fn layers_can_be_the_root() {
    for by in By::all() {
        let sandbox = TestSandbox::new(by);
        // A lower whose owners are the sandbox's own users.
        let lower = sandbox.make("lower", sandbox.owner().filter(|_| by == By::Ordinary));
        fs::write(lower.join("old"), "old").unwrap();
        let mut plan = sandbox.plan("cat /old; rm /old; echo new > /new; ls / | grep -c old");
        plan.root = Root::Overlay(OverlayDirs {
            lower: bytes(&lower),
            shifted: by == By::Root,
            upper: bytes(sandbox.make("top", sandbox.owner())),
            work: bytes(sandbox.make("top-work", sandbox.owner())),
            hidden: Vec::new(),
            public_only: false,
        });
        plan.capabilities = 0xfb;
        assert_eq!(sandbox.start(&plan).printed(), "old0\n", "{by:?}");
        assert_eq!(fs::read(lower.join("old")).unwrap(), b"old", "{by:?}");
        assert_eq!(fs::read(sandbox.path("top/new")).unwrap(), b"new\n", "{by:?}");
        assert_eq!(fs::metadata(sandbox.path("top/old")).unwrap().rdev(), 0, "{by:?}");
    }
}

#[test]
fn a_link_that_is_there_stays_and_an_empty_directory_becomes_one() {
    for by in By::all() {
        let sandbox = TestSandbox::new(by);
        symlink("elsewhere", sandbox.path("root/there")).unwrap();
        fs::create_dir(sandbox.path("root/empty")).unwrap();
        fs::create_dir_all(sandbox.path("root/full/below")).unwrap();
        let mut plan = sandbox.plan("readlink /there /empty; ls /full");
        for target in ["/there", "/empty", "/full"] {
            plan.mounts.push(SandboxMount::Symlink { target: bytes(target), text: bytes("text") });
        }
        assert_eq!(sandbox.start(&plan).printed(), "elsewhere\ntext\nbelow\n", "{by:?}");
    }
}

#[test]
fn what_is_hidden_is_not_there_and_the_rest_is_as_on_the_host() {
    // The second time the kernel keeps more away: a directory that not everyone may list.
    for (public_only, mode) in [(false, 0o751), (true, 0o755)] {
        hidden_is_not_there(public_only, mode);
    }
}

fn hidden_is_not_there(public_only: bool, mode: u32) {
    let Some(by) = By::all().into_iter().find(|by| *by == By::Root) else {
        return;
    };
    let sandbox = TestSandbox::new(by);
    let host = sandbox.make("host", Some(0));
    for dir in ["tool/etc", "tool/vault/deep", "tool/share"] {
        sandbox.make(&format!("host/{dir}"), Some(0));
    }
    for file in ["tool/etc/key", "tool/etc/public", "tool/vault/deep/key", "tool/share/text"] {
        fs::write(host.join(file), "content\n").unwrap();
    }
    fs::set_permissions(host.join("tool"), fs::Permissions::from_mode(mode)).unwrap();
    std::os::unix::fs::chown(host.join("tool/etc"), Some(0), Some(7)).unwrap();
    let old = fs::File::open(host.join("tool/etc")).unwrap();
    old.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_hours(24)).unwrap();
    let hidden = ["tool/etc/key", "tool/vault", "tool/vault/deep/key", "tool/gone/key"];
    let hidden: Vec<_> = hidden.map(bytes).to_vec();
    let mut plan = sandbox.plan(
        "for lower in /layers /shown; do cd $lower/tool
         find . -printf '%p %m %U:%G\\n' | sort; cat etc/key vault/deep/key etc/public
         stat -c %Y etc; done 2> /dev/null
         cd /layers/tool && echo own > etc/key && mkdir vault && echo more >> etc/public &&
             mv etc/public share && rm -r etc && mkdir -m 700 etc && find . | sort
         cat share/public; ls vault; echo > /shown/tool/x || echo read-only",
    );
    for name in ["layers-upper", "layers-work"] {
        sandbox.make(name, sandbox.owner());
    }
    plan.mounts.push(SandboxMount::Overlay {
        target: bytes("/layers"),
        layers: OverlayDirs {
            lower: bytes(&host),
            shifted: true,
            upper: bytes(sandbox.path("layers-upper")),
            work: bytes(sandbox.path("layers-work")),
            hidden: hidden.clone(),
            public_only,
        },
    });
    plan.mounts.push(SandboxMount::Bind(Bind {
        source: bytes(&host),
        target: bytes("/shown"),
        read_only: true,
        recursive: false,
        shifted: true,
        identity: None,
        hidden,
        public_only,
    }));
    let seen = format!(
        ". {mode:o} 0:0\n./etc 755 0:7\n./etc/public 644 0:0\n./share 755 0:0\n\
         ./share/text 644 0:0\ncontent\n86400\n"
    );
    let changed = ".\n./etc\n./share\n./share/public\n./share/text\n./vault\n\
                   content\nmore\nread-only\n";
    assert_eq!(sandbox.start(&plan).printed(), format!("{seen}{seen}{changed}"));
    let kept = fs::read_to_string(host.join("tool/etc/key")).unwrap();
    assert_eq!(kept, "content\n");
}

#[test]
fn what_not_everyone_may_read_cannot_be_read_by_root_of_a_sandbox_who_owns_it_there() {
    let Some(by) = By::all().into_iter().find(|by| *by == By::Root) else {
        return;
    };
    let sandbox = TestSandbox::new(by);
    let host = sandbox.make("host", Some(0));
    sandbox.make("host/vault", Some(0));
    let files = [("key", 0o600), ("settings", 0o640), ("vault/inner", 0o644), ("late", 0o644)];
    for (file, mode) in files.into_iter().chain([("public", 0o644)]) {
        fs::write(host.join(file), "content\n").unwrap();
        fs::set_permissions(host.join(file), fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::set_permissions(host.join("vault"), fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(host.join("settings"), Some(0), Some(7)).unwrap();
    let closed = sandbox.path("workspace/closed");
    assert!(std::process::Command::new("mkfifo").arg(&closed).status().unwrap().success());
    let mut plan = sandbox.plan(
        "for top in /layers /shown; do cd $top
           cat key settings vault/inner; ls vault; head -c 9 < key; cp key /tmp/stolen
           ln key linked; mv key moved; chmod 755 key vault; ls vault
           cat linked moved key vault/inner
           cat late public
         done 2> /dev/null
         echo ready; read over < /workspace/closed
         cat /layers/late /shown/late /tmp/stolen 2> /dev/null
         cd /layers && echo own > new && mv new key && cat key && echo more >> public &&
           cat public && stat -c %a:%u vault",
    );
    plan.capabilities = 0xfb;
    for name in ["layers-upper", "layers-work"] {
        sandbox.make(name, sandbox.owner());
    }
    plan.mounts.push(SandboxMount::Overlay {
        target: bytes("/layers"),
        layers: OverlayDirs {
            lower: bytes(&host),
            shifted: true,
            upper: bytes(sandbox.path("layers-upper")),
            work: bytes(sandbox.path("layers-work")),
            hidden: Vec::new(),
            public_only: true,
        },
    });
    plan.mounts.push(SandboxMount::Bind(Bind {
        source: bytes(&host),
        target: bytes("/shown"),
        read_only: true,
        recursive: false,
        shifted: true,
        identity: None,
        hidden: Vec::new(),
        public_only: true,
    }));
    let stage = sandbox.start(&plan);
    for line in ["content"; 4].into_iter().chain(["ready"]) {
        assert_eq!(stage.line(), line);
    }
    // What becomes private later is private from then on.
    fs::set_permissions(host.join("late"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&closed, "now\n").unwrap();
    assert_eq!(stage.printed(), "own\ncontent\nmore\n755:0\n");
    assert_eq!(fs::read_to_string(host.join("key")).unwrap(), "content\n");
}
