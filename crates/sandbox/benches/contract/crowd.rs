//! Many sandboxes at once.

use std::time::Instant;

use tokio::task::JoinSet;

use crate::Result;
use crate::fixture::ContractBench;
use crate::workload::stateless;
use vestal_bench::report::{Bar, BenchRow, Figure};
use vestal_bench::sample::Samples;

const COMMANDS: usize = 5;

/// What one sandbox of the crowd took.
struct Member {
    made: Samples,
    commands: Samples,
}

/// Returns what is measured with so many.
pub(crate) fn names(sandboxes: usize) -> [String; 2] {
    [
        format!("new sandbox, {sandboxes} at once"),
        format!("{sandboxes} sandboxes × {COMMANDS} commands at once, p95"),
    ]
}

/// Makes so many sandboxes at once, which all run when this returns. Their commands
/// are measured beside as many plain shells, which share the cores in the same way.
pub(crate) async fn measure(
    bench: &ContractBench,
    sandboxes: usize,
    bar: Option<Bar>,
) -> Result<Vec<BenchRow>> {
    let mut crowd = JoinSet::new();
    for number in 0..sandboxes {
        let bench = bench.clone();
        crowd.spawn(async move { member(&bench, number).await });
    }
    let (mut made, mut commands) = (Samples::default(), Samples::default());
    while let Some(member) = crowd.join_next().await {
        let member = member??;
        made.extend(member.made);
        commands.extend(member.commands);
    }
    let shells = shells(bench, sandboxes).await?;
    let [new, at_once] = names(sandboxes).map(|what| bench.label(&what));
    let at_once = BenchRow::times(at_once, &commands).p95_beside(Figure::time(shells.p95()));
    Ok(vec![BenchRow::times(new, &made), bar.into_iter().fold(at_once, BenchRow::bar)])
}

/// Runs as many commands at once without any sandbox.
async fn shells(bench: &ContractBench, at_once: usize) -> Result<Samples> {
    let mut crowd = JoinSet::new();
    for number in 0..at_once {
        let bench = bench.clone();
        crowd.spawn(async move {
            let mut samples = Samples::default();
            for command in 0..COMMANDS {
                let shell = bench.bash_command(&format!("echo {number} {command}"));
                let start = Instant::now();
                let output = tokio::process::Command::from(shell).output().await?;
                samples.push(start.elapsed());
                if !output.status.success() {
                    return Err("bash -c failed".into());
                }
            }
            Result::Ok(samples)
        });
    }
    let mut samples = Samples::default();
    while let Some(one) = crowd.join_next().await {
        samples.extend(one??);
    }
    Ok(samples)
}

/// Returns the name of a sandbox of the crowd.
pub(crate) fn task(number: usize) -> String {
    format!("crowd-{number}")
}

/// Makes a sandbox and runs its commands, each of which must say the right thing.
async fn member(bench: &ContractBench, number: usize) -> Result<Member> {
    let (mut made, mut commands) = (Samples::default(), Samples::default());
    let start = Instant::now();
    let sandbox = bench.sandbox(&task(number)).await?;
    made.push(start.elapsed());
    for command in 0..COMMANDS {
        let start = Instant::now();
        let output = stateless(&sandbox, &format!("echo {number} {command}")).await?;
        commands.push(start.elapsed());
        let printed = output.stdout.text();
        if printed != format!("{number} {command}\n") {
            return Err(format!("sandbox {number} said {printed:?} to command {command}").into());
        }
    }
    Ok(Member { made, commands })
}
