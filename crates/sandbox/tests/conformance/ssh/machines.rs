//! What machines that are reached over ssh can be like, and what can happen to them.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use vestal_sandbox::backend::{Availability, BackendError};
use vestal_sandbox::files::WriteOptions;
use vestal_sandbox::{
    Command, CopyError, Engine, Error, FilesOnRemoval, Overrides, ReapReason, Rebuild, StateBefore,
    SummaryState, SyncMode, TaskName, WhileBusy,
};
use vestal_testkit::files::names;
use vestal_wire::{Cause, JobState};

use crate::support::{BackendFixture, Gate, until};

/// Returns the error of a sandbox that cannot be obtained, with its advice.
async fn refusal(fixture: &BackendFixture, overrides: &[&str]) -> (String, String) {
    let engine = fixture.engine_with(overrides);
    match engine.sandbox(&TaskName::default_task()).await {
        Err(Error::Backend { source, .. }) => {
            let advice = source.advice().unwrap_or_default().to_owned();
            (source.to_string(), advice)
        }
        other => panic!("{other:?}"),
    }
}

/// Checks that a sandbox works from its first command to its removal, and that all of it is in
/// the one directory.
async fn assert_works(options: &[&str]) {
    let fixture = BackendFixture::ssh_with(options);
    let output = fixture.run("cd /usr; kept=1; echo $HOME; pwd; umask").await;
    let home = fixture.machine().seen_there(&fixture.home_files());
    assert_eq!(output.stdout.text(), format!("{}\n/usr\n0022\n", home.display()), "{options:?}");
    let again = fixture.run("echo $kept; pwd; echo wrong >&2; exit 3").await;
    let expected = ("1\n/usr\n".into(), "wrong\n".into(), Some(3));
    assert_eq!(
        (again.stdout.text(), again.stderr.text(), again.exit.code),
        expected,
        "{options:?}"
    );
    let mut there = names(fixture.machine().host().home());
    there.retain(|name| {
        ![".ssh", ".bashrc", ".zshenv", ".tcshrc", ".config", ".local"].contains(&&**name)
    });
    assert_eq!(there, [".vestal-ssh"], "{options:?}");
    fixture.finish().await;
}

#[tokio::test]
async fn every_login_shell_will_do_whatever_it_prints_at_its_start() {
    for shell in ["bash", "dash", "fish", "tcsh"] {
        assert_works(&["--shell", shell, "--noise"]).await;
    }
}

#[tokio::test]
async fn a_server_without_sftp_that_carries_one_session_will_do() {
    assert_works(&["--no-sftp", "--sessions", "1"]).await;
    let fixture = BackendFixture::ssh_with(&["--sessions", "1"]);
    let sandbox = fixture.sandbox().await;
    let gate = Gate::new(&fixture);
    let text = gate.pass();
    let running = tokio::spawn(async move { sandbox.run(Command::shell(text)).await });
    gate.reached().await;
    // The one session is taken.
    let other = fixture.worker(&["run", "default", "echo besides"]).done().await;
    assert_eq!(other["stdout"], "besides\n");
    gate.open().await;
    running.await.unwrap().unwrap();
    fixture.finish().await;
}

#[tokio::test]
async fn a_home_in_which_nothing_can_be_executed_will_do() {
    let fixture = BackendFixture::ssh_with(&["--noexec"]);
    assert_eq!(fixture.run("echo runs").await.stdout.text(), "runs\n");
    let host = fixture.machine().host();
    assert_eq!(names(&host.home().join(".vestal-ssh/bin")), Vec::<String>::new());
    assert_eq!(host.run(&["sh", "-c", "ls /var/tmp/.vestal-ssh-0 | wc -l"]), "1\n");
    fixture.finish().await;
}

#[tokio::test]
async fn the_guest_is_put_there_once() {
    let fixture = BackendFixture::ssh();
    fixture.run("true").await;
    let bin = fixture.machine().host().home().join(".vestal-ssh/bin");
    let programs = names(&bin);
    assert_eq!(programs.len(), 1);
    let inode = fs::metadata(bin.join(&programs[0])).unwrap().ino();
    fixture.engine().stop(&TaskName::default_task()).await.unwrap();
    fixture.run("true").await;
    let other: TaskName = "other".parse().unwrap();
    fixture.engine().sandbox(&other).await.unwrap().run(Command::shell("true")).await.unwrap();
    assert_eq!(names(&bin), programs);
    assert_eq!(fs::metadata(bin.join(&programs[0])).unwrap().ino(), inode);
    fixture.finish().await;
}

#[tokio::test]
async fn after_a_reboot_files_and_sessions_are_there_and_jobs_are_reported_lost() {
    let fixture = BackendFixture::ssh();
    let sandbox = fixture.sandbox().await;
    fixture.run("kept=1; cd /usr; echo file > ~/file").await;
    let job = sandbox.spawn(Command::shell("sleep 1000")).await.unwrap();
    let instance = sandbox.instance().await;
    drop(sandbox);
    fixture.machine().host().control("reboot", &[]);
    let sandbox = fixture.sandbox().await;
    assert_eq!(
        (sandbox.state_before(), sandbox.instance().await),
        (StateBefore::Stopped, instance)
    );
    let output = fixture.run("echo $kept; pwd; cat ~/file").await;
    assert_eq!(output.stdout.text(), "1\n/usr\nfile\n");
    let info = sandbox.wait(&job.id, Some(Duration::ZERO)).await.unwrap();
    assert!(matches!(info.state, JobState::Ended(exit) if exit.cause == Cause::Lost), "{info:?}");
    fixture.finish().await;
}

#[tokio::test]
async fn a_machine_that_does_not_answer_holds_up_no_listing_and_goes_on_when_it_does() {
    let fixture = BackendFixture::ssh();
    let sandbox = fixture.sandbox().await;
    let guests = fixture.guests();
    let gate = Gate::new(&fixture);
    let text = format!("{}; echo done", gate.pass());
    let running = tokio::spawn({
        let sandbox = sandbox.clone();
        async move { sandbox.run(Command::shell(text)).await }
    });
    gate.reached().await;
    fixture.machine().host().control("freeze", &[]);
    let listed = fixture.engine().list().await.unwrap();
    assert_eq!((listed.len(), listed[0].state), (1, SummaryState::Unknown));
    assert!(listed[0].trouble.is_some());
    fixture.machine().host().control("thaw", &[]);
    gate.open().await;
    assert_eq!(running.await.unwrap().unwrap().stdout.text(), "done\n");
    assert_eq!(fixture.guests(), guests);
    fixture.finish().await;
}

#[tokio::test]
async fn processes_share_a_connection_and_none_ends_it_for_the_others() {
    let fixture = BackendFixture::ssh();
    let sandbox = fixture.sandbox().await;
    let connection = sandbox.connection().await.unwrap();
    for _ in 0..2 {
        fixture.worker(&["run", "default", "true"]).done().await;
    }
    fixture.worker(&["attach", "default"]).crash().await;
    let logins = || {
        let shown = fixture.machine().host().run(&["pgrep", "-fc", "sshd: root@notty"]);
        shown.trim().parse::<u32>().unwrap()
    };
    assert_eq!(logins(), 1);
    assert!(!connection.is_closed());
    sandbox.run(Command::shell("true")).await.unwrap();
    assert!(!connection.is_closed());
    fixture.finish().await;
}

#[tokio::test]
async fn an_instance_on_another_machine_with_the_same_home_is_left_alone() {
    let fixture = BackendFixture::ssh();
    let sandbox = fixture.sandbox().await;
    let guests = fixture.guests();
    drop(sandbox);
    // The machine is another one now, by all it says of itself, and has the home of the first.
    fixture.machine().host().run(&["hostname", "other"]);
    let (problem, advice) = refusal(&fixture, &[]).await;
    assert_eq!(
        problem,
        "the instance is on the machine box, and box is another one that has the same home"
    );
    assert!(advice.contains("terminal.ssh_host"), "{advice}");
    let listed = fixture.engine().list().await.unwrap();
    assert_eq!((listed.len(), listed[0].state), (1, SummaryState::Unknown));
    assert_eq!(fixture.guests(), guests);
    fixture.machine().host().run(&["hostname", "box"]);
    assert_eq!(fixture.sandbox().await.state_before(), StateBefore::Running);
    fixture.finish().await;
}

#[tokio::test]
async fn a_machine_that_cannot_be_used_is_refused_with_what_to_do() {
    let fixture = BackendFixture::ssh_with(&["--password"]);
    let (problem, advice) = refusal(&fixture, &[]).await;
    assert_eq!(problem, "box asks for a password, which Vestal never enters");
    assert!(advice.contains("ssh-copy-id"), "{advice}");
    fixture.nothing_was_made();

    let fixture = BackendFixture::ssh_with(&["--machine", "i686"]);
    let (problem, _) = refusal(&fixture, &[]).await;
    assert_eq!(problem, "there is no guest for machines of the architecture i686");
    fixture.nothing_was_made();

    let fixture = BackendFixture::ssh_with(&["--space", "1M"]);
    let (problem, advice) = refusal(&fixture, &[]).await;
    assert!(
        problem.contains("cannot keep Vestal's programs") && problem.contains("No space left"),
        "{problem}"
    );
    assert!(advice.contains("space"), "{advice}");
    fixture.nothing_was_made();

    let fixture = BackendFixture::ssh();
    let known = fixture.machine().host().config().with_file_name("known_hosts");
    let keys = fs::read_to_string(&known).unwrap();
    fs::write(&known, "").unwrap();
    let (problem, advice) = refusal(&fixture, &[]).await;
    assert_eq!(problem, "the host key of box is not known");
    assert!(advice.contains("ssh -F "), "{advice}");
    fs::write(&known, keys).unwrap();
    let wrong_user = refusal(&fixture, &["terminal.ssh_user=nobody-at-all"]).await;
    assert!(wrong_user.0.contains("accepts none of your keys"), "{wrong_user:?}");
    fixture.machine().refuse_connections();
    let engine = fixture.engine();
    let down = engine.sandbox(&TaskName::default_task()).await.unwrap_err();
    let is_down =
        matches!(&down, Error::Backend { source: BackendError::HostUnreachable { .. }, .. });
    assert!(is_down, "{down:?}");
    let found = engine.backends().await.into_iter().find(|(name, _)| *name == "ssh").unwrap().1;
    assert!(matches!(&found, Availability::Missing { .. }), "{found:?}");
    fixture.machine().accept_connections();
    let found = engine.backends().await.into_iter().find(|(name, _)| *name == "ssh").unwrap().1;
    assert!(matches!(&found, Availability::Works { .. }), "{found:?}");
    fixture.finish().await;
}

#[tokio::test]
async fn a_guest_that_was_cut_off_while_it_was_sent_is_never_run() {
    let fixture = BackendFixture::ssh();
    let host = fixture.machine().host();
    let bin = host.home().join(".vestal-ssh/bin");
    let engine = fixture.engine();
    let task = TaskName::default_task();
    let asking = tokio::spawn(async move { engine.sandbox(&task).await });
    until("the guest is being sent", || async { !names(&bin).is_empty() }).await;
    host.control("cut", &[]);
    // Whether it had arrived or not.
    asking.await.unwrap().ok();
    assert_eq!(fixture.run("echo whole").await.stdout.text(), "whole\n");
    let left = names(&bin);
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].starts_with("guest-"), "{left:?}");
    fixture.finish().await;
}

#[tokio::test]
async fn files_are_never_left_behind_by_a_move() {
    let fixture = BackendFixture::ssh();
    fixture.run("echo kept > file").await;
    let task = TaskName::default_task();
    let away = Rebuild { backend: Some("local".into()), ..Rebuild::default() };
    let error = fixture.engine().rebuild(&task, &away, WhileBusy::Refuse).await.unwrap_err();
    assert!(matches!(error, Error::Copy(CopyError::InVolumes { .. })), "{error:?}");
    assert!(error.to_string().contains("/sandboxes/"), "{error}");
    assert_eq!(fixture.run("cat file").await.stdout.text(), "kept\n");
    fixture.finish().await;
}

#[tokio::test]
async fn a_sandbox_whose_machine_is_gone_is_forgotten_and_its_instance_never_handed_out_again() {
    let fixture = BackendFixture::ssh();
    fixture.run("echo kept > file").await;
    let was = fixture.instances_of("default").remove(0);
    let task = TaskName::default_task();
    let answers = fixture.engine().forget(&task).await.unwrap_err();
    assert!(matches!(answers, Error::Answers { .. }), "{answers:?}");

    fixture.machine().refuse_connections();
    let engine = fixture.engine();
    engine.remove(&task, FilesOnRemoval::Keep).await.unwrap_err();
    let left = engine.forget(&task).await.unwrap();
    assert_eq!((left.instances, &*left.machine), (1, "box (box)"));
    let workspace = fixture.machine().seen_there(&fixture.start_files());
    assert_eq!(left.workspace, workspace.display().to_string());
    assert!(engine.list().await.unwrap().is_empty());
    let again = engine.forget(&task).await.unwrap_err();
    assert!(matches!(again, Error::NoSandbox { .. }), "{again:?}");

    // It comes back, with what ran on it.
    fixture.machine().accept_connections();
    assert_eq!(fixture.machine().instances(), std::slice::from_ref(&was));
    assert_eq!(fixture.run("cat file").await.stdout.text(), "kept\n");
    let now = fixture.instances_of("default");
    assert_ne!(now, [was]);
    assert_eq!(fixture.machine().instances(), now);
    assert_eq!(names(&fixture.home().join("forgotten")), Vec::<String>::new());

    // One that nobody asks for any more is met by the next sweep.
    fixture.machine().refuse_connections();
    fixture.engine().forget(&task).await.unwrap();
    fixture.machine().accept_connections();
    let reaped = fixture.engine().prune(false).await.unwrap();
    assert_eq!(reaped[0].reason, ReapReason::Forgotten);
    assert_eq!(fixture.machine().instances(), Vec::<String>::new());
    assert_eq!(names(&fixture.home().join("forgotten")), Vec::<String>::new());
    fixture.finish().await;
}

#[tokio::test]
async fn a_listing_shows_what_was_last_known_of_a_machine_that_does_not_answer() {
    let fixture = BackendFixture::ssh();
    fixture.run("true").await;
    let engine = fixture.engine();
    let seen = engine.list().await.unwrap().remove(0);
    assert_eq!((seen.state, seen.last_known), (SummaryState::Running, None));
    // Frozen, it answers nothing at all; cut off, it is refused. Neither is waited for.
    let host = fixture.machine().host();
    for (disturb, mend) in [("freeze", "thaw"), ("close", "open")] {
        host.control(disturb, &[]);
        let silent = fixture.engine().list().await.unwrap().remove(0);
        assert_eq!(silent.state, SummaryState::Unknown, "{disturb}");
        assert!(silent.trouble.is_some(), "{disturb}");
        let known = silent.last_known.unwrap();
        assert_eq!((known.state, known.jobs_running), (SummaryState::Running, 0), "{disturb}");
        host.control(mend, &[]);
        let back = fixture.engine().inspect(&TaskName::default_task()).await.unwrap().remove(0);
        assert_eq!((back.state, back.last_known), (SummaryState::Running, None), "{mend}");
    }
    fixture.engine().stop(&TaskName::default_task()).await.unwrap();
    fixture.engine().list().await.unwrap();
    host.control("close", &[]);
    let silent = fixture.engine().list().await.unwrap().remove(0);
    assert_eq!(silent.last_known.unwrap().state, SummaryState::Stopped);
    host.control("open", &[]);
    fixture.finish().await;
}

/// What is done to a sandbox while its machine is disturbed. A command says so in a file.
async fn attempt(
    engine: &Engine,
    verb: &str,
    mark: &str,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let task = TaskName::default_task();
    match verb {
        "run" => {
            let sandbox = engine.sandbox(&task).await?;
            let text = format!("echo {mark} >> ~/marks");
            sandbox.run(Command::shell(text).session("main")).await?;
        }
        "spawn" => {
            let sandbox = engine.sandbox(&task).await?;
            let job = sandbox.spawn(Command::shell(format!("echo {mark} >> ~/marks"))).await?;
            sandbox.wait(&job.id, None).await?;
        }
        "write" => {
            let files = engine.sandbox(&task).await?.files(None).await?;
            files.write("~/written", mark.as_bytes(), WriteOptions::default()).await?;
        }
        "read" => {
            let files = engine.sandbox(&task).await?.files(None).await?;
            files.read("~/.profile", 1 << 20).await?;
        }
        "list" => drop(engine.list().await?),
        "stop" => drop(engine.stop(&task).await?),
        "remove" => drop(engine.remove(&task, FilesOnRemoval::Keep).await?),
        other => panic!("{other}"),
    }
    Ok(())
}

#[tokio::test]
async fn a_line_that_is_disturbed_in_the_middle_of_any_verb_costs_no_more_than_its_answer() {
    let fixture = BackendFixture::ssh();
    fixture.run("echo begin > ~/marks; echo kept > file; echo > ~/.profile").await;
    let mut done = Vec::new();
    let disturbances = [&["cut"][..], &["freeze", "thaw"], &["close", "cut", "open"]];
    let verbs = ["run", "spawn", "stop", "read", "run", "remove", "list", "write", "run"];
    for (verb, disturbance) in verbs.into_iter().zip(disturbances.into_iter().cycle()) {
        let mark = format!("{verb}-{}-{}", disturbance[0], done.len());
        let engine = fixture.engine();
        let (trying, asked) = (engine.clone(), mark.clone());
        let tried = tokio::spawn(async move { attempt(&trying, verb, &asked).await });
        let host = fixture.machine().host();
        for step in disturbance {
            host.control(step, &[]);
        }
        let outcome = tried.await.unwrap();
        drop(engine);
        done.push((verb, mark, outcome.is_ok()));
        assert_eq!(fixture.run("cat file").await.stdout.text(), "kept\n", "{done:?}");
    }
    let marks = fixture.run("cat ~/marks").await.stdout.text();
    for (verb, mark, is_known) in &done {
        let times = marks.lines().filter(|line| line == mark).count();
        assert!(times <= 1, "{mark} ran {times} times");
        if *is_known && ["run", "spawn"].contains(verb) {
            assert_eq!(times, 1, "{mark} was said to have run");
        }
    }
    assert_eq!(fixture.machine().instances(), fixture.instances_of("default"));
    until("nothing of a broken line is left", || async { fixture.strays().is_empty() }).await;
    fixture.finish().await;
}

#[tokio::test]
async fn what_does_not_fit_on_the_disk_there_is_named_and_copied_once_there_is_room() {
    let fixture = BackendFixture::ssh_with(&["--space", "24M"]);
    let (engine, here) = (fixture.engine(), fixture.scratch("project"));
    fs::create_dir(&here).unwrap();
    fs::write(here.join("small"), "small\n").unwrap();
    fs::write(here.join("large"), vec![b'x'; 40 << 20]).unwrap();
    let asked = Overrides { mount: Some(here.clone()), ..Overrides::default() };
    let sandbox = engine.sandbox_with(&TaskName::default_task(), &asked).await.unwrap();
    let report = sandbox.sync(SyncMode::Run).await.unwrap().unwrap();
    let [(path, reason)] = &report.failed[..] else { panic!("{report:?}") };
    assert_eq!(path, Path::new("large"));
    assert!(reason.contains("No space left"), "{reason}");
    // What is there is whole, and commands run on it.
    let output = sandbox.run(Command::shell("cat small; ls")).await.unwrap();
    assert_eq!(output.stdout.text(), "small\nsmall\n");
    assert!(sandbox.take_sync_notes().iter().any(|note| note.contains("large is not synced")));

    fs::write(here.join("large"), vec![b'y'; 1 << 20]).unwrap();
    let output = sandbox.run(Command::shell("wc -c < large; ls -A | wc -l")).await.unwrap();
    assert_eq!(output.stdout.text(), "1048576\n2\n");
    drop((sandbox, engine));
    fixture.finish().await;
}
