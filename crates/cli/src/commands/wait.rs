//! `vestal wait`.

use std::time::Duration;

use clap::Args;
use vestal_api::{JobPrefix, JobView};
use vestal_sandbox::job;
use vestal_wire::JobState;

use crate::cli::JobPlace;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::find;
use crate::follow::exit_of;
use crate::values::parse_duration;

const AFTER_HELP: &str = "\
The exit code is the one of the job; 124 if the job still runs after --timeout, or timed out itself.

Example:
  job=$(vestal run --background 'make test') && vestal wait $job";

/// Wait for a job to end.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct WaitArgs {
    #[command(flatten)]
    place: JobPlace,

    /// Stop waiting after this time: seconds, or a number with s, m, h or d. The job keeps running.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,

    /// Print the job as a JSON object.
    #[arg(long)]
    json: bool,

    /// Job id, or a unique prefix of it.
    #[arg(value_name = "JOB")]
    job: JobPrefix,
}

pub(crate) async fn run(context: &Context, args: WaitArgs) -> Result<Exit, Failure> {
    let engine = context.engine()?;
    let found = find::job(context, &engine, args.place.task.as_ref(), &args.job).await?;
    let waiting = job::wait(&found.connection, &found.info.id, args.timeout);
    let info =
        context.console.while_waiting(&format!("waiting for {}", found.info.id), waiting).await?;
    if args.json {
        context.console.print_json(&JobView::new(found.task.as_str(), &info))?;
    }
    match info.state {
        JobState::Ended(_) => exit_of(&info),
        JobState::Starting | JobState::Running => {
            context.console.note(&format!("job {} still runs", info.id));
            Ok(Exit::TimedOut)
        }
    }
}
