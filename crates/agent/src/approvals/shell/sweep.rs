//! What stands for everything in a directory.
//!
//! `find /` and `ls /` print the names of all there is, and whoever gets those
//! as arguments gets the directory.

use super::invocation::{Feed, Invocation};

/// Returns the starting points of a `find` that nothing narrows: what it finds
/// is everything below them.
pub(super) fn found(it: &Invocation<'_>) -> Option<Vec<String>> {
    let is_start = |text: &str| !text.starts_with('-') && !matches!(text, "(" | ")" | "!");
    let mut words =
        it.texts().skip_while(|text| matches!(*text, "-L" | "-H" | "-P") || text.starts_with("-O"));
    let mut starts = Vec::new();
    let mut next = words.next();
    while let Some(text) = next.filter(|text| is_start(text)) {
        starts.push(it.path(text));
        next = words.next();
    }
    if starts.is_empty() {
        starts.push(it.path("."));
    }
    while let Some(text) = next {
        match text {
            "-delete"
            | "-depth"
            | "-d"
            | "-xdev"
            | "-mount"
            | "-print"
            | "-print0"
            | "-ls"
            | "-follow"
            | "-noleaf"
            | "-ignore_readdir_race"
            | "-true"
            | "-a"
            | "-and"
            | "-o"
            | "-or"
            | "("
            | ")" => {}
            "-type" | "-xtype" | "-mindepth" | "-maxdepth" | "-printf" => {
                words.next();
            }
            "-name" | "-iname" | "-path" | "-wholename" => {
                let pattern = words.next()?;
                if !pattern.chars().all(|c| "*?./".contains(c)) {
                    return None;
                }
            }
            // What leaves something out leaves the rest.
            "!" | "-not" => {
                words.next();
                words.next();
            }
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                words.by_ref().find(|word| matches!(*word, ";" | "+"));
            }
            _ => return None,
        }
        next = words.next();
    }
    Some(starts)
}

/// Returns what a command prints if that is the names of everything in a directory.
pub(super) fn printed(it: &Invocation<'_>) -> Option<Feed> {
    let everything = |dirs: Vec<String>| Some(Feed::Everything(dirs.into()));
    match it.program {
        "find" => everything(found(it)?),
        "ls" | "dir" => {
            let mut dirs: Vec<String> =
                it.operands().map(|operand| it.path(&operand.text)).collect();
            if dirs.is_empty() {
                dirs.push(it.path("."));
            }
            everything(dirs)
        }
        // These hand on what they read, or all but some of it.
        "sort" | "uniq" | "tac" | "tr" | "shuf" => Some(it.feed.clone()),
        "grep" | "egrep" | "fgrep" if it.has("v", "invert-match") => Some(it.feed.clone()),
        _ => None,
    }
    .filter(|feed| matches!(feed, Feed::Everything(_)))
}
