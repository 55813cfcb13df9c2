//! The jobs of one shell session.

use std::time::Duration;

use vestal_wire::{FaultCode, JobInfo};

use super::control::{JobFilter, jobs, kill};
use crate::client::{CallError, Connection, Violation};

/// Most jobs that are looked at. A guest lists as many as there is room for.
const MANY: u32 = 100_000;

/// How often jobs are looked for. Those that are killed can start no others, so
/// a guest that always has more is not to be believed.
const ROUNDS: u32 = 100;

/// How long a guest may take to forget a session.
const SHORT_CALL: Duration = Duration::from_secs(10);

/// Returns the jobs of a session that run or left processes behind, whoever
/// started them.
pub async fn of_session(connection: &Connection, session: &str) -> Result<Vec<JobInfo>, CallError> {
    let listed = jobs(connection, JobFilter::Running, MANY).await?;
    Ok(listed.jobs.into_iter().filter(|job| job.session.as_deref() == Some(session)).collect())
}

/// Kills every process of a session's jobs and forgets its state. Returns the
/// jobs that were killed, once none of their processes is left.
pub async fn end_session(
    connection: &Connection,
    session: &str,
) -> Result<Vec<JobInfo>, CallError> {
    let mut killed = Vec::new();
    for _ in 0..ROUNDS {
        // A job that is being killed may have started another one.
        let left = of_session(connection, session).await?;
        if left.is_empty() {
            connection.reset_session(session, SHORT_CALL).await?;
            return Ok(killed);
        }
        for job in left {
            match kill(connection, &job.id).await {
                Ok(info) => killed.push(info),
                // It ended, and was forgotten.
                Err(CallError::Fault(fault)) if fault.code == FaultCode::NoSuchJob => {}
                Err(error) => return Err(error),
            }
        }
    }
    Err(connection.violate(Violation::Claim("jobs that run on however often they are killed")))
}
