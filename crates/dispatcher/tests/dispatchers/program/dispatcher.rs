//! A dispatcher in a process of its own.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use vestal_board::boards::Boards;
use vestal_board::dispatch::{Backoff, Caps, DispatchPolicy, FailurePolicy, Shown};
use vestal_board::store::Durability;
use vestal_board::{HostId, HostName, LogPolicy};
use vestal_config::Environment;
use vestal_dispatcher::{DispatchMode, Dispatcher, DispatcherOptions, OpenBoards, ProgramLauncher};
use vestal_process::EndTimeouts;

use super::{Anything, say, value};

pub(super) async fn run(environment: &Environment, arguments: &[String]) -> Result<u8, Anything> {
    let text = |flag: &str| value(arguments, flag).ok_or_else(|| format!("{flag} is missing"));
    let millis = |flag: &str| -> Result<Duration, Anything> {
        Ok(Duration::from_millis(text(flag)?.parse()?))
    };
    let root = PathBuf::from(text("--root")?);
    let host = HostId::this(HostName::new(text("--host")?))?;
    let failures = FailurePolicy {
        backoff: Backoff { first: Duration::ZERO, most: Duration::ZERO },
        ..FailurePolicy::default()
    };
    let policy = DispatchPolicy {
        host: host.clone(),
        caps: Caps::default(),
        default_assignee: None,
        lease: millis("--lease")?,
        stale_after: None,
        failures,
        shown: Shown::First(100),
    };
    let launcher = ProgramLauncher {
        program: std::env::current_exe()?,
        root: root.clone(),
        environment: environment.clone(),
        passthrough: Vec::new(),
        log: LogPolicy::default(),
    };
    let dispatcher = Dispatcher::new(DispatcherOptions {
        lock: root.join("kanban").join(text("--lock")?),
        policy,
        room: None,
        launcher: Arc::new(launcher),
        profiles: Arc::new(|| BTreeSet::from(["ada".to_owned()])),
        environment: environment.clone(),
        timeouts: EndTimeouts { grace: millis("--grace")?, kill: Duration::from_secs(20) },
        interval: millis("--interval")?,
        retention: None,
        on_event: Arc::new(|printed| say(&printed.to_string())),
    });
    let boards = OpenBoards::new(Boards::at(root.join("kanban"), host, Durability::Normal), None);
    say("up");
    if arguments.iter().any(|argument| argument == "--watch") {
        dispatcher.watch(&boards, std::future::pending()).await?;
    } else {
        let all = boards.all().await?;
        for board in &all {
            dispatcher.tick(board, &all, DispatchMode::Real).await?;
        }
    }
    Ok(0)
}
