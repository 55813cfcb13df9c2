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

/// How long an endpoint is asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// For seconds: another endpoint can be asked, or somebody only wants to look.
    Short,
    /// For minutes where the provider is busy: there is no other endpoint.
    Long,
}

/// Times that what is no sign of a busy provider is tried again: a server that
/// is not there, or breaks off, is seldom another one a minute later.
const FEW: u32 = 3;

/// So many times longer are the pauses for a provider that is busy.
const BUSY: u32 = 4;

/// The longest pause that is granted to a provider while another can be asked.
const SHORT_PAUSE: Duration = Duration::from_mins(1);

/// Decides what follows after the `attempt`th attempt (from 1) failed.
pub(crate) fn next(
    error: &ModelError,
    attempt: u32,
    options: &Options,
    patience: Patience,
) -> Next {
    let is_waited_for = patience == Patience::Long && error.is_busy();
    let retries = if is_waited_for { options.retries } else { options.retries.min(FEW) };
    if !error.is_retryable() || attempt > retries {
        return Next::Stop;
    }
    let granted = match patience {
        Patience::Short => options.retry_after_cap.min(SHORT_PAUSE),
        Patience::Long => options.retry_after_cap,
    };
    match error.retry_after() {
        Some(wanted) if wanted > granted => Next::Stop,
        // Not all who were told the same shall come back in the same moment.
        Some(wanted) => Next::Again(wanted.saturating_add(wanted.mul_f64(fastrand::f64() / 10.0))),
        // At least half of it: minutes of asking must not shrink to seconds by chance.
        None if is_waited_for => {
            let ceiling = ceiling(attempt, options.backoff_base.saturating_mul(BUSY), options);
            Next::Again(ceiling.mul_f64(0.5 + fastrand::f64() / 2.0))
        }
        None => {
            Next::Again(ceiling(attempt, options.backoff_base, options).mul_f64(fastrand::f64()))
        }
    }
}

/// Returns the longest pause after the `attempt`th attempt.
fn ceiling(attempt: u32, base: Duration, options: &Options) -> Duration {
    let doubled = 2_u32.saturating_pow(attempt.saturating_sub(1));
    base.saturating_mul(doubled).min(options.backoff_cap)
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
