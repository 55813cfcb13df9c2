//! What is to be done about a schedule at a time. Pure: the store carries it out.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::moments::Zone;
use crate::schedule::MissedPolicy;
use crate::timing::ScheduleTiming;

/// A moment that is noticed within this time is on time: a gateway that is restarted, or a machine
/// that is busy, misses nothing.
pub(crate) const GRACE: Duration = Duration::from_mins(2);

/// The most missed moments that are counted.
const MAX_COUNTED: u64 = 10_000;

/// What is to be done about a schedule whose next moment has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MomentPlan {
    /// Moments at which nobody was there.
    pub(crate) missed: Option<MissedMoments>,
    /// The moment to run now.
    pub(crate) run: Option<DueRun>,
    /// The next moment.
    pub(crate) next_at: Option<Timestamp>,
}

/// Moments at which nobody was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MissedMoments {
    pub(crate) first: Timestamp,
    pub(crate) count: u64,
}

/// A moment to run now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DueRun {
    pub(crate) due_at: Timestamp,
    pub(crate) is_late: bool,
}

/// Decides about a schedule whose next moment, `due`, is not after `now`.
pub(crate) fn plan(
    timing: &ScheduleTiming,
    anchor: Timestamp,
    zone: &Zone,
    policy: MissedPolicy,
    due: Timestamp,
    now: Timestamp,
) -> MomentPlan {
    let mut last = due;
    let mut earlier: u64 = 0;
    while earlier < MAX_COUNTED
        && let Some(next) = timing.next_after(last, anchor, zone).filter(|next| *next <= now)
    {
        last = next;
        earlier += 1;
    }
    let grace = SignedDuration::try_from(GRACE).unwrap_or_default();
    if earlier == MAX_COUNTED
        && let Ok(recent) = now.checked_sub(grace)
    {
        // Too many to count, as after a clock was set years ahead; the last ones may be on time.
        let first = timing.next_after(recent, anchor, zone);
        let next = |at: &Timestamp| timing.next_after(*at, anchor, zone);
        let moments = std::iter::successors(first, next).take_while(|at| *at <= now);
        last = moments.last().unwrap_or(last);
    }
    let next_at = timing.next_after(now, anchor, zone);
    let is_late = now.duration_since(last) > grace;
    // The last one is missed only if it is late; those before it are in any case.
    let count = earlier + u64::from(is_late);
    let missed = (count > 0).then_some(MissedMoments { first: due, count });
    let runs = !is_late || policy == MissedPolicy::Run;
    let run = runs.then_some(DueRun { due_at: last, is_late });
    MomentPlan { missed, run, next_at }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        format!("2026-02-{text}Z").parse().unwrap()
    }

    fn planned(timing: &str, policy: MissedPolicy, due: &str, now: &str) -> MomentPlan {
        let timing = ScheduleTiming::parse(timing, at(now)).unwrap();
        plan(&timing, at("01T00:00:00"), &Zone::utc(), policy, at(due), at(now))
    }

    fn run(due: &str, is_late: bool) -> DueRun {
        DueRun { due_at: at(due), is_late }
    }

    fn missed(first: &str, count: u64) -> MissedMoments {
        MissedMoments { first: at(first), count }
    }

    #[test]
    fn a_moment_that_has_just_come_is_run() {
        for policy in [MissedPolicy::Run, MissedPolicy::Skip] {
            let plan = planned("0 9 * * *", policy, "10T09:00:00", "10T09:00:01");
            let next_at = Some(at("11T09:00:00"));
            assert_eq!(
                plan,
                MomentPlan { missed: None, run: Some(run("10T09:00:00", false)), next_at }
            );
        }
    }

    #[test]
    fn however_many_were_missed_one_run_makes_up_for_them() {
        let (due, now) = ("10T09:00:00", "13T12:00:00");
        let next_at = Some(at("14T09:00:00"));
        let missed = Some(missed(due, 4));
        let caught_up = planned("0 9 * * *", MissedPolicy::Run, due, now);
        assert_eq!(caught_up, MomentPlan { missed, run: Some(run("13T09:00:00", true)), next_at });
        let skipped = planned("0 9 * * *", MissedPolicy::Skip, due, now);
        assert_eq!(skipped, MomentPlan { missed, run: None, next_at });
    }

    #[test]
    fn the_moment_that_is_on_time_is_run_beside_those_that_were_missed() {
        let plan = planned("* * * * *", MissedPolicy::Skip, "10T09:00:00", "10T09:30:30");
        let next_at = Some(at("10T09:31:00"));
        let missed = Some(missed("10T09:00:00", 30));
        assert_eq!(plan, MomentPlan { missed, run: Some(run("10T09:30:00", false)), next_at });
    }

    #[test]
    fn a_moment_that_comes_once_has_no_next() {
        let plan = planned("at 2026-02-10T09:00", MissedPolicy::Skip, "10T09:00:00", "12T00:00:00");
        assert_eq!(
            plan,
            MomentPlan { missed: Some(missed("10T09:00:00", 1)), run: None, next_at: None }
        );
    }

    #[test]
    fn a_clock_that_jumps_years_ahead_costs_little_and_runs_once() {
        let timing = ScheduleTiming::parse("* * * * *", at("01T00:00:00")).unwrap();
        let now: Timestamp = "2036-02-01T00:00:00Z".parse().unwrap();
        let (anchor, policy) = (at("01T00:00:00"), MissedPolicy::Run);
        let plan = plan(&timing, anchor, &Zone::utc(), policy, at("01T00:01:00"), now);
        assert_eq!(plan.missed.unwrap().count, MAX_COUNTED);
        assert_eq!(plan.run, Some(DueRun { due_at: now, is_late: false }));
        assert!(plan.next_at.unwrap() > now);
    }
}
