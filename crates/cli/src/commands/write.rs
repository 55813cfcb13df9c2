//! `vestal write`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use clap::Args;
use vestal_api::JobPrefix;
use vestal_sandbox::Input;
use vestal_sandbox::job::{self, AfterInput};

use crate::cli::JobPlace;
use crate::console::terminal::StdinKind;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::find;

const AFTER_HELP: &str = "\
Without TEXT, standard input is passed on until it ends.

Examples:
  vestal write --newline j-06f3 yes
  vestal write --close j-06f3 < data";

/// Write to the standard input of a job.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct WriteArgs {
    #[command(flatten)]
    place: JobPlace,

    /// Close the standard input of the job afterwards.
    #[arg(short, long)]
    close: bool,

    /// Add a newline to the text.
    #[arg(short, long)]
    newline: bool,

    /// Job id, or a unique prefix of it.
    #[arg(value_name = "JOB")]
    job: JobPrefix,

    /// Text to write; words are joined by spaces. After `--` it may begin with a hyphen.
    #[arg(value_name = "TEXT", trailing_var_arg = true)]
    text: Vec<OsString>,
}

pub(crate) async fn run(context: &Context, args: WriteArgs) -> Result<Exit, Failure> {
    let input = input(&args)?;
    let engine = context.engine()?;
    let found = find::job(context, &engine, args.place.task.as_ref(), &args.job).await?;
    let after = if args.close { AfterInput::Close } else { AfterInput::KeepOpen };
    let writing = job::write(&found.connection, &found.info.id, input, after);
    context.console.while_waiting("waiting for the job to read", writing).await?;
    Ok(Exit::Success)
}

fn input(args: &WriteArgs) -> Result<Input, Failure> {
    if !args.text.is_empty() || args.newline {
        let words: Vec<&[u8]> = args.text.iter().map(|word| word.as_bytes()).collect();
        let mut bytes = words.join(&b' ');
        if args.newline {
            bytes.push(b'\n');
        }
        return Ok(Input::Bytes(bytes));
    }
    match StdinKind::detect() {
        StdinKind::Data => Ok(Input::Reader(Box::new(tokio::io::stdin()))),
        StdinKind::Nothing | StdinKind::Terminal if args.close => Ok(Input::Null),
        StdinKind::Nothing | StdinKind::Terminal => Err(Failure::usage(
            "there is nothing to write: give TEXT, pipe something in, or --close",
        )),
    }
}
