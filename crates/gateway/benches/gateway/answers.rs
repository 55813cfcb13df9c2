//! What a gateway adds to an answer of the model.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use vestal_bench::Result;
use vestal_bench::report::{Bar, BenchRow, Figure};
use vestal_bench::sample::Samples;

use crate::Plan;
use crate::stage::{Stage, TALK, complete};

/// What the alternative took, recorded.
const THEIRS: Duration = Duration::from_millis(470);

const WARM_UP: usize = 10;

pub(crate) async fn measure(stage: &Stage, plan: Plan) -> Result<Vec<BenchRow>> {
    let (mut gateway, _) = stage.serve().await?;
    let rows = async { Ok(vec![single(stage, plan).await?, many(stage, plan).await?]) };
    let rows = rows.await;
    gateway.kill()?;
    gateway.wait()?;
    rows
}

/// One question at a time: each asked of the gateway and of the model, in turn.
async fn single(stage: &Stage, plan: Plan) -> Result<BenchRow> {
    let mut added = Samples::default();
    for round in 0..WARM_UP + plan.requests {
        let through = timed(stage.ask_gateway("hello", false)).await?;
        let direct = timed(stage.ask_model("hello", false)).await?;
        if round >= WARM_UP {
            added.push(through.saturating_sub(direct));
        }
    }
    Ok(BenchRow::times("/v1/chat/completions, outside the model", &added)
        .beside(Figure::time(THEIRS))
        .bar(Bar::AtMost(Figure::Milliseconds(8.0)))
        .note("a new conversation each; the alternative's figure was recorded"))
}

async fn timed(request: reqwest::RequestBuilder) -> Result<Duration> {
    let start = Instant::now();
    complete(request).await?;
    Ok(start.elapsed())
}

/// Many conversations that stream at once, through the gateway and past it.
async fn many(stage: &Stage, plan: Plan) -> Result<BenchRow> {
    let direct = at_once(plan.streams, || stage.ask_model(TALK, true)).await?;
    let through = at_once(plan.streams, || stage.ask_gateway(TALK, true)).await?;
    let added = through.p95().saturating_sub(direct.p95());
    Ok(BenchRow::single(
        format!("p95 of what {} streams at once take longer", plan.streams),
        Figure::time(added),
    )
    .bar(Bar::AtMost(Figure::Milliseconds(50.0)))
    .note(format!(
        "50 pieces, 20 ms apart, to the last of them: {:.0} ms directly, {:.0} ms through the gateway",
        direct.p95().as_secs_f64() * 1000.0,
        through.p95().as_secs_f64() * 1000.0,
    )))
}

async fn at_once(count: usize, request: impl Fn() -> reqwest::RequestBuilder) -> Result<Samples> {
    let mut streams = JoinSet::new();
    for _ in 0..count {
        streams.spawn(timed(request()));
    }
    let mut samples = Samples::default();
    while let Some(took) = streams.join_next().await {
        samples.push(took??);
    }
    Ok(samples)
}
