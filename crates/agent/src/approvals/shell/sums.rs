//! Sums, subscripts and names, in which the shell works values out.
//!
//! What it takes for a number it evaluates: a name stands for its value, that for
//! another, and a subscript in any of them is expanded, commands included, quoted
//! or not. So only numbers, and names that are known to hold nothing else, are
//! understood.

use super::expand::{SOME, UNKNOWN};
use super::invocation::ProgramRun;
use super::understand::INDIRECT;
use super::walk::ScriptWalk;
use super::word::{self, InnerText, ShellWord, WordPart, is_name};
use super::{Risk, scan, uses};

/// Variables that the shell sets from what commands are given or read.
const SET_BY_SHELL: [&str; 14] = [
    "_",
    "REPLY",
    "OPTARG",
    "MAPFILE",
    "PWD",
    "OLDPWD",
    "FUNCNAME",
    "BASH_REMATCH",
    "BASH_COMMAND",
    "BASH_EXECUTION_STRING",
    "BASH_ARGV",
    "BASH_ARGV0",
    "BASH_SOURCE",
    "COMP_LINE",
];

/// Operators of `[[ … ]]` whose operands are worked out.
const COMPARES: [&str; 6] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];

/// Reports whether a text is nothing but numbers and signs.
fn is_numeric(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_digit() || c == SOME || " \t\n+-*/%()<>=!&|^~?:,;".contains(c))
}

/// Returns the subscripts that the values of an array are given with, as in `([x]=1)`.
pub(super) fn subscripts(values: &str) -> Vec<String> {
    let begins = |at: usize| at == 0 || values[..at].ends_with(char::is_whitespace);
    let starts = values.match_indices('[').filter(|(at, _)| begins(*at));
    let subscript = |(at, _): (usize, &str)| {
        let rest = &values[at + 1..];
        let end = [rest.find("]="), rest.find("]+=")].into_iter().flatten().min();
        // Without an end it is a pattern, or nothing that is understood.
        rest[..end.unwrap_or(rest.len())].to_owned()
    };
    starts.map(subscript).collect()
}

impl ScriptWalk<'_> {
    /// Notes what a variable is set to: a value that is not a number may run
    /// something where it is taken for one.
    pub(super) fn suspect(&mut self, name: &str, value: &str) {
        if !is_numeric(value) {
            self.suspects.insert(name.to_owned());
        }
    }

    /// Reports whether a variable holds nothing but a number, or was never set
    /// by this conversation.
    fn is_number(&self, name: &str) -> bool {
        !self.suspects.contains(name)
            && !self.path_context.suspects.contains(name)
            && !SET_BY_SHELL.contains(&name)
    }

    /// Looks at what happens in something whose value is not worked out.
    pub(super) fn inner(&mut self, inner: &InnerText, depth: usize) {
        for body in &inner.bodies {
            self.aside(body, true, depth);
        }
        for name in &inner.assigned {
            self.assigns_unknown(name);
        }
        for sum in &inner.sums {
            self.sum(sum, depth);
        }
        if inner.indirect {
            self.find(INDIRECT, Risk::Dangerous, "${…}".to_owned(), false);
        }
    }

    /// Asks about a sum unless it is one of numbers.
    pub(super) fn sum(&mut self, text: &str, depth: usize) {
        if !self.spend(text, depth) {
            return;
        }
        if !self.is_numeric_sum(text, depth + 1) {
            let form: String = text.chars().take(200).collect();
            self.find(INDIRECT, Risk::Dangerous, form, false);
        }
    }

    /// Reports whether a sum is one of numbers; looks at the commands in it.
    fn is_numeric_sum(&mut self, text: &str, depth: usize) -> bool {
        let bytes = text.as_bytes();
        let mut understood = true;
        let mut at = 0;
        while at < bytes.len() {
            let begin = at;
            match bytes[at] {
                b'0'..=b'9' => {
                    at += count(&bytes[at..], |b| {
                        b.is_ascii_alphanumeric() || matches!(b, b'#' | b'@' | b'_')
                    });
                }
                b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                    at += count(&bytes[at..], |b| b.is_ascii_alphanumeric() || b == b'_');
                    let name = &text[begin..at];
                    // A sum can set what it names.
                    understood &= self.is_number(name) && !uses::decides_what_runs(name, "0");
                }
                b'"' => at += 1,
                b'$' | b'`' => {
                    let read = word::read_expansion(text, at);
                    let Ok((word, end)) = read else {
                        self.inner(&word::inner(&text[at..]), depth);
                        return false;
                    };
                    // A `$` that begins nothing is not a number.
                    let text = matches!(word.parts.as_slice(), [WordPart::Text { .. }]);
                    understood &= !text && self.is_numeric_word(&word, depth);
                    at = end.max(at + 1);
                }
                _ => {
                    let length = scan::char_len(text, at).max(1);
                    understood &= is_numeric(&text[at..at + length]);
                    at += length;
                }
            }
        }
        understood
    }

    /// Reports whether a word can only be a number; looks at the commands in it.
    fn is_numeric_word(&mut self, word: &ShellWord, depth: usize) -> bool {
        let mut understood = true;
        for part in &word.parts {
            understood &= match part {
                WordPart::Text { text, .. } => self.is_numeric_sum(text, depth),
                WordPart::Variable { name, fallback, .. } => {
                    self.is_number(name) && fallback.as_deref().is_none_or(is_numeric)
                }
                WordPart::Command { body, .. } => {
                    let printed = self.aside(body, true, depth);
                    printed.plain || printed.text.is_some_and(|text| is_numeric(&text))
                }
                WordPart::Process { body } => {
                    self.aside(body, true, depth);
                    false
                }
                WordPart::Parameters => false,
                WordPart::Opaque(inner) => {
                    self.inner(inner, depth);
                    inner.number
                }
            };
        }
        understood
    }

    /// Looks at what stands between `[[` and `]]`.
    pub(super) fn test(&mut self, words: &[ShellWord], depth: usize) {
        let is = |at: usize, operators: &[&str]| {
            words.get(at).and_then(ShellWord::bare).is_some_and(|text| operators.contains(&text))
        };
        for (at, word) in words.iter().enumerate() {
            let compared = is(at + 1, &COMPARES) || at > 0 && is(at - 1, &COMPARES);
            let named = at > 0 && is(at - 1, &["-v", "-R"]);
            if compared {
                if !self.is_numeric_word(word, depth) {
                    self.find(INDIRECT, Risk::Dangerous, "[[ … ]]".to_owned(), false);
                }
                continue;
            }
            let expanded = self.expand(word, depth);
            if named && !expanded.iter().all(|word| is_plain_name(&word.text)) {
                self.find(INDIRECT, Risk::Dangerous, "[[ -v … ]]".to_owned(), false);
            }
        }
    }

    /// Asks about the shell's own commands where they are given names or sums
    /// that run something.
    pub(super) fn names(&mut self, it: &ProgramRun<'_>, depth: usize) {
        let texts: Vec<&str> = it.texts().collect();
        let plain = |name: &&str| {
            is_plain_name(name.split('=').next().unwrap_or_default().trim_end_matches('+'))
        };
        let understood = match it.program {
            "let" => {
                for text in &texts {
                    self.sum(text, depth);
                }
                true
            }
            "declare" | "typeset" | "local" | "export" | "readonly" => {
                let (options, names): (Vec<&str>, Vec<&str>) =
                    texts.iter().partition(|text| text.starts_with(['-', '+']));
                let known = |option: &&str| {
                    option[1..].chars().all(|letter| "xrgaApfFult".contains(letter))
                };
                options.iter().all(known) && names.iter().all(plain)
            }
            "unset" => texts.iter().all(|text| matches!(*text, "-v" | "-f") || plain(text)),
            "read" => {
                let line = super::uses::read_line(it.arguments, "-rse -adinNptu:");
                line.is_some_and(|line| {
                    let arrays = line.values(&["a"]).map(|array| array.text);
                    line.words().into_iter().chain(arrays).all(|name| plain(&name))
                })
            }
            "mapfile" | "readarray" => {
                let line = super::uses::read_line(it.arguments, "-t -dnOsuc:");
                line.is_some_and(|line| line.words().iter().all(plain))
            }
            "printf" => match texts.first() {
                Some(first) if first.starts_with("-v") => {
                    let joined = Some(&first[2..]).filter(|name| !name.is_empty());
                    joined.or(texts.get(1).copied()).is_some_and(|name| plain(&name))
                }
                Some(first) => !it.arguments[0].splits && !first.starts_with(UNKNOWN),
                None => true,
            },
            "getopts" => texts.get(1).is_none_or(plain),
            "wait" => !texts.iter().any(|text| text.starts_with("-p")),
            "test" | "[" => {
                let named =
                    texts.windows(2).all(|pair| !matches!(pair[0], "-v" | "-R") || plain(&pair[1]));
                // One word may become two: the operator and its operand.
                let alone = texts.iter().filter(|text| **text != "]").count() == 1;
                named && !(alone && it.arguments.iter().any(|word| word.splits))
            }
            _ => true,
        };
        if !understood {
            self.asks(INDIRECT, it);
        }
    }
}

fn count(bytes: &[u8], is: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| is(**byte)).count()
}

/// Reports whether a text names a variable, or an element by its number.
fn is_plain_name(text: &str) -> bool {
    let (name, subscript) = text.split_once('[').map_or((text, None), |(n, s)| (n, Some(s)));
    let numeric = |subscript: &str| {
        subscript.strip_suffix(']').is_some_and(|index| index.bytes().all(|b| b.is_ascii_digit()))
    };
    is_name(name) && subscript.is_none_or(numeric)
}
