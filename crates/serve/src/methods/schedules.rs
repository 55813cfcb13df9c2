//! The schedules of the profile.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vestal_api::{ScheduleRequest, ScheduleRunView, ScheduleView};
use vestal_runtime::{ProfileSchedules, ScheduleError};
use vestal_schedules::{Error, ScheduleStore};

use super::MethodCall;
use crate::error::{self, RpcError};

/// Runs that are listed unless asked otherwise, and at most.
const RUNS: u32 = 20;
const MOST_RUNS: u32 = 200;

/// What is to be done with schedules.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct CronParams {
    /// What; `list` without it.
    #[serde(default)]
    action: CronAction,
    /// The schedule: its id, a beginning of it, or its name. For all but `list` and `create`.
    #[serde(default)]
    id: Option<String>,
    /// What a new schedule is like, or what changes about one: see `POST /api/jobs` of the gateway.
    #[serde(default)]
    job: Option<ScheduleRequest>,
    /// How many runs are listed; 20 without it.
    #[serde(default)]
    limit: Option<u32>,
}

/// What is to be done with schedules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CronAction {
    /// Lists them, what is due next first.
    #[default]
    List,
    /// Shows one.
    Show,
    /// Makes one.
    Create,
    /// Changes one.
    Edit,
    /// Pauses one.
    Pause,
    /// Lets a paused one go on.
    Resume,
    /// Asks the gateway for a run now.
    Run,
    /// Removes one with its runs.
    Remove,
    /// Lists runs, the latest first; of all schedules without `id`.
    Runs,
}

/// Schedules, or runs.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct CronResult {
    /// The schedules of `list`; of other actions, the one that was meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<Value>>")]
    jobs: Option<Vec<ScheduleView>>,
    /// The runs of `runs`, and the one that `run` asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<Value>>")]
    runs: Option<Vec<ScheduleRunView>>,
    /// Schedules that cannot be read, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<String>,
}

pub(super) async fn manage(call: MethodCall, params: CronParams) -> Result<CronResult, RpcError> {
    let schedules = ProfileSchedules::new(call.server.runtime().settings());
    // Looking makes no file.
    let store = match params.action {
        CronAction::Create => Some(schedules.open().await?),
        _ => schedules.open_existing().await?,
    };
    let Some(store) = store else {
        return match params.action {
            CronAction::List => Ok(CronResult { jobs: Some(Vec::new()), ..CronResult::default() }),
            CronAction::Runs if params.id.is_none() => {
                Ok(CronResult { runs: Some(Vec::new()), ..CronResult::default() })
            }
            _ => Err(Error::NotFound { wanted: params.id.unwrap_or_default() }.into()),
        };
    };
    let done = with_store(&schedules, &store, params).await;
    if let Err(error) = store.close().await {
        // All that was written is safe in the log.
        tracing::debug!(%error, "the schedules were not closed tidily");
    }
    done
}

async fn with_store(
    schedules: &ProfileSchedules,
    store: &ScheduleStore,
    params: CronParams,
) -> Result<CronResult, RpcError> {
    let CronParams { action, id, job, limit } = params;
    let now = Timestamp::now();
    let id = match id.as_deref().filter(|id| !id.trim().is_empty()) {
        Some(wanted) => Some(store.find(wanted).await?),
        None => None,
    };
    let job = || job.ok_or_else(|| RpcError::empty("job"));
    let runs =
        |runs: Vec<ScheduleRunView>| CronResult { runs: Some(runs), ..CronResult::default() };
    let limit = limit.unwrap_or(RUNS).min(MOST_RUNS);
    let schedule = match (action, &id) {
        (CronAction::List, _) => {
            let (mut jobs, mut unreadable) = (Vec::new(), Vec::new());
            for schedule in store.list().await? {
                match schedule {
                    Ok(schedule) => jobs.push(ScheduleView::new(&schedule, now)),
                    Err(error) => unreadable.push(error.to_string()),
                }
            }
            return Ok(CronResult { jobs: Some(jobs), unreadable, ..CronResult::default() });
        }
        (CronAction::Runs, id) => {
            let found = store.runs(id.as_ref(), limit).await?;
            return Ok(runs(found.iter().map(Into::into).collect()));
        }
        (CronAction::Create, _) => schedules.create(store, job()?, now).await?,
        (_, None) => {
            return Err(RpcError::new(error::ID_REQUIRED, "the id of a schedule is needed"));
        }
        (CronAction::Run, Some(id)) => {
            return Ok(runs(vec![ScheduleRunView::from(&store.request(id, now).await?)]));
        }
        (CronAction::Show, Some(id)) => store.get(id).await?,
        (CronAction::Edit, Some(id)) => schedules.edit(store, id, job()?, now).await?,
        (CronAction::Pause, Some(id)) => store.pause(id, now).await?,
        (CronAction::Resume, Some(id)) => store.resume(id, now).await?,
        (CronAction::Remove, Some(id)) => store.remove(id).await?,
    };
    let jobs = Some(vec![ScheduleView::new(&schedule, now)]);
    Ok(CronResult { jobs, ..CronResult::default() })
}

impl From<Error> for RpcError {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::NotFound { .. } | Error::NoRun(_) => {
                Self::new(error::NOT_FOUND, message).advise("cron.manage lists the schedules")
            }
            Error::Ambiguous { candidates, .. } => {
                let mut error = Self::new(error::NOT_FOUND, message).advise("use the whole id");
                if let Some(data) = &mut error.data {
                    data["candidates"] = json!(candidates);
                }
                error
            }
            Error::InvalidId(_)
            | Error::NameTaken { .. }
            | Error::Timing(_)
            | Error::Zone(_)
            | Error::Never { .. }
            | Error::Invalid { .. } => Self::new(error::BAD_VALUE, message),
            Error::Running { .. } => Self::new(error::BUSY, message),
            Error::Unreadable { .. }
            | Error::Process(_)
            | Error::Random(_)
            | Error::Database(_) => Self::new(error::HOST, message),
        }
    }
}

impl From<ScheduleError> for RpcError {
    fn from(error: ScheduleError) -> Self {
        match error {
            ScheduleError::Schedule(error) => error.into(),
            ScheduleError::Skill(error) => error.into(),
            ScheduleError::Conversation(error) => error.into(),
        }
    }
}
