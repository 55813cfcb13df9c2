//! The one parent of all slots of a home, from boot to the end.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::changes::DirectoryWatch;
use crate::lock::{Holder, HomeLock, Manager, SupervisorLockError};
use crate::log::{BootLog, RawOutput};
use crate::main_program::MainProgram;
use crate::record::Records;
use crate::slot::{Slot, SlotName, SlotOrder, SlotSource};
use crate::slots::{AllSignals, RunningSupervisor, SupervisorStop, end_all, stop_main};
use crate::state::SlotStatus;
use crate::systemd::Notifier;
use crate::{control, failpoint, serve};

/// How long lines may take to be written at the end.
const LAST_LINES: Duration = Duration::from_secs(1);
/// Dead orphans are looked for this long after the signal of one.
pub(crate) const REAP_AFTER: Duration = Duration::from_millis(100);

/// What a supervisor works with.
pub struct SupervisorOptions {
    /// The directory of the home's running processes: lock, socket, records.
    pub run_dir: PathBuf,
    /// The directory of the home's logs.
    pub logs_dir: PathBuf,
    /// Says which slots there are.
    pub source: Arc<dyn SlotSource>,
    /// Gets every line of every child, after the name of its slot.
    pub output: Box<dyn Write + Send>,
    /// Who keeps this process itself.
    pub manager: Manager,
    /// Whether this process has to reap processes that lost their parent, as process 1 must.
    pub reaps: bool,
    /// What is run beside the slots once they are up; the supervisor ends with it.
    pub main: Option<MainProgram>,
}

/// Why a supervisor did not begin, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// Another one supervises the home, or the lock cannot be used.
    #[error(transparent)]
    Lock(#[from] SupervisorLockError),
    /// The system refused something.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The program beside the slots cannot be run.
    #[error("cannot run {program}: {source}")]
    Main {
        /// Its name.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// Processes of slots are still alive at the end.
    #[error("not all children have ended: {}", .0.join("; "))]
    Alive(Vec<String>),
}

pub(crate) fn failed(action: &'static str) -> impl FnOnce(io::Error) -> SupervisorError {
    move |source| SupervisorError::Io { action, source }
}

/// What wakes the supervisor up.
pub(crate) enum WakeReason {
    /// Look again which slots there are, and tell when it is done.
    Reconcile(Option<oneshot::Sender<()>>),
    /// End; the sender tells when all children are gone, and is notified when that was passed on.
    Shutdown(oneshot::Sender<Result<(), String>>, oneshot::Receiver<()>),
}

/// A slot and the task that keeps it.
pub(crate) struct SlotEntry {
    pub(crate) slot: Slot,
    pub(crate) orders: mpsc::Sender<SlotOrder>,
    pub(crate) status: watch::Receiver<SlotStatus>,
    /// It no longer exists, and its child is being ended.
    pub(crate) leaving: bool,
}

/// What the socket and the supervisor share.
pub(crate) struct SupervisorState {
    pub(crate) holder: Holder,
    pub(crate) wake: mpsc::Sender<WakeReason>,
    pub(crate) booted: watch::Receiver<bool>,
    entries: Mutex<BTreeMap<SlotName, SlotEntry>>,
    broken: Mutex<BTreeMap<String, String>>,
    logs: PathBuf,
}

impl SupervisorState {
    pub(crate) fn entries(&self) -> MutexGuard<'_, BTreeMap<SlotName, SlotEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn broken(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the names of the slots of all profiles.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = self.entries();
        let present = entries.iter().filter(|(_, entry)| !entry.leaving);
        let names = present.map(|(name, _)| name);
        names.filter(|name| name.service_of_home().is_none()).map(SlotName::to_string).collect()
    }

    /// Returns where orders to a slot go.
    pub(crate) fn orders(&self, name: &str) -> Option<mpsc::Sender<SlotOrder>> {
        let name = SlotName::new(name).ok()?;
        let entries = self.entries();
        entries.get(&name).filter(|entry| !entry.leaving).map(|entry| entry.orders.clone())
    }

    /// Returns what is known of slots, by name; without names, of those of all profiles.
    pub(crate) fn statuses(&self, names: Option<&[String]>) -> Vec<SlotStatus> {
        let is_named = |name: &str| names.is_some_and(|names| names.iter().any(|one| one == name));
        let mut statuses = self.statuses_of(|name| match names {
            Some(_) => is_named(name.as_str()),
            None => name.service_of_home().is_none(),
        });
        let broken = self.broken();
        for (name, reason) in broken.iter().filter(|(name, _)| names.is_none() || is_named(name)) {
            statuses.push(SlotStatus::broken(name, reason.clone(), self.logs.clone()));
        }
        statuses
    }

    /// Returns what is known of the slots that the home has once.
    pub(crate) fn services(&self) -> Vec<SlotStatus> {
        self.statuses_of(|name| name.service_of_home().is_some())
    }

    fn statuses_of(&self, is_wanted: impl Fn(&SlotName) -> bool) -> Vec<SlotStatus> {
        let found: Vec<(Slot, SlotStatus)> = self
            .entries()
            .iter()
            .filter(|(name, entry)| is_wanted(name) && !entry.leaving)
            .map(|(_, entry)| (entry.slot.clone(), entry.status.borrow().clone()))
            .collect();
        // Files are read when nobody is kept waiting by it.
        found.into_iter().map(|(slot, status)| status.with_files(&slot.service)).collect()
    }
}

/// The supervisor of a home, which holds its lock.
pub struct Supervisor {
    pub(crate) lock: HomeLock,
    pub(crate) run_dir: PathBuf,
    pub(crate) records: Records,
    pub(crate) source: Arc<dyn SlotSource>,
    pub(crate) reaps: bool,
    pub(crate) main: Option<MainProgram>,
    pub(crate) raw: RawOutput,
    pub(crate) boot_log: BootLog,
    pub(crate) slot_logs: PathBuf,
}

impl Supervisor {
    /// Takes the lock of a home. A process that already holds it is named in the error.
    #[boxed]
    pub async fn take(options: SupervisorOptions) -> Result<Self, SupervisorError> {
        let SupervisorOptions { run_dir, logs_dir, source, output, manager, reaps, main } = options;
        let lock = HomeLock::take(&run_dir, manager).await?;
        failpoint::reach("boot.locked");
        let raw = RawOutput::start(output).map_err(failed("start a thread"))?;
        let boot_log = BootLog::new(&logs_dir);
        let slot_logs = logs_dir.join("gateways");
        let records = Records::new(&run_dir);
        Ok(Self { lock, run_dir, records, source, reaps, main, raw, boot_log, slot_logs })
    }

    /// Brings up what was up, calls `ready`, and keeps it so until a signal or a request ends it, or
    /// the program beside the slots has ended, whose status it returns.
    pub async fn run(self, ready: impl FnOnce()) -> Result<Option<ExitStatus>, SupervisorError> {
        let mut signals = AllSignals::listen().map_err(failed("listen for signals"))?;
        let notifier = Notifier::start();
        let listener = control::listen(&self.run_dir).map_err(failed("open the control socket"))?;
        let changes = DirectoryWatch::new().map_err(failed("watch directories"))?;
        let (wake, wakes) = mpsc::channel(64);
        let (booted, has_booted) = watch::channel(false);
        let shared = Arc::new(SupervisorState {
            holder: self.lock.holder.clone(),
            wake,
            booted: has_booted,
            entries: Mutex::default(),
            broken: Mutex::default(),
            logs: self.slot_logs.clone(),
        });
        let serving = tokio::spawn(serve::serve(listener, Arc::clone(&shared)));
        let (leaving, main) = (JoinSet::new(), None);
        let mut running = RunningSupervisor { this: self, shared, changes, wakes, leaving, main };
        running.end_leftovers().await;
        failpoint::reach("boot.leftovers-ended");
        running.reconcile().await;
        failpoint::reach("boot.slots-registered");
        booted.send_replace(true);
        ready();
        notifier.ready();
        let stop = match running.start_main() {
            Ok(()) => running.run_until_stopped(&mut signals).await,
            Err(error) => SupervisorStop::MainFailed(error),
        };
        notifier.stopping();
        let main = stop_main(running.main.take(), &stop);
        let (ended, status) = tokio::join!(end_all(&running.shared, &mut running.leaving), main);
        let status = match stop {
            SupervisorStop::Requested(answer, passed_on) => {
                let result = match &ended {
                    Ok(()) => Ok(()),
                    Err(error) => Err(error.to_string()),
                };
                // The client may be gone.
                answer.send(result).ok();
                tokio::time::timeout(LAST_LINES, passed_on).await.ok();
                status
            }
            SupervisorStop::MainEnded(status) => Ok(Some(status)),
            SupervisorStop::MainFailed(error) => Err(error),
            SupervisorStop::Signal(_) | SupervisorStop::Blind => status,
        };
        serving.abort();
        running.this.raw.drain(LAST_LINES).await;
        if let Err(error) = crate::files::remove(&control::socket_path(&running.this.run_dir)) {
            tracing::warn!(%error, "cannot remove the control socket");
        }
        ended?;
        status
    }
}
