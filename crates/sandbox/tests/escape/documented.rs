//! What `docs/security.md` says is what the tests show.

use std::collections::BTreeSet;
use std::path::Path;

const DOCUMENT: &str = include_str!("../../../../docs/security.md");

/// Returns the names of tests in the document: whatever is written as code, has at
/// least three underscores, and is not a setting.
fn named() -> BTreeSet<&'static str> {
    let code = DOCUMENT.split('`').skip(1).step_by(2);
    let names =
        code.filter(|text| text.matches('_').count() >= 3 && !text.contains(['.', ':', '/']));
    names
        .filter(|name| vestal_sandbox::schema().find(&format!("terminal.{name}")).is_none())
        .collect()
}

/// Returns the text of all Rust files below a directory.
fn sources(dir: &Path) -> String {
    let mut text = String::new();
    for entry in dir.read_dir().unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            text += &sources(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text += &std::fs::read_to_string(path).unwrap();
        }
    }
    text
}

/// Checks that the document promises no test that is not there.
pub(crate) fn every_test_that_the_document_names_exists() {
    // Of all crates: a promise is tested where it can be broken.
    let tests = sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")));
    let missing: Vec<_> =
        named().into_iter().filter(|name| !tests.contains(&format!("fn {name}("))).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

/// Checks that the document reports all that is tried.
pub(crate) fn every_attack_is_in_the_document() {
    let cases = sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/escape/cases")));
    let attacks =
        cases.split("pub(crate) async fn ").skip(1).filter_map(|rest| rest.split('(').next());
    let attacks: Vec<&str> = attacks.collect();
    assert!(attacks.len() > 20, "{attacks:?}");
    let named = named();
    let unnamed: Vec<_> = attacks.into_iter().filter(|name| !named.contains(name)).collect();
    assert_eq!(unnamed, Vec::<&str>::new());
}
