//! A compact set of job ids.

use std::collections::HashSet;

use vestal_wire::JobId;

/// Ids in one generation of a ledger.
const GENERATION: usize = 128 << 10;

/// Ids by hash, in two generations of which the older is dropped when the newer
/// is full. It thus remembers at least the last [`GENERATION`] ids.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    recent: HashSet<u64>,
    older: HashSet<u64>,
    overflowed: bool,
}

impl Ledger {
    /// Returns whether the id was added.
    pub(crate) fn contains(&self, id: &JobId) -> bool {
        let hash = hash(id);
        self.recent.contains(&hash) || self.older.contains(&hash)
    }

    /// Returns whether ids were dropped, so that absence proves nothing.
    pub(crate) const fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// Adds an id.
    pub(crate) fn add(&mut self, id: &JobId) {
        self.add_hash(hash(id));
    }

    /// Adds what [`Self::to_bytes`] returned.
    pub(crate) fn add_bytes(&mut self, bytes: &[u8], overflowed: bool) {
        self.overflowed |= overflowed;
        let (hashes, _) = bytes.as_chunks::<8>();
        for hash in hashes {
            self.add_hash(u64::from_le_bytes(*hash));
        }
    }

    /// Returns the hashes, older ones first.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.older.iter().chain(&self.recent).flat_map(|hash| hash.to_le_bytes()).collect()
    }

    fn add_hash(&mut self, hash: u64) {
        if self.recent.len() >= GENERATION {
            self.overflowed |= !self.older.is_empty();
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(hash);
    }
}

/// FNV-1a with a final mix. The standard library's hasher may change from one
/// release to the next, and these hashes are stored.
fn hash(id: &JobId) -> u64 {
    let mut hash = id.as_str().bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: usize) -> JobId {
        format!("job-{n}").parse().unwrap()
    }

    #[test]
    fn ids_are_remembered_and_survive_being_stored() {
        let mut ledger = Ledger::default();
        (0..1000).for_each(|n| ledger.add(&id(n)));
        let mut copy = Ledger::default();
        copy.add_bytes(&ledger.to_bytes(), ledger.overflowed());
        assert!((0..1000).all(|n| copy.contains(&id(n))));
        assert!(!copy.contains(&id(1000)));
        assert!(!copy.overflowed());
    }

    #[test]
    fn a_full_ledger_drops_the_oldest_and_says_so() {
        let mut ledger = Ledger::default();
        (0..2 * GENERATION).for_each(|n| ledger.add(&id(n)));
        assert!(ledger.contains(&id(0)) && !ledger.overflowed());
        ledger.add(&id(2 * GENERATION));
        assert!(!ledger.contains(&id(0)) && ledger.overflowed());
        assert!(ledger.contains(&id(GENERATION)));
    }
}
