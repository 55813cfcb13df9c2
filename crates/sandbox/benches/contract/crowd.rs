//! Many sandboxes at once.

use std::time::Instant;

use tokio::task::JoinSet;

use crate::Result;
use crate::stage::Stage;
use crate::workload::stateless;
use vestal_bench::report::{Figure, Row};
use vestal_bench::sample::{Samples, repeat};

const SANDBOXES: usize = 50;
const COMMANDS: usize = 5;

/// What one sandbox of the crowd took.
struct Member {
    made: Samples,
    commands: Samples,
}

pub(crate) async fn measure(stage: &Stage) -> Result<Vec<Row>> {
    let mut crowd = JoinSet::new();
    for number in 0..SANDBOXES {
        let stage = stage.clone();
        crowd.spawn(async move { member(&stage, number).await });
    }
    let (mut made, mut commands) = (Samples::default(), Samples::default());
    while let Some(member) = crowd.join_next().await {
        let member = member??;
        made.extend(member.made);
        commands.extend(member.commands);
    }
    let sandbox = stage.sandbox(&task(0)).await?;
    let alone = async |_| stateless(&sandbox, "echo alone").await.map(drop);
    let alone = repeat(2, 4 * COMMANDS, alone).await?;
    let at_once = format!("{SANDBOXES} sandboxes × {COMMANDS} commands at once, p95");
    Ok(vec![
        Row::times(stage.label(&format!("new sandbox, {SANDBOXES} at once")), &made),
        Row::times(stage.label(&at_once), &commands).p95_beside(Figure::time(alone.p50())),
    ])
}

fn task(number: usize) -> String {
    format!("crowd-{number}")
}

/// Makes a sandbox and runs its commands, each of which must say the right thing.
async fn member(stage: &Stage, number: usize) -> Result<Member> {
    let (mut made, mut commands) = (Samples::default(), Samples::default());
    let start = Instant::now();
    let sandbox = stage.sandbox(&task(number)).await?;
    made.push(start.elapsed());
    for command in 0..COMMANDS {
        let start = Instant::now();
        let output = stateless(&sandbox, &format!("echo {number} {command}")).await?;
        commands.push(start.elapsed());
        let said = output.stdout.text();
        if said != format!("{number} {command}\n") {
            return Err(format!("sandbox {number} said {said:?} to command {command}").into());
        }
    }
    Ok(Member { made, commands })
}
