//! Programs whose arguments are a command to be run.

use super::expand::Argument;
use super::word::is_name;

/// What stood before the command that is meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Prefix {
    /// How many words.
    pub(super) length: usize,
    /// How it becomes another user, if it does.
    pub(super) sudo: Option<Sudo>,
    /// Whether more arguments are read from standard input.
    pub(super) xargs: bool,
    /// What stands for those arguments, if it is named.
    pub(super) replaced: Option<String>,
    /// Variables that are set for the command: `NAME=value`.
    pub(super) assignments: Vec<String>,
    /// Shell text that it has run, in place of words.
    pub(super) payload: Option<String>,
    /// Whether nothing is run, as by `command -v`.
    pub(super) inert: bool,
    /// Whether it has an option that is not understood.
    pub(super) strange: bool,
}

/// How a command becomes another user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sudo {
    /// The password is read from standard input: `-S`.
    pub(super) reads_password: bool,
    /// A program asks for the password: `-A`.
    pub(super) asks_program: bool,
    /// It is a shell that is started: `-s`, `-i`.
    pub(super) shell: bool,
}

/// A program that runs another: its name, its short options that take a value,
/// and how many words stand between its options and the command.
const RUNNERS: [(&str, &str, usize); 41] = [
    ("sudo", "ugpChDRTUrt", 0),
    ("doas", "uCa", 0),
    ("pkexec", "", 0),
    ("env", "uCS", 0),
    ("nice", "n", 0),
    ("ionice", "cn", 0),
    ("nohup", "", 0),
    ("setsid", "", 0),
    ("time", "fo", 0),
    ("timeout", "ks", 1),
    ("stdbuf", "ioe", 0),
    ("chrt", "TPD", 1),
    ("taskset", "", 1),
    ("command", "", 0),
    ("exec", "a", 0),
    ("builtin", "", 0),
    ("xargs", "adEILnPs", 0),
    ("parallel", "jaINn", 0),
    ("busybox", "", 0),
    ("toybox", "", 0),
    ("chroot", "", 1),
    ("strace", "eopsPuEaXI", 0),
    ("ltrace", "eopsu", 0),
    ("flock", "wE", 1),
    ("unshare", "", 0),
    ("nsenter", "tSG", 0),
    ("systemd-run", "pEuHM", 0),
    ("unbuffer", "", 0),
    ("faketime", "", 1),
    ("numactl", "", 0),
    ("cgexec", "g", 0),
    ("fakeroot", "", 0),
    ("firejail", "", 0),
    ("eatmydata", "", 0),
    ("torsocks", "", 0),
    ("proxychains", "f", 0),
    ("catchsegv", "", 0),
    ("caffeinate", "tw", 0),
    ("linux32", "", 0),
    ("linux64", "", 0),
    ("rlwrap", "", 0),
];

/// Short and long options of them that change nothing but how the command runs.
const PLAIN: [(&str, &str, &[&str]); 14] = [
    ("env", "iu0vS", &["ignore-environment", "unset", "null", "debug", "split-string"]),
    ("nice", "n0123456789", &["adjustment"]),
    ("ionice", "cnt", &["class", "classdata", "ignore"]),
    ("nohup", "", &[]),
    ("setsid", "fwc", &["fork", "wait", "ctty"]),
    ("time", "pvf", &["portability", "verbose", "format"]),
    ("timeout", "ksvfp", &["kill-after", "signal", "verbose", "foreground", "preserve-status"]),
    ("stdbuf", "ioe", &["input", "output", "error"]),
    ("taskset", "cpa", &["cpu-list", "pid", "all-tasks"]),
    ("command", "pvV", &[]),
    ("exec", "cla", &[]),
    ("builtin", "", &[]),
    (
        "xargs",
        "0rtxadEILnPsil",
        &[
            "null",
            "no-run-if-empty",
            "verbose",
            "exit",
            "arg-file",
            "delimiter",
            "replace",
            "max-lines",
            "max-args",
            "max-procs",
            "max-chars",
        ],
    ),
    (
        "flock",
        "sxeunoFvwEc",
        &[
            "shared",
            "exclusive",
            "unlock",
            "nonblock",
            "close",
            "no-fork",
            "wait",
            "timeout",
            "command",
        ],
    ),
];

/// Reports whether an option of a program that runs another is understood.
fn is_plain(name: &str, valued: &str, text: &str) -> bool {
    if matches!(name, "sudo" | "doas" | "pkexec") {
        // They are asked about, whatever their options.
        return true;
    }
    let Some((_, letters, longs)) = PLAIN.iter().find(|(own, ..)| *own == name) else {
        return false;
    };
    match text.strip_prefix("--") {
        Some(long) => longs.contains(&long.split('=').next().unwrap_or_default()),
        None => {
            let mut given = text.chars().skip(1);
            // What follows a letter that takes a value is the value.
            let end = given.clone().position(|letter| {
                valued.contains(letter) || name == "xargs" && "il".contains(letter)
            });
            let count = end.map_or(usize::MAX, |at| at + 1);
            given.by_ref().take(count).all(|letter| letters.contains(letter))
        }
    }
}

/// Long options of those that take the next word for their value.
const WITH_VALUE: [&str; 17] = [
    "user",
    "group",
    "prompt",
    "chdir",
    "unset",
    "signal",
    "kill-after",
    "adjustment",
    "class",
    "classdata",
    "max-args",
    "max-procs",
    "max-lines",
    "delimiter",
    "arg-file",
    "output",
    "timeout",
];

/// Returns the file name of a program.
pub(super) fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Looks through one program that runs another; nothing if it is none.
pub(super) fn look(arguments: &[Argument]) -> Option<Prefix> {
    let program = arguments.first()?.visible();
    let name = base_name(&program);
    let (_, valued, mut between) = RUNNERS.iter().find(|(own, ..)| *own == name).copied()?;
    let mut prefix =
        Prefix { length: 1, xargs: matches!(name, "xargs" | "parallel"), ..Prefix::default() };
    if matches!(name, "sudo" | "doas" | "pkexec") {
        prefix.sudo = Some(Sudo::default());
    }
    while let Some(argument) = arguments.get(prefix.length) {
        let text = argument.text.as_str();
        prefix.length += 1;
        if text == "--" {
            // What follows is the command, whatever it looks like.
            prefix.length += between;
            return Some(prefix);
        }
        let is_option = text.len() > 1 && text.starts_with('-');
        prefix.strange |= is_option && !is_plain(name, valued, text);
        // What it becomes may be an option.
        prefix.strange |= argument.splits && prefix.sudo.is_none();
        if let Some(long) = text.strip_prefix("--") {
            prefix.note_long(long);
            if name == "xargs" && long.starts_with("replace") {
                let mark = long.split_once('=').map_or("{}", |(_, mark)| mark);
                prefix.replaced = Some(mark.to_owned());
            }
            if name == "env"
                && let Some(split) = long.strip_prefix("split-string")
            {
                let rest = split.strip_prefix('=').map(str::to_owned);
                prefix.payload =
                    rest.or_else(|| arguments.get(prefix.length).map(|a| a.text.clone()));
                return Some(prefix);
            }
            prefix.length += usize::from(WITH_VALUE.contains(&long));
        } else if text.len() > 1 && text.starts_with('-') {
            prefix.note_short(name, text);
            if name == "xargs" && text.starts_with("-i") {
                let mark = Some(&text[2..]).filter(|mark| !mark.is_empty()).unwrap_or("{}");
                prefix.replaced = Some(mark.to_owned());
            }
            if name == "command" && text.contains(['v', 'V']) {
                prefix.inert = true;
                return Some(prefix);
            }
            let valued_at = text.char_indices().skip(1).find(|(_, c)| valued.contains(*c));
            if let Some((at, letter)) = valued_at {
                let value = text[at + letter.len_utf8()..].to_owned();
                let takes_next = value.is_empty();
                if name == "xargs" && letter == 'I' {
                    let next = arguments.get(prefix.length).map(|next| next.text.clone());
                    prefix.replaced = if takes_next { next } else { Some(value.clone()) };
                }
                if name == "env" && letter == 'S' {
                    let rest = arguments[prefix.length..].iter().map(|a| a.text.as_str());
                    let words: Vec<&str> = std::iter::once(value.as_str()).chain(rest).collect();
                    prefix.payload = Some(words.join(" "));
                    return Some(prefix);
                }
                prefix.length += usize::from(takes_next);
            } else if name == "flock" && text == "-c" {
                prefix.payload = arguments.get(prefix.length).map(|a| a.text.clone());
                return Some(prefix);
            }
        } else if is_assignment(text) && matches!(name, "env" | "sudo" | "doas" | "systemd-run") {
            prefix.assignments.push(text.to_owned());
        } else if between > 0 {
            between -= 1;
            if name == "flock" && arguments.get(prefix.length).is_some_and(|a| a.text == "-c") {
                prefix.payload = arguments.get(prefix.length + 1).map(|a| a.text.clone());
                return Some(prefix);
            }
        } else {
            prefix.length -= 1;
            return Some(prefix);
        }
    }
    prefix.length = prefix.length.min(arguments.len());
    Some(prefix)
}

fn is_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| is_name(name))
}

impl Prefix {
    fn note_short(&mut self, name: &str, text: &str) {
        if name == "sudo"
            && let Some(sudo) = &mut self.sudo
        {
            sudo.reads_password |= text.contains('S');
            sudo.asks_program |= text.contains('A');
            sudo.shell |= text.contains(['s', 'i']);
        }
    }

    fn note_long(&mut self, long: &str) {
        let abbreviates = |name: &str| long.len() > 2 && name.starts_with(long);
        if let Some(sudo) = &mut self.sudo {
            sudo.reads_password |= abbreviates("stdin");
            sudo.asks_program |= abbreviates("askpass");
            sudo.shell |= abbreviates("shell") || abbreviates("login");
        }
    }
}
