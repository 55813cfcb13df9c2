//! Turns, and whatever else runs in the conversation: begun, interrupted, ended.

use std::time::{Duration, Instant};

use tokio::task::JoinError;
use vestal_agent::{Conversation, Event, EventSink, Outcome, TurnError, TurnResult};
use vestal_model::{Endpoint, Message, Part, UserMessage};
use vestal_tui::Submission;

use crate::chat::{Chat, Happening};
use crate::conversation::{self, Came, Done, Interrupt, NextTurn, Running, Talk, What};
use crate::host::{Open, Trouble};
use crate::live::{Kind, Said, Waiting};
use crate::{attachments, cells, commands};

/// What takes longer than this is worth a ring at its end.
const LONG: Duration = Duration::from_secs(10);

impl Chat {
    /// Says something and has the model work on it; as soon as what runs has
    /// ended, if something does.
    pub(crate) fn begin_turn(&mut self, message: UserMessage) {
        self.wake.person_spoke();
        let words = message.text();
        let Some(conversation) = self.talk.take() else {
            self.next_turns.push_back(NextTurn::Message(message));
            return;
        };
        self.show_user(&words);
        let what = What::Turn { before: times_said(&words, &conversation), words };
        let chain = self.fresh_chain(&conversation);
        self.spawn(conversation, what, |mut conversation, sink, _| async move {
            let result = run(&mut conversation, chain, message, &sink).await;
            (conversation, Came::Turn(Box::new(result)))
        });
    }

    /// Says words that were typed, with the pictures they name.
    pub(crate) fn begin_typed_turn(&mut self, typed: Submission) {
        self.wake.person_spoke();
        let Some(conversation) = self.talk.take() else {
            self.next_turns.push_back(NextTurn::Typed(typed));
            return;
        };
        let Submission { text, shown } = typed;
        self.show_user(&shown);
        let home = self.home();
        let what = What::Turn { before: times_said(&text, &conversation), words: text.clone() };
        let chain = self.fresh_chain(&conversation);
        self.spawn(conversation, what, |mut conversation, sink, tell| async move {
            let spare = text.clone();
            // Pictures may be on a slow disk, which only this turn waits for.
            let found =
                tokio::task::spawn_blocking(move || attachments::attach(text, home.as_deref()));
            let message = match found.await {
                Ok(found) => {
                    for attached in found.attached {
                        drop(tell.send(Happening::Attached(attached)));
                    }
                    for trouble in found.troubles {
                        sink.tell(Event::Warning { text: trouble.problem });
                    }
                    found.message
                }
                Err(_) => UserMessage { parts: vec![Part::Text { text: spare }] },
            };
            let result = run(&mut conversation, chain, message, &sink).await;
            (conversation, Came::Turn(Box::new(result)))
        });
    }

    /// Returns who is asked from this turn on, where the settings say otherwise
    /// than before.
    pub(crate) fn fresh_chain(&mut self, conversation: &Conversation) -> Option<Vec<Endpoint>> {
        self.reread_settings();
        conversation::chain(&self.settings, conversation)
    }

    /// Runs a command of the person's in the conversation's shell.
    pub(crate) fn begin_shell(&mut self, command: String) {
        let Some(conversation) = self.talk.take() else { return };
        self.show_user(&format!("!{command}"));
        self.spawn(conversation, What::Shell, |mut conversation, sink, _| async move {
            let ran = conversation.shell(&command, &sink).await;
            let ran = ran.map(|()| None).map_err(|error| Trouble {
                problem: format!("failed to store what the command came to: {error}"),
                advice: Vec::new(),
            });
            (conversation, Came::Work(ran))
        });
    }

    /// Does something with the conversation that takes its time, told as `what`
    /// while it runs, and says what came of it. Events that the work tells are
    /// shown as those of a turn are, and an interrupt reaches it as it does a turn.
    pub(crate) fn begin_work<W, F>(&mut self, what: &str, work: W)
    where
        W: FnOnce(Box<Conversation>, EventSink) -> F,
        F: Future<Output = (Box<Conversation>, Result<Option<String>, Trouble>)> + Send + 'static,
    {
        let Some(conversation) = self.talk.take() else { return };
        self.live.waiting = Some((Instant::now(), Waiting::Work(what.to_owned())));
        self.spawn(conversation, What::Work, |conversation, sink, _| {
            let working = work(conversation, sink);
            async move {
                let (conversation, came) = working.await;
                (conversation, Came::Work(came))
            }
        });
    }

    pub(crate) fn spawn<W, F>(&mut self, conversation: Box<Conversation>, what: What, work: W)
    where
        W: FnOnce(Box<Conversation>, EventSink, tokio::sync::mpsc::UnboundedSender<Happening>) -> F,
        F: Future<Output = (Box<Conversation>, Came)> + Send + 'static,
    {
        self.wake.stop();
        let control = conversation.control();
        let working = work(conversation, self.sink(), self.tell.clone());
        let task = tokio::spawn(async move {
            let (conversation, came) = working.await;
            Done { conversation, came }
        });
        let (since, interrupt) = (Instant::now(), Interrupt::No);
        self.talk = Talk::Running(Running { task, control, since, what, interrupt });
        self.is_dirty = true;
    }

    /// Returns where what runs tells of itself. What tools print is not queued:
    /// it may come faster than anybody can look at it.
    fn sink(&self) -> EventSink {
        let (tails, tell) = (self.tails.clone(), self.tell.clone());
        EventSink::new(move |event| match event {
            Event::ToolOutput { call, text } => tails.push(&call, &text),
            Event::Child { ref event, .. } if is_chatter(event) => {}
            // When nobody shows it any more, nobody needs to know.
            event => drop(tell.send(Happening::Event(event))),
        })
    }

    fn show_user(&mut self, words: &str) {
        let lines = cells::user(words, self.width());
        self.put(Said { kind: Kind::User, lines });
    }

    /// Shows what happens in what runs.
    pub(crate) fn happened(&mut self, happening: Happening) {
        self.is_dirty = true;
        if let Talk::Running(running) = &mut self.talk {
            running.interrupt_if_wanted();
        }
        let event = match happening {
            Happening::Event(event) => event,
            Happening::Attached(picture) => {
                let lines = cells::aside(&format!("  [image {picture}]"), self.width());
                return self.put(Said { kind: Kind::User, lines });
            }
            Happening::News(words) => return self.show_news(&words),
        };
        event.log();
        let mut is_listed = false;
        if let Event::ToolEnded { name, is_error, .. } = &event {
            self.watch.look();
            is_listed = name == "todo" && !is_error;
        }
        let unfold = &mut self.unfold;
        let said =
            self.live.take(event, Instant::now(), &self.tails, &mut |call| unfold.keep(call));
        for said in said {
            self.put(said);
        }
        if is_listed {
            let lines = cells::todos(&self.about.notebook.read().todos, self.width());
            self.put(Said { kind: Kind::Tool, lines });
        }
        self.count();
    }

    /// Takes over what the calls of the model took.
    fn count(&mut self) {
        let tally = &self.live.tally;
        if tally.used > 0 {
            self.status.used = tally.used;
        }
        if let Some(model) = &tally.model {
            self.status.model.clone_from(model);
        }
        self.status.paid = (tally.known_calls > 0).then_some(tally.micro_usd);
        self.status.is_paid_partly = tally.unknown_calls > 0;
    }

    /// Takes the conversation back from what ran in it.
    pub(crate) async fn ended(&mut self, ended: Result<Done, JoinError>) {
        while let Ok(happening) = self.happenings.try_recv() {
            self.happened(happening);
        }
        for said in self.live.finish() {
            self.put(said);
        }
        self.tails.clear();
        self.forget_given_up();
        self.is_dirty = true;
        let Talk::Running(running) = std::mem::replace(&mut self.talk, Talk::Gone) else { return };
        let took = running.since.elapsed();
        match ended {
            Ok(Done { conversation, came }) => {
                self.settle(conversation);
                self.came(came, running);
            }
            Err(error) => self.broke(&error, running).await,
        }
        if took > LONG {
            self.ring();
        }
        self.watch.look();
        if self.leaving.is_none() && matches!(self.talk, Talk::Idle(_)) {
            match self.next_turns.pop_front() {
                Some(NextTurn::Message(message)) => self.begin_turn(message),
                Some(NextTurn::Typed(typed)) => self.begin_typed_turn(typed),
                None => {}
            }
        }
    }

    fn came(&mut self, came: Came, running: Running) {
        let is_interrupted = running.interrupt != Interrupt::No;
        match came {
            Came::Turn(result) => self.turn_ended(&result, running),
            // It would come to nothing again: it waits for what is said next.
            Came::NoNews => self.wake.stop(),
            Came::Work(Ok(said)) => {
                if let Some(said) = said {
                    self.note(&said);
                }
            }
            Came::Work(Err(trouble)) => self.trouble(&trouble),
        }
        if is_interrupted {
            self.give_back(None);
        }
        // What was said meanwhile and reached nobody.
        let queued = std::mem::take(&mut self.live.queued);
        if !queued.is_empty() {
            self.say_next(queued);
        }
    }

    fn turn_ended(&mut self, result: &TurnResult, running: Running) {
        let mut left = result.pending_steer.clone();
        // Said when the result was made already, and before we heard of it.
        left.extend(running.control.take_steer());
        self.live.keep_queued(left);
        if let Some(trouble) = trouble_of(result) {
            self.trouble(&trouble);
        }
        match &result.outcome {
            Outcome::Completed | Outcome::BudgetExhausted | Outcome::Looping { .. } => {}
            Outcome::Interrupted => {
                let lines =
                    cells::aside("interrupted; what was said until then is kept", self.width());
                self.put(Said { kind: Kind::Notice, lines });
                self.give_back(None);
            }
            Outcome::Failed(TurnError::Store(_))
                if let What::Turn { words, before } = running.what =>
            {
                self.give_back_unless_kept(words, before);
            }
            Outcome::Refused | Outcome::Failed(_) => self.give_back(None),
        }
    }

    /// Says what came too late for a turn as the next one.
    fn say_next(&mut self, words: Vec<Submission>) {
        let (texts, shown): (Vec<String>, Vec<String>) =
            words.into_iter().map(|words| (words.text, words.shown)).unzip();
        let (text, shown) = (texts.join("\n\n"), shown.join("\n\n"));
        self.next_turns.push_front(NextTurn::Typed(Submission { text, shown }));
    }

    /// Puts what began a turn back into the input, with what was said to it,
    /// unless it is on record: said again it would be there twice.
    fn give_back_unless_kept(&mut self, words: String, before: usize) {
        let now = self.conversation().map_or(0, |conversation| times_said(&words, conversation));
        self.give_back((now <= before).then_some(words));
    }

    /// Puts what was said to a turn that came to nothing back into the input,
    /// for the person to decide about.
    fn give_back(&mut self, first: Option<String>) {
        let mut words: Vec<String> = first.into_iter().collect();
        words.extend(std::mem::take(&mut self.live.queued).into_iter().map(|words| words.text));
        words.extend(self.next_turns.drain(..).map(NextTurn::text));
        let draft = self.editor.text();
        if words.is_empty() {
            return;
        }
        if !draft.trim().is_empty() {
            words.push(draft);
        }
        self.editor.set_text(&words.join("\n\n"));
    }

    /// Opens the conversation anew after something broke that had it. All that
    /// was said is in the store.
    async fn broke(&mut self, error: &JoinError, running: Running) {
        tracing::error!(%error, "a turn broke");
        let id = self.about.id.clone();
        self.trouble(&Trouble {
            problem: "the turn broke off because of a mistake in this program".to_owned(),
            advice: vec!["what was said until then is kept; say /retry to ask again".to_owned()],
        });
        match self.open(Open::Resume { id, task: None, model: None }).await {
            Ok(opened) => self.settle(Box::new(opened.conversation)),
            Err(trouble) => {
                self.trouble(&trouble);
                self.leave();
            }
        }
        match running.what {
            What::Turn { words, before } => self.give_back_unless_kept(words, before),
            What::News | What::Shell | What::Work => self.give_back(None),
        }
    }

    /// Interrupts what runs.
    pub(crate) fn interrupt(&mut self) {
        if let Talk::Running(running) = &mut self.talk {
            running.interrupt();
            self.live.waiting = Some((Instant::now(), Waiting::Work("interrupting".to_owned())));
            self.is_dirty = true;
        }
    }
}

/// Runs a turn, in which others are asked from now on where there are any.
async fn run(
    conversation: &mut Conversation,
    chain: Option<Vec<Endpoint>>,
    message: UserMessage,
    sink: &EventSink,
) -> TurnResult {
    take_over(conversation, chain).await;
    conversation.run(message, sink).await
}

/// Has others asked from now on, where there are any.
pub(crate) async fn take_over(conversation: &mut Conversation, chain: Option<Vec<Endpoint>>) {
    if let Some(chain) = chain
        && let Err(error) = conversation.set_chain(chain).await
    {
        // The turn will meet the same trouble, and tell it.
        tracing::warn!(%error, "the model's new address or key could not be taken over");
    }
}

/// Returns how often words are on record as a person's.
fn times_said(words: &str, conversation: &Conversation) -> usize {
    let is_same = |message: &&Message| match message {
        Message::User(said) => said.text() == words,
        Message::Assistant(_) | Message::Tool(_) => false,
    };
    conversation.messages().iter().filter(is_same).count()
}

/// Reports whether nobody would look at an event of a child.
fn is_chatter(event: &Event) -> bool {
    match event {
        Event::Text { .. } | Event::Reasoning { .. } | Event::ToolOutput { .. } => true,
        Event::Child { event, .. } => is_chatter(event),
        _ => false,
    }
}

/// Returns what to tell about a turn without a whole answer.
fn trouble_of(result: &TurnResult) -> Option<Trouble> {
    const RETRY: &str = "/retry asks again";
    let (problem, advice) = match &result.outcome {
        Outcome::Completed | Outcome::Interrupted => return None,
        Outcome::BudgetExhausted => (
            format!("stopped after {} calls of the model, before it was done", result.model_calls),
            vec!["say `go on` to let it, or allow more: /config set agent.max_turns N".to_owned()],
        ),
        Outcome::Looping { reason } => (
            format!("stopped because the model went round in circles: {reason}"),
            vec!["say what it should try instead".to_owned()],
        ),
        Outcome::Refused => (
            "the provider refused to answer".to_owned(),
            vec!["say it differently, or ask another model: /model PROVIDER:MODEL".to_owned()],
        ),
        Outcome::Failed(TurnError::Model(error)) => {
            (error.to_string(), vec![error.advice(), RETRY.to_owned()])
        }
        Outcome::Failed(error @ (TurnError::Empty { .. } | TurnError::TooLong(_))) => (
            error.to_string(),
            vec!["ask another model: /model PROVIDER:MODEL".to_owned(), RETRY.to_owned()],
        ),
        Outcome::Failed(TurnError::Store(error)) => {
            let Trouble { mut advice, .. } = commands::store_trouble(error);
            advice.push("when that is mended, say it again, or /retry".to_owned());
            (format!("failed to store the conversation: {error}"), advice)
        }
    };
    let advice = advice.into_iter().filter(|words| !words.is_empty()).collect();
    Some(Trouble { problem, advice })
}
