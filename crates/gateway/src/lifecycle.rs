//! The life of a gateway: start, serve, drain, end.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use vestal_runtime::Runtime;

use crate::address::AddressHolder;
use crate::control::ControlSocket;
use crate::dispatch::{self, DispatcherHost};
use crate::failpoint;
use crate::http::{HttpServer, HttpStartError};
use crate::leftovers;
use crate::questions::OpenQuestions;
use crate::schedules::ScheduleHost;
use crate::settings::GatewaySettings;
use crate::start_error::GatewayError;
use crate::state::{GatewayPhase, GatewayState, GatewayStateError, ListenerPhase, StateFile};
use crate::turns::{Drained, Turns};

/// The name of the API server in the state.
const API_SERVER: &str = "api_server";

/// How long answers that are complete may take to leave.
const FLUSH_WITHIN: Duration = Duration::from_millis(500);

/// How long the dispatcher may take to end: it finishes the starts of workers that it has claimed.
const DISPATCHER_WITHIN: Duration = Duration::from_secs(35);

/// The first and the longest pause before an address that is taken is tried again.
const LISTEN_PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// How often changes of the number of turns are written: the file is for people and supervisors,
/// and a request must not pay for it.
const COUNT_EVERY: Duration = Duration::from_millis(500);

/// Why a gateway is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShutdownCause {
    /// An operator wants it down.
    Planned,
    /// Somebody ends the process; it should come back.
    Unplanned,
    /// It is to be started again.
    Restart,
}

/// How a gateway ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayEnd {
    /// Why.
    pub shutdown: ShutdownCause,
    /// Turns that did not end although they were interrupted.
    pub stuck: usize,
}

/// The right to be the gateway of a profile, and the record of being it.
///
/// Made first of all, so that whatever fails after it is on record.
#[derive(Debug)]
pub struct Gateway {
    home: PathBuf,
    state: Arc<StateFile>,
    /// Held for the life of the process; the file is never removed, since a lock on a removed
    /// file would let a second gateway in.
    _lock: File,
}

impl Gateway {
    /// Becomes the gateway of the profile in this home.
    pub fn claim(home: &Path, profile: &str) -> Result<Self, GatewayError> {
        let run = home.join("run");
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| GatewayError::Home { path, source }
        };
        DirBuilder::new().recursive(true).mode(0o700).create(&run).map_err(failed(&run))?;
        let path = run.join("gateway.lock");
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = vestal_process::lock_holder(&path, vestal_process::Lock::Whole);
                let pid = holder.ok().flatten();
                return Err(GatewayError::AlreadyRunning { profile: profile.to_owned(), pid });
            }
            Err(TryLockError::Error(source)) => return Err(failed(&path)(source)),
        }
        // One that is damaged is replaced: it says what was, and nobody needs it to go on.
        if let Err(error @ GatewayStateError::Newer { .. }) = crate::state::read_state(home) {
            return Err(GatewayError::NewerState(error));
        }
        let state =
            StateFile::begin(home, profile).map_err(failed(&crate::state::state_path(home)))?;
        failpoint::reach("start.claimed");
        Ok(Self { home: home.to_owned(), state: Arc::new(state), _lock: lock })
    }

    /// Returns what the gateway says about itself.
    pub fn state(&self) -> GatewayState {
        self.state.read()
    }

    /// Records that it cannot start, and why.
    pub fn startup_failed(&self, reason: &str) {
        self.state.update(|state| {
            state.gateway_state = GatewayPhase::StartupFailed;
            state.exit_reason = Some(reason.to_owned());
        });
    }

    /// Serves until `shutdown` says otherwise. `on_ready` is called once everything is served.
    ///
    /// The sender of `shutdown` is given as well: the control socket uses it.
    pub async fn serve(
        &self,
        runtime: Runtime,
        settings: GatewaySettings,
        dispatcher: Option<DispatcherHost>,
        (sender, mut shutdown): (mpsc::Sender<ShutdownCause>, mpsc::Receiver<ShutdownCause>),
        on_ready: impl FnOnce(),
    ) -> Result<GatewayEnd, GatewayError> {
        let turns = Turns::new(runtime, settings.max_runs);
        let started = tokio::select! {
            started = self.start(&turns, &settings, dispatcher, sender) => started,
            // A stop while it starts does not wait until it has started.
            why = shutdown.recv() => {
                let why = why.unwrap_or(ShutdownCause::Unplanned);
                self.record_end(why, &Drained::default());
                return Ok(GatewayEnd { shutdown: why, stuck: 0 });
            }
        };
        let mut serving = match started {
            Ok(serving) => serving,
            Err(error) => {
                self.startup_failed(&error.to_string());
                return Err(error);
            }
        };
        self.state.serves();
        failpoint::reach("start.running");
        on_ready();
        let runs = serving.api_server.as_ref().map(|server| server.runs().clone());
        leftovers::take_up(&turns, runs, Arc::clone(&self.state));
        let why = self.wait(&turns, &mut serving, &mut shutdown).await;
        let drained = self.drain(&turns, serving, settings.drain, why, &mut shutdown).await;
        Ok(GatewayEnd { shutdown: why, stuck: drained.stuck })
    }

    async fn start(
        &self,
        turns: &Turns,
        settings: &GatewaySettings,
        dispatcher: Option<DispatcherHost>,
        sender: mpsc::Sender<ShutdownCause>,
    ) -> Result<Serving, GatewayError> {
        let questions = OpenQuestions::default();
        let state = Arc::clone(&self.state);
        let control = ControlSocket::listen(&self.home, state, questions.clone(), sender);
        let path = crate::control::control_path(&self.home);
        let control = control.map_err(|source| GatewayError::Home { path, source })?;
        let question_count = count_questions(&questions, Arc::clone(&self.state));
        failpoint::reach("start.controlled");
        let api_server = match &settings.api_server {
            Some(server) => {
                turns.runtime().agent().engine().permit_unconfined(server.backends.clone());
                let within = settings.listen_within;
                Some(self.start_api_server(server, turns, &questions, within).await?)
            }
            None => None,
        };
        failpoint::reach("start.listening");
        let stop_dispatcher = CancellationToken::new();
        let dispatcher = dispatcher.map(|host| {
            self.state
                .listener(dispatch::NAME, |listener| listener.state = ListenerPhase::Connecting);
            tokio::spawn(host.run(Arc::clone(&self.state), stop_dispatcher.clone()))
        });
        let schedules = settings
            .schedules
            .map(|limits| ScheduleHost::start(&self.home, turns.clone(), limits, &self.state));
        Ok(Serving {
            control,
            questions,
            question_count,
            api_server,
            dispatcher,
            stop_dispatcher,
            schedules,
        })
    }

    /// Starts the API server. An address that is taken is tried again for a while: its holder
    /// may be the previous gateway, or a client's connection that is still being closed.
    async fn start_api_server(
        &self,
        server: &crate::settings::ApiServer,
        turns: &Turns,
        questions: &OpenQuestions,
        grace: Duration,
    ) -> Result<HttpServer, GatewayError> {
        let deadline = tokio::time::Instant::now() + grace;
        let mut pause = LISTEN_PAUSES.0;
        loop {
            let state = Arc::clone(&self.state);
            let started =
                HttpServer::start(server.clone(), turns.clone(), state, questions, &self.home);
            let error = match started.await {
                Ok(started) => {
                    let address = started.addresses().join(" and ");
                    tracing::info!(address, "the API server listens");
                    self.state.listener(API_SERVER, |listener| {
                        listener.state = ListenerPhase::Connected;
                        listener.address = Some(address);
                        (listener.error_code, listener.error_message) = (None, None);
                    });
                    return Ok(started);
                }
                Err(HttpStartError::Socket(error)) => GatewayError::Socket(error),
                Err(HttpStartError::Listen(source)) => {
                    let address =
                        format!("{}:{}", server.host.as_deref().unwrap_or_default(), server.port);
                    let is_taken = source.kind() == io::ErrorKind::AddrInUse;
                    let engine = turns.runtime().agent().engine().clone();
                    let port = server.port;
                    // It looks at every process, which may be many.
                    let find = move || is_taken.then(|| AddressHolder::find(&engine, port))?;
                    let holder = tokio::task::spawn_blocking(find).await.unwrap_or_default();
                    GatewayError::Listen { address, source, holder }
                }
                Err(HttpStartError::Store(error)) => GatewayError::Store(error),
                Err(HttpStartError::Settings(error)) => GatewayError::Settings(error),
            };
            let now = tokio::time::Instant::now();
            if !error.is_taken_address() || now >= deadline {
                self.listener_failed(API_SERVER, error.code(), &error.to_string());
                return Err(error);
            }
            if pause == LISTEN_PAUSES.0 {
                tracing::warn!(%error, ?grace, "the address is tried again");
                self.state.listener(API_SERVER, |listener| {
                    listener.error_code = Some(error.code().to_owned());
                    listener.error_message = Some(format!("{error}; it is tried again"));
                });
            }
            tokio::time::sleep(pause.min(deadline - now)).await;
            pause = (pause * 2).min(LISTEN_PAUSES.1);
        }
    }

    fn listener_failed(&self, name: &str, code: &str, message: &str) {
        self.state.listener(name, |listener| {
            listener.state = ListenerPhase::Failed;
            listener.error_code = Some(code.to_owned());
            listener.error_message = Some(message.to_owned());
        });
    }

    /// Waits until it is to end, and keeps the state true meanwhile.
    async fn wait(
        &self,
        turns: &Turns,
        serving: &mut Serving,
        shutdown: &mut mpsc::Receiver<ShutdownCause>,
    ) -> ShutdownCause {
        let mut activity = turns.activity();
        let mut written = 0;
        let mut tick = tokio::time::interval(COUNT_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut is_changed = false;
        loop {
            tokio::select! {
                biased;
                why = shutdown.recv() => return why.unwrap_or(ShutdownCause::Unplanned),
                reason = ended(&mut serving.api_server) => {
                    serving.api_server = None;
                    tracing::error!(reason, "the API server ended");
                    self.listener_failed(API_SERVER, "server_ended", &reason);
                }
                Ok(()) = activity.changed(), if !is_changed => is_changed = true,
                _ = tick.tick(), if is_changed => {
                    is_changed = false;
                    turns.memory().used();
                    let now = activity.borrow_and_update().agents();
                    if now != written {
                        written = now;
                        self.state.update(|state| state.active_agents = now);
                    }
                }
            }
        }
    }

    async fn drain(
        &self,
        turns: &Turns,
        mut serving: Serving,
        grace: Duration,
        why: ShutdownCause,
        shutdown: &mut mpsc::Receiver<ShutdownCause>,
    ) -> Drained {
        // Before turns are refused: a moment that is claimed in between would be lost.
        if let Some(schedules) = &serving.schedules {
            schedules.stop();
        }
        turns.stop_taking();
        self.state.update(|state| {
            state.gateway_state = GatewayPhase::Draining;
            state.active_agents = turns.activity().borrow().agents();
            state.restart_requested = why == ShutdownCause::Restart;
        });
        failpoint::reach("drain.begun");
        serving.stop_dispatcher.cancel();
        if let Some(server) = &serving.api_server {
            server.stop_accepting();
        }
        // A second request to stop means: do not wait.
        let hurry = async {
            if shutdown.recv().await.is_none() {
                std::future::pending::<()>().await;
            }
        };
        let drained = turns.drain(grace, hurry).await;
        failpoint::reach("drain.turns-ended");
        drop(serving.question_count);
        serving.questions.clear();
        if let Some(server) = serving.api_server.take() {
            server.stop(FLUSH_WITHIN).await;
            self.state.listener(API_SERVER, |listener| listener.state = ListenerPhase::Stopped);
        }
        if let Some(schedules) = serving.schedules.take() {
            schedules.ended().await;
        }
        if let Some(mut dispatcher) = serving.dispatcher.take()
            && tokio::time::timeout(DISPATCHER_WITHIN, &mut dispatcher).await.is_err()
        {
            tracing::warn!("the dispatcher did not end in time");
            dispatcher.abort();
        }
        if drained.interrupted + drained.requests > 0 {
            tracing::warn!(
                interrupted = drained.interrupted,
                requests = drained.requests,
                stuck = drained.stuck,
                "turns were interrupted"
            );
        }
        self.record_end(why, &drained);
        failpoint::reach("drain.recorded");
        drop(serving.control);
        drained
    }

    /// Records the end. One that nobody planned stays `running`, so that what restarts
    /// gateways after a crash or a reboot restarts this one.
    fn record_end(&self, why: ShutdownCause, drained: &Drained) {
        let reason = match why {
            ShutdownCause::Planned => "stopped by an operator",
            ShutdownCause::Unplanned => "terminated",
            ShutdownCause::Restart => "restart requested",
        };
        let counted = [(drained.interrupted, "turn"), (drained.requests, "request")];
        let counted: Vec<String> = counted
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}{}", if count == 1 { "" } else { "s" }))
            .collect();
        let interrupted = match drained.interrupted + drained.requests {
            0 => String::new(),
            1 => format!("; {} was interrupted", counted.join(" and ")),
            _ => format!("; {} were interrupted", counted.join(" and ")),
        };
        self.state.update(|state| {
            state.gateway_state = match why {
                ShutdownCause::Planned => GatewayPhase::Stopped,
                ShutdownCause::Unplanned | ShutdownCause::Restart => GatewayPhase::Running,
            };
            state.active_agents = drained.stuck;
            state.waiting_questions = 0;
            state.exit_reason = Some(format!("{reason}{interrupted}"));
        });
    }
}

/// What a gateway has started.
struct Serving {
    control: ControlSocket,
    questions: OpenQuestions,
    question_count: AbortOnDropHandle<()>,
    api_server: Option<HttpServer>,
    dispatcher: Option<tokio::task::JoinHandle<()>>,
    stop_dispatcher: CancellationToken,
    schedules: Option<ScheduleHost>,
}

/// Keeps the number of waiting questions in the state true, also during a drain, in which a turn may
/// wait for an answer to end. A person waits for a question to be shown, so it is written at once.
fn count_questions(questions: &OpenQuestions, state: Arc<StateFile>) -> AbortOnDropHandle<()> {
    let mut changes = questions.subscribe();
    let questions = questions.clone();
    AbortOnDropHandle::new(tokio::spawn(async move {
        while changes.changed().await.is_ok() {
            let waiting = questions.count();
            state.update(|state| state.waiting_questions = waiting);
        }
    }))
}

/// Returns when the server has ended; never if there is none.
async fn ended(server: &mut Option<HttpServer>) -> String {
    match server {
        Some(server) => server.ended().await,
        None => std::future::pending().await,
    }
}
