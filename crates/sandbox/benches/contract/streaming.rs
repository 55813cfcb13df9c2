//! Much output, every byte delivered, beside the alternative.

use std::io::Read as _;
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use vestal_sandbox::job::{Follow, JobEvent};
use vestal_sandbox::{Command, Sandbox};

use crate::Result;
use crate::commands::TASK;
use crate::fixture::ContractBench;
use crate::options::Plan;
use crate::process::guest_pid;
use vestal_bench::program::resident;
use vestal_bench::report::{Bar, BenchRow, Figure};
use vestal_bench::sample::Samples;

pub(crate) const SIZE: u64 = 1 << 30;

/// What writes at once. Not `head`, which in a small system writes byte by byte
/// and would be what is measured.
const BLOCK: u64 = 64 << 10;

/// Memory is looked at each time so much has come.
const LOOK_EVERY: u64 = 32 << 20;

/// Windows and buffers may fill; what grows with the output does not fit here.
const FLAT: Bar = Bar::AtMost(Figure::Mebibytes(8.0));

pub(crate) const THROUGH_A_JOB: &str = "much output through a job";
pub(crate) const HOST_GROWTH: &str = "growth of this process meanwhile";
pub(crate) const GUEST_GROWTH: &str = "growth of the guest meanwhile";

/// The most a process grew.
#[derive(Debug)]
struct Growth {
    pid: u32,
    before: u64,
    most: u64,
}

impl Growth {
    fn of(pid: u32) -> Result<Self> {
        Ok(Self { pid, before: resident(pid)?, most: 0 })
    }

    fn look(&mut self) -> Result<()> {
        self.most = self.most.max(resident(self.pid)?.saturating_sub(self.before));
        Ok(())
    }

    fn row(&self, bench: &ContractBench, what: &str) -> BenchRow {
        BenchRow::single(bench.label(what), Figure::size(self.most)).bar(FLAT)
    }
}

/// Beside a plain pipe.
pub(crate) async fn measure(bench: &ContractBench, plan: Plan) -> Result<Vec<BenchRow>> {
    let sandbox = bench.sandbox(TASK).await?;
    let guest = guest_pid(bench, &sandbox).await?;
    let other = |text: &str| through_a_pipe(&mut bench.bash_command(text));
    rows(bench, guest, (plan.streams, SIZE), other, None).await
}

/// Streams `size` bytes so many times, in turn with the alternative, which runs
/// the shell text it is given and returns how many bytes came.
pub(crate) async fn rows(
    bench: &ContractBench,
    guest: u32,
    (times, size): (usize, u64),
    mut other: impl FnMut(&str) -> Result<u64>,
    bar: Option<Bar>,
) -> Result<Vec<BenchRow>> {
    let sandbox = bench.sandbox(TASK).await?;
    let text = text(size);
    let mut growth = [Growth::of(std::process::id())?, Growth::of(guest)?];
    let (mut ours, mut others) = (Samples::default(), Samples::default());
    for _ in 0..times {
        let (time, received) = through_a_job(&sandbox, &text, &mut growth).await?;
        complete(received, size)?;
        ours.push(time);
        let start = Instant::now();
        complete(other(&text)?, size)?;
        others.push(start.elapsed());
    }
    let what = format!("{THROUGH_A_JOB}, {} MiB", size >> 20);
    let stream = BenchRow::single(bench.label(&what), Figure::rate(size, ours.p50()))
        .beside(Figure::rate(size, others.p50()));
    let [host, inside] = growth;
    Ok(vec![
        bar.into_iter().fold(stream, BenchRow::bar),
        host.row(bench, HOST_GROWTH),
        inside.row(bench, GUEST_GROWTH),
    ])
}

/// Returns the shell text that writes so much.
pub(crate) fn text(size: u64) -> String {
    format!("dd if=/dev/zero bs={BLOCK} count={} 2>/dev/null", size / BLOCK)
}

async fn through_a_job(
    sandbox: &Sandbox,
    text: &str,
    growth: &mut [Growth],
) -> Result<(Duration, u64)> {
    let start = Instant::now();
    let mut job = sandbox.start(Command::shell(text).stateless(), Follow::EveryByte).await?;
    let (mut received, mut next_look) = (0, 0);
    while let Some(event) = job.next().await? {
        match event {
            JobEvent::Stdout(bytes) => received += bytes.len() as u64,
            JobEvent::Gap { .. } => return Err("bytes were left out".into()),
            JobEvent::Started { .. } | JobEvent::Stderr(_) | JobEvent::Ended(_) => {}
        }
        if received >= next_look {
            growth.iter_mut().try_for_each(Growth::look)?;
            next_look = received + LOOK_EVERY;
        }
    }
    Ok((start.elapsed(), received))
}

/// Runs a process and returns how many bytes came through its pipe.
pub(crate) fn through_a_pipe(process: &mut Process) -> Result<u64> {
    let mut child = process.stdout(Stdio::piped()).spawn()?;
    let mut pipe = child.stdout.take().ok_or("no pipe")?;
    let mut buffer = vec![0; 64 << 10];
    let mut received = 0;
    loop {
        match pipe.read(&mut buffer)? {
            0 => break,
            count => received += count as u64,
        }
    }
    child.wait()?;
    Ok(received)
}

pub(crate) fn complete(received: u64, size: u64) -> Result<()> {
    if received == size { Ok(()) } else { Err(format!("{received} of {size} bytes came").into()) }
}
