//! `vestal touch`.

use std::time::Duration;

use clap::Args;

use crate::cli::Tasks;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::find;

/// How long a guest may take to notice.
const WITHIN: Duration = Duration::from_secs(10);

const AFTER_HELP: &str = "\
Example:
  vestal touch web";

/// Keeps running sandboxes from idling out.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct TouchArgs {
    #[command(flatten)]
    tasks: Tasks,
}

pub(crate) async fn run(context: &Context, args: TouchArgs) -> Result<Exit, Failure> {
    let engine = context.engine()?;
    for task in &args.tasks.or_default(&engine)? {
        match engine.observe(task).await {
            Ok(connection) => connection.touch(WITHIN).await?,
            Err(error) => return Err(find::explain(&engine, error).await),
        }
    }
    Ok(Exit::Success)
}
