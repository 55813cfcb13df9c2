//! Uses of git and of its forges.

use super::super::expand::{Argument, is_open};
use super::super::invocation::ProgramRun;
use super::WordList;
use super::grammar::{self, ParsedLine, PathTarget};
use super::verb;

/// Settings that name no program.
const SETTINGS: WordList = WordList(
    "user. color. advice. init.defaultbranch core.quotepath core.autocrlf core.filemode \
     core.ignorecase core.longpaths core.abbrev commit.gpgsign tag.gpgsign pull.rebase \
     pull.ff push.default push.autosetupremote branch. fetch.prune safe.directory",
);

/// Options before the verb.
const GLOBAL: &str = "stop -pP -C! -c: --no-pager --paginate --bare --no-replace-objects \
     --literal-pathspecs --glob-pathspecs --no-optional-locks --version --help --git-dir! \
     --work-tree! --namespace:";

/// Options of what compares.
const DIFF: &str = "-pusabwRzW0123456789 -GSlO: -UMCBD? --stat? --shortstat --numstat --dirstat? \
     --summary --name-only --name-status --patch --no-patch --raw --color? --no-color \
     --color-words? --color-moved? --word-diff? --word-diff-regex: --unified? --cached --staged \
     --merge-base --no-index --exit-code --quiet --check --full-index --binary --abbrev? \
     --find-renames? --find-copies? --no-renames --diff-filter: --pickaxe-regex --pickaxe-all \
     --ignore-all-space --ignore-space-change --ignore-space-at-eol --ignore-blank-lines \
     --ignore-cr-at-eol --text --relative? --no-ext-diff --no-textconv --histogram --minimal \
     --patience --diff-algorithm: --function-context --inter-hunk-context: --compact-summary \
     --src-prefix: --dst-prefix: --no-prefix --irreversible-delete --patch-with-stat --stat-width: \
     --name --submodule? --ignore-submodules? --cc --find-object:";

/// Options of what goes through commits.
const LOG: &str = "-gimctqEFP1 -nL: --oneline --graph --all --branches? --tags? --remotes? \
     --decorate? --no-decorate --decorate-refs: --format: --pretty? --abbrev-commit \
     --no-abbrev-commit --max-count: --skip: --since: --after: --until: --before: --author: \
     --committer: --grep: --all-match --invert-grep --regexp-ignore-case --merges --no-merges \
     --first-parent --reverse --follow --date: --relative-date --topo-order --date-order \
     --author-date-order --full-history --simplify-by-decoration --ancestry-path? --left-right \
     --cherry-pick --cherry-mark --cherry --boundary --walk-reflogs --source --show-signature \
     --no-walk? --not --children --parents --count --left-only --right-only --fixed-strings \
     --extended-regexp --perl-regexp --min-parents: --max-parents: --no-notes --notes? --full-diff \
     --objects --use-mailmap --no-mailmap --root --email --summary --numbered";

/// Verbs and their options; those of [`DIFF`] and [`LOG`] are added to some.
const VERBS: &[(&str, &str)] = &[
    (
        "status",
        "-sbvz -u? --short --branch --porcelain? --long --verbose --untracked-files? --ignored? --show-stash --ahead-behind --no-ahead-behind --no-renames --column? --ignore-submodules?",
    ),
    (
        "blame",
        "-bcflnsetwpC0123456789M -L: --root --line-porcelain --porcelain --incremental --show-name --show-number --show-email --date: --since: --ignore-rev: --abbrev:",
    ),
    (
        "branch",
        "-avrdDfmMclqt -u: --all --verbose --remotes --delete --force --move --copy --list --show-current --contains? --no-contains? --merged? --no-merged? --sort: --format: --color? --no-color --column? --points-at: --set-upstream-to: --unset-upstream --track? --no-track --quiet --abbrev? --no-abbrev --ignore-case",
    ),
    (
        "add",
        "-AunNfvpi --all --update --dry-run --intent-to-add --force --verbose --patch --interactive --refresh --ignore-errors --renormalize --chmod: --no-all --ignore-removal",
    ),
    (
        "commit",
        "-apqvsneoiz -mFCct: -Su? --all --message: --file: --amend --no-edit --edit --author: --date: --signoff --no-signoff --no-verify --allow-empty --allow-empty-message --fixup: --squash: --reuse-message: --reset-author --quiet --verbose --dry-run --short --branch --porcelain --patch --only --include --gpg-sign? --no-gpg-sign --trailer: --cleanup: --no-post-rewrite --no-status --untracked-files?",
    ),
    (
        "checkout",
        "-qfltmp -bB: --quiet --force --detach --track? --no-track --orphan: --ours --theirs --merge --patch --guess --no-guess --progress --no-progress --recurse-submodules --ignore-skip-worktree-bits",
    ),
    (
        "switch",
        "-qfdtm -Cc: --quiet --detach --create: --force-create: --track? --no-track --guess --no-guess --discard-changes --force --merge --orphan:",
    ),
    (
        "restore",
        "-qpSWm -s: --quiet --patch --staged --worktree --source: --ours --theirs --merge --ignore-unmerged --overlay --no-overlay",
    ),
    (
        "stash",
        "-pkuaqS -m: --patch --keep-index --no-keep-index --include-untracked --all --quiet --message: --index --staged --stat --name-only --name-status --oneline --no-color",
    ),
    (
        "fetch",
        "-apPtnvqfk46 -j: --all --append --prune --prune-tags --tags --no-tags --verbose --quiet --force --depth: --deepen: --unshallow --dry-run --jobs: --progress --multiple --recurse-submodules? --no-recurse-submodules --filter: --shallow-since: --update-shallow --set-upstream --atomic",
    ),
    (
        "pull",
        "-rvqnpatf46 --rebase? --no-rebase --ff --ff-only --no-ff --all --prune --tags --no-tags --verbose --quiet --autostash --no-autostash --depth: --unshallow --squash --no-edit --no-commit --commit --stat --no-stat --force --allow-unrelated-histories --recurse-submodules? --progress --signoff",
    ),
    (
        "push",
        "-fdunqv46 -o: --all --force --force-with-lease? --force-if-includes --delete --set-upstream --dry-run --quiet --verbose --tags --follow-tags --no-verify --porcelain --progress --atomic --mirror --prune --push-option: --no-follow-tags --branches",
    ),
    (
        "clone",
        "-lsnqv -obj: --depth: --branch: --single-branch --no-single-branch --no-tags --recursive --recurse-submodules? --shallow-submodules --jobs: --quiet --verbose --progress --no-checkout --bare --mirror --filter: --origin: --local --shared --no-hardlinks --sparse --shallow-since: --no-local",
    ),
    ("init", "-q -b: --quiet --bare --initial-branch: --object-format:"),
    (
        "merge",
        "-nqve -mFs: -S? --ff --no-ff --ff-only --squash --no-squash --no-edit --edit --commit --no-commit --abort --continue --quit --message: --stat --no-stat --quiet --verbose --log? --no-log --allow-unrelated-histories --autostash --no-verify --signoff --strategy: -X: --strategy-option: --gpg-sign? --no-gpg-sign --progress --rerere-autoupdate",
    ),
    (
        "rebase",
        "-iqvnfkp -sCX: -S? --interactive --onto: --continue --abort --skip --quit --edit-todo --show-current-patch --autostash --no-autostash --autosquash --no-autosquash --quiet --verbose --stat --no-stat --force-rebase --fork-point --no-fork-point --root --keep-empty --no-keep-empty --empty: --rebase-merges? --no-rebase-merges --signoff --committer-date-is-author-date --ignore-date --reset-author-date --update-refs --no-verify --keep-base --apply --merge --whitespace: --no-ff --gpg-sign? --strategy-option: --no-gpg-sign",
    ),
    (
        "cherry-pick",
        "-enxs -mX: -S? --edit --no-commit --continue --abort --skip --quit --mainline: --signoff --allow-empty --keep-redundant-commits --ff --strategy-option:",
    ),
    ("cherry", "-v --abbrev?"),
    (
        "revert",
        "-ens -mX: -S? --edit --no-edit --no-commit --continue --abort --skip --quit --mainline: --signoff",
    ),
    (
        "tag",
        "-asdlfv -mFu: -n? --annotate --sign --delete --list --force --message: --file: --sort: --format: --contains? --no-contains? --merged? --points-at: --column? --no-sign",
    ),
    (
        "rev-parse",
        "-q --show-toplevel --show-prefix --show-cdup --git-dir --git-common-dir --absolute-git-dir --is-inside-work-tree --is-bare-repository --is-inside-git-dir --is-shallow-repository --abbrev-ref? --short? --verify --quiet --symbolic --symbolic-full-name --all --branches? --tags? --remotes? --revs-only --no-revs --show-superproject-working-tree --git-path: --path-format:",
    ),
    (
        "ls-files",
        "-zcdmoiskutvf0 -xX: --cached --deleted --modified --others --ignored --stage --killed --unmerged --exclude: --exclude-from: --exclude-standard --error-unmatch --full-name --directory --no-empty-directory --abbrev? --debug --eol --recurse-submodules --format: --with-tree: --deduplicate",
    ),
    (
        "ls-tree",
        "-rtdlz --long --name-only --name-status --full-name --full-tree --abbrev? --format: --object-only",
    ),
    (
        "ls-remote",
        "-hqt --heads --tags --refs --quiet --exit-code --get-url --sort: --symref --branches",
    ),
    ("cat-file", "-tpse --batch? --batch-check? --batch-all-objects --unordered --buffer"),
    (
        "describe",
        "--all --tags --contains --abbrev? --candidates: --exact-match --long --match: --exclude: --always --dirty? --broken? --first-parent --debug",
    ),
    (
        "shortlog",
        "-nsecw --numbered --summary --email --group: --format: --no-merges --all --since: --until:",
    ),
    ("reflog", ""),
    (
        "grep",
        "-naivwhHFEGPlLczrqopW0123456789I -eABCmf: --line-number --ignore-case --invert-match --word-regexp --count --files-with-matches --files-without-match --name-only --fixed-strings --extended-regexp --perl-regexp --basic-regexp --cached --no-index --untracked --recurse-submodules --column --break --heading --show-function --function-context --context: --after-context: --before-context: --max-depth: --max-count: --color? --no-color --all-match --and --or --not --text --only-matching --quiet --null --threads: --full-name --exclude-standard --no-exclude-standard",
    ),
    ("mv", "-fknv --force --dry-run --verbose"),
    ("rm", "-frqn --cached --force --dry-run --quiet --ignore-unmatch --sparse"),
    (
        "reset",
        "-qNp --soft --mixed --hard --merge --keep --quiet --patch --intent-to-add --no-refresh --refresh",
    ),
    ("clean", "-dfnqxXi -e: --force --dry-run --quiet --exclude: --interactive"),
    (
        "worktree",
        "-fqv -bB: --force --detach --checkout --no-checkout --lock --reason: --porcelain --verbose --expire: --dry-run --guess-remote --orphan --track --no-track",
    ),
    (
        "apply",
        "-3Rvqz -pC: --stat --numstat --summary --check --index --cached --3way --reverse --reject --verbose --quiet --recount --whitespace: --ignore-space-change --ignore-whitespace --include: --exclude: --directory: --unidiff-zero --allow-empty",
    ),
    (
        "am",
        "-sk3qcu -pC: --signoff --keep --3way --continue --skip --abort --quit --quiet --whitespace: --directory: --reject --show-current-patch?",
    ),
    ("help", "-ag --all --guides"),
    ("version", "--build-options"),
    ("merge-base", "-a --all --is-ancestor --octopus --independent --fork-point"),
    ("name-rev", "--tags --refs: --name-only --always --all --stdin --annotate-stdin"),
    ("symbolic-ref", "-qd --short --quiet --delete"),
    (
        "for-each-ref",
        "--count: --sort: --format: --color? --points-at: --merged? --no-merged? --contains? --no-contains? --ignore-case --shell --perl --python --tcl --exclude:",
    ),
    (
        "show-ref",
        "-dqs --head --heads --tags --verify --hash? --abbrev? --dereference --quiet --exists --branches",
    ),
    (
        "show-branch",
        "-ar --all --remotes --current --topo-order --date-order --sparse --merge-base --independent --list --topics",
    ),
    ("diff-tree", "-rtmsvcz --root --no-commit-id --stdin --always --pretty?"),
    ("diff-index", "-m --cached --quiet"),
    ("diff-files", "-qc0123 --quiet"),
    ("notes", "-f -mFCc: --ref: --force --message: --file:"),
    ("range-diff", "--creation-factor: --no-dual-color --left-only --right-only"),
    ("count-objects", "-vH --verbose --human-readable"),
    (
        "fsck",
        "--full --strict --unreachable --dangling --no-dangling --root --tags --verbose --lost-found --progress --no-progress --connectivity-only",
    ),
    ("gc", "-q --aggressive --auto --quiet --force --no-prune"),
    ("check-ignore", "-qvzn --quiet --verbose --stdin --non-matching --no-index"),
    ("check-attr", "-az --all --cached --stdin --source:"),
    (
        "update-index",
        "-q --add --remove --refresh --really-refresh --chmod: --assume-unchanged --no-assume-unchanged --skip-worktree --no-skip-worktree --force-remove --again",
    ),
    ("hash-object", "-wt --stdin --stdin-paths --path: --no-filters"),
    ("write-tree", "--missing-ok --prefix:"),
    ("sparse-checkout", "--cone --no-cone --stdin --skip-checks"),
    (
        "merge-tree",
        "-z --write-tree --name-only --messages --no-messages --allow-unrelated-histories --merge-base:",
    ),
    ("var", "-l"),
    ("remote", "-vf -tm: --verbose --tags --no-tags --push --all --add --delete --dry-run"),
    (
        "config",
        "-lzet -f: --list --get --get-all --get-regexp --get-urlmatch --global --local --system --worktree --show-origin --show-scope --name-only --null --type: --bool --int --path --default: --unset --unset-all --add --replace-all --edit --includes --no-includes --all --value: --fixed-value --remove-section --rename-section --file: --blob: --no-type",
    ),
    (
        "submodule",
        "-q -bn: --init --recursive --quiet --remote --depth: --branch: --name: --force --no-fetch --checkout --merge --rebase --jobs: --progress --cached --files --recommend-shallow --single-branch",
    ),
    ("bisect", "--no-checkout --first-parent --term-new: --term-old:"),
    ("lfs", "-als --all --long --size --recent --exclude: --include: --name-only"),
    (
        "format-patch",
        "-qnNks0123456789 -v: -o> --output-directory> --stdout --numbered --no-numbered --cover-letter --signoff --start-number: --subject-prefix: --thread? --attach? --no-stat --zero-commit --base: --quiet --root",
    ),
    (
        "archive",
        "-lv0123456789 -o> --output> --format: --prefix: --list --verbose --worktree-attributes --add-file:",
    ),
    ("bundle", "-q --all --quiet --progress --branches? --tags?"),
];

fn is_plain_setting(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    SETTINGS.iter().any(|setting| {
        if setting.ends_with('.') { key.starts_with(setting) } else { key == setting }
    })
}

/// Returns the specification of a verb's options.
fn options(verb: &str) -> Option<String> {
    let with_log = |own: &str| format!("{own} {LOG} {DIFF}");
    Some(match verb {
        "log" | "show" | "whatchanged" | "rev-list" | "reflog" | "shortlog" => {
            with_log(named(verb).unwrap_or(""))
        }
        "diff" => DIFF.to_owned(),
        "annotate" => named("blame")?.to_owned(),
        "diff-tree" | "diff-index" | "diff-files" | "range-diff" | "stash" | "notes" => {
            format!("{} {DIFF}", named(verb)?)
        }
        "format-patch" => format!("{} {LOG}", named(verb)?),
        verb => named(verb)?.to_owned(),
    })
}

fn named(verb: &str) -> Option<&'static str> {
    VERBS.iter().find(|(own, _)| *own == verb).map(|(_, options)| *options)
}

/// Takes git's words apart: its verb, and the line of that. Nothing if something
/// is not understood; a line without a verb has none.
fn take_apart(arguments: &[Argument]) -> Option<(ParsedLine<'_>, Option<(&str, ParsedLine<'_>)>)> {
    let global = grammar::read(arguments, GLOBAL)?;
    let Some(verb) = global.operands.first() else {
        return Some((global, None));
    };
    let verb = verb.text.as_str();
    let line = grammar::read(global.rest, &options(verb)?)?;
    Some((global, Some((verb, line))))
}

/// Returns what git writes by name where it reads or does everyday work; nothing
/// if it does anything else.
pub(super) fn is_ordinary<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    let (global, verb) = take_apart(it.arguments)?;
    let sets = |setting: PathTarget<'_>| {
        let (key, value) = setting.text.split_once('=').unwrap_or((setting.text, ""));
        let no_pager = key == "core.pager" && matches!(value, "cat" | "");
        let no_editor = key == "core.editor" && matches!(value, "true" | ":");
        is_plain_setting(key) || no_pager || no_editor
    };
    if !global.values(&["c"]).all(sets) {
        return None;
    }
    // Another repository has hooks and settings of its own.
    let mut written = global.written.clone();
    let Some((verb, line)) = verb else { return Some(written) };
    written.extend(&line.written);
    let words = line.words();
    let first = words.first().copied();
    // An address can name a program: `ext::sh -c …`.
    let addressed = matches!(
        verb,
        "clone" | "fetch" | "pull" | "push" | "ls-remote" | "remote" | "submodule" | "archive"
    );
    if addressed && words.iter().any(|word| word.contains("::")) {
        return None;
    }
    let ordinary = match verb {
        "config" => {
            configures(&global.rest.iter().map(|word| word.text.as_str()).collect::<Vec<_>>())
        }
        "submodule" => {
            matches!(first, None | Some("status" | "update" | "init" | "summary" | "sync" | "add"))
        }
        "bisect" => !matches!(first, Some("run" | "visualize" | "view")),
        "lfs" => {
            matches!(first, Some("ls-files" | "pull" | "fetch" | "status" | "track" | "version"))
        }
        "bundle" => {
            written.extend(
                line.operands
                    .get(1)
                    .filter(|_| first == Some("create"))
                    .map(|o| PathTarget::whole(o)),
            );
            true
        }
        "symbolic-ref" => words.len() < 2,
        "clone" => {
            let at = line.operands.get(1).or(line.operands.first());
            written.extend(at.map(|at| {
                let text = at.text.trim_end_matches('/').trim_end_matches(".git");
                let name = if line.operands.len() > 1 {
                    text
                } else {
                    text.rsplit(['/', ':']).next().unwrap_or(text)
                };
                PathTarget { text: name, ..PathTarget::whole(at) }
            }));
            true
        }
        "worktree" if first == Some("add") => {
            // A directory beside this one is where most people put them.
            let beside = |word: &&Argument| {
                word.text
                    .strip_prefix("../")
                    .is_some_and(|name| !name.starts_with('.') && !name.contains('/'))
            };
            let at = line.operands.get(1).copied();
            written.extend(at.filter(|word| !beside(word)).map(PathTarget::whole));
            true
        }
        "init" => {
            written.extend(line.operands.first().map(|dir| PathTarget::whole(dir)));
            true
        }
        _ => true,
    };
    ordinary.then_some(written)
}

/// Reports whether git may change files or links of its tree.
pub(super) fn changes_files(it: &ProgramRun<'_>) -> bool {
    let verb = verb(it);
    let Some((verb, rest)) = verb else { return false };
    match verb {
        // A new branch has the files that are there.
        "checkout" => !matches!(rest.as_slice(), ["-b", _]),
        "switch" => !matches!(rest.as_slice(), ["-c", _]),
        "pull" | "merge" | "rebase" | "cherry-pick" | "revert" | "stash" | "restore" | "reset"
        | "clone" | "apply" | "am" | "worktree" | "submodule" | "mv" | "sparse-checkout"
        | "clean" | "bisect" => true,
        _ => false,
    }
}

/// Reports whether `git config` reads, or sets what names no program. The words
/// are those after `config`.
pub(in crate::approvals::shell) fn configures(words: &[&str]) -> bool {
    const READS: [&str; 6] =
        ["-l", "--list", "--get", "--get-all", "--get-regexp", "--get-urlmatch"];
    const VALUED: [&str; 6] = ["-f", "--file", "--blob", "--type", "--default", "--value"];
    let mut options = Vec::new();
    let mut operands = Vec::new();
    let mut rest = words.iter().copied();
    while let Some(word) = rest.next() {
        if word.starts_with('-') {
            options.push(word);
            if VALUED.contains(&word) {
                rest.next();
            }
        } else {
            operands.push(word);
        }
    }
    if options.iter().any(|option| READS.contains(option)) {
        return true;
    }
    if options
        .iter()
        .any(|option| matches!(*option, "-e" | "--edit" | "--rename-section" | "-f" | "--file"))
        || operands.iter().any(|word| is_open(word))
    {
        return false;
    }
    match operands.as_slice() {
        [] | ["list" | "get", ..] => {
            !operands.is_empty() && operands.len() <= 3 || operands.is_empty()
        }
        // The old way to write `get`.
        [key] => {
            !options.iter().any(|option| option.starts_with("--unset")) || is_plain_setting(key)
        }
        ["set" | "unset", key, ..] | [key, ..] => is_plain_setting(key),
    }
}

/// Reports whether GitHub's program reads or does everyday work.
pub(super) fn github<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    let Some((noun, rest)) = verb(it) else { return Some(Vec::new()) };
    let nouns =
        ["pr", "issue", "repo", "run", "release", "workflow", "search", "auth", "gist", "label"];
    let verbs = [
        "view", "list", "ls", "status", "diff", "checks", "create", "comment", "checkout", "clone",
        "watch", "download", "ready", "review", "prs", "issues", "repos", "code", "commits",
    ];
    let verb = rest.iter().find(|word| !word.starts_with('-'));
    // `--` hands options to git, and these name a place to write to.
    let elsewhere = |word: &&str| {
        matches!(*word, "--" | "-D" | "--dir" | "-O" | "--output")
            || word.starts_with("--dir=")
            || word.starts_with("--output=")
            || word.len() > 2 && (word.starts_with("-D") || word.starts_with("-O"))
    };
    let ordinary = matches!(noun, "status" | "version" | "help")
        || nouns.contains(&noun)
            && verb.is_some_and(|verb| verbs.contains(verb))
            && !rest.iter().any(elsewhere);
    let mut written = Vec::new();
    if verb == Some(&"clone") {
        // Behind the repository stands where it goes, if not here.
        let dir = it.operands().skip_while(|word| word.text != "clone").nth(2);
        written.push(dir.map_or_else(PathTarget::here, PathTarget::whole));
    }
    ordinary.then_some(written)
}
