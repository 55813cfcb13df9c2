//! The restart policy with an injected clock.

use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// Runs a child that always ends in the same way after `ran`, and returns the delays.
fn delays(ended: ChildEnd, ran: Duration, times: usize) -> Vec<u64> {
    let (mut policy, mut now) = (RestartPolicy::default(), Duration::ZERO);
    let mut delays = Vec::new();
    for _ in 0..times {
        policy.started(now);
        now += ran;
        let NextStep::Start { after } = policy.ended(now, ended, PlannedOrder::Nothing) else {
            panic!("it stays down");
        };
        now += after;
        delays.push(after.as_secs());
    }
    delays
}

#[test]
fn a_child_that_fails_at_once_is_started_after_one_second_and_then_ever_later() {
    let delays = delays(ChildEnd::Code(1), Duration::ZERO, 14);
    assert_eq!(delays, [1, 2, 4, 5, 5, 5, 10, 20, 40, 80, 160, 300, 300, 300]);
}

#[test]
fn a_child_that_asks_for_a_restart_gets_it_at_once_but_no_storm() {
    let delays = delays(ChildEnd::Code(EXIT_RESTART), Duration::ZERO, 9);
    assert_eq!(delays, [0, 0, 0, 0, 0, 5, 10, 20, 40]);
}

#[test]
fn a_child_that_runs_long_enough_is_well_again() {
    assert_eq!(delays(ChildEnd::Signal(9), 120 * SECOND, 4), [1, 1, 1, 1]);
}

#[test]
fn a_permanent_failure_stays_down_and_a_planned_end_is_what_was_planned() {
    for ended in [
        ChildEnd::Code(0),
        ChildEnd::Code(1),
        ChildEnd::Code(75),
        ChildEnd::Code(78),
        ChildEnd::Signal(9),
    ] {
        let mut policy = RestartPolicy::default();
        policy.started(Duration::ZERO);
        assert_eq!(policy.clone().ended(SECOND, ended, PlannedOrder::Stop), NextStep::Stopped);
        let at_once = NextStep::Start { after: Duration::ZERO };
        assert_eq!(policy.clone().ended(SECOND, ended, PlannedOrder::Restart), at_once);
        let held = policy.ended(SECOND, ended, PlannedOrder::Nothing) == NextStep::Held;
        assert_eq!(held, ended == ChildEnd::Code(EXIT_PERMANENT));
    }
}

fn any_end() -> impl Strategy<Value = ChildEnd> {
    prop_oneof![
        (0..=255_i32).prop_map(ChildEnd::Code),
        Just(ChildEnd::Code(EXIT_RESTART)),
        (1..=31_i32).prop_map(ChildEnd::Signal),
        Just(ChildEnd::NotReady),
        Just(ChildEnd::NotStarted),
    ]
}

proptest! {
    /// Whatever a child does, it is never started so often that it is a load, and never given up.
    #[test]
    fn starts_are_rare_in_a_storm_and_never_given_up(
        runs in prop::collection::vec((any_end(), 0_u64..200_000), 1..200)
    ) {
        let (mut policy, mut now) = (RestartPolicy::default(), Duration::ZERO);
        let mut starts: Vec<Duration> = Vec::new();
        let mut before = Duration::ZERO;
        for (ended, ran) in runs {
            policy.started(now);
            starts.push(now);
            let ran = Duration::from_millis(ran);
            now += ran;
            match policy.ended(now, ended, PlannedOrder::Nothing) {
                NextStep::Held => {
                    prop_assert_eq!(ended, ChildEnd::Code(EXIT_PERMANENT));
                    before = Duration::ZERO;
                    // Somebody asks for it, later.
                    now += 200 * SECOND;
                }
                NextStep::Start { after } => {
                    prop_assert!(after <= LONGEST);
                    if ended != ChildEnd::Code(EXIT_RESTART) {
                        prop_assert!(after >= FIRST_DELAY);
                        // Delays only grow until the child ran well.
                        prop_assert!(after >= before || ran >= WINDOW, "{:?} {:?}", after, before);
                    }
                    before = if ran >= WINDOW { after } else { before.max(after) };
                    now += after;
                }
                NextStep::Stopped => prop_assert!(false, "nobody asked for a stop"),
            }
        }
        // Six starts make a storm, which adds five seconds before each further one: 6 + 120 / 5.
        for (index, start) in starts.iter().enumerate() {
            let within = starts[index..].iter().take_while(|later| later.saturating_sub(*start) < WINDOW);
            prop_assert!(within.count() <= 30);
        }
    }
}
