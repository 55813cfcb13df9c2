use super::*;
use crate::error::Detail;

fn server(retry_after: Option<Duration>) -> ModelError {
    ModelError::Server { detail: Detail::default(), retry_after }
}

#[test]
fn pauses_are_jittered_below_a_ceiling_that_doubles_up_to_a_cap() {
    let options = Options { retries: 99, ..Options::default() };
    for (attempt, most) in [(1, 500), (2, 1000), (3, 2000), (7, 30_000), (40, 30_000)] {
        assert_eq!(ceiling(attempt, &options), Duration::from_millis(most));
        for _ in 0..50 {
            let Next::Again(pause) = next(&server(None), attempt, &options) else {
                panic!("no other attempt");
            };
            assert!(pause <= Duration::from_millis(most), "{pause:?}");
        }
    }
}

#[test]
fn a_provider_that_asks_for_a_pause_gets_it_up_to_the_cap() {
    let options = Options::default();
    let Next::Again(pause) = next(&server(Some(Duration::from_secs(20))), 1, &options) else {
        panic!("no other attempt");
    };
    assert!((20.0..=22.0).contains(&pause.as_secs_f64()), "{pause:?}");
    assert_eq!(next(&server(Some(Duration::from_secs(61))), 1, &options), Next::Stop);
}

#[test]
fn what_cannot_succeed_and_what_was_tried_often_enough_is_not_tried_again() {
    let options = Options { retries: 2, ..Options::default() };
    let bad = ModelError::BadRequest { detail: Detail::default() };
    assert_eq!(next(&bad, 1, &options), Next::Stop);
    assert!(matches!(next(&server(None), 2, &options), Next::Again(_)));
    assert_eq!(next(&server(None), 3, &options), Next::Stop);
}

#[test]
fn a_span_no_clock_can_tell_is_a_long_one_and_no_panic() {
    let now = Instant::now();
    assert_eq!(later(now, Duration::from_secs(5)), now + Duration::from_secs(5));
    assert_eq!(later(now, Duration::MAX), now + YEARS);
    let options = Options { retry_after_cap: Duration::MAX, ..Options::default() };
    assert!(matches!(next(&server(Some(Duration::MAX / 2)), 1, &options), Next::Again(_)));
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
