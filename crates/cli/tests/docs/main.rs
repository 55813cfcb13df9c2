//! Checks rules that hold for the whole tree: a file that a page names is there and a link leads
//! somewhere, the walks of `docs/architecture.md` stay as short as they promise, and a type name has
//! one meaning.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod links;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Names in pages that stand for any file of that kind, or for one that is yet to be added.
const PLACEHOLDERS: [&str; 5] = ["foo.rs", "foo_tests.rs", "lib.rs", "mod.rs", "farm.rs"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns every file below a directory, relative to the root, without what was built.
fn files_below(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if name == "target" || name == ".git" {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            files_below(&entry.path(), found);
        } else {
            found.push(entry.path());
        }
    }
}

/// Returns what stands between backticks on one line.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

fn is_rust_path(text: &str) -> bool {
    Path::new(text).extension().is_some_and(|ending| ending == "rs")
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '.'))
}

#[test]
fn every_file_that_a_page_names_is_there() {
    let root = root();
    let mut files = Vec::new();
    files_below(&root.join("crates"), &mut files);
    files_below(&root.join("docs"), &mut files);
    let is_picture = |path: &PathBuf| path.starts_with(root.join("docs/images"));
    let is_page = |path: &&PathBuf| {
        path.ends_with("README.md") || (path.starts_with(root.join("docs")) && !is_picture(path))
    };
    let pages: Vec<PathBuf> = files
        .iter()
        .filter(is_page)
        .cloned()
        .chain([root.join("README.md"), root.join("CONTRIBUTING.md")])
        .collect();

    let mut missing = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        let own = page.parent().unwrap();
        // A crate's page speaks of its own files, every other page of any crate's.
        let scope = if own.starts_with(root.join("crates")) { own } else { &root };
        for name in quoted(&text).filter(|name| is_rust_path(name)) {
            let last = name.rsplit('/').next().unwrap();
            let there = PLACEHOLDERS.contains(&last)
                || root.join(name).exists()
                || files.iter().any(|file| file.starts_with(scope) && file.ends_with(name));
            if !there {
                missing.push(format!("{}: {name}", page.strip_prefix(&root).unwrap().display()));
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}

/// Returns the files that a section of a page names, from its heading to the next one.
fn files_of_section(page: &str, heading: &str) -> BTreeSet<String> {
    let (_, rest) = page.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = rest.split("\n## ").next().unwrap();
    quoted(section).filter(|name| is_rust_path(name)).map(str::to_owned).collect()
}

#[test]
fn the_walks_cross_no_more_files_than_they_promise() {
    let root = root();
    let page = fs::read_to_string(root.join("docs/architecture.md")).unwrap();
    let command = files_of_section(&page, "The files of a command");
    let turn = files_of_section(&page, "The files of a turn");
    for name in command.iter().chain(&turn) {
        assert!(root.join("crates").join(name).exists(), "{name} is not below crates/");
    }
    assert!(!command.is_empty() && command.len() <= 30, "a command crosses {}", command.len());
    let more: Vec<_> = turn.difference(&command).collect();
    assert!(!more.is_empty() && more.len() <= 15, "a turn crosses {} more", more.len());
}

/// Names that each library has by convention, as in the standard library.
const COMMON_TYPES: [&str; 2] = ["Error", "Result"];

/// Returns the type that a line at the top level of a file declares for other modules.
fn declared_type(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(')')?.1,
        None => rest,
    };
    let rest = rest.trim_start();
    let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let kinds = ["struct ", "enum ", "union ", "trait ", "type "];
    let name = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
    name.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()
}

/// Reports whether a file belongs to a library or program, and not to its tests.
fn is_product(path: &Path) -> bool {
    let is_source = path.components().any(|part| part.as_os_str() == "src");
    let is_test = path.components().any(|part| {
        let name = part.as_os_str().to_string_lossy();
        let stem = name.strip_suffix(".rs").unwrap_or(&name);
        stem == "tests" || stem == "testing" || stem == "testkit" || stem.ends_with("_tests")
    });
    is_source && !is_test && path.extension().is_some_and(|ending| ending == "rs")
}

#[test]
fn a_type_name_has_one_meaning_in_the_workspace() {
    let root = root();
    let mut files = Vec::new();
    files_below(&root.join("crates"), &mut files);
    let mut declared: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in files.iter().filter(|path| is_product(path)) {
        let text = fs::read_to_string(path).unwrap();
        for name in text.lines().filter_map(declared_type) {
            let place = path.strip_prefix(&root).unwrap().display().to_string();
            declared.entry(name.to_owned()).or_default().push(place);
        }
    }
    assert!(declared.len() > 1000, "only {} types were found", declared.len());
    // Each command of the program has its arguments beside it, as clap's derive wants it.
    let is_convention = |name: &str| COMMON_TYPES.contains(&name) || name.ends_with("Args");
    declared.retain(|name, places| places.len() > 1 && !is_convention(name));
    assert_eq!(declared, BTreeMap::new(), "types with the same name; rename all but one");
}
