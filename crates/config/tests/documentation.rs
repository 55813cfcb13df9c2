//! The committed documentation is what the schema says.

use std::path::Path;

#[test]
fn the_committed_documentation_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let committed = std::fs::read_to_string(path).expect("docs/configuration.md");
    assert!(
        committed == vestal_config::schema().markdown(),
        "run `cargo run -p vestal-config --example docs > docs/configuration.md`"
    );
}

#[test]
fn the_documentation_has_a_line_for_every_key() {
    let text = vestal_config::schema().markdown();
    for key in vestal_config::schema().keys() {
        let name = key.name();
        let line = text.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let line = line.unwrap_or_else(|| panic!("{name} is not documented"));
        assert!(key.env().iter().all(|variable| line.contains(variable)), "{line}");
    }
}

#[test]
fn the_json_schema_has_every_key_with_its_default() {
    let schema = vestal_config::schema().json_schema();
    for key in vestal_config::schema().keys() {
        let below = |entry: &serde_json::Value, part: &str| entry["properties"][part].clone();
        let entry = key.name().split('.').fold(schema.clone(), |entry, part| below(&entry, part));
        assert_eq!(entry["description"], key.doc(), "{}", key.name());
    }
    assert_eq!(schema["properties"]["terminal"]["properties"]["timeout"]["default"], 180);
}
