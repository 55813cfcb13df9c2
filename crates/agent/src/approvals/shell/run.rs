//! What happens when a program is run with its arguments.

use super::expand::Argument;
use super::invocation::{Feed, Invocation};
use super::prefix::{self, Prefix, base_name};
use super::walk::{HIDDEN, Walk};
use super::word::is_name;
use super::{Severity, rules};

pub(super) const PIPE_TO_SHELL: (&str, &str) =
    ("pipe-to-shell", "runs what another command prints, unseen");
pub(super) const DOWNLOAD_AND_RUN: (&str, &str) =
    ("download-and-run", "runs a program that it has just downloaded");
pub(super) const SUDO_PASSWORD: (&str, &str) = ("sudo-password", "hands a password to sudo");

/// Programs that read shell text.
const SHELLS: [&str; 11] =
    ["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "rbash"];

/// Programs that get things from other machines.
const FETCHERS: [&str; 12] = [
    "curl", "wget", "fetch", "aria2c", "http", "https", "xh", "lynx", "nc", "ncat", "netcat",
    "socat",
];

/// Programs that make something else of what nobody can read.
const DECODERS: [&str; 12] = [
    "base64", "base32", "xxd", "openssl", "uudecode", "gunzip", "zcat", "gzip", "xz", "xzcat",
    "gpg", "rev",
];

/// Longest text that `xargs` is thought to make arguments of.
const LONGEST_INPUT: usize = 256;

/// Who runs a command, and what it reads.
#[derive(Default)]
struct Setting {
    prefix: Prefix,
}

impl Walk<'_> {
    /// Looks at a program and its arguments. Returns what it prints.
    pub(super) fn run(&mut self, arguments: &[Argument], feed: &Feed, depth: usize) -> Feed {
        self.note(arguments);
        let mut setting = Setting::default();
        let mut rest = arguments;
        while let Some(next) = prefix::look(rest) {
            rest = &rest[next.length.min(rest.len())..];
            if next.inert {
                return Feed::Other;
            }
            let last = next.payload.clone();
            setting.merge(&next);
            if let Some(payload) = last {
                self.script(&payload, depth + 1);
                return Feed::Other;
            }
        }
        if rest.len() < arguments.len() {
            self.note(rest);
        }
        self.sudo(&setting, arguments, feed);
        // A prefix with nothing behind it is a command of its own.
        let mut rest = if rest.is_empty() { arguments.to_vec() } else { rest.to_vec() };
        if setting.prefix.xargs
            && let Feed::Text(text) = feed
            && text.len() <= LONGEST_INPUT
        {
            rest.extend(text.split_whitespace().map(Argument::known));
        }
        let Some((program, arguments)) = rest.split_first() else {
            return Feed::Other;
        };
        let visible = program.visible();
        let name = base_name(&visible).to_owned();
        let cwd = self.cwd.clone();
        let ground = self.ground;
        let invocation = Invocation {
            program: &name,
            arguments,
            sudo: setting.prefix.sudo,
            xargs: setting.prefix.xargs,
            cwd: cwd.as_deref(),
            feed,
            ground,
        };
        self.hidden(program, &invocation);
        if !program.is_unknown() {
            self.hold_against_rules(&invocation);
        }
        self.payloads(&invocation, depth);
        self.downloaded(program, &invocation);
        self.printed_by(&invocation)
    }

    /// Keeps a command for those who forbid some by their text.
    fn note(&mut self, arguments: &[Argument]) {
        let mut texts = arguments.iter().map(|argument| argument.text.as_str());
        let Some(program) = texts.next() else { return };
        let rest: Vec<&str> = texts.collect();
        for program in [program, base_name(program)] {
            let mut text = program.to_owned();
            for word in &rest {
                text.push(' ');
                text.push_str(word);
            }
            if self.examined.commands.last() != Some(&text) {
                self.examined.commands.push(text);
            }
        }
    }

    /// A program whose name nobody can know beforehand.
    fn hidden(&mut self, program: &Argument, it: &Invocation<'_>) {
        let worked_out = program.printed || program.glob && !program.text.starts_with('[');
        let like_rm = program.is_unknown() && {
            let rm = Invocation { program: "rm", ..*it };
            rules::HARDLINE.iter().any(|rule| (rule.applies)(&rm) || (rule.applies)(it))
        };
        if worked_out || like_rm {
            let form = format!("{} {}", program.text, it.form());
            self.find(HIDDEN, Severity::Dangerous, form, false);
        }
    }

    fn hold_against_rules(&mut self, it: &Invocation<'_>) {
        if let Some(rule) = rules::HARDLINE.iter().find(|rule| (rule.applies)(it)) {
            self.find((rule.name, rule.reason), Severity::Hardline, it.form(), true);
            return;
        }
        for rule in rules::dangerous().filter(|rule| (rule.applies)(it)) {
            let definite = it.is_definite();
            self.find((rule.name, rule.reason), Severity::Dangerous, it.form(), definite);
        }
    }

    fn sudo(&mut self, setting: &Setting, arguments: &[Argument], feed: &Feed) {
        let reads = setting.prefix.sudo.is_some_and(|sudo| sudo.reads_password);
        if reads && *feed != Feed::Nothing {
            let words: Vec<&str> = arguments.iter().map(|a| a.text.as_str()).collect();
            self.find(SUDO_PASSWORD, Severity::BlockedOnHost, words.join(" "), false);
        }
    }

    /// Looks into what a program is told to run.
    fn payloads(&mut self, it: &Invocation<'_>, depth: usize) {
        match it.program {
            shell if SHELLS.contains(&shell) => self.shell(it, depth),
            "eval" => {
                self.fetched_argument(it);
                let words: Vec<&str> = it.texts().collect();
                self.script(&words.join(" "), depth + 1);
            }
            "source" | "." => self.fetched_argument(it),
            "trap" => self.first_operand(it, depth),
            "alias" => {
                for text in it.texts() {
                    if let Some((_, payload)) = text.split_once('=') {
                        self.script(payload, depth + 1);
                    }
                }
            }
            "su" | "runuser" | "script" => self.after_c(it, depth),
            "watch" => {
                let words: Vec<&str> = it.operands().map(|a| a.text.as_str()).collect();
                self.script(&words.join(" "), depth + 1);
            }
            "ssh" => self.elsewhere(it, depth),
            "find" | "fd" => self.executed_by_find(it, depth),
            "cd" | "pushd" => self.change_dir(it),
            "popd" => self.cwd = None,
            "export" | "declare" | "typeset" | "local" | "readonly" => {
                for text in it.texts() {
                    if let Some((name, value)) = text.split_once('=').filter(|(n, _)| is_name(n)) {
                        self.variables.set(name, value);
                    }
                }
            }
            "read" | "mapfile" | "readarray" | "unset" | "printf" => {
                for text in it.texts().filter(|text| is_name(text)) {
                    self.variables.forget(text);
                }
            }
            _ => self.code(it, depth),
        }
    }

    fn shell(&mut self, it: &Invocation<'_>, depth: usize) {
        let mut words = it.arguments.iter();
        let mut reads_input = true;
        while let Some(word) = words.next() {
            let text = word.text.as_str();
            if text.starts_with("--") && text.len() > 2 {
                let valued = matches!(text, "--rcfile" | "--init-file");
                words.by_ref().take(usize::from(valued)).for_each(drop);
            } else if text.len() > 1 && text.starts_with(['-', '+']) && text != "--" {
                if text.starts_with('-') && text.contains('c') {
                    reads_input = false;
                    let payload = words.find(|word| !word.text.starts_with('-'));
                    if let Some(payload) = payload {
                        self.payload(payload, it, depth);
                    }
                    break;
                }
                let valued = text.ends_with(['o', 'O']);
                words.by_ref().take(usize::from(valued)).for_each(drop);
            } else if text != "-" && text != "--" {
                reads_input = false;
                if word.fetched {
                    self.find(PIPE_TO_SHELL, Severity::Dangerous, it.form(), false);
                }
                break;
            }
        }
        if reads_input {
            self.reads_program(it, depth);
        }
    }

    /// Text that a shell was handed as an argument.
    fn payload(&mut self, payload: &Argument, it: &Invocation<'_>, depth: usize) {
        if payload.fetched || payload.printed && payload.visible().trim().is_empty() {
            self.find(PIPE_TO_SHELL, Severity::Dangerous, it.form(), false);
        }
        self.script(&payload.text, depth + 1);
    }

    /// A program that reads from its input what it is to do.
    pub(super) fn reads_program(&mut self, it: &Invocation<'_>, depth: usize) {
        match it.feed {
            Feed::Nothing | Feed::File => {}
            Feed::Text(text) if SHELLS.contains(&it.program) => {
                self.script(text, depth + 1);
            }
            Feed::Text(code) => self.judge_code(code, it, depth),
            Feed::Fetched | Feed::Decoded | Feed::Other => {
                self.find(PIPE_TO_SHELL, Severity::Dangerous, format!("| {}", it.form()), false);
            }
        }
    }

    fn fetched_argument(&mut self, it: &Invocation<'_>) {
        if it.arguments.iter().any(|argument| argument.fetched) {
            self.find(PIPE_TO_SHELL, Severity::Dangerous, it.form(), false);
        }
    }

    fn first_operand(&mut self, it: &Invocation<'_>, depth: usize) {
        if let Some(payload) = it.operands().next() {
            self.script(&payload.text, depth + 1);
        }
    }

    fn after_c(&mut self, it: &Invocation<'_>, depth: usize) {
        let words: Vec<&str> = it.texts().collect();
        for pair in words.windows(2).filter(|pair| matches!(pair[0], "-c" | "--command")) {
            self.script(pair[1], depth + 1);
        }
    }

    /// What `ssh` runs happens to another machine.
    fn elsewhere(&mut self, it: &Invocation<'_>, depth: usize) {
        const VALUED: &str = "bcDEeFIiJLlmOopQRSWw";
        let mut words = it.arguments.iter();
        while let Some(word) = words.next() {
            match word.text.strip_prefix('-') {
                Some(option) => {
                    let takes_next = option.len() == 1 && VALUED.contains(option);
                    words.by_ref().take(usize::from(takes_next)).for_each(drop);
                }
                None => break,
            }
        }
        let rest: Vec<&str> = words.map(|word| word.text.as_str()).collect();
        self.remote += 1;
        let here = std::mem::take(&mut self.cwd);
        self.script(&rest.join(" "), depth + 1);
        self.cwd = here;
        self.remote -= 1;
    }

    fn executed_by_find(&mut self, it: &Invocation<'_>, depth: usize) {
        let starts = ["-exec", "-execdir", "-ok", "-okdir", "-x", "-X"];
        let mut words = it.arguments;
        while let Some(at) = words.iter().position(|word| starts.contains(&word.text.as_str())) {
            words = &words[at + 1..];
            let ends = |word: &Argument| matches!(word.text.as_str(), ";" | "+");
            let end = words.iter().position(ends).unwrap_or(words.len());
            let command = &words[..end];
            if command
                .first()
                .is_some_and(|c| matches!(base_name(&c.text), "rm" | "shred" | "unlink"))
            {
                let rule = ("delete-many", "removes every file that is found");
                self.find(rule, Severity::Dangerous, it.form(), it.is_definite());
            }
            self.run(command, &Feed::Nothing, depth + 1);
            words = &words[end..];
        }
    }

    fn change_dir(&mut self, it: &Invocation<'_>) {
        let target = it.operands().next();
        self.cwd = match target {
            None => Some("~".to_owned()),
            Some(dir) if dir.text == "-" || dir.is_unknown() => None,
            Some(dir) => Some(it.path(&dir.text)).filter(|dir| dir != "."),
        };
    }

    /// A program that was downloaded by the same command.
    fn downloaded(&mut self, program: &Argument, it: &Invocation<'_>) {
        if FETCHERS.contains(&it.program) {
            let words: Vec<&str> = it.texts().collect();
            let named = words
                .windows(2)
                .filter(|pair| matches!(pair[0], "-o" | "-O" | "--output" | "--output-document"));
            let last = words.last().and_then(|url| url.rsplit('/').next());
            let names = named.map(|pair| pair[1]).chain(last);
            self.downloads.extend(names.map(|name| base_name(name).to_owned()));
            return;
        }
        let script = it.operands().next().filter(|_| SHELLS.contains(&it.program));
        let run = script.filter(|_| !it.has("c", "")).unwrap_or(program);
        let is_path = run.text.contains('/') || script.is_some();
        if is_path && self.downloads.iter().any(|name| name == base_name(&run.text)) {
            self.find(DOWNLOAD_AND_RUN, Severity::Dangerous, it.form(), false);
        }
    }

    fn printed_by(&mut self, it: &Invocation<'_>) -> Feed {
        match it.program {
            "echo" => {
                let words: Vec<&str> =
                    it.texts().skip_while(|t| matches!(*t, "-n" | "-e" | "-E")).collect();
                Feed::Text(words.join(" ").into())
            }
            "printf" => {
                let mut words = it.texts();
                let format = words.next().unwrap_or_default().replace("\\n", "\n");
                let rest: Vec<&str> = words.collect();
                let text = format.replace("%s", "").trim().to_owned() + &rest.join(" ");
                Feed::Text(text.into())
            }
            "cat" | "tee" if it.operands().next().is_none() || it.program == "tee" => {
                it.feed.clone()
            }
            "cat" => Feed::File,
            fetcher if FETCHERS.contains(&fetcher) => {
                self.fetched = true;
                Feed::Fetched
            }
            decoder if DECODERS.contains(&decoder) => Feed::Decoded,
            _ if *it.feed == Feed::Fetched => Feed::Fetched,
            _ => Feed::Other,
        }
    }
}

impl Setting {
    fn merge(&mut self, next: &Prefix) {
        self.prefix.xargs |= next.xargs;
        self.prefix.sudo = match (self.prefix.sudo, next.sudo) {
            (Some(one), Some(two)) => Some(prefix::Sudo {
                reads_password: one.reads_password || two.reads_password,
                asks_program: one.asks_program || two.asks_program,
                shell: one.shell || two.shell,
            }),
            (one, two) => one.or(two),
        };
    }
}
