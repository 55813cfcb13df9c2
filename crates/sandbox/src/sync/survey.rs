//! What is in a tree now: what changed is listed and hashed anew, and the rest is known
//! from before.

use std::collections::{BTreeMap, BTreeSet};

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use vestal_wire::tree::{
    ContentHash, HashedFile, KnownDirectory, Listing, ListingDigest, Stamp, TEMPORARY, TreeItem,
    TreePath, TreeRoot, framed, is_temporary,
};
use vestal_wire::{FileKind, TreeOp};

use super::carry_out::Meter;
use super::end::{TreeEnd, shortened};
use super::join;
use super::plan::{Item, State, View};
use super::run::SyncError;
use crate::ProgressSink;
use crate::files::is_name;

/// Most files and directories of a tree that is synced.
pub(crate) const MAX_ENTRIES: usize = if cfg!(test) { 20_000 } else { 1_000_000 };

/// Most bytes of their paths and of the targets of links: what is kept of a tree.
const MAX_PATH_BYTES: usize = if cfg!(test) { 8 << 20 } else { 512 << 20 };

/// How long before a look a file must have been changed for a later change to show in
/// its times: clocks of filesystems go by ticks.
const TICK_NS: i64 = 100_000_000;

/// A directory, as it was listed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct KnownListing {
    #[n(0)]
    pub(crate) path: ByteVec,
    #[n(1)]
    digest: ListingDigest,
    #[n(2)]
    ignored: u64,
    #[n(3)]
    entries: Vec<KnownEntry>,
    #[n(4)]
    temporary: Vec<ByteVec>,
    /// Why it cannot be read.
    #[n(5)]
    unreadable: Option<String>,
    /// Whether it is on another filesystem than the root, if that is known.
    #[n(6)]
    is_mounted: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
struct KnownEntry {
    #[n(0)]
    name: ByteVec,
    #[n(1)]
    kind: FileKind,
    #[n(2)]
    mode: u32,
    #[n(3)]
    stamp: Stamp,
    #[n(4)]
    target: Option<ByteVec>,
    /// Of a file in this state, if it was read.
    #[n(5)]
    hash: Option<ContentHash>,
}

/// All of a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TreeSurvey {
    listings: BTreeMap<Vec<u8>, KnownListing>,
    /// Why a file has no hash.
    unread: BTreeMap<Vec<u8>, String>,
}

/// A survey, and how it came about.
pub(crate) struct SurveyedTree {
    pub(crate) root: TreeRoot,
    pub(crate) survey: TreeSurvey,
    /// Whether anything is not as it was known.
    pub(crate) changed: bool,
    /// Directories where another filesystem is than before, or none any more.
    pub(crate) remounted: BTreeSet<Vec<u8>>,
}

impl TreeSurvey {
    pub(crate) fn of(listings: Vec<KnownListing>) -> Self {
        let listings =
            listings.into_iter().map(|listing| (listing.path.to_vec(), listing)).collect();
        Self { listings, unread: BTreeMap::new() }
    }

    /// Returns what may be relied on the next time.
    pub(crate) fn into_listings(self, root: &TreeRoot) -> Vec<KnownListing> {
        let mut listings: Vec<KnownListing> = self.listings.into_values().collect();
        for entry in listings.iter_mut().flat_map(|listing| &mut listing.entries) {
            // It could change once more at the same time as its times tell.
            if entry.stamp.ctime_ns >= root.now_ns.saturating_sub(TICK_NS) {
                entry.hash = None;
            }
        }
        listings
    }

    /// Looks at a tree. What is known spares listing and hashing it again.
    pub(crate) async fn take(
        self,
        end: &TreeEnd,
        ignore: &[u8],
        progress: &ProgressSink,
    ) -> Result<SurveyedTree, SyncError> {
        let (mut input, mut output) =
            end.open(TreeOp::Scan { ignore: ignore.to_vec().into() }).await?;
        let known = &self.listings;
        let asking = async move {
            let mut batch = Vec::new();
            for listing in known.values().filter(|listing| listing.unreadable.is_none()) {
                let KnownListing { path, digest, .. } = listing;
                let record = KnownDirectory { path: path.clone(), digest: *digest };
                batch.extend(framed(&record)?);
                if batch.len() > 32 << 10 && !input.write(std::mem::take(&mut batch)).await {
                    return Ok::<(), SyncError>(());
                }
            }
            if batch.is_empty() || input.write(batch).await {
                input.end();
            }
            Ok(())
        };
        let answers = async {
            let Some(root) = output.record::<TreeRoot>().await? else {
                return Err(output.violated("a tree without a root"));
            };
            let mut listed: Vec<Listing> = Vec::new();
            let (mut count, mut bytes) = (0, 0);
            while let Some(mut listing) = output.record::<Listing>().await? {
                listing.unreadable = listing.unreadable.map(shortened);
                count += listing.entries.len() + listing.temporary.len() + 1;
                bytes += path_bytes(&listing);
                if count > MAX_ENTRIES || bytes > MAX_PATH_BYTES {
                    return Err(SyncError::TooMany);
                }
                if !is_possible(&listing) {
                    return Err(output.violated("a listing that cannot be one"));
                }
                match listed.last_mut() {
                    Some(last) if last.more => {
                        if last.path != listing.path || last.digest != listing.digest {
                            return Err(output.violated("a listing that breaks off"));
                        }
                        last.more = listing.more;
                        last.entries.extend(listing.entries);
                    }
                    _ => listed.push(listing),
                }
            }
            Ok((root, listed))
        };
        let (asked, answered) = tokio::join!(asking, answers);
        let (root, listed) = answered?;
        asked?;
        let changed = !listed.is_empty();
        let remounted = self.remounted(&listed);
        let mut survey = self.updated(listed)?;
        let hashed = survey.hash(end, progress).await?;
        Ok(SurveyedTree { root, survey, changed: changed || hashed, remounted })
    }

    /// Returns which of these directories are not on the filesystem that they were on. What was
    /// in them is somewhere else then, and was not deleted.
    fn remounted(&self, listed: &[Listing]) -> BTreeSet<Vec<u8>> {
        let is_other = |listing: &&Listing| {
            let before = self.listings.get(listing.path.as_slice());
            let before = before.and_then(|before| before.is_mounted);
            before.zip(listing.is_mounted).is_some_and(|(before, now)| before != now)
        };
        listed.iter().filter(is_other).map(|listing| listing.path.to_vec()).collect()
    }

    fn updated(mut self, listed: Vec<Listing>) -> Result<Self, SyncError> {
        for Listing { path, digest, entries, ignored, unreadable, temporary, is_mounted, .. } in
            listed
        {
            let known = self.listings.get(path.as_slice());
            let is_mounted = is_mounted.or(known.and_then(|known| known.is_mounted));
            let known: BTreeMap<&[u8], &KnownEntry> = known
                .into_iter()
                .flat_map(|listing| &listing.entries)
                .map(|entry| (entry.name.as_slice(), entry))
                .collect();
            let entries = entries
                .into_iter()
                .map(|entry| {
                    let before = known.get(entry.name.as_slice());
                    let same = before
                        .filter(|before| before.stamp == entry.stamp && before.kind == entry.kind);
                    KnownEntry {
                        hash: same.and_then(|same| same.hash),
                        name: entry.name,
                        kind: entry.kind,
                        mode: entry.mode,
                        stamp: entry.stamp,
                        target: entry.target,
                    }
                })
                .collect();
            let temporary = temporary.into_iter().collect();
            let path_of = path.to_vec();
            let listing =
                KnownListing { path, digest, ignored, entries, temporary, unreadable, is_mounted };
            self.listings.insert(path_of, listing);
        }
        // What is no directory any more is not known any more.
        let mut reached = BTreeSet::from([Vec::new()]);
        let mut open = vec![Vec::new()];
        let mut count = 0;
        while let Some(path) = open.pop() {
            let Some(listing) = self.listings.get(&path) else { continue };
            count += listing.entries.len();
            if count > MAX_ENTRIES {
                return Err(SyncError::TooMany);
            }
            for entry in listing.entries.iter().filter(|entry| entry.kind == FileKind::Directory) {
                let below = join(&path, &entry.name);
                reached.insert(below.clone());
                open.push(below);
            }
        }
        self.listings.retain(|path, _| reached.contains(path));
        self.unread.clear();
        Ok(self)
    }

    /// Reads the files that have no hash. Returns whether any has got one.
    async fn hash(&mut self, end: &TreeEnd, progress: &ProgressSink) -> Result<bool, SyncError> {
        let missing: Vec<(Vec<u8>, usize)> = self
            .listings
            .iter()
            .flat_map(|(path, listing)| {
                let entries = listing.entries.iter().enumerate();
                entries
                    .filter(|(_, entry)| entry.kind == FileKind::File && entry.hash.is_none())
                    .map(|(at, _)| (path.clone(), at))
            })
            .collect();
        if missing.is_empty() {
            return Ok(false);
        }
        let paths: Vec<Vec<u8>> = missing
            .iter()
            .map(|(directory, at)| join(directory, &self.listings[directory].entries[*at].name))
            .collect();
        let (mut input, mut output) = end.open(TreeOp::Hash).await?;
        let asking = async {
            for path in &paths {
                let record = TreePath { path: path.clone().into(), offset: 0, end: None };
                if !input.write(framed(&record)?).await {
                    return Ok::<(), SyncError>(());
                }
            }
            input.end();
            Ok(())
        };
        let mut meter = Meter::new(progress, end.compared(), 0);
        let sizes: Vec<u64> = missing
            .iter()
            .map(|(directory, at)| self.listings[directory].entries[*at].stamp.size)
            .collect();
        meter.total = sizes.iter().sum();
        let answers = async {
            let mut hashed = Vec::new();
            while let Some(mut file) = output.record::<HashedFile>().await? {
                let Some(size) = sizes.get(hashed.len()) else {
                    return Err(output.violated("more hashes than were asked for"));
                };
                meter.count(1, *size);
                file.error = file.error.map(shortened);
                hashed.push(file);
            }
            if hashed.len() == paths.len() {
                Ok(hashed)
            } else {
                Err(output.violated("fewer hashes than were asked for"))
            }
        };
        let (asked, answered) = tokio::join!(asking, answers);
        let hashed = answered?;
        asked?;
        let mut is_known_better = false;
        for (((directory, at), path), HashedFile { hash, stamp, error }) in
            missing.into_iter().zip(paths).zip(hashed)
        {
            let Some(listing) = self.listings.get_mut(&directory) else { continue };
            let entry = &mut listing.entries[at];
            if hash.is_some() && stamp == entry.stamp {
                entry.hash = hash;
                is_known_better = true;
            } else {
                let error = error.unwrap_or_else(|| "it changes while it is read".to_owned());
                self.unread.insert(path, error);
            }
        }
        Ok(is_known_better)
    }

    /// Returns the tree as it is compared with the other one.
    pub(crate) fn view(&self) -> View {
        let mut view = View::default();
        for (path, listing) in &self.listings {
            if listing.unreadable.is_some() {
                view.closed.insert(path.clone());
            }
            if listing.ignored > 0 {
                view.holding.insert(path.clone());
            }
            for entry in &listing.entries {
                let whole = join(path, &entry.name);
                let state = match (entry.kind, &entry.hash, &entry.target) {
                    (FileKind::Directory, ..) => {
                        if !self.listings.contains_key(&whole) {
                            view.closed.insert(whole.clone());
                        }
                        Ok(State::Directory)
                    }
                    (FileKind::File, Some(hash), _) => {
                        Ok(State::File { hash: **hash, executable: entry.mode & 0o100 != 0 })
                    }
                    (FileKind::Symlink, _, Some(target)) => {
                        Ok(State::Link { target: target.to_vec() })
                    }
                    (FileKind::File, None, _) => {
                        Err(self.unread.get(&whole).cloned().unwrap_or_default())
                    }
                    // A socket, a pipe, a device.
                    _ => Err(String::new()),
                };
                let KnownEntry { stamp, mode, .. } = *entry;
                view.items.insert(whole, Item { state, stamp, mode });
            }
        }
        view
    }

    /// Returns what interrupted changes left behind.
    pub(crate) fn temporary(&self) -> Vec<Vec<u8>> {
        let of = |(path, listing): (&Vec<u8>, &KnownListing)| -> Vec<Vec<u8>> {
            let ours = listing.temporary.iter().filter(|name| is_temporary(name));
            ours.map(|name| join(path, name)).collect()
        };
        self.listings.iter().flat_map(of).collect()
    }

    /// Returns whether nothing at all is in it.
    pub(crate) fn is_empty(&self) -> bool {
        let root = self.listings.get(&b""[..]);
        root.is_some_and(|root| root.entries.is_empty() && root.ignored == 0)
    }
}

/// Returns how many bytes the paths of a listing take.
fn path_bytes(listing: &Listing) -> usize {
    let of = |entry: &TreeItem| {
        entry.name.len() + entry.target.as_ref().map_or(0, |target| target.len())
    };
    let names: usize = listing.entries.iter().map(of).sum();
    names + listing.path.len() * (listing.entries.len() + listing.temporary.len() + 1)
}

/// Returns whether a listing can be one: its bytes are the other side's.
fn is_possible(listing: &Listing) -> bool {
    let is_path = listing.path.is_empty()
        || (listing.path.len() <= 4095 && listing.path.split(|byte| *byte == b'/').all(is_name));
    let is_sorted = listing.entries.windows(2).all(|pair| pair[0].name < pair[1].name);
    let has_targets = listing.entries.iter().all(|entry| {
        entry
            .target
            .as_ref()
            .is_none_or(|target| !target.is_empty() && target.len() <= 4095 && !target.contains(&0))
    });
    let is_leftover = |name: &ByteVec| is_name(name) && name.starts_with(TEMPORARY);
    is_path
        && is_sorted
        && has_targets
        && listing.entries.iter().all(|entry| is_name(&entry.name))
        && !listing.entries.iter().any(|entry| is_temporary(&entry.name))
        && listing.temporary.iter().all(is_leftover)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(path: &str, is_mounted: Option<bool>) -> Listing {
        Listing {
            path: path.as_bytes().to_vec().into(),
            digest: [1; 16].into(),
            entries: Vec::new(),
            ignored: 0,
            more: false,
            unreadable: None,
            temporary: Vec::new(),
            is_mounted,
        }
    }

    fn known(path: &str, is_mounted: Option<bool>) -> KnownListing {
        let Listing { path, digest, .. } = listing(path, None);
        let (entries, temporary) = (Vec::new(), Vec::new());
        KnownListing { path, digest, ignored: 0, entries, temporary, unreadable: None, is_mounted }
    }

    #[test]
    fn a_directory_that_is_on_another_filesystem_than_before_is_reported() {
        let before = TreeSurvey::of(vec![
            known("disk", Some(true)),
            known("plain", Some(false)),
            known("old-guest", None),
            known("same", Some(true)),
        ]);
        let now = [
            listing("disk", Some(false)),
            listing("plain", Some(true)),
            listing("old-guest", Some(true)),
            listing("same", Some(true)),
            listing("new", Some(true)),
        ];
        let expected = BTreeSet::from([b"disk".to_vec(), b"plain".to_vec()]);
        assert_eq!(before.remounted(&now), expected);
    }
}
