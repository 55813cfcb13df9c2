//! What happens when a program is run with its arguments.

use super::expand::{Argument, SOME, UNKNOWN, is_open};
use super::invocation::{Feed, ProgramRun, filled, found_by_find, printed, read_by_xargs};
use super::prefix::{self, Prefix, base_name};
use super::understand::{INDIRECT, OTHER_USE};
use super::walk::{HIDDEN, ScriptWalk};
use super::word::is_name;
use super::{Risk, rules, uses};
use crate::approvals::paths;

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

/// Who runs a command, and what it reads.
#[derive(Default)]
pub(super) struct RunSetting {
    prefix: Prefix,
    /// Whether what `find` hands it is everything there is.
    sweeps: bool,
    /// Whether a program runs it, and not the shell.
    by_program: bool,
}

impl ScriptWalk<'_> {
    /// Looks at a program and its arguments. Returns what it prints.
    pub(super) fn run(
        &mut self,
        arguments: &[Argument],
        feed: &Feed,
        mut setting: RunSetting,
        depth: usize,
    ) -> Feed {
        self.note(arguments);
        let mut rest = arguments;
        while let Some(next) = prefix::look(rest) {
            let runner = rest.first().map(Argument::visible).unwrap_or_default();
            rest = &rest[next.length.min(rest.len())..];
            let strange = next.strange || uses::is_never_harmless(base_name(&runner));
            if !rest.is_empty() && strange {
                let words: Vec<&str> = arguments.iter().map(|a| a.text.as_str()).collect();
                self.find(OTHER_USE, Risk::Dangerous, words.join(" "), false);
            }
            if next.inert {
                return Feed::Other;
            }
            let last = next.payload.clone();
            setting.merge(&next);
            for assignment in &next.assignments {
                let (name, value) = assignment.split_once('=').unwrap_or((assignment, ""));
                self.judge_assigned(name, value);
                self.suspect(name, value);
            }
            if let Some(payload) = last {
                if is_open(&payload) {
                    let words: Vec<&str> = arguments.iter().map(|a| a.text.as_str()).collect();
                    self.find(INDIRECT, Risk::Dangerous, words.join(" "), false);
                }
                self.aside(&payload, false, depth);
                return Feed::Other;
            }
        }
        let is_prefixed = rest.len() < arguments.len();
        if is_prefixed {
            self.note(rest);
        }
        self.sudo(&setting, arguments, feed);
        // A prefix with nothing behind it is a command of its own.
        let mut rest = if rest.is_empty() { arguments.to_vec() } else { rest.to_vec() };
        if setting.prefix.xargs {
            setting.sweeps |= matches!(feed, Feed::Everything(_));
            rest = filled(rest, setting.prefix.replaced.as_deref(), &read_by_xargs(feed));
        }
        let Some((program, arguments)) = rest.split_first() else {
            return Feed::Other;
        };
        let visible = program.visible();
        let name = base_name(&visible).to_owned();
        let cwd = self.cwd.clone();
        let path_context = self.path_context;
        let invocation = ProgramRun {
            program: &name,
            arguments,
            sudo: setting.prefix.sudo,
            xargs: setting.prefix.xargs,
            sweeps: setting.sweeps,
            cwd: cwd.as_deref(),
            feed,
            path_context,
        };
        let before = self.examined.findings.len();
        self.hidden(program, &invocation);
        if !program.is_unknown() {
            self.hold_against_rules(&invocation);
        }
        self.names(&invocation, depth);
        if matches!(invocation.program, "cd" | "pushd") {
            self.change_dir(&invocation, is_prefixed);
        } else {
            self.payloads(&invocation, depth);
        }
        self.downloaded(program, &invocation);
        if self.examined.findings.len() == before {
            self.understand(program, &invocation, !is_prefixed && !setting.by_program);
        }
        self.relinks(&invocation);
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
    fn hidden(&mut self, program: &Argument, it: &ProgramRun<'_>) {
        let wildcard = program.glob && !program.text.starts_with('[');
        if wildcard || program.printed || program.is_unknown() || program.parameters {
            let form = format!("{} {}", program.text, it.form());
            self.find(HIDDEN, Risk::Dangerous, form, false);
        }
    }

    fn hold_against_rules(&mut self, it: &ProgramRun<'_>) {
        if let Some(rule) = rules::HARDLINE.iter().find(|rule| (rule.applies)(it)) {
            self.find((rule.name, rule.reason), Risk::Hardline, it.form(), true);
            return;
        }
        for rule in rules::dangerous().filter(|rule| (rule.applies)(it)) {
            let definite = it.is_definite();
            self.find((rule.name, rule.reason), Risk::Dangerous, it.form(), definite);
        }
    }

    fn sudo(&mut self, setting: &RunSetting, arguments: &[Argument], feed: &Feed) {
        let reads = setting.prefix.sudo.is_some_and(|sudo| sudo.reads_password);
        if reads && *feed != Feed::Nothing {
            let words: Vec<&str> = arguments.iter().map(|a| a.text.as_str()).collect();
            self.find(SUDO_PASSWORD, Risk::BlockedOnHost, words.join(" "), false);
        }
    }

    /// Looks into what a program is asked to run.
    fn payloads(&mut self, it: &ProgramRun<'_>, depth: usize) {
        match it.program {
            shell if SHELLS.contains(&shell) => self.shell(it, depth),
            "eval" => {
                self.fetched_argument(it);
                let words: Vec<&str> = it.texts().collect();
                let text = words.join(" ");
                self.reads_text(&text, it);
                self.script(&text, depth + 1);
            }
            "source" | "." => {
                self.fetched_argument(it);
                self.sources(it);
            }
            "set" if it.operands().next().is_some() => self.parameters += 1,
            "trap" => self.traps(it, depth),
            "alias" => {
                for text in it.texts() {
                    if let Some((_, payload)) = text.split_once('=') {
                        self.script(payload, depth + 1);
                    }
                }
            }
            "su" | "runuser" | "script" => self.after_c(it, depth),
            "watch" => {
                let options = "stop -bcdeghptxr -nq: --interval: --differences? --no-title --color \
                               --exec --errexit --chgexit --precise --beep --version --help";
                let Some(line) = uses::read_line(it.arguments, options) else {
                    self.reads_text(&it.texts().collect::<Vec<_>>().join(" "), it);
                    return self.asks(OTHER_USE, it);
                };
                let words = line.operands.into_iter().chain(line.rest);
                let text = words.map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
                self.reads_text(&text, it);
                self.aside(&text, false, depth);
            }
            "ssh" => self.elsewhere(it, depth),
            "find" | "fd" => self.executed_by_find(it, depth),
            "popd" => {
                self.cwd = None;
                self.doubt.lost = true;
            }
            "export" => it.texts().for_each(|text| self.exports(text)),
            "declare" | "typeset" | "local" if it.has("x", "") => {
                it.texts().for_each(|text| self.exports(text));
            }
            "declare" | "typeset" | "local" | "readonly" => {
                for text in it.texts() {
                    if let Some((name, value)) = text.split_once('=').filter(|(n, _)| is_name(n)) {
                        self.assigns(name, value);
                    }
                }
            }
            "unset" => self.undefines(it),
            "printf" if it.texts().next() != Some("-v") => {}
            "read" | "mapfile" | "readarray" | "printf" => {
                let lost = read_by_xargs(it.feed).into_iter().find(|read| {
                    matches!(it.feed, Feed::Everything(_))
                        && paths::irreplaceable(&it.path(&read.text)).is_some()
                });
                for text in it.texts().filter(|text| is_name(text)) {
                    match &lost {
                        Some(dir) => self.assigns(text, &dir.text),
                        None => self.assigns_unknown(text),
                    }
                }
            }
            _ => self.code(it, depth),
        }
    }

    fn shell(&mut self, it: &ProgramRun<'_>, depth: usize) {
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
                        let parameters = usize::from(words.next().is_some());
                        self.parameters += parameters;
                        self.payload(payload, it, depth);
                        self.parameters = self.parameters.saturating_sub(parameters);
                    }
                    break;
                }
                let valued = text.ends_with(['o', 'O']);
                words.by_ref().take(usize::from(valued)).for_each(drop);
            } else if text != "-" && text != "--" {
                reads_input = false;
                if word.fetched {
                    self.find(PIPE_TO_SHELL, Risk::Dangerous, it.form(), false);
                } else if !matches!(text, "--version" | "--help") {
                    self.runs_file(word, it);
                }
                break;
            }
        }
        if reads_input {
            self.reads_program(it, depth);
        }
    }

    /// Text that a shell was handed as an argument.
    fn payload(&mut self, payload: &Argument, it: &ProgramRun<'_>, depth: usize) {
        if payload.fetched || payload.printed && payload.visible().trim().is_empty() {
            self.find(PIPE_TO_SHELL, Risk::Dangerous, it.form(), false);
        }
        self.reads_text(&payload.text, it);
        self.aside(&payload.text, false, depth);
    }

    /// A program that reads from its input what it is to do.
    pub(super) fn reads_program(&mut self, it: &ProgramRun<'_>, depth: usize) {
        match it.feed {
            // It may still be written to, or a file holds what was not looked at.
            Feed::Nothing | Feed::File => self.asks(INDIRECT, it),
            Feed::Text(text) if SHELLS.contains(&it.program) => {
                self.reads_text(text, it);
                self.aside(text, false, depth);
            }
            Feed::Text(code) => self.judge_code(code, it, depth),
            Feed::Fetched | Feed::Decoded | Feed::Other | Feed::Plain | Feed::Everything(_) => {
                self.find(PIPE_TO_SHELL, Risk::Dangerous, format!("| {}", it.form()), false);
            }
        }
    }

    fn fetched_argument(&mut self, it: &ProgramRun<'_>) {
        if it.arguments.iter().any(|argument| argument.fetched) {
            self.find(PIPE_TO_SHELL, Risk::Dangerous, it.form(), false);
        }
    }

    /// `trap` has text run at a time that nobody knows: between any two commands.
    fn traps(&mut self, it: &ProgramRun<'_>, depth: usize) {
        let Some(payload) = it.operands().next() else { return };
        self.reads_text(&payload.text, it);
        let before = (self.cwd.clone(), self.doubt.clone(), self.variables.assigned());
        self.script(&payload.text, depth + 1);
        if before != (self.cwd.clone(), self.doubt.clone(), self.variables.assigned()) {
            self.find(INDIRECT, Risk::Dangerous, it.form(), false);
        }
    }

    fn after_c(&mut self, it: &ProgramRun<'_>, depth: usize) {
        let words: Vec<&str> = it.texts().collect();
        for pair in words.windows(2).filter(|pair| matches!(pair[0], "-c" | "--command")) {
            self.reads_text(pair[1], it);
            self.aside(pair[1], false, depth);
        }
    }

    /// What `ssh` runs happens to another machine.
    fn elsewhere(&mut self, it: &ProgramRun<'_>, depth: usize) {
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
        self.reads_text(&rest.join(" "), it);
        self.remote += 1;
        let here = std::mem::take(&mut self.cwd);
        self.aside(&rest.join(" "), false, depth);
        self.cwd = here;
        self.remote -= 1;
    }

    fn executed_by_find(&mut self, it: &ProgramRun<'_>, depth: usize) {
        let starts = ["-exec", "-execdir", "-ok", "-okdir", "-x", "-X"];
        let everything = found_by_find(it).filter(|_| it.program == "find");
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
                self.find(rule, Risk::Dangerous, it.form(), it.is_definite());
            }
            let found = match &everything {
                Some(starts) => starts.iter().map(Argument::known).collect(),
                None => vec![Argument::unknown()],
            };
            let mut command = filled(command.to_vec(), Some("{}"), &found);
            if it.program != "find" {
                command.push(Argument::unknown());
            }
            let setting = RunSetting {
                sweeps: everything.is_some(),
                by_program: true,
                ..RunSetting::default()
            };
            self.run(&command, &Feed::Nothing, setting, depth + 1);
            words = &words[end..];
        }
    }

    /// A program that was downloaded by the same command.
    fn downloaded(&mut self, program: &Argument, it: &ProgramRun<'_>) {
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
            self.find(DOWNLOAD_AND_RUN, Risk::Dangerous, it.form(), false);
        }
    }

    fn printed_by(&mut self, it: &ProgramRun<'_>) -> Feed {
        if let Some(everything) = printed(it) {
            return everything;
        }
        match it.program {
            "echo" => {
                let words: Vec<&str> =
                    it.texts().skip_while(|t| matches!(*t, "-n" | "-e" | "-E")).collect();
                let mut text = words.join(" ");
                if text.contains('\\') {
                    // Some shells make other characters of it.
                    text.push(UNKNOWN);
                }
                Feed::Text(text.into())
            }
            "printf" => {
                let mut words = it.texts();
                let format = words.next().unwrap_or_default().replace("\\n", "\n");
                let rest: Vec<&str> = words.collect();
                let plain = !format.contains(['%', '\\'])
                    || rest.len() == 1 && matches!(format.trim_end(), "%s");
                let mut text = format.replace("%s", "").trim().to_owned() + &rest.join(" ");
                if !plain {
                    text.push(UNKNOWN);
                }
                Feed::Text(text.into())
            }
            program if uses::prints_plain(program, it) => Feed::Plain,
            "mktemp" if it.words().iter().all(|word| !word.contains('/')) => {
                let in_tmp = it.texts().all(|text| {
                    matches!(text, "-d" | "-t" | "-q" | "--directory" | "-dt")
                        || !text.starts_with('-')
                });
                let here = it.operands().next().is_some() && !it.has("t", "");
                if in_tmp && !here {
                    Feed::Text(format!("/tmp/{SOME}").into())
                } else {
                    Feed::Other
                }
            }
            "pwd"
                if it.arguments.is_empty()
                    && self.doubt.is_settled()
                    && self.path_context.dir.is_some() =>
            {
                let cwd = self.cwd.as_deref().unwrap_or(".");
                Feed::Text(
                    paths::canonical(cwd, self.path_context.dir.as_deref(), self.path_context)
                        .into(),
                )
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

/// Reports whether a program gets things from other machines.
pub(super) fn is_fetcher(program: &str) -> bool {
    FETCHERS.contains(&program)
}

impl RunSetting {
    fn merge(&mut self, next: &Prefix) {
        self.prefix.xargs |= next.xargs;
        if next.replaced.is_some() {
            self.prefix.replaced.clone_from(&next.replaced);
        }
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
