//! What stands at the top of a `SKILL.md`.

use std::fmt;

use vestal_config::{EnvName, Yaml, YamlKind};

use crate::skill::{MAX_DESCRIPTION, MAX_FRONT_MATTER, MAX_LIST, MAX_WORDS, RULE, SkillName};

/// What the front matter of a skill says. Other keys are for others and are
/// passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontMatter {
    /// Its name.
    pub name: SkillName,
    /// What it is for and when to use it, on one line.
    pub description: String,
    /// Its version.
    pub version: Option<String>,
    /// Its licence.
    pub license: Option<String>,
    /// Words it may be found by.
    pub tags: Vec<String>,
    /// Variables it asks for.
    pub variables: Vec<SkillVariable>,
    /// The line its name is on.
    pub(crate) name_line: usize,
}

/// A variable that a skill asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillVariable {
    /// Its name.
    pub name: EnvName,
    /// What it is, or where to get it.
    pub help: Option<String>,
    /// What does not work without it.
    pub required_for: Option<String>,
    /// Whether the skill can do without.
    pub optional: bool,
}

/// What is wrong with a `SKILL.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
    /// What to do about it.
    pub advice: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}; {}", self.line, self.reason, self.advice)
    }
}

fn problem(line: usize, reason: impl Into<String>, advice: impl Into<String>) -> Problem {
    Problem { line, reason: reason.into(), advice: advice.into() }
}

/// What a skill begins with, for messages.
const BEGINNING: &str =
    "begin the file with `---`, `name: …`, `description: …` and `---`, a line each";

/// A `SKILL.md`, parted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SkillFileParts<'a> {
    /// The front matter, without its fences.
    pub(crate) head: &'a str,
    /// What follows it.
    pub(crate) body: &'a str,
}

/// Parts a text into its front matter and what follows.
pub(crate) fn part(text: &str) -> Result<SkillFileParts<'_>, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    if first.trim_end() != "---" {
        return Err(problem(1, "it has no front matter", BEGINNING));
    }
    let start = first.len();
    let mut at = start;
    for line in lines {
        if matches!(line.trim_end(), "---" | "...") {
            return Ok(SkillFileParts { head: &text[start..at], body: &text[at + line.len()..] });
        }
        at += line.len();
        if at > MAX_FRONT_MATTER {
            let reason = format!("its front matter is longer than {} KiB", MAX_FRONT_MATTER >> 10);
            return Err(problem(1, reason, "end it with a line `---`"));
        }
    }
    Err(problem(1, "its front matter does not end", "end it with a line `---`"))
}

impl FrontMatter {
    /// Reads the front matter of a text, which may be cut off after it.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let SkillFileParts { head, .. } = part(text)?;
        // The fence is the file's first line.
        let root = Yaml::parse(head).map_err(|error| {
            let reason = format!("its front matter is not valid YAML: {}", error.message);
            let advice = "put text with a `:` or `#` in it into quotes";
            problem(error.line + 1, reason, advice)
        })?;
        let entries = match root.map(|root| (root.line, root.kind)) {
            None => Vec::new(),
            Some((_, YamlKind::Map(entries))) => entries,
            Some((line, _)) => {
                return Err(problem(line + 1, "its front matter is not a map of keys", BEGINNING));
            }
        };
        FrontMatterFields::of(&entries)?.read()
    }
}

/// The keys that mean something here.
#[derive(Default)]
struct FrontMatterFields<'a> {
    name: Option<&'a Yaml>,
    description: Option<&'a Yaml>,
    version: Option<&'a Yaml>,
    license: Option<&'a Yaml>,
    tags: Option<&'a Yaml>,
    variables: Option<&'a Yaml>,
}

impl<'a> FrontMatterFields<'a> {
    fn of(entries: &'a [(Yaml, Yaml)]) -> Result<Self, Problem> {
        let mut fields = Self::default();
        for (key, value) in entries {
            let Some(name) = key.text() else { continue };
            let field = match name {
                "name" => &mut fields.name,
                "description" => &mut fields.description,
                "version" => &mut fields.version,
                "license" => &mut fields.license,
                "tags" => &mut fields.tags,
                "required_environment_variables" => &mut fields.variables,
                _ => continue,
            };
            if field.replace(value).is_some() {
                let reason = format!("`{name}` is there twice");
                return Err(problem(key.line + 1, reason, "keep one of them"));
            }
        }
        Ok(fields)
    }

    fn read(&self) -> Result<FrontMatter, Problem> {
        let missing = |key: &str| problem(1, format!("`{key}` is missing"), BEGINNING);
        let name = self.name.ok_or_else(|| missing("name"))?;
        let text = words(name, "name", MAX_WORDS)?.ok_or_else(|| missing("name"))?;
        let own = SkillName::new(&text).map_err(|_| {
            problem(
                name.line + 1,
                format!("{text:?} is not a valid name for a skill"),
                format!("use {RULE}"),
            )
        })?;
        let description = self.description.ok_or_else(|| missing("description"))?;
        let description = words(description, "description", MAX_DESCRIPTION)?;
        Ok(FrontMatter {
            name: own,
            description: description.ok_or_else(|| missing("description"))?,
            version: optional(self.version, "version")?,
            license: optional(self.license, "license")?,
            tags: self.tags.map_or_else(|| Ok(Vec::new()), tags)?,
            variables: self.variables.map_or_else(|| Ok(Vec::new()), variables)?,
            name_line: name.line + 1,
        })
    }
}

/// Reads words on one line; none when there are none.
fn words(value: &Yaml, key: &str, longest: usize) -> Result<Option<String>, Problem> {
    let line = value.line + 1;
    let text = match &value.kind {
        YamlKind::Null => return Ok(None),
        YamlKind::Scalar { text, .. } => text,
        _ => {
            let reason = format!("`{key}` is {}, not text", value.noun());
            return Err(problem(line, reason, "write it as one text, in quotes if need be"));
        }
    };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() > longest {
        let reason = format!("`{key}` is longer than {longest} characters");
        return Err(problem(
            line,
            reason,
            "say it shorter; the rest belongs below the front matter",
        ));
    }
    if text.contains(char::is_control) {
        let reason = format!("`{key}` has control characters");
        return Err(problem(line, reason, "remove them"));
    }
    Ok(Some(text).filter(|text| !text.is_empty()))
}

fn optional(value: Option<&Yaml>, key: &str) -> Result<Option<String>, Problem> {
    value.map_or(Ok(None), |value| words(value, key, MAX_WORDS))
}

fn items<'a>(value: &'a Yaml, key: &str) -> Result<&'a [Yaml], Problem> {
    let line = value.line + 1;
    match &value.kind {
        YamlKind::Null => Ok(&[]),
        YamlKind::List(items) if items.len() > MAX_LIST => {
            let reason = format!("`{key}` has more than {MAX_LIST} items");
            Err(problem(line, reason, "leave some out"))
        }
        YamlKind::List(items) => Ok(items),
        _ => {
            let reason = format!("`{key}` is {}, not a list", value.noun());
            Err(problem(line, reason, format!("write it as `{key}: [one, other]`")))
        }
    }
}

fn tags(value: &Yaml) -> Result<Vec<String>, Problem> {
    // One text with commas is what many files have.
    if let Some(text) = value.text() {
        let tags = text.split(',').map(str::trim).filter(|tag| !tag.is_empty());
        return Ok(tags.take(MAX_LIST).map(str::to_owned).collect());
    }
    let tags = items(value, "tags")?.iter().map(|item| words(item, "tags", MAX_WORDS));
    Ok(tags.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

const VARIABLES: &str = "required_environment_variables";

fn variables(value: &Yaml) -> Result<Vec<SkillVariable>, Problem> {
    let mut found: Vec<SkillVariable> = Vec::new();
    for item in items(value, VARIABLES)? {
        let variable = variable(item)?;
        if found.iter().any(|own| own.name == variable.name) {
            let reason = format!("`{VARIABLES}` has {} twice", variable.name);
            return Err(problem(item.line + 1, reason, "keep one of them"));
        }
        found.push(variable);
    }
    Ok(found)
}

fn variable(item: &Yaml) -> Result<SkillVariable, Problem> {
    let line = item.line + 1;
    let advice = "write `- NAME`, or `- name: NAME` with `help:` and `optional:` below it";
    let entries = match &item.kind {
        YamlKind::Map(entries) => entries.as_slice(),
        YamlKind::Scalar { text, .. } => {
            return Ok(SkillVariable {
                name: variable_name(text, line)?,
                help: None,
                required_for: None,
                optional: false,
            });
        }
        _ => {
            let reason = format!("an item of `{VARIABLES}` is {}", item.noun());
            return Err(problem(line, reason, advice));
        }
    };
    let get = |key: &str| entries.iter().find(|(own, _)| own.text() == Some(key)).map(|(_, v)| v);
    let name = get("name")
        .and_then(Yaml::text)
        .ok_or_else(|| problem(line, format!("an item of `{VARIABLES}` has no `name`"), advice))?;
    let flag = |key: &str| -> Result<Option<bool>, Problem> {
        let Some(value) = get(key) else { return Ok(None) };
        match value.text() {
            Some("true" | "True" | "yes") => Ok(Some(true)),
            Some("false" | "False" | "no") => Ok(Some(false)),
            _ => {
                let reason = format!("`{key}` is neither true nor false");
                Err(problem(value.line + 1, reason, format!("write `{key}: true`")))
            }
        }
    };
    let help = match optional(get("help"), "help")? {
        Some(help) => Some(help),
        None => optional(get("prompt"), "prompt")?,
    };
    Ok(SkillVariable {
        name: variable_name(name, line)?,
        help,
        required_for: optional(get("required_for"), "required_for")?,
        optional: flag("optional")?.unwrap_or(false) || flag("required")? == Some(false),
    })
}

fn variable_name(text: &str, line: usize) -> Result<EnvName, Problem> {
    EnvName::new(text.trim()).ok_or_else(|| {
        problem(
            line,
            format!("{text:?} is not a valid variable name"),
            "use letters, digits and _, as in NOTION_TOKEN",
        )
    })
}

#[cfg(test)]
#[path = "front_matter_tests.rs"]
mod tests;
