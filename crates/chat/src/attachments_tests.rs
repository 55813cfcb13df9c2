use super::*;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n rest";

fn kinds(message: &UserMessage) -> Vec<&str> {
    let kind = |part: &Part| match part {
        Part::Text { .. } => "text",
        Part::Image(image) if image.media_type == "image/png" => "png",
        Part::Image(_) => "image",
    };
    message.parts.iter().map(kind).collect()
}

#[test]
fn pictures_are_attached_however_their_paths_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let plain = dir.path().join("shot.png");
    let blank = dir.path().join("my shot.PNG");
    std::fs::write(&plain, PNG).unwrap();
    std::fs::write(&blank, PNG).unwrap();
    let (plain, blank) = (plain.display().to_string(), blank.display().to_string());
    let escaped = blank.replace(' ', "\\ ");
    for text in [
        format!("what is @{plain} about?"),
        plain.clone(),
        format!("look: '{blank}'"),
        format!("look: @\"{blank}\""),
        format!("{escaped} there"),
        format!("file://{plain}"),
        format!("@{plain} and again {plain}"),
    ] {
        let found = attach(text.clone(), None);
        assert_eq!(kinds(&found.message), ["text", "png"], "{text}");
        assert_eq!(found.message.text(), text);
        assert_eq!(found.attached.len(), 1, "{text}");
        assert!(found.errors.is_empty());
    }
    let home = attach("~/shot.png".to_owned(), Some(dir.path()));
    assert_eq!(kinds(&home.message), ["text", "png"]);
}

#[test]
fn what_names_no_picture_stays_words() {
    for text in ["mail me @work, don't \\".to_owned(), "shot.png".to_owned(), String::new()] {
        let found = attach(text.clone(), None);
        assert_eq!(kinds(&found.message), ["text"], "{text}");
        assert!(found.errors.is_empty(), "{text}");
    }
}

#[test]
fn a_picture_that_is_none_is_reported_and_the_words_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fake.png");
    std::fs::write(&path, "not a picture").unwrap();
    let found = attach(format!("@{}", path.display()), None);
    assert_eq!(kinds(&found.message), ["text"]);
    assert!(found.errors[0].problem.ends_with("not an image that models can read"));
}

#[test]
fn a_text_that_is_mentioned_is_attached_and_what_cannot_be_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("notes.txt"), "buy milk\n").unwrap();
    std::fs::write(at("long.txt"), "x".repeat(70_000)).unwrap();
    std::fs::write(at("raw.bin"), [0xff, 0xfe, 0x00, 0x80, 0x81]).unwrap();
    std::fs::create_dir(at("src.d")).unwrap();
    let say = |name: &str| {
        let mut found = mentioned_texts(&format!("look at @{} please", at(name).display()));
        assert_eq!(found.len(), 1, "{name}");
        found.remove(0)
    };
    let path = at("notes.txt").display().to_string();
    let notes = say("notes.txt").unwrap();
    let text = format!("[The file {path}, attached by the user:]\nbuy milk\n");
    assert_eq!(notes.part, Part::Text { text });
    let long = say("long.txt").unwrap();
    let Part::Text { text } = &long.part else { panic!("{long:?}") };
    assert_eq!(
        text.matches('x').count() - text.lines().next().unwrap().matches('x').count(),
        65_536
    );
    assert!(long.about.contains("the first"), "{}", long.about);
    for (name, why) in [
        ("raw.bin", "it is not text"),
        ("src.d", "it is a directory"),
        ("missing.txt", "no such file"),
    ] {
        let failure = say(name).unwrap_err();
        assert!(failure.problem.ends_with(why), "{}", failure.problem);
    }
    assert!(mentioned_texts("mail @somebody about it").is_empty());
}
