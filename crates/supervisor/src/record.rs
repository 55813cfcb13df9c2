//! Which process a slot has, on disk: written before it is started, so that the next supervisor
//! finds and ends what a killed one left. Never are there two processes of one slot.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use vestal_process::{EndTimeouts, ProcessId, ProcessSession, SessionEnd};

use crate::slot::{Slot, SlotName};
use crate::state::{self, StateFileError, VERSION};

/// The variable that distinguishes the processes of one start from those of all others.
pub const RUN_VARIABLE: &str = "VESTAL_SUPERVISED_RUN";

/// From SIGTERM to SIGKILL for what was left of a slot that no longer exists.
const LEFTOVER_GRACE: Duration = Duration::from_secs(10);
/// How long processes may take to vanish after SIGKILL.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// A start of a slot's child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChildRecord {
    version: u64,
    pub(crate) slot: SlotName,
    /// Value of [`RUN_VARIABLE`], another one for each start.
    pub(crate) run: String,
    argv: Vec<String>,
    /// The process; nothing while it is being started.
    pub(crate) process: Option<ProcessId>,
    pub(crate) started_at: String,
}

impl ChildRecord {
    /// Returns the record of a start that is about to happen.
    pub(crate) fn intended(slot: &Slot) -> io::Result<Self> {
        let mut bytes = [0; 16];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        let run = format!("{:032x}", u128::from_ne_bytes(bytes));
        let argv =
            slot.service.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let (slot, started_at) = (slot.name.clone(), state::now());
        Ok(Self { version: VERSION, slot, run, argv, process: None, started_at })
    }

    /// Returns the variable that marks processes of this start.
    pub(crate) fn mark(&self) -> OsString {
        format!("{RUN_VARIABLE}={}", self.run).into()
    }

    /// Returns the processes of this start, once it is known which one leads them.
    pub(crate) fn session(&self) -> Option<ProcessSession> {
        let leader = self.process.clone()?;
        Some(ProcessSession { leader, marks: vec![self.mark()] })
    }

    /// Finds the process if the supervisor was killed between its start and the record of it. It is
    /// the first one that carries the mark and was started with the same arguments: what it started
    /// itself carries the mark too.
    fn find(&self) -> io::Result<Option<ProcessId>> {
        let mark = self.mark();
        let mut found: Option<ProcessId> = None;
        for entry in std::fs::read_dir("/proc")? {
            // What vanished meanwhile has ended.
            let Ok(entry) = entry else { continue };
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let list =
                |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            if !list("environ").split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes()) {
                continue;
            }
            let cmdline = list("cmdline");
            let words = cmdline.strip_suffix(b"\0").unwrap_or(&cmdline).split(|byte| *byte == 0);
            if !words.map(String::from_utf8_lossy).eq(self.argv.iter().map(String::as_str)) {
                continue;
            }
            if let Some(process) = ProcessId::of_child(pid)?
                && process.is_alive()
                && found.as_ref().is_none_or(|first| process.start < first.start)
            {
                found = Some(process);
            }
        }
        Ok(found)
    }
}

/// The records of all slots of a home.
#[derive(Debug, Clone)]
pub(crate) struct Records {
    dir: PathBuf,
}

impl Records {
    pub(crate) fn new(run_dir: &Path) -> Self {
        Self { dir: run_dir.join("slots") }
    }

    fn path(&self, slot: &SlotName) -> PathBuf {
        self.dir.join(format!("{slot}.json"))
    }

    /// Returns the file that tells a child that its end is planned.
    pub(crate) fn note_path(&self, slot: &SlotName) -> PathBuf {
        self.dir.join(format!("{slot}.planned-stop.json"))
    }

    pub(crate) fn write(&self, record: &ChildRecord) -> Result<(), StateFileError> {
        state::write(&self.path(&record.slot), record)
    }

    pub(crate) fn remove(&self, slot: &SlotName) -> Result<(), StateFileError> {
        for path in [self.note_path(slot), self.path(slot)] {
            crate::files::remove(&path).map_err(|source| StateFileError::Io {
                action: "remove",
                path,
                source,
            })?;
        }
        Ok(())
    }

    /// Returns the record of a slot.
    pub(crate) fn read(&self, slot: &SlotName) -> Result<Option<ChildRecord>, StateFileError> {
        state::read(&self.path(slot))
    }

    /// Returns the slots that have a record.
    pub(crate) fn slots(&self) -> io::Result<Vec<SlotName>> {
        let entries = match std::fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut slots = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(".json"));
            slots.extend(name.and_then(|name| SlotName::new(name).ok()));
        }
        Ok(slots)
    }

    /// Writes the note by which a child knows that SIGTERM means a planned end.
    pub(crate) fn write_note(
        &self,
        slot: &SlotName,
        process: &ProcessId,
        action: PlannedAction,
    ) -> Result<(), StateFileError> {
        let note = PlannedStop {
            version: VERSION,
            process: process.clone(),
            action,
            written_at: state::now(),
        };
        state::write(&self.note_path(slot), &note)
    }

    /// Ends what an earlier supervisor left of a slot, and forgets it. The child is asked first, as
    /// it is when the system goes down: its state stays as it was.
    pub(crate) async fn end_leftover(
        &self,
        slot: &SlotName,
        grace: Duration,
    ) -> Result<LeftoverChild, LeftoverError> {
        let Some(mut record) = self.read(slot)? else { return Ok(LeftoverChild::None) };
        if record.process.is_none() {
            record.process = record.find().map_err(LeftoverError::Io)?;
        }
        let Some(session) = record.session() else {
            self.remove(slot)?;
            return Ok(LeftoverChild::None);
        };
        let found = session.members().map_err(LeftoverError::Io)?;
        end(&session, grace).await?;
        self.remove(slot)?;
        Ok(if found.is_empty() {
            LeftoverChild::None
        } else {
            LeftoverChild::Ended(session.leader)
        })
    }

    /// Ends what an earlier supervisor left of all slots, those that no longer exist too, at the same
    /// time. `grace_periods` says how long each slot may take.
    pub(crate) async fn end_leftovers(
        &self,
        grace_periods: &BTreeMap<SlotName, Duration>,
    ) -> io::Result<Vec<(SlotName, Result<LeftoverChild, LeftoverError>)>> {
        let mut ending = JoinSet::new();
        for slot in self.slots()? {
            let records = self.clone();
            let grace = grace_periods.get(&slot).copied().unwrap_or(LEFTOVER_GRACE);
            ending.spawn(async move {
                let ended = records.end_leftover(&slot, grace).await;
                (slot, ended)
            });
        }
        let mut all = Vec::new();
        while let Some(ended) = ending.join_next().await {
            all.extend(ended.ok());
        }
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(all)
    }
}

/// What an earlier supervisor left of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LeftoverChild {
    /// Nothing that ran.
    None,
    /// This process ran and was ended.
    Ended(ProcessId),
}

/// Why the processes of a slot are not known to be gone.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LeftoverError {
    /// They survived SIGKILL.
    #[error("still alive after SIGKILL: {}", pids(.0))]
    Alive(Vec<ProcessId>),
    /// They could not be looked at.
    #[error("cannot look at its processes: {0}")]
    Io(#[source] io::Error),
    /// The record cannot be used.
    #[error(transparent)]
    State(#[from] StateFileError),
}

fn pids(processes: &[ProcessId]) -> String {
    let pids: Vec<String> = processes.iter().map(|process| process.pid.to_string()).collect();
    format!("process {}", pids.join(", "))
}

/// What SIGTERM means to the child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedAction {
    /// It stays down.
    Stop,
    /// It is started again.
    Restart,
}

/// The note about a planned end. It counts only for the process it names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedStop {
    /// Version of the file.
    pub version: u64,
    /// The process that is to end.
    pub process: ProcessId,
    /// What happens after.
    pub action: PlannedAction,
    /// When it was written.
    pub written_at: String,
}

impl PlannedStop {
    /// Reads the note of this process; nothing if its end is not planned.
    pub fn of_this_process(path: &Path) -> io::Result<Option<Self>> {
        let note: Option<Self> = state::read(path).map_err(io::Error::other)?;
        let me = ProcessId::current()?;
        Ok(note.filter(|note| note.process == me))
    }
}

/// Ends a session: its leader is asked, and what is left after the grace period is killed. Only the
/// leader is asked, because its children have work of it to finish.
pub(crate) async fn end(session: &ProcessSession, grace: Duration) -> Result<(), LeftoverError> {
    let leader = &session.leader;
    if let Some(handle) = leader.handle().map_err(LeftoverError::Io)? {
        // A stopped process does not handle SIGTERM until it is continued.
        for signal in [Signal::TERM, Signal::CONT] {
            send(leader, signal).map_err(LeftoverError::Io)?;
        }
        handle.ended_within(grace).await.map_err(LeftoverError::Io)?;
    }
    kill_all(session).await
}

/// Kills all that is left of a session.
pub(crate) async fn kill_all(session: &ProcessSession) -> Result<(), LeftoverError> {
    let timeouts = EndTimeouts { grace: Duration::ZERO, kill: KILL_TIMEOUT };
    match session.end(timeouts).await.map_err(LeftoverError::Io)? {
        SessionEnd::Ended => Ok(()),
        SessionEnd::Survived(alive) => Err(LeftoverError::Alive(alive)),
    }
}

/// Sends a signal to exactly this process. One that is gone is not an error.
pub(crate) fn send(process: &ProcessId, signal: Signal) -> io::Result<()> {
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else { return Ok(()) };
    let fd = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(fd) => fd,
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    // The descriptor is bound to whatever had the pid when it was opened.
    if !process.is_alive() {
        return Ok(());
    }
    match pidfd_send_signal(&fd, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
