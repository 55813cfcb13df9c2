//! Tests of how values are read.

use super::*;

fn at(text: &str) -> Result<i64, String> {
    let now: Zoned = "2026-11-15T10:00:00+02:00[+02:00]".parse().unwrap();
    moment(text, &now).map(Time::seconds)
}

fn utc(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap().as_second()
}

#[test]
fn a_moment_is_meant_where_the_person_is_unless_it_says_where() {
    assert_eq!(at("2026-11-20 09:30"), Ok(utc("2026-11-20T07:30:00Z")));
    assert_eq!(at("2026-11-20T09:30:15"), Ok(utc("2026-11-20T07:30:15Z")));
    assert_eq!(at("2026-11-20T09:30:00Z"), Ok(utc("2026-11-20T09:30:00Z")));
    assert_eq!(at("2026-11-20T09:30:00-05:00"), Ok(utc("2026-11-20T14:30:00Z")));
    assert_eq!(at("2026-11-20"), Ok(utc("2026-11-19T22:00:00Z")));
}

#[test]
fn a_clock_time_is_the_next_one() {
    assert_eq!(at("10:30"), Ok(utc("2026-11-15T08:30:00Z")));
    assert_eq!(at("09:30"), Ok(utc("2026-11-16T07:30:00Z")));
}

#[test]
fn what_is_no_moment_is_told_with_what_is() {
    for wrong in ["", "soon", "25:00", "2026-13-01", "tomorrow"] {
        assert!(at(wrong).is_err_and(|error| error.contains("09:30")), "{wrong}");
    }
}

#[test]
fn workspaces_have_a_kind_and_perhaps_a_path() {
    assert_eq!(parse_place("scratch"), Ok(Place::Scratch));
    assert_eq!(parse_place("dir:/a:b"), Ok(Place::Dir(Some("/a:b".into()))));
    assert_eq!(parse_place("worktree"), Ok(Place::Worktree(None)));
    for wrong in ["", "scratch:/a", "scratch:", "tree", "/a"] {
        assert!(parse_place(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_path_is_the_one_named_else_the_boards() {
    let (board, home) = (Path::new("/board"), Path::new("/home/ada/.vestal"));
    let resolve = |text: &str, default, branch: Option<&str>| {
        parse_place(text).unwrap().resolve(home, default, branch.map(str::to_owned)).ok()
    };
    let dir = |path: &str| Some(Workspace::Dir { path: path.into() });
    assert_eq!(resolve("dir:/a/../b", Some(board), None), dir("/b"));
    assert_eq!(resolve("dir", Some(board), None), dir("/board"));
    assert_eq!(resolve("dir", None, None), None);
    assert_eq!(
        resolve("worktree", Some(board), Some("b")),
        Some(Workspace::Worktree { path: board.into(), branch: Some("b".to_owned()) })
    );
    assert_eq!(resolve("scratch", Some(board), Some("b")), None, "scratch has no branch");
    for own in
        ["dir:/home/ada/.vestal", "dir:/home/ada/.vestal/profiles/x", "worktree:/home/ada/.vestal"]
    {
        assert_eq!(resolve(own, None, None), None, "{own} is Vestal's own");
    }
    assert_eq!(
        resolve("dir:/home/ada/.vestal-projects", None, None),
        dir("/home/ada/.vestal-projects")
    );
}

#[test]
fn text_that_is_none_and_text_without_end_are_refused() {
    assert_eq!(read_text(&b"a\n"[..], 2).unwrap(), Ok("a\n".to_owned()));
    assert!(read_text(&b"\xff"[..], 2).unwrap().is_err());
    assert!(read_text(io::repeat(b'x'), MOST).unwrap().is_err());
}

#[test]
fn metadata_is_an_object() {
    assert!(parse_object("{\"a\":1}").is_ok());
    for wrong in ["[]", "1", "{", ""] {
        assert!(parse_object(wrong).is_err(), "{wrong}");
    }
}
