//! A worker that does what the body of its task says, line by line.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use vestal_board::boards::{Boards, Slug};
use vestal_board::store::Durability;
use vestal_board::verbs::{Block, Heartbeat, TaskCompletion};
use vestal_board::{Authority, Board, Error, Fence, HostId, HostName, RunId, RunProcess, TaskId};
use vestal_config::{Environment, ProfileName};
use vestal_process::{ProcessId, lead_session};

use super::{Anything, say, value};

const LOST: u8 = 77;

pub(super) async fn run(environment: &Environment, arguments: &[String]) -> Result<u8, Anything> {
    let text = |flag: &str| value(arguments, flag).ok_or_else(|| format!("{flag} is missing"));
    let (task, run): (TaskId, i64) = (text("--task")?.parse()?, text("--run")?.parse()?);
    let home = PathBuf::from(environment.get("VESTAL_HOME").ok_or("VESTAL_HOME is missing")?);
    if arguments.iter().any(|argument| argument == "--sweep") {
        append(&home.join("swept"), &format!("{task} {run}\n"))?;
        return Ok(0);
    }
    lead_session()?;
    let host = environment.get("VESTAL_KANBAN_HOST").ok_or("VESTAL_KANBAN_HOST is missing")?;
    let host = HostId::this(HostName::new(&host.to_string_lossy()))?;
    let boards = Boards::at(home.join("kanban"), host, Durability::Normal);
    let board = boards.open_any(&Slug::new(text("--board")?)?).await?;
    let profile = ProfileName::new(text("-p")?)?;
    let mut worker = Worker {
        fence: Fence { task, run: RunId::new(run), profile },
        board,
        environment,
        arguments,
        children: Vec::new(),
    };
    let body = worker.board.get(&worker.fence.task).await?.body;
    for line in body.lines() {
        match worker.step(line).await {
            Ok(Some(code)) => return Ok(code),
            Ok(None) => {}
            Err(Step::Lost) => return Ok(LOST),
            Err(Step::Failed(error)) => return Err(error),
        }
    }
    Ok(0)
}

struct Worker<'a> {
    board: Board,
    fence: Fence,
    environment: &'a Environment,
    arguments: &'a [String],
    children: Vec<std::process::Child>,
}

enum Step {
    Lost,
    Failed(Anything),
}

impl<E: Into<Anything>> From<E> for Step {
    fn from(error: E) -> Self {
        let error = error.into();
        match error.downcast_ref::<Error>() {
            Some(Error::Fenced { .. }) => Self::Lost,
            _ => Self::Failed(error),
        }
    }
}

impl Worker<'_> {
    async fn step(&mut self, line: &str) -> Result<Option<u8>, Step> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let by = Authority::Worker(self.fence.clone());
        let (board, task) = (&self.board, &self.fence.task);
        match verb {
            "say" => say(rest),
            "touch" => append(Path::new(rest), &format!("{}\n", self.fence.run))?,
            "wait-for" => wait_for(Path::new(rest)).await,
            "exit" => return Ok(Some(rest.parse()?)),
            "note-started" => {
                let me = ProcessId::current()?;
                let process =
                    RunProcess { host: board.host().clone(), pid: me.pid, start: me.start };
                board.started(&self.fence, process, "scratch").await?;
            }
            "complete" => {
                board.complete(&by, task, TaskCompletion::default()).await?;
            }
            "block" => {
                let block = Block { reason: rest.to_owned(), kind: None };
                board.block(&by, task, block).await?;
            }
            "beat" => {
                let beat = Heartbeat {
                    lease: Duration::from_millis(rest.parse()?),
                    activity: true,
                    note: None,
                };
                board.heartbeat(&self.fence, beat).await?;
            }
            "beat-for-ever" => {
                let lease = Duration::from_millis(rest.parse()?);
                loop {
                    let beat = Heartbeat { lease, activity: true, note: None };
                    board.heartbeat(&self.fence, beat).await?;
                    tokio::time::sleep(lease / 3).await;
                }
            }
            // An ignored signal stays ignored in the program that is put in
            // this one's place, which is the same process.
            "ignore-term" if self.environment.get("IGNORES_TERM").is_none() => {
                let me = std::env::current_exe()?;
                let error = Command::new("/bin/sh")
                    .args([
                        "-c",
                        "trap '' TERM; IGNORES_TERM=1; export IGNORES_TERM; exec \"$0\" \"$@\"",
                    ])
                    .arg(me)
                    .args(self.arguments)
                    .exec();
                return Err(error.into());
            }
            "ignore-term" => {}
            "child" => {
                let child = Command::new("/bin/sleep").arg("1000").spawn()?;
                append(Path::new(rest), &format!("{}\n", child.id()))?;
                self.children.push(child);
            }
            "environment" => {
                for (name, value) in self.environment.iter() {
                    say(&format!("env {}={}", name.display(), value.display()));
                }
                say(&format!("cwd {}", std::env::current_dir()?.display()));
                say(&format!("stdin {}", std::fs::read_link("/proc/self/fd/0")?.display()));
                let leads = rustix::process::getsid(None)? == rustix::process::getpid();
                say(&format!("leads {leads}"));
            }
            "kill-self" => {
                let me = rustix::process::getpid();
                rustix::process::kill_process(me, rustix::process::Signal::KILL)?;
            }
            "term-self" => {
                let me = rustix::process::getpid();
                rustix::process::kill_process(me, rustix::process::Signal::TERM)?;
            }
            "hang" => std::future::pending().await,
            other => return Err(format!("the script says {other:?}").into()),
        }
        Ok(None)
    }
}

fn append(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(text.as_bytes())
}

async fn wait_for(path: &Path) {
    while !path.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
