//! The one parent of all slots of a home: boot, changes, signals, and the end.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use rustix::process::Signal;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::boot_log::{BootAction, BootLog, Subject};
use crate::changes::DirectoryWatch;
use crate::control;
use crate::failpoint;
use crate::lock::{Holder, HomeLock, Manager, SupervisorLockError};
use crate::log::SlotLog;
use crate::main_program::{MainChild, MainProgram};
use crate::offline::grace_periods;
use crate::orphans;
use crate::output::RawOutput;
use crate::record::{LeftoverChild, Records};
use crate::runner::{SlotOrder, SlotRunner};
use crate::serve;
use crate::signals::{AllSignals, SignalRequest};
use crate::slot::{FoundSlot, Slot, SlotName, SlotSource};
use crate::state::Prior;
use crate::status::SlotStatus;
use crate::systemd::Notifier;

/// How long lines may take to be written at the end.
const LAST_LINES: Duration = Duration::from_secs(1);
/// Dead orphans are looked for this long after the system told of one.
const REAP_AFTER: Duration = Duration::from_millis(100);

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
    leaving: bool,
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
    fn entries(&self) -> MutexGuard<'_, BTreeMap<SlotName, SlotEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn broken(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
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
    lock: HomeLock,
    run_dir: PathBuf,
    records: Records,
    source: Arc<dyn SlotSource>,
    reaps: bool,
    main: Option<MainProgram>,
    raw: RawOutput,
    boot_log: BootLog,
    slot_logs: PathBuf,
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
        let mut body = Body { this: self, shared, changes, wakes, leaving, main };
        body.end_leftovers().await;
        failpoint::reach("boot.leftovers-ended");
        body.reconcile().await;
        failpoint::reach("boot.slots-registered");
        booted.send_replace(true);
        ready();
        notifier.ready();
        let stop = match body.start_main() {
            Ok(()) => body.run_until_stopped(&mut signals).await,
            Err(error) => StopReason::MainFailed(error),
        };
        notifier.stopping();
        let main = stop_main(body.main.take(), &stop);
        let (ended, status) = tokio::join!(end_all(&body.shared, &mut body.leaving), main);
        let status = match stop {
            StopReason::Requested(answer, passed_on) => {
                let result = match &ended {
                    Ok(()) => Ok(()),
                    Err(error) => Err(error.to_string()),
                };
                // The client may be gone.
                answer.send(result).ok();
                tokio::time::timeout(LAST_LINES, passed_on).await.ok();
                status
            }
            StopReason::MainEnded(status) => Ok(Some(status)),
            StopReason::MainFailed(error) => Err(error),
            StopReason::Signal(_) | StopReason::Blind => status,
        };
        serving.abort();
        body.this.raw.drain(LAST_LINES).await;
        if let Err(error) = crate::files::remove(&control::socket_path(&body.this.run_dir)) {
            tracing::warn!(%error, "cannot remove the control socket");
        }
        ended?;
        status
    }
}

/// Why a supervisor ends.
enum StopReason {
    Signal(Signal),
    /// A client asked; the sender tells when all children are gone, and is notified when that was
    /// passed on.
    Requested(oneshot::Sender<Result<(), String>>, oneshot::Receiver<()>),
    MainEnded(ExitStatus),
    MainFailed(SupervisorError),
    /// Changes of slots would go unnoticed.
    Blind,
}

struct Body {
    this: Supervisor,
    shared: Arc<SupervisorState>,
    changes: DirectoryWatch,
    wakes: mpsc::Receiver<WakeReason>,
    /// Slots that no longer exist and are being ended.
    leaving: JoinSet<SlotName>,
    main: Option<MainChild>,
}

/// Ends the program beside the slots, if it still runs, by the signal that ends the supervisor.
async fn stop_main(
    main: Option<MainChild>,
    stop: &StopReason,
) -> Result<Option<ExitStatus>, SupervisorError> {
    let Some(mut main) = main else { return Ok(None) };
    main.signal(match stop {
        StopReason::Signal(signal) => *signal,
        _ => Signal::TERM,
    });
    main.stop().await.map(Some).map_err(failed("wait for the program"))
}

/// Waits until the program beside the slots has ended; for ever where there is none.
async fn main_ended(main: &mut Option<MainChild>) -> io::Result<ExitStatus> {
    match main {
        Some(main) => main.ended().await,
        None => std::future::pending().await,
    }
}

impl Body {
    fn start_main(&mut self) -> Result<(), SupervisorError> {
        let Some(program) = &self.this.main else { return Ok(()) };
        let started = MainChild::start(program).map_err(|source| SupervisorError::Main {
            program: program.program.to_string_lossy().into_owned(),
            source,
        })?;
        self.main = Some(started);
        Ok(())
    }

    /// Ends what an earlier supervisor left, before anything is started.
    async fn end_leftovers(&self) {
        let found = self.this.source.slots();
        let ended = match self.this.records.end_leftovers(&grace_periods(&found)).await {
            Ok(ended) => ended,
            Err(error) => {
                tracing::warn!(%error, "cannot look for what an earlier supervisor left");
                return;
            }
        };
        for (slot, ended) in ended {
            let known = found.iter().find_map(|found| match found {
                FoundSlot::Slot(known) if known.name == slot => Some(&known.service.log_dir),
                _ => None,
            });
            let gone = self.this.slot_logs.join(slot.as_str());
            let log = self.log(&slot, known.unwrap_or(&gone));
            match ended {
                Ok(LeftoverChild::None) => {}
                Ok(LeftoverChild::Ended(process)) => {
                    let pid = process.pid;
                    log.note(&format!("ended process {pid}, left by an earlier supervisor"));
                }
                // It is tried again before the slot is started.
                Err(error) => log.note(&format!("left by an earlier supervisor: {error}")),
            }
        }
    }

    fn log(&self, slot: &SlotName, dir: &Path) -> SlotLog {
        SlotLog::new(dir, self.this.raw.of(slot))
    }

    /// Makes the slots the ones that the source names.
    async fn reconcile(&mut self) {
        // Watched before it is read: what changes in between is noticed.
        self.changes.watch(self.this.source.watched());
        let (mut slots, mut broken) = (BTreeMap::new(), BTreeMap::new());
        for found in self.this.source.slots() {
            match found {
                // Two of one name would be two processes of one slot.
                FoundSlot::Slot(slot) => {
                    slots.entry(slot.name.clone()).or_insert(slot);
                }
                FoundSlot::Broken { name, reason } => {
                    if self.shared.broken().get(&name) != Some(&reason) {
                        let failed = BootAction::Failed(reason.clone());
                        self.this.boot_log.note(&Subject::Profile(&name), None, &failed);
                    }
                    broken.insert(name, reason);
                }
            }
        }
        *self.shared.broken() = broken;
        let present: BTreeSet<SlotName> = slots.keys().cloned().collect();
        self.remove_all_but(&present);
        for slot in slots.into_values() {
            self.register(*slot).await;
        }
    }

    /// Registers a slot, and starts it if it was running before.
    async fn register(&mut self, slot: Slot) {
        let update = {
            let mut entries = self.shared.entries();
            match entries.get_mut(&slot.name) {
                // It is registered again once the old one is gone.
                Some(entry) if entry.leaving => return,
                Some(entry) if entry.slot == slot => return,
                Some(entry) => {
                    entry.slot = slot.clone();
                    Some(entry.orders.clone())
                }
                None => None,
            }
        };
        if let Some(orders) = update {
            // A slot that takes no orders any more is about to be removed.
            orders.send(SlotOrder::Update(Box::new(slot))).await.ok();
            return;
        }
        let prior = Prior::read(&slot.service);
        let comes_back = prior.as_ref().is_ok_and(|prior| prior.comes_back);
        if comes_back && !self.leaving.is_empty() {
            // It may be one of those that are leaving under another name: two processes would serve
            // the same directory. It is registered when they are gone.
            return;
        }
        let name = slot.name.clone();
        let log = self.log(&name, &slot.service.log_dir);
        let (runner, orders, status) =
            SlotRunner::new(slot.clone(), self.this.records.clone(), log);
        let entry = SlotEntry { slot, orders, status, leaving: false };
        self.shared.entries().insert(name.clone(), entry);
        let prior_state = prior.as_ref().ok().and_then(|prior| prior.state.as_deref());
        let action = match &prior {
            Ok(_) if comes_back => {
                let (started, result) = oneshot::channel();
                tokio::spawn(runner.run(Some(started)));
                match result.await {
                    Ok(Ok(())) => BootAction::Started,
                    Ok(Err(reason)) => BootAction::Failed(reason),
                    Err(_) => BootAction::Failed("its task ended".to_owned()),
                }
            }
            Ok(_) => {
                tokio::spawn(runner.run(None));
                BootAction::Registered
            }
            Err(error) => {
                tokio::spawn(runner.run(None));
                BootAction::Failed(error.to_string())
            }
        };
        self.this.boot_log.note(&Subject::from(&name), prior_state, &action);
    }

    /// Ends the slots that no longer exist. Their names are free again once they are gone.
    fn remove_all_but(&mut self, present: &BTreeSet<SlotName>) {
        for (name, entry) in self.shared.entries().iter_mut() {
            if present.contains(name) || entry.leaving {
                continue;
            }
            entry.leaving = true;
            let (name, orders) = (name.clone(), entry.orders.clone());
            self.leaving.spawn(async move {
                let (done, ended) = oneshot::channel();
                if orders.send(SlotOrder::Remove(done)).await.is_ok()
                    && let Ok(Err(error)) = ended.await
                {
                    tracing::warn!(%error, slot = %name, "a removed slot has processes left");
                }
                name
            });
        }
    }

    /// Does what is asked until the end is asked for, or the program beside the slots has ended.
    async fn run_until_stopped(&mut self, signals: &mut AllSignals) -> StopReason {
        loop {
            tokio::select! {
                heard = signals.next() => match heard {
                    SignalRequest::End(signal) => return StopReason::Signal(signal),
                    SignalRequest::Reconcile => self.reconcile().await,
                    SignalRequest::PassOn(signal) => self.pass_on(signal).await,
                    SignalRequest::ChildEnded => if self.this.reaps {
                        // One look for many that end at once.
                        tokio::time::sleep(REAP_AFTER).await;
                        if let Err(error) = orphans::reap() {
                            tracing::warn!(%error, "cannot look for dead processes");
                        }
                    },
                },
                Some(wake) = self.wakes.recv() => match wake {
                    WakeReason::Reconcile(done) => {
                        self.reconcile().await;
                        if let Some(done) = done {
                            // The client may be gone.
                            done.send(()).ok();
                        }
                    }
                    WakeReason::Shutdown(answer, passed_on) => {
                        return StopReason::Requested(answer, passed_on);
                    }
                },
                changed = self.changes.next() => {
                    if let Err(error) = changed {
                        tracing::warn!(%error, "cannot watch directories any more");
                        return StopReason::Blind;
                    }
                    self.reconcile().await;
                }
                ended = main_ended(&mut self.main) => {
                    self.main = None;
                    return match ended {
                        Ok(status) => StopReason::MainEnded(status),
                        Err(error) => StopReason::MainFailed(failed("wait for the program")(error)),
                    };
                }
                Some(Ok(gone)) = self.leaving.join_next() => {
                    self.shared.entries().remove(&gone);
                    // One of the same name may have come meanwhile.
                    self.reconcile().await;
                }
            }
        }
    }

    async fn pass_on(&self, signal: Signal) {
        for orders in self.all_orders() {
            orders.send(SlotOrder::Signal(signal)).await.ok();
        }
        if let Some(main) = &self.main {
            main.signal(signal);
        }
    }

    fn all_orders(&self) -> Vec<mpsc::Sender<SlotOrder>> {
        self.shared.entries().values().map(|entry| entry.orders.clone()).collect()
    }
}

/// Ends all children at once. What is desired of them stays, so that the next supervisor starts
/// them.
async fn end_all(
    shared: &SupervisorState,
    leaving: &mut JoinSet<SlotName>,
) -> Result<(), SupervisorError> {
    let named: Vec<(SlotName, mpsc::Sender<SlotOrder>)> = {
        let entries = shared.entries();
        entries.iter().map(|(name, entry)| (name.clone(), entry.orders.clone())).collect()
    };
    let mut ending = JoinSet::new();
    for (name, orders) in named {
        ending.spawn(async move {
            let (done, ended) = oneshot::channel();
            // A slot that takes no orders any more has ended.
            orders.send(SlotOrder::Leave(done)).await.ok()?;
            ended.await.ok()?.err().map(|error| format!("{name}: {error}"))
        });
    }
    let mut alive = Vec::new();
    while let Some(ended) = ending.join_next().await {
        alive.extend(ended.ok().flatten());
    }
    while leaving.join_next().await.is_some() {}
    if alive.is_empty() { Ok(()) } else { Err(SupervisorError::Alive(alive)) }
}
