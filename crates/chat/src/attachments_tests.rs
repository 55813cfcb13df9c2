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
    std::fs::write(at("zero.txt"), "text\0and more").unwrap();
    let key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n";
    std::fs::write(at("deploy.txt"), key).unwrap();
    std::fs::create_dir(at("src.d")).unwrap();
    let say = |name: &str| {
        let mut found = mentioned_text_paths(&format!("look at @{} please", at(name).display()));
        assert_eq!(found.len(), 1, "{name}");
        read_text_file(&found.remove(0), MOST_TEXT_BYTES).unwrap()
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
        ("zero.txt", "it is not text"),
        ("deploy.txt", "it has a private key in it, which models need not see"),
        ("src.d", "it is a directory"),
        ("missing.txt", "no such file"),
    ] {
        let failure = say(name).unwrap_err();
        assert!(failure.problem.ends_with(why), "{}", failure.problem);
    }
    let somebody = attach("mail @somebody about it".to_owned(), None);
    assert!(somebody.attached.is_empty() && somebody.errors.is_empty());
}

#[test]
fn what_is_attached_to_a_message_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let named = |count: usize, size: usize| {
        let names = (0..count).map(|number| {
            let path = dir.path().join(format!("{size}-{number}.txt"));
            std::fs::write(&path, "x".repeat(size)).unwrap();
            format!("@{}", path.display())
        });
        attach(names.collect::<Vec<_>>().join(" "), None)
    };
    let many = named(22, 10);
    assert_eq!((many.attached.len(), many.errors.len()), (20, 2));
    assert!(many.errors[0].problem.ends_with("a message takes 20 files"));
    let large = named(6, 60_000);
    assert_eq!(large.attached.len(), 5);
    assert!(large.attached[4].contains("the first"), "{:?}", large.attached);
    assert!(large.errors[0].problem.contains("the other files"), "{:?}", large.errors);
}

#[test]
fn what_was_pasted_names_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes.txt");
    std::fs::write(&path, "buy milk").unwrap();
    let pasted = format!("an issue that says @{}\n", path.display()).repeat(12);
    let found = attach_typed(pasted, "[pasted 12 lines]", None);
    assert_eq!(kinds(&found.message), ["text"]);
    assert!(found.attached.is_empty() && found.errors.is_empty());
}

#[test]
fn a_link_that_leads_out_of_the_directory_is_not_followed_unseen() {
    // Tests run in the directory of their package.
    let outside = tempfile::NamedTempFile::new().unwrap();
    let inside = tempfile::tempdir_in(".").unwrap();
    let link = inside.path().join("notes.txt");
    std::os::unix::fs::symlink(outside.path(), &link).unwrap();
    let here = std::env::current_dir().unwrap();
    let relative = link.strip_prefix(&here).map_or_else(|_| link.clone(), Path::to_path_buf);
    let relative: PathBuf = relative.components().filter(|it| *it != Component::CurDir).collect();
    assert_eq!(leads_outside(&relative), Some(outside.path().canonicalize().unwrap()));
    assert_eq!(leads_outside(outside.path()), None, "named itself");
    std::fs::write(inside.path().join("own.txt"), "").unwrap();
    assert_eq!(leads_outside(&relative.with_file_name("own.txt")), None);
}
