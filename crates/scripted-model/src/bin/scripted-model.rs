//! The scripted model as a program, for tests of other programs and by hand.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use vestal_scripted_model::{Script, ScriptedModel};

/// A model server that says what a script tells it to.
///
/// Prints its base URL, which serves chat completions and messages alike, on
/// the first line, and ends on SIGTERM or SIGINT. SIGUSR1 lets one held reply
/// continue.
#[derive(Parser)]
#[command(
    name = "scripted-model",
    after_help = "Example:\n  scripted-model --echo --port 8099\n  then: base URL http://127.0.0.1:8099/v1, any key, and the message `$ hostname`"
)]
struct Arguments {
    /// The script, a JSON file.
    #[arg(long, value_name = "FILE", required_unless_present = "echo")]
    script: Option<PathBuf>,
    /// Without a script, or where it says nothing: run `$ command` with the
    /// tool `terminal` and tell its result; repeat any other message.
    #[arg(long)]
    echo: bool,
    /// The port on 127.0.0.1; any free one by default.
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,
    /// Appends each request to this file as a line of JSON, keys left out.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where nothing can be written, the exit code still tells.
            writeln!(std::io::stderr(), "scripted-model: {error}").ok();
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let mut script = match &arguments.script {
        Some(path) => Script::from_file(path)?,
        None => Script::new(),
    };
    if arguments.echo {
        script = script.or_echo();
    }
    // Nobody asks the program what was recorded; the log is its record.
    let script = script.forget_bodies();
    // Signals are caught before the URL is out, so that a reader of it can
    // already send them.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut release = signal(SignalKind::user_defined1())?;
    let server = ScriptedModel::try_start(script, arguments.port, arguments.log.as_deref())?;
    writeln!(std::io::stdout(), "{}", server.base_url())?;
    std::io::stdout().flush()?;
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = release.recv() => server.release(),
        }
    }
}
