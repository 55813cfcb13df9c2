//! A home with much in it, and its dashboard.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use vestal_bench::Result;
use vestal_board::boards::{Boards, Slug};
use vestal_board::{Authority, Board, NewTask};
use vestal_config::{Environment, Home, Settings};
use vestal_conversations::{ConversationStore, New, NewMessage};
use vestal_sandbox::{Command as SandboxCommand, Engine};
use vestal_testkit::TestHome;

use crate::Plan;
use crate::client::{Client, Login};

pub(crate) struct DashboardBench {
    home: TestHome,
    dashboard: Child,
    pub(crate) login: Login,
    /// Kept open: closing the last connection of a file would be news to every page.
    pub(crate) board: Board,
}

fn settings(home: &TestHome) -> Settings {
    let environment = Environment::from_pairs(home.variables());
    Settings::load(&vestal_api::schema(), Home::at(home.vestal()), environment, Vec::new())
}

impl DashboardBench {
    pub(crate) async fn new(program: PathBuf, plan: Plan) -> Result<Self> {
        let home = TestHome::create();
        // Nothing here has to outlast a loss of power.
        home.write_config("terminal: {backend: local}\nkanban: {durability: normal}\n");
        std::fs::create_dir(home.vestal().join("logs"))?;
        let boards = vestal_board::settings::boards(&settings(&home))?;
        let board = add_tasks(&boards, plan.tasks).await?;
        add_conversations(&home.vestal().join("state.db"), plan.conversations).await?;
        write_log(&home.vestal().join("logs/agent.log"), plan.log_bytes)?;
        start_sandboxes(&home, plan.sandboxes).await?;
        let mut command = home.command(program);
        command
            .args(["dashboard", "--port", "0", "--no-open"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut dashboard = command.spawn()?;
        let stdout = dashboard.stdout.take().ok_or("it prints nothing")?;
        let stdout = tokio::process::ChildStdout::from_std(stdout)?;
        let link = BufReader::new(stdout).lines().next_line().await?.ok_or("there is no link")?;
        let rest = link.strip_prefix("http://").ok_or("the link is none")?;
        let (host, token) = rest.split_once("/login#").ok_or("the link is none")?;
        let mut login = Login { host: host.to_owned(), cookie: String::new() };
        let body = json!({ "token": token }).to_string();
        let entered = Client::connect(&login).await?.post("/api/auth/link", &body).await?;
        login.cookie = entered.cookie.ok_or("there is no cookie")?;
        Ok(Self { home, dashboard, login, board })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.dashboard.id()
    }

    /// Ends the dashboard and the sandboxes.
    pub(crate) async fn close(mut self) -> Result<()> {
        self.dashboard.kill()?;
        self.dashboard.wait()?;
        self.board.close().await?;
        let engine = Engine::open(settings(&self.home))?;
        for summary in engine.list().await? {
            engine.stop(&summary.task.parse()?).await?;
        }
        engine.close(Duration::from_mins(1)).await;
        Ok(())
    }
}

async fn add_tasks(boards: &Boards, count: usize) -> Result<Board> {
    let board = boards.open_to_write(&Slug::default_board()).await?;
    let person = Authority::Person("user".to_owned());
    for number in 0..count {
        let new = NewTask {
            title: format!("Task {number} of a busy year"),
            body: "What is to be done, in a sentence or two of the person who wants it.".to_owned(),
            ..NewTask::default()
        };
        board.create(&person, new).await?;
    }
    Ok(board)
}

async fn add_conversations(path: &std::path::Path, count: usize) -> Result<()> {
    let store = ConversationStore::open(path).await?;
    for number in 0..count {
        let new = New {
            id: None,
            title: None,
            source: "cli".to_owned(),
            parent: None,
            provider: "p".to_owned(),
            model: "m".to_owned(),
            cwd: None,
            system_prompt: String::new(),
            state: Vec::new(),
        };
        let made = store.create(new).await?;
        let text = format!("question {number}: why does the build fail on host {}?", number % 97);
        let reply = json!({ "role": "user", "parts": [{ "type": "text", "text": text }] });
        store.append(&made.id, &[NewMessage::new(serde_json::from_value(reply)?)]).await?;
    }
    Ok(store.close().await?)
}

fn write_log(path: &std::path::Path, bytes: usize) -> Result<()> {
    let mut log = std::io::BufWriter::new(std::fs::File::create(path)?);
    let (mut written, mut number) = (0, 0_u64);
    while written < bytes {
        let (minute, second, ms) = (number / 60_000 % 60, number / 1000 % 60, number % 1000);
        let line = format!(
            "2026-11-15T10:{minute:02}:{second:02}.{ms:03}Z INFO [-] vestal_agent::turn: \
             entry {number} of a log that nobody has looked at for long\n"
        );
        log.write_all(line.as_bytes())?;
        written += line.len();
        number += 1;
    }
    Ok(log.flush()?)
}

async fn start_sandboxes(home: &TestHome, count: usize) -> Result<()> {
    let engine = Engine::open(settings(home))?;
    for number in 0..count {
        let sandbox = engine.sandbox(&format!("task-{number}").parse()?).await?;
        sandbox.run(SandboxCommand::shell("true")).await?;
    }
    engine.close(Duration::from_mins(1)).await;
    Ok(())
}
