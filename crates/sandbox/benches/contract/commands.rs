//! `true`, from a program that uses the library, beside `bash -c true`.

use crate::Result;
use crate::options::Plan;
use crate::report::{Bar, Figure, Row};
use crate::sample::{Samples, in_turn};
use crate::stage::Stage;
use crate::workload::{self, in_session, stateless};

/// The sandbox that all rows but the crowd's use.
pub(crate) const TASK: &str = "bench";

pub(crate) async fn measure(stage: &Stage, plan: Plan) -> Result<Vec<Row>> {
    let sandbox = stage.sandbox(TASK).await?;
    let bash = || stage.bash("true");
    let clean = async || stateless(&sandbox, "true").await.map(drop);
    let clean = in_turn(plan.warm_up, plan.commands, clean, bash).await?;
    workload::prepare(&sandbox).await?;
    let session = async || in_session(&sandbox, "true").await.map(drop);
    let session = in_turn(plan.warm_up, plan.commands, session, bash).await?;
    Ok(vec![
        row("true, stateless", &clean).bar(Bar::Times(2.0)),
        row("true, session", &session).bar(Bar::Times(2.5)),
    ])
}

/// The same from a runtime of several threads, as servers have.
pub(crate) async fn threaded(stage: &Stage, plan: Plan) -> Result<Vec<Row>> {
    let sandbox = stage.sandbox(TASK).await?;
    let clean = async || stateless(&sandbox, "true").await.map(drop);
    let clean = in_turn(plan.warm_up, plan.commands, clean, || stage.bash("true")).await?;
    Ok(vec![row("true, stateless, from several threads", &clean)])
}

fn row(what: &str, (ours, bash): &(Samples, Samples)) -> Row {
    Row::times(what, ours).beside(Figure::time(bash.p50()))
}
