//! Words after expansion, as far as it can be known beforehand.

use std::collections::{HashMap, HashSet};

use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfkc_quick};

use super::walk::ScriptWalk;
use super::word::{ShellWord, WordPart};
use crate::approvals::paths;

/// Stands in a text for what cannot be known.
pub(super) const UNKNOWN: char = '\u{fffc}';

/// Stands in a text for a number, a date or the like: letters and digits.
pub(super) const SOME: char = '\u{f8f4}';

/// Stands in a text for what a wildcard means: a part of a name without a slash,
/// and without a dot at its beginning.
pub(super) const NAME: char = '\u{f8f5}';

/// Reports whether something of a text cannot be known.
pub(super) fn is_open(text: &str) -> bool {
    text.contains([UNKNOWN, SOME, NAME])
}

/// Longest value of a variable that is kept.
const LONGEST_VALUE: usize = 4096;

/// Characters that values may add to words in one examination.
const EXPANSION_BUDGET: usize = 1 << 20;

/// Words that braces may make of one.
const MOST_BRACES: usize = 64;

/// Longest word whose braces are looked at.
const LONGEST_BRACES: usize = 4096;

/// Unquoted `{`, `,` and `}` while a word is put together.
const OPEN: char = '\u{f8f0}';
const COMMA: char = '\u{f8f1}';
const SHUT: char = '\u{f8f2}';

/// A word as a program gets it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is true of a word by itself")]
pub(super) struct Argument {
    /// Its text, with [`UNKNOWN`] for what cannot be known.
    pub(super) text: String,
    /// Whether it holds a wildcard.
    pub(super) glob: bool,
    /// Whether it is, in part, what a command printed that nobody can foresee.
    pub(super) printed: bool,
    /// Whether it is, in part, what came from another machine.
    pub(super) fetched: bool,
    /// Whether it may be something else: parameters stand in it that a command
    /// line does not have, but a session or a caller may, or a fallback.
    pub(super) parameters: bool,
    /// Whether it may become several words, or none.
    pub(super) splits: bool,
}

impl Argument {
    /// Returns an argument of which everything is known.
    pub(super) fn known(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Returns an argument of which nothing is known.
    pub(super) fn unknown() -> Self {
        Self::known(UNKNOWN)
    }

    /// Reports whether something of it cannot be known.
    pub(super) fn is_unknown(&self) -> bool {
        is_open(&self.text)
    }

    /// Returns the text without what cannot be known, which may well be nothing.
    pub(super) fn visible(&self) -> String {
        self.text.replace([UNKNOWN, SOME, NAME], "")
    }
}

/// Puts a word together from its parts; it may become several, or none.
#[derive(Debug, Default)]
pub(super) struct WordBuilder {
    done: Vec<Argument>,
    word: Argument,
    /// Whether there is a word, be it an empty one.
    begun: bool,
}

impl WordBuilder {
    /// Adds text that stands in the word itself.
    pub(super) fn text(&mut self, text: &str, quoted: bool) {
        self.begun |= quoted || !text.is_empty();
        if quoted {
            self.word.text.push_str(text);
            return;
        }
        self.word.glob |= text.contains(['*', '?', '[']);
        self.word.text.extend(text.chars().map(|c| match c {
            '{' => OPEN,
            ',' => COMMA,
            '}' => SHUT,
            other => other,
        }));
    }

    /// Adds a value, which is split at blanks unless it is quoted.
    pub(super) fn value(&mut self, value: &str, quoted: bool) {
        if quoted {
            self.begun = true;
            self.word.text.push_str(value);
            return;
        }
        for (index, piece) in value.split(char::is_whitespace).enumerate() {
            if index > 0 {
                self.cut();
            }
            self.begun |= !piece.is_empty();
            self.word.glob |= piece.contains(['*', '?', '[']);
            // A file's name may hold blanks.
            self.word.splits |= piece.contains(NAME);
            self.word.text.push_str(piece);
        }
    }

    /// Adds something that cannot be known.
    pub(super) fn unknown(&mut self, quoted: bool) {
        self.begun = true;
        self.word.splits |= !quoted;
        self.word.text.push(UNKNOWN);
    }

    /// Adds a number, a date or the like.
    pub(super) fn some(&mut self) {
        self.begun = true;
        self.word.text.push(SOME);
    }

    /// Says that the word is, in part, what a command printed.
    pub(super) fn printed(&mut self, fetched: bool) {
        self.word.printed = true;
        self.word.fetched |= fetched;
    }

    /// Says that parameters stand here, which are taken for nothing.
    pub(super) fn parameters(&mut self) {
        self.word.parameters = true;
    }

    /// Ends the word.
    pub(super) fn cut(&mut self) {
        let word = std::mem::take(&mut self.word);
        if std::mem::take(&mut self.begun) {
            self.done.extend(braces(&word));
        }
    }

    /// Returns the words.
    pub(super) fn finish(mut self) -> Vec<Argument> {
        self.cut();
        self.done
    }
}

/// Expands the braces of a word.
fn braces(word: &Argument) -> Vec<Argument> {
    let plain =
        |text: &str| normalise(&text.replace(OPEN, "{").replace(COMMA, ",").replace(SHUT, "}"));
    if !word.text.contains(OPEN) {
        return vec![Argument { text: plain(&word.text), ..word.clone() }];
    }
    if word.text.len() > LONGEST_BRACES {
        let text = plain(&word.text) + &UNKNOWN.to_string();
        return vec![Argument { text, splits: true, ..word.clone() }];
    }
    let mut done = Vec::new();
    let mut waiting = vec![word.text.clone()];
    while let Some(text) = waiting.pop() {
        if done.len() + waiting.len() > MOST_BRACES {
            let text = plain(&word.text) + &UNKNOWN.to_string();
            return vec![Argument { text, splits: true, ..word.clone() }];
        }
        match alternatives(&text) {
            None => done.push(Argument { text: plain(&text), ..word.clone() }),
            // The last is expanded first, so they are put on the other way round.
            Some(all) => waiting.extend(all.into_iter().rev()),
        }
    }
    done
}

/// Expands the first pair of braces that holds a comma or a range.
fn alternatives(text: &str) -> Option<Vec<String>> {
    let mut from = 0;
    while let Some(open) = text[from..].find(OPEN).map(|offset| from + offset) {
        let mut depth = 0_usize;
        let mut cuts = vec![open];
        for (offset, character) in text[open..].char_indices() {
            match character {
                OPEN => depth += 1,
                SHUT => depth -= 1,
                COMMA if depth == 1 => cuts.push(open + offset),
                _ => {}
            }
            if depth == 0 {
                if cuts.len() == 1 {
                    let inside = &text[open + OPEN.len_utf8()..open + offset];
                    if is_range(inside) {
                        let after = &text[open + offset + SHUT.len_utf8()..];
                        return Some(vec![format!("{}{SOME}{after}", &text[..open])]);
                    }
                    break;
                }
                let shut = open + offset;
                cuts.push(shut);
                let (before, after) = (&text[..open], &text[shut + SHUT.len_utf8()..]);
                let width = OPEN.len_utf8();
                let all = cuts.windows(2).map(|cut| {
                    let choice = &text[cut[0] + width..cut[1]];
                    format!("{before}{choice}{after}")
                });
                return Some(all.take(MOST_BRACES + 1).collect());
            }
        }
        from = open + OPEN.len_utf8();
    }
    None
}

/// Reports whether braces with this in them stand for numbers or letters: `{1..9}`.
fn is_range(text: &str) -> bool {
    let mut ends = text.split("..");
    let plain = |end: Option<&str>| {
        end.is_some_and(|end| !end.is_empty() && end.bytes().all(|b| b.is_ascii_alphanumeric()))
    };
    plain(ends.next()) && plain(ends.next()) && ends.next().is_none_or(|step| plain(Some(step)))
}

/// Brings a word into the one form that rules are written for.
fn normalise(text: &str) -> String {
    if text.is_ascii() && !text.bytes().any(|b| b.is_ascii_control()) {
        return text.to_owned();
    }
    let shown = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t'));
    if is_nfkc_quick(text.chars()) == IsNormalized::Yes {
        return shown.collect();
    }
    // The mark for what cannot be known has no other form, so it stays.
    shown.nfkc().collect()
}

/// What is known of variables.
#[derive(Debug, Default)]
pub(super) struct ShellVariables {
    values: HashMap<String, Option<String>>,
    /// Those that have their value whatever happened before.
    certain: HashSet<String>,
    /// Those that got a value, in their order.
    assigned: Vec<String>,
    used: usize,
}

/// What was certain when a script began within another.
#[derive(Debug)]
pub(super) struct ScriptScope {
    certain: HashSet<String>,
    assigned: usize,
}

impl ShellVariables {
    /// Remembers a value; what is too long or unknown is only known to be set.
    pub(super) fn set(&mut self, name: &str, value: &str, certain: bool) {
        let kept = value.len() <= LONGEST_VALUE && !value.contains(UNKNOWN);
        self.put(name, kept.then(|| value.to_owned()), certain);
    }

    /// Remembers that a variable has a value that cannot be known.
    pub(super) fn forget(&mut self, name: &str) {
        self.put(name, None, false);
    }

    fn put(&mut self, name: &str, value: Option<String>, certain: bool) {
        self.values.insert(name.to_owned(), value);
        self.assigned.push(name.to_owned());
        if certain {
            self.certain.insert(name.to_owned());
        } else {
            self.certain.remove(name);
        }
    }

    /// Begins a script in a process of its own, which may or may not know the variables of this one.
    pub(super) fn enter(&mut self, inherits: bool) -> ScriptScope {
        let certain =
            if inherits { self.certain.clone() } else { std::mem::take(&mut self.certain) };
        ScriptScope { certain, assigned: self.assigned.len() }
    }

    /// Ends such a script: what it set, it set for itself alone.
    pub(super) fn leave(&mut self, scope: ScriptScope) {
        self.certain = scope.certain;
        for name in self.assigned.drain(scope.assigned..) {
            self.certain.remove(&name);
        }
    }

    /// Reports whether the command has set a variable.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Returns how many variables got a value so far.
    pub(super) fn assigned(&self) -> usize {
        self.assigned.len()
    }

    /// Makes nothing certain any more.
    pub(super) fn doubt_all(&mut self) {
        self.certain.clear();
    }

    /// Reports whether a value is certain: nothing but this command can have set another.
    pub(super) fn is_certain(&self, name: &str) -> bool {
        self.certain.contains(name) || !self.values.contains_key(name)
    }

    /// Returns a value, if it is known and there is room for it.
    pub(super) fn get(&mut self, name: &str) -> Option<String> {
        let value = match (self.values.get(name), name) {
            (Some(value), _) => value.clone()?,
            (None, "HOME") => "~".to_owned(),
            (None, "PATH") => "/usr/local/bin:/usr/bin:/bin".to_owned(),
            (None, "IFS") => " ".to_owned(),
            (None, "TMPDIR") => "/tmp".to_owned(),
            (None, _) => return None,
        };
        self.used += value.len();
        (self.used <= EXPANSION_BUDGET).then_some(value)
    }
}

impl ScriptWalk<'_> {
    /// Expands a word that stays one.
    pub(super) fn expand_whole(&mut self, word: &ShellWord, depth: usize) -> Argument {
        let mut whole = Argument::default();
        for (index, part) in self.expand(word, depth).into_iter().enumerate() {
            if index > 0 {
                whole.text.push(' ');
            }
            whole.text.push_str(&part.text);
            whole.printed |= part.printed;
            whole.fetched |= part.fetched;
            whole.glob |= part.glob;
            whole.parameters |= part.parameters;
            whole.splits |= part.splits || index > 0;
        }
        whole
    }

    /// Expands a word.
    pub(super) fn expand(&mut self, word: &ShellWord, depth: usize) -> Vec<Argument> {
        let mut builder = WordBuilder::default();
        for part in &word.parts {
            match part {
                WordPart::Text { text, quoted } => builder.text(text, *quoted),
                WordPart::Variable { name, fallback, quoted } => {
                    match (self.value(name), fallback) {
                        (Some(value), _) => {
                            builder.value(&value, *quoted);
                            if !self.variables.is_certain(name) {
                                builder.parameters();
                            }
                        }
                        (None, Some(value)) => {
                            // It may be set outside the command, to anything.
                            builder.value(value, *quoted);
                            builder.parameters();
                        }
                        (None, None) => builder.unknown(*quoted),
                    }
                }
                WordPart::Command { body, quoted } => {
                    let printed = self.aside(body, true, depth);
                    match printed.text {
                        Some(text) => builder.value(text.trim_end_matches('\n'), *quoted),
                        None if printed.plain => builder.some(),
                        None => {
                            builder.unknown(*quoted);
                            builder.printed(printed.fetched);
                            for root in &printed.everything_in {
                                builder.cut();
                                builder.value(root, true);
                                builder.printed(false);
                            }
                        }
                    }
                }
                WordPart::Process { body } => {
                    let printed = self.aside(body, true, depth);
                    builder.text("/dev/fd/63", true);
                    builder.printed(printed.fetched);
                }
                // Nothing but parameters is whatever those are.
                WordPart::Parameters if self.parameters > 0 || is_only_parameters(word) => {
                    builder.unknown(false);
                }
                WordPart::Parameters => builder.parameters(),
                WordPart::Opaque(inner) => {
                    self.inner(inner, depth);
                    match inner.cut.as_ref().and_then(|cut| self.cut(cut)) {
                        Some(value) => builder.value(&value, true),
                        None if inner.number => builder.some(),
                        None => builder.unknown(inner.quoted),
                    }
                }
            }
        }
        builder.finish()
    }

    /// Returns the value of a variable, if it is known.
    fn value(&mut self, name: &str) -> Option<String> {
        if name != "PWD" || self.variables.is_set("PWD") {
            // The last argument of the command before.
            return self.variables.get(name).filter(|_| name != "_");
        }
        let known = !self.doubt.lost && self.doubt.is_settled();
        let cwd = self.cwd.as_deref().unwrap_or(".");
        known.then(|| paths::canonical(cwd, self.path_context.dir.as_deref(), self.path_context))
    }

    /// Returns a value without its end, or only the last part of its path.
    fn cut(&mut self, (name, end): &(String, Option<String>)) -> Option<String> {
        let value = self.value(name).filter(|_| self.variables.is_certain(name))?;
        if value.contains("..") {
            return None;
        }
        let (dir, last) = value
            .rsplit_once('/')
            .map_or(("", value.as_str()), |(dir, last)| (&value[..=dir.len()], last));
        match end.as_deref() {
            None => Some(last.to_owned()),
            Some(".*") => last.rsplit_once('.').map(|(stem, _)| format!("{dir}{stem}")),
            Some(end) => Some(format!("{dir}{}", last.strip_suffix(end).unwrap_or(last))),
        }
    }
}

/// Reports whether a word is parameters and nothing else.
fn is_only_parameters(word: &ShellWord) -> bool {
    let empty = |part: &WordPart| match part {
        WordPart::Text { text, .. } => text.is_empty(),
        other => *other == WordPart::Parameters,
    };
    word.parts.iter().all(empty)
}
