use std::time::{Duration, Instant};

use super::*;

fn fits(pattern: &str, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap();
    Glob::new(pattern, Case::Exact).unwrap().matches(path.as_bytes(), name.as_bytes())
}

#[test]
fn a_glob_without_a_slash_is_about_the_name() {
    assert!(fits("*.rs", "a/b/main.rs"));
    assert!(!fits("*.rs", "main.rst"));
    assert!(fits("mai?.rs", "a/main.rs"));
    assert!(fits("*", "x"));
}

#[test]
fn a_glob_with_a_slash_is_about_the_path() {
    assert!(fits("src/*.rs", "src/main.rs"));
    assert!(!fits("src/*.rs", "src/a/main.rs"));
    assert!(!fits("src/*.rs", "x/src/main.rs"));
    assert!(fits("/main.rs", "main.rs"));
    assert!(!fits("/main.rs", "a/main.rs"));
    assert!(fits("src/", "src/a/b.rs"));
}

#[test]
fn two_stars_cross_directories() {
    assert!(fits("**/main.rs", "main.rs"));
    assert!(fits("**/main.rs", "a/b/main.rs"));
    assert!(fits("src/**/*.rs", "src/main.rs"));
    assert!(fits("src/**/*.rs", "src/a/b/main.rs"));
    assert!(fits("src/**", "src/a/b"));
    assert!(!fits("src/**", "srcs/a"));
    assert!(fits("**/a*/b/**/c", "x/a1/z/a2/b/q/c"));
    assert!(!fits("**/a/b", "a/xb"));
    assert!(fits("a/**b", "a/xb"));
    assert!(!fits("a/**b", "a/x/b"));
}

#[test]
fn groups_stand_for_alternatives() {
    assert!(fits("*.{rs,toml}", "Cargo.toml"));
    assert!(fits("{a,b{c,d}}x", "bdx"));
    assert!(!fits("{a,b{c,d}}x", "bx"));
    assert!(fits("x{,y}", "x"));
    assert!(fits(r"\{a,b\}", "{a,b}"));
    assert!(fits("[{]a", "{a"));
    assert_eq!(Glob::new("{a,b", Case::Exact).unwrap_err(), GlobError::OpenGroup);
}

#[test]
fn classes_take_whole_characters() {
    assert!(fits("[a-c]x", "bx"));
    assert!(!fits("[!a-c]x", "bx"));
    assert!(fits("[]x]", "]"));
    assert!(fits("[é-ü]", "ö"));
    assert!(fits("caf?", "café"));
    assert_eq!(Glob::new("[a", Case::Exact).unwrap_err(), GlobError::OpenClass);
    assert!(Wildcard::new(b"?", Case::Exact).unwrap().matches(b"\xe9"));
    assert!(!Wildcard::new(b"[^x]", Case::Exact).unwrap().matches(b"/"));
}

#[test]
fn case_is_ignored_where_asked_for() {
    let glob = Glob::new("ÄPFEL[a-b].TXT", Case::Ignored).unwrap();
    assert!(glob.matches("äpfelB.txt".as_bytes(), "äpfelB.txt".as_bytes()));
}

#[test]
fn hostile_patterns_are_bounded() {
    assert_eq!(Glob::new(&"{a,b}".repeat(20), Case::Exact).unwrap_err(), GlobError::TooLarge);
    let pattern = "*a".repeat(1000) + "b";
    let text = vec![b'a'; 4000];
    let started = Instant::now();
    assert!(!Wildcard::new(pattern.as_bytes(), Case::Exact).unwrap().matches(&text));
    assert!(started.elapsed() < Duration::from_secs(20));
}
