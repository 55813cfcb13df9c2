//! Tools that build, test and format a project. They run the project's own code,
//! which is what they are for; what is run or written by an option is another
//! matter.

use super::Uses::{self, Options, Verbs, Writes};
use super::{Words, packages, tools};

/// Programs with the same uses.
pub(super) const GROUPS: &[(Words, Uses)] = &[
    (Words("make gmake bmake"), Writes(tools::make)),
    (Words("cmake"), Writes(tools::cmake)),
    (Words("ninja"), Options("-vn -jkl: -C! -f! --quiet --verbose --version --help")),
    (
        Words("meson"),
        Verbs(
            Words("setup compile test configure introspect"),
            "c1 -v -jD: -C! --buildtype: --prefix: --wipe --reconfigure --verbose --suite: --list \
             --print-errorlogs --no-rebuild --version --help --jobs: --targets --buildoptions",
        ),
    ),
    (
        Words("ctest"),
        Options(
            "c* -VNQ -RELCI: -j? --output-on-failure --verbose --extra-verbose --rerun-failed \
             --test-dir! --parallel? --tests-regex: --exclude-regex: --label-regex: --timeout: \
             --show-only? --stop-on-failure --repeat: --progress --version --help --preset:",
        ),
    ),
    (Words("pytest py.test"), Writes(tools::pytest)),
    (Words("tox nox"), Writes(tools::tox)),
    (
        Words("mypy pyright"),
        Options(
            "-v -pm: --strict --ignore-missing-imports --show-error-codes --pretty --no-incremental \
             --follow-imports: --python-version: --exclude: --package: --module: --namespace-packages \
             --explicit-package-bases --check-untyped-defs --disallow-untyped-defs --no-error-summary \
             --warn-unused-ignores --install-types --non-interactive --outputjson --stats --version \
             --verbose --pythonversion: --level: --no-color-output --show-column-numbers",
        ),
    ),
    (
        Words("ruff"),
        Verbs(
            Words("check format rule linter clean version"),
            "w1 -qvsn --fix --unsafe-fixes --no-fix --diff --check --select: --ignore: --extend-select: \
             --exclude: --statistics --watch --quiet --verbose --output-format: --no-cache \
             --show-fixes --preview --line-length: --target-version: --fix-only --exit-zero \
             --show-files --show-settings --add-noqa --version",
        ),
    ),
    (
        Words("black isort flake8 autopep8"),
        Options(
            "w* -qvliacSr -tjl: --check --diff --quiet --verbose --line-length: --target-version: \
             --skip-string-normalization --check-only --profile: --recursive --in-place --aggressive \
             --max-line-length: --ignore: --select: --extend-ignore: --exclude: --include: --count \
             --statistics --show-source --color --no-color --version --fast --safe --preview \
             --max-complexity: --per-file-ignores: --extend-exclude: --force-exclude:",
        ),
    ),
    (
        Words("pylint"),
        Options(
            "-Ejv -drfe: --disable: --enable: --errors-only --reports: --score: --output-format: \
             --jobs: --max-line-length: --ignore: --ignore-patterns: --recursive: --version",
        ),
    ),
    (Words("gofmt goimports"), Options("w* -r: +l +w +d +s +e +local:")),
    (
        Words("golangci-lint staticcheck"),
        Options(
            "c* -v -ED: -c! --fix --verbose --timeout: --enable: --disable: --fast --new --new-from-rev: \
             --max-issues-per-linter: --max-same-issues: --tests? --tags: --no-config --version \
             +checks: +f: +tags: +tests?",
        ),
    ),
    (
        Words("rustfmt"),
        Options(
            "w* -vq --check --edition: --verbose --quiet --color: --version --help --emit: --files-with-diff -l",
        ),
    ),
    (
        Words("javac"),
        Options(
            "c* -g +cp! +classpath! +sourcepath! +d> +source: +target: +release: +Xlint? +Werror +verbose +version +parameters +nowarn +encoding: +proc:",
        ),
    ),
    (Words("mvn mvnw"), Writes(tools::maven)),
    (Words("gradle gradlew"), Writes(tools::gradle)),
    (
        Words("tsc"),
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
        Words("eslint"),
        Options(
            "w* c* -hv -f! -o> --fix --fix-dry-run --ext: --max-warnings: --quiet --cache --cache-location> \
             --format! --output-file> --rule: --no-eslintrc --ignore-pattern: --ignore-path: \
             --report-unused-disable-directives --debug --color --no-color --env: --version --fix-type: \
             --no-error-on-unmatched-pattern --cache-strategy: --no-warn-ignored --no-ignore",
        ),
    ),
    (
        Words("prettier"),
        Options(
            "w* c* -wclu --write --check --list-different --ignore-unknown --no-config --loglevel: \
             --log-level: --single-quote --no-semi --tab-width: --print-width: --trailing-comma: \
             --parser: --cache --no-error-on-unmatched-pattern --ignore-path: --version --end-of-line: --stdin-filepath:",
        ),
    ),
    (
        Words("jest vitest"),
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
        Words("mocha"),
        Options(
            "c* -bRGcw -gfst: --bail --grep: --fgrep: --timeout: --slow: --reporter! --recursive --exit --watch \
             --parallel --jobs: --colors --color --no-color --spec! --retries: --invert --full-trace --forbid-only --version",
        ),
    ),
    (
        Words("vite webpack rollup next turbo"),
        Options(
            "c* -whdp -m: --watch? --mode: --port: --host? --open? --base: --minify? --sourcemap? --emptyOutDir \
             --logLevel: --clearScreen --strictPort --force --debug --env: --progress --stats? --json? \
             --outDir> --output-path> --filter: --parallel --concurrency: --continue --dry? --no-cache --turbo \
             --hostname: --no-lint --profile --version --help --silent --failAfterWarnings",
        ),
    ),
    (
        Words("esbuild"),
        Options(
            "--bundle --minify --sourcemap? --format: --platform: --target: --watch? --splitting --outfile> \
             --outdir> --log-level: --tree-shaking? --external: --version --metafile> --jsx: --packages:",
        ),
    ),
    (
        Words("biome stylelint"),
        Options(
            "w* c* -f! --fix --write --apply --unsafe --apply-unsafe --changed --staged --since: --max-diagnostics: \
             --diagnostic-level: --no-errors-on-unmatched --quiet --max-warnings: --ignore-path: --cache --formatter! \
             --error-on-warnings --reporter: --colors: --verbose --version --allow-empty-input",
        ),
    ),
    (
        Words("rspec"),
        Options(
            "c* -bpcw -fet: -P! --fail-fast? --format: --tag: --example: --pattern! --exclude-pattern: --seed: --order: --color \
             --no-color --backtrace --only-failures --next-failure --profile? --bisect? --dry-run --version --force-color --warnings",
        ),
    ),
    (
        Words("rubocop"),
        Options(
            "w* c* -aAPDlxE -f: --auto-correct --autocorrect --autocorrect-all --auto-correct-all --only: --except: --format: --parallel --no-parallel --display-cop-names --fail-level: --lint --version --force-exclusion --display-only-fail-level-offenses",
        ),
    ),
    (
        Words("rake"),
        Options(
            "-TPDntqvsm -j? --tasks? --trace? --dry-run --quiet --silent --verbose --version --prereqs --multitask --jobs: --all --describe? --where?",
        ),
    ),
    (
        Words("phpunit phpstan"),
        Options(
            "c* -vcl --filter: --group: --exclude-group: --testsuite: --stop-on-failure --stop-on-error --testdox \
             --colors? --verbose --debug --no-coverage --coverage-text? --list-tests --level: --memory-limit: --no-progress \
             --error-format: --version --order-by: --no-ansi --ansi --xdebug --display-warnings --display-deprecations",
        ),
    ),
    (
        Words("shellcheck"),
        Options(
            "-xaV -sefCSoiPW: --shell: --exclude: --format: --color? --severity: --external-sources --check-sourced --include: --enable: --version --norc --source-path: --wiki-link-count:",
        ),
    ),
    (Words("shfmt"), Options("w* -lwdspf -i: +ln: +ci +bn +sr +kp +fn +d +w +l +s +i:")),
    (
        Words("hadolint actionlint yamllint markdownlint"),
        Options(
            "w* -sfv -d: -c! --ignore: --strict --format: --failure-threshold: --fix --config! --no-color --verbose --oneline --no-warnings --version --disable: --no-fail --color",
        ),
    ),
    (
        Words("clang-format"),
        Options(
            "w* -i -n +i +n +style: --style: --dry-run --Werror --verbose --version --fallback-style: --sort-includes --lines: --files:",
        ),
    ),
    (
        Words("clang-tidy"),
        Options(
            "c* -p! --checks: --fix --fix-errors --quiet --header-filter: --warnings-as-errors: --list-checks --format-style: --use-color --version --export-fixes> +checks: +p! +fix +quiet +header-filter: +warnings-as-errors: +format-style: +list-checks",
        ),
    ),
    (
        Words("cppcheck"),
        Options(
            "-qvf -IDUij: --enable: --std: --language: --quiet --force --inline-suppr --suppress: --error-exitcode: --xml --template: --version --platform: --check-level: --verbose --project: --inconclusive --max-configs:",
        ),
    ),
    (
        Words("playwright cypress"),
        Verbs(
            Words("test run open install show-report list-files verify version info cache"),
            "c1 -gbshqux -j: --headed --grep: --grep-invert: --project! --workers: --reporter! --debug --ui --list \
             --retries: --timeout: --headless --browser! --spec! --update-snapshots --max-failures: \
             --repeat-each: --shard: --trace: --last-failed --only-changed? --pass-with-no-tests --component --e2e --port: --version --quiet --tag:",
        ),
    ),
    (
        Words("pre-commit"),
        Verbs(
            Words("run validate-config validate-manifest clean gc"),
            "-av --all-files --files --hook-stage: --show-diff-on-failure --verbose --color: --from-ref: --to-ref: --last-commit --version",
        ),
    ),
    (
        Words("autoconf automake autoreconf"),
        Options(
            "c* -fivsa -I! -W: --force --install --verbose --symlink --add-missing --copy --foreign --version --help --warnings:",
        ),
    ),
    (
        Words("virtualenv"),
        Options(
            "w* -qv -p! --python! --system-site-packages --clear --prompt: --no-download --upgrade-embed-wheels --quiet --verbose --version",
        ),
    ),
    (Words("cargo-nextest"), Verbs(Words("nextest"), tools::CARGO)),
    (Words("cargo"), Writes(tools::cargo)),
    (Words("rustc"), Writes(tools::rustc)),
    (Words("rustup"), Writes(tools::rustup)),
    (Words("go"), Writes(tools::go)),
    (Words("gcc g++ cc c++ clang clang++ cpp"), Writes(tools::compiler)),
    (Words("npm pnpm yarn bun"), Writes(packages::node_packages)),
    (Words("npx pnpx bunx"), Writes(packages::npx)),
    (Words("pip pip3"), Writes(packages::pip)),
    (Words("uv"), Writes(packages::uv)),
    (Words("poetry pipenv pdm hatch"), Writes(packages::poetry)),
    (Words("coverage"), Writes(packages::coverage)),
    (Words("bundle"), Writes(packages::bundle)),
    (
        Words("gem"),
        Verbs(
            Words("list info search env"),
            "-adlrq --local --remote --all --details --exact --versions --prerelease --quiet",
        ),
    ),
    (
        Words("composer"),
        Verbs(
            Words("install update show validate outdated dump-autoload check check-platform-reqs"),
            "-noavqtDi --no-dev --no-interaction --optimize-autoloader --no-progress --prefer-dist --dry-run --no-scripts --with-dependencies --with-all-dependencies --direct --latest --tree --ansi --no-ansi --strict --ignore-platform-reqs --ignore-platform-req: --quiet --verbose --optimize --classmap-authoritative",
        ),
    ),
    (
        Words("java"),
        Options("-V +version --version +showversion +help --help --list-modules +XshowSettings"),
    ),
    (
        Words("dotnet"),
        Verbs(
            Words("build test run restore new list clean format publish add"),
            "c1 -cfrvhn --configuration: --framework: --runtime: --verbosity: --no-restore --no-build --filter: --logger: --list-tests --project! --self-contained? --collect: --blame --nologo --version --info --list-sdks --list-runtimes --verify-no-changes --include: --exclude: --name: --outdated --vulnerable --include-transitive",
        ),
    ),
    (
        Words("swift"),
        Verbs(
            Words("build test package format"),
            "c1 -cvj --configuration: --filter: --parallel --verbose --quiet --target: --product: --version --enable-code-coverage --skip: --list-tests --show-bin-path --arch:",
        ),
    ),
    (
        Words("bazel bazelisk buck2"),
        Verbs(
            Words("build test query cquery info version run clean"),
            "-k -cj: --config: --compilation_mode: --test_output: --test_filter: --keep_going --verbose_failures --jobs: --nocache_test_results --cache_test_results? --test_arg: --output: --noshow_progress --runs_per_test: --test_tag_filters: --build_tag_filters: --copt: --define: --features: --platforms: --curses: --color: --expunge",
        ),
    ),
    (
        Words("zig"),
        Verbs(
            Words("build test fmt version"),
            "c1 w1 -D? --check --release? --summary: --verbose --help",
        ),
    ),
    (
        Words("mix"),
        Verbs(
            Words("test compile deps.get format deps credo"),
            "c1 --only: --exclude: --include: --trace --failed --stale --cover --seed: --max-failures: --warnings-as-errors --force --check-formatted --dry-run --strict --all --color --no-color --slowest:",
        ),
    ),
    (
        Words("cabal stack"),
        Verbs(
            Words("build test bench update check"),
            "c1 -vj? -f: --fast --pedantic --test --bench --no-run-tests --no-run-benchmarks --dependencies-only --only-dependencies --enable-tests --enable-benchmarks --test-show-details: --file-watch --coverage --flag: --fast --dry-run --ta: --test-arguments: --jobs?",
        ),
    ),
    (
        Words("nvm fnm asdf mise pyenv rbenv"),
        Verbs(
            Words("use ls list current which install version versions local"),
            "--lts? --install-if-missing --version --all --latest --bare --list -l --default --verbose -v --no-colors --silent",
        ),
    ),
    (
        Words("just"),
        Options(
            "c* -lnqvu -d! --list --dry-run --summary --show: --evaluate --quiet --verbose --version --variables --unsorted --no-deps --yes --color: --list-heading: --groups --set:",
        ),
    ),
];
