//! Tools that build, where options alone do not tell.

use super::WordList;
use super::grammar::{self, PathTarget};
use super::is_static;
use crate::approvals::shell::expand::Argument;
use crate::approvals::shell::invocation::ProgramRun;

/// Options of cargo's verbs.
pub(super) const CARGO: &str = "-vqrhnV -Fpj: -Z: --verbose --quiet --release --package: --workspace --all --exclude: --lib --bins \
     --bin: --examples --example: --tests --test: --benches --bench: --all-targets --doc --features: --all-features \
     --no-default-features --profile: --jobs: --keep-going --target: --target-dir> --manifest-path! --locked --offline --frozen \
     --message-format: --color: --no-run --no-fail-fast --fix --allow-dirty --allow-staged --allow-no-vcs --check --no-deps --open \
     --document-private-items --depth: --invert: --edges: --duplicates --prefix: --format: --format-version: --filter-platform: --dry-run \
     --dev --build --optional --rename: --default-features --precise: --aggressive --recursive --lib --name: --edition: --vcs: --limit: \
     --version --list --help --ignore-rust-version --timings? --nocapture --no-capture --run-ignored: --retries: --test-threads: -E: \
     --filter-expr: --partition: --status-level: --final-status-level: --failure-output: --success-output: --hide-inclusion-graph --hide-progress-bar --fail-fast \
     --root> --force --version: --bin: --branch: --tag: --rev: --path! --debug --no-track --registry: --verbose --deny: --ignore: --json --with-metadata --no-metadata --stress-count: --max-fail: --cargo-quiet --all-features --unstable-features: -i: -e: --profile-time:";

fn if_so<'a>(harmless: bool) -> Option<Vec<PathTarget<'a>>> {
    harmless.then(Vec::new)
}

pub(super) fn make<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    let options = "-bBdeiknpqrRsStvwmhL -fIC! -oW: -j? -l? -O? --always-make --directory! --file! --makefile! \
         --jobs? --keep-going --dry-run --just-print --question --silent --quiet --touch --no-print-directory \
         --print-directory --trace --output-sync? --load-average? --ignore-errors --warn-undefined-variables \
         --no-builtin-rules --version --help --debug? --environment-overrides --include-dir!";
    let line = grammar::read(it.arguments, options)?;
    let set = |word: &&str| {
        word.split_once('=').is_some_and(|(name, value)| {
            let name = name.trim_end_matches([':', '?', '+', '!']);
            value.contains(['$', '`', '!'])
                || super::decides_what_runs(name, value)
                || name.starts_with('.')
        })
    };
    let harmless = !line.words().iter().any(set)
        && !line.words().iter().any(|word| word.contains("$("))
        && is_static(it);
    harmless.then_some(line.written)
}

pub(super) fn tox<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    let options = "-qvlrpa -eks: --recreate --parallel? --listenvs --sessions: --list --version --help --env: --tags: \
         --reuse-existing-virtualenvs --keywords:";
    // What follows `--` is for the tests.
    let end = it.arguments.iter().position(|word| word.text == "--").unwrap_or(it.arguments.len());
    let line = grammar::read(&it.arguments[..end], options)?;
    let known = ["run", "r", "run-parallel", "p", "list", "l", "config", "c"];
    if_so(line.words().iter().all(|word| known.contains(word)))
}

pub(super) fn cmake<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    // `-P` and `-C` run scripts, `-E` programs.
    let options = "c* -LNh -S! -GATUDt: -jW? -B> --build! --target: --config: --parallel? --preset: --workflow --list-presets? \
         --fresh --clean-first --verbose -v --version --help --open! --log-level: \
         --graphviz> --toolchain!";
    let line = grammar::read(it.arguments, options)?;
    let mut written = line.written.clone();
    written.extend(line.values(&["build"]));
    for setting in line.values(&["D"]) {
        written.extend(cmake_setting(setting)?);
    }
    Some(written)
}

/// Judges a setting of cmake's: it may name programs, scripts and where to look for them.
fn cmake_setting(setting: PathTarget<'_>) -> Option<Vec<PathTarget<'_>>> {
    const PROGRAMS: [&str; 6] = ["LAUNCHER", "PROGRAM", "_RULE", "COMMAND", "COMPILER", "LINKER"];
    const PLAIN: [&str; 6] = ["gcc", "g++", "clang", "clang++", "ccache", "sccache"];
    let (name, value) = setting.text.split_once('=')?;
    let name = name.split(':').next().unwrap_or(name).to_ascii_uppercase();
    let names_program = PROGRAMS.iter().any(|part| name.contains(part)) && !PLAIN.contains(&value);
    if names_program || name.contains("FLAGS") && !super::environment::are_plain_flags(value) {
        return None;
    }
    let path = value.contains(['/', '~', '.']) || name.contains("INCLUDE");
    let code = PathTarget { text: value, code: true, ..setting };
    Some(if path { vec![code] } else { Vec::new() })
}

pub(super) fn maven<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    const GOALS: WordList = WordList(
        "clean compile test package verify install site validate test-compile integration-test process-resources \
         dependency:tree dependency:resolve dependency:analyze dependency:list versions:display-dependency-updates \
         help:effective-pom surefire:test failsafe:integration-test spotless:check spotless:apply checkstyle:check \
         spring-boot:run jacoco:report wrapper:wrapper",
    );
    let options = "-qBeXUoNVv -PT: -l> -D? +am +amd +pl: +rf: +fae +ff +fn +ntp --quiet --batch-mode --errors \
         --debug --update-snapshots --offline --projects: --also-make --also-make-dependents --threads: --activate-profiles: \
         --fail-at-end --fail-fast --no-transfer-progress --version --show-version --non-recursive";
    let line = grammar::read(it.arguments, options)?;
    let runs = |value: PathTarget<'_>| {
        let upper = value.text.to_ascii_lowercase();
        // A path may be one of code that is loaded.
        upper.contains('/')
            || upper.starts_with("exec.")
            || upper.contains("argline")
            || upper.contains("jvm")
            || upper.contains("executable")
    };
    if_so(
        line.words().iter().all(|goal| GOALS.has(goal))
            && !line.values(&["D"]).any(runs)
            && is_static(it),
    )
}

pub(super) fn gradle<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    let options = "-qiwdsSmatvh -x: -P? -p! --quiet --info --warn --debug --stacktrace --full-stacktrace --dry-run --continue \
         --offline --parallel --no-parallel --daemon --no-daemon --build-cache --no-build-cache --rerun-tasks --tests: --exclude-task: \
         --refresh-dependencies --warning-mode: --console: --scan --no-scan --configuration-cache --no-configuration-cache --version \
         --help --max-workers: --continuous --configuration: --dependency: --all --stop --status --profile";
    let line = grammar::read(it.arguments, options)?;
    is_static(it).then_some(line.written)
}

/// A setting on the command line can name a linker, a wrapper or a runner.
pub(super) fn cargo<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    const VERBS: WordList = WordList(
        "build b check c test t run r bench clippy fmt doc d tree metadata fetch update add \
         remove new init search version nextest clean deny audit machete generate-lockfile \
         expand rustdoc pkgid locate-project help",
    );
    // What follows `--` is the program's own, or the tests'.
    let end = it.arguments.iter().position(|word| word.text == "--").unwrap_or(it.arguments.len());
    let toolchain = it
        .arguments
        .first()
        .is_some_and(|first| first.text.strip_prefix('+').is_some_and(is_known_toolchain));
    let line = grammar::read(&it.arguments[usize::from(toolchain)..end], CARGO)?;
    let words = line.words();
    let named: Vec<PathTarget<'a>> = match words.first() {
        Some(&("new" | "init")) => {
            line.operands.iter().skip(1).map(|dir| PathTarget::whole(dir)).collect()
        }
        Some(&"clippy" | &"rustdoc") if passes_loader(&it.arguments[end..]) => return None,
        Some(verb) if VERBS.has(verb) => Vec::new(),
        Some(_) => return None,
        None => Vec::new(),
    };
    Some(line.written.iter().copied().chain(named).collect())
}

/// Reports whether a toolchain comes from where all do: others are linked by their names.
fn is_known_toolchain(name: &str) -> bool {
    matches!(name, "stable" | "beta" | "nightly")
        || name
            .strip_prefix("nightly-")
            .unwrap_or(name)
            .bytes()
            .all(|b| b.is_ascii_digit() || b".-".contains(&b))
}

/// Reports whether options make the compiler behind a tool load or run something.
fn passes_loader(words: &[Argument]) -> bool {
    words.iter().any(|word| {
        word.text.contains("linker")
            || word.text.starts_with('@')
            || word.text.contains("plugin")
            || word.text == "-o"
    })
}

pub(super) fn go<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    const VERBS: WordList = WordList(
        "build test vet fmt run get mod list version doc generate work clean env tool help",
    );
    let options = "c1 +v +x +n +a +race +msan +cover +json +short +count: +run: +bench: +benchmem +benchtime: +timeout: +parallel: +cpu: \
         +failfast +tags: +ldflags: +mod: +o> +p: +u +t +m +f: +deps +test +e +c +i +shuffle: +coverprofile> +covermode: +coverpkg: +cpuprofile> \
         +memprofile> +trace> +buildvcs? +trimpath +compiled +find +go: +all +skip: +list: +work +asmflags: +gcflags: +modcacherw +export +cache +testcache +modcache +fuzz: +fuzztime: +r +insecure +require: +replace! +fullpath +versions +s +src +compat: +C! +diff";
    let line = grammar::read(it.arguments, options)?;
    let words = line.words();
    let fetched = |word: &&str| word.contains('@') || word.contains("://");
    let linked = |flags: PathTarget<'_>| {
        flags.text.contains("extld")
            || flags.text.contains("toolexec")
            || flags.text.contains("fuse-ld")
    };
    if line.values(&["ldflags", "asmflags", "gcflags"]).any(linked) {
        return None;
    }
    let known = match words.first() {
        // The program may be anybody's.
        Some(&("run" | "generate")) => !words.iter().any(fetched),
        Some(&"env") => {
            !line.has(&["w", "u"])
                && !it.texts().any(|text| matches!(text, "-w" | "-u" | "--w" | "--u"))
        }
        Some(&"tool") => matches!(
            words.get(1),
            None | Some(&("cover" | "pprof" | "trace" | "nm" | "objdump" | "vet"))
        ),
        Some(verb) => VERBS.has(verb),
        None => true,
    };
    known.then_some(line.written)
}

pub(super) fn compiler<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    let loads = |text: &str| {
        text.starts_with('@')
            || [
                "-fplugin",
                "-wrapper",
                "-B",
                "-specs",
                "--specs",
                "-fuse-ld",
                "-Xclang",
                "-load",
                "--plugin",
                "-Xlinker",
                "-Wl,-plugin",
                "-Wl,--plugin",
                "--config",
                "-fmodule-mapper",
                "-iplugindir",
                "--ld-path",
                "-Wp,",
                "-Wa,",
                "--sysroot",
                "-no-canonical-prefixes",
                "-imacros=/",
                "--gcc-toolchain",
                "-fpass-plugin",
                "-save-temps=",
                "-dumpdir",
                "--output",
                "-MF",
                "-fdiagnostics",
                "-fprofile",
                "-aux-info",
                "--serialize-diagnostics",
                "-Wl,-o",
                "-Wl,--output",
            ]
            .iter()
            .any(|option| text.starts_with(option))
    };
    let words = it.arguments;
    let mut written = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if loads(&word.text) || word.splits || word.text.starts_with('-') && word.is_unknown() {
            return None;
        }
        if let Some(joined) = word.text.strip_prefix("-o") {
            let next = words.get(at + 1).filter(|_| joined.is_empty()).map(PathTarget::whole);
            written.push(if joined.is_empty() {
                next?
            } else {
                PathTarget { text: joined, ..PathTarget::whole(word) }
            });
        }
    }
    Some(written)
}

/// A compiler that may load what it compiles with.
pub(super) fn rustc<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    let options = "c* -gOVvh -L! -l: -o> --crate-type: --crate-name: --edition: --emit: --print: --test --explain: --target! \
             --cfg: --extern! -A: -W: -D: -C: --allow: --warn: --deny: --verbose --version --help --color: --error-format: --cap-lints: --check-cfg: --out-dir>";
    let line = grammar::read(it.arguments, options)?;
    let plain = line.values(&["C"]).all(|setting| super::environment::is_plain_codegen(setting.text))
        // Behind a kind stands where it is written.
        && !line.values(&["emit"]).any(|kind| kind.text.contains('='))
        && !line.words().iter().any(|word| word.starts_with('+'));
    plain.then_some(line.written)
}

/// What shows toolchains, or adds to one; another toolchain may be anybody's.
pub(super) fn rustup<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    let options =
        "-vq --toolchain: --installed --verbose --quiet --version --target: --path --book --std";
    let line = grammar::read(it.arguments, options)?;
    let words = line.words();
    if_so(match words.as_slice() {
        [] | ["show" | "check" | "which" | "doc", ..] | ["toolchain", "list"] => true,
        ["target" | "component", verb, ..] => matches!(*verb, "add" | "list"),
        _ => false,
    })
}

/// Tests of the project; a plugin may be left out, but none added.
pub(super) fn pytest<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    let options = "c* -vqxslhV -kmnrWp: -c! --verbose --quiet --exitfirst --maxfail: --lf --ff --nf \
             --last-failed --failed-first --new-first --stepwise --sw --collect-only --co \
             --tb: --durations: --durations-min: --no-header --no-summary --showlocals --capture: \
             --color: --cov? --cov-report: --cov-config! --cov-branch --cov-fail-under: --no-cov \
             --strict-markers --strict-config --disable-warnings --markers --fixtures --version \
             --help --ignore: --ignore-glob: --deselect: --import-mode: --rootdir! --timeout: \
             --numprocesses: --dist: --randomly-seed: --runxfail --setup-show --asyncio-mode: \
             --benchmark-only --benchmark-skip --reruns: --doctest-modules --full-trace --cache-clear \
             --cache-show? --snapshot-update --log-cli-level: --log-level: --junitxml> --junit-xml>";
    let line = grammar::read(it.arguments, options)?;
    let plain = line.values(&["p"]).all(|plugin| plugin.text.starts_with("no:"));
    plain.then_some(line.written)
}
