//! Sandboxes that are kept apart from the machine they are on.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use vestal_sandbox::backend::Availability;
use vestal_sandbox::{Command, Error, TaskName};

use crate::support::{Gate, BackendFixture, until};

const NATIVE: &str = "terminal.ssh_isolation=native";

/// Says for whom on the machine cases are run: an ordinary user and root.
const USERS: [&str; 2] = ["tester", "root"];

#[tokio::test]
async fn what_runs_in_it_sees_and_changes_nothing_of_its_machine() {
    for user in USERS {
        let fixture = BackendFixture::ssh_isolated_for(user);
        let host = fixture.machine().host();
        let there = host.home_there().display().to_string();
        host.run(&["sh", "-c", "mkdir -p /opt/vault /opt/open /srv/data; \
            echo secret > /opt/vault/key; chmod 700 /opt/vault; \
            echo secret > /opt/open/key; chmod 600 /opt/open/key; chmod 755 /opt/open; \
            echo public > /opt/open/public; chmod 644 /opt/open/public; \
            echo secret > /srv/data/file; chmod -R 777 /srv/data"]);
        let attempts = [
            format!("cat {there}/.ssh/authorized_keys"),
            format!("ls {there}/.vestal-ssh"),
            "cat /srv/data/file".to_owned(),
            "cat /opt/vault/key".to_owned(),
            "cat /opt/open/key".to_owned(),
            "cat /etc/ssh/sshd_config".to_owned(),
            "touch /usr/planted".to_owned(),
            "touch /etc/planted".to_owned(),
            "touch /opt/open/planted".to_owned(),
            "mount -t tmpfs x /mnt".to_owned(),
            "chroot / true".to_owned(),
        ];
        for attempt in attempts {
            let output = fixture.run(&attempt).await;
            assert_ne!(output.exit.code, Some(0), "{user}: {attempt}: {}", output.stdout.text());
        }
        let processes = fixture.run("ls -d /proc/[0-9]* | wc -l").await.stdout.text();
        assert!(processes.trim().parse::<u32>().unwrap() < 12, "{user}: {processes}");
        assert_eq!(fixture.run("cat /opt/open/public").await.stdout.text(), "public\n");
        for path in ["/usr/planted", "/etc/planted", "/opt/open/planted"] {
            assert_eq!(host.run(&["sh", "-c", &format!("ls {path} 2>/dev/null; :")]), "", "{user}");
        }
        // Nobody of that machine can be signalled, its server included.
        let server = host.run(&["cat", "/run/sshd.pid"]);
        let killed = fixture.run(&format!("kill -9 {}", server.trim())).await;
        assert_ne!(killed.exit.code, Some(0), "{user}");
        assert_eq!(fixture.run("id -u; pwd; echo $HOME").await.stdout.text(), "0\n/workspace\n/root\n");
        // What is kept is kept there, and belongs to the user of that machine.
        fixture.run("echo kept > file; echo kept > ~/file").await;
        assert_eq!(fs::read_to_string(fixture.start_files().join("file")).unwrap(), "kept\n");
        assert_eq!(fs::read_to_string(fixture.home_files().join("file")).unwrap(), "kept\n");
        fixture.finish().await;
    }
}

#[tokio::test]
async fn a_network_that_is_off_is_off_there() {
    let fixture = BackendFixture::ssh_isolated();
    let engine = fixture.engine_with(&["terminal.docker_network=false"]);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    let output = sandbox.run(Command::shell("tail -n +3 /proc/net/dev | cut -d: -f1")).await.unwrap();
    assert_eq!(output.stdout.text().trim(), "lo");
    drop((sandbox, engine));
    fixture.finish().await;
}

#[tokio::test]
async fn it_survives_a_stop_a_lost_guest_and_a_reboot_with_its_files_and_sessions() {
    for user in USERS {
        let fixture = BackendFixture::ssh_isolated_for(user);
        fixture.run("cd /usr; kept=1; echo one > ~/file").await;
        let task = TaskName::default_task();
        fixture.engine().stop(&task).await.unwrap();
        until("it has ended", || async { fixture.guests().is_empty() }).await;
        assert_eq!(fixture.run("pwd; echo $kept; cat ~/file").await.stdout.text(), "/usr\n1\none\n");
        for guest in fixture.guests() {
            vestal_testkit::processes::kill(guest);
        }
        assert_eq!(fixture.run("pwd; echo $kept; cat ~/file").await.stdout.text(), "/usr\n1\none\n");
        fixture.machine().host().control("reboot", &[]);
        assert_eq!(fixture.run("pwd; echo $kept; cat ~/file").await.stdout.text(), "/usr\n1\none\n");
        fixture.finish().await;
    }
}

#[tokio::test]
async fn a_machine_that_cannot_isolate_is_an_error_and_no_looser_sandbox_is_made() {
    let fixture = BackendFixture::ssh_isolated();
    let host = fixture.machine().host();
    // As in a container: the only /proc is partly covered.
    host.run(&["umount", "/run/proc"]);
    let engine = fixture.engine();
    let error = engine.sandbox(&TaskName::default_task()).await.unwrap_err();
    let Error::Backend { source, .. } = &error else { panic!("{error:?}") };
    let problem = source.to_string();
    assert!(problem.starts_with("box cannot isolate sandboxes: "), "{problem}");
    assert!(problem.contains("/proc"), "{problem}");
    assert!(source.advice().unwrap().starts_with("on that machine: "), "{source:?}");
    let found = engine.backends().await.into_iter().find(|(name, _)| *name == "ssh").unwrap().1;
    let Availability::Missing { reason, .. } = &found else { panic!("{found:?}") };
    assert_eq!(*reason, problem);
    assert_eq!(host.processes(), Vec::<u32>::new());
    assert_eq!(fixture.machine().instances(), Vec::<String>::new());
    // Put right, it is what it should be.
    host.run(&["mount", "-t", "proc", "proc", "/run/proc"]);
    assert_eq!(fixture.run("pwd").await.stdout.text(), "/workspace\n");
    let left = vestal_testkit::files::names(&host.home().join(".vestal-ssh/rehearsals"));
    assert_eq!(left, Vec::<String>::new());
    fixture.finish().await;
}

#[tokio::test]
async fn a_sandbox_that_is_to_be_isolated_from_now_on_is_never_handed_out_as_it_was() {
    let fixture = BackendFixture::ssh_isolated();
    let loose = "terminal.ssh_isolation=none";
    let task = TaskName::default_task();
    let engine = fixture.engine_with(&[loose]);
    let sandbox = engine.sandbox(&task).await.unwrap();
    sandbox.run(Command::shell("echo kept > file").session("main")).await.unwrap();
    let shown = engine.inspect(&task).await.unwrap().remove(0).description;
    assert!(shown.weakened[0].starts_with("no isolation on box"), "{shown:?}");

    // While something runs in it, the caller is told what is in the way.
    let gate = Gate::new(&fixture);
    let way = fixture.meeting_place("gate-way").0;
    let inside = fixture.machine().seen_there(way.parent().unwrap());
    let text = gate.pass().replace("/workspace", &inside.display().to_string());
    let running = tokio::spawn(async move { sandbox.run(Command::shell(text)).await });
    gate.reached().await;
    let error = fixture.engine_with(&[NATIVE]).sandbox(&task).await.unwrap_err();
    assert!(error.to_string().contains("terminal.ssh_isolation"), "{error}");
    gate.open().await;
    running.await.unwrap().unwrap();
    drop(engine);

    let engine = fixture.engine_with(&[NATIVE]);
    let sandbox = engine.sandbox(&task).await.unwrap();
    let output = sandbox.run(Command::shell("pwd; cat file").session("main")).await.unwrap();
    assert_eq!(output.stdout.text(), "/workspace\nkept\n");
    let shown = engine.inspect(&task).await.unwrap().remove(0).description;
    assert_eq!((shown.weakened, shown.tier.as_deref()), (Vec::new(), Some("read-only")));
    drop((sandbox, engine));
    fixture.finish().await;
}

#[tokio::test]
async fn doctor_says_that_it_is_isolated_and_what_that_machine_does_not_limit() {
    let fixture = BackendFixture::ssh_isolated();
    let engine = fixture.engine();
    let found = engine.backends().await.into_iter().find(|(name, _)| *name == "ssh").unwrap().1;
    let Availability::Works { notes } = &found else { panic!("{found:?}") };
    assert!(notes.iter().any(|note| note.starts_with("isolated by namespaces")), "{notes:?}");
    assert!(notes.iter().any(|note| note.starts_with("not limited there: ")), "{notes:?}");
    assert!(!notes.iter().any(|note| note.contains("no isolation")), "{notes:?}");
    let strict = fixture.engine_with(&["terminal.require_limits=true", "terminal.container_memory=512"]);
    let error = strict.sandbox(&TaskName::default_task()).await.unwrap_err();
    let chain = format!("{error:?}");
    assert!(chain.contains("terminal.container_memory"), "{chain}");
    assert_eq!(fixture.machine().instances(), Vec::<String>::new());
    drop((engine, strict));
    fixture.finish().await;
}

#[tokio::test]
async fn what_it_puts_in_place_of_its_guests_socket_reaches_nothing_of_its_machine() {
    let fixture = BackendFixture::ssh_isolated();
    let host = fixture.machine().host();
    fixture.run("true").await;
    let instance = fixture.instances_of("default").remove(0);
    // A server of that machine's user, which a link could lead to.
    let secret = host.home().join("service.sock");
    let service = std::os::unix::net::UnixListener::bind(&secret).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o777)).unwrap();
    let planted = format!(
        "mv /.vestal/io/guest.sock /.vestal/io/old; ln -s {}/service.sock /.vestal/io/guest.sock; \
         echo '{{\"pid\":1,\"pid_start\":1,\"boot\":\"x\"}}' > /.vestal/io/guest.json",
        host.home_there().display()
    );
    fixture.run(&planted).await;
    assert!(fixture.socket_dir("default", &instance).join("guest.sock").is_symlink());
    let refused = fixture.engine().sandbox(&TaskName::default_task()).await;
    // Whoever is told of it, nobody has talked to that server.
    drop(refused);
    service.set_nonblocking(true).unwrap();
    assert!(service.accept().is_err());
    fixture.finish().await;
}
