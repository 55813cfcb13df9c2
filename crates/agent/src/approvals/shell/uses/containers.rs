//! Uses of container engines, clusters, clouds and databases.

use super::super::expand::Argument;
use super::super::expand::is_open;
use super::super::invocation::{Feed, ProgramRun};
use super::WordList;
use super::grammar::{self, PathTarget};

/// Options of `docker run` that give a container nothing of this machine. Those
/// of the second list take a value.
const PLAIN: WordList =
    WordList("--rm -i -t -it -ti -d --detach --interactive --tty --init --read-only");
const PLAIN_VALUED: WordList = WordList(
    "--name -p --publish -e --env -w --workdir --hostname -h --label -l --memory -m --cpus \
     --platform --entrypoint -u --user --pull --shm-size --restart --stop-timeout --tmpfs \
     --log-driver",
);

/// Reports whether a container engine shows something, builds, or starts a
/// container that can change nothing here.
pub(super) fn engine(it: &ProgramRun<'_>) -> bool {
    let Some((verb, after)) = it.arguments.split_first() else { return true };
    // An option before the verb may name another engine, or settings of programs.
    let verb = verb.text.as_str();
    let rest: Vec<&str> = after.iter().map(|word| word.text.as_str()).collect();
    if after.iter().any(|word| word.splits) {
        return false;
    }
    let second = rest.iter().find(|word| !word.starts_with('-')).copied().unwrap_or_default();
    match verb {
        "ps" | "images" | "logs" | "inspect" | "version" | "info" | "pull" | "stats" | "top"
        | "port" | "diff" | "history" | "events" | "search" | "tag" | "wait" | "help" => true,
        "build" => builds(after),
        "buildx" if second == "build" => builds(&after[1..]),
        "--version" | "--help" => rest.is_empty(),
        "run" | "create" => shares_nothing(&rest),
        "compose" => {
            matches!(
                second,
                "ps" | "logs" | "config" | "images" | "top" | "build" | "pull" | "version" | "ls"
            ) && !rest.iter().any(|word| word.starts_with("-o") || word.starts_with("--output"))
        }
        "image" | "container" | "volume" | "network" | "system" | "context" | "buildx" => {
            matches!(
                second,
                "ls" | "list" | "inspect" | "df" | "info" | "show" | "logs" | "top" | "history"
            )
        }
        _ => false,
    }
}

/// Reports whether an image is built, and nothing written elsewhere.
fn builds(words: &[Argument]) -> bool {
    let options = "-q -tf: --tag: --file: --build-arg: --target: --no-cache --pull --progress: \
         --platform: --label: --quiet --load --rm --force-rm --cache-from:";
    grammar::read(words, options).is_some()
}

fn shares_nothing(words: &[&str]) -> bool {
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            // The image; what follows runs in the container.
            return !is_open(word);
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
pub(super) fn kubectl(it: &ProgramRun<'_>) -> bool {
    let options = "-Awpf -nolLcR: --namespace: --output: --selector: --all-namespaces --watch \
         --container: --tail: --since: --follow --previous --timestamps --context: --show-labels \
         --no-headers --sort-by: --field-selector: --all-containers --prefix --ignore-not-found \
         --containers --cluster: --limit-bytes: --max-log-requests: --short --client \
         --request-timeout: --minify --recursive --list";
    let Some(line) = grammar::read(it.arguments, options) else { return false };
    let words = line.words();
    let second = words.get(1).copied().unwrap_or_default();
    match words.first().copied() {
        None
        | Some(
            "get" | "describe" | "logs" | "top" | "version" | "explain" | "api-resources"
            | "api-versions" | "cluster-info",
        ) => second != "dump",
        Some("config") => {
            second.starts_with("get-") || matches!(second, "view" | "current-context")
        }
        Some("auth") => second == "can-i",
        Some("rollout") => matches!(second, "status" | "history"),
        Some(_) => false,
    }
}

/// Reports whether a cloud is only looked at.
pub(super) fn cloud(it: &ProgramRun<'_>) -> bool {
    const CHANGES: WordList = WordList(
        "create delete update set add remove start stop restart reset run ssh deploy purge attach \
         detach invoke import export copy move enable disable apply execute",
    );
    if matches!(it.arguments, [only] if matches!(only.text.as_str(), "--version" | "help" | "--help"))
    {
        return true;
    }
    // The verb stands before all options: `aws ec2 describe-instances --region x`.
    let words: Vec<&str> = it.texts().take_while(|text| !text.starts_with('-')).collect();
    let sent = |text: &str| text.starts_with("--endpoint") || text.starts_with("--cli-input");
    if words.iter().any(|word| is_open(word)) || it.texts().any(sent) {
        return false;
    }
    let looks = |word: &str| {
        matches!(word, "ls" | "list" | "show" | "describe" | "get-caller-identity" | "help")
            || ["describe-", "list-", "get-"].iter().any(|verb| word.starts_with(verb))
    };
    // These put what they get into a file.
    let saves = |word: &str| {
        [
            "get-object",
            "get-job-output",
            "get-media",
            "get-clip",
            "get-export",
            "get-sdk",
            "get-snapshot-block",
        ]
        .iter()
        .any(|verb| word.starts_with(verb))
    };
    if it.program == "aws" {
        return words.get(1).is_some_and(|verb| looks(verb) && !saves(verb));
    }
    let at = words.iter().position(|word| looks(word));
    at.is_some_and(|at| at + 2 >= words.len() && !words[..at].iter().any(|word| CHANGES.has(word)))
}

/// Returns the database that is asked, or changed by statements that say what
/// they change. A client's own commands can run programs.
pub(super) fn database<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    const PSQL: &str = "-AtxqwWlVXe1EsSa -hpUdcvFRPT: --csv --tuples-only --no-align --expanded \
         --host: --port: --username: --dbname: --command: --set: --variable: --quiet \
         --no-password --echo-all --single-transaction --list --version --help --no-psqlrc";
    const MYSQL: &str = "-NBtsvrEHV -hPuDeS: -p? --execute: --host: --port: --user: --password? \
         --database: --batch --silent --table --raw --skip-column-names --vertical --version --help";
    const SQLITE: &str = "+header +noheader +csv +json +column +box +line +list +readonly +batch \
         +separator: +table +markdown +version +bail +html +ascii +help";
    let file = it.program.starts_with("sqlite") || it.program == "duckdb";
    let options = match it.program {
        "mysql" | "mariadb" | "mycli" => MYSQL,
        _ if file => SQLITE,
        _ => PSQL,
    };
    let line = grammar::read(it.arguments, options)?;
    let given: Vec<&str> = if file {
        line.words().into_iter().skip(1).collect()
    } else {
        line.values(&["c", "command", "e", "execute"]).map(|text| text.text).collect()
    };
    let asked = line.has(&["version", "V", "help", "l", "list"]);
    let harmless = match (given.as_slice(), it.feed) {
        ([], Feed::Text(text)) if !asked => only_asks(text),
        ([], _) => asked,
        (given, Feed::Nothing) => given.iter().all(|text| only_asks(text)),
        _ => false,
    };
    let database = line.operands.first().filter(|name| file && name.text != ":memory:");
    harmless.then(|| database.map(|name| PathTarget::whole(name)).into_iter().collect())
}

/// Reports whether statements read, or change what they name.
fn only_asks(text: &str) -> bool {
    const STATEMENTS: WordList = WordList(
        "SELECT SHOW EXPLAIN DESCRIBE DESC PRAGMA INSERT UPDATE DELETE CREATE WITH VALUES \
         ANALYZE BEGIN COMMIT ROLLBACK USE ALTER",
    );
    // What reaches beyond the database.
    const BEYOND: [&str; 17] = [
        "LOAD_EXTENSION",
        "PROGRAM",
        "OUTFILE",
        "DUMPFILE",
        "WRITEFILE",
        "EDIT(",
        "EDIT (",
        "FTS3_TOKENIZER",
        "LO_EXPORT",
        "LANGUAGE",
        "EXTENSION",
        "COPY",
        "PG_FILE",
        "SYS_EXEC",
        "SYS_EVAL",
        "XP_CMDSHELL",
        "DBLINK",
    ];
    let own = text.trim();
    if own.starts_with(['\\', '.']) {
        return only_shows(own);
    }
    let upper = text.to_ascii_uppercase();
    let mut statements = upper.split(';').map(str::trim).filter(|statement| !statement.is_empty());
    !BEYOND.iter().any(|word| upper.contains(word))
        && !is_open(text)
        && !text.contains('\\')
        && !text.lines().any(|line| line.trim_start().starts_with('.'))
        && statements.all(|statement| {
            statement.split_ascii_whitespace().next().is_some_and(|word| STATEMENTS.has(word))
        })
}

/// Reports whether a client's own command shows something, and does nothing more:
/// others run programs and write files, and so do some arguments.
fn only_shows(command: &str) -> bool {
    const SHOWS: WordList = WordList(
        "\\d \\d+ \\da \\db \\dc \\dd \\df \\df+ \\dg \\di \\di+ \\dl \\dm \\dn \\dn+ \\do \\dp \\ds \\dt \\dt+ \
         \\dT \\du \\du+ \\dv \\dv+ \\dx \\l \\l+ .tables .schema .headers .databases .indexes",
    );
    let plain = |word: &str| {
        word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.*+".contains(&byte))
    };
    let mut words = command.split([' ', '\t']).filter(|word| !word.is_empty());
    words.next().is_some_and(|verb| SHOWS.has(verb)) && words.all(plain)
}
