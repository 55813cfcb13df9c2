//! A conversation in the hands of this process.

mod about;
mod branch;
mod close;
mod compress;
mod context;
mod model;
mod news;
mod open;
mod record;
mod settle;
mod shell;
mod sources;
mod tools;
mod undo;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use vestal_conversations::{ConversationId, Lease, Seq};
use vestal_model::{Chat, Endpoint, Message, ToolSpec, UserMessage};

use crate::agent::Agent;
use crate::approvals::Guard;
use crate::call_jobs::{CallJobs, LeftBehind};
use crate::event::EventSink;
use crate::human::Human;
use crate::memory::Listening;
use crate::notebook::{Notebook, Notes};
use crate::registry::{Registry, Selection};
use crate::turn::{Control, TurnResult};
use crate::workshop::Workshop;

pub use about::ContextUsed;
pub use close::EndReason;
pub(crate) use compress::Summarised;
pub use compress::{Compressed, NotCompressed};
pub(crate) use open::Heritage;
pub use open::{OpenError, Opening, Start};
pub(crate) use record::masked;
pub use tools::{NotSwitched, Switch, ToolInfo};
pub use undo::{Undone, undo_stored};

/// A conversation that this process, and no other, may go on with.
///
/// Every word is stored before the next step is taken, so whatever ends the
/// process, the next one that opens the conversation finds all of it; and its
/// shell session, which is named after it, in the sandbox.
pub struct Conversation {
    pub(crate) agent: Agent,
    pub(crate) id: ConversationId,
    /// Held so that no other process runs turns in it.
    pub(crate) _lease: Lease,
    /// What the model is told before everything else.
    pub(crate) system: String,
    /// What the model sees, in order.
    pub(crate) messages: Vec<Message>,
    /// The numbers the store has for them.
    pub(crate) seqs: Vec<Seq>,
    /// Who is asked, and who is asked where that one fails.
    pub(crate) chain: Vec<Endpoint>,
    pub(crate) chat: Chat,
    pub(crate) workshop: Workshop,
    pub(crate) guard: Arc<Guard>,
    pub(crate) human: Arc<dyn Human>,
    /// Which tools it gets, as it was opened.
    pub(crate) selection: Selection,
    /// The tools that a child has from its parent: all that it can have.
    pub(crate) inherited: Option<Arc<Registry>>,
    /// Which of the sources' tools it has.
    pub(crate) looked: sources::Looked,
    /// Which tools somebody gave it and took from it since.
    pub(crate) switched: tools::Switched,
    pub(crate) tools: Arc<Registry>,
    pub(crate) specs: Vec<ToolSpec>,
    pub(crate) notebook: Notebook,
    /// Files whose lines are before the model's eyes.
    pub(crate) sightings: Arc<crate::tools::Sightings>,
    pub(crate) stored_notes: Notes,
    /// Which jobs its calls become.
    pub(crate) jobs: CallJobs,
    /// What a process before this one left of that, until it has been looked at.
    pub(crate) unsettled: Option<LeftBehind>,
    /// The first words since the notes were stored.
    pub(crate) noted_since: Option<Seq>,
    pub(crate) control: Control,
    pub(crate) max_turns: u32,
    /// How many parents it has.
    pub(crate) depth: u32,
    /// The parent's interrupt, which is ours too.
    pub(crate) parent_cancel: Option<CancellationToken>,
    /// Tokens of the last request and its answer, as the provider counted
    /// them, and how many messages that were.
    pub(crate) counted: Option<(u64, usize)>,
    /// Bytes of a tool's result that the model is shown, where whole ones do not
    /// fit into its context.
    pub(crate) shown_of_results: Option<usize>,
    /// Whether the model is not shown the pictures that words do without, because
    /// they do not fit into its context.
    pub(crate) without_optional_pictures: bool,
    /// Whether what is said first becomes its title.
    pub(crate) untitled: bool,
    /// Who remembers beyond it; nobody for a child.
    pub(crate) memory: Listening,
    /// Names in the settings that stand for no tool, to be told once.
    pub(crate) untold: Vec<String>,
}

impl Conversation {
    /// Returns its name.
    pub fn id(&self) -> &ConversationId {
        &self.id
    }

    /// Returns what interrupts and steers its turns.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Returns who decides about dangerous commands in it.
    pub fn guard(&self) -> &Arc<Guard> {
        &self.guard
    }

    /// Returns where it works.
    pub fn workshop(&self) -> &Workshop {
        &self.workshop
    }

    /// Has its shell, and those of its children, begin in a directory of the
    /// sandbox; to be said before the first turn.
    pub fn start_in(&mut self, dir: &std::path::Path) {
        self.workshop.start_in(dir);
    }

    /// Returns what the model sees.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Says something and has the model work on it until it has an answer, or
    /// until something ends the turn. That is never an error of this call: the
    /// result says what happened, and what was said is stored either way.
    pub async fn run(&mut self, input: UserMessage, events: &EventSink) -> TurnResult {
        crate::turn::run(self, crate::turn::Begin::Said(input), events).await
    }
}

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversation")
            .field("id", &self.id)
            .field("messages", &self.messages.len())
            .field("workshop", &self.workshop)
            .finish_non_exhaustive()
    }
}

/// Opens a conversation, says one thing in it and closes it: the whole of a
/// one-shot.
pub async fn run_conversation(
    agent: &Agent,
    opening: Opening,
    input: UserMessage,
    events: &EventSink,
) -> Result<TurnResult, OpenError> {
    let mut conversation = agent.open(opening).await?;
    let result = conversation.run(input, events).await;
    conversation.close(crate::EndReason::OneShot).await?;
    Ok(result)
}
