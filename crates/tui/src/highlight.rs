//! Code in colours, line by line.
//!
//! The colours are the terminal's own sixteen, so that code suits whatever theme a
//! person has chosen. A few colours need no grammar: a small lexer knows for each
//! language what its comments, strings and keywords are. Syntaxes made of regular
//! expressions were measured and left out: each language took some ten megabytes,
//! and its first lines many times what a key may take to be echoed.

mod lexer;
mod tables;

use crate::highlight::lexer::{Lexer, Syntax};
use crate::highlight::tables::{
    C, CSS, DOCKERFILE, GO, HASHES, HASKELL, JAVA, JAVASCRIPT, JSON, LISP, LUA, MAKEFILE, PERCENTS,
    PHP, PYTHON, RUBY, RUST, SETTINGS, SHELL, SQL, YAML,
};
use crate::style::{self, Style};
use crate::text::{Line, Span};

/// Longer lines are generated, not written.
const LONGEST_LINE: usize = 2_000;

/// Knows what the lines so far mean for the next one.
#[derive(Debug, Clone)]
pub struct Highlighter(Means);

#[derive(Debug, Clone)]
enum Means {
    Nothing,
    Lexer(Lexer),
    Markup(Markup),
    Diff,
    Console,
}

impl Highlighter {
    /// Returns a highlighter for a language, by the name that people put behind the
    /// fence of a block of code. Code in languages it does not know stays plain.
    pub fn new(name: &str) -> Self {
        Self(match language(name) {
            Some(Language::Words(syntax)) => Means::Lexer(Lexer::new(syntax)),
            Some(Language::Markup) => Means::Markup(Markup::new()),
            Some(Language::Diff) => Means::Diff,
            Some(Language::Console) => Means::Console,
            None => Means::Nothing,
        })
    }

    /// Returns a highlighter that leaves code plain.
    pub const fn plain() -> Self {
        Self(Means::Nothing)
    }

    /// Returns the next line of code, without its end of line, as it is shown.
    pub fn line(&mut self, code: &str) -> Line {
        if code.len() > LONGEST_LINE {
            return Line::plain(code);
        }
        match &mut self.0 {
            Means::Nothing => Line::plain(code),
            Means::Lexer(lexer) => lexer.line(code),
            Means::Markup(markup) => markup.line(code),
            Means::Diff => diff_line(code),
            Means::Console => console_line(code),
        }
    }
}

/// Returns code of a language as it is shown.
pub fn highlight(language: &str, code: &str) -> Vec<Line> {
    let mut highlighter = Highlighter::new(language);
    code.lines().map(|line| highlighter.line(line)).collect()
}

/// How code of a language is made sense of.
#[derive(Debug, Clone, Copy)]
enum Language {
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
fn language(name: &str) -> Option<Language> {
    let name = name.to_ascii_lowercase();
    let (language, _) = NAMES.iter().find(|(_, names)| names.contains(&name.as_str()))?;
    Some(*language)
}

#[cfg(test)]
fn names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().flat_map(|(_, names)| names.iter().copied())
}

/// Where in a document a line ends.
#[derive(Debug, Clone, Copy)]
struct Markup(MarkupPosition);

#[derive(Debug, Clone, Copy)]
enum MarkupPosition {
    Text,
    Tag,
    String(char),
    Comment,
}

impl Markup {
    const fn new() -> Self {
        Self(MarkupPosition::Text)
    }

    /// Returns a line of a document as it is shown.
    fn line(&mut self, code: &str) -> Line {
        let mut line = Line::empty();
        let mut rest = code;
        while !rest.is_empty() {
            let (length, style) = self.next(rest);
            let (token, after) = rest.split_at(length);
            line.push(Span::new(token, style));
            rest = after;
        }
        line
    }

    /// Returns how long the first token is, and how it looks.
    fn next(&mut self, rest: &str) -> (usize, Style) {
        let to = |at: Option<usize>, more: usize| at.map_or(rest.len(), |at| at + more);
        match self.0 {
            MarkupPosition::Comment => {
                let end = rest.find("-->");
                if end.is_some() {
                    self.0 = MarkupPosition::Text;
                }
                (to(end, 3), style::DIM)
            }
            MarkupPosition::String(mark) => {
                let end = rest.find(mark);
                if end.is_some() {
                    self.0 = MarkupPosition::Tag;
                }
                (to(end, 1), style::GREEN)
            }
            MarkupPosition::Text if rest.starts_with("<!--") => {
                self.0 = MarkupPosition::Comment;
                (4, style::DIM)
            }
            MarkupPosition::Text if rest.starts_with('<') => {
                self.0 = MarkupPosition::Tag;
                let name = rest[1..].find(|c: char| !(c.is_alphanumeric() || "/?!-:_".contains(c)));
                (to(name, 1), style::MAGENTA)
            }
            MarkupPosition::Text if rest.starts_with('&') => {
                let length = rest.find(';').filter(|end| *end < 12).map_or(1, |end| end + 1);
                (length, if length > 1 { style::CYAN } else { style::PLAIN })
            }
            MarkupPosition::Text => (to(rest.find(['<', '&']), 0), style::PLAIN),
            MarkupPosition::Tag => self.in_tag(rest),
        }
    }

    fn in_tag(&mut self, rest: &str) -> (usize, Style) {
        let first = rest.chars().next().unwrap_or(' ');
        match first {
            '>' => {
                self.0 = MarkupPosition::Text;
                (1, style::MAGENTA)
            }
            '/' | '?' => (1, style::MAGENTA),
            '"' | '\'' => {
                self.0 = MarkupPosition::String(first);
                (1, style::GREEN)
            }
            c if c.is_alphanumeric() => {
                let end = rest.find(['=', '>', '/', '"', '\'', ' ']);
                (end.unwrap_or(rest.len()), style::YELLOW)
            }
            c => (c.len_utf8(), style::PLAIN),
        }
    }
}

/// What a prompt ends with.
const PROMPTS: [&str; 3] = ["$ ", "# ", "% "];

/// Returns a line as it is shown; what commands print stays plain.
fn console_line(code: &str) -> Line {
    let Some(prompt) = PROMPTS.iter().find(|prompt| code.starts_with(**prompt)) else {
        return Line::plain(code);
    };
    let (prompt, command) = code.split_at(prompt.len());
    Lexer::new(&SHELL).line(command).prefixed(Span::new(prompt, style::DIM))
}

/// Returns a line of a diff as it is shown.
fn diff_line(code: &str) -> Line {
    let headers = ["--- ", "+++ ", "diff ", "index "];
    let style = if headers.iter().any(|header| code.starts_with(header)) {
        style::BOLD
    } else {
        match code.chars().next() {
            Some('+' | '>') => style::GREEN,
            Some('-' | '<') => style::RED,
            Some('@') => style::CYAN,
            _ => style::PLAIN,
        }
    };
    Line::styled(code, style)
}

#[cfg(test)]
#[path = "highlight_tests.rs"]
mod tests;
