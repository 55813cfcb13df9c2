//! Managers of packages, and the tools that they run.

use super::WordList;
use super::grammar::{self, PathTarget};
use super::{KnownProgram, look};
use crate::approvals::shell::expand::Argument;
use crate::approvals::shell::invocation::ProgramRun;

/// Tools of packages that `npx` and its like may run: they are known below.
const NODE_TOOLS: WordList = WordList(
    "tsc eslint prettier jest vitest mocha vite webpack rollup esbuild biome stylelint next turbo \
     playwright cypress",
);

/// What names a place to fetch code from, rather than a package of a registry.
pub(super) fn is_place(text: &str) -> bool {
    text.contains("://")
        || text.starts_with("git+")
        || text.starts_with("git@")
        || text.starts_with("github:")
        || text.contains("@http")
        || text.contains("@git")
        || text.starts_with(['/', '~'])
        || text.starts_with("..")
}

const NODE: &str = "stop -gDESPOdsqhvry -wF: -C! --save-dev --save-exact --save-prod --save-optional --no-save --save --global --silent --quiet \
     --prefix! --workspace: --workspaces --include-workspace-root --legacy-peer-deps --force --omit: --include: --production --prod --dev \
     --frozen-lockfile --no-frozen-lockfile --ignore-scripts --no-audit --no-fund --audit? --fund? --depth: --json --long --parseable --all \
     --if-present --dry-run --package-lock-only --no-package-lock --prefer-offline --offline --no-optional --immutable --yes --version --help \
     --recursive --filter: --dir! --cwd! --loglevel: --verbose --parallel --stream --tag: --exact --watch --hot --coverage --timeout: --bail? --network-timeout: --no-progress --non-interactive --check-files --ignore-engines";

pub(super) fn node_packages<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    const VERBS: WordList = WordList(
        "install i ci add run run-script test t build start dev lint ls list outdated view \
         info why audit version init update up prune dedupe explain typecheck format check \
         pack remove uninstall rm un ping root bin help fund",
    );
    let line = grammar::read(it.arguments, NODE)?;
    let Some(verb) = line.operands.first() else { return Some(line.written) };
    let verb = verb.text.as_str();
    let all = |more: Vec<PathTarget<'a>>| Some(line.written.iter().copied().chain(more).collect());
    match verb {
        "run" | "run-script" | "test" | "build" if it.program == "bun" => {
            let own = grammar::read(line.rest, &NODE.replace("stop", "c*"))?;
            // A name of a file is run in place of a script.
            let file = |word: &&str| word.contains(['/', '.']);
            let runs_file = verb.starts_with("run") && own.words().iter().any(file);
            if runs_file { None } else { all(own.written) }
        }
        "exec" | "dlx" | "x" => runs_tool(it, line.rest),
        // What follows the name of a script is the script's own.
        "run" | "run-script" | "test" | "t" | "start" | "dev" | "build" | "lint" | "typecheck"
        | "format" | "check" => {
            let before =
                line.rest.iter().take_while(|word| word.text.starts_with('-') && word.text != "--");
            let plain = before
                .map(|word| &word.text)
                .all(|word| !word.contains("shell") && !word.contains("config"));
            let given = line.rest.iter().take_while(|word| word.text != "--");
            let anywhere = given.filter(|word| word.text.starts_with('-')).any(|word| {
                let word = word.text.trim_start_matches('-');
                [
                    "script-shell",
                    "node-options",
                    "userconfig",
                    "globalconfig",
                    "shell",
                    "prefix",
                    "dir",
                    "cwd",
                    "C",
                ]
                .iter()
                .any(|name| word.starts_with(name))
            });
            if plain && !anywhere { all(Vec::new()) } else { None }
        }
        verb if VERBS.has(verb) => {
            const LOOKS: WordList =
                WordList("ls list outdated view info why root bin help explain");
            let more = grammar::read(line.rest, &NODE.replace("stop", ""))?;
            let global =
                [&line, &more].iter().any(|line| line.has(&["g", "global"])) && !LOOKS.has(verb);
            // `init` with a name fetches a package and runs it.
            let fetches = verb == "init" && !more.operands.is_empty();
            let mut named = more.written.clone();
            for package in &more.operands {
                named.extend(package_of(package)?);
            }
            if global || fetches { None } else { all(named) }
        }
        _ => None,
    }
}

/// Judges what is installed: a package of the registry, or a directory of the project's.
fn package_of(word: &Argument) -> Option<Vec<PathTarget<'_>>> {
    let text = word.text.as_str();
    if text == "." || text.starts_with("./") {
        return Some(vec![PathTarget::code(word)]);
    }
    // A slash stands in the name of a scope, a colon in an address.
    let name = text
        .strip_prefix('@')
        .map_or(text, |scoped| scoped.split_once('/').map_or(scoped, |(_, name)| name));
    let plain = !name.contains(['/', ':']) && !is_place(text) && !word.is_unknown();
    plain.then(Vec::new)
}

pub(super) fn npx<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    let line =
        grammar::read(it.arguments, "stop -yq --yes --no --no-install --quiet --silent --bun")?;
    let at = line.operands.first().map(|_| it.arguments.len() - line.rest.len() - 1);
    runs_tool(it, at.map_or(&[], |at| &it.arguments[at..]))
}

/// A tool of a package that is known above, with its options.
fn runs_tool<'a>(it: &ProgramRun<'a>, words: &'a [Argument]) -> Option<Vec<PathTarget<'a>>> {
    let words = match words.first() {
        Some(first) if first.text == "--" => &words[1..],
        _ => words,
    };
    let tool = words.first().filter(|tool| NODE_TOOLS.has(&tool.text))?;
    covered(it, tool, &words[1..])
}

/// Judges a command that another program runs.
fn covered<'a>(
    it: &ProgramRun<'a>,
    program: &'a Argument,
    arguments: &'a [Argument],
) -> Option<Vec<PathTarget<'a>>> {
    match look(&ProgramRun { program: &program.text, arguments, ..*it }) {
        KnownProgram::Harmless(written) => Some(written),
        KnownProgram::OtherUse | KnownProgram::Unknown => None,
    }
}

/// Tools that a project's own environment may run.
const PROJECT_TOOLS: WordList = WordList(
    "pytest py.test mypy ruff black flake8 pylint isort pyright coverage tox nox pre-commit rspec rubocop rake",
);

fn runs_in_project<'a>(it: &ProgramRun<'a>, words: &'a [Argument]) -> Option<Vec<PathTarget<'a>>> {
    let (program, rest) = words.split_first()?;
    match program.text.as_str() {
        "python" | "python3" => {
            let (_, rest) = rest.split_first().filter(|(option, _)| option.text == "-m")?;
            let (module, rest) = rest.split_first()?;
            let inner = ProgramRun { program: &module.text, arguments: rest, ..*it };
            match super::look_at_module(&inner) {
                KnownProgram::Harmless(written) => Some(written),
                KnownProgram::OtherUse | KnownProgram::Unknown => None,
            }
        }
        tool if PROJECT_TOOLS.has(tool) => covered(it, program, rest),
        _ => None,
    }
}

const PACKAGES: &str = "-Uqvhyn -EG: -rcep! --requirement! --constraint! --editable! --upgrade --quiet --verbose --no-deps \
     --no-cache-dir --no-cache --pre --dev --group: --only-group: --extra: --all-extras --all-groups --no-dev --frozen --locked --no-sync --outdated --format: \
     --no-build-isolation --force-reinstall --ignore-installed --disable-pip-version-check --no-input \
     --with: --without: --only: --no-root --no-interaction --sync --tree --top-level --all --latest --extras: --python! \
     --version --help --seed --clear --prompt: --no-install-project --refresh --reinstall --upgrade-package: --bare --lib --app --package: \
     --check --optional: --prefer-binary --only-binary: --no-binary: --progress-bar: --use-pep517 --root-user-action: --no-warn-script-location --not-required --path --info";

/// A manager of packages: verbs of its own, and those that run something.
fn packages<'a>(it: &ProgramRun<'a>, runs: &[&str], verbs: &[&str]) -> Option<Vec<PathTarget<'a>>> {
    let line = grammar::read(it.arguments, &format!("stop {PACKAGES}"))?;
    let Some(verb) = line.operands.first() else { return Some(Vec::new()) };
    let verb = verb.text.as_str();
    if runs.contains(&verb) {
        let run = runs_in_project(it, line.rest)?;
        return Some(line.written.iter().copied().chain(run).collect());
    }
    let rest = grammar::read(line.rest, &format!("c* {PACKAGES}"))?;
    let places = line.rest.iter().any(|word| is_place(&word.text));
    (verbs.contains(&verb) && !places)
        .then(|| line.written.iter().chain(&rest.written).copied().collect())
}

pub(super) fn pip<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    // Another interpreter's packages may lie anywhere.
    if it.has("", "python") {
        return None;
    }
    packages(it, &[], &["install", "list", "show", "freeze", "check", "index", "help"])
}

pub(super) fn uv<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    let verbs =
        ["sync", "lock", "add", "remove", "pip", "venv", "tree", "version", "init", "build"];
    if it.has("", "with") { None } else { packages(it, &["run"], &verbs) }
}

pub(super) fn poetry<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    let verbs = [
        "install", "update", "lock", "add", "remove", "show", "check", "build", "version", "env",
        "sync", "graph", "init", "new",
    ];
    packages(it, &["run"], &verbs)
}

pub(super) fn bundle<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    let verbs = ["install", "check", "list", "show", "update", "outdated", "info"];
    packages(it, &["exec"], &verbs)
}

pub(super) fn coverage<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    let options = "-aimq -d> -o> --include: --omit: --show-missing --skip-covered --skip-empty --fail-under: --sort: --precision: --format: --append --quiet --branch --source: --rcfile!";
    let line = grammar::read(it.arguments, &format!("stop {options}"))?;
    let Some(verb) = line.operands.first() else { return Some(Vec::new()) };
    match verb.text.as_str() {
        "report" | "html" | "xml" | "json" | "combine" | "erase" => {
            Some(grammar::read(line.rest, options)?.written)
        }
        _ => None,
    }
}
