//! `vestal kill`.

use clap::Args;
use vestal_api::{JobPrefix, JobView};
use vestal_sandbox::job;
use vestal_wire::{JobInfo, JobState};

use crate::cli::JobPlace;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::find::{self, FoundJob};
use crate::values::parse_signal;

const AFTER_HELP: &str = "\
Without --signal, everything the job started is killed, including background processes, and the
command returns when all of it is gone.

Examples:
  vestal kill j-06f3
  vestal kill --signal INT j-06f3";

/// Kill a job and everything it started, or send it a signal.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct KillArgs {
    #[command(flatten)]
    place: JobPlace,

    /// Send this signal to the foreground processes of the job instead.
    #[arg(short, long, value_name = "SIGNAL", value_parser = parse_signal)]
    signal: Option<i32>,

    /// Print the job as a JSON object.
    #[arg(long)]
    json: bool,

    /// Job id, or a unique prefix of it.
    #[arg(value_name = "JOB")]
    job: JobPrefix,
}

pub(crate) async fn run(context: &Context, args: KillArgs) -> Result<Exit, Failure> {
    let engine = context.engine()?;
    let found = find::job(context, &engine, args.place.task.as_ref(), &args.job).await?;
    let (info, said) = match args.signal {
        None => kill(context, &found).await?,
        Some(signal) => signalled(&found, signal).await?,
    };
    if args.json {
        context.console.print_json(&JobView::new(found.task.as_str(), &info))?;
    } else {
        context.console.print(&said)?;
    }
    Ok(Exit::Success)
}

async fn kill(context: &Context, found: &FoundJob) -> Result<(JobInfo, String), Failure> {
    let id = &found.info.id;
    let killing = job::kill(&found.connection, id);
    let info = context.console.while_waiting(&format!("killing {id}"), killing).await?;
    let said = match (found.info.state, found.info.processes) {
        (JobState::Ended(_), 0) => format!("job {id} had ended"),
        _ => format!("killed job {id}"),
    };
    Ok((info, said))
}

async fn signalled(found: &FoundJob, signal: i32) -> Result<(JobInfo, String), Failure> {
    let id = &found.info.id;
    job::signal(&found.connection, id, signal).await?;
    let info = job::wait(&found.connection, id, Some(std::time::Duration::ZERO)).await?;
    Ok((info, format!("sent signal {signal} to job {id}")))
}
