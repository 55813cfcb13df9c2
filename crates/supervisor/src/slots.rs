//! What a supervisor does while it runs: keeps its slots as they are wanted, and ends them all.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::changes::DirectoryWatch;
use crate::log::{BootAction, SlotLog, Subject};
use crate::main_program::{self, MainChild};
use crate::offline::grace_periods;
use crate::record::LeftoverChild;
use crate::runner::SlotRunner;
use crate::slot::{FoundSlot, Slot, SlotName, SlotOrder};
use crate::state::Prior;
use crate::supervisor::{
    REAP_AFTER, SlotEntry, Supervisor, SupervisorError, SupervisorState, WakeReason, failed,
};

/// Why a supervisor ends.
pub(crate) enum SupervisorStop {
    Signal(Signal),
    /// A client asked; the sender tells when all children are gone, and is notified when that was
    /// passed on.
    Requested(oneshot::Sender<Result<(), String>>, oneshot::Receiver<()>),
    MainEnded(ExitStatus),
    MainFailed(SupervisorError),
    /// Changes of slots would go unnoticed.
    Blind,
}

/// A supervisor that runs.
pub(crate) struct RunningSupervisor {
    pub(crate) this: Supervisor,
    pub(crate) shared: Arc<SupervisorState>,
    pub(crate) changes: DirectoryWatch,
    pub(crate) wakes: mpsc::Receiver<WakeReason>,
    /// Slots that no longer exist and are being ended.
    pub(crate) leaving: JoinSet<SlotName>,
    pub(crate) main: Option<MainChild>,
}

/// Ends the program beside the slots, if it still runs, by the signal that ends the supervisor.
pub(crate) async fn stop_main(
    main: Option<MainChild>,
    stop: &SupervisorStop,
) -> Result<Option<ExitStatus>, SupervisorError> {
    let Some(mut main) = main else { return Ok(None) };
    main.signal(match stop {
        SupervisorStop::Signal(signal) => *signal,
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

impl RunningSupervisor {
    pub(crate) fn start_main(&mut self) -> Result<(), SupervisorError> {
        let Some(program) = &self.this.main else { return Ok(()) };
        let started = MainChild::start(program).map_err(|source| SupervisorError::Main {
            program: program.program.to_string_lossy().into_owned(),
            source,
        })?;
        self.main = Some(started);
        Ok(())
    }

    /// Ends what an earlier supervisor left, before anything is started.
    pub(crate) async fn end_leftovers(&self) {
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
    pub(crate) async fn reconcile(&mut self) {
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
    pub(crate) async fn run_until_stopped(&mut self, signals: &mut AllSignals) -> SupervisorStop {
        loop {
            tokio::select! {
                heard = signals.next() => match heard {
                    SignalRequest::End(signal) => return SupervisorStop::Signal(signal),
                    SignalRequest::Reconcile => self.reconcile().await,
                    SignalRequest::PassOn(signal) => self.pass_on(signal).await,
                    SignalRequest::ChildEnded => if self.this.reaps {
                        // One look for many that end at once.
                        tokio::time::sleep(REAP_AFTER).await;
                        if let Err(error) = main_program::reap() {
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
                        return SupervisorStop::Requested(answer, passed_on);
                    }
                },
                changed = self.changes.next() => {
                    if let Err(error) = changed {
                        tracing::warn!(%error, "cannot watch directories any more");
                        return SupervisorStop::Blind;
                    }
                    self.reconcile().await;
                }
                ended = main_ended(&mut self.main) => {
                    self.main = None;
                    return match ended {
                        Ok(status) => SupervisorStop::MainEnded(status),
                        Err(error) => SupervisorStop::MainFailed(failed("wait for the program")(error)),
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
pub(crate) async fn end_all(
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

/// What a signal asks for.
pub(crate) enum SignalRequest {
    End(Signal),
    Reconcile,
    PassOn(Signal),
    ChildEnded,
}

pub(crate) struct AllSignals {
    terminate: Signals,
    interrupt: Signals,
    quit: Signals,
    hangup: Signals,
    user1: Signals,
    user2: Signals,
    child: Signals,
}

impl AllSignals {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
            child: signal(SignalKind::child())?,
        })
    }

    pub(crate) async fn next(&mut self) -> SignalRequest {
        tokio::select! {
            _ = self.terminate.recv() => SignalRequest::End(Signal::TERM),
            _ = self.interrupt.recv() => SignalRequest::End(Signal::INT),
            _ = self.quit.recv() => SignalRequest::End(Signal::QUIT),
            _ = self.hangup.recv() => SignalRequest::Reconcile,
            _ = self.user1.recv() => SignalRequest::PassOn(Signal::USR1),
            _ = self.user2.recv() => SignalRequest::PassOn(Signal::USR2),
            _ = self.child.recv() => SignalRequest::ChildEnded,
        }
    }
}
