use super::*;
use crate::testing::TestHome;

fn isolating(sets: &[&str]) -> Vec<String> {
    let found = TestHome::new().settings(&[], sets).isolating().expect("right values");
    found.into_iter().map(|setting| setting.to_string()).collect()
}

#[test]
fn a_setting_that_is_not_the_default_asks_for_isolation_and_says_where_it_was_made() {
    let cases = [
        "terminal.docker_extra_args=[\"--cap-drop=ALL\"]",
        "terminal.docker_image=debian:12",
        "terminal.docker_network=false",
        "terminal.native_rootfs=/srv/root",
    ];
    for set in cases {
        let (key, _) = set.split_once('=').expect("an assignment");
        assert_eq!(isolating(&[set]), [format!("{key} (--set {key})")]);
    }
    let isolates =
        |key: &&dyn AnyKey| !matches!(key.protection(), Protection::None | Protection::Guards);
    let mut all: Vec<&str> = crate::schema().keys().filter(isolates).map(AnyKey::name).collect();
    all.sort_unstable();
    let tried = cases.map(|set| set.split_once('=').expect("an assignment").0);
    assert_eq!(all, tried, "every key that isolates is tried");
}

#[test]
fn defaults_and_limits_ask_for_no_isolation() {
    let sets = [
        "terminal.docker_network=true",
        "terminal.container_memory=512",
        "terminal.docker_extra_args=[]",
    ];
    assert_eq!(isolating(&sets), [""; 0]);
}

#[test]
fn a_wrong_value_that_would_isolate_is_an_error() {
    let wrong = "terminal.docker_extra_args=[\" \"]";
    TestHome::new().settings(&[], &[wrong]).isolating().expect_err(wrong);
}

#[test]
fn a_setting_that_one_kind_of_sandboxes_has_says_which() {
    let sets = ["terminal.docker_extra_args=[\"--cap-drop=ALL\"]", "terminal.docker_network=no"];
    let found = TestHome::new().settings(&[], &sets).isolating().expect("right values");
    let only: Vec<_> = found.into_iter().map(|setting| (setting.key, setting.only_in)).collect();
    assert_eq!(
        only,
        [("terminal.docker_network", None), ("terminal.docker_extra_args", Some("containers"))]
    );
}
