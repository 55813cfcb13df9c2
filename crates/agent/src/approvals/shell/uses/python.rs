//! Python code that only computes.
//!
//! It is read word by word: every module, every attribute and everything that is
//! called must be known to change nothing. Whatever else a word is, it is a
//! variable of the code's own.

use super::super::invocation::ProgramRun;
use super::grammar;
use super::{KnownProgram, WordList};

/// Modules that can be imported.
const MODULES: WordList = WordList(
    "json sys math re datetime collections itertools functools time csv hashlib base64 \
     statistics string textwrap random platform decimal fractions calendar unicodedata pprint \
     uuid struct",
);

/// What may be called by its name.
const FUNCTIONS: WordList = WordList(
    "print len sorted sum min max abs round range enumerate zip map filter list dict set \
     tuple str int float bool repr ord chr hex bin oct any all reversed isinstance type bytes \
     divmod pow format next iter pprint",
);

/// Attributes that may be used, called or not.
const ATTRIBUTES: WordList = WordList(
    "load loads dumps stdin read readline readlines argv version version_info platform \
     maxsize executable strip lstrip rstrip split rsplit splitlines join replace lower \
     upper title startswith endswith find count index items keys values get append extend \
     sort encode decode hexdigest digest sha256 sha1 md5 b64encode b64decode sqrt floor ceil \
     pi log log2 log10 sin cos pow factorial gcd comb mean median stdev now today utcnow \
     isoformat strftime strptime timedelta Counter defaultdict most_common groupby findall \
     search match sub group groups reader DictReader isdigit uuid4",
);

/// Words of the language that change nothing.
const KEYWORDS: WordList = WordList(
    "if else elif for in not and or is while break continue pass lambda None True False \
     import from as return assert",
);

/// Modules of `python -m` that build, test, format or show something.
const PROGRAMS: WordList = WordList(
    "pytest unittest venv json.tool black ruff mypy flake8 pylint isort build compileall \
     py_compile doctest site platform this tokenize coverage tabnanny virtualenv pyright",
);

/// Modules that are programs of their own, too.
const TOOLS: WordList =
    WordList("pytest black ruff mypy flake8 pylint isort coverage pyright virtualenv pip");

/// Says what is known about a module that `python -m` runs.
pub(in crate::approvals::shell) fn look_at_module<'a>(it: &ProgramRun<'a>) -> KnownProgram<'a> {
    let written = match it.program {
        tool if TOOLS.has(tool) => return super::look(it),
        "venv" => grammar::read(
            it.arguments,
            "w* --system-site-packages --symlinks --copies --clear --upgrade --without-pip \
             --prompt: --upgrade-deps",
        )
        .map(|line| line.written),
        // A second name is written.
        "json.tool" => grammar::read(
            it.arguments,
            "w1 --sort-keys --indent: --compact --no-ensure-ascii --json-lines --tab --no-indent",
        )
        .map(|line| line.written),
        "http.server" => {
            let plain = it.texts().all(|word| word.bytes().all(|b| b.is_ascii_digit()));
            plain.then(Vec::new)
        }
        "unittest" => grammar::read(
            it.arguments,
            "c* -vqfbch -kp: -st! --verbose --quiet --failfast --buffer --catch --locals \
             --start-directory! --pattern: --top-level-directory! --durations:",
        )
        .map(|line| line.written),
        "doctest" => {
            grammar::read(it.arguments, "c* -vfo --verbose --fail-fast").map(|line| line.written)
        }
        "build" | "compileall" | "py_compile" | "tabnanny" | "tokenize" => {
            let plain = grammar::read(
                it.arguments,
                "c* w* -qvfswnx -o> --sdist --wheel --no-isolation --outdir>",
            );
            plain.map(|line| line.written)
        }
        module if PROGRAMS.has(module) => Some(Vec::new()),
        _ => return KnownProgram::Unknown,
    };
    written.map_or(KnownProgram::OtherUse, KnownProgram::Harmless)
}

/// Modules that those of [`MODULES`] may import in their turn.
const STANDARD: WordList = WordList(
    "abc ast bisect bz2 codecs contextlib copy copyreg ctypes dataclasses dis encodings enum \
     fnmatch genericpath gettext heapq importlib inspect io keyword linecache locale lzma netrc \
     numbers opcode operator os posixpath queue reprlib select selectors shutil signal site socket \
     sre_compile sre_constants sre_parse ssl stat subprocess tempfile threading token tokenize \
     traceback types typing warnings weakref zipfile zlib argparse _strptime _pydatetime \
     _pydecimal _collections_abc _weakrefset _compat_pickle _sitebuiltins __future__",
);

/// Reports whether a file of this name is loaded in place of a module of Python's own.
pub(in crate::approvals::shell) fn is_standard(file: &str) -> bool {
    let stem = file.split('.').next().unwrap_or(file);
    MODULES.has(stem) || STANDARD.has(stem)
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PythonToken {
    Word(String),
    /// A text or a number.
    Value,
    Sign(char),
    LineEnd,
}

/// Reports whether code only computes and prints.
pub(in crate::approvals::shell) fn only_computes(code: &str) -> bool {
    let Some(tokens) = tokens(code) else { return false };
    // What follows a dot must be seen beside it.
    if tokens.windows(2).any(|pair| *pair == [PythonToken::Sign('.'), PythonToken::LineEnd]) {
        return false;
    }
    tokens
        .split(|token| *token == PythonToken::LineEnd || *token == PythonToken::Sign(';'))
        .all(statement)
}

fn statement(tokens: &[PythonToken]) -> bool {
    match tokens {
        [PythonToken::Word(first), rest @ ..] if first == "import" => rest
            .split(|token| *token == PythonToken::Sign(','))
            .all(|one| matches!(one, [PythonToken::Word(module)] if MODULES.has(module.as_str()))),
        [
            PythonToken::Word(first),
            PythonToken::Word(module),
            PythonToken::Word(import),
            names @ ..,
        ] if first == "from" && import == "import" => {
            let known = |token: &PythonToken| match token {
                PythonToken::Word(name) => {
                    ATTRIBUTES.has(name.as_str()) || MODULES.has(name.as_str())
                }
                other => *other == PythonToken::Sign(','),
            };
            // What is imported is called by its name later, which must be known as such, too.
            MODULES.has(module.as_str()) && names.iter().all(known)
        }
        // Such words begin statements that define, run or remove something.
        [PythonToken::Word(first), ..]
            if ["def", "class", "with", "del", "exec", "global", "async", "try", "raise"]
                .contains(&first.as_str()) =>
        {
            false
        }
        tokens => {
            !binds_attribute(tokens)
                && tokens.iter().enumerate().all(|(at, token)| expression(tokens, at, token))
        }
    }
}

/// Reports whether something of another's is bound again: `sys.path = …`, `for a.b in …`.
fn binds_attribute(tokens: &[PythonToken]) -> bool {
    let dot = |tokens: &[PythonToken]| tokens.contains(&PythonToken::Sign('.'));
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        let next = tokens.get(at + 1);
        let before = at.checked_sub(1).and_then(|at| tokens.get(at));
        match token {
            PythonToken::Sign('(' | '[' | '{') => depth += 1,
            PythonToken::Sign(')' | ']' | '}') => depth = depth.saturating_sub(1),
            PythonToken::Sign('=') if depth == 0 => {
                let compares = next == Some(&PythonToken::Sign('='))
                    || matches!(before, Some(PythonToken::Sign('=' | '!' | '<' | '>')));
                if !compares && dot(&tokens[..at]) {
                    return true;
                }
            }
            PythonToken::Word(word) if word == "for" => {
                let names =
                    tokens[at..].split(|token| *token == PythonToken::Word("in".to_owned()));
                if names.take(1).any(dot) {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

fn expression(tokens: &[PythonToken], at: usize, token: &PythonToken) -> bool {
    let before = at.checked_sub(1).and_then(|at| tokens.get(at));
    let called = tokens.get(at + 1) == Some(&PythonToken::Sign('('));
    match token {
        // A decorator calls, and so does what an expression came to: `(f)()`, `f()()`, `a[0]()`.
        PythonToken::Sign('@') => false,
        PythonToken::Sign('(') => {
            !matches!(before, Some(PythonToken::Sign(')' | ']' | '}') | PythonToken::Value))
        }
        PythonToken::Word(word) => {
            let word = word.as_str();
            if before == Some(&PythonToken::Sign('.')) {
                ATTRIBUTES.has(word)
            } else if KEYWORDS.has(word) {
                !matches!(word, "import" | "from")
            } else if called && word == "open" {
                // With a name and nothing more it is opened to be read.
                matches!(
                    tokens.get(at + 2..at + 4),
                    Some([PythonToken::Value, PythonToken::Sign(')')])
                )
            } else if called {
                FUNCTIONS.has(word) || ATTRIBUTES.has(word)
            } else {
                // A name that is bound again could stand for something else when it is called.
                let bound = tokens.get(at + 1) == Some(&PythonToken::Sign('='));
                let callable = FUNCTIONS.has(word) || ATTRIBUTES.has(word);
                !(word.starts_with("__") || bound && callable || is_dangerous(word))
            }
        }
        PythonToken::Sign(_) | PythonToken::Value | PythonToken::LineEnd => true,
    }
}

/// Names that do harm when something else calls them, as `map(exec, …)` does.
fn is_dangerous(word: &str) -> bool {
    [
        "exec",
        "eval",
        "compile",
        "open",
        "input",
        "getattr",
        "setattr",
        "globals",
        "locals",
        "vars",
        "breakpoint",
        "help",
        "exit",
        "quit",
    ]
    .contains(&word)
}

/// Reads the words; nothing if something in it is not plain.
fn tokens(code: &str) -> Option<Vec<PythonToken>> {
    let mut tokens = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        if first.is_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let word = &rest[..end];
            if !word.is_ascii() {
                // Python takes many letters for others, so that a name may be another.
                return None;
            }
            rest = &rest[end..];
            if rest.starts_with(['"', '\'']) {
                // In `f"…"` there may be code.
                let plain = ["r", "b", "R", "B", "rb", "br", "u"].contains(&word);
                let formatted = word == "f" || word == "F";
                let (text, after) = literal(rest)?;
                if !plain && (!formatted || text.contains('{')) {
                    return None;
                }
                tokens.push(PythonToken::Value);
                rest = after;
            } else {
                tokens.push(PythonToken::Word(word.to_owned()));
            }
        } else if first == '"' || first == '\'' {
            let (_, after) = literal(rest)?;
            tokens.push(PythonToken::Value);
            rest = after;
        } else if first.is_ascii_digit() {
            let end = rest
                .find(|c: char| !c.is_alphanumeric() && c != '.' && c != '_')
                .unwrap_or(rest.len());
            tokens.push(PythonToken::Value);
            rest = &rest[end..];
        } else if first == '#' {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
        } else {
            rest = &rest[first.len_utf8()..];
            match first {
                '\n' => tokens.push(PythonToken::LineEnd),
                '\\' => return None,
                blank if blank.is_whitespace() => {}
                sign if sign.is_ascii() => tokens.push(PythonToken::Sign(sign)),
                _ => return None,
            }
        }
    }
    Some(tokens)
}

/// Returns what stands between the quotes at the beginning, and what follows.
fn literal(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next()?;
    let triple: String = [quote; 3].iter().collect();
    if let Some(inner) = text.strip_prefix(&triple) {
        let end = inner.find(&triple)?;
        return (!inner[..end].contains('\\')).then(|| (&inner[..end], &inner[end + 3..]));
    }
    let inner = &text[1..];
    let mut characters = inner.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => {
                characters.next();
            }
            '\n' => return None,
            character if character == quote => return Some((&inner[..at], &inner[at + 1..])),
            _ => {}
        }
    }
    None
}
