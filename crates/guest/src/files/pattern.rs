//! Regular expressions for lines of bytes.
//!
//! A lazy DFA over bytes does the matching: in linear time for any expression, with
//! bounded memory, and without the Unicode tables that would double the size of the
//! guest. Case is folded here, and word characters, digits and spaces are those of
//! ASCII.
//!
//! In a line that is not UTF-8, whatever matches all characters beyond ASCII also
//! matches any byte, so that `caf.` finds a word in Latin-1.

use regex_automata::Input;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{
    Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look,
};
use vestal_tree::{Case, lower, upper};
use vestal_wire::{Fault, FaultCode};

/// Maximum size of the automaton for an expression, in bytes.
const MAX_SIZE: usize = 4 << 20;

/// Memory for the states of an automaton.
const CACHE: usize = 2 << 20;

/// Maximum nesting of an expression; each level is a level of recursion here.
const MAX_NESTING: u32 = 100;

/// Larger classes are case-folded through their complement.
const MANY: u32 = 0x11_0000 / 2;

/// The last character that has another case.
const LAST_CASED: char = '\u{1e943}';

/// Longest expression in bytes.
const MAX_LENGTH: usize = 16 << 10;

/// A compiled expression.
#[derive(Debug)]
pub(super) struct Pattern {
    /// For arbitrary bytes: matches wherever the other does, and more.
    loose: Automaton,
    /// For UTF-8, if that makes a difference.
    strict: Option<Automaton>,
    lines_at_once: bool,
}

impl Pattern {
    /// Compiles an expression. The error describes what is wrong with it.
    pub(super) fn new(expression: &str, case: Case) -> Result<Self, String> {
        if expression.len() > MAX_LENGTH {
            return Err(format!("it is longer than {MAX_LENGTH} bytes"));
        }
        let (expression, case) = match expression.strip_prefix("(?i)") {
            Some(rest) => (rest, Case::Ignored),
            None => (expression, case),
        };
        let hir = ParserBuilder::new()
            .utf8(false)
            .multi_line(true)
            .nest_limit(MAX_NESTING)
            .build()
            .parse(&ascii_classes(expression))
            .map_err(|error| error.to_string())?;
        let anchors = hir.properties().look_set();
        let lines_at_once = ![Look::Start, Look::End, Look::EndLF, Look::StartCRLF, Look::EndCRLF]
            .into_iter()
            .any(|look| anchors.contains(look));
        let strict = adapt(hir.clone(), case, TextKind::Utf8);
        let loose = adapt(hir, case, TextKind::Bytes);
        let differs = strict != loose;
        Ok(Self {
            loose: Automaton::new(&loose)?,
            strict: differs.then(|| Automaton::new(&strict)).transpose()?,
            lines_at_once,
        })
    }

    /// Returns whether many lines can be searched together: whether every match
    /// in a single line is also one when the line is among others.
    pub(super) const fn lines_at_once(&self) -> bool {
        self.lines_at_once
    }

    /// Returns whether a line matches.
    pub(super) fn matches(&mut self, line: &[u8]) -> Result<bool, Fault> {
        let automaton = match &mut self.strict {
            Some(strict) if std::str::from_utf8(line).is_ok() => strict,
            _ => &mut self.loose,
        };
        Ok(automaton.first_end(line, 0)?.is_some())
    }

    /// Returns the end of the match that ends first after `from`, treating the
    /// text as bytes. Nothing before it can match, but the match may not be valid
    /// for UTF-8.
    pub(super) fn first_end(&mut self, text: &[u8], from: usize) -> Result<Option<usize>, Fault> {
        self.loose.first_end(text, from)
    }
}

#[derive(Debug)]
struct Automaton {
    dfa: DFA,
    cache: Cache,
}

impl Automaton {
    fn new(hir: &Hir) -> Result<Self, String> {
        let config = thompson::Config::new()
            .utf8(false)
            .nfa_size_limit(Some(MAX_SIZE))
            .which_captures(WhichCaptures::None);
        let nfa = NFA::compiler()
            .configure(config)
            .build_from_hir(hir)
            .map_err(|error| error.to_string())?;
        let config = DFA::config().cache_capacity(CACHE).skip_cache_capacity_check(true);
        let dfa = DFA::builder()
            .configure(config)
            .build_from_nfa(nfa)
            .map_err(|error| error.to_string())?;
        let cache = dfa.create_cache();
        Ok(Self { dfa, cache })
    }

    fn first_end(&mut self, text: &[u8], from: usize) -> Result<Option<usize>, Fault> {
        let input = Input::new(text).range(from..).earliest(true);
        match self.dfa.try_search_fwd(&mut self.cache, &input) {
            Ok(found) => Ok(found.map(|end| end.offset())),
            // It gives up only if it is configured to.
            Err(error) => Err(Fault::new(FaultCode::Internal, format!("cannot search: {error}"))),
        }
    }
}

/// The kind of text an expression is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextKind {
    Utf8,
    Bytes,
}

/// Replaces Perl classes and word boundaries, which are Unicode-aware in the
/// syntax, by their ASCII versions.
fn ascii_classes(expression: &str) -> String {
    let mut adapted = String::with_capacity(expression.len() + 16);
    let mut chars = expression.chars();
    // A class contains no boundaries, but may contain other classes.
    let mut class_depth = 0_u32;
    while let Some(character) = chars.next() {
        match character {
            '[' => class_depth += 1,
            ']' => class_depth = class_depth.saturating_sub(1),
            '\\' => {
                let escaped = chars.next();
                match escaped {
                    Some('d') => adapted.push_str("[0-9]"),
                    Some('D') => adapted.push_str("[^0-9]"),
                    Some('w') => adapted.push_str("[0-9A-Za-z_]"),
                    Some('W') => adapted.push_str("[^0-9A-Za-z_]"),
                    Some('s') => adapted.push_str(r"[\t\n\x0b\x0c\r ]"),
                    Some('S') => adapted.push_str(r"[^\t\n\x0b\x0c\r ]"),
                    Some(border @ ('b' | 'B' | '<' | '>')) if class_depth == 0 => {
                        adapted.push_str(r"(?-u:\");
                        adapted.push(border);
                        // `\b{start}` and similar names are one token.
                        if ["{start", "{end"].iter().any(|kin| chars.as_str().starts_with(kin)) {
                            let name = chars.as_str().split_inclusive('}').next();
                            adapted.push_str(name.unwrap_or_default());
                            chars = chars.as_str()[name.unwrap_or_default().len()..].chars();
                        }
                        adapted.push(')');
                    }
                    _ => {
                        adapted.push('\\');
                        adapted.extend(escaped);
                    }
                }
                continue;
            }
            _ => {}
        }
        adapted.push(character);
    }
    adapted
}

/// Returns the expression with case folded, and extended for bytes.
fn adapt(hir: Hir, case: Case, text: TextKind) -> Hir {
    match hir.into_kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Look(look) => Hir::look(look),
        HirKind::Literal(literal) => match case {
            Case::Exact => Hir::literal(literal.0),
            Case::Ignored => fold_literal(&literal.0),
        },
        HirKind::Class(Class::Unicode(class)) => {
            let class = match case {
                Case::Exact => class,
                Case::Ignored => fold_class(class),
            };
            match text {
                TextKind::Utf8 => Hir::class(Class::Unicode(class)),
                TextKind::Bytes => widen(class),
            }
        }
        HirKind::Class(Class::Bytes(mut class)) => {
            if case == Case::Ignored {
                class.case_fold_simple();
            }
            Hir::class(Class::Bytes(class))
        }
        HirKind::Repetition(mut repetition) => {
            *repetition.sub = adapt(*repetition.sub, case, text);
            Hir::repetition(repetition)
        }
        HirKind::Capture(capture) => adapt(*capture.sub, case, text),
        HirKind::Concat(parts) => {
            Hir::concat(parts.into_iter().map(|part| adapt(part, case, text)).collect())
        }
        HirKind::Alternation(parts) => {
            Hir::alternation(parts.into_iter().map(|part| adapt(part, case, text)).collect())
        }
    }
}

fn fold_literal(literal: &[u8]) -> Hir {
    let mut parts = Vec::new();
    for chunk in literal.utf8_chunks() {
        parts.extend(chunk.valid().chars().map(|character| {
            Hir::class(Class::Unicode(fold_class(ClassUnicode::new([ClassUnicodeRange::new(
                character, character,
            )]))))
        }));
        if !chunk.invalid().is_empty() {
            parts.push(Hir::literal(chunk.invalid()));
        }
    }
    Hir::concat(parts)
}

/// Adds the other case of every character. For a class with most characters, such
/// as a negated one, the excluded characters are extended instead.
fn fold_class(mut class: ClassUnicode) -> ClassUnicode {
    let count: u32 = class.iter().map(|range| range.end() as u32 - range.start() as u32 + 1).sum();
    let negated = count > MANY;
    if negated {
        class.negate();
    }
    let others = class.iter().flat_map(|range| range.start()..=range.end().min(LAST_CASED));
    let others = others
        .flat_map(|character| {
            [lower(character), upper(character), lower(upper(character))]
                .into_iter()
                .filter(move |other| *other != character)
        })
        .map(|other| ClassUnicodeRange::new(other, other));
    let mut folded = ClassUnicode::new(class.iter().copied().chain(others));
    if negated {
        folded.negate();
    }
    folded
}

/// Lets a class that contains all characters beyond ASCII also match single
/// bytes.
fn widen(class: ClassUnicode) -> Hir {
    let takes_all = class.iter().any(|range| range.start() <= '\u{80}' && range.end() == char::MAX);
    let characters = Hir::class(Class::Unicode(class));
    if !takes_all {
        return characters;
    }
    let bytes = ClassBytes::new([ClassBytesRange::new(0x80, 0xff)]);
    Hir::alternation(vec![characters, Hir::class(Class::Bytes(bytes))])
}

#[cfg(test)]
#[path = "pattern_tests.rs"]
mod tests;
