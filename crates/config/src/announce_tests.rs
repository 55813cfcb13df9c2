use std::fs::{File, FileTimes};
use std::time::{Duration, SystemTime};

use super::*;
use crate::testing::TestHome;

fn unannounced(home: &TestHome, env: &[(&str, &str)], audience: Audience) -> Vec<Option<String>> {
    let findings = home.settings(env, &[]).unannounced_names(audience);
    findings.into_iter().map(|finding| finding.name).collect()
}

#[test]
fn an_unknown_name_is_reported_once_per_change_of_its_file() {
    let home = TestHome::with_config("terminal:\n  timeuot: 5\n  modal_image: x\n");
    let timeuot = [Some("terminal.timeuot".to_owned())];
    assert_eq!(unannounced(&home, &[], Audience::Person), timeuot);
    assert_eq!(unannounced(&home, &[], Audience::Person), []);
    // Nobody has read what was written to a log.
    assert_eq!(unannounced(&home, &[], Audience::Log), timeuot);
    assert_eq!(unannounced(&home, &[], Audience::Log), []);
    let later = SystemTime::now() + Duration::from_secs(5);
    let file = File::options().write(true).open(home.home().config_file()).expect("config.yaml");
    file.set_times(FileTimes::new().set_modified(later)).expect("times set");
    assert_eq!(unannounced(&home, &[], Audience::Person), timeuot);
    assert_eq!(unannounced(&home, &[], Audience::Person), []);
    // One more name is reported alone.
    let variable = [("TERMINAL_TIMEOT", "1")];
    assert_eq!(
        unannounced(&home, &variable, Audience::Person),
        [Some("TERMINAL_TIMEOT".to_owned())]
    );
    assert_eq!(unannounced(&home, &variable, Audience::Person), []);
}

#[test]
fn a_home_that_is_missing_is_not_created_and_reported_again() {
    let home = TestHome::new();
    let gone = crate::Home::at(home.path("gone"));
    let env = crate::Environment::from_pairs([("TERMINAL_TIMEOT", "1")]);
    let settings = Settings::load(&crate::schema(), gone, env, Vec::new());
    assert_eq!(settings.unannounced_names(Audience::Person).len(), 1);
    assert_eq!(settings.unannounced_names(Audience::Person).len(), 1);
    assert!(!home.path("gone").exists());
}
