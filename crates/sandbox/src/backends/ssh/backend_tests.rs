use vestal_wire::machine::MachineName;

use super::*;

fn login() -> HostLogin {
    HostLogin { host: "there".into(), user: Some("me".into()), ..HostLogin::default() }
}

fn places(workspace: &[u8]) -> InstancePlaces {
    InstancePlaces {
        workspace: workspace.to_vec().into(),
        home: b"/home/me".to_vec().into(),
        machine: MachineName { id: "1".into(), host: "box\x1b[2J".into() },
        user: "me".into(),
    }
}

fn machine() -> Machine {
    let dir = tempfile::tempdir().unwrap();
    let path = std::env::join_paths(["/usr/bin", "/bin"]).unwrap();
    let environment = vestal_config::Environment::from_pairs([("PATH", path.to_str().unwrap())]);
    Machine::new(login(), dir.path(), dir.path().to_owned(), &environment).unwrap()
}

fn reported(instance: &str) -> MachineInstance {
    MachineInstance {
        label: InstanceLabel {
            instance: instance.into(),
            key: "k".into(),
            home: "h".into(),
            task: "a\nb".into(),
            generation: 1,
            owner: None,
            spec: "s".into(),
            machine: None,
            created_ms: None,
            is_enclosed: None,
        },
        state: MachineState::Running,
        places: places(b"/home/me/w"),
        age_ms: Some(u64::MAX),
    }
}

#[test]
fn a_machine_names_no_directory_of_this_one() {
    let machine = machine();
    for wrong in ["", "..", "../../x", "/etc", "a/b", ".", &"a".repeat(65)] {
        assert!(Ssh::found(&machine, reported(wrong)).is_none(), "{wrong}");
    }
    let found = Ssh::found(&machine, reported("0af")).unwrap();
    assert_eq!((&*found.id, &*found.task, found.created_at), ("0af", "a b", None));
}

#[test]
fn what_a_machine_says_of_itself_is_text_and_its_paths_are_paths() {
    for wrong in [&b""[..], b"relative", b"/a\nb", b"/\x1b[2J", &[b'/'; MAX_PATH + 1]] {
        assert!(SshLocator::new(&login(), places(wrong), None).is_err(), "{wrong:?}");
    }
    let locator = SshLocator::new(&login(), places(b"/home/me/w"), None).unwrap();
    assert_eq!(locator.machine, "box [2J");
    let locator = locator.into_locator().unwrap();
    assert_eq!((DECLARATION.workspace)(&locator), Path::new("/home/me/w"));
    assert_eq!((DECLARATION.workspace)(&Locator::Null), Path::new("/"));
}

#[test]
fn a_login_is_the_same_place_whatever_it_proves_itself_by() {
    let other = HostLogin { key: Some("/k".into()), config: Some("/c".into()), ..login() };
    assert!(is_same_place(&login(), &other));
    assert!(!is_same_place(&login(), &HostLogin { user: None, ..login() }));
    assert!(!is_same_place(&login(), &HostLogin { port: Some(22), ..login() }));
}

#[test]
fn a_clock_that_is_off_by_a_day_is_told_and_one_that_goes_with_the_answer_is_not() {
    let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
    let note = |clock: u64| clock_note(clock * 1000, at(100_000), at(100_090));
    for fine in [100_000, 100_045, 100_090, 99_950, 100_140] {
        assert_eq!(note(fine), None, "{fine}");
    }
    let behind = note(100_000 - 86_400).unwrap();
    assert!(behind.contains("24h") && behind.contains("behind"), "{behind}");
    let ahead = note(100_090 + 86_400).unwrap();
    assert!(ahead.contains("24h") && ahead.contains("ahead"), "{ahead}");
    assert_eq!(clock_note(u64::MAX, at(0), at(0)), None);
}
