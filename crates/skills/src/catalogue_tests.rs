use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;
use crate::testing::SkillHome;

#[test]
fn skills_are_found_below_the_folder_and_below_categories() {
    let home = SkillHome::new();
    assert_eq!(home.skills().catalogue(), Catalogue::default(), "a folder that is not there");
    home.skill("beta", "").skill("office/alpha", "").skill("office/deep/too-deep", "");
    home.put("skills/office/DESCRIPTION.md", "x").put("skills/readme.txt", "x");
    home.skill(".hidden", "").put("skills/empty/notes.md", "x");
    let catalogue = home.skills().catalogue();
    let found: Vec<_> = catalogue
        .skills
        .iter()
        .map(|skill| (skill.name().as_str(), skill.category.as_deref(), skill.enabled))
        .collect();
    assert_eq!(found, [("alpha", Some("office"), true), ("beta", None, true)]);
    assert_eq!(catalogue.broken, []);
}

#[test]
fn a_broken_skill_is_named_with_what_to_do_and_the_others_go_on() {
    let home = SkillHome::new();
    home.skill("fine", "")
        .skill("twin", "")
        .put("skills/z/SKILL.md", crate::testing::text("twin", ""));
    home.put("skills/garbage/SKILL.md", [0xff, 0xfe, 0, 1]);
    home.put("skills/line/SKILL.md", "---\nname: line\ndescription: a: b\n---\n");
    home.put("skills/large/SKILL.md", "x".repeat(256 * 1024 + 1));
    home.put("skills/small/skill.md", "---\nname: small\n---\n");
    home.put("skills/nothing/SKILL.md", "");
    fs::create_dir_all(home.path("skills/folder/SKILL.md")).unwrap();
    symlink("/etc/passwd", home.path("skills/nothing/link")).unwrap();
    fs::create_dir_all(home.path("skills/linked")).unwrap();
    symlink("/etc/passwd", home.path("skills/linked/SKILL.md")).unwrap();
    symlink("/etc", home.path("skills/elsewhere")).unwrap();
    let catalogue = home.skills().catalogue();
    let names: Vec<_> = catalogue.skills.iter().map(|skill| skill.name().as_str()).collect();
    assert_eq!(names, ["fine", "twin"]);
    let broken = |name: &str| {
        let broken = catalogue.get_broken(name).unwrap_or_else(|| panic!("{name}"));
        assert!(!broken.advice.is_empty());
        (broken.line, broken.to_string())
    };
    for (name, line, reason) in [
        ("z", None, "has the same name, twin"),
        ("garbage", Some(1), "not UTF-8"),
        ("line", Some(3), "not valid YAML"),
        ("large", None, "larger than 256 KiB"),
        ("small", None, "in capitals"),
        ("nothing", Some(1), "no front matter"),
        ("folder", None, "not a regular file"),
        ("linked", None, "a link"),
        ("elsewhere", None, "a link"),
    ] {
        let (found, words) = broken(name);
        assert_eq!(found, line, "{words}");
        assert!(words.contains(reason), "{words}");
        assert!(words.contains(home.path("skills").to_str().unwrap()), "{words}");
    }
    assert_eq!(catalogue.broken.len(), 9);
}

#[test]
fn a_long_file_is_read_no_further_than_its_front_matter() {
    let home = SkillHome::new();
    let long = crate::testing::text("long", "") + &"ä".repeat(100_000);
    home.put("skills/long/SKILL.md", long);
    assert!(home.skills().find("long").is_some());
}

#[test]
fn what_cannot_be_looked_into_is_reported_and_nothing_else() {
    let home = SkillHome::new();
    home.skill("fine", "").put("skills/shut/x/SKILL.md", "x");
    fs::set_permissions(home.path("skills/shut"), fs::Permissions::from_mode(0o000)).unwrap();
    let catalogue = home.skills().catalogue();
    fs::set_permissions(home.path("skills/shut"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(catalogue.skills.len(), 1);
    // Root can look into anything, and then finds what is broken in there.
    assert_eq!(catalogue.broken.len(), 1, "{catalogue:?}");
    let file = SkillHome::new();
    file.put("skills", "no folder");
    assert_eq!(file.skills().catalogue().broken.len(), 1);
}

#[test]
fn a_disabled_skill_is_there_and_not_used_also_when_it_is_disabled_meanwhile() {
    let home = SkillHome::new();
    home.skill("one", "").skill("two", "required_environment_variables: [A_TOKEN]\n");
    let skills = home.skills();
    assert!(skills.find("two").is_some());
    assert_eq!(skills.variables().len(), 1);
    home.put("config.yaml", "skills: {disabled: [two, gone]}\n");
    assert_eq!(skills.find("two"), None);
    assert_eq!(skills.variables(), []);
    assert_eq!(skills.names(), ["one"]);
    assert!(!skills.catalogue().get("two").unwrap().enabled);
    let error = skills.get("two").unwrap_err().to_string();
    assert!(error.contains("vestal skills enable two"), "{error}");
}

#[test]
fn an_unknown_name_is_reported_with_the_nearest() {
    let home = SkillHome::new();
    home.skill("pdf-forms", "").put("skills/bad/SKILL.md", "x");
    let error = |name: &str| home.skills().get(name).unwrap_err().to_string();
    assert_eq!(error("pdf-form"), "there is no skill \"pdf-form\"; is pdf-forms meant?");
    assert!(error("zzz").ends_with("`vestal skills` lists them"));
    assert!(error("bad").contains("skill bad is broken"));
}

#[test]
fn what_is_broken_is_reported_once() {
    let home = SkillHome::new();
    home.put("skills/bad/SKILL.md", "x");
    let skills = home.skills();
    assert_eq!(skills.take_notices().len(), 1);
    assert_eq!(skills.take_notices(), Vec::<String>::new());
    home.put("skills/worse/SKILL.md", "x");
    assert_eq!(skills.clone().take_notices().len(), 1);
}

#[test]
fn the_prompt_names_those_in_use_within_bounds() {
    let home = SkillHome::new();
    assert_eq!(home.skills().prompt(), None);
    home.skill("one", "").put("skills/bad/SKILL.md", "x");
    let prompt = home.skills().prompt().unwrap();
    assert!(prompt.ends_with(":\n- one: About one."), "{prompt}");
    for off in [
        "agent: {disabled_toolsets: [skills]}",
        "agent: {disabled_tools: [skill_view]}",
        "toolsets: [terminal]",
    ] {
        home.put("config.yaml", off);
        assert_eq!(home.skills().prompt(), None, "{off}");
    }
    home.put("config.yaml", "toolsets: [terminal, skills]\n");
    for number in 0..200 {
        let about = format!("---\nname: s{number}\ndescription: {}\n---\n", "words ".repeat(150));
        home.put(&format!("skills/s{number}/SKILL.md"), about);
    }
    let prompt = home.skills().prompt().unwrap();
    assert!(prompt.len() < 17_000 && prompt.contains("more, which skills_list names"), "{prompt}");
}

#[test]
fn a_person_can_call_a_skill_with_words() {
    let home = SkillHome::new();
    home.skill("deploy", "").put("skills/deploy/scripts/go.sh", "#!/bin/sh\n");
    let printed = home.skills().invocation("deploy", " to staging ").unwrap();
    assert!(
        printed.starts_with("Use the skill deploy, which says:\n\nHow deploy is done."),
        "{printed}"
    );
    assert!(printed.ends_with("\n\nWhat for: to staging"), "{printed}");
    assert!(!printed.contains("---") && printed.contains("skill_view"), "{printed}");
    home.skill("plain", "required_environment_variables: [A_TOKEN, {name: B, optional: true}]\n");
    let printed = home.skills().invocation("plain", "").unwrap();
    assert!(
        printed.ends_with(
            "(It lacks something: A_TOKEN is not set; put A_TOKEN=… into the profile's .env)"
        ),
        "{printed}"
    );
    let has = home.skills_with(&[("A_TOKEN", "x")]).invocation("plain", "").unwrap();
    assert!(has.ends_with("How plain is done."), "{has}");
}
