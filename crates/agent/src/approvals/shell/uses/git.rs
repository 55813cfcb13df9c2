//! Uses of git and of its forges.

use super::super::invocation::Invocation;
use super::Words;
use super::verb;

const VERBS: Words = Words(
    "status log diff show blame annotate branch add commit checkout switch restore stash \
     fetch pull push clone init merge rebase cherry-pick cherry revert tag rev-parse rev-list \
     ls-files ls-tree ls-remote cat-file describe shortlog reflog grep mv rm reset clean \
     worktree apply am format-patch archive help version merge-base name-rev symbolic-ref \
     for-each-ref show-ref show-branch diff-tree diff-index diff-files notes range-diff \
     whatchanged count-objects fsck gc check-ignore check-attr update-index hash-object \
     write-tree sparse-checkout bundle merge-file merge-tree remote var",
);

/// Settings that name no program.
const SETTINGS: Words = Words(
    "user. color. advice. init.defaultbranch core.quotepath core.autocrlf core.filemode \
     core.ignorecase core.longpaths core.abbrev commit.gpgsign tag.gpgsign pull.rebase \
     pull.ff push.default push.autosetupremote branch. fetch.prune safe.directory",
);

/// Options that name a program or a file to be written.
const OPTIONS: Words = Words(
    "--upload-pack --receive-pack --exec --open-files-in-pager --config --template --output \
     --extcmd --tool --ext-diff --config-env",
);

fn is_plain_setting(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    SETTINGS.iter().any(|setting| {
        if setting.ends_with('.') { key.starts_with(setting) } else { key == setting }
    })
}

/// Reports whether git is used to read or to do everyday work.
pub(super) fn is_ordinary(it: &Invocation<'_>) -> bool {
    let mut words = it.texts();
    let verb = loop {
        match words.next() {
            None => return true,
            Some("-C" | "--git-dir" | "--work-tree" | "--namespace") => {
                words.next();
            }
            Some("-c") => {
                let setting = words.next().unwrap_or_default();
                let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
                let no_pager = key == "core.pager" && matches!(value, "cat" | "");
                let no_editor = key == "core.editor" && matches!(value, "true" | ":");
                if !(is_plain_setting(key) || no_pager || no_editor) {
                    return false;
                }
            }
            Some(option)
                if option.starts_with("--exec-path=") || option.starts_with("--config") =>
            {
                return false;
            }
            Some(option) if option.starts_with('-') => {}
            Some(verb) => break verb,
        }
    };
    let rest: Vec<&str> = words.collect();
    let named = |word: &&str| {
        let option = word.split('=').next().unwrap_or_default();
        // An unambiguous beginning of an option stands for it.
        let names = |known: &str| option.len() > 4 && known.starts_with(option);
        OPTIONS.iter().any(names) || word.starts_with("ext::")
    };
    let options = || rest.iter().take_while(|word| **word != "--");
    if options().any(named) {
        return false;
    }
    let first = rest.iter().find(|word| !word.starts_with('-')).copied();
    match verb {
        "config" => configures(&rest),
        "rebase" => !options().any(|word| word.starts_with("-x")),
        "grep" => !options().any(|word| word.starts_with("-O")),
        "clone" => !options().any(|word| matches!(*word, "-c" | "-u")),
        "fetch" | "pull" | "ls-remote" | "push" => true,
        "submodule" => {
            matches!(first, None | Some("status" | "update" | "init" | "summary" | "sync" | "add"))
        }
        "bisect" => !matches!(first, Some("run" | "visualize" | "view")),
        "lfs" => {
            matches!(first, Some("ls-files" | "pull" | "fetch" | "status" | "track" | "version"))
        }
        verb => VERBS.has(verb),
    }
}

/// Reports whether `git config` reads, or sets what names no program.
pub(in crate::approvals::shell) fn configures(words: &[&str]) -> bool {
    let reads = words.iter().any(|word| {
        matches!(*word, "-l" | "get" | "list")
            || word.starts_with("--get")
            || word.starts_with("--list")
    });
    let mut operands = words.iter().filter(|word| !word.starts_with('-') && **word != "set");
    let key = operands.next();
    let value = operands.next();
    reads
        || value.is_none() && !words.iter().any(|word| *word == "-e" || *word == "--edit")
        || key.is_some_and(|key| is_plain_setting(key))
}

/// Reports whether GitHub's program reads or does everyday work.
pub(super) fn github(it: &Invocation<'_>) -> bool {
    let Some((noun, rest)) = verb(it) else { return true };
    let nouns =
        ["pr", "issue", "repo", "run", "release", "workflow", "search", "auth", "gist", "label"];
    let verbs = [
        "view", "list", "ls", "status", "diff", "checks", "create", "comment", "checkout", "clone",
        "watch", "download", "ready", "review", "prs", "issues", "repos", "code", "commits",
    ];
    let verb = rest.iter().find(|word| !word.starts_with('-'));
    matches!(noun, "status" | "version" | "help")
        || nouns.contains(&noun) && verb.is_some_and(|verb| verbs.contains(verb))
}
