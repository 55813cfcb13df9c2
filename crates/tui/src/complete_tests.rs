use std::os::unix::ffi::OsStringExt as _;

use super::*;

fn at_end(text: &str) -> Vec<(Range<usize>, String)> {
    at_cursor(text, text.len()).into_iter().map(|word| (word.range, word.path)).collect()
}

#[test]
fn the_word_at_the_cursor_may_have_blanks() {
    assert_eq!(at_end("see @src/ma"), [(5..11, "src/ma".into())]);
    assert_eq!(at_end(r"see @my\ fi"), [(5..11, "my fi".into())]);
    assert_eq!(at_end("see (@a"), [(6..7, "a".into())]);
    assert_eq!(at_end("see "), []);
    assert_eq!(at_end("@"), [(1..1, String::new())]);
    assert_eq!(at_end("one\n@two"), [(5..8, "two".into())]);
}

#[test]
fn an_open_quote_may_be_an_apostrophe() {
    assert_eq!(
        at_end("see @\"my fi"),
        [(5..11, "my fi".into()), (9..11, "fi".into())],
        "the quoted one first"
    );
    assert_eq!(at_end("it's @a/b"), [(6..9, "a/b".into())]);
    assert_eq!(at_end("'a b' c/"), [(6..8, "c/".into())]);
    assert_eq!(at_end("'a b'"), []);
    assert_eq!(at_end("é\\"), [(0..3, "é".into())]);
}

#[test]
fn any_text_has_words() {
    for text in ["", "@", "@'", "\"", "\\", "(((", "@(", "é'ü\" @\"ö", "<@\"x\"y>", "@\u{3000}a"]
    {
        let found: Vec<_> = words(text).collect();
        for word in &found {
            assert!(text.get(word.range.clone()).is_some(), "{text}: {word:?}");
        }
        for cursor in 0..=text.len() + 1 {
            at_cursor(text, cursor);
        }
    }
}

fn mentioned(text: &str) -> Vec<(&str, String)> {
    mentioned_paths(text)
        .into_iter()
        .map(|(range, path)| (&text[range], path.display().to_string()))
        .collect()
}

#[test]
fn paths_with_an_at_are_mentioned() {
    assert_eq!(
        mentioned("look at @a.png, (@b/c.jpg) and @d! mail me@example.org"),
        [("@a.png", "a.png".into()), ("@b/c.jpg", "b/c.jpg".into()), ("@d", "d".into())]
    );
    assert_eq!(mentioned("@ @, nothing"), []);
    assert_eq!(mentioned("äö @ü.png…"), [("@ü.png", "ü.png".into())]);
}

#[test]
fn blanks_are_written_with_quotes_or_backslashes() {
    assert_eq!(
        mentioned(r#"@"my file.png" @'it, too'. @a\ b\, c"#),
        [
            (r#"@"my file.png""#, "my file.png".into()),
            ("@'it, too'", "it, too".into()),
            (r"@a\ b\,", "a b,".into()),
        ]
    );
    assert_eq!(mentioned("@'open"), [("@'open", "'open".into())]);
}

#[test]
fn a_tilde_is_the_home() {
    let home = Path::new("/home/u");
    assert_eq!(expand("~", Some(home)), Path::new("/home/u"));
    assert_eq!(expand("~/a", Some(home)), Path::new("/home/u/a"));
    assert_eq!(expand("~other/a", Some(home)), Path::new("~other/a"));
    assert_eq!(expand("~/a", None), Path::new("~/a"));
    assert_eq!(mentioned_paths("@~/x"), [(0..4, expand("~/x", std::env::home_dir().as_deref()))]);
}

#[test]
fn what_is_dragged_into_a_terminal_is_a_path() {
    let path = |text| pasted_path(text).map(|path| path.display().to_string());
    assert_eq!(path("/tmp/a.png"), Some("/tmp/a.png".into()));
    assert_eq!(path(" '/tmp/my pic.png' \n"), Some("/tmp/my pic.png".into()));
    assert_eq!(path(r"/tmp/my\ pic.png"), Some("/tmp/my pic.png".into()));
    assert_eq!(path("/tmp/my pic.png"), Some("/tmp/my pic.png".into()));
    assert_eq!(path("file:///tmp/my%20pic%C3%A4.png"), Some("/tmp/my picä.png".into()));
    assert_eq!(path("file:///tmp/100%"), Some("/tmp/100%".into()));
    for text in ["", "a.png", "two words", "/a\n/b", "file://host/x", "@/tmp/a"] {
        assert_eq!(path(text), None, "{text}");
    }
}

struct TempTree {
    dir: tempfile::TempDir,
}

impl TempTree {
    fn with(files: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        Self { dir }
    }

    fn paths(&self) -> Paths {
        Paths::new(self.dir.path(), Some(self.dir.path().join("home")))
    }

    /// What is written for each completion of the end of a text.
    fn complete(&self, text: &str) -> Vec<String> {
        let found = self.paths().complete(text, text.len());
        found
            .into_iter()
            .map(|completion| {
                let mut text = text.to_owned();
                text.replace_range(completion.replaces, &completion.text);
                text
            })
            .collect()
    }
}

#[test]
fn mentions_and_words_with_a_slash_are_completed() {
    let tree = TempTree::with(&["src/main.rs", "src/more/x", "srv", "other"]);
    assert_eq!(tree.complete("see @s"), ["see @src/", "see @srv "]);
    assert_eq!(tree.complete("see @src/m"), ["see @src/main.rs ", "see @src/more/"]);
    assert_eq!(tree.complete("see src/ma"), ["see src/main.rs "]);
    assert_eq!(tree.complete("see ./o"), ["see ./other "]);
    assert_eq!(tree.complete("see s"), [""; 0], "a word like others");
    assert_eq!(tree.complete("@nothing"), [""; 0]);
    assert_eq!(tree.complete("@nothing/x"), [""; 0]);
    assert_eq!(tree.complete("@"), ["@other ", "@src/", "@srv "]);
    let root = format!("{}/s", tree.dir.path().display());
    assert_eq!(tree.complete(&root), [format!("{root}rc/"), format!("{root}rv ")]);
    let labels: Vec<_> =
        tree.paths().complete("@src/", 5).into_iter().map(|found| found.label).collect();
    assert_eq!(labels, ["main.rs", "more/"]);
}

#[test]
fn hidden_files_are_offered_to_who_asks_for_them() {
    let tree = TempTree::with(&[".hidden", "seen"]);
    assert_eq!(tree.complete("@"), ["@seen "]);
    assert_eq!(tree.complete("@."), ["@.hidden "]);
    assert_eq!(tree.complete("@./"), ["@./seen "]);
}

#[test]
fn a_tilde_stays_written_and_is_the_home() {
    let tree = TempTree::with(&["home/notes.md"]);
    assert_eq!(tree.complete("@~/n"), ["@~/notes.md "]);
    assert_eq!(tree.complete("@~"), ["@~/notes.md "]);
    assert_eq!(tree.complete("~/"), ["~/notes.md "]);
}

#[test]
fn blanks_and_quotes_are_written_so_that_they_are_read_again() {
    let names = ["my file", "it's", "a\"b", "back\\slash", "ünï cödé"];
    let tree = TempTree::with(&names);
    for name in names {
        let first: String = name.chars().take(1).collect();
        for before in ["@", "@\"", "@'"] {
            if before == "@'" && name.contains('\'') {
                continue;
            }
            let text = format!("{before}{first}");
            let written = tree.complete(&text);
            let [written] = written.as_slice() else { panic!("{text}: {written:?}") };
            let mentioned = crate::mentioned_paths(written);
            let [(_, path)] = mentioned.as_slice() else { panic!("{written}: {mentioned:?}") };
            assert_eq!(path, Path::new(name), "{written}");
        }
    }
    let tree = TempTree::with(&["my dir/my file"]);
    assert_eq!(tree.complete("@my"), ["@my\\ dir/"]);
    assert_eq!(tree.complete("@my\\ dir/m"), ["@my\\ dir/my\\ file "]);
    assert_eq!(tree.complete("@\"my d"), ["@\"my dir/"]);
    assert_eq!(tree.complete("@\"my dir/"), ["@\"my dir/my file\" "]);
}

#[test]
fn capitals_matter_only_when_both_are_there() {
    let tree = TempTree::with(&["Cargo.toml", "README", "readable"]);
    assert_eq!(tree.complete("@cargo"), ["@Cargo.toml "]);
    assert_eq!(tree.complete("@rea"), ["@readable "]);
}

#[test]
fn links_to_directories_are_directories() {
    let tree = TempTree::with(&["real/x"]);
    std::os::unix::fs::symlink(tree.dir.path().join("real"), tree.dir.path().join("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", tree.dir.path().join("lost")).unwrap();
    assert_eq!(tree.complete("@l"), ["@link/", "@lost "]);
}

#[test]
fn no_blank_is_doubled() {
    let tree = TempTree::with(&["name"]);
    let found = tree.paths().complete("see @na now", 7);
    assert_eq!(found[0].text, "name");
}

#[test]
fn what_cannot_be_written_is_not_offered() {
    let tree = TempTree::with(&["xy"]);
    fs::write(tree.dir.path().join("x\ny"), "").unwrap();
    let no_text = std::ffi::OsString::from_vec(b"x\xff".to_vec());
    fs::write(tree.dir.path().join(no_text), "").unwrap();
    assert_eq!(tree.complete("@x"), ["@xy "]);
}

#[test]
fn a_large_directory_offers_its_first_names() {
    let names: Vec<_> = (0..300).map(|number| format!("file{number:03}")).collect();
    let tree = TempTree::with(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let found = tree.complete("@f");
    assert_eq!(found.len(), MOST_OFFERED);
    assert_eq!(found[0], "@file000 ");
}

#[test]
fn a_mention_is_one_until_it_ends() {
    let at = |text: &str| mention_at(text, text.len()).map(|found| (found.start, found.path));
    assert_eq!(at("see @src/ma"), Some((4, "src/ma".to_owned())));
    assert_eq!(at("@"), Some((0, String::new())));
    assert_eq!(at("(@a\\ b"), Some((1, "a b".to_owned())));
    assert_eq!(at("@\"a b"), Some((0, "a b".to_owned())));
    for none in ["", "mail a@b", "@src/main.rs ", "@\"a\"", "@a\nb"] {
        assert_eq!(at(none), None, "{none}");
    }
}

#[test]
fn mentions_find_paths_by_letters_within_them() {
    let paths = ["src/main.rs", "docs/my domain.md", "tests/"];
    let offered = |text: &str| {
        let found = mention_suggestions(text, text.len(), paths);
        found.into_iter().map(|found| found.text).collect::<Vec<_>>()
    };
    assert_eq!(offered("see @main"), ["src/main.rs ", "docs/my\\ domain.md "]);
    assert_eq!(offered("see @tes"), ["tests/"]);
    assert_eq!(offered("see @smrs"), ["src/main.rs "]);
    // Two letters are in nearly every path.
    assert_eq!(offered("see @ss"), [""; 0]);
    assert_eq!(offered("see main"), [""; 0]);
    let found = &mention_suggestions("see @main", 9, paths)[0];
    assert_eq!((found.replaces.clone(), found.label.as_str()), (5..9, "src/main.rs"));
}
