//! A gibibyte of output, every byte delivered, beside a plain pipe.

use std::io::Read as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use vestal_sandbox::job::{Follow, JobEvent};
use vestal_sandbox::{Command, Sandbox};

use crate::Result;
use crate::commands::TASK;
use crate::options::Plan;
use crate::process::{guest_pid, resident};
use crate::report::{Bar, Figure, Row};
use crate::sample::Samples;
use crate::stage::Stage;

const SIZE: u64 = 1 << 30;
const TEXT: &str = "head -c 1073741824 /dev/zero";

/// Memory is looked at each time so much has come.
const LOOK_EVERY: u64 = 32 << 20;

/// Windows and buffers may fill; what grows with the output does not fit here.
const FLAT: Bar = Bar::AtMost(Figure::Mebibytes(8.0));

/// The most a process grew.
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
}

pub(crate) async fn measure(stage: &Stage, plan: Plan) -> Result<Vec<Row>> {
    let sandbox = stage.sandbox(TASK).await?;
    let mut growth =
        [Growth::of(std::process::id())?, Growth::of(guest_pid(stage, &sandbox).await?)?];
    let (mut ours, mut pipe) = (Samples::default(), Samples::default());
    for _ in 0..plan.streams {
        ours.push(through_a_job(&sandbox, &mut growth).await?);
        pipe.push(through_a_pipe(stage)?);
    }
    let [host, guest] = growth;
    Ok(vec![
        Row::single("1 GiB of output through a job", Figure::rate(SIZE, ours.p50()))
            .beside(Figure::rate(SIZE, pipe.p50())),
        Row::single("growth of this process meanwhile", Figure::size(host.most)).bar(FLAT),
        Row::single("growth of the guest meanwhile", Figure::size(guest.most)).bar(FLAT),
    ])
}

async fn through_a_job(sandbox: &Sandbox, growth: &mut [Growth]) -> Result<Duration> {
    let start = Instant::now();
    let mut job = sandbox.start(Command::shell(TEXT).stateless(), Follow::EveryByte).await?;
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
    complete(received)?;
    Ok(start.elapsed())
}

fn through_a_pipe(stage: &Stage) -> Result<Duration> {
    let start = Instant::now();
    let mut child = stage.bash_command(TEXT).stdout(Stdio::piped()).spawn()?;
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
    complete(received)?;
    Ok(start.elapsed())
}

fn complete(received: u64) -> Result<()> {
    if received == SIZE { Ok(()) } else { Err(format!("{received} of {SIZE} bytes came").into()) }
}
