use super::*;

fn made(values: &[(&str, &str)]) -> BTreeMap<String, String> {
    values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn of(values: &[(&str, &str)]) -> Reach {
    reach(Confinement::Contained, &made(values), Vec::new(), Some(Path::new("/home/me")))
}

fn mount(host: &str, target: &str, read_only: bool) -> Opening {
    Opening::Mount { host: host.into(), target: target.into(), read_only }
}

#[test]
fn without_confinement_everything_is_within_reach() {
    assert_eq!(reach(Confinement::None, &made(&[]), Vec::new(), None), Reach::Host);
}

#[test]
fn a_container_without_openings_reaches_nothing() {
    assert_eq!(of(&[]), Reach::Contained);
    let harmless = [
        ("terminal.docker_network", "false"),
        ("terminal.docker_volumes", r#"["cache:/cache"]"#),
        ("terminal.docker_extra_args", r#"["--shm-size", "1g", "--mount", "type=tmpfs,dst=/m"]"#),
    ];
    assert_eq!(of(&harmless), Reach::Contained);
}

#[test]
fn mounted_places_of_the_host_are_named() {
    let values = [
        ("binds", r#"["/srv/one","/srv/two"]"#),
        ("terminal.docker_mount_cwd_to_workspace", "/srv/project"),
        ("terminal.docker_volumes", r#"["~/src:/src:ro","/a:/b"]"#),
        ("terminal.docker_extra_args", r#"["--mount", "type=bind,src=/c,dst=/d"]"#),
    ];
    let expected = vec![
        mount("/srv/project", "/workspace", false),
        mount("/srv/one", "/srv/one", false),
        mount("/srv/two", "/srv/two", false),
        mount("/home/me/src", "/src", true),
        mount("/a", "/b", false),
        mount("/c", "/d", false),
    ];
    assert_eq!(of(&values), Reach::Mounts(expected));
}

#[test]
fn weakened_isolation_is_within_reach_of_the_host() {
    let privileged = [("terminal.docker_extra_args", r#"["--privileged", "--pid=host"]"#)];
    let weakness = |text: &str| Opening::Weakness(text.to_owned());
    assert_eq!(
        of(&privileged),
        Reach::Mounts(vec![weakness("--pid host"), weakness("--privileged")])
    );
    let recorded = vec!["--gpus all".to_owned()];
    assert_eq!(
        reach(Confinement::Contained, &made(&[]), recorded, None),
        Reach::Mounts(vec![weakness("--gpus all")])
    );
}

#[test]
fn what_cannot_be_known_counts_as_an_opening() {
    for (key, value) in [
        (UNKNOWN_SETTINGS, "0123"),
        ("terminal.docker_volumes", "rubbish"),
        ("terminal.docker_volumes", r#"["rubbish"]"#),
        ("terminal.docker_extra_args", "rubbish"),
        ("terminal.docker_extra_args", r#"["--rubbish"]"#),
    ] {
        assert!(matches!(of(&[(key, value)]), Reach::Mounts(_)), "{key}={value}");
    }
}
