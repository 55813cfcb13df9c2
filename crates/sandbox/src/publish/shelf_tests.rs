use super::*;

fn name(text: &str) -> PublishedName {
    PublishedName::new(text).unwrap()
}

struct Yard {
    dir: tempfile::TempDir,
}

impl Yard {
    fn new() -> Self {
        let yard = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(yard.dir.path().join("source")).unwrap();
        fs::create_dir(yard.dir.path().join("root")).unwrap();
        yard
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
    let yard = Yard::new();
    yard.put("a", "one");
    yard.put("b", "kept");
    for shown in ["skills/x", "skills/x-1", "skills/x"] {
        yard.publish(shown);
    }
    let before = yard.names();
    assert_eq!(before.len(), 4, "{before:?}");
    yard.publish("skills/x");
    assert_eq!(yard.names(), before, "the same version is left alone");
    yard.put("a", "two");
    yard.publish("skills/x");
    assert_eq!(
        (yard.shown("skills/x/a"), yard.shown("skills/x-1/a")),
        ("two".into(), "one".into())
    );
    assert_eq!(yard.names().len(), 4, "{:?}", yard.names());
}

#[test]
fn what_was_changed_or_left_half_made_is_mended() {
    let yard = Yard::new();
    yard.put("a", "one");
    yard.publish("skills/x");
    let shown = yard.dir.path().join("root/skills/x");
    let before = yard.names();
    for spoil in [
        Box::new(|| fs::remove_file(shown.join("a")).unwrap()) as Box<dyn Fn()>,
        Box::new(|| fs::write(shown.join("more"), "x").unwrap()),
        Box::new(|| fs::remove_file(&shown).unwrap()),
        Box::new(|| {
            fs::remove_file(&shown).unwrap();
            fs::create_dir(&shown).unwrap();
        }),
        Box::new(|| {
            fs::create_dir_all(yard.dir.path().join("root/skills/.x.0123.tmp/a")).unwrap();
        }),
    ] {
        spoil();
        yard.publish("skills/x");
        assert_eq!(yard.shown("skills/x/a"), "one");
        assert_eq!(yard.names(), before);
    }
}

#[test]
fn what_is_shown_can_be_read_by_all_and_its_files_changed_by_nobody() {
    let yard = Yard::new();
    yard.put("a", "one");
    let source = yard.dir.path().join("source/a");
    fs::set_permissions(&source, fs::Permissions::from_mode(0o700)).unwrap();
    yard.publish("skills/x");
    let mode = |path: &str| {
        let path = yard.dir.path().join("root").join(path);
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
