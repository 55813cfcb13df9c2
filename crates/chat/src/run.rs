//! The chat from start to shutdown: one event loop.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinError;
use vestal_agent::{Agent, EndReason};
use vestal_config::{Settings, keys};
use vestal_model::UserMessage;
use vestal_sandbox::Termination;
use vestal_tui::{Colour, Editor, History, Input, Key, Line, Screen};

use crate::chat::{About, Chat, Happening, Menu};
use crate::conversation::{Done, Interrupt, Talk};
use crate::host::{Open, Opened, Outside, Program, Trouble};
use crate::live::{Kind, Live, Said};
use crate::questions::{Pending, Questions};
use crate::sandbox_monitor::{News, Watch};
use crate::terminal::Surface;
use crate::tool_output::{Tails, Unfold};
use crate::view::{FRAME, Status};
use crate::wakeup::Wake;
use crate::{cells, format};

/// Frames are drawn no faster than this; a key is answered at once.
const FASTEST: Duration = Duration::from_millis(16);

/// What a chat needs.
pub struct Parts {
    /// The program around it.
    pub program: Arc<dyn Program>,
    /// Whose conversations they are.
    pub agent: Agent,
    /// The settings.
    pub settings: Arc<Settings>,
    /// Whether colours are used.
    pub colour: Colour,
    /// The file in which what was typed is kept.
    pub history: PathBuf,
    /// What the agent asks the person: see [`crate::questions()`].
    pub questions: Questions,
    /// What other parts of the program say meanwhile.
    pub outside: UnboundedReceiver<Outside>,
    /// What is said first, before anybody types.
    pub first: Option<UserMessage>,
}

/// How a chat was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// By the person.
    Quit,
    /// Because a signal asked for it.
    Signal(Termination),
    /// Because the terminal is gone.
    Closed,
}

/// Something that the chat has to do with.
enum Next {
    Signal(Termination),
    Input(Input),
    Ended(Box<Result<Done, JoinError>>),
    Happened(Vec<Happening>),
    Asked(Pending),
    GivenUp,
    News(News),
    Woken,
    Outside(Outside),
    Tick,
}

/// Happenings that are shown at once.
const BATCH: usize = 256;

/// Talks with the person at this process's terminal until they leave.
pub async fn run(parts: Parts) -> Result<Left, Trouble> {
    let opened = parts.program.open(Open::First).await?;
    let surface = Surface::take()?;
    Box::pin(Chat::begin(parts, opened, surface).run()).await
}

/// The same somewhere else than at this process's terminal.
pub async fn run_on(parts: Parts, surface: Surface) -> Result<Left, Trouble> {
    let opened = parts.program.open(Open::First).await?;
    Box::pin(Chat::begin(parts, opened, surface).run()).await
}

impl Chat {
    fn begin(parts: Parts, opened: Opened, surface: Surface) -> Opening {
        let Parts { program, agent, settings, colour, history, questions, outside, first } = parts;
        let Opened { conversation, is_resumed, notices } = opened;
        let about = About::of(&conversation);
        let shows_thoughts = settings.get(&keys::DISPLAY_SHOW_REASONING);
        let shows_thoughts = shows_thoughts.is_ok_and(|found| found.value);
        let patience = settings.get(&keys::APPROVALS_TIMEOUT);
        let patience = patience.map_or(Duration::from_mins(1), |found| found.value.duration());
        let screen = Screen::new(surface.out, surface.size, colour).with_reflow(surface.reflow);
        let mut live = Live::new(cells::prose_width(surface.size.columns), shows_thoughts);
        live.answer.set_colour(colour);
        let watch = Watch::begin(agent.engine().clone(), about.workshop.sandbox_task());
        let (tell, happenings) = unbounded_channel();
        let (history, unread) = match History::open(history) {
            Ok(history) => (history, None),
            Err(error) => (History::in_memory(), Some(error)),
        };
        let editor = Editor::new(history);
        let mut chat = Self {
            program,
            agent,
            settings,
            screen,
            lend: surface.lend,
            inputs: surface.inputs,
            ahead: VecDeque::new(),
            signals: surface.signals,
            questions,
            outside,
            outside_status: None,
            awaited: None,
            happenings,
            tell,
            editor,
            talk: Talk::Gone,
            about,
            live,
            tails: Tails::default(),
            unfold: Unfold::default(),
            asking: VecDeque::new(),
            patience,
            next_turns: VecDeque::new(),
            watch,
            wake: Wake::default(),
            jobs: Vec::new(),
            status: Status::default(),
            last: None,
            is_focused: true,
            is_unfolded: false,
            typed_at: None,
            hint: None,
            menu: Menu::default(),
            leaving: None,
            epoch: Instant::now(),
            drawn_at: None,
            is_dirty: true,
        };
        chat.settle(Box::new(conversation));
        if let Some(error) = unread {
            chat.warn(&format!("what was typed before cannot be read: {error}"));
        }
        Opening { chat, is_resumed, notices, first }
    }

    async fn talk(mut self) -> Result<Left, Trouble> {
        let left = loop {
            if let Some(left) = self.leaving {
                break left;
            }
            self.draw_if_due();
            let next = self.next().await;
            self.take(next).await;
            self.wake_if_free();
        };
        self.end(left).await;
        Ok(left)
    }

    /// Waits for the next thing to do. What the person does comes first: nothing
    /// that runs makes them wait.
    async fn next(&mut self) -> Next {
        if let Some(input) = self.ahead.pop_front() {
            return Next::Input(input);
        }
        let wakes_at = self.wakes_at();
        let Self {
            signals, inputs, talk, happenings, questions, asking, watch, wake, outside, ..
        } = self;
        let mut batch = Vec::new();
        let given_up = async {
            match asking.front_mut() {
                Some(asking) => asking.given_up().await,
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
            Some(signal) = signals.recv() => Next::Signal(signal),
            input = inputs.recv() => Next::Input(input.unwrap_or(Input::Closed)),
            pending = questions.next() => Next::Asked(pending),
            () = given_up => Next::GivenUp,
            // A frame is due: happenings that never end do not keep it back.
            () = tick => Next::Tick,
            _ = happenings.recv_many(&mut batch, BATCH) => Next::Happened(batch),
            ended = talk.ended() => Next::Ended(Box::new(ended)),
            Some(said) = outside.recv() => Next::Outside(said),
            news = watch.next() => Next::News(news),
            () = wake.comes() => Next::Woken,
        }
    }

    async fn take(&mut self, next: Next) {
        match next {
            Next::Signal(Termination::Interrupt) => self.control_c(),
            Next::Signal(signal) => self.leaving = Some(Left::Signal(signal)),
            Next::Input(input) => {
                self.input(input).await;
                // All that has been typed by now is seen in one frame, at once.
                while self.leaving.is_none()
                    && let Some(input) =
                        self.ahead.pop_front().or_else(|| self.inputs.try_recv().ok())
                {
                    self.input(input).await;
                }
                if self.is_dirty {
                    self.draw();
                }
            }
            Next::Happened(happenings) => {
                for happening in happenings {
                    self.happened(happening);
                }
            }
            Next::Ended(ended) => self.ended(*ended).await,
            Next::Asked(pending) => self.ask(pending),
            Next::GivenUp => self.forget_given_up(),
            Next::News(news) => self.tell_news(news),
            // What is done about it depends on the rest: see `wake_if_free`.
            Next::Woken => {}
            Next::Outside(said) => self.tell_outside(said),
            Next::Tick => {
                if let Talk::Running(running) = &mut self.talk {
                    running.interrupt_if_wanted();
                }
                if self.hint.is_some_and(|hint| hint.until <= Instant::now()) {
                    self.hint = None;
                }
                self.hear();
                self.is_dirty = true;
            }
        }
    }

    /// Returns when something has to be done though nothing happens.
    fn wakes_at(&self) -> Option<Instant> {
        let drawn = self.drawn_at.unwrap_or(self.epoch);
        let frame = self.is_dirty.then(|| drawn + FASTEST);
        let is_moving =
            self.talk.running().is_some() || self.live.is_moving() || self.outside_status.is_some();
        let moving = is_moving.then(|| drawn + FRAME);
        let counting = (!self.asking.is_empty()).then(|| drawn + Duration::from_secs(1));
        let hint = self.hint.map(|hint| hint.until);
        [frame, moving, counting, hint, self.heard_at()].into_iter().flatten().min()
    }

    /// Draws, unless it was done a moment ago.
    fn draw_if_due(&mut self) {
        let is_due = self.drawn_at.is_none_or(|drawn| drawn.elapsed() >= FASTEST);
        if self.is_dirty && is_due {
            self.draw();
        }
    }

    /// Shows what another part of the program says.
    fn tell_outside(&mut self, said: Outside) {
        self.is_dirty = true;
        match said {
            Outside::Line(line) => {
                let plain = format::without_escapes(&line);
                let width = self.width();
                let lines = cells::wrapped(&plain, width, "  ", |_, text| Line::plain(text));
                self.put(Said { kind: Kind::Notice, lines });
            }
            Outside::Status(what) => {
                let what = what.map(|what| (Instant::now(), format::without_escapes(&what)));
                self.outside_status = what;
            }
        }
    }

    /// Tells what has become of the sandbox.
    fn tell_news(&mut self, news: News) {
        if news.task != self.about.workshop.sandbox_task() {
            return;
        }
        let place = self.place_of(self.about.workshop.task(), news.backend);
        let before = (&self.status.place, self.status.state, self.status.jobs);
        if before != (&place, news.state, news.running) {
            self.status.place = place;
            self.status.state = news.state;
            self.status.jobs = news.running;
            self.is_dirty = true;
        }
        self.jobs = news.jobs;
        for job in news.ended {
            let words = crate::sandbox_monitor::describe_ended_job(&job);
            let words = self.agent.redactor().redact(&words).into_owned();
            let lines = cells::aside(&words, self.width());
            self.put(Said { kind: Kind::Notice, lines });
            self.ring();
        }
    }
}

/// A chat that is about to begin.
struct Opening {
    chat: Chat,
    is_resumed: bool,
    notices: Vec<String>,
    first: Option<UserMessage>,
}

impl Opening {
    async fn run(self) -> Result<Left, Trouble> {
        let Self { mut chat, is_resumed, notices, first } = self;
        chat.greet();
        for notice in notices {
            chat.note(&notice);
        }
        if is_resumed {
            chat.show_last_exchanges().await;
        }
        if let Some(first) = first {
            chat.begin_turn(first);
        }
        Box::pin(chat.talk()).await
    }
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("history", &self.history).finish_non_exhaustive()
    }
}

/// How long the end of a turn is waited for when the terminal is gone or
/// somebody asks the process to end.
const LAST_WORDS: Duration = Duration::from_secs(10);

impl Chat {
    /// Ends the chat: what runs is interrupted and waited for, for a while, so
    /// that all that was said is stored; then the conversation is closed.
    pub(crate) async fn end(&mut self, left: Left) {
        while let Some(asking) = self.asking.pop_front() {
            self.keep_words_of(&asking);
        }
        self.editor.keep_draft();
        let draft = self.editor.text();
        if let Talk::Running(running) = &mut self.talk {
            let is_second = running.interrupt != Interrupt::No && left == Left::Quit;
            running.interrupt();
            if is_second {
                // The person does not want to wait; words are stored as they are said.
                running.task.abort();
            } else {
                self.wait_for_last_words(left).await;
            }
        }
        // What was given back to the input meanwhile, or waits still.
        let is_unsaid = self.editor.text() != draft
            || !self.live.queued.is_empty()
            || !self.next_turns.is_empty();
        if is_unsaid {
            self.note("not all that was said has reached the model; Up finds it in the next chat");
        }
        if left != Left::Closed {
            self.farewell();
        }
        if let Some(conversation) = self.talk.take()
            && let Err(error) = conversation.close(EndReason::Left).await
        {
            tracing::warn!(%error, "the conversation could not be closed");
        }
    }

    async fn wait_for_last_words(&mut self, left: Left) {
        let deadline = Instant::now() + LAST_WORDS;
        while self.talk.running().is_some() {
            if let Talk::Running(running) = &mut self.talk {
                running.interrupt_if_wanted();
            }
            let step = (Instant::now() + FRAME).min(deadline);
            match tokio::time::timeout_at(step.into(), self.talk.ended()).await {
                Ok(ended) => self.ended(ended).await,
                Err(_) if Instant::now() >= deadline => return,
                Err(_) => {
                    // A person sees what is waited for, and can stop waiting.
                    if left == Left::Quit {
                        self.draw();
                        while let Ok(input) = self.inputs.try_recv() {
                            if input == Input::Key(Key::control('c')) {
                                return;
                            }
                        }
                    }
                }
            }
        }
    }

    /// Takes the live area away and says how to go on.
    fn farewell(&mut self) {
        let has_words = match &self.talk {
            Talk::Idle(conversation) => !conversation.messages().is_empty(),
            Talk::Running(_) | Talk::Gone => true,
        };
        if has_words {
            let profile = self.settings.home().profile().to_string();
            let profile =
                if profile == "default" { String::new() } else { format!(" -p {profile}") };
            let words = format!(
                "{} · to go on: vestal{profile} chat --resume {}",
                self.about.id.short(),
                self.about.id.short()
            );
            let lines = cells::aside(&words, self.width());
            self.put(Said { kind: Kind::Notice, lines });
        }
        if let Err(error) = self.screen.clear() {
            tracing::debug!(%error, "the terminal could not be written to");
        }
    }
}
