//! The state of a chat, and what may be done to it.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use vestal_agent::approvals::Guard;
use vestal_agent::{Agent, Conversation, Event, Notebook, Workshop};
use vestal_config::Settings;
use vestal_conversations::ConversationId;
use vestal_sandbox::Termination;
use vestal_tui::{Editor, Input, Line, Screen};

use crate::cells;
use crate::conversation::{NextTurn, Talk};
use crate::host::{Outside, Program, Trouble};
use crate::live::{Kind, Live, Said};
use crate::questions::{Asking, Questions};
use crate::run::Left;
use crate::sandbox_monitor::Watch;
use crate::terminal::Lend;
use crate::tool_output::{Tails, Unfold};
use crate::view::Status;
use crate::wakeup::Wake;

/// A chat: one conversation at a time, on one terminal.
pub(crate) struct Chat {
    pub(crate) program: Arc<dyn Program>,
    pub(crate) agent: Agent,
    pub(crate) settings: Arc<Settings>,
    pub(crate) screen: Screen<Box<dyn Write + Send>>,
    pub(crate) lend: Box<dyn Lend>,
    pub(crate) inputs: UnboundedReceiver<Input>,
    /// What was typed while something was waited for, and comes before the rest.
    pub(crate) ahead: VecDeque<Input>,
    pub(crate) signals: UnboundedReceiver<Termination>,
    pub(crate) questions: Questions,
    pub(crate) outside: UnboundedReceiver<Outside>,
    /// What another part of the program is about, and since when.
    pub(crate) outside_status: Option<(Instant, String)>,
    /// What a command of the person's waits for, and since when.
    pub(crate) awaited: Option<(Instant, String)>,
    pub(crate) happenings: UnboundedReceiver<Happening>,
    pub(crate) tell: UnboundedSender<Happening>,
    pub(crate) editor: Editor,
    pub(crate) talk: Talk,
    pub(crate) about: About,
    pub(crate) live: Live,
    pub(crate) tails: Tails,
    pub(crate) unfold: Unfold,
    pub(crate) asking: VecDeque<Asking>,
    /// How long an approval is waited for.
    pub(crate) patience: Duration,
    /// What is said as soon as nothing runs.
    pub(crate) next_turns: VecDeque<NextTurn>,
    pub(crate) watch: Watch,
    pub(crate) wake: Wake,
    /// Background jobs of the sandbox: their ids and what they run.
    pub(crate) jobs: Vec<(String, String)>,
    pub(crate) status: Status,
    /// What stands last in the transcript.
    pub(crate) last: Option<Kind>,
    pub(crate) is_focused: bool,
    pub(crate) is_unfolded: bool,
    pub(crate) typed_at: Option<Instant>,
    pub(crate) hint: Option<Hint>,
    pub(crate) menu: Menu,
    pub(crate) leaving: Option<Left>,
    pub(crate) epoch: Instant,
    pub(crate) drawn_at: Option<Instant>,
    pub(crate) is_dirty: bool,
}

/// What is known of the conversation while something runs in it.
#[derive(Debug, Clone)]
pub(crate) struct About {
    pub(crate) id: ConversationId,
    pub(crate) workshop: Workshop,
    pub(crate) guard: Arc<Guard>,
    pub(crate) model: String,
    pub(crate) notebook: Notebook,
}

/// Something that what runs in the conversation tells.
#[derive(Debug)]
pub(crate) enum Happening {
    /// An event of a turn.
    Event(Event),
    /// A picture goes with what was said.
    Attached(String),
    /// The model is told this, which nobody has said.
    News(String),
}

/// Why the menu of the input is open, if it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Menu {
    /// Somebody asked for it.
    #[default]
    Asked,
    /// A command was begun.
    Unasked,
}

/// Something to be known about the keys, for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hint {
    pub(crate) words: &'static str,
    pub(crate) until: Instant,
}

impl About {
    pub(crate) fn of(conversation: &Conversation) -> Self {
        Self {
            id: conversation.id().clone(),
            workshop: conversation.workshop().clone(),
            guard: Arc::clone(conversation.guard()),
            model: conversation
                .endpoint()
                .map(|endpoint| endpoint.model.clone())
                .unwrap_or_default(),
            notebook: conversation.notebook().clone(),
        }
    }
}

impl Chat {
    /// Returns the conversation; none while something runs in it.
    pub(crate) fn conversation(&mut self) -> Option<&mut Conversation> {
        match &mut self.talk {
            Talk::Idle(conversation) => Some(conversation),
            Talk::Running(_) | Talk::Gone => None,
        }
    }

    /// Returns the home of the person, which `~` stands for.
    pub(crate) fn home(&self) -> Option<std::path::PathBuf> {
        self.settings.environment().get("HOME").map(std::path::PathBuf::from)
    }

    /// Returns how wide prose is.
    pub(crate) fn width(&self) -> usize {
        cells::prose_width(self.screen.size().columns)
    }

    /// Says a line of the program's own, for good.
    pub(crate) fn say(&mut self, line: Line) {
        self.put(Said { kind: Kind::Notice, lines: vec![line] });
    }

    /// Says something that is good to know.
    pub(crate) fn note(&mut self, words: &str) {
        let lines = cells::note(words, self.width());
        self.put(Said { kind: Kind::Notice, lines });
    }

    /// Says something that should be known.
    pub(crate) fn warn(&mut self, words: &str) {
        let lines = cells::warning(words, self.width());
        self.put(Said { kind: Kind::Notice, lines });
    }

    /// Says what went wrong, and what to do about it.
    pub(crate) fn trouble(&mut self, trouble: &Trouble) {
        let lines = cells::trouble(trouble, self.width());
        self.put(Said { kind: Kind::Notice, lines });
    }

    /// Leaves the chat.
    pub(crate) fn leave(&mut self) {
        self.leaving.get_or_insert(Left::Quit);
    }

    /// Puts something into the transcript. Things of different kinds stand apart.
    pub(crate) fn put(&mut self, said: Said) {
        if said.lines.is_empty() {
            return;
        }
        if self.last.is_some_and(|last| last != said.kind) {
            self.screen.print(Line::empty());
        }
        self.last = Some(said.kind);
        for line in said.lines {
            self.screen.print(line);
        }
        self.is_dirty = true;
    }

    /// Says something about the keys for a while.
    pub(crate) fn hint(&mut self, words: &'static str, span: Duration) {
        self.hint = Some(Hint { words, until: Instant::now() + span });
        self.is_dirty = true;
    }

    /// Rings, if nobody looks and the settings want it.
    pub(crate) fn ring(&mut self) {
        if !self.is_focused {
            self.ring_anyway();
        }
    }

    /// Rings, if the settings want it.
    pub(crate) fn ring_anyway(&mut self) {
        let wanted = self.settings.get(&vestal_config::keys::DISPLAY_BELL);
        if wanted.is_ok_and(|bell| bell.value) {
            // A bell that cannot be rung is no loss: the next frame tells if the terminal is gone.
            self.screen.bell().ok();
        }
    }
}
