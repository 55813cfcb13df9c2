use super::*;

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
