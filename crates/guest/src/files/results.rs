//! Gathers the results of a search: passes over, counts, keeps to the limits.

use std::collections::VecDeque;
use std::ops::ControlFlow::{self, Break, Continue};

use vestal_wire::limits::MAX_MESSAGE;
use vestal_wire::{Found, Match, SearchQuery};

use super::lines::Lines;

/// Room for matches in one reply.
const ROOM: usize = MAX_MESSAGE - 1024;

/// Encoded size of a match without its path and text, at most.
const MATCH_OVERHEAD: usize = 32;

/// Most lines around a match, on either side.
const MAX_CONTEXT: usize = 100;

/// The results so far.
#[derive(Debug)]
pub(super) struct Results {
    pub(super) found: Found,
    skip: u64,
    limit: u64,
    context: usize,
    room: usize,
    /// The file that is being looked at.
    path: Vec<u8>,
    /// Lines before the next match.
    before: VecDeque<(u64, Vec<u8>)>,
    /// Lines still wanted after the last match.
    after: usize,
}

impl Results {
    pub(super) fn new(query: &SearchQuery) -> Self {
        let found = Found { matches: Vec::new(), more: false, files: 0, unreadable: 0, binary: 0 };
        Self {
            found,
            skip: query.skip.into(),
            limit: query.limit.into(),
            context: usize::try_from(query.context).unwrap_or(MAX_CONTEXT).min(MAX_CONTEXT),
            room: ROOM,
            path: Vec::new(),
            before: VecDeque::new(),
            after: 0,
        }
    }

    /// Starts with another file.
    pub(super) fn start(&mut self, path: &[u8]) {
        self.path.clear();
        self.path.extend_from_slice(path);
        self.before.clear();
        self.after = 0;
    }

    /// Takes a result; ends the search when one is known to be left over.
    pub(super) fn take(&mut self, line: u64, text: &[u8]) -> ControlFlow<()> {
        if self.skip > 0 {
            self.skip -= 1;
            self.after = 0;
            self.remember(line, text);
            return Continue(());
        }
        let Some(room) = self.room.checked_sub(self.cost(text)).filter(|_| self.limit > 0) else {
            self.found.more = true;
            return Break(());
        };
        self.limit -= 1;
        self.room = room;
        self.put_before();
        self.put(line, text, false);
        self.after = self.context;
        Continue(())
    }

    /// Puts as many of the lines before a match as there is room for, the
    /// nearest ones.
    fn put_before(&mut self) {
        let mut before = std::mem::take(&mut self.before);
        let mut fits = 0;
        for (_, text) in before.iter().rev() {
            let Some(room) = self.room.checked_sub(self.cost(text)) else {
                break;
            };
            self.room = room;
            fits += 1;
        }
        before.drain(..before.len() - fits);
        for (line, text) in before {
            self.put(line, &text, true);
        }
    }

    fn put(&mut self, line: u64, text: &[u8], context: bool) {
        self.found.matches.push(Match {
            path: self.path.clone().into(),
            line,
            text: text.to_vec().into(),
            context,
        });
    }

    fn remember(&mut self, line: u64, text: &[u8]) {
        if self.context == 0 {
            return;
        }
        if self.before.len() == self.context {
            self.before.pop_front();
        }
        self.before.push_back((line, text.to_vec()));
    }

    fn cost(&self, text: &[u8]) -> usize {
        self.path.len() + text.len() + MATCH_OVERHEAD
    }
}

impl Lines for Results {
    fn matched(&mut self, number: u64, text: &[u8]) -> ControlFlow<()> {
        self.take(number, text)
    }

    fn passed(&mut self, number: u64, text: &[u8]) {
        if self.after == 0 {
            self.remember(number, text);
            return;
        }
        self.after -= 1;
        match self.room.checked_sub(self.cost(text)) {
            Some(room) => {
                self.room = room;
                self.put(number, text, true);
            }
            None => self.after = 0,
        }
    }

    fn wants_passed(&self) -> bool {
        self.context > 0
    }
}
