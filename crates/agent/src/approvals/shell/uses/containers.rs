//! Uses of container engines, clusters, clouds and databases.

use super::super::expand::UNKNOWN;
use super::super::invocation::{Feed, Invocation};
use super::Words;
use super::verb;

/// Options of `docker run` that give a container nothing of this machine. Those
/// of the second list take a value.
const PLAIN: Words = Words("--rm -i -t -it -ti -d --detach --interactive --tty --init --read-only");
const PLAIN_VALUED: Words = Words(
    "--name -p --publish -e --env -w --workdir --hostname -h --label -l --memory -m --cpus \
     --platform --entrypoint -u --user --pull --shm-size --restart --stop-timeout --tmpfs \
     --log-driver",
);

/// Reports whether a container engine shows something, builds, or starts a
/// container that can change nothing here.
pub(super) fn engine(it: &Invocation<'_>) -> bool {
    let Some((verb, rest)) = verb(it) else { return true };
    if it
        .texts()
        .take_while(|text| *text != verb)
        .any(|text| matches!(text, "-H" | "--host" | "-c" | "--url"))
    {
        return false;
    }
    let second = rest.iter().find(|word| !word.starts_with('-')).copied().unwrap_or_default();
    match verb {
        "ps" | "images" | "logs" | "inspect" | "version" | "info" | "pull" | "stats" | "top"
        | "port" | "diff" | "history" | "events" | "search" | "tag" | "wait" | "help" => true,
        "build" => !rest
            .iter()
            .any(|word| word.starts_with("--allow") || word.starts_with("--security-opt")),
        "run" | "create" => gives_nothing(&rest),
        "compose" => {
            matches!(
                second,
                "ps" | "logs" | "config" | "images" | "top" | "build" | "pull" | "version" | "ls"
            )
        }
        "image" | "container" | "volume" | "network" | "system" | "context" | "buildx" => {
            matches!(
                second,
                "ls" | "list"
                    | "inspect"
                    | "df"
                    | "info"
                    | "show"
                    | "logs"
                    | "top"
                    | "build"
                    | "history"
            )
        }
        _ => false,
    }
}

fn gives_nothing(words: &[&str]) -> bool {
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            // The image; what follows runs in the container.
            return !word.contains(UNKNOWN);
        }
        let (option, joined) = word.split_once('=').map_or((word, None), |(o, v)| (o, Some(v)));
        if PLAIN_VALUED.has(option) {
            if joined.is_none() {
                words.next();
            }
        } else if matches!(option, "-v" | "--volume") {
            // A volume has a name; a directory of this machine has a path.
            let volume = joined.or_else(|| words.next()).unwrap_or_default();
            if !volume.starts_with(|c: char| c.is_ascii_alphanumeric()) {
                return false;
            }
        } else if matches!(option, "--network" | "--net") {
            if joined.or_else(|| words.next()) == Some("host") {
                return false;
            }
        } else if !PLAIN.has(option) {
            return false;
        }
    }
    true
}

/// Reports whether a cluster is only looked at.
pub(super) fn kubectl(it: &Invocation<'_>) -> bool {
    let Some((verb, rest)) = verb(it) else { return true };
    match verb {
        "get" | "describe" | "logs" | "top" | "version" | "explain" | "api-resources"
        | "api-versions" | "cluster-info" | "diff" => true,
        "config" => rest.first().is_some_and(|word| {
            word.starts_with("get-") || matches!(*word, "view" | "current-context")
        }),
        "auth" => rest.first() == Some(&"can-i"),
        "rollout" => rest.first().is_some_and(|word| matches!(*word, "status" | "history")),
        _ => false,
    }
}

/// Reports whether a cloud is only looked at.
pub(super) fn cloud(it: &Invocation<'_>) -> bool {
    let looks = |word: &&str| {
        matches!(*word, "ls" | "list" | "show" | "describe" | "get-caller-identity" | "help")
            || ["describe-", "list-", "get-"].iter().any(|verb| word.starts_with(verb))
    };
    // The verb is the last of the first few words: `aws ec2 describe-instances`.
    it.words().iter().take(4).any(looks) || it.operands().next().is_none()
}

/// Reports whether a database is asked, or changed by statements that say what
/// they change. A client's own commands can run programs.
pub(super) fn database(it: &Invocation<'_>) -> bool {
    const STATEMENTS: Words = Words(
        "SELECT SHOW EXPLAIN DESCRIBE DESC PRAGMA INSERT UPDATE DELETE CREATE WITH VALUES \
         ANALYZE BEGIN COMMIT ROLLBACK USE ALTER",
    );
    let known = |text: &str| {
        let own = text.trim();
        let looks = own.starts_with("\\d")
            || own.starts_with("\\l")
            || [".tables", ".schema", ".headers on", ".databases", ".indexes"]
                .iter()
                .any(|own_verb| own.starts_with(own_verb));
        let looks = looks && !own.contains(['\n', '!', '|']);
        let upper = text.to_ascii_uppercase();
        let mut statements =
            upper.split(';').map(str::trim).filter(|statement| !statement.is_empty());
        let plain = !upper.contains("LOAD_EXTENSION")
            && !upper.contains(" PROGRAM ")
            && !upper.contains("OUTFILE")
            && !text.contains(UNKNOWN)
            && !text.lines().any(|line| line.trim_start().starts_with(['\\', '.']));
        looks
            || plain
                && statements.all(|statement| {
                    statement
                        .split_ascii_whitespace()
                        .next()
                        .is_some_and(|word| STATEMENTS.has(word))
                })
    };
    let words: Vec<&str> = it.texts().collect();
    let given: Vec<&str> = if it.program.starts_with("sqlite") || it.program == "duckdb" {
        it.operands().skip(1).map(|operand| operand.text.as_str()).collect()
    } else {
        let option = |word: &str| matches!(word, "-c" | "--command" | "-e" | "--execute");
        words.windows(2).filter(|pair| option(pair[0])).map(|pair| pair[1]).collect()
    };
    let from_file = it.texts().any(|text| matches!(text, "-f" | "--file" | "-cmd" | "-init"));
    let asked = |text: &str| matches!(text, "--version" | "-V" | "--help" | "-l" | "--list");
    match (given.as_slice(), it.feed) {
        _ if from_file => false,
        ([], Feed::Text(text)) => known(text),
        ([], _) => it.texts().any(asked),
        (given, Feed::Nothing) => given.iter().all(|text| known(text)),
        _ => false,
    }
}
