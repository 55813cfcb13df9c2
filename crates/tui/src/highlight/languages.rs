//! The names that languages go by.

use super::lexer::Syntax;
use super::tables::{
    C, CSS, DOCKERFILE, GO, HASHES, HASKELL, JAVA, JAVASCRIPT, JSON, LISP, LUA, MAKEFILE, PERCENTS,
    PHP, PYTHON, RUBY, RUST, SETTINGS, SHELL, SQL, YAML,
};

/// How code of a language is made sense of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Language {
    /// By its words.
    Words(&'static Syntax),
    /// By its tags.
    Markup,
    /// By the first character of a line.
    Diff,
    /// By the prompt.
    Console,
}

/// The names that people use. Some languages have to do with the words of a near
/// relative: TypeScript has those of JavaScript, Kotlin and Swift those of Java.
static NAMES: [(Language, &[&str]); 24] = [
    (Language::Console, &["console", "shell-session", "shellsession", "sh-session", "terminal"]),
    (Language::Diff, &["diff", "patch", "udiff"]),
    (Language::Markup, &["html", "htm", "xhtml", "vue", "svelte", "xml", "svg", "xsd", "plist"]),
    (
        Language::Words(&C),
        &["c", "h", "cpp", "c++", "cc", "cxx", "hpp", "hh", "cuda", "objc", "ino"],
    ),
    (Language::Words(&CSS), &["css", "scss", "less", "sass"]),
    (Language::Words(&DOCKERFILE), &["dockerfile", "docker", "containerfile"]),
    (Language::Words(&GO), &["go", "golang"]),
    (
        Language::Words(&HASHES),
        &[
            "nix",
            "hcl",
            "terraform",
            "tf",
            "powershell",
            "ps1",
            "pwsh",
            "cmake",
            "nginx",
            "awk",
            "graphql",
            "gql",
            "caddyfile",
            "r",
            "tcl",
            "gitignore",
        ],
    ),
    (Language::Words(&HASKELL), &["haskell", "hs", "ocaml", "ml", "mli", "fsharp", "f#", "elm"]),
    (
        Language::Words(&JAVA),
        &[
            "java", "kotlin", "kt", "kts", "scala", "swift", "cs", "csharp", "c#", "dart",
            "groovy", "gradle", "zig", "d", "solidity", "proto", "protobuf",
        ],
    ),
    (
        Language::Words(&JAVASCRIPT),
        &["js", "javascript", "jsx", "mjs", "cjs", "node", "ts", "typescript", "tsx", "mts", "cts"],
    ),
    (Language::Words(&JSON), &["json", "jsonc", "json5", "jsonl", "ndjson"]),
    (Language::Words(&LISP), &["lisp", "elisp", "scheme", "racket", "clojure", "clj", "edn"]),
    (Language::Words(&LUA), &["lua"]),
    (Language::Words(&MAKEFILE), &["make", "makefile", "mk", "just", "justfile"]),
    (Language::Words(&PERCENTS), &["erlang", "erl", "tex", "latex", "matlab", "octave", "prolog"]),
    (Language::Words(&PHP), &["php", "perl", "pl", "pm"]),
    (Language::Words(&PYTHON), &["py", "python", "python3", "pyi", "starlark", "bzl"]),
    (
        Language::Words(&RUBY),
        &["ruby", "rb", "elixir", "ex", "exs", "julia", "jl", "crystal", "nim"],
    ),
    (Language::Words(&RUST), &["rs", "rust"]),
    (
        Language::Words(&SETTINGS),
        &[
            "toml",
            "ini",
            "conf",
            "cfg",
            "config",
            "properties",
            "env",
            "dotenv",
            "editorconfig",
            "desktop",
            "systemd",
            "service",
            "gitconfig",
        ],
    ),
    (Language::Words(&SHELL), &["sh", "bash", "zsh", "shell", "fish", "ksh", "ash", "dash"]),
    (Language::Words(&SQL), &["sql", "postgresql", "postgres", "mysql", "sqlite", "psql"]),
    (Language::Words(&YAML), &["yaml", "yml"]),
];

/// Returns how code is made sense of, by the name that people use.
pub(super) fn language(name: &str) -> Option<Language> {
    let name = name.to_ascii_lowercase();
    let (language, _) = NAMES.iter().find(|(_, names)| names.contains(&name.as_str()))?;
    Some(*language)
}

#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().flat_map(|(_, names)| names.iter().copied())
}
