//! How soon a page hears of a change, how soon a key is seen, and what open pages cost while nothing
//! happens.

use std::time::{Duration, Instant};

use serde_json::Value;
use vestal_bench::Result;
use vestal_bench::program::{anonymous, resident};
use vestal_bench::report::{Bar, BenchRow, Figure};
use vestal_bench::sample::Samples;
use vestal_board::{Authority, NewTask};
use vestal_testkit::processes::cpu_ticks;

use crate::Plan;
use crate::client::{Client, shown, socket, type_in};
use crate::fixture::DashboardBench;

/// Ticks of the processor time that the kernel counts, in a second.
const TICKS: f64 = 100.0;

/// After a change everything is reported once more, since it may be visible only then.
const SETTLED: Duration = Duration::from_secs(1);

pub(crate) async fn measure(bench: &DashboardBench, plan: Plan) -> Result<Vec<BenchRow>> {
    let mut rows = vec![changes(bench, plan).await?, keys(bench, plan).await?];
    rows.extend(idle(bench, plan).await?);
    Ok(rows)
}

/// From a change of another process to the answer that shows it.
async fn changes(bench: &DashboardBench, plan: Plan) -> Result<BenchRow> {
    let mut events = Client::connect(&bench.login).await?.listen("board").await?;
    let mut client = Client::connect(&bench.login).await?;
    let mut samples = Samples::default();
    for number in 0..plan.events {
        tokio::time::sleep(SETTLED).await;
        let mut events_of_now = Client::connect(&bench.login).await?.listen("board").await?;
        std::mem::swap(&mut events, &mut events_of_now);
        let title = format!("event {number}");
        let new = NewTask { title: title.clone(), ..NewTask::default() };
        let start = Instant::now();
        bench.board.create(&Authority::Person("user".to_owned()), new).await?;
        events.heard("changed").await?;
        client.get("/api/board").await?;
        samples.push(start.elapsed());
    }
    Ok(BenchRow::times("a change by another process until a page has it", &samples)
        .bar(Bar::AtMost(Figure::Milliseconds(100.0)))
        .note("without what a browser takes to draw it"))
}

/// From a key in a terminal page to its echo there.
async fn keys(bench: &DashboardBench, plan: Plan) -> Result<BenchRow> {
    let terminals = "/api/sandboxes/default/task-0/terminals";
    let mut client = Client::connect(&bench.login).await?;
    let opened = client.post(terminals, r#"{"rows":24,"cols":80}"#).await?.body;
    let opened: Value = serde_json::from_slice(&opened)?;
    let job = opened["id"].as_str().ok_or("the terminal has no job")?;
    let path = format!("{terminals}/{job}?rows=24&cols=80");
    let mut socket = socket(&bench.login, &path).await?;
    // A program that echoes and nothing else: no prompt, no editing of lines.
    type_in(&mut socket, "printf 're%s\\n' ady; cat\n").await?;
    shown(&mut socket, "ready").await?;
    let mut samples = Samples::default();
    for number in 0..plan.keys {
        let key = char::from(b'a' + u8::try_from(number % 26)?).to_string();
        let start = Instant::now();
        type_in(&mut socket, &key).await?;
        shown(&mut socket, &key).await?;
        samples.push(start.elapsed());
    }
    type_in(&mut socket, "\u{3}exit\n").await?;
    let p95 = Figure::time(samples.p95());
    Ok(BenchRow::single("a key in a terminal until its echo is there, p95", p95)
        .bar(Bar::AtMost(Figure::Milliseconds(15.0))))
}

async fn idle(bench: &DashboardBench, plan: Plan) -> Result<Vec<BenchRow>> {
    let mut pages = Vec::new();
    for topics in ["board,sandboxes", "conversations,settings", "logs,gateways"] {
        pages.push(Client::connect(&bench.login).await?.listen(topics).await?);
    }
    // What was asked before leaves things to do.
    tokio::time::sleep(2 * SETTLED).await;
    let (before, start) = (cpu_ticks(bench.pid()), Instant::now());
    tokio::time::sleep(plan.idle).await;
    let ticks = u32::try_from(cpu_ticks(bench.pid()) - before)?;
    let per_second = f64::from(ticks) / TICKS * 1000.0 / start.elapsed().as_secs_f64();
    drop(pages);
    Ok(vec![
        BenchRow::single(
            "memory of a server with three open pages",
            Figure::size(resident(bench.pid())?),
        )
        .bar(Bar::AtMost(Figure::Mebibytes(40.0)))
        .note(format!(
            "after all lists above were asked for; {} of it are its own, the rest pages of the program",
            Figure::size(anonymous(bench.pid())?)
        )),
        BenchRow::single("processor time of three open pages, each second", {
            Figure::Milliseconds(per_second)
        })
        .bar(Bar::AtMost(Figure::Milliseconds(5.0)))
        .note(format!("watched for {} s; the kernel counts in 10 ms", plan.idle.as_secs())),
    ])
}
