use proptest::prelude::*;

use super::*;

fn env(pairs: &[(&str, &str)]) -> Environment {
    Environment::from_pairs(pairs.iter().copied())
}

#[test]
fn the_home_is_vestal_home_or_below_the_users() {
    let root = |pairs: &[(&str, &str)]| Home::locate(&env(pairs), None).map(|home| home.dir());
    assert_eq!(root(&[("HOME", "/home/ada")]), Ok(PathBuf::from("/home/ada/.vestal")));
    assert_eq!(root(&[("HOME", "/home/ada"), ("VESTAL_HOME", "/v")]), Ok(PathBuf::from("/v")));
    assert_eq!(root(&[("HOME", "/h"), ("VESTAL_HOME", "")]), Ok(PathBuf::from("/h/.vestal")));
    assert_eq!(root(&[]), Err(HomeNotFound::NoHome));
    let relative =
        |variable, path: &str| Err(HomeNotFound::Relative { variable, path: path.into() });
    assert_eq!(root(&[("VESTAL_HOME", "v")]), relative("VESTAL_HOME", "v"));
    assert_eq!(root(&[("HOME", "h")]), relative("HOME", "h"));
}

#[test]
fn a_home_need_not_be_utf8() {
    use std::os::unix::ffi::OsStringExt;
    let odd = std::ffi::OsString::from_vec(b"/v\xff".to_vec());
    let env = Environment::from_pairs([("VESTAL_HOME", odd.clone())]);
    assert_eq!(Home::locate(&env, None).map(|home| home.dir()), Ok(PathBuf::from(odd)));
}

#[test]
fn the_flag_beats_the_variable_and_default_is_the_root() {
    let root = tempfile::tempdir().expect("a directory");
    std::fs::create_dir_all(root.path().join("profiles/work")).expect("made");
    std::fs::create_dir_all(root.path().join("profiles/play")).expect("made");
    let root = root.path().to_str().expect("UTF-8");
    let env = env(&[("VESTAL_HOME", root), ("VESTAL_PROFILE", "play")]);
    let dir = |flag| Home::locate(&env, flag).map(|home| home.dir()).expect("found");
    assert_eq!(dir(None), Path::new(root).join("profiles/play"));
    assert_eq!(dir(Some("Work")), Path::new(root).join("profiles/work"));
    assert_eq!(dir(Some("default")), Path::new(root));
    let home = Home::locate(&env, Some("work")).expect("found");
    assert_eq!(home.config_file(), Path::new(root).join("profiles/work/config.yaml"));
    assert_eq!(home.root(), Path::new(root));
}

#[test]
fn an_unknown_profile_is_an_error_that_lists_the_others() {
    let root = tempfile::tempdir().expect("a directory");
    for name in ["work", "play", "Bad", "default"] {
        std::fs::create_dir_all(root.path().join("profiles").join(name)).expect("made");
    }
    std::fs::write(root.path().join("profiles/file"), "").expect("written");
    let env = Environment::from_pairs([("VESTAL_HOME", root.path())]);
    let error = Home::locate(&env, Some("wrok")).expect_err("unknown").to_string();
    let expected = "there is no profile wrok (-p); existing profiles: default, play, work; \
                    to make it: vestal profile create wrok";
    assert_eq!(error, expected);
}

#[test]
fn names_that_could_leave_the_home_are_refused() {
    for name in [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "/etc",
        "-x",
        "_x",
        "a b",
        "é",
        "a\0",
        "a.b",
        &"a".repeat(65),
    ] {
        assert!(
            matches!(ProfileName::new(name), Err(HomeNotFound::BadProfileName { .. })),
            "{name:?}"
        );
    }
    for name in ["a", "0", "a-b_c", &"a".repeat(64)] {
        assert_eq!(ProfileName::new(name).map(|name| name.to_string()), Ok(name.to_owned()));
    }
}

proptest! {
    #[test]
    fn every_accepted_name_is_one_plain_path_component(name in any::<String>()) {
        if let Ok(name) = ProfileName::new(&name) {
            let components: Vec<_> = Path::new(name.as_str()).components().collect();
            prop_assert_eq!(components.len(), 1);
            prop_assert!(matches!(components[0], std::path::Component::Normal(_)));
        }
    }
}
