//! A live session: what it is doing, and what waits to be done in it.

mod held;
mod view;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use vestal_agent::EndReason;
use vestal_api::keys::BusyInputMode;
use vestal_model::Image;
use vestal_runtime::{AnswerError, RemoteAnswer, RemoteHuman, Runtime};

use crate::admission::{Admission, TurnPermit};
use crate::error::{self, RpcError};
use crate::events::{EventBody, ReturnedPrompt, StatusKind};
use crate::hub::Hub;

pub(crate) use held::{ConversationOpening, Handles, HeldConversation};
pub(crate) use view::SessionFacts;

/// Characters of a prompt that lists show.
const PREVIEW: usize = 200;

/// Why a prompt is given back that waited when no new work was taken any more.
pub(crate) const STOPPING: &str = "the server is stopping";

/// A live session.
pub(crate) struct Session {
    pub(crate) id: Arc<str>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) human: Arc<RemoteHuman>,
    pub(crate) runtime: Runtime,
    pub(crate) admission: Arc<dyn Admission>,
    pub(crate) tasks: TaskTracker,
    /// Locked while work is done in the conversation.
    pub(crate) conversation: Arc<tokio::sync::Mutex<HeldConversation>>,
    pub(crate) state: Mutex<LiveSessionState>,
    /// Whether nothing is being done.
    pub(crate) idle: watch::Sender<bool>,
    /// Cancelled when the session is closed.
    pub(crate) life: CancellationToken,
    /// Cancelled when the server takes no new work.
    closing: CancellationToken,
    /// What the store notes as the maker of its conversation.
    source: String,
    pub(crate) close_on_disconnect: bool,
    pub(crate) is_resumed: bool,
    approval_mode: String,
    started_at: Timestamp,
}

/// What is being done in a session.
#[derive(Debug)]
pub(crate) enum SessionPhase {
    Idle,
    /// A turn, which this interrupts.
    Turn(CancellationToken),
    /// Other work that needs the conversation alone, which this interrupts. No model listens
    /// meanwhile.
    Exclusive(CancellationToken),
    /// It is being closed, or closed.
    Ended,
}

/// Something to be done in the conversation, in the order it came.
#[derive(Debug)]
pub(crate) enum SessionWork {
    Prompt(Prompt),
    /// The model hears of its background jobs.
    JobNews,
}

/// Something that a person says.
#[derive(Debug, Default)]
pub(crate) struct Prompt {
    pub(crate) text: String,
    /// Pictures that go with it.
    pub(crate) images: Vec<Image>,
    /// Turns that are taken back before it.
    pub(crate) undo: u32,
}

impl Prompt {
    /// Reports whether words are all there is, so that it can be said during a turn.
    fn is_plain(&self) -> bool {
        self.images.is_empty() && self.undo == 0
    }
}

impl From<Prompt> for ReturnedPrompt {
    fn from(prompt: Prompt) -> Self {
        Self { text: prompt.text, images: prompt.images.len() }
    }
}

/// What became of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Submitted {
    /// Its turn begins.
    Streaming,
    /// It waits for the end of what runs, which may have been interrupted for it.
    Queued,
    /// The model is told during the turn that runs.
    Steered,
}

#[derive(Debug)]
pub(crate) struct LiveSessionState {
    pub(crate) phase: SessionPhase,
    pub(crate) queue: VecDeque<SessionWork>,
    /// Whether somebody wants what runs to end, with all that was said for it and after it.
    pub(crate) is_interrupted: bool,
    pub(crate) facts: SessionFacts,
    pub(crate) handles: Option<Handles>,
    /// Pictures that go with the next prompt.
    pictures: Vec<Image>,
    /// The model that has refused pictures, as `PROVIDER:MODEL`.
    blind_model: Option<String>,
    /// Whether everything is allowed, from the moment the conversation is open.
    yolo: bool,
    busy: BusyInputMode,
    last_active: Timestamp,
    preview: String,
    /// Waits for news of background jobs.
    pub(crate) job_watch: Option<CancellationToken>,
    /// Turns in a row that such news began.
    pub(crate) job_turns: u32,
    /// What interrupts commands that run beside turns.
    side: CancellationToken,
    /// Changes with every connection that comes or goes.
    attachments: u64,
}

impl LiveSessionState {
    /// Takes the prompts that wait. News of jobs is not lost with them: it comes with the next turn.
    pub(crate) fn take_waiting(&mut self) -> Vec<ReturnedPrompt> {
        let waiting = std::mem::take(&mut self.queue).into_iter();
        let prompts = waiting.filter_map(|work| match work {
            SessionWork::Prompt(prompt) => Some(prompt.into()),
            SessionWork::JobNews => None,
        });
        prompts.collect()
    }

    /// Takes the prompts of a running turn that have not reached the model. None is left behind if
    /// the state stays locked while the phase changes: they are only added under that lock.
    pub(crate) fn take_unheard(&self) -> Vec<String> {
        self.handles.as_ref().map(|handles| handles.control.take_steer()).unwrap_or_default()
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What a session is made of.
pub(crate) struct SessionParts {
    pub(crate) id: Arc<str>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) human: Arc<RemoteHuman>,
    pub(crate) runtime: Runtime,
    pub(crate) admission: Arc<dyn Admission>,
    pub(crate) tasks: TaskTracker,
    pub(crate) opening: ConversationOpening,
    pub(crate) facts: SessionFacts,
    pub(crate) busy: BusyInputMode,
    pub(crate) closing: CancellationToken,
    pub(crate) close_on_disconnect: bool,
    pub(crate) is_resumed: bool,
    pub(crate) approval_mode: String,
}

impl Session {
    /// Answers a question, and has it known as answered when it is closed.
    pub(crate) fn answer(&self, id: &str, answer: RemoteAnswer) -> Result<(), AnswerError> {
        // Before the answer: the turn may close the question at once.
        self.hub.set_answered(id, true);
        let answered = self.human.answer(id, answer);
        if answered.is_err() {
            self.hub.set_answered(id, false);
        }
        answered
    }

    pub(crate) fn new(parts: SessionParts) -> Arc<Self> {
        let now = Timestamp::now();
        let source = parts.opening.request.source.clone();
        Arc::new(Self {
            id: parts.id,
            hub: parts.hub,
            human: parts.human,
            runtime: parts.runtime,
            admission: parts.admission,
            tasks: parts.tasks,
            conversation: Arc::new(tokio::sync::Mutex::new(HeldConversation::Unopened(Box::new(
                parts.opening,
            )))),
            state: Mutex::new(LiveSessionState {
                phase: SessionPhase::Idle,
                queue: VecDeque::new(),
                is_interrupted: false,
                facts: parts.facts,
                handles: None,
                pictures: Vec::new(),
                blind_model: None,
                yolo: false,
                busy: parts.busy,
                last_active: now,
                preview: String::new(),
                job_watch: None,
                job_turns: 0,
                side: CancellationToken::new(),
                attachments: 0,
            }),
            idle: watch::Sender::new(true),
            life: CancellationToken::new(),
            closing: parts.closing,
            source,
            close_on_disconnect: parts.close_on_disconnect,
            is_resumed: parts.is_resumed,
            approval_mode: parts.approval_mode,
            started_at: now,
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, LiveSessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports whether a turn or other work in the conversation is being done.
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.lock().phase, SessionPhase::Turn(_) | SessionPhase::Exclusive(_))
    }

    pub(crate) fn is_ended(&self) -> bool {
        matches!(self.lock().phase, SessionPhase::Ended)
    }

    /// Reports whether no new work is taken. Ask under the lock of the state, as the code that
    /// gives back waiting work does: then one comes before or after the other.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_cancelled()
    }

    /// Waits until nothing is being done, or the session is closed.
    pub(crate) async fn idle(&self) {
        let mut idle = self.idle.subscribe();
        // The sender lives as long as the session.
        idle.wait_for(|idle| *idle).await.ok();
    }

    /// Says something, or has it wait while something is being done. What is taken here is said to
    /// the model, or given back with `prompt.returned`.
    pub(crate) fn submit(
        self: &Arc<Self>,
        prompt: Prompt,
        mode: Option<BusyInputMode>,
    ) -> Result<Submitted, RpcError> {
        let mut state = self.lock();
        if matches!(state.phase, SessionPhase::Ended) {
            return Err(no_session(&self.id));
        }
        if self.is_closing() {
            return Err(RpcError::new(error::REFUSED, STOPPING));
        }
        if let (false, Some(blind)) = (prompt.images.is_empty(), &state.blind_model)
            && state.facts.model_name().as_ref() == Some(blind)
        {
            return Err(takes_no_pictures(blind));
        }
        let mode = mode.unwrap_or(state.busy);
        let preview: String = prompt.text.chars().take(PREVIEW).collect();
        let submitted = match &state.phase {
            SessionPhase::Ended => return Err(no_session(&self.id)),
            SessionPhase::Idle => {
                let admitted = self.admit()?;
                state.job_turns = 0;
                state.queue.push_back(SessionWork::Prompt(prompt));
                self.start(&mut state, admitted);
                Submitted::Streaming
            }
            SessionPhase::Turn(turn) => match &state.handles {
                Some(handles)
                    if mode == BusyInputMode::Steer
                        && prompt.is_plain()
                        && !turn.is_cancelled() =>
                {
                    handles.control.steer(prompt.text);
                    Submitted::Steered
                }
                _ => {
                    if mode == BusyInputMode::Interrupt {
                        turn.cancel();
                    }
                    self.enqueue(&mut state, prompt)
                }
            },
            // Nobody would hear it meanwhile: it is said afterwards, whatever the mode.
            SessionPhase::Exclusive(work) => {
                if mode == BusyInputMode::Interrupt {
                    work.cancel();
                }
                self.enqueue(&mut state, prompt)
            }
        };
        state.last_active = Timestamp::now();
        if state.preview.is_empty() {
            state.preview = preview;
        }
        Ok(submitted)
    }

    fn enqueue(&self, state: &mut LiveSessionState, prompt: Prompt) -> Submitted {
        let text = prompt.text.clone();
        state.queue.push_back(SessionWork::Prompt(prompt));
        self.hub.emit(&EventBody::StatusUpdate { kind: StatusKind::Queued, text });
        Submitted::Queued
    }

    pub(crate) fn admit(&self) -> Result<TurnPermit, RpcError> {
        self.admission.admit().map_err(|reason| {
            RpcError::new(error::REFUSED, reason).advise("try again when another turn has ended")
        })
    }

    /// Interrupts what is being done, commands beside it included, and drops what waits and what the
    /// turn has not heard. Returns whether something was being done, and how many prompts were dropped.
    pub(crate) fn interrupt(&self) -> (bool, usize) {
        let mut state = self.lock();
        let mut dropped = state.take_waiting();
        dropped.extend(state.take_unheard().into_iter().map(ReturnedPrompt::new));
        std::mem::take(&mut state.side).cancel();
        let was_running = match &state.phase {
            SessionPhase::Turn(running) | SessionPhase::Exclusive(running) => {
                running.cancel();
                true
            }
            SessionPhase::Idle | SessionPhase::Ended => false,
        };
        state.is_interrupted = was_running;
        drop(state);
        let count = dropped.len();
        self.send_returned(dropped, "the session was interrupted");
        (was_running, count)
    }

    /// Gives back the prompts that wait, because no new work is taken.
    pub(crate) fn return_waiting(&self, reason: &str) {
        let waiting = self.lock().take_waiting();
        self.send_returned(waiting, reason);
    }

    /// Tells the watchers which prompts were taken and will not be sent.
    pub(crate) fn send_returned(&self, prompts: Vec<ReturnedPrompt>, reason: &str) {
        if !prompts.is_empty() {
            let reason = reason.to_owned();
            self.hub.emit(&EventBody::PromptReturned { prompts, reason });
        }
    }

    /// Returns what interrupts a command beside the turns.
    pub(crate) fn side_token(&self) -> CancellationToken {
        self.lock().side.clone()
    }

    /// Says something to the model at its next step. Returns whether a turn runs: what comes too late
    /// for it is said in a turn of its own.
    pub(crate) fn steer(&self, text: &str) -> bool {
        let state = self.lock();
        match (&state.phase, &state.handles) {
            (SessionPhase::Turn(turn), Some(handles)) if !turn.is_cancelled() => {
                handles.control.steer(text);
                true
            }
            _ => false,
        }
    }

    /// Changes the pictures that go with the next prompt, and returns what the change does.
    pub(crate) fn with_pictures<T>(&self, change: impl FnOnce(&mut Vec<Image>) -> T) -> T {
        change(&mut self.lock().pictures)
    }

    /// Remembers that the model takes no pictures.
    pub(crate) fn set_blind_model(&self) {
        let mut state = self.lock();
        state.blind_model = state.facts.model_name();
    }

    /// Interrupts what is being done, waits for it, and closes the conversation. The sandbox stays
    /// as its settings say. Returns whether it was open.
    pub(crate) async fn close(&self, reason: &str) -> bool {
        let waiting = {
            let mut state = self.lock();
            match &state.phase {
                SessionPhase::Ended => return false,
                SessionPhase::Turn(running) | SessionPhase::Exclusive(running) => running.cancel(),
                SessionPhase::Idle => {}
            }
            state.phase = SessionPhase::Ended;
            state.side.cancel();
            if let Some(watch) = state.job_watch.take() {
                watch.cancel();
            }
            state.take_waiting()
        };
        self.send_returned(waiting, reason);
        self.life.cancel();
        let held =
            std::mem::replace(&mut *self.conversation.lock().await, HeldConversation::Closed);
        self.idle.send_replace(true);
        if let HeldConversation::Open(conversation) = held {
            let id = conversation.id().clone();
            if let Err(error) = conversation.close(EndReason::Left).await {
                tracing::warn!(conversation = %id, %error, "a conversation was not closed");
            }
        }
        self.lock().handles = None;
        self.hub.emit(&EventBody::SessionClosed { reason: reason.to_owned() });
        true
    }
}

pub(crate) fn no_session(id: &str) -> RpcError {
    let id = crate::protocol::shown(id);
    RpcError::new(error::NO_SESSION, format!("there is no live session {id:?}"))
        .advise("session.active_list lists them; session.resume opens a conversation")
}

pub(crate) fn takes_no_pictures(model: &str) -> RpcError {
    RpcError::new(error::BAD_VALUE, format!("{model} takes no pictures"))
        .advise("choose a model that does with config.set, or say it in words")
}
