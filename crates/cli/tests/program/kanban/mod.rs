//! `vestal kanban`: real processes on a real board.

mod boards;
mod dispatch;
mod files;
mod follow;
mod import;
mod moves;
mod reads;
mod review;
mod story;
mod tasks;
mod trouble;
mod workers;

use std::fmt::Write as _;

use serde_json::Value;

use crate::support::{ProgramFixture, ProgramOutcome};

/// Calls `vestal kanban`.
fn kanban(fixture: &ProgramFixture, args: &[&str]) -> ProgramOutcome {
    fixture.vestal(["kanban"].iter().chain(args))
}

/// As [`kanban`] where it is expected to work, and returns what it printed.
#[track_caller]
fn done(fixture: &ProgramFixture, args: &[&str]) -> String {
    kanban(fixture, args).exits(0).text()
}

/// As [`done`], of JSON.
#[track_caller]
fn json(fixture: &ProgramFixture, args: &[&str]) -> Value {
    kanban(fixture, args).exits(0).json()
}

/// As [`kanban`] where it is expected to be refused with a word, and returns
/// what was said.
#[track_caller]
fn refused(fixture: &ProgramFixture, args: &[&str], code: i32) -> String {
    let outcome = kanban(fixture, args).exits(code);
    assert!(outcome.stderr.starts_with("error: "), "{outcome:?}");
    outcome.stderr
}

/// Makes a task and returns its name.
#[track_caller]
fn create(fixture: &ProgramFixture, args: &[&str]) -> String {
    let mut all = vec!["create", "--json"];
    all.extend(args);
    json(fixture, &all)["id"].as_str().unwrap().to_owned()
}

/// Returns a task as it is now.
#[track_caller]
fn task(fixture: &ProgramFixture, id: &str) -> Value {
    json(fixture, &["show", id, "--json"])["task"].clone()
}

#[track_caller]
fn status(fixture: &ProgramFixture, id: &str) -> String {
    task(fixture, id)["status"].as_str().unwrap().to_owned()
}

/// Makes a profile.
#[track_caller]
fn profile(fixture: &ProgramFixture, name: &str) {
    fixture.vestal(["profile", "create", name]).exits(0);
}

/// Returns text with what is different each time taken out of it.
fn steady(fixture: &ProgramFixture, text: &str) -> String {
    let mut out = String::new();
    let root = fixture.home().display().to_string();
    let text = text.replace(&root, "[home]");
    let mut rest = text.as_str();
    let mut seen: Vec<&str> = Vec::new();
    while let Some(at) = rest.find("t_") {
        let (before, name) = rest.split_at(at);
        let end =
            name[2..].find(|c: char| !c.is_ascii_alphanumeric()).map_or(name.len(), |n| n + 2);
        out.push_str(before);
        if end == 14 {
            let number =
                seen.iter().position(|known| *known == &name[..end]).unwrap_or_else(|| {
                    seen.push(&name[..end]);
                    seen.len() - 1
                });
            write!(out, "t_{:0>12}", number + 1).unwrap();
        } else {
            out.push_str(&name[..end]);
        }
        rest = &name[end..];
    }
    out.push_str(rest);
    ages(&out)
}

/// Replaces ages, which depend on how fast the machine is, and the width that
/// columns have because of them.
fn ages(text: &str) -> String {
    let age = |word: &str| {
        word.strip_suffix(['s', 'm']).is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let line = |line: &str| {
        let indent = line.len() - line.trim_start().len();
        let mut words: Vec<String> = Vec::new();
        for part in line.trim_start().split("  ").map(str::trim).filter(|part| !part.is_empty()) {
            let mut part = part.split(' ').collect::<Vec<_>>();
            while let Some(at) = part.windows(2).position(|pair| age(pair[0]) && pair[1] == "ago") {
                part.splice(at..at + 2, ["now"]);
            }
            words.push(part.join(" "));
        }
        format!("{}{}\n", " ".repeat(indent.min(2)), words.join("  "))
    };
    text.lines().map(line).collect()
}
