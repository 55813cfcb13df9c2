//! Serves sandboxes on standard input and output, as `vestal serve --sandboxes` does: for a program that
//! embeds the server. `--set KEY=VALUE` changes a setting, `--isolated` refuses sandboxes without isolation.

use std::error::Error;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use vestal_config::{Environment, Home, Override, Settings};
use vestal_sandbox::{Engine, EngineOptions};
use vestal_serve::{FrameLine, FrameReader, IsolationRule, SandboxService};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (schema, environment) = (vestal_api::schema(), Environment::capture());
    let (mut set, mut rule) = (Vec::new(), IsolationRule::AsSet);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--set" => {
                let pair = arguments.next().ok_or("--set needs KEY=VALUE")?;
                set.push(Override::parse(&schema, &pair)?);
            }
            "--isolated" => rule = IsolationRule::Required,
            "serve" | "--sandboxes" => {}
            other => return Err(format!("unknown argument: {other}").into()),
        }
    }
    let home = Home::locate(&environment, None)?;
    let settings = Settings::load(&schema, home, environment, set);
    let options =
        EngineOptions { launch_dir: std::env::current_dir().ok(), ..EngineOptions::default() };
    let engine = Engine::open_with(settings, options)?;
    let boards = vestal_board::settings::boards(engine.settings())?;
    let server = SandboxService::new(engine.clone(), rule, boards, None);
    let (connection, outgoing) = server.connect();
    let writer = tokio::spawn(async move {
        let mut stdout = tokio::io::stdout();
        while let Some(frame) = outgoing.next().await {
            stdout.write_all(format!("{frame}\n").as_bytes()).await?;
            stdout.flush().await?;
        }
        std::io::Result::Ok(())
    });
    let mut lines = FrameReader::new(tokio::io::stdin());
    while let Some(line) = lines.next().await? {
        match line {
            FrameLine::Text(text) => connection.receive(&text).await,
            FrameLine::Bad(bad) => connection.refuse(bad).await,
        }
    }
    server.shutdown().await;
    connection.close("the input has ended");
    engine.close(Duration::from_secs(1)).await;
    writer.await??;
    Ok(())
}
