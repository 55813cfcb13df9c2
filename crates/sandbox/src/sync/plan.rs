//! What a sync does: decided from two trees and what they agreed on before, without
//! touching either.
//!
//! Each path is looked at by itself, the deepest first, so that a directory knows what
//! will be left in it. What changed on one side goes to the other. What changed on both
//! keeps the name with this machine's version, and the sandbox's is set aside beside it.
//! A deletion yields to a change. So no version is lost that the other side has not
//! had.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use sha2::{Digest as _, Sha256};
use vestal_wire::tree::Stamp;

/// The file, at the top, whose rules say what is left out. It is this machine's alone: a sandbox that
/// could change it would be given what was kept from it.
pub(crate) const IGNORE_FILE: &str = ".vestalignore";

/// What a path is, as far as both sides have to agree on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    Directory,
    File { hash: [u8; 32], executable: bool },
    Link { target: Vec<u8> },
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    /// What it is; the reason where nobody can tell.
    pub(crate) state: Result<State, String>,
    pub(crate) stamp: Stamp,
    pub(crate) mode: u32,
}

/// One of the two trees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) items: BTreeMap<Vec<u8>, Item>,
    /// Directories of which nobody knows what is in them.
    pub(crate) closed: BTreeSet<Vec<u8>>,
    /// Directories with something in them that takes no part.
    pub(crate) holding: BTreeSet<Vec<u8>>,
}

/// What both sides had when they last agreed.
pub(crate) type AgreedStates = BTreeMap<Vec<u8>, State>;

/// Which way changes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SyncDirection {
    /// Both ways.
    Both,
    /// From this machine to the sandbox.
    Out,
}

/// Which of the two trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The one on this machine.
    Here,
    /// The sandbox's.
    There,
}

/// One change of one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyncStep {
    pub(crate) end: End,
    pub(crate) path: Vec<u8>,
    pub(crate) action: SyncAction,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SyncAction {
    /// Gets another name in its directory.
    SetAside {
        name: Vec<u8>,
    },
    Executable {
        hash: [u8; 32],
        executable: bool,
        stamp: Stamp,
    },
    Delete {
        stamp: Stamp,
    },
    RemoveDirectory,
    MakeDirectory {
        mode: u32,
    },
    /// The other side's file is copied, which is as large as this.
    Copy {
        hash: [u8; 32],
        mode: u32,
        mtime_ns: i64,
        size: u64,
        replaces: Option<Stamp>,
    },
    Link {
        target: Vec<u8>,
        replaces: Option<Stamp>,
    },
}

/// Something that people should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Remark {
    /// Changed on both sides: the sandbox's version has another name now.
    Conflict { kept_as: Vec<u8> },
    /// Deleted on one side and changed on the other: it is back.
    Restored,
    /// A link of the sandbox that leads out of the directory.
    LinkOutside,
    /// Left as it is on both sides.
    Unknown { reason: String },
}

/// What is to be done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The changes, in their order.
    pub(crate) steps: Vec<SyncStep>,
    /// What both sides agree on as they are.
    pub(crate) agreed: AgreedStates,
    pub(crate) remarks: Vec<(Vec<u8>, Remark)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Decision {
    Agreed,
    Hold(Option<Remark>),
    /// This side becomes what the other one is.
    Make {
        end: End,
        restored: bool,
    },
    SetAside,
}

/// Decides what a sync does.
pub(crate) fn plan(
    base: &AgreedStates,
    here: &View,
    there: &View,
    direction: SyncDirection,
) -> Plan {
    let paths: BTreeSet<&Vec<u8>> =
        base.keys().chain(here.items.keys()).chain(there.items.keys()).collect();
    let mut planner = Planner { base, here, there, direction, ..Planner::new(base, here, there) };
    for path in paths.iter().rev() {
        let decision = planner.decide(path);
        planner.note_survival(path, &decision);
        planner.decisions.insert(path.as_slice(), decision);
    }
    planner.finish()
}

struct Planner<'a> {
    base: &'a AgreedStates,
    here: &'a View,
    there: &'a View,
    direction: SyncDirection,
    decisions: BTreeMap<&'a [u8], Decision>,
    /// Directories in which something will be, on each side.
    kept_here: HashSet<&'a [u8]>,
    kept_there: HashSet<&'a [u8]>,
}

impl<'a> Planner<'a> {
    fn new(base: &'a AgreedStates, here: &'a View, there: &'a View) -> Self {
        Self {
            base,
            here,
            there,
            direction: SyncDirection::Both,
            decisions: BTreeMap::new(),
            kept_here: HashSet::new(),
            kept_there: HashSet::new(),
        }
    }

    fn decide(&self, path: &[u8]) -> Decision {
        if beneath(path, &self.here.closed) || beneath(path, &self.there.closed) {
            return Decision::Hold(None);
        }
        let (here, there) = (self.here.items.get(path), self.there.items.get(path));
        let unknown =
            [here, there].into_iter().flatten().find_map(|item| item.state.as_ref().err());
        if let Some(reason) = unknown {
            let alone = here.is_none() || there.is_none();
            let remark = Remark::Unknown { reason: reason.clone() };
            // A socket or the like is nobody's business while it is in nobody's way.
            let is_quiet = alone && reason.is_empty();
            return Decision::Hold((!is_quiet).then_some(remark));
        }
        let state = |item: Option<&'a Item>| item.and_then(|item| item.state.as_ref().ok());
        let (here, there, base) = (state(here), state(there), self.base.get(path));
        let first = match self.direction {
            SyncDirection::Both if path != IGNORE_FILE.as_bytes() => both(base, here, there),
            SyncDirection::Both | SyncDirection::Out => out(base, here, there),
        };
        self.mind_contents(path, first, here, there)
    }

    /// A directory that is to go may hold what is to stay.
    fn mind_contents(
        &self,
        path: &[u8],
        first: Decision,
        here: Option<&State>,
        there: Option<&State>,
    ) -> Decision {
        let Decision::Make { end, restored } = first else { return first };
        let (now, wanted, kept, view) = match end {
            End::Here => (here, there, &self.kept_here, self.here),
            End::There => (there, here, &self.kept_there, self.there),
        };
        if end == End::Here
            && let Some(State::Link { target }) = wanted
            && !stays_inside(path, target)
        {
            return Decision::Hold(Some(Remark::LinkOutside));
        }
        let goes = now == Some(&State::Directory) && wanted != Some(&State::Directory);
        if !goes {
            return Decision::Make { end, restored };
        }
        let (is_kept, holds) = (kept.contains(path), view.holding.contains(path));
        match (is_kept, holds, wanted) {
            (false, false, _) => Decision::Make { end, restored },
            (true, _, None) if self.direction == SyncDirection::Both => {
                Decision::Make { end: end.other(), restored: false }
            }
            (_, _, None) => Decision::Hold(None),
            (_, _, Some(_)) => Decision::SetAside,
        }
    }

    fn note_survival(&mut self, path: &'a [u8], decision: &Decision) {
        let Some(parent) = parent(path) else { return };
        let here = self.here.items.contains_key(path);
        let there = self.there.items.contains_key(path);
        let (here, there) = match decision {
            Decision::Agreed | Decision::Hold(_) | Decision::SetAside => (here, there),
            Decision::Make { end: End::Here, .. } => (there, there),
            Decision::Make { end: End::There, .. } => (here, here),
        };
        if here {
            self.kept_here.insert(parent);
        }
        if there {
            self.kept_there.insert(parent);
        }
    }

    fn finish(self) -> Plan {
        let mut plan = Plan::default();
        let mut blocked: [BTreeSet<Vec<u8>>; 2] = Default::default();
        for (path, decision) in &self.decisions {
            let is_directory = |view: &View| {
                view.items.get(*path).is_some_and(|item| item.state == Ok(State::Directory))
            };
            match decision {
                Decision::SetAside => {
                    for end in &mut blocked {
                        end.insert(path.to_vec());
                    }
                }
                Decision::Hold(_) => {
                    for (end, view) in blocked.iter_mut().zip([self.here, self.there]) {
                        if !is_directory(view) {
                            end.insert(path.to_vec());
                        }
                    }
                }
                _ => {}
            }
        }
        let (mut aside, mut modes, mut goes, mut comes) = (vec![], vec![], vec![], vec![]);
        for (path, decision) in &self.decisions {
            match decision {
                Decision::Agreed => {
                    let item = self.here.items.get(*path);
                    if let Some(Ok(state)) = item.map(|item| &item.state) {
                        plan.agreed.insert(path.to_vec(), state.clone());
                    }
                    continue;
                }
                Decision::Hold(remark) => {
                    plan.remarks.extend(remark.clone().map(|remark| (path.to_vec(), remark)));
                }
                Decision::SetAside => {
                    if beneath(path, &blocked[1]) {
                        continue;
                    }
                    let name = self.aside_name(path);
                    let kept_as = crate::sync::join(parent(path).unwrap_or_default(), &name);
                    plan.remarks.push((path.to_vec(), Remark::Conflict { kept_as }));
                    let action = SyncAction::SetAside { name };
                    aside.push(SyncStep { end: End::There, path: path.to_vec(), action });
                }
                Decision::Make { end, restored } => {
                    if beneath(path, &blocked[*end as usize]) {
                        continue;
                    }
                    if *restored {
                        plan.remarks.push((path.to_vec(), Remark::Restored));
                    }
                    self.make(path, *end, &mut modes, &mut goes, &mut comes);
                }
            }
            // What they did not come to agree on is as it was agreed before.
            if let Some(state) = self.base.get(*path) {
                plan.agreed.insert(path.to_vec(), state.clone());
            }
        }
        // What is in a directory goes before it.
        goes.reverse();
        plan.steps = [aside, modes, goes, comes].concat();
        plan
    }

    fn make(
        &self,
        path: &[u8],
        end: End,
        modes: &mut Vec<SyncStep>,
        goes: &mut Vec<SyncStep>,
        comes: &mut Vec<SyncStep>,
    ) {
        let (now, wanted) = match end {
            End::Here => (self.here.items.get(path), self.there.items.get(path)),
            End::There => (self.there.items.get(path), self.here.items.get(path)),
        };
        let step = |action| SyncStep { end, path: path.to_vec(), action };
        let was = now.and_then(|item| Some((item.state.as_ref().ok()?, item.stamp)));
        let Some((state, item)) = wanted.and_then(|item| Some((item.state.as_ref().ok()?, item)))
        else {
            match was {
                Some((State::Directory, _)) => goes.push(step(SyncAction::RemoveDirectory)),
                Some((_, stamp)) => goes.push(step(SyncAction::Delete { stamp })),
                None => {}
            }
            return;
        };
        let replaces = match was {
            Some((State::Directory, _)) if *state == State::Directory => return,
            Some((State::Directory, _)) => {
                goes.push(step(SyncAction::RemoveDirectory));
                None
            }
            Some((_, stamp)) if *state == State::Directory => {
                goes.push(step(SyncAction::Delete { stamp }));
                None
            }
            Some((_, stamp)) => Some(stamp),
            None => None,
        };
        match (state, was) {
            (State::Directory, _) => {
                comes.push(step(SyncAction::MakeDirectory { mode: item.mode }));
            }
            (State::File { hash, executable }, Some((State::File { hash: old, .. }, stamp)))
                if hash == old =>
            {
                modes.push(step(SyncAction::Executable {
                    hash: *hash,
                    executable: *executable,
                    stamp,
                }));
            }
            (State::File { hash, .. }, _) => {
                let Stamp { mtime_ns, size, .. } = item.stamp;
                let mode = item.mode;
                comes.push(step(SyncAction::Copy { hash: *hash, mode, mtime_ns, size, replaces }));
            }
            (State::Link { target }, _) => {
                comes.push(step(SyncAction::Link { target: target.clone(), replaces }));
            }
        }
    }

    /// Returns a name that is free on both sides.
    fn aside_name(&self, path: &[u8]) -> Vec<u8> {
        let mut mark = Sha256::new();
        match self.there.items.get(path).map(|item| (&item.state, item.stamp)) {
            Some((Ok(State::File { hash, .. }), _)) => mark.update(hash),
            Some((Ok(State::Link { target }), _)) => mark.update(target),
            _ => mark.update(path),
        }
        let mark = mark.finalize();
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let directory = parent(path).unwrap_or_default();
        for number in 0_u32.. {
            let mut end = String::from(".conflict-");
            end.extend(mark[..4].iter().map(|byte| format!("{byte:02x}")));
            if number > 0 {
                end.extend(["-".to_owned(), number.to_string()]);
            }
            let kept = shortened(name, 255 - end.len());
            let candidate = [kept, end.as_bytes()].concat();
            let whole = crate::sync::join(directory, &candidate);
            if !self.here.items.contains_key(&whole) && !self.there.items.contains_key(&whole) {
                return candidate;
            }
        }
        Vec::new()
    }
}

impl End {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Here => Self::There,
            Self::There => Self::Here,
        }
    }
}

fn both(base: Option<&State>, here: Option<&State>, there: Option<&State>) -> Decision {
    let to = |end, restored| Decision::Make { end, restored };
    if here == there {
        return Decision::Agreed;
    }
    match (here == base, there == base) {
        (true, _) => to(End::Here, false),
        (_, true) => to(End::There, false),
        (false, false) => match (here, there) {
            (None, _) => to(End::Here, true),
            (_, None) => to(End::There, true),
            // The same bytes are nobody's loss.
            (Some(State::File { hash: one, .. }), Some(State::File { hash: other, .. }))
                if one == other =>
            {
                to(End::There, false)
            }
            _ => Decision::SetAside,
        },
    }
}

fn out(base: Option<&State>, here: Option<&State>, there: Option<&State>) -> Decision {
    if here == there {
        return Decision::Agreed;
    }
    // What was never put there is the sandbox's own.
    if here.is_none() && base.is_none() {
        return Decision::Hold(None);
    }
    Decision::Make { end: End::There, restored: false }
}

/// Returns whether a link leads to nothing but what is in the tree. It may go up as far as
/// the tree's top, and then only down: what is behind another link is not known here.
fn stays_inside(path: &[u8], target: &[u8]) -> bool {
    if target.is_empty() || target[0] == b'/' || target.contains(&0) {
        return false;
    }
    let mut up = path.split(|byte| *byte == b'/').count() - 1;
    let mut is_down = false;
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if is_down || up == 0 => return false,
            b".." => up -= 1,
            _ => is_down = true,
        }
    }
    true
}

fn parent(path: &[u8]) -> Option<&[u8]> {
    path.iter().rposition(|byte| *byte == b'/').map(|at| &path[..at])
}

/// Returns whether any of these directories is above a path.
pub(super) fn beneath(path: &[u8], above: &BTreeSet<Vec<u8>>) -> bool {
    if above.is_empty() {
        return false;
    }
    let mut here = path;
    while let Some(directory) = parent(here) {
        if above.contains(directory) {
            return true;
        }
        here = directory;
    }
    false
}

fn shortened(name: &[u8], most: usize) -> &[u8] {
    if name.len() <= most {
        return name;
    }
    match std::str::from_utf8(name) {
        Ok(text) => &name[..text.floor_char_boundary(most)],
        Err(_) => &name[..most],
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
