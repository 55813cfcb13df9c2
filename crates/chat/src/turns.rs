//! Turns and other work in the conversation: starting, interrupting and ending it.

use std::time::{Duration, Instant};

use tokio::task::JoinError;
use vestal_agent::{Conversation, EventSink, TurnError, TurnEvent, TurnOutcome, TurnResult};
use vestal_model::{Endpoint, Message, Part, UserMessage};
use vestal_tui::Submission;

use crate::chat::{Chat, WorkMessage};
use crate::conversation::{
    self, ConversationSlot, FinishedWork, InterruptState, QueuedTurn, RunningWork, WorkKind,
    WorkOutcome,
};
use crate::host::{ChatError, OpenTarget};
use crate::live::{EntryKind, TranscriptEntry, WaitingFor};
use crate::{attachments, cells, commands};

/// Work that took longer than this rings the bell when it ends.
const LONG: Duration = Duration::from_secs(10);

impl Chat {
    /// Starts a turn with a message, or queues it while other work runs.
    pub(crate) fn start_turn(&mut self, message: UserMessage) {
        self.wakeup.reset_limit();
        let words = message.text();
        let Some(conversation) = self.slot.take() else {
            self.next_turns.push_back(QueuedTurn::Message(message));
            return;
        };
        self.show_user(&attachments::written_text(&message));
        let what = WorkKind::Turn { before: count_user_messages(&words, &conversation), words };
        let chain = self.reload_endpoints(&conversation);
        self.spawn(conversation, what, |mut conversation, sink, _| async move {
            let result = run(&mut conversation, chain, message, &sink).await;
            (conversation, WorkOutcome::Turn(Box::new(result)))
        });
    }

    /// Starts a turn with typed text and the files it names.
    pub(crate) fn start_typed_turn(&mut self, typed: Submission) {
        self.wakeup.reset_limit();
        let Some(conversation) = self.slot.take() else {
            self.next_turns.push_back(QueuedTurn::Typed(typed));
            return;
        };
        let Submission { text, shown } = typed;
        self.show_user(&shown);
        let home = self.home();
        let pasted = self.pasted_images.named(&shown);
        let what = WorkKind::Turn {
            before: count_user_messages(&text, &conversation),
            words: text.clone(),
        };
        let chain = self.reload_endpoints(&conversation);
        self.spawn(conversation, what, |mut conversation, sink, sender| async move {
            let spare = text.clone();
            // Files may be on a slow disk; only this turn waits for them.
            let found = tokio::task::spawn_blocking(move || {
                attachments::attach_typed(text, &shown, home.as_deref())
            });
            let message = match found.await {
                Ok(mut found) => {
                    found.message.parts.extend(pasted.into_iter().map(Part::Image));
                    for attached in found.attached {
                        drop(sender.send(WorkMessage::Attached(attached)));
                    }
                    for failure in found.errors {
                        sink.emit(TurnEvent::Warning { text: failure.problem });
                    }
                    found.message
                }
                Err(_) => UserMessage { parts: vec![Part::Text { text: spare }] },
            };
            let result = run(&mut conversation, chain, message, &sink).await;
            (conversation, WorkOutcome::Turn(Box::new(result)))
        });
    }

    /// Reloads the settings and returns new endpoints if they have changed.
    pub(crate) fn reload_endpoints(
        &mut self,
        conversation: &Conversation,
    ) -> Option<Vec<Endpoint>> {
        self.reload_settings();
        conversation::changed_endpoints(&self.settings, conversation)
    }

    /// Runs a command of the user in the conversation's shell.
    pub(crate) fn start_shell(&mut self, command: String) {
        let Some(conversation) = self.slot.take() else { return };
        self.show_user(&format!("!{command}"));
        self.spawn(conversation, WorkKind::Shell, |mut conversation, sink, _| async move {
            let ran = conversation.shell(&command, &sink).await;
            let ran = ran.map(|()| None).map_err(|error| ChatError {
                problem: format!("failed to store the result of the command: {error}"),
                advice: Vec::new(),
            });
            (conversation, WorkOutcome::Work(ran))
        });
    }

    /// Starts other work on the conversation, shown as `what` while it runs. Its events and
    /// interrupts are handled as those of a turn.
    pub(crate) fn start_work<W, F>(&mut self, what: &str, work: W)
    where
        W: FnOnce(Box<Conversation>, EventSink) -> F,
        F: Future<Output = (Box<Conversation>, Result<Option<String>, ChatError>)> + Send + 'static,
    {
        let Some(conversation) = self.slot.take() else { return };
        self.live.waiting = Some((Instant::now(), WaitingFor::Work(what.to_owned())));
        self.spawn(conversation, WorkKind::Work, |conversation, sink, _| {
            let working = work(conversation, sink);
            async move {
                let (conversation, outcome) = working.await;
                (conversation, WorkOutcome::Work(outcome))
            }
        });
    }

    pub(crate) fn spawn<W, F>(&mut self, conversation: Box<Conversation>, what: WorkKind, work: W)
    where
        W: FnOnce(
            Box<Conversation>,
            EventSink,
            tokio::sync::mpsc::UnboundedSender<WorkMessage>,
        ) -> F,
        F: Future<Output = (Box<Conversation>, WorkOutcome)> + Send + 'static,
    {
        self.wakeup.stop();
        self.todos.is_in_use = false;
        let control = conversation.control();
        let working = work(conversation, self.sink(), self.turn_event_sender.clone());
        let task = tokio::spawn(async move {
            let (conversation, outcome) = working.await;
            FinishedWork { conversation, outcome }
        });
        let (since, interrupt) = (Instant::now(), InterruptState::No);
        self.slot =
            ConversationSlot::Running(RunningWork { task, control, since, what, interrupt });
        self.is_dirty = true;
    }

    /// Returns a sink for events of the work. Tool output is not queued, because it can
    /// arrive faster than it can be shown.
    fn sink(&self) -> EventSink {
        let (tails, sender) = (self.tails.clone(), self.turn_event_sender.clone());
        EventSink::new(move |event| match event {
            TurnEvent::ToolOutput { call, text } => tails.push(&call, &text),
            TurnEvent::Child { ref event, .. } if is_output(event) => {}
            event => {
                // Here, where the log knows the conversation.
                event.log();
                // A closed chat needs no events.
                drop(sender.send(WorkMessage::Event(event)));
            }
        })
    }

    fn show_user(&mut self, words: &str) {
        let lines = cells::user(words, self.width());
        self.print(TranscriptEntry { kind: EntryKind::User, lines });
    }

    /// Shows an event of the running work.
    pub(crate) fn on_turn_event(&mut self, turn_event: WorkMessage) {
        self.is_dirty = true;
        if let ConversationSlot::Running(running) = &mut self.slot {
            running.interrupt_if_wanted();
        }
        let event = match turn_event {
            WorkMessage::Event(event) => event,
            WorkMessage::Attached(file) => {
                let lines = cells::dimmed(&format!("  [attached {file}]"), self.width());
                return self.print(TranscriptEntry { kind: EntryKind::User, lines });
            }
            WorkMessage::JobNews(words) => return self.show_job_news(&words),
        };
        let mut is_listed = false;
        if let TurnEvent::ToolEnded { name, is_error, .. } = &event {
            self.monitor.refresh();
            is_listed = name == "todo" && !is_error;
        }
        let folded = &mut self.folded;
        let entries =
            self.live.take(event, Instant::now(), &self.tails, &mut |call| folded.keep(call));
        for entry in entries {
            self.print(entry);
        }
        if is_listed {
            let todos = self.info.notebook.read().todos;
            let lines = cells::todo_changes(&self.todos.printed, &todos, self.width());
            self.todos.is_in_use |= !lines.is_empty();
            self.todos.printed = todos;
            self.print(TranscriptEntry { kind: EntryKind::Tool, lines });
        }
        self.update_usage();
    }

    /// Copies usage and cost into the status line.
    fn update_usage(&mut self) {
        let usage_totals = &self.live.usage_totals;
        if usage_totals.used > 0 {
            self.status.used = usage_totals.used;
        }
        if let Some(model) = &usage_totals.model {
            self.status.model.clone_from(model);
        }
        self.status.cost_micro_usd =
            (usage_totals.known_calls > 0).then_some(usage_totals.micro_usd);
        self.status.is_cost_partial = usage_totals.unknown_calls > 0;
    }

    /// Takes the conversation back from finished work.
    pub(crate) async fn on_work_ended(&mut self, ended: Result<FinishedWork, JoinError>) {
        while let Ok(turn_event) = self.turn_events.try_recv() {
            self.on_turn_event(turn_event);
        }
        for entry in self.live.finish() {
            self.print(entry);
        }
        self.tails.clear();
        self.drop_abandoned_questions();
        self.is_dirty = true;
        let ConversationSlot::Running(running) =
            std::mem::replace(&mut self.slot, ConversationSlot::Gone)
        else {
            return;
        };
        let took = running.since.elapsed();
        match ended {
            Ok(FinishedWork { conversation, outcome }) => {
                self.hold_conversation(conversation);
                self.work_ended(outcome, running);
            }
            Err(error) => self.recover_conversation(&error, running).await,
        }
        if took > LONG {
            self.ring_if_unfocused();
        }
        self.monitor.refresh();
        if self.leaving.is_none() && matches!(self.slot, ConversationSlot::Idle(_)) {
            match self.next_turns.pop_front() {
                Some(QueuedTurn::Message(message)) => self.start_turn(message),
                Some(QueuedTurn::Typed(typed)) => self.start_typed_turn(typed),
                None => {}
            }
        }
    }

    fn work_ended(&mut self, outcome: WorkOutcome, running: RunningWork) {
        let is_interrupted = running.interrupt != InterruptState::No;
        match outcome {
            WorkOutcome::Turn(result) => self.turn_ended(&result, running),
            // Retrying would find nothing again; the next message includes it.
            WorkOutcome::NoJobNews => self.wakeup.stop(),
            WorkOutcome::Work(Ok(message)) => {
                if let Some(message) = message {
                    self.note(&message);
                }
            }
            WorkOutcome::Work(Err(failure)) => self.show_error(&failure),
        }
        if is_interrupted {
            self.return_to_input(None);
        }
        // Messages that were queued during the work.
        let queued = std::mem::take(&mut self.live.queued);
        if !queued.is_empty() {
            self.queue_as_next_turn(queued);
        }
    }

    fn turn_ended(&mut self, result: &TurnResult, running: RunningWork) {
        let mut left = result.pending_steer.clone();
        // Sent after the turn had ended but before this code ran.
        left.extend(running.control.take_steer());
        self.live.retain_queued(left);
        if let Some(failure) = turn_error(result) {
            self.show_error(&failure);
        }
        match &result.outcome {
            TurnOutcome::Completed | TurnOutcome::BudgetExhausted | TurnOutcome::Looping { .. } => {
            }
            TurnOutcome::Interrupted => {
                let lines =
                    cells::dimmed("interrupted; the conversation so far is kept", self.width());
                self.print(TranscriptEntry { kind: EntryKind::Notice, lines });
                self.return_to_input(None);
            }
            TurnOutcome::Failed(TurnError::Store(_))
                if let WorkKind::Turn { words, before } = running.what =>
            {
                self.return_to_input_unless_stored(words, before);
            }
            TurnOutcome::Refused | TurnOutcome::Failed(_) => self.return_to_input(None),
        }
    }

    /// Queues messages that came too late for a turn as the next turn.
    fn queue_as_next_turn(&mut self, words: Vec<Submission>) {
        let (texts, shown): (Vec<String>, Vec<String>) =
            words.into_iter().map(|words| (words.text, words.shown)).unzip();
        let (text, shown) = (texts.join("\n\n"), shown.join("\n\n"));
        self.next_turns.push_front(QueuedTurn::Typed(Submission { text, shown }));
    }

    /// Puts the text that started a turn back into the input, with the queued messages,
    /// unless it is stored: sending it again would duplicate it.
    fn return_to_input_unless_stored(&mut self, words: String, before: usize) {
        let now =
            self.conversation().map_or(0, |conversation| count_user_messages(&words, conversation));
        self.return_to_input((now <= before).then_some(words));
    }

    /// Puts queued messages back into the input, for the user to decide about.
    fn return_to_input(&mut self, first: Option<String>) {
        let mut words: Vec<String> = first.into_iter().collect();
        words.extend(std::mem::take(&mut self.live.queued).into_iter().map(|words| words.text));
        words.extend(self.next_turns.drain(..).map(QueuedTurn::text));
        let draft = self.editor.text();
        if words.is_empty() {
            return;
        }
        if !draft.trim().is_empty() {
            words.push(draft);
        }
        self.editor.set_text(&words.join("\n\n"));
    }

    /// Opens the conversation again after the task that owned it panicked. Its messages are
    /// in the store.
    async fn recover_conversation(&mut self, error: &JoinError, running: RunningWork) {
        tracing::error!(%error, "a turn broke");
        let id = self.info.id.clone();
        self.show_error(&ChatError {
            problem: "the turn failed because of a bug in this program".to_owned(),
            advice: vec!["the conversation so far is kept; /retry tries again".to_owned()],
        });
        match self.open(OpenTarget::Resume { id, task: None, model: None }).await {
            Ok(opened) => self.hold_conversation(Box::new(opened.conversation)),
            Err(failure) => {
                self.show_error(&failure);
                self.quit();
            }
        }
        match running.what {
            WorkKind::Turn { words, before } => self.return_to_input_unless_stored(words, before),
            WorkKind::JobNews | WorkKind::Shell | WorkKind::Work => self.return_to_input(None),
        }
    }

    /// Interrupts the running work.
    pub(crate) fn interrupt(&mut self) {
        if let ConversationSlot::Running(running) = &mut self.slot {
            running.interrupt();
            self.live.waiting = Some((Instant::now(), WaitingFor::Work("interrupting".to_owned())));
            self.is_dirty = true;
        }
    }
}

/// Runs a turn, with new endpoints if there are any.
async fn run(
    conversation: &mut Conversation,
    chain: Option<Vec<Endpoint>>,
    message: UserMessage,
    sink: &EventSink,
) -> TurnResult {
    set_endpoints(conversation, chain).await;
    conversation.run(message, sink).await
}

/// Sets new endpoints, if there are any.
pub(crate) async fn set_endpoints(conversation: &mut Conversation, chain: Option<Vec<Endpoint>>) {
    if let Some(chain) = chain
        && let Err(error) = conversation.set_chain(chain).await
    {
        // The turn will fail with the same error and report it.
        tracing::warn!(%error, "the model's new address or key could not be taken over");
    }
}

/// Counts the user messages with this text.
fn count_user_messages(words: &str, conversation: &Conversation) -> usize {
    let is_same = |message: &&Message| match message {
        Message::User(message) => message.text() == words,
        Message::Assistant(_) | Message::Tool(_) => false,
    };
    conversation.messages().iter().filter(is_same).count()
}

/// Reports whether an event is output that is not shown for child conversations.
fn is_output(event: &TurnEvent) -> bool {
    match event {
        TurnEvent::Text { .. } | TurnEvent::Reasoning { .. } | TurnEvent::ToolOutput { .. } => true,
        TurnEvent::Child { event, .. } => is_output(event),
        _ => false,
    }
}

/// Returns the error to show for a turn that did not complete.
fn turn_error(result: &TurnResult) -> Option<ChatError> {
    const RETRY: &str = "/retry tries again";
    let (problem, advice) = match &result.outcome {
        TurnOutcome::Completed | TurnOutcome::Interrupted => return None,
        TurnOutcome::BudgetExhausted => (
            format!("stopped after {} model calls, before the work was done", result.model_calls),
            vec![
                "send `go on` to continue, or raise the limit: /config set agent.max_turns N"
                    .to_owned(),
            ],
        ),
        TurnOutcome::Looping { reason } => (
            format!("stopped because the model was repeating itself: {reason}"),
            vec!["tell it what to try instead".to_owned()],
        ),
        TurnOutcome::Refused => (
            "the provider refused to answer".to_owned(),
            vec!["rephrase it, or use another model: /model PROVIDER:MODEL".to_owned()],
        ),
        TurnOutcome::Failed(TurnError::Model(error)) => {
            (error.to_string(), vec![error.advice(), RETRY.to_owned()])
        }
        TurnOutcome::Failed(error @ (TurnError::Empty { .. } | TurnError::TooLong(_))) => (
            error.to_string(),
            vec!["use another model: /model PROVIDER:MODEL".to_owned(), RETRY.to_owned()],
        ),
        TurnOutcome::Failed(TurnError::Store(error)) => {
            let ChatError { mut advice, .. } = commands::store_error(error);
            advice.push("when that is fixed, send it again or use /retry".to_owned());
            (format!("failed to store the conversation: {error}"), advice)
        }
    };
    let advice = advice.into_iter().filter(|words| !words.is_empty()).collect();
    Some(ChatError { problem, advice })
}
