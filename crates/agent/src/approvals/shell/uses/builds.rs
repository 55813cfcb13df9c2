//! Tools that build, test and format a project. They run the project's own code,
//! which is what they are for.

use super::Uses::{self, Any, Told, Verbs, Without};
use super::Words;
use super::{is_static, verb};
use crate::approvals::shell::invocation::Invocation;

/// Programs with the same uses.
pub(super) const GROUPS: &[(Words, Uses)] = &[
    (Words("make gmake bmake"), Told(make)),
    (Words("cmake"), Told(cmake)),
    (
        Words(
            "ninja meson ctest cargo-nextest pytest py.test tox nox mypy ruff black flake8 \
             pylint isort pyright gofmt goimports golangci-lint staticcheck rustfmt javac mvn \
             mvnw gradle gradlew tsc eslint prettier jest vitest mocha vite webpack rollup \
             esbuild biome stylelint next turbo rspec rubocop rake phpunit phpstan shellcheck \
             shfmt hadolint actionlint yamllint markdownlint clang-format clang-tidy cppcheck \
             playwright cypress pre-commit autoconf automake autoreconf ghc virtualenv",
        ),
        Any,
    ),
    (Words("cargo"), Told(cargo)),
    (
        Words("rustc"),
        Told(|it| !it.texts().any(|text| text.contains("linker") || text.starts_with('@'))),
    ),
    (Words("rustup"), Verbs(Words("show update check target component toolchain which doc"))),
    (Words("go"), Told(go)),
    (Words("gcc g++ cc c++ clang clang++ cpp ld"), Told(compiler)),
    (Words("npm pnpm yarn bun"), Told(node_packages)),
    (Words("npx pnpx bunx"), Told(npx)),
    (Words("pip pip3"), Told(pip)),
    (Words("uv"), Told(uv)),
    (Words("poetry pipenv pdm hatch"), Told(poetry)),
    (Words("coverage"), Verbs(Words("report html xml json combine erase"))),
    (
        Words("bundle"),
        Told(|it| {
            runs_known(
                it,
                &["exec"],
                &["install", "check", "list", "show", "update", "outdated", "info"],
            )
        }),
    ),
    (Words("gem"), Verbs(Words("list info search env build"))),
    (Words("composer"), Verbs(Words("install update show validate outdated dump-autoload check"))),
    (
        Words("java"),
        Told(|it| {
            it.operands().next().is_none()
                && !it.texts().any(|text| text == "-jar" || text.starts_with("-agent"))
        }),
    ),
    (Words("dotnet"), Verbs(Words("build test run restore new list clean format publish add"))),
    (Words("swift"), Verbs(Words("build test run package format"))),
    (Words("bazel bazelisk buck2"), Verbs(Words("build test query cquery info version run clean"))),
    (Words("zig"), Verbs(Words("build test fmt version run"))),
    (Words("mix"), Verbs(Words("test compile deps.get format deps credo"))),
    (Words("cabal stack"), Verbs(Words("build test run bench update check"))),
    (
        Words("nvm fnm asdf mise pyenv rbenv"),
        Verbs(Words("use ls list current which install version versions local")),
    ),
    (Words("just"), Without("", &["shell", "shell-arg", "justfile"])),
];

/// What names a place to fetch code from, rather than a package of a registry.
fn is_place(text: &str) -> bool {
    text.contains("://") || text.starts_with("git+") || text.starts_with("git@")
}

fn make(it: &Invocation<'_>) -> bool {
    let words: Vec<&str> = it.texts().collect();
    let from_elsewhere = |file: &str| file == "-" || file.starts_with("/dev/");
    let file = words
        .windows(2)
        .any(|pair| matches!(pair[0], "-f" | "--file" | "--makefile") && from_elsewhere(pair[1]));
    let joined = words.iter().any(|word| {
        let file = word.strip_prefix("-f").or(word.strip_prefix("--file="));
        file.or(word.strip_prefix("--makefile="))
            .is_some_and(|file| from_elsewhere(file) && !file.is_empty())
    });
    let evaluates = words.iter().any(|word| word.starts_with("--eval") || word.starts_with("-E"));
    let set = |word: &&str| {
        word.split_once('=').is_some_and(|(name, value)| {
            !word.starts_with('-')
                && (value.contains(['$', '`']) || super::decides_what_runs(name, value))
        })
    };
    !(file || joined || evaluates || words.iter().any(set)) && is_static(it)
}

fn cmake(it: &Invocation<'_>) -> bool {
    // -P runs a script, -E programs, and these variables name programs.
    let runs = |text: &str| {
        matches!(text, "-P" | "-E")
            || text.starts_with("-D")
                && (text.contains("LAUNCHER") || text.contains("PROGRAM") || text.contains("_RULE"))
    };
    !it.texts().any(runs)
}

fn cargo(it: &Invocation<'_>) -> bool {
    const VERBS: Words = Words(
        "build b check c test t run r bench clippy fmt doc d tree metadata fetch update add \
         remove new init search version nextest clean deny audit machete generate-lockfile \
         expand",
    );
    // A setting on the command line can name a linker, a wrapper or a runner.
    let sets = it.texts().take_while(|text| *text != "--").any(|text| text.starts_with("--config"));
    !sets
        && match verb(it) {
            Some(("install", rest)) => !rest.iter().any(|word| is_place(word) || *word == "--git"),
            Some((verb, _)) => VERBS.has(verb),
            None => true,
        }
}

fn go(it: &Invocation<'_>) -> bool {
    const VERBS: Words =
        Words("build test vet fmt run get mod list version install doc generate work clean");
    let runs = |text: &str| {
        let option = text.trim_start_matches('-').split('=').next().unwrap_or_default();
        text.starts_with('-') && matches!(option, "exec" | "toolexec" | "vettool")
    };
    match verb(it) {
        Some(("env", rest)) => !rest.iter().any(|word| matches!(*word, "-w" | "-u")),
        Some((verb, rest)) => VERBS.has(verb) && !rest.into_iter().any(runs),
        None => true,
    }
}

fn compiler(it: &Invocation<'_>) -> bool {
    let loads = |text: &str| {
        text.starts_with('@')
            || [
                "-fplugin",
                "-wrapper",
                "-B",
                "-specs",
                "--specs",
                "-fuse-ld=/",
                "-Xclang",
                "-load",
                "--plugin",
            ]
            .iter()
            .any(|option| text.starts_with(option))
    };
    !it.texts().any(loads)
}

fn node_packages(it: &Invocation<'_>) -> bool {
    const VERBS: Words = Words(
        "install i ci add run run-script test t build start dev lint ls list outdated view \
         info why audit version init update up prune dedupe explain typecheck format check \
         pack",
    );
    if it.has("", "script-shell") {
        return false;
    }
    match verb(it) {
        Some(("exec" | "dlx" | "x", rest)) => names_known_tool(&rest),
        Some((verb, rest)) => VERBS.has(verb) && !rest.into_iter().any(is_place),
        None => true,
    }
}

fn npx(it: &Invocation<'_>) -> bool {
    let mut options = it.texts().take_while(|text| text.starts_with('-'));
    let fetches = |text: &str| {
        matches!(text, "-c" | "--call" | "-p")
            || text.starts_with("--call=")
            || text.starts_with("--package")
    };
    !options.any(fetches) && names_known_tool(&it.texts().collect::<Vec<_>>())
}

/// Reports whether the first word that is no option names a tool known above.
fn names_known_tool(words: &[&str]) -> bool {
    let tool = words.iter().find(|word| !word.starts_with('-'));
    tool.is_some_and(|tool| {
        GROUPS.iter().any(|(names, uses)| matches!(uses, Any) && names.has(tool))
    })
}

/// A program that runs another after one of these verbs, and has verbs of its own.
fn runs_known(it: &Invocation<'_>, runs: &[&str], verbs: &[&str]) -> bool {
    match verb(it) {
        Some((verb, rest)) if runs.contains(&verb) => names_known_tool(&rest) || runs_module(&rest),
        Some((verb, rest)) => verbs.contains(&verb) && !rest.into_iter().any(is_place),
        None => true,
    }
}

/// Reports whether the words are `python -m` with a module that is known.
fn runs_module(words: &[&str]) -> bool {
    matches!(words, ["python" | "python3", "-m", module, ..] if super::is_known_module(module))
}

fn pip(it: &Invocation<'_>) -> bool {
    let verbs = ["install", "list", "show", "freeze", "check", "download", "index", "wheel"];
    runs_known(it, &[], &verbs)
}

fn uv(it: &Invocation<'_>) -> bool {
    let verbs = [
        "sync", "lock", "add", "remove", "pip", "venv", "tree", "version", "init", "export",
        "build",
    ];
    !it.has("", "with") && runs_known(it, &["run"], &verbs)
}

fn poetry(it: &Invocation<'_>) -> bool {
    let verbs = [
        "install", "update", "lock", "add", "remove", "show", "check", "build", "version", "env",
        "sync", "graph", "init", "new",
    ];
    runs_known(it, &["run"], &verbs)
}
