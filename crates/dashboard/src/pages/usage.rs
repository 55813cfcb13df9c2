//! What was spent: by day, model, profile, task and more, from the ledgers of the profiles.

use axum::Json;
use axum::extract::{Query, State};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};
use serde::Deserialize;
use vestal_api::{UsageGrouping, UsageReport, UsageReportView};
use vestal_board::TaskId;
use vestal_config::ProfileName;
use vestal_conversations::{LedgerFilter, WorkItem};

use crate::app::{App, AppState};
use crate::error::PageError;
use crate::gate::{DeclaredRoute, Right, Route};

/// The days that a page shows unless it says how many.
const DAYS: i64 = 30;

/// The most days that are shown as days.
const MAX_DAYS: i64 = 3660;

pub(super) fn routes() -> Vec<DeclaredRoute<App>> {
    vec![Route::get("/api/usage", show).needs(Right::Viewer)]
}

#[derive(Debug, Deserialize)]
pub(super) struct UsageQuery {
    by: Option<UsageGrouping>,
    /// Today and the days before it, so many in all; 0: from the first call on.
    days: Option<i64>,
    /// The viewer's time zone by its IANA name; that of the server unless given.
    zone: Option<String>,
    profile: Option<String>,
}

async fn show(
    State(app): State<App>,
    Query(query): Query<UsageQuery>,
) -> Result<Json<UsageReportView>, PageError> {
    let by = query.by.unwrap_or(UsageGrouping::Day);
    let zone = zone_of(query.zone.as_deref())?;
    let days = query.days.unwrap_or(DAYS);
    if !(0..=MAX_DAYS).contains(&days) {
        return Err(PageError::invalid(format!("days must be from 0 to {MAX_DAYS}")));
    }
    let since = if days == 0 { None } else { Some(midnight(&zone, days - 1)?) };
    let profiles = app.data.profiles_of(query.profile.as_deref())?;
    let filter = LedgerFilter { since, ..LedgerFilter::default() };
    let mut report = UsageReport::new(by, zone, since, None);
    add_ledgers(&app, &profiles, &filter, by, &mut report).await;
    Ok(Json(report.finish()))
}

/// Returns the viewer's time zone, or that of the server if it is unknown.
fn zone_of(name: Option<&str>) -> Result<TimeZone, PageError> {
    match name.filter(|name| !name.is_empty()) {
        Some(name) => TimeZone::get(name)
            .map_err(|_| PageError::invalid(format!("there is no time zone {name:?}"))),
        None => Ok(TimeZone::system()),
    }
}

/// Returns when the day began so many days ago.
fn midnight(zone: &TimeZone, days_ago: i64) -> Result<Timestamp, PageError> {
    let begin = || -> Result<Timestamp, jiff::Error> {
        let today = Zoned::new(Timestamp::now(), zone.clone()).start_of_day()?;
        Ok(today.checked_sub(Span::new().try_days(days_ago)?)?.start_of_day()?.timestamp())
    };
    begin().map_err(|error| PageError::invalid(error.to_string()))
}

/// Adds what the ledgers of some profiles say. One that cannot be read is named in the report.
pub(super) async fn add_ledgers(
    app: &AppState,
    profiles: &[ProfileName],
    filter: &LedgerFilter,
    by: UsageGrouping,
    report: &mut UsageReport,
) {
    for profile in profiles {
        let of_one = async {
            match app.data.conversations(profile).await? {
                Some(store) => Ok(store.ledger(filter, by.of_ledger()).await?),
                None => Ok::<_, PageError>(Vec::new()),
            }
        };
        match of_one.await {
            Ok(sums) => report.add(profile.as_str(), sums),
            Err(error) => report.unread(profile.as_str(), error.detail()),
        }
    }
}

/// Returns how the ledger names the work on a task.
pub(super) fn task_work(board: &str, task: &TaskId) -> WorkItem {
    WorkItem { kind: "kanban".to_owned(), group: board.to_owned(), item: task.to_string() }
}
