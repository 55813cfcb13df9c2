//! What is going on, counted for each cap.

use std::collections::BTreeMap;

use super::policy::{Caps, Policy};
use super::repair;
use super::result::CappedBy;
use super::snapshot::{Snapshot, Watched};
use crate::task::LaneKey;

/// The cap that holds a task back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    Profile,
    Other(CappedBy),
}

/// What is going on, and what a plan adds to it. Each run is counted once, for
/// every cap alike, so that no cap is held against what another already is.
#[derive(Debug, Clone)]
pub(super) struct Load {
    caps: Caps,
    global: u64,
    host: u64,
    board: u64,
    profiles: BTreeMap<String, u64>,
    tenants: BTreeMap<String, u64>,
    /// Workers by profile, and by profile and tenant: whose turn it is. What
    /// people claimed counts for the caps, but takes nobody's turn.
    turns: BTreeMap<String, u64>,
    tenant_turns: BTreeMap<(String, String), u64>,
}

impl Load {
    /// Counts what goes on when the repairs are done.
    pub(super) fn of(snapshot: &Snapshot, policy: &Policy) -> Self {
        let mut load = Self {
            caps: policy.caps,
            global: snapshot.outside.running,
            host: snapshot.outside.running_here,
            board: 0,
            profiles: BTreeMap::new(),
            tenants: BTreeMap::new(),
            turns: BTreeMap::new(),
            tenant_turns: BTreeMap::new(),
        };
        for watched in &snapshot.runs {
            if repair::takes_slot(watched, snapshot.now, policy) {
                load.count(watched, policy);
            }
        }
        load
    }

    fn count(&mut self, watched: &Watched, policy: &Policy) {
        let (run, task) = (&watched.run, watched.task.as_ref());
        // Whoever claims a task by hand does the work of the profile that it waits for.
        let waits_for = task.and_then(|task| task.profile_for(run.role));
        let profile = run.profile.as_ref().or(waits_for).map_or("", |name| name.as_str());
        let tenant = task.and_then(|task| task.tenant.as_deref()).unwrap_or_default();
        self.global += 1;
        self.board += 1;
        self.host += u64::from(run.host.as_ref() == Some(&policy.host));
        *self.profiles.entry(profile.to_owned()).or_default() += 1;
        *self.tenants.entry(tenant.to_owned()).or_default() += 1;
        if run.host.is_some() {
            self.take_turn(profile, tenant);
        }
    }

    /// Counts a worker that is to be started.
    pub(super) fn start(&mut self, lane: &LaneKey) {
        self.global += 1;
        self.board += 1;
        self.host += 1;
        *self.profiles.entry(lane.profile.clone()).or_default() += 1;
        *self.tenants.entry(lane.tenant.clone()).or_default() += 1;
        self.take_turn(&lane.profile, &lane.tenant);
    }

    /// Counts a worker that is to be started on another board.
    pub(super) fn start_elsewhere(&mut self) {
        self.global += 1;
        self.host += 1;
    }

    /// Returns how many workers the board has.
    pub(super) fn workers(&self) -> u64 {
        self.turns.values().sum()
    }

    fn take_turn(&mut self, profile: &str, tenant: &str) {
        *self.turns.entry(profile.to_owned()).or_default() += 1;
        *self.tenant_turns.entry((profile.to_owned(), tenant.to_owned())).or_default() += 1;
    }

    /// Returns how many workers a profile has.
    pub(super) fn turns_of(&self, profile: &str) -> u64 {
        self.turns.get(profile).copied().unwrap_or_default()
    }

    /// Returns how many workers a profile has for a tenant.
    pub(super) fn tenant_turns_of(&self, lane: &LaneKey) -> u64 {
        let key = (lane.profile.clone(), lane.tenant.clone());
        self.tenant_turns.get(&key).copied().unwrap_or_default()
    }

    /// Each cap that concerns a lane and what it counts, in the order in which
    /// they are named as the reason. Tasks of no tenant are nobody's share.
    fn each(&self, lane: &LaneKey) -> [(Limit, Option<u32>, u64); 5] {
        let of = |counts: &BTreeMap<String, u64>, name: &str| counts.get(name).copied();
        let profile = of(&self.profiles, &lane.profile).unwrap_or_default();
        let tenant = of(&self.tenants, &lane.tenant).unwrap_or_default();
        let tenant_cap = self.caps.tenant.filter(|_| !lane.tenant.is_empty());
        [
            (Limit::Profile, self.caps.profile, profile),
            (Limit::Other(CappedBy::Tenant), tenant_cap, tenant),
            (Limit::Other(CappedBy::Board), self.caps.board, self.board),
            (Limit::Other(CappedBy::Global), self.caps.global, self.global),
            (Limit::Other(CappedBy::Host), self.caps.host, self.host),
        ]
    }

    /// Returns the first cap that lets nothing of a lane be started, and how
    /// many it counts.
    pub(super) fn limit(&self, lane: &LaneKey) -> Option<(Limit, u64)> {
        self.each(lane)
            .into_iter()
            .find(|(_, cap, count)| cap.is_some_and(|cap| *count >= u64::from(cap)))
            .map(|(limit, _, count)| (limit, count))
    }

    /// Returns how many of a lane could be started; none: as many as there are.
    pub(super) fn free(&self, lane: &LaneKey) -> Option<u64> {
        let free = self.each(lane).into_iter();
        free.filter_map(|(_, cap, count)| cap.map(|cap| u64::from(cap).saturating_sub(count))).min()
    }
}
