use super::*;
use crate::environment::Environment;
use crate::home::Home;

fn name(name: &str) -> EnvName {
    EnvName::new(name).unwrap()
}

fn settings(dir: &std::path::Path) -> Settings {
    let none: [(&str, &str); 0] = [];
    Settings::load(&crate::schema(), Home::at(dir), Environment::from_pairs(none), Vec::new())
}

#[test]
fn what_is_written_is_read_as_it_was_given() {
    for value in ["sk-1", "", " a b ", "it's", "\"q\" $HOME \\n 'x'", "a#b # c", "é ✓", "'", "\\"]
    {
        let text = with_variable("", &name("KEY"), value);
        let parsed = DotEnv::parse(text.as_bytes());
        assert_eq!(parsed.get("KEY").map(|entry| entry.value.to_str().unwrap()), Some(value));
        assert!(parsed.malformed.is_empty(), "{text}");
    }
}

#[test]
fn everything_else_in_the_file_stays() {
    let before = "# mine\nA=1\nexport KEY='old\nsecret' # why\nnonsense\nKEY=older\nB=2";
    let after = with_variable(before, &name("KEY"), "new");
    assert_eq!(after, "# mine\nA=1\nKEY=new\nnonsense\nB=2");
    assert_eq!(with_variable("A=1", &name("KEY"), "new"), "A=1\nKEY=new\n");
}

#[test]
fn the_file_is_its_owners_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(".env");
    let mode = || fs::metadata(&file).unwrap().mode() & 0o777;
    assert_eq!(set_variable(&settings(dir.path()), &name("KEY"), "1").unwrap(), file);
    assert_eq!(mode(), 0o600);
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    set_variable(&settings(dir.path()), &name("KEY"), "2").unwrap();
    assert_eq!((mode(), fs::read_to_string(&file).unwrap()), (0o600, "KEY=2\n".to_owned()));
}

#[test]
fn a_value_of_several_lines_is_refused_and_the_file_stays() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(".env"), "A=1\n").unwrap();
    let refused = set_variable(&settings(dir.path()), &name("KEY"), "a\nB=2").unwrap_err();
    assert!(matches!(refused, SetVariableError::NotOneLine { .. }));
    assert!(!refused.to_string().contains("B=2"));
    assert_eq!(fs::read_to_string(dir.path().join(".env")).unwrap(), "A=1\n");
}
