//! The state machine once more, as plainly as it can be said: no store, no
//! events, counters recounted each time. The board is held against it.

use std::collections::{BTreeMap, BTreeSet};

use vestal_board::{BlockKind, Initial, RunId, Status, TaskId};

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Person,
    Dispatcher,
    /// The worker that holds the task, or held it last.
    Holder,
    /// A worker that held the task before that.
    Stale,
}

/// What is asked about a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Claim,
    Complete,
    Submit,
    RequestChanges,
    Block(Option<BlockKind>),
    /// Until a moment, or not.
    Schedule(bool),
    Unblock,
    /// By force, or not.
    Promote(bool),
    Reclaim,
    Reopen,
    Archive,
    Delete,
    Assign,
    Crash,
    TakeBack,
}

/// A task, as far as the model knows it.
#[expect(clippy::struct_excessive_bools, reason = "a model is plain, not compact")]
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) status: Status,
    pub(crate) parents: BTreeSet<TaskId>,
    pub(crate) needs_review: bool,
    pub(crate) holder: Option<RunId>,
    pub(crate) runs: Vec<RunId>,
    /// Whether its holder reviews the work, or did when it stopped.
    looking: bool,
    pub(crate) gate: bool,
    /// Whether it goes on by itself at some moment.
    pub(crate) timed: bool,
    last_block: Option<BlockKind>,
    blocks: u32,
    crashes: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) tasks: BTreeMap<TaskId, Known>,
}

fn finished(status: Status) -> bool {
    matches!(status, Status::Done | Status::Archived)
}

impl Model {
    pub(crate) fn pending(&self, id: &TaskId) -> usize {
        let unfinished = |parent: &&TaskId| !finished(self.tasks[*parent].status);
        self.tasks[id].parents.iter().filter(unfinished).count()
    }

    /// Reports whether `from` is `to`, or waits for it.
    fn waits_for(&self, from: &TaskId, to: &TaskId) -> bool {
        from == to || self.tasks[from].parents.iter().any(|parent| self.waits_for(parent, to))
    }

    pub(crate) fn create(
        &mut self,
        id: &TaskId,
        parents: BTreeSet<TaskId>,
        initial: Initial,
        needs_review: bool,
    ) {
        let blocked = initial == Initial::Blocked;
        let known = Known {
            status: Status::Ready,
            parents,
            needs_review,
            holder: None,
            runs: Vec::new(),
            looking: false,
            gate: blocked,
            timed: matches!(initial, Initial::At(_)),
            last_block: blocked.then_some(BlockKind::Gate),
            blocks: 0,
            crashes: 0,
        };
        self.tasks.insert(id.clone(), known);
        let status = match (initial, self.pending(id)) {
            (Initial::Blocked, _) => Status::Blocked,
            (Initial::Triage, _) => Status::Triage,
            (Initial::At(_), _) => Status::Scheduled,
            (Initial::Queue, 0) => Status::Ready,
            (Initial::Queue, _) => Status::Todo,
        };
        self.set(id, status);
    }

    fn set(&mut self, id: &TaskId, status: Status) {
        self.tasks.get_mut(id).unwrap().status = status;
    }

    pub(crate) fn link(&mut self, parent: &TaskId, child: &TaskId) -> bool {
        if self.waits_for(parent, child) {
            return false;
        }
        let unfinished = !finished(self.tasks[parent].status);
        let known = self.tasks.get_mut(child).unwrap();
        if known.parents.insert(parent.clone()) && unfinished && known.status == Status::Ready {
            known.status = Status::Todo;
            known.timed = false;
        }
        true
    }

    pub(crate) fn unlink(&mut self, parent: &TaskId, child: &TaskId) -> bool {
        if !self.tasks.get_mut(child).unwrap().parents.remove(parent) {
            return false;
        }
        self.free(child);
        true
    }

    fn free(&mut self, child: &TaskId) {
        if self.tasks[child].status == Status::Todo && self.pending(child) == 0 {
            self.set(child, Status::Ready);
        }
    }

    /// Everything whose moment has come continues.
    pub(crate) fn wake(&mut self) {
        let timed: Vec<TaskId> =
            self.tasks.iter().filter(|(_, task)| task.timed).map(|(id, _)| id.clone()).collect();
        for id in timed {
            let status = self.tasks[&id].status;
            let next = match status {
                Status::Scheduled | Status::Blocked => self.back(&id),
                other => other,
            };
            self.tasks.get_mut(&id).unwrap().timed = false;
            self.set(&id, next);
        }
    }

    /// Where a task goes that can continue.
    fn back(&self, id: &TaskId) -> Status {
        let task = &self.tasks[id];
        let was_looked_at = match task.status {
            Status::Review => true,
            Status::Running | Status::Blocked | Status::Scheduled | Status::Triage => task.looking,
            _ => false,
        };
        match (was_looked_at, self.pending(id)) {
            (true, _) => Status::Review,
            (false, 0) => Status::Ready,
            (false, _) => Status::Todo,
        }
    }

    /// Does what is asked. Returns whether it is allowed; where it is not,
    /// nothing happens.
    pub(crate) fn does(&mut self, who: Who, verb: Verb, id: &TaskId) -> bool {
        let before = self.tasks[id].clone();
        if !Self::may(who, verb, &before) {
            return false;
        }
        let Some(next) = self.next(who, verb, id) else { return false };
        if verb == Verb::Delete {
            self.tasks.remove(id);
            for task in self.tasks.values_mut() {
                task.parents.remove(id);
            }
            return true;
        }
        let looking = match before.status {
            Status::Review => true,
            Status::Running | Status::Blocked | Status::Scheduled | Status::Triage => {
                before.looking
            }
            _ => false,
        };
        self.effects(verb, id, next, looking);
        self.family(id, before.status, next);
        true
    }

    fn may(who: Who, verb: Verb, task: &Known) -> bool {
        let of_worker = matches!(
            verb,
            Verb::Complete
                | Verb::Submit
                | Verb::RequestChanges
                | Verb::Block(_)
                | Verb::Schedule(_)
        );
        let guarded = matches!(verb, Verb::Claim) && task.timed;
        let behind_gate = task.gate
            && matches!(verb, Verb::Schedule(_) | Verb::Unblock | Verb::Promote(_) | Verb::Archive);
        match who {
            Who::Person => true,
            Who::Dispatcher => !guarded && !behind_gate,
            Who::Holder => of_worker && task.holder.is_some(),
            Who::Stale => false,
        }
    }

    /// Where a verb leads.
    fn next(&self, who: Who, verb: Verb, id: &TaskId) -> Option<Status> {
        use Status::{Archived, Blocked, Done, Ready, Review, Running, Scheduled, Todo, Triage};
        let task = &self.tasks[id];
        let status = task.status;
        let asleep = task.timed && matches!(status, Ready | Review);
        let pending = self.pending(id) > 0;
        let by_worker = who == Who::Holder;
        match verb {
            Verb::Claim => matches!(status, Ready | Review).then_some(Running),
            Verb::Complete if matches!(status, Running | Ready | Blocked | Review) => {
                let submitted = by_worker && task.needs_review && !task.looking;
                Some(if submitted { Review } else { Done })
            }
            Verb::Submit if status == Running => (!task.looking).then_some(Review),
            Verb::Submit => matches!(status, Ready | Blocked).then_some(Review),
            Verb::RequestChanges => {
                let looked_at = status == Review || (status == Running && task.looking);
                looked_at.then_some(if pending { Todo } else { Ready })
            }
            Verb::Block(kind) => {
                if !matches!(status, Todo | Scheduled | Ready | Running | Review) {
                    return None;
                }
                match kind {
                    Some(BlockKind::GaveUp) => None,
                    Some(BlockKind::Dependency) => pending.then_some(Todo),
                    Some(BlockKind::Gate) => (who == Who::Person).then_some(Blocked),
                    Some(BlockKind::Transient) if self.in_a_row(id, kind) >= 5 => Some(Triage),
                    Some(BlockKind::Transient) => Some(Blocked),
                    _ if self.in_a_row(id, kind) >= 2 => Some(Triage),
                    _ => Some(Blocked),
                }
            }
            Verb::Schedule(_) => {
                matches!(status, Todo | Scheduled | Ready | Running | Blocked | Review)
                    .then_some(Scheduled)
            }
            Verb::Unblock => {
                let waits = matches!(status, Blocked | Scheduled) || status == Triage && task.gate;
                (waits || asleep).then(|| self.back(id))
            }
            Verb::Promote(force) => {
                if !matches!(status, Triage | Todo | Blocked | Scheduled) && !asleep {
                    return None;
                }
                if pending && !force && !matches!(status, Triage | Review) {
                    return None;
                }
                let back = self.back(id);
                Some(if back == Todo && force { Ready } else { back })
            }
            Verb::Reclaim | Verb::TakeBack => (status == Running).then(|| self.back(id)),
            Verb::Crash if status == Running && task.crashes >= 1 => Some(Blocked),
            Verb::Crash => (status == Running).then(|| self.back(id)),
            Verb::Reopen if finished(status) => Some(if pending { Todo } else { Ready }),
            Verb::Archive => (status != Archived).then_some(Archived),
            Verb::Delete => (status == Archived).then_some(Archived),
            Verb::Assign => (!matches!(status, Running | Archived)).then_some(status),
            Verb::Complete | Verb::Reopen => None,
        }
    }

    fn in_a_row(&self, id: &TaskId, kind: Option<BlockKind>) -> u32 {
        let task = &self.tasks[id];
        if task.last_block == kind { task.blocks + 1 } else { 1 }
    }

    fn effects(&mut self, verb: Verb, id: &TaskId, next: Status, looking: bool) {
        let in_a_row = match verb {
            Verb::Block(kind) => self.in_a_row(id, kind),
            _ => 0,
        };
        let task = self.tasks.get_mut(id).unwrap();
        let was = task.status;
        task.status = next;
        task.looking = looking;
        if verb == Verb::Assign {
            task.timed &= !matches!(was, Status::Ready | Status::Review);
            task.crashes = 0;
            return;
        }
        task.holder = None;
        task.gate = false;
        task.timed = false;
        match verb {
            Verb::Block(kind) => {
                task.last_block = kind;
                task.blocks = match kind {
                    Some(BlockKind::Dependency | BlockKind::Gate) => 0,
                    _ => in_a_row,
                };
                let transient = kind == Some(BlockKind::Transient) && next == Status::Blocked;
                task.timed = transient;
                task.gate = !transient && kind != Some(BlockKind::Dependency);
            }
            Verb::Schedule(timed) => task.timed = timed,
            Verb::Crash if next == Status::Blocked => {
                task.gate = true;
                task.last_block = Some(BlockKind::GaveUp);
                task.blocks = 0;
                task.crashes += 1;
            }
            Verb::Crash => {
                task.crashes += 1;
                task.timed = next != Status::Todo;
            }
            Verb::Claim | Verb::TakeBack => {}
            Verb::Unblock | Verb::Promote(_) | Verb::Reopen => {
                task.crashes = 0;
                if matches!(was, Status::Triage | Status::Done | Status::Archived) {
                    task.blocks = 0;
                }
            }
            _ => task.crashes = 0,
        }
    }

    fn family(&mut self, id: &TaskId, before: Status, after: Status) {
        let waiting = |task: &Known| task.parents.contains(id);
        let children: Vec<TaskId> =
            self.tasks.iter().filter(|(_, task)| waiting(task)).map(|(id, _)| id.clone()).collect();
        for child in children {
            match (finished(before), finished(after)) {
                (false, true) => self.free(&child),
                (true, false) if self.tasks[&child].status == Status::Ready => {
                    self.set(&child, Status::Todo);
                    self.tasks.get_mut(&child).unwrap().timed = false;
                }
                _ => {}
            }
        }
    }
}
