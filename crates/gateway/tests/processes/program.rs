//! What the tests start and kill: the gateway of a home. The second argument names a file with
//! settings, one in a line.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program of the tests, not of users"
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use vestal_config::{Environment, Home, Override, Settings};
use vestal_gateway::{Gateway, GatewaySettings, ShutdownCause};
use vestal_runtime::Runtime;
use vestal_sandbox::Engine;

const TEST_TIMEOUT: Duration = Duration::from_mins(1);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (home, file) = (arguments.next().unwrap(), arguments.next().unwrap());
    let schema = vestal_api::schema();
    let set = std::fs::read_to_string(file).unwrap();
    let set = set.lines().map(|line| Override::parse(&schema, line).unwrap()).collect();
    let settings = Settings::load(&schema, Home::at(&home), Environment::default(), set);
    let gateway = match Gateway::claim(&home, "default") {
        Ok(gateway) => gateway,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let wanted = GatewaySettings::new(&settings).unwrap().unwrap();
    let engine = Engine::open(settings).unwrap();
    let runtime = Runtime::builder(engine.clone()).build().await.unwrap();
    let (sender, receiver) = mpsc::channel(4);
    let on_signal = sender.clone();
    let mut terminate = signal(SignalKind::terminate()).unwrap();
    tokio::spawn(async move {
        while terminate.recv().await.is_some() {
            on_signal.send(ShutdownCause::Unplanned).await.ok();
        }
    });
    let served =
        gateway.serve(runtime.clone(), wanted, None, (sender, receiver), || println!("ready"));
    let end = served.await;
    engine.close(TEST_TIMEOUT).await;
    runtime.close().await;
    match end {
        Ok(end) => {
            println!("{:?}", end.shutdown);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
