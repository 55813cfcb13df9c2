use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;
use crate::testing::{SkillHome, text};

fn name(text: &str) -> SkillName {
    SkillName::new(text).unwrap()
}

fn change(home: &SkillHome, skill: &str, change: SkillChange) -> Result<SkillChanged, SkillError> {
    home.skills().change(&SkillEdit { name: name(skill), change }, &BTreeSet::new())
}

fn create(home: &SkillHome, skill: &str, more: &str) -> Result<SkillChanged, SkillError> {
    change(home, skill, SkillChange::Create { content: text(skill, more), category: None })
}

fn read(home: &SkillHome, path: &str) -> String {
    fs::read_to_string(home.path(&format!("skills/{path}"))).unwrap_or_default()
}

fn write(file: &str, content: &str) -> SkillChange {
    SkillChange::WriteFile { file: file.to_owned(), content: content.to_owned() }
}

#[test]
fn a_disabled_skill_that_is_removed_is_not_disabled_when_it_is_installed_again() {
    let home = SkillHome::new();
    let goes: [fn(&SkillHome); 2] = [
        |home| drop(change(home, "one", SkillChange::Delete).unwrap()),
        |home| drop(home.skills().remove("one").unwrap()),
    ];
    for goes in goes {
        create(&home, "one", "").unwrap();
        home.put("config.yaml", "skills: {disabled: [one, two]}\n");
        assert!(home.skills().find("one").is_none());
        goes(&home);
        create(&home, "one", "").unwrap();
        assert!(home.skills().find("one").is_some());
        let left = fs::read_to_string(home.path("config.yaml")).unwrap();
        assert!(left.contains("two"), "{left}");
        change(&home, "one", SkillChange::Delete).unwrap();
    }
}

#[test]
fn a_skill_is_made_changed_and_deleted_and_leaves_nothing_else() {
    let home = SkillHome::new();
    create(&home, "one", "").unwrap();
    assert_eq!(home.names(), ["one"]);
    change(&home, "one", write("scripts/go.sh", "#!/bin/sh\necho 1\n")).unwrap();
    change(&home, "one", write("notes/deep/a.md", "a b a")).unwrap();
    let mode = fs::metadata(home.path("skills/one/scripts/go.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111, "what begins as a script does is one");
    let patch = |file: Option<&str>, old: &str, new: &str, everywhere| SkillChange::Patch {
        file: file.map(str::to_owned),
        old: old.to_owned(),
        new: new.to_owned(),
        everywhere,
    };
    change(&home, "one", patch(None, "How one is done.", "Do it.", false)).unwrap();
    assert!(read(&home, "one/SKILL.md").ends_with("---\nDo it.\n"));
    change(&home, "one", patch(Some("notes/deep/a.md"), "a", "c", true)).unwrap();
    assert_eq!(read(&home, "one/notes/deep/a.md"), "c b c");
    change(&home, "one", patch(Some("scripts/go.sh"), "1", "2", false)).unwrap();
    let mode = fs::metadata(home.path("skills/one/scripts/go.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111, "it keeps its permissions");
    change(&home, "one", SkillChange::RemoveFile { file: "notes/deep/a.md".into() }).unwrap();
    assert!(!home.path("skills/one/notes").exists(), "empty folders go along");
    change(&home, "one", SkillChange::Replace { content: text("one", "version: 2\n") }).unwrap();
    assert_eq!(home.skills().find("one").unwrap().about.version.as_deref(), Some("2"));
    change(&home, "one", SkillChange::Delete).unwrap();
    assert_eq!(home.names(), Vec::<String>::new());
}

#[test]
fn a_skill_is_made_in_a_category_which_goes_with_its_last() {
    let home = SkillHome::new();
    let content = text("one", "");
    let made = SkillChange::Create { content, category: Some(name("office")) };
    change(&home, "one", made).unwrap();
    assert_eq!(home.skills().find("one").unwrap().category.as_deref(), Some("office"));
    change(&home, "one", SkillChange::Delete).unwrap();
    assert_eq!(home.names(), Vec::<String>::new());
    create(&home, "one", "").unwrap();
    let inside = SkillChange::Create { content: text("two", ""), category: Some(name("one")) };
    assert!(change(&home, "two", inside).unwrap_err().to_string().contains("is not a category"));
}

#[test]
fn what_would_break_a_skill_is_not_written() {
    let home = SkillHome::new();
    create(&home, "one", "").unwrap();
    let before = read(&home, "one/SKILL.md");
    let patch = |old: &str, new: &str| SkillChange::Patch {
        file: None,
        old: old.to_owned(),
        new: new.to_owned(),
        everywhere: false,
    };
    for (made, reason) in [
        (SkillChange::Replace { content: "no front matter".into() }, "no front matter"),
        (SkillChange::Replace { content: text("other", "") }, "`name` must be one, not other"),
        (patch("name: one", "name: two"), "`name` must be one, not two"),
        (patch("description", "about"), "`description` is missing"),
        (patch("not there", ""), "is not in the file"),
        (patch("one", "x"), "4 times"),
        (patch("", "x"), "is empty"),
        (write("SKILL.md", "x"), "actions edit and patch"),
        (write("./SKILL.md", "x"), "actions edit and patch"),
        (write("../two/SKILL.md", "x"), "leads out"),
        (write("/etc/passwd", "x"), "must be relative"),
        (write(".env", "x"), "hidden"),
        (write("large", &"x".repeat(1024 * 1024 + 1)), "larger than 1024 KiB"),
        (SkillChange::RemoveFile { file: "none".into() }, "has no file"),
        (SkillChange::Create { content: text("one", ""), category: None }, "there is a skill one"),
    ] {
        let error = change(&home, "one", made.clone()).unwrap_err().to_string();
        assert!(error.contains(reason), "{made:?}: {error}");
    }
    assert_eq!(read(&home, "one/SKILL.md"), before);
    assert_eq!(home.names(), ["one"]);
    assert!(change(&home, "none", SkillChange::Delete).is_err());
}

#[test]
fn links_lead_no_change_elsewhere() {
    let home = SkillHome::new();
    create(&home, "one", "").unwrap();
    home.put("outside/file", "untouched");
    symlink(home.path("outside"), home.path("skills/one/out")).unwrap();
    assert!(change(&home, "one", write("out/file", "x")).is_err());
    assert!(change(&home, "one", SkillChange::RemoveFile { file: "out/file".into() }).is_err());
    symlink(home.path("outside/file"), home.path("skills/one/linked")).unwrap();
    assert!(change(&home, "one", write("linked", "x")).is_err());
    change(&home, "one", SkillChange::RemoveFile { file: "linked".into() }).unwrap();
    // A skill that is a link goes without what it leads to.
    symlink(home.path("outside"), home.path("skills/away")).unwrap();
    home.skills().remove("away").unwrap();
    assert_eq!(fs::read_to_string(home.path("outside/file")).unwrap(), "untouched");
}

#[test]
fn variables_need_somebodys_word_once_and_only_those_that_would_be_forwarded() {
    let home = SkillHome::new();
    let ask = |more: &str| create(&home, "one", more).unwrap();
    let env = |name: &str| EnvName::new(name).unwrap();
    let asks = "required_environment_variables: [A_TOKEN, OPENAI_API_KEY]\n";
    assert_eq!(ask(asks), SkillChanged::Asks(vec![env("A_TOKEN")]));
    assert_eq!(home.names(), Vec::<String>::new(), "nothing was written");
    let edit = SkillEdit {
        name: name("one"),
        change: SkillChange::Create { content: text("one", asks), category: None },
    };
    let allowed = [env("A_TOKEN")].into();
    assert!(matches!(home.skills().change(&edit, &allowed).unwrap(), SkillChanged::Done { .. }));
    // What it had it keeps, and what is new is asked about.
    let again = SkillChange::Replace { content: text("one", &format!("version: 2\n{asks}")) };
    assert!(matches!(change(&home, "one", again).unwrap(), SkillChanged::Done { .. }));
    let more = "required_environment_variables: [A_TOKEN, B_TOKEN]\n";
    let more = SkillChange::Replace { content: text("one", more) };
    assert_eq!(change(&home, "one", more).unwrap(), SkillChanged::Asks(vec![env("B_TOKEN")]));
    let patch = SkillChange::Patch {
        file: None,
        old: "[A_TOKEN".into(),
        new: "[C_TOKEN, A_TOKEN".into(),
        everywhere: false,
    };
    assert_eq!(change(&home, "one", patch).unwrap(), SkillChanged::Asks(vec![env("C_TOKEN")]));
}

#[test]
fn a_broken_skill_can_be_mended_or_deleted() {
    let home = SkillHome::new();
    home.put("skills/bad/SKILL.md", "x").put("skills/worse/SKILL.md", [0xff]);
    change(&home, "bad", SkillChange::Replace { content: text("bad", "") }).unwrap();
    assert!(home.skills().find("bad").is_some());
    change(&home, "worse", SkillChange::Delete).unwrap();
    assert_eq!(home.names(), ["bad"]);
}

#[test]
fn skills_are_installed_replaced_and_removed_whole() {
    let home = SkillHome::new();
    home.put("src/SKILL.md", text("one", "version: 1\n")).put("src/a/b", "1");
    let skills = home.skills();
    let proposal = skills.propose(&home.path("src"), None).unwrap();
    assert!(proposal.replaces.is_none() && home.names().is_empty(), "nothing is written yet");
    assert_eq!(skills.install(&proposal).unwrap().files, 2);
    // Somebody who did not see it there does not replace it.
    assert!(matches!(skills.install(&proposal), Err(SkillError::Exists { .. })));
    home.put("src/SKILL.md", text("one", "version: 2\n"));
    fs::remove_dir_all(home.path("src/a")).unwrap();
    let proposal = skills.propose(&home.path("src"), None).unwrap();
    assert!(skills.install(&proposal).unwrap().replaced);
    assert_eq!(skills.find("one").unwrap().about.version.as_deref(), Some("2"));
    assert!(!home.path("skills/one/a").exists());
    let renamed = skills.propose(&home.path("src"), Some(&name("other"))).unwrap();
    assert_eq!(skills.install(&renamed).unwrap().name.as_str(), "other");
    assert!(
        read(&home, "other/SKILL.md").starts_with("---\nname: other\ndescription: About one.\n")
    );
    assert_eq!(skills.remove("one").unwrap(), home.path("skills/one"));
    assert!(matches!(skills.remove("one"), Err(SkillError::Unknown { .. })));
    assert_eq!(home.names(), ["other"]);
}

#[test]
fn a_broken_skill_is_replaced_by_one_that_is_installed_in_its_place() {
    let home = SkillHome::new();
    home.put("skills/office/one/SKILL.md", "rubbish").put("src/SKILL.md", text("one", ""));
    let skills = home.skills();
    let proposal = skills.propose(&home.path("src"), None).unwrap();
    assert!(proposal.replaces.is_none());
    assert_eq!(proposal.mends.as_ref().unwrap().reason, "it has no front matter");
    assert_eq!(proposal.goes(), Some(&*home.path("skills/office/one")));
    assert!(skills.install(&proposal).unwrap().replaced);
    assert_eq!(skills.find("one").unwrap().category.as_deref(), Some("office"));
    assert_eq!(skills.catalogue().broken, []);
    // One that has come meanwhile was not seen, and stays.
    assert!(skills.propose(&home.path("src"), None).unwrap().mends.is_none());
}

#[test]
fn what_is_no_skill_is_not_replaced_and_reported_as_in_the_way() {
    let home = SkillHome::new();
    home.skill("office/other", "").put("src/SKILL.md", text("office", ""));
    let skills = home.skills();
    let proposal = skills.propose(&home.path("src"), None).unwrap();
    assert_eq!(proposal.goes(), None);
    let error = skills.install(&proposal).unwrap_err();
    assert!(matches!(&error, SkillError::Occupied { path } if path.ends_with("office")), "{error}");
    assert!(create(&home, "office", "").unwrap_err().to_string().contains("is in the way"));
    assert!(skills.find("other").is_some());
    assert_eq!(home.names(), ["office"]);
}

#[test]
fn a_skill_has_as_many_files_as_a_sandbox_can_be_shown() {
    let home = SkillHome::new();
    create(&home, "one", "").unwrap();
    for number in 2..MAX_FILES {
        home.put(&format!("skills/one/{number}"), "x");
    }
    let error = change(&home, "one", write("new/file", "x")).unwrap_err().to_string();
    assert_eq!(error, "a skill has at most 2000 files and folders, and 32 MiB");
    assert!(!home.path("skills/one/new").exists());
    change(&home, "one", write("file", "x")).unwrap();
    // What is there can be written however many there are, and nothing else.
    change(&home, "one", write("file", "y")).unwrap();
    assert!(change(&home, "one", write("another", "x")).is_err());
    let skill = home.skills().find("one").unwrap();
    assert_eq!(home.skills().survey(&skill).unwrap().files.len(), MAX_FILES);
}

#[test]
fn a_skill_that_stepped_aside_for_one_that_did_not_come_is_put_back() {
    let home = SkillHome::new();
    home.skill("there", "").put("skills/.kept.there/SKILL.md", "old");
    home.put("skills/.kept.one/SKILL.md", text("one", ""));
    home.put("skills/office/.kept.two/SKILL.md", text("two", ""));
    create(&home, "new", "").unwrap();
    let names: Vec<String> = home.skills().names();
    assert_eq!(names, ["new", "one", "there", "two"]);
    assert_eq!(home.names(), ["new", "office", "one", "there"]);
}

#[test]
fn what_a_dead_process_left_is_swept() {
    let home = SkillHome::new();
    home.put("skills/.new-0123/SKILL.md", "x").put("skills/.old-0123/a/b", "x");
    home.put("skills/.file-0123", "x").put("skills/.mine/x", "x");
    create(&home, "one", "").unwrap();
    assert_eq!(home.names(), [".mine", "one"]);
}

#[test]
fn of_many_who_change_at_once_each_change_is_whole_and_none_is_lost() {
    let home = SkillHome::new();
    create(&home, "shared", "").unwrap();
    let made: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..8)
            .map(|number| {
                let home = &home;
                scope.spawn(move || {
                    for round in 0..10 {
                        change(home, "shared", write(&format!("{number}/{round}"), "x")).unwrap();
                        // Readers see a skill that is in order at all times.
                        assert!(home.skills().find("shared").is_some());
                    }
                    usize::from(create(home, "one-of", "").is_ok())
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert_eq!(made, 1, "one of them has made it");
    assert_eq!(
        home.skills().survey(&home.skills().find("shared").unwrap()).unwrap().files.len(),
        81
    );
    assert_eq!(home.names(), ["one-of", "shared"]);
}
