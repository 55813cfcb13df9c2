use super::*;

#[test]
fn no_path_leads_out_of_a_skill() {
    for wrong in [
        "",
        ".",
        "/etc/passwd",
        "..",
        "../x",
        "a/../../x",
        "a/..",
        ".env",
        "a/.git/config",
        "a\0b",
        "a\nb",
        "a\\..\\b",
        &"a/".repeat(40),
        &"x".repeat(200),
    ] {
        assert!(inner_path(wrong).is_err(), "{wrong:?}");
    }
    for (text, path) in [("a/b.md", "a/b.md"), ("./a//b", "a/b"), ("ä ö", "ä ö")] {
        assert_eq!(inner_path(text).unwrap(), Path::new(path));
    }
}

#[test]
fn a_link_on_the_way_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/etc", dir.path().join("out")).unwrap();
    assert!(within(dir.path(), Path::new("out/passwd")).is_err());
    assert!(within(dir.path(), Path::new("new/deep/file")).is_ok());
    std::os::unix::fs::symlink("/etc/passwd", dir.path().join("file")).unwrap();
    let error = open_file(&dir.path().join("file")).unwrap_err().to_string();
    assert!(error.contains("a link"), "{error}");
}
