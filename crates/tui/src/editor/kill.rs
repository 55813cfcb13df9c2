//! What was cut out, to be put in elsewhere.

use std::collections::VecDeque;

use super::buffer::Direction;
use super::fragment::Fragment;

/// How many are kept.
const MOST: usize = 32;

/// What was killed, the newest first.
#[derive(Debug, Default)]
pub(super) struct KillRing {
    kept: VecDeque<Fragment>,
    /// Which one was put in last.
    turned: usize,
}

impl KillRing {
    /// Keeps what was killed: with what was killed just before, when it belongs to
    /// that.
    pub(super) fn keep(&mut self, killed: &Fragment, direction: Direction, belongs: bool) {
        self.turned = 0;
        match (self.kept.front_mut(), direction) {
            (Some(last), Direction::Back) if belongs => last.push_front(killed),
            (Some(last), Direction::Forth) if belongs => last.push(killed),
            _ => self.kept.push_front(killed.clone()),
        }
        self.kept.truncate(MOST);
    }

    /// Returns what was killed last.
    pub(super) fn newest(&mut self) -> Option<Fragment> {
        self.turned = 0;
        self.kept.front().cloned()
    }

    /// Returns what was killed before the one that was returned last, and after the
    /// oldest the newest again.
    pub(super) fn older(&mut self) -> Option<Fragment> {
        self.turned = (self.turned + 1).checked_rem(self.kept.len())?;
        self.kept.get(self.turned).cloned()
    }
}
