use super::*;
use crate::error::FailureDetail;

fn server(retry_after: Option<Duration>) -> ModelError {
    ModelError::Server { detail: FailureDetail::default(), retry_after }
}

fn limited(retry_after: Option<Duration>) -> ModelError {
    ModelError::RateLimited { detail: FailureDetail::default(), retry_after }
}

/// Returns the pauses before each retry until an endpoint is given up.
fn pauses(error: &ModelError, options: &ModelOptions, retry_limit: RetryLimit) -> Vec<Duration> {
    let pauses =
        (1..).map_while(|attempt| match next_attempt(error, attempt, options, retry_limit) {
            NextAttempt::Again(pause) => Some(pause),
            NextAttempt::Stop => None,
        });
    pauses.collect()
}

#[test]
fn a_busy_provider_is_waited_for_for_minutes() {
    let options = ModelOptions::default();
    let detail = FailureDetail { status: Some(503), ..FailureDetail::default() };
    let loading = ModelError::Server { detail, retry_after: None };
    for error in [limited(None), loading, server(None)] {
        for _ in 0..50 {
            let pauses = pauses(&error, &options, RetryLimit::Long);
            let most = [2, 4, 8, 16, 32, 60, 60, 60].map(Duration::from_secs);
            assert_eq!(pauses.len(), most.len());
            for (pause, most) in pauses.iter().zip(most) {
                assert!((most / 2..=most).contains(pause), "{pauses:?}");
            }
            assert!(pauses.iter().sum::<Duration>() >= Duration::from_mins(2), "{pauses:?}");
        }
    }
}

#[test]
fn what_is_not_busy_and_what_another_can_answer_is_tried_again_for_seconds() {
    let options = ModelOptions::default();
    let detail = FailureDetail { status: Some(500), ..FailureDetail::default() };
    let broken = ModelError::Server { detail, retry_after: None };
    let absent = ModelError::Unreachable { detail: FailureDetail::default() };
    for (error, retry_limit) in [
        (broken, RetryLimit::Long),
        (absent, RetryLimit::Long),
        (limited(None), RetryLimit::Short),
        (server(None), RetryLimit::Short),
    ] {
        for _ in 0..50 {
            let pauses = pauses(&error, &options, retry_limit);
            let most = [500, 1000, 2000].map(Duration::from_millis);
            assert_eq!(pauses.len(), most.len(), "{error}");
            for (pause, most) in pauses.iter().zip(most) {
                assert!(*pause <= most, "{pauses:?}");
            }
        }
    }
}

#[test]
fn a_provider_that_asks_for_a_pause_gets_it_up_to_the_cap() {
    let options = ModelOptions::default();
    let granted = |seconds, retry_limit| match next_attempt(
        &server(Some(Duration::from_secs(seconds))),
        1,
        &options,
        retry_limit,
    ) {
        NextAttempt::Again(pause) => Some(pause),
        NextAttempt::Stop => None,
    };
    for (seconds, retry_limit) in [
        (20, RetryLimit::Short),
        (60, RetryLimit::Short),
        (20, RetryLimit::Long),
        (300, RetryLimit::Long),
    ] {
        let pause = granted(seconds, retry_limit).unwrap();
        let wanted = Duration::from_secs(seconds);
        assert!((wanted..=wanted.mul_f64(1.1)).contains(&pause), "{pause:?}");
    }
    assert_eq!(granted(61, RetryLimit::Short), None);
    assert_eq!(granted(301, RetryLimit::Long), None);
}

#[test]
fn what_cannot_succeed_and_what_was_tried_often_enough_is_not_tried_again() {
    let options = ModelOptions { retries: 2, ..ModelOptions::default() };
    let bad = ModelError::BadRequest { detail: FailureDetail::default() };
    assert_eq!(pauses(&bad, &options, RetryLimit::Long), []);
    for retry_limit in [RetryLimit::Short, RetryLimit::Long] {
        assert_eq!(pauses(&server(None), &options, retry_limit).len(), 2);
    }
}

#[test]
fn a_span_beyond_the_clock_is_a_long_one_and_no_panic() {
    let now = Instant::now();
    assert_eq!(later(now, Duration::from_secs(5)), now + Duration::from_secs(5));
    assert_eq!(later(now, Duration::MAX), now + YEARS);
    let options = ModelOptions { retry_after_cap: Duration::MAX, ..ModelOptions::default() };
    let wanted = server(Some(Duration::MAX / 2));
    assert!(matches!(next_attempt(&wanted, 1, &options, RetryLimit::Long), NextAttempt::Again(_)));
}

#[test]
fn a_wanted_pause_is_read_in_seconds_milliseconds_and_as_a_date() {
    let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    let read = |pairs: &[(&'static str, &str)]| {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().unwrap());
        }
        retry_after(&headers, now)
    };
    assert_eq!(read(&[]), None);
    assert_eq!(read(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
    assert_eq!(read(&[("retry-after", "0.5")]), Some(Duration::from_millis(500)));
    let both = [("retry-after", "7"), ("retry-after-ms", "250")];
    assert_eq!(read(&both), Some(Duration::from_millis(250)));
    let date = read(&[("retry-after", "Fri, 02 Jan 2026 03:04:35 GMT")]);
    assert_eq!(date, Some(Duration::from_secs(30)));
    let past = read(&[("retry-after", "Fri, 02 Jan 2026 03:00:00 GMT")]);
    assert_eq!(past, Some(Duration::ZERO));
    for nonsense in ["-1", "soon", "NaN", "1e300", "inf"] {
        assert_eq!(read(&[("retry-after", nonsense)]), None, "{nonsense}");
    }
}
