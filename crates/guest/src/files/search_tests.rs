use std::os::unix::fs::{PermissionsExt, symlink};

use rustix::fs::mkfifoat;
use vestal_wire::{CallReply, FoundMatches, Match, encode};

use super::*;
use crate::files::testing::{NEVER, TestDir, is_root};

fn query() -> SearchQuery {
    SearchQuery {
        root: b".".to_vec().into(),
        glob: None,
        regex: None,
        ignore_case: false,
        hidden: false,
        ignored: false,
        skip: 0,
        limit: 1000,
        context: 0,
    }
}

fn content(regex: &str) -> SearchQuery {
    SearchQuery { regex: Some(regex.into()), ..query() }
}

fn run(test_dir: &TestDir, query: &SearchQuery) -> FoundMatches {
    match search(query, &test_dir.roots(), &NEVER).unwrap() {
        FileReply::Found(found) => found,
        other => panic!("{other:?}"),
    }
}

fn fault(test_dir: &TestDir, query: &SearchQuery) -> Fault {
    search(query, &test_dir.roots(), &NEVER).unwrap_err()
}

fn paths(found: &FoundMatches) -> Vec<String> {
    let text = |found: &Match| String::from_utf8_lossy(&found.path).into_owned();
    found.matches.iter().map(text).collect()
}

/// Lines as "path:number:text", with "-" for lines around a match.
fn lines(found: &FoundMatches) -> Vec<String> {
    let line = |found: &Match| {
        let mark = if found.context { '-' } else { ':' };
        let path = String::from_utf8_lossy(&found.path);
        format!("{path}{mark}{}{mark}{}", found.line, String::from_utf8_lossy(&found.text))
    };
    found.matches.iter().map(line).collect()
}

#[test]
fn names_come_in_the_order_of_their_paths() {
    let test_dir = TestDir::new();
    for name in ["a/b", "a.c", "a/a/z", "b", "a-", "ab/x"] {
        test_dir.put(name, b"");
    }
    let found = run(&test_dir, &query());
    assert_eq!(paths(&found), ["a-", "a.c", "a/a/z", "a/b", "ab/x", "b"]);
    assert_eq!((found.files, found.more), (6, false));
    assert!(found.matches.iter().all(|found| found.line == 0 && found.text.is_empty()));
}

#[test]
fn globs_choose_by_name_or_by_path() {
    let test_dir = TestDir::new();
    for name in ["x.rs", "src/y.rs", "src/deep/z.RS", "src/w.txt"] {
        test_dir.put(name, b"needle");
    }
    let glob = |glob: &str| SearchQuery { glob: Some(glob.into()), ..query() };
    assert_eq!(paths(&run(&test_dir, &glob("*.rs"))), ["src/y.rs", "x.rs"]);
    assert_eq!(paths(&run(&test_dir, &glob("src/*.rs"))), ["src/y.rs"]);
    assert_eq!(paths(&run(&test_dir, &glob("src/**/*.{rs,RS}"))), ["src/deep/z.RS", "src/y.rs"]);
    let ignoring = SearchQuery { ignore_case: true, ..glob("*.rs") };
    assert_eq!(paths(&run(&test_dir, &ignoring)), ["src/deep/z.RS", "src/y.rs", "x.rs"]);
    let both = SearchQuery { regex: Some("needle".into()), ..glob("*.txt") };
    let found = run(&test_dir, &both);
    assert_eq!((lines(&found), found.files), (vec!["src/w.txt:1:needle".to_owned()], 1));
    assert_eq!(fault(&test_dir, &glob("[x")).code, FaultCode::Invalid);
}

#[test]
fn lines_come_in_the_order_of_paths_and_numbers() {
    let test_dir = TestDir::new();
    test_dir.put("b", b"one needle\nnothing\nNEEDLE\n");
    test_dir.put("a/c", b"x\r\nneedle here\r\n");
    assert_eq!(lines(&run(&test_dir, &content("needle"))), ["a/c:2:needle here", "b:1:one needle"]);
    let ignoring = SearchQuery { ignore_case: true, ..content("needle") };
    assert_eq!(run(&test_dir, &ignoring).matches.len(), 3);
    let wrong = fault(&test_dir, &content("(needle"));
    assert_eq!(wrong.code, FaultCode::Invalid);
    assert!(wrong.message.contains("unclosed group"), "{}", wrong.message);
}

#[test]
fn bytes_that_are_no_text_are_searched_and_returned() {
    let test_dir = TestDir::new();
    test_dir.put("latin", b"caf\xe9 noir\n");
    let found = run(&test_dir, &content("caf. noir"));
    assert_eq!(&found.matches[0].text[..], b"caf\xe9 noir");
}

#[test]
fn hidden_files_are_looked_at_only_when_asked_for() {
    let test_dir = TestDir::new();
    for name in ["entry", ".hidden", ".dir/file", ".git/config", "sub/.git/config"] {
        test_dir.put(name, b"");
    }
    assert_eq!(paths(&run(&test_dir, &query())), ["entry"]);
    let hidden = run(&test_dir, &SearchQuery { hidden: true, ..query() });
    assert_eq!(paths(&hidden), [".dir/file", ".git/config", ".hidden", "entry", "sub/.git/config"]);
}

#[test]
fn ignored_files_are_looked_at_only_when_asked_for() {
    let test_dir = TestDir::new();
    test_dir.put(".gitignore", b"*.log\n/build/\n!keep.log\n");
    test_dir.put("sub/.gitignore", b"local\n!special.log\n");
    test_dir.put("deep/.ignore", b"*.tmp\n");
    for name in [
        "x.log",
        "keep.log",
        "build/out",
        "sub/build/out",
        "sub/local",
        "local",
        "sub/special.log",
        "deep/x.tmp",
        "x.tmp",
    ] {
        test_dir.put(name, b"");
    }
    assert_eq!(
        paths(&run(&test_dir, &query())),
        ["keep.log", "local", "sub/build/out", "sub/special.log", "x.tmp"]
    );
    assert_eq!(run(&test_dir, &SearchQuery { ignored: true, ..query() }).matches.len(), 9);
}

#[test]
fn rules_above_the_root_hold_within_a_repository() {
    let test_dir = TestDir::new();
    test_dir.put(".gitignore", b"*.log\n/src/gen/\nsrc/*.bak\n");
    test_dir.put("src/x.log", b"");
    test_dir.put("src/gen/file", b"");
    test_dir.put("src/a.bak", b"");
    test_dir.put("src/main", b"");
    let below = SearchQuery { root: b"src".to_vec().into(), ..query() };
    assert_eq!(paths(&run(&test_dir, &below)), ["a.bak", "gen/file", "main", "x.log"]);
    test_dir.put(".git/info/exclude", b"main\n");
    assert_eq!(paths(&run(&test_dir, &below)), Vec::<String>::new());
    // What is named itself is looked at, whatever the rules say of it.
    let inside = SearchQuery { root: b"src/gen".to_vec().into(), ..query() };
    assert_eq!(paths(&run(&test_dir, &inside)), ["file"]);
    // A repository of its own has rules of its own.
    test_dir.put("src/own/.git/HEAD", b"");
    test_dir.put("src/own/x.log", b"");
    assert_eq!(paths(&run(&test_dir, &below)), ["own/x.log"]);
}

#[test]
fn binary_special_and_unreadable_files_are_passed_over_and_counted() {
    let test_dir = TestDir::new();
    test_dir.put("binary", b"needle\0");
    test_dir.put("text", b"needle");
    let locked = test_dir.put("locked", b"needle");
    test_dir.put("shut/file", b"needle");
    mkfifoat(CWD, test_dir.path("pipe"), Mode::from_raw_mode(0o600)).unwrap();
    symlink("/", test_dir.path("root")).unwrap();
    symlink("text", test_dir.path("link")).unwrap();
    let set_mode = |path: &Path, mode| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };
    set_mode(&locked, 0);
    set_mode(&test_dir.path("shut"), 0);
    let found = run(&test_dir, &content("needle"));
    set_mode(&test_dir.path("shut"), 0o755);
    if is_root() {
        assert_eq!(paths(&found), ["locked", "shut/file", "text"]);
        assert_eq!((found.files, found.binary, found.unreadable), (4, 1, 0));
    } else {
        assert_eq!(paths(&found), ["text"]);
        assert_eq!((found.files, found.binary, found.unreadable), (2, 1, 2));
    }
    let names = run(&test_dir, &SearchQuery { glob: Some("[lpr]*".into()), ..query() });
    assert_eq!(paths(&names), ["link", "locked", "root"]);
}

#[test]
fn the_root_may_be_one_file_or_a_link() {
    let test_dir = TestDir::new();
    test_dir.put("dir/.hidden", b"one\ntwo\n");
    symlink("dir", test_dir.path("link")).unwrap();
    symlink("dir/.hidden", test_dir.path("file")).unwrap();
    let at = |root: &str, query: SearchQuery| {
        run(&test_dir, &SearchQuery { root: root.as_bytes().to_vec().into(), ..query })
    };
    assert_eq!(lines(&at("dir/.hidden", content("two"))), [".hidden:2:two"]);
    assert_eq!(lines(&at("file", content("two"))), ["file:2:two"]);
    assert_eq!(paths(&at("file", query())), ["file"]);
    let hidden = SearchQuery { hidden: true, ..content("one") };
    assert_eq!(lines(&at("link", hidden)), [".hidden:1:one"]);
    let gone = SearchQuery { root: b"none".to_vec().into(), ..query() };
    assert_eq!(fault(&test_dir, &gone).code, FaultCode::NotFound);
    let device = SearchQuery { root: b"/dev/null".to_vec().into(), ..query() };
    assert_eq!(fault(&test_dir, &device).code, FaultCode::WrongKind);
}

#[test]
fn lines_around_a_match_are_marked_and_come_once() {
    let test_dir = TestDir::new();
    test_dir.put("file", b"1\n2\nx3\n4\nx5\n6\n7\n8\n9\nx10\n");
    let around = SearchQuery { context: 1, ..content("x") };
    assert_eq!(
        lines(&run(&test_dir, &around)),
        ["file-2-2", "file:3:x3", "file-4-4", "file:5:x5", "file-6-6", "file-9-9", "file:10:x10"]
    );
    let page = SearchQuery { skip: 1, limit: 1, ..around };
    let found = run(&test_dir, &page);
    assert_eq!(lines(&found), ["file-4-4", "file:5:x5", "file-6-6"]);
    assert!(found.more);
}

#[test]
fn pages_join_to_the_whole() {
    let test_dir = TestDir::new();
    for n in 0..7 {
        test_dir.put(&format!("{n}"), b"x\ny\nx\n");
    }
    for base in [content("x"), query()] {
        let whole = run(&test_dir, &base);
        assert!(!whole.more);
        let mut joined = Vec::new();
        loop {
            let skip = u32::try_from(joined.len()).unwrap();
            let page = run(&test_dir, &SearchQuery { skip, limit: 3, ..base.clone() });
            joined.extend(page.matches);
            if !page.more {
                break;
            }
        }
        assert_eq!(joined, whole.matches);
        let none = run(&test_dir, &SearchQuery { limit: 0, ..base });
        assert!(none.more && none.matches.is_empty());
    }
}

#[test]
fn a_reply_never_outgrows_a_message() {
    let test_dir = TestDir::new();
    let line = "x".repeat(3000) + "\n";
    test_dir.put("file", line.repeat(1200).as_bytes());
    for context in [0, u32::MAX] {
        let mut entry = 0;
        loop {
            let query = SearchQuery { skip: entry, limit: u32::MAX, context, ..content("x") };
            let found = run(&test_dir, &query);
            let count = found.matches.iter().filter(|found| !found.context).count();
            assert!(count > 100);
            assert!(found.matches.iter().all(|found| found.text.len() <= 2000));
            entry += u32::try_from(count).unwrap();
            let more = found.more;
            encode(&CallReply::File(FileReply::Found(found))).unwrap();
            if !more {
                break;
            }
        }
        assert_eq!(entry, 1200);
    }
}

#[test]
fn a_cancelled_search_stops() {
    let test_dir = TestDir::new();
    test_dir.put("file", b"x");
    let cancelled = AtomicBool::new(true);
    for query in [content("x"), query()] {
        let fault = search(&query, &test_dir.roots(), &cancelled).unwrap_err();
        assert_eq!(fault.code, FaultCode::Cancelled);
    }
}

#[test]
fn deep_trees_are_searched_with_few_descriptors() {
    let test_dir = TestDir::new();
    let deep = "d/".repeat(300);
    test_dir.put(&format!("{deep}leaf"), b"needle");
    test_dir.put("z", b"needle");
    let found = run(&test_dir, &content("needle"));
    assert_eq!(paths(&found), [format!("{deep}leaf"), "z".to_owned()]);
}
