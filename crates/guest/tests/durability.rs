//! What is left after a guest's death, and what is known afterwards.

mod support;

use std::io::Write;

use support::{TestGuest, code, exit, fault, id, job, processes_of_instance, shell};
use vestal_testkit::processes::{kill, parent_of, with_variable};
use vestal_testkit::wait_until;
use vestal_wire::{
    AttachJob, CallReply, CallRequest, Cause, CommandOutcome, FaultCode, JobCommand, JobExit,
    OutputDelivery, ShellText, StartJob,
};

fn lookup(
    client: &mut support::Client,
    name: &str,
    incarnation: &str,
    boot: &str,
) -> CommandOutcome {
    let request = CallRequest::Lookup {
        id: id(name),
        incarnation: incarnation.to_owned(),
        boot: boot.to_owned(),
    };
    match client.call(&request) {
        CallReply::Outcome(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_same_id_twice_runs_once_and_answers_twice() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let text = "echo ran >> count; echo output; exit 5";
    for _ in 0..3 {
        let (output, info) = client.run(shell("a", text));
        assert_eq!((output.stdout.as_slice(), code(&info)), (&b"output\n"[..], Some(5)));
    }
    assert_eq!(std::fs::read_to_string(guest.work_dir().join("count")).unwrap(), "ran\n");
}

#[test]
fn an_id_reported_as_never_started_is_refused_for_ever() {
    let mut guest = TestGuest::start();
    let mut client = guest.client();
    let welcome = client.welcome.clone();
    let outcome = lookup(&mut client, "a", &welcome.incarnation, &welcome.boot);
    assert_eq!(outcome, CommandOutcome::NeverStarted);
    let start = CallRequest::Start(Box::new(shell("a", "echo ran > proof")));
    assert_eq!(fault(client.call(&start)).code, FaultCode::Invalid);
    guest.kill();
    guest.restart();
    let mut client = guest.client();
    assert_eq!(fault(client.call(&start)).code, FaultCode::Invalid);
    let outcome = lookup(&mut client, "a", &welcome.incarnation, &welcome.boot);
    assert_eq!(outcome, CommandOutcome::NeverStarted);
    assert!(!guest.work_dir().join("proof").exists());
}

#[test]
fn a_text_that_is_still_coming_is_not_a_start() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let start = StartJob { command: JobCommand::Shell(ShellText::Streamed), ..shell("a", "") };
    let channel = client.open(&CallRequest::Start(Box::new(start)));
    let mut other = guest.client();
    let welcome = other.welcome.clone();
    let outcome = lookup(&mut other, "a", &welcome.incarnation, &welcome.boot);
    assert_eq!(outcome, CommandOutcome::NeverStarted);
    client.send_data(channel, vestal_wire::Stream::Text, b"echo ran > proof");
    client.send_end(channel, vestal_wire::Stream::Text);
    assert_eq!(fault(client.reply(channel)).code, FaultCode::Invalid);
    assert!(!guest.work_dir().join("proof").exists());
}

#[test]
fn after_a_crash_it_is_known_what_ran_and_what_did_not() {
    let mut guest = TestGuest::start();
    let mut client = guest.client();
    let welcome = client.welcome.clone();
    client.run(shell("done", "echo kept; echo also >&2; exit 6"));
    client.background(shell("running", "echo begun; sleep 600"));
    wait_until("its first line is kept", || {
        client
            .call(&CallRequest::Wait { id: id("running"), timeout_ms: Some(0) })
            .pipe(job)
            .stdout_bytes
            == 6
    });
    guest.kill();
    guest.restart();
    let mut client = guest.client();
    assert_ne!(client.welcome.incarnation, welcome.incarnation);
    let CommandOutcome::Known(done) =
        lookup(&mut client, "done", &welcome.incarnation, &welcome.boot)
    else {
        panic!("it ran");
    };
    assert_eq!(exit(&done), JobExit { code: Some(6), cause: Cause::Exited });
    let CommandOutcome::Known(lost) =
        lookup(&mut client, "running", &welcome.incarnation, &welcome.boot)
    else {
        panic!("it ran");
    };
    assert_eq!(exit(&lost), JobExit { code: None, cause: Cause::Lost });
    let never = lookup(&mut client, "never", &welcome.incarnation, &welcome.boot);
    assert_eq!(never, CommandOutcome::NeverStarted);
    for (name, stdout) in [("done", "kept\n"), ("running", "begun\n")] {
        let attach = AttachJob {
            id: id(name),
            stdout_from: 0,
            stderr_from: 0,
            follow: true,
            delivery: OutputDelivery::EveryByte,
        };
        let channel = client.open(&CallRequest::Attach(attach));
        assert_eq!(String::from_utf8_lossy(&client.follow(channel).0.stdout), stdout);
    }
    // Nor is it run again when its start comes once more.
    let (_, again) = client.run(shell("running", "echo again"));
    assert_eq!(exit(&again).cause, Cause::Lost);
}

#[test]
fn of_another_boot_or_a_stranger_nothing_is_claimed() {
    let mut guest = TestGuest::start();
    let old = guest.client().welcome;
    guest.kill();
    guest.restart();
    let mut client = guest.client();
    assert_eq!(lookup(&mut client, "a", &old.incarnation, "another-boot"), CommandOutcome::Unknown);
    assert_eq!(lookup(&mut client, "a", "stranger", &old.boot), CommandOutcome::Unknown);
    assert_eq!(lookup(&mut client, "a", &old.incarnation, &old.boot), CommandOutcome::NeverStarted);
}

#[test]
fn a_forgotten_job_is_never_run_again_nor_reported_as_never_run() {
    let mut guest = TestGuest::with(|settings| settings.jobs_kept = 1);
    for round in 0..2 {
        let mut client = guest.client();
        let welcome = client.welcome.clone();
        for n in 0..3 {
            client.run(shell(&format!("job-{round}-{n}"), "true"));
        }
        let start = CallRequest::Start(Box::new(shell("job-0-0", "echo again > proof")));
        assert_eq!(fault(client.call(&start)).code, FaultCode::Invalid);
        let outcome = lookup(&mut client, "job-0-0", &welcome.incarnation, &welcome.boot);
        assert_eq!(outcome, CommandOutcome::Unknown);
        guest.kill();
        guest.restart();
    }
    assert!(!guest.work_dir().join("proof").exists());
}

#[test]
fn the_processes_of_a_killed_guest_die_with_it() {
    let mut guest = TestGuest::start();
    let text = "setsid sleep 600 & (sleep 600 &); sleep 600";
    guest.client().background(shell("a", text));
    wait_until("all of it runs", || processes_of_instance(&guest.settings.instance).len() >= 3);
    guest.kill();
    wait_until("all are dead", || processes_of_instance(&guest.settings.instance).is_empty());
}

#[test]
fn a_job_whose_supervisor_is_killed_is_lost_and_leaves_no_process() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    let info = client.background(shell("a", "setsid sleep 600 & sleep 600"));
    kill(parent_of(info.pid.unwrap()).unwrap());
    let info = client.wait(&id("a"));
    assert_eq!(exit(&info), JobExit { code: None, cause: Cause::Lost });
    assert_eq!(client.kill(&id("a")).processes, 0);
    assert_eq!(support::processes_of(&guest, "a"), [0_u32; 0]);
    assert_eq!(client.run(shell("b", "echo on")).0.stdout, b"on\n");
}

#[test]
fn a_command_that_kills_its_supervisor_harms_only_itself() {
    let guest = TestGuest::start();
    let mut client = guest.client();
    for n in 0..5 {
        let (_, info) = client.run(shell(&format!("a-{n}"), "kill -9 $PPID; sleep 600"));
        assert_eq!(exit(&info).cause, Cause::Lost);
        // What the supervisor cared for is the guest's to kill, and that takes a
        // moment: a guest that dies before leaves it to the next one.
        wait_until("all are dead", || support::processes_of(&guest, &format!("a-{n}")).is_empty());
    }
    assert_eq!(client.run(shell("b", "echo on")).0.stdout, b"on\n");
}

#[test]
fn processes_of_previous_instances_are_killed_at_the_start() {
    let earlier = format!("earlier-{}", std::process::id());
    let mut child = std::process::Command::new("sleep")
        .arg("600")
        .env("VESTAL_INSTANCE", &earlier)
        .spawn()
        .unwrap();
    let mark = format!("VESTAL_INSTANCE={earlier}");
    wait_until("it runs", || with_variable(&mark) == [child.id()]);
    let _guest = TestGuest::with(|settings| settings.previous_instances = vec![earlier]);
    assert!(!child.wait().unwrap().success());
}

#[test]
fn a_torn_record_is_forgotten_and_the_rest_is_kept() {
    let mut guest = TestGuest::start();
    guest.client().run(shell("a", "exit 3"));
    guest.kill();
    let journal = guest.state_dir().join("journal");
    let mut file = std::fs::OpenOptions::new().append(true).open(&journal).unwrap();
    file.write_all(&[200, 0, 0, 0, 1, 2, 3, 4, 5]).unwrap();
    guest.restart();
    assert_eq!(code(&guest.client().wait(&id("a"))), Some(3));
}

#[test]
fn a_damaged_record_costs_what_follows_it_and_nothing_is_claimed_of_that() {
    let mut guest = TestGuest::start();
    let old = guest.client().welcome;
    guest.client().run(shell("a", "exit 3"));
    guest.kill();
    let journal = guest.state_dir().join("journal");
    let mut file = std::fs::OpenOptions::new().append(true).open(&journal).unwrap();
    file.write_all(&[1, 0, 0, 0, 1, 2, 3, 4, 5]).unwrap();
    guest.restart();
    let mut client = guest.client();
    assert_eq!(code(&client.wait(&id("a"))), Some(3));
    assert_eq!(lookup(&mut client, "b", &old.incarnation, &old.boot), CommandOutcome::Unknown);
}

#[test]
fn a_newer_journal_is_refused_and_left_as_it_is() {
    let mut guest = TestGuest::start();
    guest.kill();
    let journal = guest.state_dir().join("journal");
    std::fs::write(&journal, b"VSTJ\x09\0\0\0").unwrap();
    let (status, word) = TestGuest::second(&guest.settings);
    assert!(!status.success());
    assert!(word.starts_with("error: ") && word.contains("version 9"), "{word}");
    assert_eq!(std::fs::read(&journal).unwrap(), b"VSTJ\x09\0\0\0");
    std::fs::remove_file(&journal).unwrap();
    guest.restart();
}

trait Pipe: Sized {
    fn pipe<T>(self, to: impl FnOnce(Self) -> T) -> T {
        to(self)
    }
}

impl<T> Pipe for T {}
