//! Measures the time that a gateway adds to an answer of the model.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use vestal_bench::Result;
use vestal_bench::report::{Bar, BenchRow, Figure};
use vestal_bench::sample::Samples;

use crate::Plan;
use crate::fixture::{GatewayBench, TALK, complete};

/// The recorded figure of the alternative.
const THEIRS: Duration = Duration::from_millis(470);

const WARM_UP: usize = 10;

pub(crate) async fn measure(bench: &GatewayBench, plan: Plan) -> Result<Vec<BenchRow>> {
    let (mut gateway, _) = bench.serve().await?;
    let rows = async {
        let mut rows = vec![single(bench, plan).await?];
        rows.extend(many(bench, plan).await?);
        Ok(rows)
    };
    let rows = rows.await;
    gateway.kill()?;
    gateway.wait()?;
    rows
}

/// One question at a time: each asked of the gateway and of the model, in turn.
async fn single(bench: &GatewayBench, plan: Plan) -> Result<BenchRow> {
    let mut added = Samples::default();
    for round in 0..WARM_UP + plan.requests {
        let through = timed(bench.ask_gateway("hello", false)).await?;
        let direct = timed(bench.ask_model("hello", false)).await?;
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

/// Many new conversations at the same instant, whose answers stream: through the
/// gateway and past it.
async fn many(bench: &GatewayBench, plan: Plan) -> Result<Vec<BenchRow>> {
    let direct = at_once(plan.streams, || bench.ask_model(TALK, true)).await?;
    let through = at_once(plan.streams, || bench.ask_gateway(TALK, true)).await?;
    let row = |name: &str, direct: &Samples, through: &Samples| {
        let added = through.p95().saturating_sub(direct.p95());
        let what = format!("{} streams at once, p95 added: {name}", plan.streams);
        BenchRow::single(what, Figure::time(added)).note(format!(
            "50 pieces, 20 ms apart: {:.0} ms directly, {:.0} ms through the gateway",
            direct.p95().as_secs_f64() * 1000.0,
            through.p95().as_secs_f64() * 1000.0,
        ))
    };
    Ok(vec![
        row("from the first piece to the end", &direct.streaming, &through.streaming)
            .bar(Bar::AtMost(Figure::Milliseconds(50.0))),
        row("to the first piece, all begun at one instant", &direct.first, &through.first),
    ])
}

/// The times of streams.
#[derive(Default)]
struct Streams {
    /// From the request to the first piece.
    first: Samples,
    /// From the first piece to the end.
    streaming: Samples,
}

async fn at_once(count: usize, request: impl Fn() -> reqwest::RequestBuilder) -> Result<Streams> {
    let mut streams = JoinSet::new();
    for _ in 0..count {
        streams.spawn(streamed(request()));
    }
    let mut samples = Streams::default();
    while let Some(took) = streams.join_next().await {
        let (first, streaming) = took??;
        samples.first.push(first);
        samples.streaming.push(streaming);
    }
    Ok(samples)
}

/// Reads a streamed answer, and returns how long its first piece took, and the rest.
async fn streamed(request: reqwest::RequestBuilder) -> Result<(Duration, Duration)> {
    let start = Instant::now();
    let mut response = request.send().await?.error_for_status()?;
    let mut first = None;
    let mut text = Vec::new();
    while let Some(bytes) = response.chunk().await? {
        if first.is_none() {
            text.extend_from_slice(&bytes);
            let begun = String::from_utf8_lossy(&text);
            let pieces = begun.match_indices(PIECE);
            if pieces.map(|(at, _)| at + PIECE.len()).any(|at| !begun[at..].starts_with('"')) {
                first = Some(Instant::now());
            }
        }
    }
    let first = first.ok_or("a stream without a piece")?;
    Ok((first - start, first.elapsed()))
}

/// What precedes the text of a piece. The piece that announces the role has an empty text.
const PIECE: &str = "\"content\":\"";
