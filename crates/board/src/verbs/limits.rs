//! What a board takes in, and in what shape.

use std::path::{Component, Path};
use std::time::Duration;

use serde_json::Value;

use crate::Result;
use crate::error::Error;
use crate::task::{MAX_PRIORITY, TaskWorkspace};

/// Characters of a title.
pub const MAX_TITLE: usize = 500;
/// Bytes of what is to be done, of a summary and of a result.
pub const MAX_BODY: usize = 1024 * 1024;
/// Bytes of a comment.
pub const MAX_COMMENT: usize = 64 * 1024;
/// Bytes of a reason.
pub const MAX_REASON: usize = 8 * 1024;
/// Bytes of what is for machines.
pub const MAX_METADATA: usize = 64 * 1024;
/// Bytes of an idempotency key.
pub const MAX_KEY: usize = 256;
/// Bytes of a name: of a tenant, a skill, a model, a person, a conversation.
pub const MAX_NAME: usize = 200;
/// Skills of a task.
const MAX_SKILLS: usize = 32;
/// Tasks that one waits for.
pub(crate) const MAX_PARENTS: usize = 1000;
/// Files or tasks that a completion names.
const MAX_NAMED: usize = 200;
/// The longest time that a run may be given.
const MAX_RUNTIME: Duration = Duration::from_hours(365 * 24);
/// Tasks that a run may make.
pub const TASKS_PER_RUN: u32 = 50;
/// How many workers may stand between a task and a person.
pub const MAX_DEPTH: u32 = 5;

fn invalid(what: &str, reason: impl Into<String>) -> Error {
    Error::Invalid { what: what.to_owned(), reason: reason.into() }
}

fn no_longer_than(what: &str, text: &str, most: usize) -> Result<()> {
    if text.len() <= most {
        Ok(())
    } else {
        Err(invalid(what, format!("has {} bytes; at most {most} are allowed", text.len())))
    }
}

/// A text that may have lines and tabs, but nothing that moves a cursor, and no
/// NUL, which no database keeps.
fn text(what: &str, given: &str, most: usize) -> Result<String> {
    no_longer_than(what, given, most)?;
    if given.contains('\0') {
        return Err(invalid(what, "holds a NUL character"));
    }
    Ok(given.to_owned())
}

/// Takes a title: one line, trimmed.
pub(crate) fn title(given: &str) -> Result<String> {
    let title = given.trim();
    if title.is_empty() {
        return Err(invalid("the title", "is empty"));
    }
    if title.chars().any(char::is_control) {
        return Err(invalid("the title", "is not a single line of plain text"));
    }
    let length = title.chars().count();
    if length > MAX_TITLE {
        let reason = format!("has {length} characters; at most {MAX_TITLE} are allowed");
        return Err(invalid("the title", reason));
    }
    Ok(title.to_owned())
}

/// Takes a long text.
pub(crate) fn body(what: &str, given: &str) -> Result<String> {
    text(what, given, MAX_BODY)
}

/// Takes a comment.
pub(crate) fn comment(given: &str) -> Result<String> {
    if given.trim().is_empty() {
        return Err(invalid("the comment", "is empty"));
    }
    text("the comment", given, MAX_COMMENT)
}

/// Takes a reason that has to be given.
pub(crate) fn reason(given: &str) -> Result<String> {
    let reason = given.trim();
    if reason.is_empty() {
        return Err(invalid("the reason", "is empty"));
    }
    text("the reason", reason, MAX_REASON)
}

/// Takes what is to be changed, which a review may say line by line.
pub(crate) fn changes(given: &str) -> Result<String> {
    let changes = given.trim();
    if changes.is_empty() {
        return Err(invalid("the reason", "is empty"));
    }
    text("the reason", changes, MAX_COMMENT)
}

/// Takes a reason that may be left out.
pub(crate) fn optional_reason(given: &str) -> Result<String> {
    text("the reason", given.trim(), MAX_REASON)
}

/// Takes what is for machines.
pub(crate) fn metadata(given: &Value) -> Result<Value> {
    if !given.is_object() {
        return Err(invalid("the metadata", "is not a JSON object"));
    }
    no_longer_than("the metadata", &given.to_string(), MAX_METADATA)?;
    Ok(given.clone())
}

/// Takes a name.
pub(crate) fn name(what: &str, given: &str) -> Result<String> {
    let name = given.trim();
    if name.is_empty() {
        return Err(invalid(what, "is empty"));
    }
    if name.chars().any(char::is_control) {
        return Err(invalid(what, "holds control characters"));
    }
    no_longer_than(what, name, MAX_NAME)?;
    Ok(name.to_owned())
}

/// Takes a name that may be left out.
pub(crate) fn optional_name(what: &str, given: Option<&str>) -> Result<Option<String>> {
    given.filter(|given| !given.trim().is_empty()).map(|given| name(what, given)).transpose()
}

/// Takes an idempotency key.
pub(crate) fn key(given: Option<&str>) -> Result<Option<String>> {
    let Some(key) = given.map(str::trim).filter(|key| !key.is_empty()) else { return Ok(None) };
    if key.chars().any(char::is_control) {
        return Err(invalid("the idempotency key", "holds control characters"));
    }
    no_longer_than("the idempotency key", key, MAX_KEY)?;
    Ok(Some(key.to_owned()))
}

/// Takes the names of skills, each once.
pub(crate) fn skills(given: &[String]) -> Result<Vec<String>> {
    let mut skills = Vec::new();
    for skill in given {
        let skill = name("a skill's name", skill)?;
        if skill.contains(',') {
            return Err(invalid("a skill's name", format!("holds a comma: {skill}")));
        }
        if !skills.contains(&skill) {
            skills.push(skill);
        }
    }
    if skills.len() > MAX_SKILLS {
        let reason = format!("are {}; at most {MAX_SKILLS} are allowed", skills.len());
        return Err(invalid("the skills", reason));
    }
    Ok(skills)
}

/// Takes a priority.
pub(crate) fn priority(given: i64) -> Result<i64> {
    if (-MAX_PRIORITY..=MAX_PRIORITY).contains(&given) {
        Ok(given)
    } else {
        let reason = format!("is {given}; it may be from -{MAX_PRIORITY} to {MAX_PRIORITY}");
        Err(invalid("the priority", reason))
    }
}

/// Takes the failures at which a task is given up.
pub(crate) fn max_retries(given: Option<u32>) -> Result<Option<u32>> {
    if given == Some(0) {
        return Err(invalid("the number of retries", "is 0; a task is tried at least once"));
    }
    Ok(given)
}

/// Takes the time that a run may take.
pub(crate) fn max_runtime(given: Option<Duration>) -> Result<Option<Duration>> {
    match given {
        Some(time) if time < Duration::from_secs(1) => {
            Err(invalid("the time a run may take", "is under a second"))
        }
        Some(time) if time > MAX_RUNTIME => {
            Err(invalid("the time a run may take", "is over a year"))
        }
        other => Ok(other),
    }
}

/// Takes the place where a task is worked on.
pub(crate) fn workspace(given: &TaskWorkspace) -> Result<TaskWorkspace> {
    if let Some(path) = given.path() {
        absolute(path)?;
    }
    if let Some(branch) = given.branch() {
        let branch_ok = !branch.is_empty()
            && branch.len() <= MAX_NAME
            && !branch.starts_with(['-', '/', '.'])
            && !branch.ends_with(['/', '.'])
            && !branch.contains("..")
            && !branch.contains("//")
            && !branch.contains("@{")
            && !branch.chars().any(|c| c.is_control() || " ~^:?*[\\".contains(c));
        if !branch_ok {
            return Err(invalid("the branch", format!("is not a valid branch name: {branch:?}")));
        }
    }
    Ok(given.clone())
}

fn absolute(path: &Path) -> Result<()> {
    let Some(text) = path.to_str() else {
        return Err(invalid("the directory", "has a name that is not UTF-8"));
    };
    if !path.is_absolute() {
        return Err(invalid("the directory", format!("is not an absolute path: {text:?}")));
    }
    if path.components().any(|part| matches!(part, Component::ParentDir)) {
        return Err(invalid("the directory", format!("goes up by `..`: {text:?}")));
    }
    if text.chars().any(char::is_control) {
        return Err(invalid("the directory", "holds control characters"));
    }
    no_longer_than("the directory", text, 4096)
}

/// Checks how many things are named at once.
pub(crate) fn named(what: &str, count: usize) -> Result<()> {
    if count <= MAX_NAMED {
        Ok(())
    } else {
        Err(invalid(what, format!("are {count}; at most {MAX_NAMED} are allowed")))
    }
}
