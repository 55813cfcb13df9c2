//! Private keys, which take many lines.

use super::find::{Hit, Kind};

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END";

/// Headers that stand in a key before its body.
const HEADERS: [&str; 5] = ["Proc-Type:", "DEK-Info:", "Version:", "Comment:", "Hash:"];

/// Where a text is: inside a key or not. It outlives the text, for the next piece.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct State {
    inside: bool,
}

/// Finds the bodies of private keys, line by line.
pub(super) fn find(text: &str, state: &mut State) -> Vec<Hit> {
    let mut hits = Vec::new();
    if !state.inside && !text.contains(BEGIN) {
        return hits;
    }
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        line_of(line, start, state, &mut hits);
        start += line.len();
    }
    hits
}

fn line_of(line: &str, start: usize, state: &mut State, hits: &mut Vec<Hit>) {
    let mut at = 0;
    loop {
        if !state.inside {
            let Some(after) = begins(&line[at..]) else { return };
            at += after;
            state.inside = true;
        }
        let rest = &line[at..];
        if let Some(end) = rest.find(END) {
            push(&rest[..end], start + at, hits);
            state.inside = false;
            at += end + END.len();
            continue;
        }
        // Right after its first line anything is the key; a line of its own must look like it.
        if at > 0 {
            let length = rest.find(['"', '\'']).unwrap_or(rest.len());
            push(&rest[..length], start + at, hits);
            state.inside = length == rest.len();
        } else if is_body(rest) {
            push(rest, start + at, hits);
        } else {
            state.inside = false;
        }
        return;
    }
}

/// Returns where the text after the first line of a private key begins.
fn begins(text: &str) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = text[from..].find(BEGIN).map(|at| from + at) {
        let name = at + BEGIN.len();
        let length = text[name..].find("-----");
        let is_key = |label: &str| {
            label.contains("PRIVATE KEY") && label.len() < 64 && !label.contains(['"', '\''])
        };
        if let Some(length) = length.filter(|length| is_key(&text[name..name + length])) {
            return Some(name + length + 5);
        }
        from = name;
    }
    None
}

/// Reports whether a line can be part of a key.
fn is_body(line: &str) -> bool {
    let line = line.trim().trim_start_matches(['+', '>', '#', '|', '*', ' ', '\t', '"', '\'']);
    let line = line.trim_start_matches("- ");
    if line.is_empty() || HEADERS.iter().any(|header| line.starts_with(header)) {
        return true;
    }
    let line = line.trim_end_matches(['"', '\'', ',', '\\', ';', ' ', '+']);
    let line = line.trim_end_matches("\\n");
    super::mask::is_mask(line)
        || line.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='))
}

/// Adds what is not blank of a part of a line.
fn push(part: &str, start: usize, hits: &mut Vec<Hit>) {
    let trimmed = part.trim();
    if trimmed.is_empty() || matches!(trimmed, "\"" | "'" | "\\n" | "\\n\\") {
        return;
    }
    let from = start + (part.len() - part.trim_start().len());
    hits.push(Hit { range: from..from + trimmed.len(), kind: Kind::PrivateKey });
}
