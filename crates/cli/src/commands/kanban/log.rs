//! `vestal kanban log`.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use vestal_api::TaskLogView;
use vestal_board::{Board, Status, TaskId, log_path};
use vestal_sandbox::Terminations;

use super::desk::Desk;
use crate::console::Sink;
use crate::error::Failure;
use crate::exit::Exit;
use crate::follow::unless_terminated;

const AFTER_HELP: &str = "\
The log is kept on the host where the worker ran. An older part that was put aside stands beside it.

Examples:
  vestal kanban log t_4x7k --tail 4096
  vestal kanban log -f t_4x7k";

/// Bytes read at a time.
const PIECE: usize = 64 << 10;
/// Time between two looks at a log that is followed.
const LOOK: Duration = Duration::from_millis(200);

/// Prints what the workers of a task have printed.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct LogArgs {
    /// The task.
    #[arg(value_name = "ID")]
    id: String,

    /// Begins with the last bytes.
    #[arg(long, value_name = "BYTES")]
    tail: Option<u64>,

    /// Goes on as long as the task is worked on.
    #[arg(short, long)]
    follow: bool,

    /// Prints where the log is, as a JSON object, in place of what is in it.
    #[arg(long, conflicts_with_all = ["follow", "tail"])]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &LogArgs) -> Result<Exit, Failure> {
    let (board, id) = desk.task(&args.id).await?;
    let path = log_path(board.dir(), &id);
    if args.json {
        let found = std::fs::metadata(&path).ok();
        let size = found.as_ref().map_or(0, std::fs::Metadata::len);
        let path = path.display().to_string();
        desk.print(&TaskLogView { task_id: id.to_string(), path, exists: found.is_some(), size })?;
        return Ok(Exit::Success);
    }
    let sink = Sink::stdout().map_err(|error| Failure::output(&error))?;
    let mut signals =
        Terminations::listen().map_err(|error| Failure::io("listen for signals", &error))?;
    let printing = print(desk, &board, &id, path, args, &sink);
    match unless_terminated(&mut signals, printing).await {
        Ok(done) => done,
        Err(signal) => Ok(Exit::Terminated(signal)),
    }
}

async fn print(
    desk: &Desk<'_>,
    board: &Board,
    id: &TaskId,
    path: PathBuf,
    args: &LogArgs,
    sink: &Sink,
) -> Result<Exit, Failure> {
    let mut log = Log::open(&path, args.tail)?;
    loop {
        // Before the reading: what is printed up to the end of the work is read.
        let at_work = args.follow && board.get(id).await?.status == Status::Running;
        if let Some(log) = &mut log {
            log.pass_on(sink).await?;
        }
        if !at_work {
            break;
        }
        tokio::time::sleep(LOOK).await;
        match &log {
            Some(known) if known.is_current(&path) => {}
            // It has been begun, or put aside for a new one.
            _ => log = Log::open(&path, None)?.or(log),
        }
    }
    if log.is_none() {
        let text = if board.get(id).await?.started_at.is_some() {
            format!("there is no log of {id} on this host")
        } else {
            format!("nobody has worked on {id} yet")
        };
        desk.console().note(&text);
        return Ok(Exit::No);
    }
    Ok(Exit::Success)
}

/// A log that is being read.
struct Log {
    file: File,
    path: PathBuf,
}

impl Log {
    /// Opens a log at its beginning, or so much before its end; nothing if
    /// there is none.
    fn open(path: &Path, tail: Option<u64>) -> Result<Option<Self>, Failure> {
        let failed = |error: &io::Error| Failure::io(&format!("read {}", path.display()), error);
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(&error)),
        };
        if let Some(tail) = tail {
            let size = file.metadata().map_err(|error| failed(&error))?.len();
            let start = SeekFrom::Start(size.saturating_sub(tail));
            file.seek(start).map_err(|error| failed(&error))?;
        }
        Ok(Some(Self { file, path: path.to_owned() }))
    }

    /// Reports whether the file that is read is the one of this name.
    fn is_current(&self, path: &Path) -> bool {
        let same = |own: std::fs::Metadata, found: std::fs::Metadata| {
            (own.dev(), own.ino()) == (found.dev(), found.ino())
        };
        match (self.file.metadata(), std::fs::metadata(path)) {
            (Ok(own), Ok(found)) => same(own, found),
            _ => false,
        }
    }

    /// Passes on what there is now.
    async fn pass_on(&mut self, sink: &Sink) -> Result<(), Failure> {
        let mut piece = vec![0; PIECE];
        loop {
            let read = self
                .file
                .read(&mut piece)
                .map_err(|error| Failure::io(&format!("read {}", self.path.display()), &error))?;
            if read == 0 {
                return Ok(());
            }
            let bytes = Bytes::copy_from_slice(&piece[..read]);
            sink.write(bytes).await.map_err(|error| Failure::output(&error))?;
        }
    }
}
