use std::path::Path;

use proptest::prelude::*;

use super::*;

#[test]
fn a_name_is_trimmed_and_folded() {
    for (text, slug) in [("Default", "default"), (" my-board ", "my-board"), ("1_a", "1_a")] {
        assert_eq!(Slug::new(text).expect("a name").as_str(), slug);
    }
    assert!(Slug::new("DEFAULT").expect("a name").is_default());
    assert!(Slug::new(&"a".repeat(64)).is_ok());
}

#[test]
fn what_is_no_name_is_refused() {
    let long = "a".repeat(65);
    let wrong = [
        "",
        " ",
        "-a",
        "_a",
        ".",
        "..",
        "a/b",
        "../a",
        "a.b",
        "a b",
        "é",
        "a\0",
        "a\nb",
        "_archived",
        &long,
    ];
    for text in wrong {
        let error = Slug::new(text).expect_err("no name");
        assert!(error.to_string().contains("is not a valid board name"), "{error}");
    }
}

#[test]
fn a_board_without_a_name_is_called_after_its_slug() {
    for (slug, name) in [("default", "Default"), ("my-big_board", "My Big Board"), ("a--b", "A B")]
    {
        assert_eq!(Slug::new(slug).expect("a name").in_words(), name);
    }
}

proptest! {
    #[test]
    fn no_name_leads_anywhere_else(text in "[a-zA-Z0-9./\\\\ _-]{0,6}|.*") {
        if let Ok(slug) = Slug::new(&text) {
            let path = Path::new("/boards").join(slug.as_str());
            prop_assert_eq!(path.parent(), Some(Path::new("/boards")));
            prop_assert_eq!(path.components().count(), 3);
        }
    }
}
