//! Syntax checks of files that were written.

use serde::de::IgnoredAny;
use serde_json::{Value, json};

/// Largest file that is checked.
const MAX: usize = 4 << 20;

/// Kinds of files that are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LintSyntax {
    Json,
    /// One value on each line.
    JsonLines,
}

/// Files that are JSON with comments, whatever their names say.
const WITH_COMMENTS: &[&str] =
    &["tsconfig", "jsconfig", ".eslintrc", "devcontainer", "settings", "launch", "tasks", "babel"];

impl LintSyntax {
    fn of(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next()?.to_ascii_lowercase();
        let (stem, extension) = name.rsplit_once('.')?;
        match extension {
            "json" if WITH_COMMENTS.iter().any(|with| stem.starts_with(with)) => None,
            "json" | "ipynb" | "geojson" | "webmanifest" => Some(Self::Json),
            "jsonl" | "ndjson" => Some(Self::JsonLines),
            _ => None,
        }
    }

    fn check(self, text: &str) -> Result<(), String> {
        match self {
            Self::Json => check_json(text).map_err(|error| error.to_string()),
            Self::JsonLines => {
                let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
                for (index, line) in lines {
                    check_json(line).map_err(|error| {
                        format!("line {}, column {}: {error}", index + 1, error.column())
                    })?;
                }
                Ok(())
            }
        }
    }
}

fn check_json(text: &str) -> Result<(), serde_json::Error> {
    serde_json::from_str::<IgnoredAny>(text).map(drop)
}

/// Checks what was written; `None` for files of other kinds. With the content
/// before, it says whether the mistake was there already.
pub(super) fn lint(path: &str, before: Option<&[u8]>, now: &[u8]) -> Option<Value> {
    let syntax = LintSyntax::of(path)?;
    if now.len() > MAX {
        return None;
    }
    let check = |bytes: &[u8]| match std::str::from_utf8(bytes) {
        Ok(text) => syntax.check(text.strip_prefix('\u{feff}').unwrap_or(text)),
        Err(_) => Err("it is not UTF-8".to_owned()),
    };
    let Err(problem) = check(now) else {
        return Some(json!({ "status": "ok" }));
    };
    let was_broken = before.is_some_and(|before| check(before).is_err());
    let remark = if was_broken {
        "it could not be parsed before either"
    } else {
        "it was written all the same"
    };
    Some(json!({ "status": "error", "message": format!("not valid JSON: {problem} ({remark})") }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(path: &str, before: Option<&[u8]>, now: &[u8]) -> String {
        let found = lint(path, before, now).unwrap();
        assert_eq!(found["status"], "error");
        found["message"].as_str().unwrap().to_owned()
    }

    #[test]
    fn json_is_checked_and_the_place_of_a_mistake_named() {
        assert_eq!(lint("a/b.json", None, b"{\"a\": [1, 2]}").unwrap()["status"], "ok");
        assert_eq!(lint("b.json", None, b"\xef\xbb\xbf{}").unwrap()["status"], "ok");
        let result = message("a/b.json", None, b"{\n  \"a\": 1,\n}");
        assert!(result.contains("line 3 column 1"), "{result}");
        assert!(message("x.jsonl", None, b"{}\n\n{]\n").contains("line 3"));
    }

    #[test]
    fn a_mistake_that_was_there_before_is_called_so() {
        assert!(message("b.json", Some(b"{"), b"{,").contains("before either"));
        assert!(message("b.json", Some(b"{}"), b"{,").contains("all the same"));
    }

    #[test]
    fn files_of_other_kinds_and_json_with_comments_are_not_judged() {
        for path in ["a.rs", "json", "tsconfig.json", ".vscode/settings.json", "x.jsonc"] {
            assert_eq!(lint(path, None, b"// {"), None, "{path}");
        }
    }
}
