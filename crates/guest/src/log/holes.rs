//! Ranges of a stream that could not be written.

/// Most ranges remembered; beyond it neighbours are joined and what lies
/// between them counts as lost.
pub(super) const MAX_HOLES: usize = 16;

/// Disjoint ranges in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Holes(Vec<(u64, u64)>);

impl Holes {
    pub(super) fn from_ranges(ranges: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut holes = Self::default();
        for (from, to) in ranges {
            holes.add(from, to);
        }
        holes
    }

    pub(super) fn ranges(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// Adds a range that does not begin before the last one.
    pub(super) fn add(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        match self.0.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => self.0.push((from, to)),
        }
        if self.0.len() > MAX_HOLES {
            let second = self.0.remove(1);
            self.0[0].1 = second.1;
        }
    }

    /// Forgets what lies before `start`, which is lost anyway.
    pub(super) fn forget_before(&mut self, start: u64) {
        self.0.retain(|hole| hole.1 > start);
    }

    /// Returns how many bytes of `from..to` are in holes.
    pub(super) fn bytes_within(&self, from: u64, to: u64) -> u64 {
        self.0.iter().map(|hole| hole.1.min(to).saturating_sub(hole.0.max(from))).sum()
    }

    /// Returns where the hole that contains `offset` ends.
    pub(super) fn end_of_hole_at(&self, offset: u64) -> Option<u64> {
        self.0.iter().find(|hole| hole.0 <= offset && offset < hole.1).map(|hole| hole.1)
    }

    /// Returns where the first hole after `offset` begins.
    pub(super) fn next_after(&self, offset: u64) -> Option<u64> {
        self.0.iter().find(|hole| hole.0 > offset).map(|hole| hole.0)
    }
}
