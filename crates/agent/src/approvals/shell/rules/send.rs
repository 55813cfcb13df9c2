//! What leaves the machine, and what reaches processes that are not the agent's own.

use super::HarmRule;
use crate::approvals::shell::expand::SOME;
use crate::approvals::shell::invocation::{Feed, ProgramRun};

pub(super) const RULES: &[HarmRule] = &[
    HarmRule {
        name: "send-out",
        reason: "sends something of yours to another machine",
        applies: |it| match it.program {
            "curl" => curl_sends(it),
            "wget" => wget_sends(it),
            "git" => git_sends(it),
            // What it finds on its input is the other machine's to read.
            "ssh" => !matches!(it.feed, Feed::Nothing),
            // A name that is looked up is read by whoever answers for it.
            "dig" | "host" | "nslookup" | "ping" => {
                it.arguments.iter().any(|argument| argument.printed)
            }
            _ => false,
        },
    },
    HarmRule {
        name: "kill-foreign",
        reason: "ends or stops processes that may not be the agent's own",
        applies: |it| match it.program {
            "pkill" | "killall" | "skill" => {
                !it.texts().any(|text| matches!(text, "-l" | "--list" | "-V" | "--version"))
            }
            "kill" => kills_foreign(it),
            _ => false,
        },
    },
];

/// Reports whether an address is of this machine.
fn is_local(address: &str) -> bool {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(six) => six.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let v4 = host.parse::<std::net::Ipv4Addr>();
    matches!(host, "localhost" | "::1" | "0.0.0.0")
        || host.ends_with(".localhost")
        || v4.is_ok_and(|address| address.is_loopback())
}

/// Headers that say nothing but what kind of answer is wanted, in small letters.
fn is_plain_header(header: &str) -> bool {
    const PLAIN: [&str; 9] = [
        "accept",
        "accept-language",
        "accept-encoding",
        "content-type",
        "user-agent",
        "range",
        "cache-control",
        "if-none-match",
        "if-modified-since",
    ];
    let (name, value) = header.split_once(':').unwrap_or((header, ""));
    PLAIN.contains(&name.trim().to_ascii_lowercase().as_str()) && value.len() <= 120
}

/// Returns the values of options: of the short ones by their letters, of the long ones by name.
fn values<'a>(it: &ProgramRun<'a>, letters: &str, longs: &[&str]) -> Vec<&'a str> {
    let mut found = Vec::new();
    let mut texts = it.texts().peekable();
    while let Some(text) = texts.next() {
        if let Some(long) = text.strip_prefix("--") {
            let (name, value) = long.split_once('=').map_or((long, None), |(n, v)| (n, Some(v)));
            // Short forms of long names are other uses, which are asked about anyway.
            if longs.contains(&name) {
                found.push(value.or_else(|| texts.next()).unwrap_or_default());
            }
        } else if let Some(short) = text.strip_prefix('-')
            && let Some(at) = short.find(|letter| letters.contains(letter))
        {
            let value = &short[at + 1..];
            // What stands before it may take the rest for its own value.
            let plain = short[..at].bytes().all(|b| b"sSfLkIivgGNO#46".contains(&b));
            if plain {
                found.push(if value.is_empty() { texts.next().unwrap_or_default() } else { value });
            }
        }
    }
    found
}

fn curl_sends(it: &ProgramRun<'_>) -> bool {
    const DATA: [&str; 16] = [
        "data",
        "data-raw",
        "data-ascii",
        "data-binary",
        "data-urlencode",
        "url-query",
        "form",
        "form-string",
        "json",
        "upload-file",
        "user",
        "cookie",
        "user-agent",
        "referer",
        "oauth2-bearer",
        "proxy-header",
    ];
    let is_read = |method: &str| matches!(method, "GET" | "HEAD" | "OPTIONS");
    let sends = !values(it, "dFTubAe", &DATA).is_empty()
        || values(it, "X", &["request"]).into_iter().any(|method| !is_read(method))
        || values(it, "H", &["header"]).into_iter().any(|header| !is_plain_header(header))
        // All that goes there goes by way of it.
        || !values(it, "x", &["proxy"]).into_iter().all(is_local);
    let valued = values(it, "XHdFAbueEmryzwxtYCoDcT", &[]);
    let mut addresses = it.words().into_iter().filter(|word| !valued.contains(word)).chain(values(
        it,
        "",
        &["url"],
    ));
    sends && !addresses.all(is_local)
}

fn wget_sends(it: &ProgramRun<'_>) -> bool {
    let is_read = |method: &str| matches!(method, "GET" | "HEAD" | "OPTIONS");
    let sent = [
        "post-data",
        "post-file",
        "body-data",
        "body-file",
        "user-agent",
        "referer",
        "user",
        "password",
    ];
    let sends = !values(it, "U", &sent).is_empty()
        || values(it, "", &["method"]).into_iter().any(|method| !is_read(method))
        || values(it, "", &["header"]).into_iter().any(|header| !is_plain_header(header));
    let mut addresses = it.words().into_iter().filter(|word| word.contains(['/', ':', '.']));
    sends && !addresses.all(is_local)
}

/// A push to an address, and what decides where a later one goes. One to a repository that the
/// user has named goes where the user wants it.
fn git_sends(it: &ProgramRun<'_>) -> bool {
    let words = it.words();
    let after = |verb: &str| {
        let at = words.iter().position(|word| *word == verb)?;
        words.get(at + 1..)
    };
    let pushes = |rest: &[&str]| rest.first().is_some_and(|to| to.contains([':', '/', '\\']));
    let names =
        |rest: &[&str]| matches!(rest.first(), Some(&("add" | "set-url"))) && rest.len() > 1;
    after("push").is_some_and(pushes) || after("remote").is_some_and(names)
}

fn kills_foreign(it: &ProgramRun<'_>) -> bool {
    let words: Vec<_> = it.arguments.iter().collect();
    let mut targets = &words[..];
    if let [first, rest @ ..] = targets {
        match first.text.as_str() {
            "-l" | "-L" | "--list" | "--table" | "-0" => return false,
            "-s" | "-n" | "--signal" => {
                if rest.first().is_some_and(|signal| signal.text == "0") {
                    return false;
                }
                targets = rest.get(1..).unwrap_or_default();
            }
            "--" => targets = rest,
            text if text.starts_with('-') && !rest.is_empty() => targets = rest,
            _ => {}
        }
    }
    // A job of this very shell, or what it has just started: `%1`, `$!`.
    let own =
        |text: &str| text.starts_with('%') || !text.is_empty() && text.chars().all(|c| c == SOME);
    targets.iter().any(|target| {
        target.text != "--" && (target.printed || target.parameters || !own(&target.text))
    })
}
