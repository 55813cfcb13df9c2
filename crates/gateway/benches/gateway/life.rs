//! Measures how fast a gateway starts and stops, and what it uses while it idles.

use std::time::{Duration, Instant};

use vestal_bench::Result;
use vestal_bench::program::{anonymous, proportional, resident};
use vestal_bench::report::{Bar, BenchRow, Figure};
use vestal_bench::sample::Samples;
use vestal_testkit::processes::{cpu_ticks, processes_with};

use crate::Plan;
use crate::fixture::{ENDLESS, GatewayBench, TIMEOUT, WORK};

/// The recorded figures of the alternative.
const THEIR_START: Duration = Duration::from_millis(3_900);
const THEIR_STOP: Duration = Duration::from_millis(1_800);
const THEIR_BUSY_STOP: Duration = Duration::from_millis(44_800);
const THEIR_MEMORY: f64 = 95.0 / 1.048_576;

/// Ticks per second in which the kernel counts processor time.
const TICKS: f64 = 100.0;

pub(crate) async fn measure(bench: &GatewayBench, plan: Plan) -> Result<Vec<BenchRow>> {
    let mut rows = Vec::new();
    let mut starts = Samples::default();
    for round in 0..=plan.starts {
        let (mut gateway, took) = bench.serve().await?;
        // The first one makes the home.
        if round > 0 {
            starts.push(took);
        }
        if round == plan.starts {
            rows = idle(gateway.id(), plan.idle).await?;
        }
        gateway.kill()?;
        gateway.wait()?;
    }
    rows.insert(
        0,
        BenchRow::times("vestal gateway run: start to healthy", &starts)
            .beside(Figure::time(THEIR_START))
            .bar(Bar::AtMost(Figure::Milliseconds(150.0)))
            .note("the alternative's figure was recorded"),
    );
    rows.extend(stops(bench, plan).await?);
    Ok(rows)
}

async fn idle(pid: u32, watched: Duration) -> Result<Vec<BenchRow>> {
    // Work that is left from the start does not count as idling.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (before, start) = (cpu_ticks(pid), Instant::now());
    tokio::time::sleep(watched).await;
    let ticks = u32::try_from(cpu_ticks(pid) - before)?;
    let per_second = f64::from(ticks) / TICKS * 1000.0 / start.elapsed().as_secs_f64();
    Ok(vec![
        BenchRow::single("memory of an idle gateway, resident", Figure::size(resident(pid)?))
            .beside(Figure::Mebibytes(THEIR_MEMORY))
            .bar(Bar::AtMost(Figure::Mebibytes(25.0)))
            .note("with the pages of the program's file that it has mapped"),
        BenchRow::single("… its share of what it has mapped", Figure::size(proportional(pid)?)),
        BenchRow::single("… its own, in no file", Figure::size(anonymous(pid)?)),
        BenchRow::single("processor time of an idle gateway, each second", {
            Figure::Milliseconds(per_second)
        })
        .bar(Bar::AtMost(Figure::Milliseconds(2.0)))
        .note(format!("watched for {} s; the kernel counts in 10 ms", watched.as_secs())),
    ])
}

/// Measures `vestal gateway stop`, which returns when every process is gone.
async fn stops(bench: &GatewayBench, plan: Plan) -> Result<Vec<BenchRow>> {
    let (mut idle, mut busy) = (Samples::default(), Samples::default());
    for _ in 0..plan.stops {
        bench.vestal(&["gateway", "start"])?;
        idle.push(stop(bench)?);
        bench.vestal(&["gateway", "start"])?;
        let asking = tokio::spawn(bench.ask_gateway(WORK, true).send());
        let deadline = Instant::now() + TIMEOUT;
        while processes_with(ENDLESS).is_empty() {
            if Instant::now() > deadline {
                return Err("the tool did not start".into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        busy.push(stop(bench)?);
        if !processes_with(ENDLESS).is_empty() {
            return Err("the tool outlived the gateway".into());
        }
        // Its connection has ended with the gateway; the result does not matter.
        asking.abort();
    }
    bench.vestal(&["supervise", "--stop"])?;
    Ok(vec![
        BenchRow::times("vestal gateway stop, idle", &idle)
            .beside(Figure::time(THEIR_STOP))
            .bar(Bar::AtMost(Figure::Milliseconds(200.0))),
        BenchRow::times("vestal gateway stop, with a running tool", &busy)
            .beside(Figure::time(THEIR_BUSY_STOP))
            .bar(Bar::AtMost(Figure::Milliseconds(2_000.0)))
            .note("until gateway and tool are gone; agent.restart_drain_timeout is 0"),
    ])
}

fn stop(bench: &GatewayBench) -> Result<Duration> {
    let (pid, start) = (bench.gateway_pid()?, Instant::now());
    bench.vestal(&["gateway", "stop"])?;
    let took = start.elapsed();
    if vestal_testkit::is_alive(pid) {
        return Err(format!("process {pid} outlived its stop").into());
    }
    Ok(took)
}
