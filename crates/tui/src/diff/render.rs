//! A diff as lines for the screen.

use std::ops::Range;

use super::parse::{Part, parse};
use super::words::changed;
use crate::style::{self, Style};
use crate::text::{Line, Span};

/// Returns a unified diff as it is shown: for each file its path and how many lines
/// came and went, then the lines with their numbers, the words that differ marked.
/// At most `max_lines` lines are shown below a path; a last line says how many more
/// there are.
///
/// A line stays one line, however wide the terminal is.
pub fn render(unified: &str, max_lines: usize) -> Vec<Line> {
    let parts = parse(unified);
    let mut shown = Vec::new();
    for file in files(&parts) {
        let (head, body) = match file {
            [Part::File(path), body @ ..] => (Some(header(path, body)), body),
            body => (None, body),
        };
        shown.extend(head);
        let digits = body.iter().filter_map(number).max().unwrap_or(0).to_string().len();
        let visible = &body[..body.len().min(max_lines)];
        shown.extend(lines(visible, digits));
        let hidden = body.len() - visible.len();
        if hidden > 0 {
            let lines = if hidden == 1 { "line" } else { "lines" };
            shown.push(Line::styled(format!("… {hidden} more {lines}"), style::DIM));
        }
    }
    shown
}

/// Returns the parts of each file; what comes before the first one is by itself.
fn files<'p, 'd>(parts: &'p [Part<'d>]) -> impl Iterator<Item = &'p [Part<'d>]> {
    parts.chunk_by(|_, next| !matches!(next, Part::File(_)))
}

fn header(path: &str, body: &[Part<'_>]) -> Line {
    let added = body.iter().filter(|part| matches!(part, Part::Added(..))).count();
    let removed = body.iter().filter(|part| matches!(part, Part::Removed(..))).count();
    let mut line = Line::styled(path, style::BOLD);
    line.push(Span::plain(" ("));
    line.push(Span::new(format!("+{added}"), style::GREEN));
    line.push(Span::plain(" "));
    line.push(Span::new(format!("-{removed}"), style::RED));
    line.push(Span::plain(")"));
    line
}

fn number(part: &Part<'_>) -> Option<usize> {
    match part {
        Part::Kept(number, _) | Part::Removed(number, _) | Part::Added(number, _) => Some(*number),
        Part::File(_) | Part::Gap | Part::Remark(_) => None,
    }
}

fn lines(parts: &[Part<'_>], digits: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut rest = parts;
    while let Some(part) = rest.first() {
        let removed = count(rest, |part| matches!(part, Part::Removed(..)));
        let added = count(&rest[removed..], |part| matches!(part, Part::Added(..)));
        if removed + added == 0 {
            lines.push(line(part, &[], digits));
            rest = &rest[1..];
            continue;
        }
        // Where as many lines came as went, each took the place of another.
        let (old, new) = rest[..removed + added].split_at(removed);
        let pairs: Vec<_> = if removed == added {
            old.iter().zip(new).map(|(old, new)| changed(text(old), text(new))).collect()
        } else {
            Vec::new()
        };
        for (at, part) in old.iter().enumerate() {
            let marked = pairs.get(at).and_then(Option::as_ref).map(|(old, _)| &old[..]);
            lines.push(line(part, marked.unwrap_or_default(), digits));
        }
        for (at, part) in new.iter().enumerate() {
            let marked = pairs.get(at).and_then(Option::as_ref).map(|(_, new)| &new[..]);
            lines.push(line(part, marked.unwrap_or_default(), digits));
        }
        rest = &rest[removed + added..];
    }
    lines
}

fn count(parts: &[Part<'_>], of: impl Fn(&Part<'_>) -> bool) -> usize {
    parts.iter().take_while(|part| of(part)).count()
}

fn text<'d>(part: &Part<'d>) -> &'d str {
    match part {
        Part::Kept(_, text)
        | Part::Removed(_, text)
        | Part::Added(_, text)
        | Part::File(text)
        | Part::Remark(text) => text,
        Part::Gap => "",
    }
}

fn line(part: &Part<'_>, marked: &[Range<usize>], digits: usize) -> Line {
    let (number, mark, style) = match part {
        Part::Kept(number, _) => (number, ' ', style::PLAIN),
        Part::Removed(number, _) => (number, '-', style::RED),
        Part::Added(number, _) => (number, '+', style::GREEN),
        Part::Gap => return Line::styled(format!("{:>digits$}", "⋮"), style::DIM),
        Part::File(text) | Part::Remark(text) => return Line::styled(text, style::DIM),
    };
    let mut line = Line::styled(format!("{number:>digits$} "), style::DIM);
    line.push(Span::new(format!("{mark} "), style));
    words(&mut line, text(part), marked, style);
    line
}

/// Adds a text, with parts of it marked.
fn words(line: &mut Line, text: &str, marked: &[Range<usize>], style: Style) {
    let mut from = 0;
    for part in marked {
        line.push(Span::new(&text[from..part.start], style));
        line.push(Span::new(&text[part.clone()], style.bold().underline()));
        from = part.end;
    }
    line.push(Span::new(&text[from..], style));
}
