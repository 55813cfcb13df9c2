//! What a guest weighs.

use vestal_sandbox::GUEST;

use crate::Result;
use crate::commands::TASK;
use crate::process::{guest_pid, resident};
use crate::report::{Bar, Figure, Row};
use crate::stage::Stage;

/// Measured after all that was done to the guest before, not of a fresh one.
pub(crate) async fn measure(stage: &Stage) -> Result<Vec<Row>> {
    let sandbox = stage.sandbox(TASK).await?;
    let idle = resident(guest_pid(stage, &sandbox).await?)?;
    Ok(vec![
        Row::single("guest memory, idle", Figure::size(idle))
            .bar(Bar::AtMost(Figure::Mebibytes(4.0))),
        Row::single("guest file", Figure::size(GUEST.len() as u64))
            .bar(Bar::AtMost(Figure::Mebibytes(2.0))),
    ])
}
