use proptest::prelude::*;

use super::*;

#[test]
fn a_name_is_reduced_to_its_last_part() {
    for (given, safe) in [
        ("report.pdf", "report.pdf"),
        ("/etc/passwd", "passwd"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\ada\\notes.txt", "notes.txt"),
        ("a/b/", "b"),
        ("..", "file"),
        ("../..", "file"),
        ("", "file"),
        ("  ", "file"),
        (".bashrc", "bashrc"),
        (". . .x", "x"),
        ("a\0b\nc\u{1b}[31m.txt", "abc[31m.txt"),
        ("in\u{202e}gpj.exe", "ingpj.exe"),
        ("  spaced name.txt ", "spaced name.txt"),
    ] {
        assert_eq!(safe_name(given), safe, "{given:?}");
    }
}

#[test]
fn a_long_name_is_cut_and_keeps_its_ending() {
    let long = format!("{}.tar.gz", "é".repeat(300));
    let safe = safe_name(&long);
    assert!(safe.len() <= MAX_NAME && safe.rsplit('.').next() == Some("gz"), "{safe}");
    let ending = format!("a.{}", "b".repeat(300));
    assert_eq!(safe_name(&ending).len(), MAX_NAME);
}

#[test]
fn of_files_with_one_name_each_later_one_gets_a_number() {
    assert_eq!(unique_name("a.txt", &[]), "a.txt");
    assert_eq!(unique_name("a.txt", &["a.txt"]), "a (1).txt");
    assert_eq!(unique_name("a.txt", &["a.txt", "a (1).txt"]), "a (2).txt");
    assert_eq!(unique_name("file", &["file"]), "file (1)");
    let long = safe_name(&"x".repeat(300));
    let other = unique_name(&long, &[&long]);
    assert!(other.len() <= MAX_NAME && other.ends_with(" (1)") && other != long);
}

#[test]
fn a_content_type_is_one_or_refused() {
    let good = ["text/plain", "application/vnd.ms-excel", "text/html; charset=utf-8", "a/b+c"];
    for text in good {
        assert_eq!(content_type(Some(text)).expect("fine").as_deref(), Some(text));
    }
    for text in ["text", "text/", "/plain", "te xt/plain", "text/plain\r\nx: y", "té/x"] {
        assert!(content_type(Some(text)).is_err(), "{text:?}");
    }
    assert!(content_type(Some(&format!("a/{}", "b".repeat(200)))).is_err());
    assert_eq!(content_type(Some(" ")).expect("none"), None);
}

proptest! {
    #[test]
    fn every_name_is_made_safe(
        given in any::<String>(),
        taken in proptest::collection::vec(any::<String>(), 0..8),
    ) {
        let safe = safe_name(&given);
        let taken: Vec<&str> = taken.iter().map(String::as_str).chain([safe.as_str()]).collect();
        for name in [safe.clone(), unique_name(&safe, &taken)] {
            prop_assert!(!name.is_empty() && name.len() <= MAX_NAME);
            prop_assert!(!name.contains(['/', '\\', '\0']) && !name.contains(char::is_control));
            prop_assert!(!name.starts_with('.'));
        }
        prop_assert_eq!(safe_name(&safe), safe);
    }
}
