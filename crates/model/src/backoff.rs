//! When a failed call is tried again.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::HeaderMap;
use tokio::time::Instant;

use crate::error::ModelError;
use crate::models::Options;

/// Longer than anybody waits.
const YEARS: Duration = Duration::from_hours(24 * 365 * 30);

/// What follows a failed attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another attempt, after a pause.
    Again(Duration),
    /// None at this endpoint.
    Stop,
}

/// Decides what follows after the `attempt`th attempt (from 1) failed.
pub(crate) fn next(error: &ModelError, attempt: u32, options: &Options) -> Next {
    if !error.is_retryable() || attempt > options.retries {
        return Next::Stop;
    }
    match error.retry_after() {
        Some(wanted) if wanted > options.retry_after_cap => Next::Stop,
        // Not all who were told the same shall come back in the same moment.
        Some(wanted) => Next::Again(wanted.saturating_add(wanted.mul_f64(fastrand::f64() / 10.0))),
        None => Next::Again(ceiling(attempt, options).mul_f64(fastrand::f64())),
    }
}

/// Returns the longest pause after the `attempt`th attempt.
fn ceiling(attempt: u32, options: &Options) -> Duration {
    let doubled = 2_u32.saturating_pow(attempt.saturating_sub(1));
    options.backoff_base.saturating_mul(doubled).min(options.backoff_cap)
}

/// Returns the moment that lies so far ahead; what no clock can tell is years.
pub(crate) fn later(now: Instant, ahead: Duration) -> Instant {
    now.checked_add(ahead).unwrap_or(now + YEARS)
}

/// Returns how long the provider wants to be left alone.
pub(crate) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let header = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(millis) = header("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(millis / 1000.0).ok();
    }
    let text = header("retry-after")?;
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    // A moment that has passed asks for no pause.
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
#[path = "backoff_tests.rs"]
mod tests;
