//! What machines that are reached over ssh can be like, and what can happen to them.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use vestal_sandbox::backend::{Availability, BackendError};
use vestal_sandbox::{
    Command, CopyError, Error, Rebuild, StateBefore, SummaryState, TaskName, WhileBusy,
};
use vestal_testkit::files::names;
use vestal_wire::{Cause, JobState};

use crate::support::{Gate, World, until};

/// Returns the error of a sandbox that cannot be had, with its advice.
async fn refusal(world: &World, overrides: &[&str]) -> (String, String) {
    let engine = world.engine_with(overrides);
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
    let world = World::ssh_with(options);
    let output = world.run("cd /usr; kept=1; echo $HOME; pwd; umask").await;
    let home = world.machine().seen_there(&world.home_files());
    assert_eq!(output.stdout.text(), format!("{}\n/usr\n0022\n", home.display()), "{options:?}");
    let again = world.run("echo $kept; pwd; echo wrong >&2; exit 3").await;
    let expected = ("1\n/usr\n".into(), "wrong\n".into(), Some(3));
    assert_eq!(
        (again.stdout.text(), again.stderr.text(), again.exit.code),
        expected,
        "{options:?}"
    );
    let mut there = names(world.machine().host().home());
    there.retain(|name| {
        ![".ssh", ".bashrc", ".zshenv", ".tcshrc", ".config", ".local"].contains(&&**name)
    });
    assert_eq!(there, [".vestal-ssh"], "{options:?}");
    world.finish().await;
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
    let world = World::ssh_with(&["--sessions", "1"]);
    let sandbox = world.sandbox().await;
    let gate = Gate::new(&world);
    let text = gate.pass();
    let running = tokio::spawn(async move { sandbox.run(Command::shell(text)).await });
    gate.reached().await;
    // The one session is taken.
    let other = world.worker(&["run", "default", "echo besides"]).done().await;
    assert_eq!(other["stdout"], "besides\n");
    gate.open().await;
    running.await.unwrap().unwrap();
    world.finish().await;
}

#[tokio::test]
async fn a_home_in_which_nothing_can_be_executed_will_do() {
    let world = World::ssh_with(&["--noexec"]);
    assert_eq!(world.run("echo runs").await.stdout.text(), "runs\n");
    let host = world.machine().host();
    assert_eq!(names(&host.home().join(".vestal-ssh/bin")), Vec::<String>::new());
    assert_eq!(host.run(&["sh", "-c", "ls /var/tmp/.vestal-ssh-0 | wc -l"]), "1\n");
    world.finish().await;
}

#[tokio::test]
async fn the_guest_is_put_there_once() {
    let world = World::ssh();
    world.run("true").await;
    let bin = world.machine().host().home().join(".vestal-ssh/bin");
    let programs = names(&bin);
    assert_eq!(programs.len(), 1);
    let inode = fs::metadata(bin.join(&programs[0])).unwrap().ino();
    world.engine().stop(&TaskName::default_task()).await.unwrap();
    world.run("true").await;
    let other: TaskName = "other".parse().unwrap();
    world.engine().sandbox(&other).await.unwrap().run(Command::shell("true")).await.unwrap();
    assert_eq!(names(&bin), programs);
    assert_eq!(fs::metadata(bin.join(&programs[0])).unwrap().ino(), inode);
    world.finish().await;
}

#[tokio::test]
async fn after_a_reboot_files_and_sessions_are_there_and_jobs_are_told_lost() {
    let world = World::ssh();
    let sandbox = world.sandbox().await;
    world.run("kept=1; cd /usr; echo file > ~/file").await;
    let job = sandbox.spawn(Command::shell("sleep 1000")).await.unwrap();
    let instance = sandbox.instance().await;
    drop(sandbox);
    world.machine().host().tell("reboot", &[]);
    let sandbox = world.sandbox().await;
    assert_eq!(
        (sandbox.state_before(), sandbox.instance().await),
        (StateBefore::Stopped, instance)
    );
    let output = world.run("echo $kept; pwd; cat ~/file").await;
    assert_eq!(output.stdout.text(), "1\n/usr\nfile\n");
    let info = sandbox.wait(&job.id, Some(Duration::ZERO)).await.unwrap();
    assert!(matches!(info.state, JobState::Ended(exit) if exit.cause == Cause::Lost), "{info:?}");
    world.finish().await;
}

#[tokio::test]
async fn a_machine_that_does_not_answer_holds_up_no_listing_and_goes_on_when_it_does() {
    let world = World::ssh();
    let sandbox = world.sandbox().await;
    let guests = world.guests();
    let gate = Gate::new(&world);
    let text = format!("{}; echo done", gate.pass());
    let running = tokio::spawn({
        let sandbox = sandbox.clone();
        async move { sandbox.run(Command::shell(text)).await }
    });
    gate.reached().await;
    world.machine().host().tell("freeze", &[]);
    let listed = world.engine().list().await.unwrap();
    assert_eq!((listed.len(), listed[0].state), (1, SummaryState::Unknown));
    assert!(listed[0].trouble.is_some());
    world.machine().host().tell("thaw", &[]);
    gate.open().await;
    assert_eq!(running.await.unwrap().unwrap().stdout.text(), "done\n");
    assert_eq!(world.guests(), guests);
    world.finish().await;
}

#[tokio::test]
async fn processes_share_a_connection_and_none_ends_it_for_the_others() {
    let world = World::ssh();
    let sandbox = world.sandbox().await;
    let connection = sandbox.connection().await.unwrap();
    for _ in 0..2 {
        world.worker(&["run", "default", "true"]).done().await;
    }
    world.worker(&["attach", "default"]).crash().await;
    let logins = || {
        let shown = world.machine().host().run(&["pgrep", "-fc", "sshd: root@notty"]);
        shown.trim().parse::<u32>().unwrap()
    };
    assert_eq!(logins(), 1);
    assert!(!connection.is_closed());
    sandbox.run(Command::shell("true")).await.unwrap();
    assert!(!connection.is_closed());
    world.finish().await;
}

#[tokio::test]
async fn an_instance_on_another_machine_with_the_same_home_is_left_alone() {
    let world = World::ssh();
    let sandbox = world.sandbox().await;
    let guests = world.guests();
    drop(sandbox);
    // The machine is another one now, by all it says of itself, and has the home of the first.
    world.machine().host().run(&["hostname", "other"]);
    let (problem, advice) = refusal(&world, &[]).await;
    assert_eq!(
        problem,
        "the instance is on the machine box, and box is another one that has the same home"
    );
    assert!(advice.contains("terminal.ssh_host"), "{advice}");
    let listed = world.engine().list().await.unwrap();
    assert_eq!((listed.len(), listed[0].state), (1, SummaryState::Unknown));
    assert_eq!(world.guests(), guests);
    world.machine().host().run(&["hostname", "box"]);
    assert_eq!(world.sandbox().await.state_before(), StateBefore::Running);
    world.finish().await;
}

#[tokio::test]
async fn a_machine_that_cannot_be_used_is_refused_with_what_to_do() {
    let world = World::ssh_with(&["--password"]);
    let (problem, advice) = refusal(&world, &[]).await;
    assert_eq!(problem, "box asks for a password, which Vestal never enters");
    assert!(advice.contains("ssh-copy-id"), "{advice}");
    world.nothing_was_made();

    let world = World::ssh_with(&["--machine", "i686"]);
    let (problem, _) = refusal(&world, &[]).await;
    assert_eq!(problem, "there is no guest for machines of the architecture i686");
    world.nothing_was_made();

    let world = World::ssh_with(&["--space", "1M"]);
    let (problem, advice) = refusal(&world, &[]).await;
    assert!(
        problem.contains("cannot keep the guest's program") && problem.contains("No space left"),
        "{problem}"
    );
    assert!(advice.contains("space"), "{advice}");
    world.nothing_was_made();

    let world = World::ssh();
    let known = world.machine().host().config().with_file_name("known_hosts");
    let keys = fs::read_to_string(&known).unwrap();
    fs::write(&known, "").unwrap();
    let (problem, advice) = refusal(&world, &[]).await;
    assert_eq!(problem, "the host key of box is not known");
    assert!(advice.contains("ssh -F "), "{advice}");
    fs::write(&known, keys).unwrap();
    let wrong_user = refusal(&world, &["terminal.ssh_user=nobody-at-all"]).await;
    assert!(wrong_user.0.contains("accepts none of your keys"), "{wrong_user:?}");
    world.machine().refuse_connections();
    let engine = world.engine();
    let down = engine.sandbox(&TaskName::default_task()).await.unwrap_err();
    let is_down =
        matches!(&down, Error::Backend { source: BackendError::HostUnreachable { .. }, .. });
    assert!(is_down, "{down:?}");
    let found = engine.backends().await.into_iter().find(|(name, _)| *name == "ssh").unwrap().1;
    assert!(matches!(&found, Availability::Missing { .. }), "{found:?}");
    world.machine().accept_connections();
    let found = engine.backends().await.into_iter().find(|(name, _)| *name == "ssh").unwrap().1;
    assert!(matches!(&found, Availability::Works { .. }), "{found:?}");
    world.finish().await;
}

#[tokio::test]
async fn a_guest_that_was_cut_off_while_it_was_sent_is_never_run() {
    let world = World::ssh();
    let host = world.machine().host();
    let bin = host.home().join(".vestal-ssh/bin");
    let engine = world.engine();
    let task = TaskName::default_task();
    let asking = tokio::spawn(async move { engine.sandbox(&task).await });
    until("the guest is being sent", || async { !names(&bin).is_empty() }).await;
    host.tell("cut", &[]);
    // Whether it had arrived or not.
    asking.await.unwrap().ok();
    assert_eq!(world.run("echo whole").await.stdout.text(), "whole\n");
    let left = names(&bin);
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].starts_with("guest-"), "{left:?}");
    world.finish().await;
}

#[tokio::test]
async fn files_are_never_left_behind_by_a_move() {
    let world = World::ssh();
    world.run("echo kept > file").await;
    let task = TaskName::default_task();
    let away = Rebuild { backend: Some("local".into()) };
    let error = world.engine().rebuild(&task, &away, WhileBusy::Refuse).await.unwrap_err();
    assert!(matches!(error, Error::Copy(CopyError::InVolumes { .. })), "{error:?}");
    assert!(error.to_string().contains("/sandboxes/"), "{error}");
    assert_eq!(world.run("cat file").await.stdout.text(), "kept\n");
    world.finish().await;
}
