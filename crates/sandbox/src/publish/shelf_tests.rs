use super::*;

fn name(text: &str) -> PublishedName {
    PublishedName::new(text).unwrap()
}

struct ShelfFixture {
    dir: tempfile::TempDir,
}

impl ShelfFixture {
    fn new() -> Self {
        let fixture = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(fixture.dir.path().join("source")).unwrap();
        fs::create_dir(fixture.dir.path().join("root")).unwrap();
        fixture
    }

    fn put(&self, path: &str, text: &str) {
        fs::write(self.dir.path().join("source").join(path), text).unwrap();
    }

    fn publish(&self, shown: &str) {
        let bundle = Bundle::read(&self.dir.path().join("source")).unwrap();
        lay_out(&self.dir.path().join("root"), &name(shown), &bundle).unwrap();
    }

    fn shown(&self, path: &str) -> String {
        fs::read_to_string(self.dir.path().join("root").join(path)).unwrap_or_default()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path().join("root/skills")).unwrap().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn a_new_version_replaces_the_old_and_nothing_else() {
    let fixture = ShelfFixture::new();
    fixture.put("a", "one");
    fixture.put("b", "kept");
    for shown in ["skills/x", "skills/x-1", "skills/x"] {
        fixture.publish(shown);
    }
    let before = fixture.names();
    assert_eq!(before.len(), 4, "{before:?}");
    fixture.publish("skills/x");
    assert_eq!(fixture.names(), before, "the same version is left alone");
    fixture.put("a", "two");
    fixture.publish("skills/x");
    assert_eq!(
        (fixture.shown("skills/x/a"), fixture.shown("skills/x-1/a")),
        ("two".into(), "one".into())
    );
    assert_eq!(fixture.names().len(), 4, "{:?}", fixture.names());
}

#[test]
fn what_was_changed_or_left_half_made_is_mended() {
    let fixture = ShelfFixture::new();
    fixture.put("a", "one");
    fixture.publish("skills/x");
    let shown = fixture.dir.path().join("root/skills/x");
    let before = fixture.names();
    for spoil in [
        Box::new(|| fs::remove_file(shown.join("a")).unwrap()) as Box<dyn Fn()>,
        Box::new(|| fs::write(shown.join("more"), "x").unwrap()),
        Box::new(|| fs::remove_file(&shown).unwrap()),
        Box::new(|| {
            fs::remove_file(&shown).unwrap();
            fs::create_dir(&shown).unwrap();
        }),
        Box::new(|| {
            fs::create_dir_all(fixture.dir.path().join("root/skills/.x.0123.tmp/a")).unwrap();
        }),
    ] {
        spoil();
        fixture.publish("skills/x");
        assert_eq!(fixture.shown("skills/x/a"), "one");
        assert_eq!(fixture.names(), before);
    }
}

#[test]
fn what_is_shown_can_be_read_by_all_and_its_files_changed_by_nobody() {
    let fixture = ShelfFixture::new();
    fixture.put("a", "one");
    let source = fixture.dir.path().join("source/a");
    fs::set_permissions(&source, fs::Permissions::from_mode(0o700)).unwrap();
    fixture.publish("skills/x");
    let mode = |path: &str| {
        let path = fixture.dir.path().join("root").join(path);
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode("skills"), mode("skills/x"), mode("skills/x/a")), (0o755, 0o755, 0o555));
}

#[test]
fn names_that_lead_elsewhere_are_none() {
    for wrong in ["", "x", "skills/", "/x", "skills/../x", "a/b/c", "guest/x", "skills/.x", "a/ä"]
    {
        assert!(PublishedName::new(wrong).is_err(), "{wrong}");
    }
    assert_eq!(name("skills/x").to_string(), "skills/x");
}
