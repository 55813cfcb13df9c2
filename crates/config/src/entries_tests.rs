use super::*;
use crate::{Environment, Home};

struct ConfigFile {
    dir: tempfile::TempDir,
}

impl ConfigFile {
    fn new(text: &str) -> Self {
        let dir = tempfile::tempdir().expect("made");
        std::fs::write(dir.path().join("config.yaml"), text).expect("written");
        Self { dir }
    }

    fn settings(&self) -> Settings {
        Settings::load(
            &crate::schema(),
            Home::at(self.dir.path()),
            Environment::default(),
            Vec::new(),
        )
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("config.yaml")).expect("there")
    }
}

fn server(command: &str) -> SettingValue {
    SettingValue::Map([("command".to_owned(), SettingValue::Text(command.to_owned()))].into())
}

#[test]
fn an_entry_is_set_and_everything_else_in_the_file_stays() {
    let file =
        ConfigFile::new("# mine\nmcp_servers:\n  a: {command: one} # first\nmodel: m # last\n");
    set_entry(&file.settings(), "mcp_servers", "b.c", &server("two words")).expect("set");
    assert_eq!(
        file.text(),
        "# mine\nmcp_servers:\n  a: {command: one} # first\n  b.c: {command: \"two words\"}\nmodel: m # last\n"
    );
    set_entry(&file.settings(), "mcp_servers", "a", &server("uno")).expect("set");
    assert!(file.text().contains("  a: {command: uno} # first\n"), "{}", file.text());
    let removed = remove_entry(&file.settings(), "mcp_servers", "b.c").expect("removed");
    assert!(removed.is_some());
    assert_eq!(file.text(), "# mine\nmcp_servers:\n  a: {command: uno} # first\nmodel: m # last\n");
}

#[test]
fn the_first_entry_makes_the_map() {
    let file = ConfigFile::new("model: m\n");
    set_entry(&file.settings(), "mcp_servers", "a", &server("one")).expect("set");
    assert_eq!(file.text(), "model: m\nmcp_servers:\n  a: {command: one}\n");
}

#[test]
fn a_wrong_entry_changes_nothing() {
    let file = ConfigFile::new("model: m\n");
    let wrong =
        SettingValue::Map([("comand".to_owned(), SettingValue::Text("x".to_owned()))].into());
    let error = set_entry(&file.settings(), "mcp_servers", "a", &wrong).expect_err("wrong");
    assert!(error.to_string().contains("did you mean command?"), "{error}");
    assert_eq!(file.text(), "model: m\n");
}

#[test]
fn an_entry_that_is_not_there_is_not_removed() {
    for text in ["", "model: m\n", "mcp_servers:\n  a: {command: one}\n"] {
        let file = ConfigFile::new(text);
        let removed = remove_entry(&file.settings(), "mcp_servers", "b").expect("no trouble");
        assert_eq!(removed, None, "{text}");
        assert_eq!(file.text(), text);
    }
}

#[test]
fn a_wrong_entry_can_be_removed() {
    let file = ConfigFile::new("mcp_servers:\n  a: {command: one}\n  b: {nonsense: 1}\n");
    assert!(remove_entry(&file.settings(), "mcp_servers", "b").expect("removed").is_some());
    assert_eq!(file.text(), "mcp_servers:\n  a: {command: one}\n");
}
