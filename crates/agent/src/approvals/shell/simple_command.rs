//! Simple commands: the variables they set, what they run, and where they read and write. A loop
//! sets its variable the same way.

use super::Risk;
use super::expand::{Argument, NAME, SOME, UNKNOWN};
use super::invocation::Feed;
use super::run::RunSetting;
use super::script::{Redirect, ShellScript, Simple};
use super::understand::INDIRECT;
use super::uses::{self, Brought, PathTarget};
use super::walk::{OVERWRITE_DISK, ScriptWalk, WRITE_SENSITIVE};
use super::word::{self, ShellWord, WordPart, is_name};
use crate::approvals::paths;

impl ScriptWalk<'_> {
    /// Walks through a simple command. Returns what it prints, and its program.
    pub(super) fn simple(
        &mut self,
        simple: &Simple,
        script: &ShellScript,
        feed: &Feed,
        depth: usize,
    ) -> (Feed, String) {
        let mut words = &simple.words[..];
        let mut assigned = Vec::new();
        while let Some((word, rest)) = words.split_first()
            && let Some(VariableAssignment { name, subscript, appends, value }) = assignment(word)
        {
            if let Some(subscript) = &subscript {
                self.sum(subscript, depth);
            }
            let mut value = self.expand_whole(&value, depth);
            if appends {
                let before = self.variables.get(&name).unwrap_or_else(|| UNKNOWN.to_string());
                value.text.insert_str(0, &before);
            }
            value.parameters |= subscript.is_some() || !self.variables.is_certain(&name) && appends;
            assigned.push((name, value));
            words = rest;
        }
        let arguments: Vec<Argument> =
            words.iter().flat_map(|word| self.expand(word, depth)).collect();
        self.words += words.len() + arguments.len();
        self.redirected = false;
        let own_feed = self.redirects(simple, script, &arguments, depth);
        let redirected = self.redirected;
        if arguments.is_empty() {
            for (name, value) in assigned {
                if name == "IFS" && !value.text.trim().is_empty() {
                    self.find(INDIRECT, Risk::Dangerous, format!("IFS={}", value.text), false);
                }
                let certain = self.certain;
                self.certain &= !value.parameters;
                self.assigns(&name, &value.text);
                self.certain = certain;
            }
            return (Feed::Nothing, String::new());
        }
        for (name, value) in &assigned {
            if uses::is_shells_own(&arguments[0].text) {
                self.judge_variable(name, &value.text);
            } else {
                self.judge_assigned(name, &value.text);
            }
            self.suspect(name, &value.text);
        }
        let program = arguments[0].visible();
        let feed = own_feed.as_ref().unwrap_or(feed);
        let printed = self.run(&arguments, feed, RunSetting::default(), depth);
        if redirected && printed == Feed::Fetched {
            self.brought = Brought::Files;
        }
        (printed, program)
    }

    /// Looks at what a command writes to; returns what it reads in place of a pipe.
    fn redirects(
        &mut self,
        simple: &Simple,
        script: &ShellScript,
        arguments: &[Argument],
        depth: usize,
    ) -> Option<Feed> {
        let mut feed = None;
        for redirect in &simple.redirects {
            match redirect {
                Redirect::Write(word) => {
                    let target = self.expand_whole(word, depth);
                    self.written(&target, arguments);
                }
                Redirect::Read(word) => {
                    let source = self.expand_whole(word, depth);
                    self.reads_file(&source);
                    feed = Some(if source.fetched { Feed::Fetched } else { Feed::File });
                }
                Redirect::Text(word) => {
                    let text = self.expand_whole(word, depth);
                    feed = Some(if text.fetched {
                        Feed::Fetched
                    } else {
                        Feed::Text(text.text.into())
                    });
                }
                Redirect::Heredoc { index, quoted } => {
                    let mut body = script.heredocs.get(*index).cloned().unwrap_or_default();
                    if !quoted {
                        self.inner(&word::inner(&body), depth);
                        if body.contains(['$', '`']) {
                            // What is put in may be anything, commands included.
                            body.push(UNKNOWN);
                        }
                    }
                    feed = Some(Feed::Text(body.into()));
                }
            }
        }
        feed
    }

    fn written(&mut self, target: &Argument, arguments: &[Argument]) {
        let path = paths::canonical(&target.text, self.cwd.as_deref(), self.path_context);
        let words: Vec<&str> = arguments.iter().map(|argument| argument.text.as_str()).collect();
        let form = format!("{} > {path}", words.join(" "));
        self.made.push(path.clone());
        self.redirected |= !paths::is_harmless_device(&target.text);
        self.file_written(target, &path, form);
    }

    /// Judges a file that is written as a whole: by a redirection, or by a tool for files.
    /// `form` is what is reported where it is more than a file that is changed.
    pub(super) fn file_written(&mut self, target: &Argument, path: &str, form: String) {
        if paths::is_disk(path) {
            self.find(OVERWRITE_DISK, Risk::Hardline, form, true);
        } else if path == "/proc/sysrq-trigger" {
            let rule = ("power-off", "shuts down or restarts the machine");
            self.find(rule, Risk::Hardline, form, true);
        } else if paths::sensitive(path, self.path_context).is_some() {
            // What is written differs each time; where it goes is what matters.
            let form = format!("> {path}");
            self.find(WRITE_SENSITIVE, Risk::Dangerous, form, !target.is_unknown());
        } else {
            self.write_to(&PathTarget::whole(target));
        }
    }

    /// A variable gets one value after the other.
    pub(super) fn loop_over(&mut self, name: &str, values: &[ShellWord], depth: usize) {
        let values: Vec<Argument> =
            values.iter().flat_map(|word| self.expand(word, depth)).collect();
        if !is_name(name) {
            return;
        }
        let path = |value: &Argument| {
            paths::canonical(&value.text, self.cwd.as_deref(), self.path_context)
        };
        // Of several values the worst is the one to look at.
        let worst = values.iter().find(|value| paths::irreplaceable(&path(value)).is_some());
        let only =
            values.first().filter(|value| values.len() == 1 && !value.splits && !value.parameters);
        let numbers = !values.is_empty() && values.iter().all(is_number);
        match worst.or(only) {
            Some(value) => {
                let text =
                    if value.glob { named_by(&value.text) } else { Some(value.text.clone()) };
                match text {
                    Some(text) => {
                        self.assigns(name, &text);
                        // Within the loop it has this value and no other.
                        self.variables.set(name, &text, true);
                    }
                    None => self.assigns_unknown(name),
                }
            }
            None if numbers => {
                self.judge_variable(name, "0");
                self.variables.set(name, &SOME.to_string(), true);
            }
            None => self.assigns_unknown(name),
        }
    }
}

/// Reports whether a value of a loop is a number.
fn is_number(value: &Argument) -> bool {
    let digits = |c: char| c.is_ascii_digit() || c == SOME;
    !value.text.is_empty() && value.text.chars().all(digits) && !value.splits
}

/// Returns what names a wildcard of the shell stands for; nothing if that is more
/// than names in a directory.
fn named_by(pattern: &str) -> Option<String> {
    let (dir, last) = pattern
        .rsplit_once('/')
        .map_or(("", pattern), |(dir, last)| (&pattern[..=dir.len()], last));
    let plain = !dir.contains(['*', '?', '[']) && last.starts_with(|c: char| c != '.' && c != '[');
    let names: String = last.chars().map(|c| if c == '*' || c == '?' { NAME } else { c }).collect();
    (plain && !names.contains('[')).then(|| format!("{dir}{names}"))
}

/// A variable that gets a value.
struct VariableAssignment {
    name: String,
    subscript: Option<String>,
    /// Whether the value is put behind what the variable has.
    appends: bool,
    value: ShellWord,
}

/// Takes an assignment apart.
fn assignment(word: &ShellWord) -> Option<VariableAssignment> {
    let Some(WordPart::Text { text, quoted: false }) = word.parts.first() else {
        return None;
    };
    let (target, value) = text.split_once('=')?;
    let plain = target.strip_suffix('+');
    let (name, subscript) = plain.unwrap_or(target).split_once('[').map_or_else(
        || (plain.unwrap_or(target), None),
        |(name, subscript)| (name, Some(subscript.trim_end_matches(']').to_owned())),
    );
    if !is_name(name) {
        return None;
    }
    let mut parts = vec![WordPart::Text { text: value.to_owned(), quoted: false }];
    parts.extend(word.parts[1..].iter().cloned());
    let (name, appends) = (name.to_owned(), plain.is_some());
    Some(VariableAssignment { name, subscript, appends, value: ShellWord { parts } })
}
