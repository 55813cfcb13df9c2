//! Arguments that a program gets from what another prints.

use super::expand::{Argument, UNKNOWN};
use super::invocation::Feed;

/// Longest text that `xargs` is thought to make arguments of.
const LONGEST_INPUT: usize = 256;

/// Returns the arguments that `xargs` makes of what it reads.
pub(super) fn read_by_xargs(feed: &Feed) -> Vec<Argument> {
    match feed {
        // It takes quotes off, too.
        Feed::Text(text) if text.len() <= LONGEST_INPUT && !text.contains(['\'', '"', '\\']) => {
            text.split_whitespace().map(Argument::known).collect()
        }
        Feed::Everything(dirs) => {
            let dirs = dirs.iter().map(Argument::known);
            dirs.chain([Argument::unknown()]).collect()
        }
        _ => vec![Argument::unknown()],
    }
}

/// Puts arguments in the place of a mark, or behind all others where there is none.
pub(super) fn filled(words: Vec<Argument>, mark: Option<&str>, more: &[Argument]) -> Vec<Argument> {
    let Some(mark) = mark.filter(|mark| !mark.is_empty()) else {
        return words.into_iter().chain(more.iter().cloned()).collect();
    };
    let fill = |(at, word): (usize, Argument)| {
        if at == 0 && word.text.contains(mark) {
            // The program itself is what is read.
            vec![Argument::unknown()]
        } else if word.text == mark {
            more.to_vec()
        } else if word.text.contains(mark) {
            let known = more.first().filter(|_| more.len() == 1).map(|only| only.text.clone());
            let value = known.unwrap_or_else(|| UNKNOWN.to_string());
            vec![Argument { text: word.text.replace(mark, &value), ..word }]
        } else {
            vec![word]
        }
    };
    words.into_iter().enumerate().flat_map(fill).collect()
}
