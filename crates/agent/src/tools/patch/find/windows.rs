//! Runs of lines that are the same but for what does not count.

use std::borrow::Cow;

use crate::tools::files::Lines;

/// The places where a run of lines is found.
pub(super) struct Windows {
    starts: Vec<usize>,
}

impl Windows {
    /// Finds the places where all lines have the same key as the wanted ones.
    pub(super) fn by(
        lines: &Lines<'_>,
        wanted: &[&str],
        key: impl for<'k> Fn(&'k str) -> Cow<'k, str>,
    ) -> Self {
        let wanted: Vec<Cow<'_, str>> = wanted.iter().map(|line| key(line)).collect();
        // Blank lines are everywhere; what they surround is looked for.
        let Some(first) = wanted.iter().position(|line| !line.is_empty()) else {
            return Self { starts: Vec::new() };
        };
        let fits = |start: usize| {
            key(lines.get(start + first)) == wanted[first]
                && wanted.iter().enumerate().all(|(n, line)| key(lines.get(start + n)) == *line)
        };
        let count = (lines.len() + 1).saturating_sub(wanted.len());
        Self { starts: (0..count).filter(|start| fits(*start)).collect() }
    }

    /// Returns the first line of each place.
    pub(super) fn starts(&self) -> impl Iterator<Item = usize> {
        self.starts.iter().copied()
    }
}
