//! The chat from start to shutdown: one event loop.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinError;
use vestal_agent::{Agent, EndReason};
use vestal_config::Settings;
use vestal_model::UserMessage;
use vestal_runtime::{Termination, Terminations};
use vestal_tui::{Colour, Editor, History, KeyPress, Line, Screen, TerminalInput, format};

use crate::cells;
use crate::chat::{Chat, ConversationInfo, MenuTrigger, TodoDisplay, WorkMessage};
use crate::clipboard::PastedImages;
use crate::conversation::{ConversationSlot, FinishedWork, InterruptState};
use crate::file_search::FileSearch;
use crate::host::{ChatError, ChatHost, HostMessage, OpenTarget, OpenedConversation};
use crate::live::{EntryKind, LiveTurn, TranscriptEntry};
use crate::output::{FoldedOutputs, OutputTails};
use crate::questions::{PendingQuestion, Questions};
use crate::sandbox_monitor::{JobWakeup, SandboxMonitor, SandboxUpdate};
use crate::terminal::ChatTerminal;
use crate::view::{FRAME, StatusLine};

/// Minimum time between frames; keys are drawn immediately.
const MIN_FRAME_INTERVAL: Duration = Duration::from_millis(16);

/// Everything a chat is started with.
pub struct ChatParts {
    /// The program that hosts the chat.
    pub host: Arc<dyn ChatHost>,
    /// The agent whose conversations are held.
    pub agent: Agent,
    /// The settings of the profile.
    pub settings: Arc<Settings>,
    /// Whether colours are used.
    pub colour: Colour,
    /// The file of the input history.
    pub history: PathBuf,
    /// Questions of the agent to the user: see [`crate::question_channel`].
    pub questions: Questions,
    /// Messages of the host while the chat owns the terminal.
    pub outside: UnboundedReceiver<HostMessage>,
    /// A first message, sent before the user types anything.
    pub first: Option<UserMessage>,
    /// The directory that the user is in; `None` if it cannot be determined.
    pub cwd: Option<PathBuf>,
}

/// How a chat ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatExit {
    /// The user quit.
    Quit,
    /// A signal asked the process to end.
    Signal(Termination),
    /// The terminal is gone.
    Closed,
}

/// What the event loop waits for.
enum LoopEvent {
    Signal(Termination),
    Input(TerminalInput),
    Ended(Box<Result<FinishedWork, JoinError>>),
    TurnEvents(Vec<WorkMessage>),
    Asked(PendingQuestion),
    Abandoned,
    SandboxUpdate(SandboxUpdate),
    Woken,
    HostMessage(HostMessage),
    Tick,
}

/// Turn events handled per iteration of the loop.
const BATCH: usize = 256;

/// Runs a chat on the terminal of this process until the user quits. `listen` begins to listen for
/// the signals that ask the process to end. It is called once the first conversation is open; until
/// then the signals have the effect that the program chose.
pub async fn run(
    parts: ChatParts,
    listen: impl FnOnce() -> io::Result<Terminations>,
) -> Result<ChatExit, ChatError> {
    let opened = parts.host.open(OpenTarget::First).await?;
    let surface = ChatTerminal::take(listen, parts.settings.environment())?;
    Box::pin(Chat::begin(parts, opened, surface).run()).await
}

/// Runs a chat on another terminal.
pub async fn run_on(parts: ChatParts, surface: ChatTerminal) -> Result<ChatExit, ChatError> {
    let opened = parts.host.open(OpenTarget::First).await?;
    Box::pin(Chat::begin(parts, opened, surface).run()).await
}

impl Chat {
    fn begin(parts: ChatParts, opened: OpenedConversation, surface: ChatTerminal) -> StartingChat {
        let ChatParts { host, agent, settings, colour, history, questions, outside, first, cwd } =
            parts;
        let OpenedConversation { conversation, is_resumed, notices } = opened;
        let info = ConversationInfo::of(&conversation);
        let shows_reasoning = settings.get(&vestal_api::keys::DISPLAY_SHOW_REASONING);
        let shows_reasoning = shows_reasoning.is_ok_and(|found| found.value);
        let approval_timeout = settings.get(&vestal_agent::keys::APPROVALS_TIMEOUT);
        let approval_timeout =
            approval_timeout.map_or(Duration::from_mins(1), |found| found.value.duration());
        let screen = Screen::new(surface.out, surface.size, colour).with_reflow(surface.reflow);
        let mut live = LiveTurn::new(cells::prose_width(surface.size.columns), shows_reasoning);
        live.answer.set_colour(colour);
        let monitor = SandboxMonitor::start(agent.engine().clone(), info.sandbox.sandbox_task());
        let (turn_event_sender, turn_events) = unbounded_channel();
        let (history, unread) = match History::open(history) {
            Ok(history) => (history, None),
            Err(error) => (History::in_memory(), Some(error)),
        };
        let editor = Editor::new(history);
        let mut chat = Self {
            host,
            agent,
            settings,
            cwd,
            screen,
            terminal: surface.terminal,
            inputs: surface.inputs,
            deferred_inputs: VecDeque::new(),
            signals: surface.signals,
            questions,
            outside,
            outside_status: None,
            waiting_for: None,
            turn_events,
            turn_event_sender,
            editor,
            slot: ConversationSlot::Gone,
            info,
            live,
            tails: OutputTails::default(),
            folded: FoldedOutputs::default(),
            asking: VecDeque::new(),
            approval_timeout,
            next_turns: VecDeque::new(),
            monitor,
            wakeup: JobWakeup::default(),
            jobs: Vec::new(),
            status: StatusLine::default(),
            last: None,
            is_focused: true,
            shows_more_output: false,
            typed_at: None,
            hint: None,
            menu: MenuTrigger::default(),
            closed_mention: None,
            file_search: FileSearch::default(),
            pasted_images: PastedImages::default(),
            todos: TodoDisplay::default(),
            leaving: None,
            epoch: Instant::now(),
            drawn_at: None,
            is_dirty: true,
        };
        chat.hold_conversation(Box::new(conversation));
        chat.todos.printed = chat.info.notebook.read().todos;
        if let Some(error) = unread {
            chat.warn(&format!("cannot read the input history: {error}"));
        }
        StartingChat { chat, is_resumed, notices, first }
    }

    async fn run_loop(mut self) -> Result<ChatExit, ChatError> {
        let left = loop {
            if let Some(left) = self.leaving {
                break left;
            }
            self.draw_if_due();
            let next = self.next().await;
            self.handle(next).await;
            self.start_job_turn_if_idle();
        };
        self.shutdown(left).await;
        Ok(left)
    }

    /// Waits for the next event. Input comes first, so running work never delays the user.
    async fn next(&mut self) -> LoopEvent {
        if let Some(input) = self.deferred_inputs.pop_front() {
            return LoopEvent::Input(input);
        }
        let wakes_at = self.wakes_at();
        let Self {
            signals,
            inputs,
            slot,
            turn_events,
            questions,
            asking,
            monitor,
            wakeup,
            outside,
            ..
        } = self;
        let mut batch = Vec::new();
        let abandoned = async {
            match asking.front_mut() {
                Some(asking) => asking.abandoned().await,
                None => std::future::pending().await,
            }
        };
        let tick = async {
            match wakes_at {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(signal) = signals.recv() => LoopEvent::Signal(signal),
            input = inputs.recv() => LoopEvent::Input(input.unwrap_or(TerminalInput::Closed)),
            pending = questions.next() => LoopEvent::Asked(pending),
            () = abandoned => LoopEvent::Abandoned,
            // Before turn events: a flood of them must not delay a due frame.
            () = tick => LoopEvent::Tick,
            _ = turn_events.recv_many(&mut batch, BATCH) => LoopEvent::TurnEvents(batch),
            ended = slot.ended() => LoopEvent::Ended(Box::new(ended)),
            Some(message) = outside.recv() => LoopEvent::HostMessage(message),
            update = monitor.next() => LoopEvent::SandboxUpdate(update),
            () = wakeup.ready() => LoopEvent::Woken,
        }
    }

    async fn handle(&mut self, next: LoopEvent) {
        match next {
            LoopEvent::Signal(Termination::Interrupt) => self.control_c(),
            LoopEvent::Signal(signal) => self.leaving = Some(ChatExit::Signal(signal)),
            LoopEvent::Input(input) => {
                self.input(input).await;
                // Everything typed so far is drawn in one frame, immediately.
                while self.leaving.is_none()
                    && let Some(input) =
                        self.deferred_inputs.pop_front().or_else(|| self.inputs.try_recv().ok())
                {
                    self.input(input).await;
                }
                if self.is_dirty {
                    self.draw();
                }
            }
            LoopEvent::TurnEvents(turn_events) => {
                for turn_event in turn_events {
                    self.on_turn_event(turn_event);
                }
            }
            LoopEvent::Ended(ended) => self.on_work_ended(*ended).await,
            LoopEvent::Asked(pending) => self.ask(pending),
            LoopEvent::Abandoned => self.drop_abandoned_questions(),
            LoopEvent::SandboxUpdate(update) => self.apply_sandbox_update(update),
            // Handled by `start_job_turn_if_idle` after every event.
            LoopEvent::Woken => {}
            LoopEvent::HostMessage(message) => self.show_host_message(message),
            LoopEvent::Tick => {
                if let ConversationSlot::Running(running) = &mut self.slot {
                    running.interrupt_if_wanted();
                }
                if self.hint.is_some_and(|hint| hint.until <= Instant::now()) {
                    self.hint = None;
                }
                self.arm_question();
                self.is_dirty = true;
            }
        }
    }

    /// Returns when the loop must wake up without an event.
    fn wakes_at(&self) -> Option<Instant> {
        let drawn = self.drawn_at.unwrap_or(self.epoch);
        let frame = self.is_dirty.then(|| drawn + MIN_FRAME_INTERVAL);
        let is_moving =
            self.slot.running().is_some() || self.live.is_moving() || self.outside_status.is_some();
        let moving = is_moving.then(|| drawn + FRAME);
        let counting = (!self.asking.is_empty()).then(|| drawn + Duration::from_secs(1));
        let hint = self.hint.map(|hint| hint.until);
        [frame, moving, counting, hint, self.armed_at()].into_iter().flatten().min()
    }

    /// Draws a frame unless the last one is too recent.
    fn draw_if_due(&mut self) {
        let is_due = self.drawn_at.is_none_or(|drawn| drawn.elapsed() >= MIN_FRAME_INTERVAL);
        if self.is_dirty && is_due {
            self.draw();
        }
    }

    fn show_host_message(&mut self, message: HostMessage) {
        self.is_dirty = true;
        match message {
            HostMessage::Line(line) => {
                let plain = format::without_escapes(&line);
                let width = self.width();
                let lines = cells::wrapped(&plain, width, "  ", |_, text| Line::plain(text));
                self.print(TranscriptEntry { kind: EntryKind::Notice, lines });
            }
            HostMessage::Status(what) => {
                let what = what.map(|what| (Instant::now(), format::without_escapes(&what)));
                self.outside_status = what;
            }
        }
    }

    /// Updates the status line, and prints jobs that have ended.
    fn apply_sandbox_update(&mut self, update: SandboxUpdate) {
        if update.task != self.info.sandbox.sandbox_task() {
            return;
        }
        let sandbox = self.sandbox_label(self.info.sandbox.task(), update.backend);
        let before = (&self.status.sandbox, self.status.state, self.status.jobs);
        if before != (&sandbox, update.state, update.running) {
            self.status.sandbox = sandbox;
            self.status.state = update.state;
            self.status.jobs = update.running;
            self.is_dirty = true;
        }
        self.jobs = update.jobs;
        for job in update.ended {
            let words = crate::sandbox_monitor::describe_ended_job(&job);
            let words = self.agent.redactor().redact(&words).into_owned();
            let lines = cells::dimmed(&words, self.width());
            self.print(TranscriptEntry { kind: EntryKind::Notice, lines });
            self.ring_if_unfocused();
        }
    }
}

/// A chat that is ready to start.
struct StartingChat {
    chat: Chat,
    is_resumed: bool,
    notices: Vec<String>,
    first: Option<UserMessage>,
}

impl StartingChat {
    async fn run(self) -> Result<ChatExit, ChatError> {
        let Self { mut chat, is_resumed, notices, first } = self;
        chat.greet();
        for notice in notices {
            chat.note(&notice);
        }
        if is_resumed {
            chat.show_last_exchanges().await;
        }
        if let Some(first) = first {
            chat.start_turn(first);
        }
        Box::pin(chat.run_loop()).await
    }
}

impl std::fmt::Debug for ChatParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatParts").field("history", &self.history).finish_non_exhaustive()
    }
}

/// How long a shutdown waits for the running turn to end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

impl Chat {
    /// Ends the chat: interrupts running work, waits up to `SHUTDOWN_TIMEOUT` so that
    /// everything is stored, then closes the conversation.
    pub(crate) async fn shutdown(&mut self, left: ChatExit) {
        while let Some(asking) = self.asking.pop_front() {
            self.return_answer_to_input(&asking);
        }
        self.editor.keep_draft();
        let draft = self.editor.text();
        if let ConversationSlot::Running(running) = &mut self.slot {
            let is_second = running.interrupt != InterruptState::No && left == ChatExit::Quit;
            running.interrupt();
            if is_second {
                // The user does not want to wait. Messages are stored as they come.
                running.task.abort();
            } else {
                self.wait_for_turn_to_end(left).await;
            }
        }
        // Messages that were returned to the input, or are still queued.
        let is_unsent = self.editor.text() != draft
            || !self.live.queued.is_empty()
            || !self.next_turns.is_empty();
        if is_unsent {
            self.note(
                "some messages did not reach the model; press Up in the next chat to find them",
            );
        }
        if left != ChatExit::Closed {
            self.print_exit_message();
        }
        if let Some(conversation) = self.slot.take()
            && let Err(error) = conversation.close(EndReason::Left).await
        {
            tracing::warn!(%error, "the conversation could not be closed");
        }
    }

    async fn wait_for_turn_to_end(&mut self, left: ChatExit) {
        let deadline = Instant::now() + SHUTDOWN_TIMEOUT;
        while self.slot.running().is_some() {
            if let ConversationSlot::Running(running) = &mut self.slot {
                running.interrupt_if_wanted();
            }
            let step = (Instant::now() + FRAME).min(deadline);
            match tokio::time::timeout_at(step.into(), self.slot.ended()).await {
                Ok(ended) => self.on_work_ended(ended).await,
                Err(_) if Instant::now() >= deadline => return,
                Err(_) => {
                    // The user sees what the chat waits for, and can cancel.
                    if left == ChatExit::Quit {
                        self.draw();
                        while let Ok(input) = self.inputs.try_recv() {
                            if input == TerminalInput::Key(KeyPress::control('c')) {
                                return;
                            }
                        }
                    }
                }
            }
        }
    }

    /// Clears the live area and prints how to resume.
    fn print_exit_message(&mut self) {
        let has_words = match &self.slot {
            ConversationSlot::Idle(conversation) => !conversation.messages().is_empty(),
            ConversationSlot::Running(_) | ConversationSlot::Gone => true,
        };
        if has_words {
            let profile = self.settings.home().profile().to_string();
            let profile =
                if profile == "default" { String::new() } else { format!(" -p {profile}") };
            let words = format!(
                "{} · to continue: vestal{profile} chat --resume {}",
                self.info.id.short(),
                self.info.id.short()
            );
            let lines = cells::dimmed(&words, self.width());
            self.print(TranscriptEntry { kind: EntryKind::Notice, lines });
        }
        if let Err(error) = self.screen.clear() {
            tracing::debug!(%error, "the terminal could not be written to");
        }
    }
}
