//! What is looked for.

use serde_json::Value;
use vestal_wire::SearchQuery;

use crate::tools::arguments::{Arguments, BadArgument};

/// Results shown when the model does not say how many.
pub(super) const LIMIT: usize = 50;

/// Most results at once.
const MAX_LIMIT: usize = 1_000;

/// Most lines around a match.
const MAX_CONTEXT: usize = 50;

/// What comes out of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Files by name.
    Names,
    /// Lines.
    Lines,
    /// Files that have such lines.
    Files,
    /// How many such lines files have.
    Counts,
}

/// A search as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pattern: String,
    file_glob: Option<String>,
    context: u32,
    pub(super) path: String,
    pub(super) limit: usize,
    pub(super) offset: usize,
    pub(super) wanted: Wanted,
}

impl Asked {
    pub(super) fn new(arguments: Value) -> Result<Self, BadArgument> {
        let arguments = Arguments::new(arguments)?;
        let pattern = arguments.text("pattern")?;
        let target = arguments.optional_text("target")?;
        let mode = arguments.optional_text("output_mode")?;
        let wanted = match (target.as_deref(), mode.as_deref()) {
            (Some("files" | "find" | "name" | "names"), _) => Wanted::Names,
            (None | Some("content" | "grep"), mode) => match mode {
                None | Some("content") => Wanted::Lines,
                Some("files_only" | "files" | "files_with_matches") => Wanted::Files,
                Some("count") => Wanted::Counts,
                Some(other) => {
                    return Err(BadArgument::new(format!(
                        "`output_mode` must be \"content\", \"files_only\" or \"count\", got {other:?}"
                    )));
                }
            },
            (Some(other), _) => {
                return Err(BadArgument::new(format!(
                    "`target` must be \"content\" or \"files\", got {other:?}"
                )));
            }
        };
        if wanted != Wanted::Names {
            check_expression(&pattern)?;
        }
        let context = arguments.count("context", 0)?.unwrap_or(0).min(MAX_CONTEXT);
        let path = arguments.optional_text("path")?.filter(|path| !path.trim().is_empty());
        let glob = arguments.optional_text("file_glob")?.filter(|glob| !glob.trim().is_empty());
        Ok(Self {
            pattern,
            file_glob: glob,
            context: u32::try_from(context).unwrap_or(0),
            path: path.unwrap_or_else(|| ".".to_owned()),
            limit: arguments.count("limit", 1)?.unwrap_or(LIMIT).min(MAX_LIMIT),
            offset: arguments.count("offset", 0)?.unwrap_or(0),
            wanted,
        })
    }

    /// Returns the expression lines must match.
    pub(super) fn regex(&self) -> Option<&str> {
        (self.wanted != Wanted::Names).then_some(self.pattern.as_str())
    }

    /// Returns the names files must have.
    fn glob(&self) -> Option<String> {
        if self.wanted != Wanted::Names {
            return self.file_glob.clone();
        }
        let pattern = self.pattern.trim();
        let is_glob = pattern.contains(['*', '?', '[', '{', '/']);
        Some(match pattern {
            "" | "." => "*".to_owned(),
            pattern if is_glob => pattern.to_owned(),
            // Without wildcards, any name that has it in it.
            pattern => format!("*{pattern}*"),
        })
    }

    /// Returns what the sandbox is asked: this many results after so many.
    pub(super) fn query(&self, skip: usize, limit: usize) -> SearchQuery {
        let glob = self.glob();
        // Hidden files are looked at where they are asked for by name.
        let names_hidden = |glob: &String| {
            glob.split(['/', '{', ','])
                .any(|name| name.starts_with('.') && name.len() > 1 && name != "..")
        };
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        SearchQuery {
            root: self.path.clone().into_bytes().into(),
            hidden: glob.as_ref().is_some_and(names_hidden),
            glob,
            regex: self.regex().map(str::to_owned),
            ignore_case: false,
            ignored: false,
            skip: count(skip),
            limit: count(limit),
            context: if self.wanted == Wanted::Lines { self.context } else { 0 },
        }
    }
}

/// Refuses what cannot match anything, and says why.
fn check_expression(pattern: &str) -> Result<(), BadArgument> {
    if pattern.is_empty() {
        return Err(BadArgument::new("`pattern` must not be empty"));
    }
    if pattern.contains('\n') || has_escaped_newline(pattern) {
        return Err(BadArgument::new(
            "`pattern` has a line break, and lines are matched one by one; look for one of the \
             lines and set `context` to see those around it",
        ));
    }
    Ok(())
}

/// Reports whether an expression has `\n` in it that is no escaped backslash
/// before an n.
fn has_escaped_newline(pattern: &str) -> bool {
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        if character == '\\' && rest.next() == Some('n') {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(arguments: Value) -> Asked {
        Asked::new(arguments).unwrap()
    }

    #[test]
    fn a_name_without_wildcards_is_found_anywhere_in_names() {
        let glob = |pattern: &str| asked(json!({ "pattern": pattern, "target": "files" })).glob();
        assert_eq!(glob("config").as_deref(), Some("*config*"));
        assert_eq!(glob("*.rs").as_deref(), Some("*.rs"));
        assert_eq!(glob("src/main.rs").as_deref(), Some("src/main.rs"));
        assert_eq!(glob(".").as_deref(), Some("*"));
    }

    #[test]
    fn hidden_files_are_searched_where_they_are_named() {
        let hidden =
            |glob: &str| asked(json!({ "pattern": "x", "file_glob": glob })).query(0, 1).hidden;
        assert!(hidden(".env*"));
        assert!(hidden(".github/**/*.yml"));
        assert!(hidden("{.a,b}"));
        assert!(!hidden("*.rs"));
        assert!(!hidden("./src/*.rs"));
    }

    #[test]
    fn line_breaks_in_expressions_are_explained() {
        for pattern in ["a\nb", r"a\nb", r"\\\n"] {
            let error = Asked::new(json!({ "pattern": pattern })).unwrap_err().to_string();
            assert!(error.contains("line break"), "{error}");
        }
        assert!(Asked::new(json!({ "pattern": r"C:\\new" })).is_ok());
    }

    #[test]
    fn words_that_are_none_of_the_choices_are_named() {
        for (arguments, word) in [
            (json!({ "pattern": "x", "target": "web" }), "target"),
            (json!({ "pattern": "x", "output_mode": "xml" }), "output_mode"),
            (json!({ "pattern": "" }), "pattern"),
            (json!({}), "pattern"),
        ] {
            let error = Asked::new(arguments).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
