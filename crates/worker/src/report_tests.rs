use std::time::Duration;

use vestal_model::Detail;

use super::*;

fn failed(error: ModelError) -> Resolution {
    Resolution::from_turn(&TurnOutcome::Failed(TurnError::Model(error)))
}

#[test]
fn a_provider_that_lets_it_do_no_more_is_no_failure_of_the_task() {
    let limited = || ModelError::RateLimited { detail: Detail::default(), retry_after: None };
    let quota = ModelError::Quota { detail: Detail::default() };
    let wrong_key = || ModelError::Authentication { detail: Detail::default() };
    for error in
        [limited(), quota, ModelError::Exhausted { failures: vec![wrong_key(), limited()] }]
    {
        let resolution = failed(error);
        assert!(matches!(resolution, Resolution::End(Outcome::RateLimited, _)), "{resolution:?}");
        assert_eq!(resolution.exit().code(), 75);
    }
}

#[test]
fn what_only_a_person_can_mend_waits_for_one_and_what_passes_is_tried_again() {
    let resolution = failed(ModelError::Authentication { detail: Detail::default() });
    assert!(matches!(resolution, Resolution::Block(BlockKind::Capability, _)), "{resolution:?}");
    let after = Duration::from_secs(1);
    let resolution = failed(ModelError::Timeout { detail: Detail::default(), after });
    assert!(matches!(resolution, Resolution::Block(BlockKind::Transient, _)), "{resolution:?}");
    assert_eq!(resolution.exit().code(), 10);
}

#[test]
fn one_answer_that_makes_no_sense_is_tried_again_and_waits_for_nobody() {
    let resolution = failed(ModelError::Protocol { detail: Detail::default() });
    assert!(matches!(resolution, Resolution::Block(BlockKind::Transient, _)), "{resolution:?}");
}

#[test]
fn every_end_has_a_code_of_its_own() {
    let all = [
        WorkerExit::Done,
        WorkerExit::Waiting,
        WorkerExit::Failed,
        WorkerExit::Quota,
        WorkerExit::NoReport,
        WorkerExit::Lost,
        WorkerExit::TimedOut,
        WorkerExit::Terminated,
    ];
    let codes = all.map(WorkerExit::code);
    assert_eq!(codes, [0, 10, 70, 75, 76, 77, 124, 143]);
}

#[test]
fn a_turn_that_ends_without_a_report_says_why() {
    for outcome in [
        TurnOutcome::Completed,
        TurnOutcome::BudgetExhausted,
        TurnOutcome::Looping { reason: "the same call again and again".to_owned() },
    ] {
        let resolution = Resolution::from_turn(&outcome);
        assert!(matches!(resolution, Resolution::End(Outcome::NoReport, _)), "{resolution:?}");
        assert_eq!(resolution.exit().code(), 76);
    }
}
