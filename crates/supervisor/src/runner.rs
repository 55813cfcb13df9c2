//! One slot: carries out orders, keeps its child running, and tells what it does.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use crate::child::{ChildEvent, LiveChild};
use crate::failpoint;
use crate::log::SlotLog;
use crate::policy::{ChildEnd, EXIT_PERMANENT, NextStep, PlannedOrder, RestartPolicy};
use crate::record::{LeftoverError, PlannedAction, Records};
use crate::slot::{OrderReply, Slot, SlotOrder};
use crate::state::{self, Desired, LastExit, OrderResult, SlotState, SlotStatus, StateFileError};

#[derive(Debug)]
pub(crate) struct SlotRunner {
    slot: Slot,
    records: Records,
    log: SlotLog,
    policy: RestartPolicy,
    begun: Instant,
    orders: mpsc::Receiver<SlotOrder>,
    status: watch::Sender<SlotStatus>,
    /// Those who wait for the child to be ready.
    waiting: Vec<OrderReply>,
}

#[derive(Debug)]
enum ChildPhase {
    Down,
    Waiting(Instant),
    Up {
        running: Box<LiveChild>,
        ready_by: Option<Instant>,
    },
    /// No more orders are taken.
    Over,
}

/// What happened to a running child.
enum SlotEvent {
    Order(Option<SlotOrder>),
    Ended,
    Ready,
    NotReady,
}

impl SlotRunner {
    pub(crate) fn new(
        slot: Slot,
        records: Records,
        log: SlotLog,
    ) -> (Self, mpsc::Sender<SlotOrder>, watch::Receiver<SlotStatus>) {
        let status = SlotStatus::new(slot.name.as_str(), slot.service.log_dir.clone());
        let (status, seen) = watch::channel(status);
        let (order, orders) = mpsc::channel(16);
        let (policy, begun) = (RestartPolicy::default(), Instant::now());
        let runner =
            Self { slot, records, log, policy, begun, orders, status, waiting: Vec::new() };
        (runner, order, seen)
    }

    /// Keeps the slot until it is removed or the supervisor ends. `started` is told whether the
    /// child could be started, if it is to be started now.
    pub(crate) async fn run(mut self, started: Option<oneshot::Sender<Result<(), String>>>) {
        let mut phase = ChildPhase::Down;
        if let Some(started) = started {
            phase = self.launch().await;
            let result = match &phase {
                ChildPhase::Up { .. } => Ok(()),
                _ => Err(self.status.borrow().reason.clone().unwrap_or_default()),
            };
            // A supervisor that no longer listens is about to end.
            started.send(result).ok();
        }
        loop {
            phase = match phase {
                ChildPhase::Down => match self.orders.recv().await {
                    Some(order) => self.order_while_down(order).await,
                    None => ChildPhase::Over,
                },
                ChildPhase::Waiting(until) => tokio::select! {
                    order = self.orders.recv() => match order {
                        Some(order) => self.order_while_waiting(order, until).await,
                        None => ChildPhase::Over,
                    },
                    () = sleep_until(until) => self.launch().await,
                },
                ChildPhase::Up { running, ready_by } => self.while_up(running, ready_by).await,
                ChildPhase::Over => return,
            };
        }
    }

    async fn order_while_down(&mut self, order: SlotOrder) -> ChildPhase {
        match order {
            SlotOrder::Start(done) | SlotOrder::Restart(done) => {
                self.start(done, ChildPhase::Down).await
            }
            SlotOrder::Stop(done) => {
                let stopped = self.desire(Desired::Stopped);
                if stopped.is_ok() {
                    // A process that survived an earlier stop is not down because it was asked.
                    let left =
                        self.records.end_leftover(&self.slot.name, self.slot.service.stop_within);
                    if let Err(error) = left.await {
                        answer(done, Err(error.to_string()));
                        return ChildPhase::Down;
                    }
                    self.show(SlotState::Stopped, None);
                }
                answer(done, stopped.map(|()| OrderResult::WasStopped));
                ChildPhase::Down
            }
            SlotOrder::Remove(done) | SlotOrder::Leave(done) => {
                answer(done, Ok(OrderResult::WasStopped));
                ChildPhase::Over
            }
            SlotOrder::Signal(_) => ChildPhase::Down,
            SlotOrder::Update(slot) => {
                self.slot = *slot;
                ChildPhase::Down
            }
        }
    }

    async fn order_while_waiting(&mut self, order: SlotOrder, until: Instant) -> ChildPhase {
        match order {
            SlotOrder::Start(done) | SlotOrder::Restart(done) => {
                self.start(done, ChildPhase::Waiting(until)).await
            }
            SlotOrder::Stop(done) => match self.desire(Desired::Stopped) {
                Ok(()) => {
                    self.log.note("stopped while it waited for its next start");
                    self.show(SlotState::Stopped, None);
                    answer(done, Ok(OrderResult::Stopped));
                    ChildPhase::Down
                }
                Err(error) => {
                    answer(done, Err(error));
                    ChildPhase::Waiting(until)
                }
            },
            SlotOrder::Remove(done) | SlotOrder::Leave(done) => {
                answer(done, Ok(OrderResult::WasStopped));
                ChildPhase::Over
            }
            SlotOrder::Signal(_) => ChildPhase::Waiting(until),
            SlotOrder::Update(slot) => {
                self.slot = *slot;
                ChildPhase::Waiting(until)
            }
        }
    }

    /// Starts the child; `otherwise` is what it continues with if that cannot be written down.
    async fn start(&mut self, done: OrderReply, otherwise: ChildPhase) -> ChildPhase {
        if let Err(error) = self.desire(Desired::Running) {
            answer(done, Err(error));
            return otherwise;
        }
        failpoint::reach("start.desired-written");
        self.policy.forget();
        self.waiting.push(done);
        self.launch().await
    }

    async fn while_up(
        &mut self,
        mut running: Box<LiveChild>,
        ready_by: Option<Instant>,
    ) -> ChildPhase {
        let late = ready_by.unwrap_or_else(Instant::now);
        let event = tokio::select! {
            order = self.orders.recv() => SlotEvent::Order(order),
            event = running.event() => match event {
                ChildEvent::Ready => SlotEvent::Ready,
                ChildEvent::Ended => SlotEvent::Ended,
            },
            () = sleep_until(late), if ready_by.is_some() => SlotEvent::NotReady,
        };
        match event {
            SlotEvent::Order(Some(order)) => self.order_while_up(order, running, ready_by).await,
            // Nobody can give orders any more, so nobody keeps the child.
            SlotEvent::Order(None) => {
                self.end(*running, None).await.ok();
                ChildPhase::Over
            }
            SlotEvent::Ended => {
                let pid = running.process.pid;
                let ended = match running.collect().await {
                    Ok(ended) => ended,
                    Err((ended, error)) => return self.stuck(ended, &error),
                };
                self.forget_process();
                self.after_end(ended, pid, PlannedOrder::Nothing).await
            }
            SlotEvent::Ready => {
                self.status.send_modify(|status| {
                    status.state = SlotState::Running;
                    status.ready_at = Some(state::now());
                });
                self.log.note("ready");
                failpoint::reach("start.ready");
                self.waiting.drain(..).for_each(|done| answer(done, Ok(OrderResult::Started)));
                ChildPhase::Up { running, ready_by: None }
            }
            SlotEvent::NotReady => {
                let why = format!("not ready within {:?}", self.slot.service.ready_within);
                self.log.note(&why);
                self.refuse_waiting(&why);
                let pid = running.process.pid;
                match self.end(*running, None).await {
                    Ok(_) => self.after_end(ChildEnd::NotReady, pid, PlannedOrder::Nothing).await,
                    Err(phase) => phase,
                }
            }
        }
    }

    async fn order_while_up(
        &mut self,
        order: SlotOrder,
        running: Box<LiveChild>,
        ready_by: Option<Instant>,
    ) -> ChildPhase {
        match order {
            SlotOrder::Start(done) => {
                match (self.desire(Desired::Running), ready_by) {
                    (Err(error), _) => answer(done, Err(error)),
                    (Ok(()), None) => answer(done, Ok(OrderResult::WasRunning)),
                    (Ok(()), Some(_)) => self.waiting.push(done),
                }
                ChildPhase::Up { running, ready_by }
            }
            SlotOrder::Stop(done) => {
                if let Err(error) = self.desire(Desired::Stopped) {
                    answer(done, Err(error));
                    return ChildPhase::Up { running, ready_by };
                }
                failpoint::reach("stop.desired-written");
                self.finish(*running, Some(PlannedAction::Stop), done, ChildPhase::Down).await
            }
            SlotOrder::Restart(done) => {
                if let Err(error) = self.desire(Desired::Running) {
                    answer(done, Err(error));
                    return ChildPhase::Up { running, ready_by };
                }
                let pid = running.process.pid;
                match self.end(*running, Some(PlannedAction::Restart)).await {
                    Ok(ended) => {
                        self.waiting.push(done);
                        self.after_end(ended, pid, PlannedOrder::Restart).await
                    }
                    Err(phase) => {
                        answer(done, Err(self.reason()));
                        phase
                    }
                }
            }
            SlotOrder::Remove(done) => {
                self.finish(*running, Some(PlannedAction::Stop), done, ChildPhase::Over).await
            }
            SlotOrder::Leave(done) => self.finish(*running, None, done, ChildPhase::Over).await,
            SlotOrder::Signal(signal) => {
                if let Err(error) = running.signal(signal) {
                    tracing::warn!(%error, slot = %self.slot.name, "cannot pass a signal on");
                }
                ChildPhase::Up { running, ready_by }
            }
            SlotOrder::Update(slot) => {
                self.slot = *slot;
                ChildPhase::Up { running, ready_by }
            }
        }
    }

    /// Ends the child for good, answers, and goes on to a phase.
    async fn finish(
        &mut self,
        running: LiveChild,
        plan: Option<PlannedAction>,
        done: OrderReply,
        then: ChildPhase,
    ) -> ChildPhase {
        match self.end(running, plan).await {
            Ok(ended) => {
                self.policy.forget();
                self.note_end(ended);
                self.show(SlotState::Stopped, None);
                answer(done, Ok(OrderResult::Stopped));
                then
            }
            Err(phase) => {
                answer(done, Err(self.reason()));
                if matches!(then, ChildPhase::Over) { then } else { phase }
            }
        }
    }

    /// Ends the child. On failure the slot is down, and the record of the process stays.
    async fn end(
        &mut self,
        running: LiveChild,
        plan: Option<PlannedAction>,
    ) -> Result<ChildEnd, ChildPhase> {
        self.log.note(match plan {
            Some(PlannedAction::Stop) => "stopping",
            Some(PlannedAction::Restart) => "restarting",
            None => "ending",
        });
        self.status.send_modify(|status| status.state = SlotState::Stopping);
        self.refuse_waiting("it was stopped before it was ready");
        match running.stop(&self.slot, &self.records, plan).await {
            Ok(ended) => {
                self.forget_process();
                Ok(ended)
            }
            Err((ended, error)) => Err(self.stuck(ended, &error)),
        }
    }

    /// Starts the child, unless an earlier one cannot be ended.
    async fn launch(&mut self) -> ChildPhase {
        let grace = self.slot.service.stop_within;
        if let Err(error) = self.records.end_leftover(&self.slot.name, grace).await {
            return self.not_started(&format!("an earlier process of it: {error}"));
        }
        self.policy.started(self.begun.elapsed());
        self.log.forget_error();
        let running = match LiveChild::spawn(&self.slot, &self.records, &self.log) {
            Ok(running) => running,
            Err(error) => {
                self.forget_process();
                return self.not_started(&error.to_string());
            }
        };
        let pid = running.process.pid;
        self.log.note(&format!("started as process {pid}"));
        self.status.send_modify(|status| {
            status.state = SlotState::Starting;
            status.pid = Some(pid);
            status.started_at = Some(state::now());
            status.ready_at = None;
            status.next_start_at = None;
            status.reason = None;
        });
        let ready_by = Instant::now() + self.slot.service.ready_within;
        ChildPhase::Up { running: Box::new(running), ready_by: Some(ready_by) }
    }

    fn not_started(&mut self, why: &str) -> ChildPhase {
        self.log.note(why);
        self.refuse_waiting(why);
        let next =
            self.policy.ended(self.begun.elapsed(), ChildEnd::NotStarted, PlannedOrder::Nothing);
        self.note_end(ChildEnd::NotStarted);
        match next {
            NextStep::Start { after } => self.wait(after, why),
            NextStep::Stopped | NextStep::Held => ChildPhase::Down,
        }
    }

    /// Decides what follows the end of process `pid`.
    async fn after_end(&mut self, ended: ChildEnd, pid: u32, planned: PlannedOrder) -> ChildPhase {
        self.note_end(ended);
        let what = described(ended);
        self.log.note(&what);
        let own_reason = self.own_reason(pid);
        let explained = match &own_reason {
            Some(reason) => format!("{what}: {reason}"),
            None => what.clone(),
        };
        if planned == PlannedOrder::Nothing {
            let why = match &own_reason {
                Some(reason) => format!("{what} before it was ready: {reason}"),
                None => format!("{what} before it was ready"),
            };
            self.refuse_waiting(&why);
        }
        match self.policy.ended(self.begun.elapsed(), ended, planned) {
            NextStep::Stopped => {
                self.show(SlotState::Stopped, None);
                ChildPhase::Down
            }
            NextStep::Held => {
                let why = own_reason.unwrap_or_else(|| {
                    format!("it exited with code {EXIT_PERMANENT}: it cannot work as it is set up")
                });
                self.log.note("stays down until it is started by hand");
                self.show(SlotState::Failed, Some(why));
                ChildPhase::Down
            }
            NextStep::Start { after } => {
                if planned == PlannedOrder::Nothing {
                    self.status.send_modify(|status| status.restarts += 1);
                }
                if after.is_zero() {
                    return self.launch().await;
                }
                self.wait(after, &explained)
            }
        }
    }

    fn wait(&mut self, after: Duration, why: &str) -> ChildPhase {
        self.log.note(&format!("next start in {} s", after.as_secs()));
        let at = jiff::Timestamp::now().checked_add(after).ok().map(state::stamp);
        self.show(SlotState::Backoff, Some(why.to_owned()));
        self.status.send_modify(|status| status.next_start_at = at);
        ChildPhase::Waiting(Instant::now() + after)
    }

    /// Some process of the slot cannot be ended. No other is started beside it.
    fn stuck(&mut self, ended: ChildEnd, error: &LeftoverError) -> ChildPhase {
        let why = error.to_string();
        self.log.note(&why);
        self.note_end(ended);
        self.refuse_waiting(&why);
        self.show(SlotState::Failed, Some(why));
        ChildPhase::Down
    }

    fn desire(&mut self, desired: Desired) -> Result<(), String> {
        state::write_desired(&self.slot.service.desired, desired).map_err(|error| error.to_string())
    }

    /// Returns the reason that a process of the slot gave for its end: in its state, or, if it wrote
    /// none, in the last error that it printed. The reason of an earlier process is not of this end.
    fn own_reason(&self, pid: u32) -> Option<String> {
        let actual = state::read_actual(&self.slot.service.actual).ok().flatten();
        let own = actual.filter(|actual| !actual.is_of_another(Some(pid)));
        own.and_then(|actual| actual.reason).or_else(|| self.log.last_error())
    }

    fn reason(&self) -> String {
        self.status.borrow().reason.clone().unwrap_or_default()
    }

    fn forget_process(&mut self) {
        let removed: Result<(), StateFileError> = self.records.remove(&self.slot.name);
        if let Err(error) = removed {
            // The next start finds the process gone.
            tracing::warn!(%error, slot = %self.slot.name, "cannot remove a record");
        }
        failpoint::reach("stop.record-removed");
    }

    fn note_end(&mut self, ended: ChildEnd) {
        self.status.send_modify(|status| {
            status.last_exit = Some(LastExit { ended, at: state::now() });
            status.pid = None;
            status.started_at = None;
            status.ready_at = None;
        });
    }

    fn show(&mut self, state: SlotState, reason: Option<String>) {
        self.status.send_modify(|status| {
            status.state = state;
            status.reason = reason;
            status.next_start_at = None;
        });
    }

    fn refuse_waiting(&mut self, why: &str) {
        self.waiting.drain(..).for_each(|done| answer(done, Err(why.to_owned())));
    }
}

/// Answers an order. The client may be gone.
fn answer(done: OrderReply, result: Result<OrderResult, String>) {
    done.send(result).ok();
}

fn described(ended: ChildEnd) -> String {
    match ended {
        ChildEnd::Code(code) => format!("exited with code {code}"),
        ChildEnd::Signal(signal) => format!("ended by signal {signal}"),
        ChildEnd::NotReady => "not ready in time".to_owned(),
        ChildEnd::NotStarted => "not started".to_owned(),
    }
}

#[cfg(test)]
#[path = "runner_tests.rs"]
mod tests;
