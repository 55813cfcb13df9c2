//! A turn in a process that stays.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use vestal_agent::{Agent, EventSink};
use vestal_bench::Result;
use vestal_bench::program::resident;
use vestal_bench::report::{Bar, BenchRow, Figure};
use vestal_bench::sample::Samples;
use vestal_model::{Message, ModelRequest};

use crate::Plan;
use crate::fixture::{TurnFixture, WORK, user_prompt};

/// What the alternative took for such a turn beside the model, recorded.
const THEIRS: Duration = Duration::from_millis(100);

/// Turns after which a new conversation is started, so that its length is no
/// part of the figure.
const TURNS_EACH: usize = 10;

pub(crate) async fn measure(fixture: &TurnFixture, plan: Plan) -> Result<Vec<BenchRow>> {
    let agent = fixture.agent().await?;
    let chat = agent.models().chat(fixture.opening().chain);
    let (mut turns, mut calls) = (Samples::default(), Samples::default());
    let mut conversation = agent.open(fixture.opening()).await?;
    for round in 0..plan.warm_up + plan.turns {
        if round % TURNS_EACH == 0 {
            conversation = agent.open(fixture.opening()).await?;
        }
        let start = Instant::now();
        let result = conversation.run(user_prompt(WORK), &EventSink::discard()).await;
        let turn = start.elapsed();
        if !result.outcome.is_completed() || result.tool_calls != 1 {
            return Err(format!("a turn ended with {:?}", result.outcome).into());
        }
        let start = Instant::now();
        let messages = [Message::user("hello")];
        let request = ModelRequest { messages: &messages, ..ModelRequest::default() };
        chat.complete(&request, &mut |_| ()).await?;
        let call = start.elapsed();
        if round >= plan.warm_up {
            turns.push(turn.saturating_sub(2 * call));
            calls.push(call);
        }
    }
    Ok(vec![
        BenchRow::times("a turn with one terminal call, outside the model", &turns)
            .beside(Figure::time(THEIRS))
            .bar(Bar::AtMost(Figure::Milliseconds(15.0))),
        BenchRow::times("one call of the scripted model, for comparison", &calls),
    ])
}

/// Memory that a second crowd may add to what the first one left.
const GROWTH: f64 = 8.0;

pub(crate) async fn measure_crowd(fixture: &TurnFixture, plan: Plan) -> Result<Vec<BenchRow>> {
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
