//! The state of a chat and its basic operations.

use std::collections::VecDeque;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use vestal_agent::approvals::Guard;
use vestal_agent::slash::describe_reasoning;
use vestal_agent::{
    Agent, Conversation, ConversationSandbox, ModeSwitch, Notebook, Todo, TurnEvent,
};
use vestal_config::Settings;
use vestal_conversations::ConversationId;
use vestal_model::ReasoningOptions;
use vestal_runtime::Termination;
use vestal_tui::{Editor, Line, Screen, TerminalInput};

use crate::cells;
use crate::clipboard::PastedImages;
use crate::conversation::{ConversationSlot, QueuedTurn};
use crate::file_search::FileSearch;
use crate::host::{ChatError, ChatHost, HostMessage};
use crate::live::{EntryKind, LiveTurn, TranscriptEntry};
use crate::output::{FoldedOutputs, OutputTails};
use crate::questions::{Questions, ShownQuestion};
use crate::run::ChatExit;
use crate::sandbox_monitor::{JobWakeup, SandboxMonitor};
use crate::terminal::SuspendTerminal;
use crate::view::StatusLine;

/// A chat: one conversation at a time, on one terminal.
pub(crate) struct Chat {
    pub(crate) host: Arc<dyn ChatHost>,
    pub(crate) agent: Agent,
    pub(crate) settings: Arc<Settings>,
    /// The directory that the user is in.
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) screen: Screen<Box<dyn Write + Send>>,
    pub(crate) terminal: Box<dyn SuspendTerminal>,
    pub(crate) inputs: UnboundedReceiver<TerminalInput>,
    /// Input that arrived during a wait; handled before new input.
    pub(crate) deferred_inputs: VecDeque<TerminalInput>,
    pub(crate) signals: UnboundedReceiver<Termination>,
    pub(crate) questions: Questions,
    pub(crate) outside: UnboundedReceiver<HostMessage>,
    /// What the host is doing, and since when.
    pub(crate) outside_status: Option<(Instant, String)>,
    /// What a slash command is waiting for, and since when.
    pub(crate) waiting_for: Option<(Instant, String)>,
    pub(crate) turn_events: UnboundedReceiver<WorkMessage>,
    pub(crate) turn_event_sender: UnboundedSender<WorkMessage>,
    pub(crate) editor: Editor,
    pub(crate) slot: ConversationSlot,
    pub(crate) info: ConversationInfo,
    pub(crate) live: LiveTurn,
    pub(crate) tails: OutputTails,
    pub(crate) folded: FoldedOutputs,
    pub(crate) asking: VecDeque<ShownQuestion>,
    /// How long a request for approval stays open.
    pub(crate) approval_timeout: Duration,
    /// Turns to start as soon as the conversation is idle.
    pub(crate) next_turns: VecDeque<QueuedTurn>,
    pub(crate) monitor: SandboxMonitor,
    pub(crate) wakeup: JobWakeup,
    /// Background jobs of the sandbox: ids and commands.
    pub(crate) jobs: Vec<(String, String)>,
    pub(crate) status: StatusLine,
    /// Kind of the last entry in the transcript.
    pub(crate) last: Option<EntryKind>,
    pub(crate) is_focused: bool,
    pub(crate) shows_more_output: bool,
    pub(crate) typed_at: Option<Instant>,
    pub(crate) hint: Option<Hint>,
    pub(crate) menu: MenuTrigger,
    /// Where the mention begins whose menu the user closed.
    pub(crate) closed_mention: Option<usize>,
    pub(crate) file_search: FileSearch,
    pub(crate) pasted_images: PastedImages,
    pub(crate) todos: TodoDisplay,
    pub(crate) leaving: Option<ChatExit>,
    pub(crate) epoch: Instant,
    pub(crate) drawn_at: Option<Instant>,
    pub(crate) is_dirty: bool,
}

/// Facts about the conversation that are needed while a turn owns it.
#[derive(Debug, Clone)]
pub(crate) struct ConversationInfo {
    pub(crate) id: ConversationId,
    pub(crate) sandbox: ConversationSandbox,
    pub(crate) guard: Arc<Guard>,
    pub(crate) model: String,
    /// The model with its provider: `PROVIDER:MODEL`.
    pub(crate) endpoint: String,
    pub(crate) notebook: Notebook,
    pub(crate) mode: ModeSwitch,
    /// How much the model thinks, in a word; empty where that is left to the provider.
    pub(crate) reasoning: String,
}

/// A message from the work that runs in the conversation.
#[derive(Debug)]
pub(crate) enum WorkMessage {
    /// An event of a turn.
    Event(TurnEvent),
    /// A file was attached to the message.
    Attached(String),
    /// The model is told about a background job.
    JobNews(String),
}

/// What is shown of the model's to-do list.
#[derive(Debug, Default)]
pub(crate) struct TodoDisplay {
    /// The list as it was printed last.
    pub(crate) printed: Vec<Todo>,
    /// Whether the running turn has changed it: one of an earlier task is not shown.
    pub(crate) is_in_use: bool,
}

/// Why the completion menu is open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum MenuTrigger {
    /// The user pressed Tab.
    #[default]
    Requested,
    /// The user started to type a slash command.
    Automatic,
    /// The user types `@` and a path.
    Mention,
}

/// A short-lived hint in the status line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hint {
    pub(crate) words: &'static str,
    pub(crate) until: Instant,
}

impl ConversationInfo {
    pub(crate) fn of(conversation: &Conversation) -> Self {
        Self {
            id: conversation.id().clone(),
            sandbox: conversation.sandbox().clone(),
            guard: Arc::clone(conversation.guard()),
            model: conversation
                .endpoint()
                .map(|endpoint| endpoint.model.clone())
                .unwrap_or_default(),
            endpoint: conversation
                .endpoint()
                .map(|endpoint| format!("{}:{}", endpoint.name, endpoint.model))
                .unwrap_or_default(),
            notebook: conversation.notebook().clone(),
            mode: conversation.mode_switch(),
            reasoning: match conversation.reasoning() {
                ReasoningOptions::AUTO => String::new(),
                options => describe_reasoning(options),
            },
        }
    }
}

impl Chat {
    /// Returns the conversation, or `None` while a turn owns it.
    pub(crate) fn conversation(&mut self) -> Option<&mut Conversation> {
        match &mut self.slot {
            ConversationSlot::Idle(conversation) => Some(conversation),
            ConversationSlot::Running(_) | ConversationSlot::Gone => None,
        }
    }

    /// Returns the user's home directory, for `~`.
    pub(crate) fn home(&self) -> Option<std::path::PathBuf> {
        self.settings.environment().get("HOME").map(std::path::PathBuf::from)
    }

    /// Returns the width at which prose is wrapped.
    pub(crate) fn width(&self) -> usize {
        cells::prose_width(self.screen.size().columns)
    }

    /// Prints one line of the program's own.
    pub(crate) fn print_line(&mut self, line: Line) {
        self.print(TranscriptEntry { kind: EntryKind::Notice, lines: vec![line] });
    }

    /// Prints a note.
    pub(crate) fn note(&mut self, words: &str) {
        let lines = cells::note(words, self.width());
        self.print(TranscriptEntry { kind: EntryKind::Notice, lines });
    }

    /// Prints a warning.
    pub(crate) fn warn(&mut self, words: &str) {
        let lines = cells::warning(words, self.width());
        self.print(TranscriptEntry { kind: EntryKind::Notice, lines });
    }

    /// Prints an error with its advice.
    pub(crate) fn show_error(&mut self, error: &ChatError) {
        let lines = cells::error(error, self.width());
        self.print(TranscriptEntry { kind: EntryKind::Notice, lines });
    }

    /// Asks the event loop to end the chat.
    pub(crate) fn quit(&mut self) {
        self.leaving.get_or_insert(ChatExit::Quit);
    }

    /// Prints an entry into the transcript, with a blank line between entries of different
    /// kinds.
    pub(crate) fn print(&mut self, entry: TranscriptEntry) {
        if entry.lines.is_empty() {
            return;
        }
        if self.last.is_some_and(|last| last != entry.kind) {
            self.screen.print(Line::empty());
        }
        self.last = Some(entry.kind);
        for line in entry.lines {
            self.screen.print(line);
        }
        self.is_dirty = true;
    }

    /// Shows a hint in the status line for a while.
    pub(crate) fn hint(&mut self, words: &'static str, span: Duration) {
        self.hint = Some(Hint { words, until: Instant::now() + span });
        self.is_dirty = true;
    }

    /// Rings the bell if the terminal is not focused and the settings allow it.
    pub(crate) fn ring_if_unfocused(&mut self) {
        if !self.is_focused {
            self.ring_bell();
        }
    }

    /// Rings the bell if the settings allow it.
    pub(crate) fn ring_bell(&mut self) {
        let wanted = self.settings.get(&vestal_api::keys::DISPLAY_BELL);
        if wanted.is_ok_and(|bell| bell.value) {
            // A failed bell is harmless: the next frame notices if the terminal is gone.
            self.screen.bell().ok();
        }
    }
}
