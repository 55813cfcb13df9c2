//! Harm to work: repositories, databases, what runs elsewhere.

use super::HarmRule;
use crate::approvals::shell::invocation::{Feed, ProgramRun};
use crate::approvals::shell::uses;

pub(super) const RULES: &[HarmRule] = &[
    HarmRule {
        name: "git-discard",
        reason: "throws away work that git does not keep",
        applies: git_discards,
    },
    HarmRule {
        name: "git-rewrite",
        reason: "rewrites history that others may have",
        applies: git_rewrites,
    },
    HarmRule {
        name: "git-settings",
        reason: "sets what git runs by itself",
        applies: |it| {
            matches!(git(it), Some(("config", words)) if !uses::configures_git(&words))
                && it.path_context.may_change_host(it.cwd)
        },
    },
    HarmRule {
        name: "database",
        reason: "removes data from a database",
        applies: empties_database,
    },
    HarmRule {
        name: "remote-delete",
        reason: "removes things that run or are kept elsewhere",
        applies: |it| {
            let words = it.words();
            let has = |verb: &str| words.contains(&verb);
            match it.program {
                "kubectl" | "oc" | "helm" => has("delete") || has("drain") || has("uninstall"),
                "terraform" | "tofu" | "pulumi" => has("destroy"),
                "aws" => {
                    words.iter().any(|w| {
                        w.starts_with("delete-")
                            || w.starts_with("terminate-")
                            || matches!(*w, "rb")
                    }) || has("rm") && it.has("", "recursive")
                }
                "gcloud" | "az" | "doctl" | "gh" => has("delete") || has("destroy"),
                "npm" | "cargo" | "yarn" => has("unpublish") || has("yank"),
                _ => false,
            }
        },
    },
];

/// Returns git's verb and what follows it.
fn git<'a>(it: &ProgramRun<'a>) -> Option<(&'a str, Vec<&'a str>)> {
    if it.program != "git" {
        return None;
    }
    let mut words = it.texts();
    while let Some(word) = words.next() {
        match word {
            "-C" | "-c" | "--git-dir" | "--work-tree" | "--namespace" => {
                words.next();
            }
            option if option.starts_with('-') => {}
            verb => return Some((verb, words.collect())),
        }
    }
    None
}

/// Reports whether an option is given, by a letter or by its long name or what
/// begins as that does.
fn flag(words: &[&str], letters: &str, long: &[&str]) -> bool {
    words.iter().take_while(|word| **word != "--").any(|word| match word.strip_prefix("--") {
        Some(given) => {
            let given = given.split('=').next().unwrap_or_default();
            long.iter().any(|long| long.starts_with(given))
        }
        None => word.strip_prefix('-').is_some_and(|short| short.contains(|c| letters.contains(c))),
    })
}

fn git_discards(it: &ProgramRun<'_>) -> bool {
    let Some((verb, words)) = git(it) else { return false };
    if !it.path_context.may_change_host(it.cwd) {
        return false;
    }
    match verb {
        "reset" => flag(&words, "", &["hard"]),
        "clean" => flag(&words, "f", &["force"]) && !flag(&words, "n", &["dry-run"]),
        "branch" => {
            flag(&words, "D", &[])
                || flag(&words, "d", &["delete"]) && flag(&words, "f", &["force"])
        }
        "checkout" => {
            let paths = words.iter().position(|word| *word == "--");
            let operands: Vec<&&str> =
                words.iter().filter(|word| !word.starts_with('-') || **word == "--").collect();
            let named = |word: &&&str| **word == "." || it.has_file(word);
            let new = flag(&words, "bB", &["orphan"]);
            flag(&words, "f", &["force"])
                || paths.is_some_and(|at| at + 1 < words.len())
                || !new && (operands.len() > 1 || operands.iter().any(named))
        }
        "switch" => flag(&words, "fC", &["force", "discard-changes", "force-create"]),
        // With the index alone nothing is lost.
        "restore" => !flag(&words, "S", &["staged"]) || flag(&words, "W", &["worktree"]),
        "rm" => flag(&words, "f", &["force"]) && !flag(&words, "n", &["cached", "dry-run"]),
        "stash" => matches!(words.first(), Some(&("drop" | "clear"))),
        "worktree" => words.first() == Some(&"remove") && flag(&words, "f", &["force"]),
        _ => false,
    }
}

fn git_rewrites(it: &ProgramRun<'_>) -> bool {
    let Some((verb, words)) = git(it) else { return false };
    match verb {
        "push" => {
            let forced = ["force", "force-with-lease", "mirror", "delete", "prune"];
            flag(&words, "fd", &forced)
                || words.iter().any(|w| w.starts_with('+') || w.starts_with(':'))
        }
        "filter-branch" | "filter-repo" => true,
        "reflog" => matches!(words.first(), Some(&("expire" | "delete"))),
        _ => false,
    }
}

fn empties_database(it: &ProgramRun<'_>) -> bool {
    let clients = [
        "psql",
        "mysql",
        "mariadb",
        "sqlite3",
        "sqlite",
        "duckdb",
        "mongosh",
        "mongo",
        "sqlcmd",
        "clickhouse-client",
        "cockroach",
        "redis-cli",
        "cqlsh",
        "usql",
        "pgcli",
        "mycli",
    ];
    if it.program == "dropdb" {
        return true;
    }
    let read = match it.feed {
        Feed::Text(text) => Some(&**text),
        _ => None,
    };
    clients.contains(&it.program) && it.texts().chain(read).any(removes_data)
}

/// Reports whether a statement of a database removes data wholesale.
fn removes_data(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    upper.split(';').any(|statement| {
        let words: Vec<&str> = statement.split_ascii_whitespace().take(400).collect();
        let pair = |first: &str, second: &[&str]| {
            words.windows(2).any(|pair| pair[0] == first && second.contains(&pair[1]))
        };
        let kinds = ["TABLE", "DATABASE", "SCHEMA", "INDEX", "COLLECTION", "KEYSPACE", "USER"];
        pair("DROP", &kinds)
            || words.first() == Some(&"TRUNCATE")
            || pair("DELETE", &["FROM"]) && !words.contains(&"WHERE")
            || words.iter().any(|word| {
                matches!(*word, "FLUSHALL" | "FLUSHDB") || word.contains(".DROPDATABASE(")
            })
    })
}
