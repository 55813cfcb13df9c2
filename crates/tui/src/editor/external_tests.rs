use std::path::PathBuf;

use super::*;

#[test]
fn an_editor_gets_the_text_and_gives_it_back() {
    let edited = edit_externally("one\ntwo", "sed -i s/two/three/").unwrap();
    assert_eq!(edited, "one\nthree");
    assert_eq!(edit_externally("text", "true").unwrap(), "text");
    let appended = edit_externally("text", "f() { echo ' more' >> \"$1\"; }; f").unwrap();
    assert_eq!(appended, "text more", "the end of the last line is the editor's");
}

#[test]
fn nobody_else_can_read_it_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let told = dir.path().join("told");
    let editor = format!(
        "f() {{ stat -c %a \"$1\" \"$(dirname \"$1\")\" > {0}; echo \"$1\" >> {0}; }}; f",
        told.display()
    );
    edit_externally("text", &editor).unwrap();
    let told = fs::read_to_string(told).unwrap();
    let told: Vec<_> = told.lines().collect();
    assert_eq!(&told[..2], ["600", "700"]);
    let path = PathBuf::from(told[2]);
    assert!(path.ends_with("message.md"));
    assert!(!path.exists() && !path.parent().unwrap().exists());
}

#[test]
fn an_editor_that_fails_changes_nothing() {
    let error = edit_externally("text", "false").unwrap_err().to_string();
    assert_eq!(error, "the editor `false` ended with exit status: 1; the text is as it was");
    let error = edit_externally("text", "rm").unwrap_err().to_string();
    assert!(error.starts_with("the editor `rm` left no file: "), "{error}");
    let error = edit_externally("text", r#"f() { printf '\377' > "$1"; }; f"#).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
}
