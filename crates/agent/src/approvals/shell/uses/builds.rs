//! Tools that build, test and format a project. They run the project's own code,
//! which is what they are for; what is run or written by an option is another
//! matter.

use super::Uses::{self, Options, Verbs, Writes};
use super::{WordList, packages, tools};

/// Programs with the same uses.
pub(super) const GROUPS: &[(WordList, Uses)] = &[
    (WordList("make gmake bmake"), Writes(tools::make)),
    (WordList("cmake"), Writes(tools::cmake)),
    (WordList("ninja"), Options("-vn -jkl: -C! -f! --quiet --verbose --version --help")),
    (
        WordList("meson"),
        Verbs(
            WordList("setup compile test configure introspect"),
            "c1 -v -jD: -C! --buildtype: --prefix: --wipe --reconfigure --verbose --suite: --list \
             --print-errorlogs --no-rebuild --version --help --jobs: --targets --buildoptions",
        ),
    ),
    (
        WordList("ctest"),
        Options(
            "c* -VNQ -RELCI: -j? --output-on-failure --verbose --extra-verbose --rerun-failed \
             --test-dir! --parallel? --tests-regex: --exclude-regex: --label-regex: --timeout: \
             --show-only? --stop-on-failure --repeat: --progress --version --help --preset:",
        ),
    ),
    (WordList("pytest py.test"), Writes(tools::pytest)),
    (WordList("tox nox"), Writes(tools::tox)),
    (
        WordList("mypy pyright"),
        Options(
            "-v -pm: --strict --ignore-missing-imports --show-error-codes --pretty --no-incremental \
             --follow-imports: --python-version: --exclude: --package: --module: --namespace-packages \
             --explicit-package-bases --check-untyped-defs --disallow-untyped-defs --no-error-summary \
             --warn-unused-ignores --install-types --non-interactive --outputjson --stats --version \
             --verbose --pythonversion: --level: --no-color-output --show-column-numbers",
        ),
    ),
    (
        WordList("ruff"),
        Verbs(
            WordList("check format rule linter clean version"),
            "w1 -qvsn --fix --unsafe-fixes --no-fix --diff --check --select: --ignore: --extend-select: \
             --exclude: --statistics --watch --quiet --verbose --output-format: --no-cache \
             --show-fixes --preview --line-length: --target-version: --fix-only --exit-zero \
             --show-files --show-settings --add-noqa --version",
        ),
    ),
    (
        WordList("black isort flake8 autopep8"),
        Options(
            "w* -qvliacSr -tjl: --check --diff --quiet --verbose --line-length: --target-version: \
             --skip-string-normalization --check-only --profile: --recursive --in-place --aggressive \
             --max-line-length: --ignore: --select: --extend-ignore: --exclude: --include: --count \
             --statistics --show-source --color --no-color --version --fast --safe --preview \
             --max-complexity: --per-file-ignores: --extend-exclude: --force-exclude:",
        ),
    ),
    (
        WordList("pylint"),
        Options(
            "-Ejv -drfe: --disable: --enable: --errors-only --reports: --score: --output-format: \
             --jobs: --max-line-length: --ignore: --ignore-patterns: --recursive: --version",
        ),
    ),
    (WordList("gofmt goimports"), Options("w* -r: +l +w +d +s +e +local:")),
    (
        WordList("golangci-lint staticcheck"),
        Options(
            "c* -v -ED: -c! --fix --verbose --timeout: --enable: --disable: --fast --new --new-from-rev: \
             --max-issues-per-linter: --max-same-issues: --tests? --tags: --no-config --version \
             +checks: +f: +tags: +tests?",
        ),
    ),
    (
        WordList("rustfmt"),
        Options(
            "w* -vq --check --edition: --verbose --quiet --color: --version --help --emit: --files-with-diff -l",
        ),
    ),
    (
        WordList("javac"),
        Options(
            "c* -g +cp! +classpath! +sourcepath! +d> +source: +target: +release: +Xlint? +Werror +verbose +version +parameters +nowarn +encoding: +proc:",
        ),
    ),
    (WordList("mvn mvnw"), Writes(tools::maven)),
    (WordList("gradle gradlew"), Writes(tools::gradle)),
    (
        WordList("tsc"),
        Options(
            "c* -wbvhd -p! -t: -m: --noEmit --watch --build --project! --pretty? --skipLibCheck --strict \
             --incremental --emitDeclarationOnly --declaration --listFiles --showConfig --outDir> \
             --outFile> --target: --module: --jsx: --lib: --moduleResolution: --esModuleInterop \
             --allowJs --checkJs --resolveJsonModule --noEmitOnError --force --verbose --clean --version \
             --help --diagnostics --extendedDiagnostics --types: --rootDir: --isolatedModules --traceResolution \
             --noUnusedLocals --noUnusedParameters --preserveWatchOutput --declarationMap --sourceMap",
        ),
    ),
    (
        WordList("eslint"),
        Options(
            "w* c* -hv -f! -o> --fix --fix-dry-run --ext: --max-warnings: --quiet --cache --cache-location> \
             --format! --output-file> --rule: --no-eslintrc --ignore-pattern: --ignore-path: \
             --report-unused-disable-directives --debug --color --no-color --env: --version --fix-type: \
             --no-error-on-unmatched-pattern --cache-strategy: --no-warn-ignored --no-ignore",
        ),
    ),
    (
        WordList("prettier"),
        Options(
            "w* c* -wclu --write --check --list-different --ignore-unknown --no-config --loglevel: \
             --log-level: --single-quote --no-semi --tab-width: --print-width: --trailing-comma: \
             --parser: --cache --no-error-on-unmatched-pattern --ignore-path: --version --end-of-line: --stdin-filepath:",
        ),
    ),
    (
        WordList("jest vitest"),
        Options(
            "-buiwohv -t: --watch? --watchAll? --coverage? --verbose --silent? --runInBand --bail? --ci \
             --updateSnapshot --testNamePattern: --testPathPattern: --testPathPatterns: --testPathIgnorePatterns: \
             --onlyChanged --onlyFailures --findRelatedTests --passWithNoTests --no-coverage --noCoverage \
             --detectOpenHandles --forceExit --maxWorkers: --json --no-cache --clearCache --listTests \
             --changedSince: --run --reporter! --ui --typecheck --no-watch --testTimeout: --env! \
             --environment! --project: --selectProjects --shard: --pool: --update --version --colors \
             --no-color --expand --logHeapUsage --no-file-parallelism --retry: --related --randomize",
        ),
    ),
    (
        WordList("mocha"),
        Options(
            "c* -bRGcw -gfst: --bail --grep: --fgrep: --timeout: --slow: --reporter! --recursive --exit --watch \
             --parallel --jobs: --colors --color --no-color --spec! --retries: --invert --full-trace --forbid-only --version",
        ),
    ),
    (
        WordList("vite webpack rollup next turbo"),
        Options(
            "c* -whdp -m: --watch? --mode: --port: --host? --open? --base: --minify? --sourcemap? --emptyOutDir \
             --logLevel: --clearScreen --strictPort --force --debug --env: --progress --stats? --json? \
             --outDir> --output-path> --filter: --parallel --concurrency: --continue --dry? --no-cache --turbo \
             --hostname: --no-lint --profile --version --help --silent --failAfterWarnings",
        ),
    ),
    (
        WordList("esbuild"),
        Options(
            "--bundle --minify --sourcemap? --format: --platform: --target: --watch? --splitting --outfile> \
             --outdir> --log-level: --tree-shaking? --external: --version --metafile> --jsx: --packages:",
        ),
    ),
    (
        WordList("biome stylelint"),
        Options(
            "w* c* -f! --fix --write --apply --unsafe --apply-unsafe --changed --staged --since: --max-diagnostics: \
             --diagnostic-level: --no-errors-on-unmatched --quiet --max-warnings: --ignore-path: --cache --formatter! \
             --error-on-warnings --reporter: --colors: --verbose --version --allow-empty-input",
        ),
    ),
    (
        WordList("rspec"),
        Options(
            "c* -bpcw -fet: -P! --fail-fast? --format: --tag: --example: --pattern! --exclude-pattern: --seed: --order: --color \
             --no-color --backtrace --only-failures --next-failure --profile? --bisect? --dry-run --version --force-color --warnings",
        ),
    ),
    (
        WordList("rubocop"),
        Options(
            "w* c* -aAPDlxE -f: --auto-correct --autocorrect --autocorrect-all --auto-correct-all --only: --except: --format: --parallel --no-parallel --display-cop-names --fail-level: --lint --version --force-exclusion --display-only-fail-level-offenses",
        ),
    ),
    (
        WordList("rake"),
        Options(
            "-TPDntqvsm -j? --tasks? --trace? --dry-run --quiet --silent --verbose --version --prereqs --multitask --jobs: --all --describe? --where?",
        ),
    ),
    (
        WordList("phpunit phpstan"),
        Options(
            "c* -vcl --filter: --group: --exclude-group: --testsuite: --stop-on-failure --stop-on-error --testdox \
             --colors? --verbose --debug --no-coverage --coverage-text? --list-tests --level: --memory-limit: --no-progress \
             --error-format: --version --order-by: --no-ansi --ansi --xdebug --display-warnings --display-deprecations",
        ),
    ),
    (
        WordList("shellcheck"),
        Options(
            "-xaV -sefCSoiPW: --shell: --exclude: --format: --color? --severity: --external-sources --check-sourced --include: --enable: --version --norc --source-path: --wiki-link-count:",
        ),
    ),
    (WordList("shfmt"), Options("w* -lwdspf -i: +ln: +ci +bn +sr +kp +fn +d +w +l +s +i:")),
    (
        WordList("hadolint actionlint yamllint markdownlint"),
        Options(
            "w* -sfv -d: -c! --ignore: --strict --format: --failure-threshold: --fix --config! --no-color --verbose --oneline --no-warnings --version --disable: --no-fail --color",
        ),
    ),
    (
        WordList("clang-format"),
        Options(
            "w* -i -n +i +n +style: --style: --dry-run --Werror --verbose --version --fallback-style: --sort-includes --lines: --files:",
        ),
    ),
    (
        WordList("clang-tidy"),
        Options(
            "c* -p! --checks: --fix --fix-errors --quiet --header-filter: --warnings-as-errors: --list-checks --format-style: --use-color --version --export-fixes> +checks: +p! +fix +quiet +header-filter: +warnings-as-errors: +format-style: +list-checks",
        ),
    ),
    (
        WordList("cppcheck"),
        Options(
            "-qvf -IDUij: --enable: --std: --language: --quiet --force --inline-suppr --suppress: --error-exitcode: --xml --template: --version --platform: --check-level: --verbose --project: --inconclusive --max-configs:",
        ),
    ),
    (
        WordList("playwright cypress"),
        Verbs(
            WordList("test run open install show-report list-files verify version info cache"),
            "c1 -gbshqux -j: --headed --grep: --grep-invert: --project! --workers: --reporter! --debug --ui --list \
             --retries: --timeout: --headless --browser! --spec! --update-snapshots --max-failures: \
             --repeat-each: --shard: --trace: --last-failed --only-changed? --pass-with-no-tests --component --e2e --port: --version --quiet --tag:",
        ),
    ),
    (
        WordList("pre-commit"),
        Verbs(
            WordList("run validate-config validate-manifest clean gc"),
            "-av --all-files --files --hook-stage: --show-diff-on-failure --verbose --color: --from-ref: --to-ref: --last-commit --version",
        ),
    ),
    (
        WordList("autoconf automake autoreconf"),
        Options(
            "c* -fivsa -I! -W: --force --install --verbose --symlink --add-missing --copy --foreign --version --help --warnings:",
        ),
    ),
    (
        WordList("virtualenv"),
        Options(
            "w* -qv -p! --python! --system-site-packages --clear --prompt: --no-download --upgrade-embed-wheels --quiet --verbose --version",
        ),
    ),
    (WordList("cargo-nextest"), Verbs(WordList("nextest"), tools::CARGO)),
    (WordList("cargo"), Writes(tools::cargo)),
    (WordList("rustc"), Writes(tools::rustc)),
    (WordList("rustup"), Writes(tools::rustup)),
    (WordList("go"), Writes(tools::go)),
    (WordList("gcc g++ cc c++ clang clang++ cpp"), Writes(tools::compiler)),
    (WordList("npm pnpm yarn bun"), Writes(packages::node_packages)),
    (WordList("npx pnpx bunx"), Writes(packages::npx)),
    (WordList("pip pip3"), Writes(packages::pip)),
    (WordList("uv"), Writes(packages::uv)),
    (WordList("poetry pipenv pdm hatch"), Writes(packages::poetry)),
    (WordList("coverage"), Writes(packages::coverage)),
    (WordList("bundle"), Writes(packages::bundle)),
    (
        WordList("gem"),
        Verbs(
            WordList("list info search env"),
            "-adlrq --local --remote --all --details --exact --versions --prerelease --quiet",
        ),
    ),
    (
        WordList("composer"),
        Verbs(
            WordList(
                "install update show validate outdated dump-autoload check check-platform-reqs",
            ),
            "-noavqtDi --no-dev --no-interaction --optimize-autoloader --no-progress --prefer-dist --dry-run --no-scripts --with-dependencies --with-all-dependencies --direct --latest --tree --ansi --no-ansi --strict --ignore-platform-reqs --ignore-platform-req: --quiet --verbose --optimize --classmap-authoritative",
        ),
    ),
    (
        WordList("java"),
        Options("-V +version --version +showversion +help --help --list-modules +XshowSettings"),
    ),
    (
        WordList("dotnet"),
        Verbs(
            WordList("build test run restore new list clean format publish add"),
            "c1 -cfrvhn --configuration: --framework: --runtime: --verbosity: --no-restore --no-build --filter: --logger: --list-tests --project! --self-contained? --collect: --blame --nologo --version --info --list-sdks --list-runtimes --verify-no-changes --include: --exclude: --name: --outdated --vulnerable --include-transitive",
        ),
    ),
    (
        WordList("swift"),
        Verbs(
            WordList("build test package format"),
            "c1 -cvj --configuration: --filter: --parallel --verbose --quiet --target: --product: --version --enable-code-coverage --skip: --list-tests --show-bin-path --arch:",
        ),
    ),
    (
        WordList("bazel bazelisk buck2"),
        Verbs(
            WordList("build test query cquery info version run clean"),
            "-k -cj: --config: --compilation_mode: --test_output: --test_filter: --keep_going --verbose_failures --jobs: --nocache_test_results --cache_test_results? --test_arg: --output: --noshow_progress --runs_per_test: --test_tag_filters: --build_tag_filters: --copt: --define: --features: --platforms: --curses: --color: --expunge",
        ),
    ),
    (
        WordList("zig"),
        Verbs(
            WordList("build test fmt version"),
            "c1 w1 -D? --check --release? --summary: --verbose --help",
        ),
    ),
    (
        WordList("mix"),
        Verbs(
            WordList("test compile deps.get format deps credo"),
            "c1 --only: --exclude: --include: --trace --failed --stale --cover --seed: --max-failures: --warnings-as-errors --force --check-formatted --dry-run --strict --all --color --no-color --slowest:",
        ),
    ),
    (
        WordList("cabal stack"),
        Verbs(
            WordList("build test bench update check"),
            "c1 -vj? -f: --fast --pedantic --test --bench --no-run-tests --no-run-benchmarks --dependencies-only --only-dependencies --enable-tests --enable-benchmarks --test-show-details: --file-watch --coverage --flag: --fast --dry-run --ta: --test-arguments: --jobs?",
        ),
    ),
    (
        WordList("nvm fnm asdf mise pyenv rbenv"),
        Verbs(
            WordList("use ls list current which install version versions local"),
            "--lts? --install-if-missing --version --all --latest --bare --list -l --default --verbose -v --no-colors --silent",
        ),
    ),
    (
        WordList("just"),
        Options(
            "c* -lnqvu -d! --list --dry-run --summary --show: --evaluate --quiet --verbose --version --variables --unsorted --no-deps --yes --color: --list-heading: --groups --set:",
        ),
    ),
];
