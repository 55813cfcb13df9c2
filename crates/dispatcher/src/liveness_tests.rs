use vestal_board::HostName;

use super::*;

fn host(name: &str, boot: &str) -> Host {
    Host { name: HostName::new(name), boot: boot.to_owned() }
}

fn run(host: Option<Host>, process: Option<Process>) -> Run {
    let task = "t_0123456789ab".parse().unwrap();
    Run { id: RunId::new(1), host, process, gone: false, ..vestal_board::testing::run(&task) }
}

fn me(host: &Host) -> Process {
    let me = ProcessId::current().unwrap();
    Process { host: host.clone(), pid: me.pid, start: me.start }
}

#[test]
fn a_process_lives_only_if_number_start_and_host_agree() {
    let here = Host::this(HostName::new("here")).unwrap();
    let alive = run(Some(here.clone()), Some(me(&here)));
    assert_eq!(liveness(&alive, &here, ChildState::NotOurs), Liveness::Alive);

    let reused = Process { start: me(&here).start + 1, ..me(&here) };
    let impostor = run(Some(here.clone()), Some(reused));
    assert_eq!(liveness(&impostor, &here, ChildState::NotOurs), Liveness::Gone { code: None });
    assert!(session_of(&impostor, &here).unwrap().members().unwrap().is_empty());
}

#[test]
fn a_container_of_the_same_name_is_another_host() {
    let here = Host::this(HostName::new("here")).unwrap();
    let kernel = here.boot.split('/').next().unwrap();
    let container = host("here", &format!("{kernel}/1"));
    let run = run(Some(container.clone()), Some(me(&container)));
    assert_eq!(liveness(&run, &here, ChildState::NotOurs), Liveness::Foreign);
    assert_eq!(session_of(&run, &here), None);
}

#[test]
fn what_ran_before_the_last_boot_is_gone() {
    let here = Host::this(HostName::new("here")).unwrap();
    let before = host("here", "another-boot/1");
    let run = run(Some(before.clone()), Some(me(&before)));
    assert_eq!(liveness(&run, &here, ChildState::NotOurs), Liveness::Gone { code: None });
}

#[test]
fn another_hosts_worker_is_foreign_and_a_persons_claim_has_none() {
    let here = Host::this(HostName::new("here")).unwrap();
    let there = Host { name: HostName::new("there"), ..here.clone() };
    assert_eq!(
        liveness(&run(Some(there.clone()), Some(me(&there))), &here, ChildState::NotOurs),
        Liveness::Foreign
    );
    assert_eq!(liveness(&run(Some(there), None), &here, ChildState::NotOurs), Liveness::Foreign);
    assert_eq!(
        liveness(&run(Some(here.clone()), None), &here, ChildState::NotOurs),
        Liveness::Unknown
    );
    assert_eq!(liveness(&run(None, None), &here, ChildState::NotOurs), Liveness::Person);
}

#[test]
fn a_child_lives_until_its_exit_code_is_known() {
    let here = Host::this(HostName::new("here")).unwrap();
    let gone = Process { start: 1, ..me(&here) };
    let run = run(Some(here.clone()), Some(gone));
    assert_eq!(liveness(&run, &here, ChildState::Running), Liveness::Alive);
    assert_eq!(liveness(&run, &here, ChildState::Ended(75)), Liveness::Gone { code: Some(75) });
}
