//! How many tasks are in each lane, counted as they come and go.

use std::collections::BTreeMap;

use super::row::{Columns, Value};
use super::script::Script;
use super::transaction::Transaction;
use crate::Result;
use crate::store::Lane;
use crate::task::{LaneKey, LaneShare, Task};

/// What changes in the lanes.
#[derive(Default)]
pub(super) struct Deltas {
    lanes: BTreeMap<LaneKey, [i64; 3]>,
}

impl Deltas {
    /// Counts a task so many times.
    pub(super) fn add(&mut self, task: &Task, times: i64) {
        if let Some((key, share)) = task.lane_share() {
            let at = match share {
                LaneShare::Queued => 0,
                LaneShare::Guarded => 1,
                LaneShare::Running => 2,
            };
            self.lanes.entry(key).or_default()[at] += times;
        }
    }

    /// Adds the statements that write it, and returns how many rows they change.
    pub(super) fn write(&self, script: &mut Script) -> usize {
        let mut rows = 0;
        for (key, &[queued, guarded, running]) in &self.lanes {
            if [queued, guarded, running] == [0; 3] {
                continue;
            }
            let [profile, tenant, host] =
                [&key.profile, &key.tenant, &key.host].map(|text| Value::from(text.as_str()));
            rows += 1;
            // Where something goes away, the lane is there, and a row with less
            // than nothing in it would be refused.
            if queued < 0 || guarded < 0 || running < 0 {
                script.push("UPDATE lanes SET queued = queued + ").value(queued);
                script.push(", guarded = guarded + ").value(guarded);
                script.push(", running = running + ").value(running);
                script.push(" WHERE profile = ").bind(&profile);
                script.push(" AND tenant = ").bind(&tenant);
                script.push(" AND host = ").bind(&host).end();
            } else {
                let counts = [queued, guarded, running].map(Value::from);
                let [queued, guarded, running] = counts;
                script
                    .push("INSERT INTO lanes (profile, tenant, host, queued, guarded, running) VALUES ")
                    .tuple(&[profile, tenant, host, queued, guarded, running])
                    .push(
                        " ON CONFLICT (profile, tenant, host) DO UPDATE SET \
                         queued = lanes.queued + excluded.queued, \
                         guarded = lanes.guarded + excluded.guarded, \
                         running = lanes.running + excluded.running",
                    )
                    .end();
            }
        }
        rows
    }
}

impl Transaction {
    pub(super) async fn lanes_in_use(&mut self) -> Result<Vec<Lane>> {
        let text = "SELECT profile, tenant, host, queued, guarded, running FROM lanes \
                    WHERE queued + guarded + running > 0 ORDER BY profile, tenant, host";
        self.each(sqlx::query(text), |row| {
            let mut columns = Columns::of(row, "a lane");
            let key = LaneKey {
                profile: columns.text()?,
                tenant: columns.text()?,
                host: columns.text()?,
            };
            Ok(Lane {
                key,
                queued: columns.count()?,
                guarded: columns.count()?,
                running: columns.count()?,
            })
        })
        .await
    }
}
