use std::path::Path;

use vestal_wire::machine::{InstanceLabel, MachineName};

use super::super::backend::DECLARATION;
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
    for wrong in ["", "..", "../../x", "/etc", "a/b", ".", &"a".repeat(65)] {
        assert!(SshLocator::found(&login(), reported(wrong)).is_none(), "{wrong}");
    }
    let found = SshLocator::found(&login(), reported("0af")).unwrap();
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
