//! Many conversations at once in one process.

use std::time::Instant;

use futures_util::future::try_join_all;
use vestal_agent::{Agent, EventSink};
use vestal_bench::Result;
use vestal_bench::process::resident;
use vestal_bench::report::{Bar, BenchRow, Figure};

use crate::Plan;
use crate::fixture::{TurnFixture, WORK, user_prompt};

/// Memory that a second crowd may add to what the first one left.
const GROWTH: f64 = 8.0;

pub(crate) async fn measure(fixture: &TurnFixture, plan: Plan) -> Result<Vec<BenchRow>> {
    let agent = fixture.agent().await?;
    let what = format!("{} conversations × {} turns at once", plan.conversations, plan.turns_each);
    crowd(fixture, &agent, plan).await?;
    let before = resident(std::process::id())?;
    let start = Instant::now();
    crowd(fixture, &agent, plan).await?;
    let took = start.elapsed();
    let after = resident(std::process::id())?;
    Ok(vec![
        BenchRow::single(what.clone(), Figure::time(took))
            .note("none failed; the second of two crowds"),
        BenchRow::single(
            format!("{what}, memory added"),
            Figure::size(after.saturating_sub(before)),
        )
        .bar(Bar::AtMost(Figure::Mebibytes(GROWTH))),
    ])
}

async fn crowd(fixture: &TurnFixture, agent: &Agent, plan: Plan) -> Result<()> {
    let talks = (0..plan.conversations).map(|_| async move {
        let mut conversation = agent.open(fixture.opening()).await?;
        for _ in 0..plan.turns_each {
            let result = conversation.run(user_prompt(WORK), &EventSink::discard()).await;
            if !result.outcome.is_completed() {
                return Err(format!("a turn ended with {:?}", result.outcome).into());
            }
        }
        Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    });
    try_join_all(talks).await?;
    Ok(())
}
