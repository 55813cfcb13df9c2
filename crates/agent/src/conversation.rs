//! A conversation that this process runs.

mod compress;
mod jobs;
mod mode;
mod open;
mod record;
mod side_shell;
mod tools;

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use tokio_util::sync::CancellationToken;
use vestal_conversations::{ConversationId, Error, Lease, ModelTotals, Seq, Title};
use vestal_model::{
    ContextLimit, Endpoint, Message, ModelChain, ReasoningOptions, ToolSpec, UserMessage,
};

use crate::agent::Agent;
use crate::approvals::Guard;
use crate::call_jobs::{CallJobs, UnsettledJobs};
use crate::compress::{tokens, tokens_of};
use crate::delegation::{DelegatedChildren, Delegator};
use crate::event::EventSink;
use crate::human::Human;
use crate::memory::MemoryFeed;
use crate::mode::{ModeSwitch, StoredMode};
use crate::notebook::{Notebook, Notes, Todo};
use crate::registry::{Registry, Selection};
use crate::sandbox::ConversationSandbox;
use crate::tool::ToolContext;
use crate::turn::{Control, TurnResult};

pub use compress::{CompressError, Compressed};
pub use open::{ConversationOptions, OpenError, Start};
pub use record::{UndoneTurns, undo_stored};
pub use side_shell::{SideShell, SideShellError, SideShellOutput};
pub use tools::{Switch, SwitchToolError, ToolInfo};

pub(crate) use compress::Summarised;
pub(crate) use open::ParentContext;
pub(crate) use record::masked;

/// The key of how much the models think in the store.
pub(crate) const REASONING: &str = "reasoning";

/// A conversation that this process, and no other, may run turns in.
///
/// Every word is stored before the next step is taken, so whatever ends the
/// process, the next one that opens the conversation finds all of it; and its
/// shell session, which is named after it, in the sandbox.
pub struct Conversation {
    pub(crate) agent: Agent,
    pub(crate) id: ConversationId,
    /// Held so that no other process runs turns in it.
    pub(crate) _lease: Lease,
    /// The instructions that come before everything else.
    pub(crate) system: String,
    /// What the model sees, in order.
    pub(crate) messages: Vec<Message>,
    /// The numbers the store has for them.
    pub(crate) seqs: Vec<Seq>,
    /// Who is asked, and who is asked where that one fails.
    pub(crate) chain: Vec<Endpoint>,
    pub(crate) chat: ModelChain,
    /// How much the models think, where that was chosen here; none: as configured.
    pub(crate) reasoning: Option<ReasoningOptions>,
    pub(crate) sandbox: ConversationSandbox,
    pub(crate) guard: Arc<Guard>,
    pub(crate) human: Arc<dyn Human>,
    /// How it works, and what the store has of that.
    pub(crate) mode: ModeSwitch,
    pub(crate) stored_mode: StoredMode,
    /// Which tools it gets, as it was opened.
    pub(crate) selection: Selection,
    /// The tools that a child has from its parent: all that it can have.
    pub(crate) inherited: Option<Arc<Registry>>,
    /// Which of the sources' tools it has.
    pub(crate) source_versions: tools::SourceVersions,
    /// Tools that the user switched on or off since.
    pub(crate) switched: tools::ToolSwitches,
    pub(crate) tools: Arc<Registry>,
    pub(crate) specs: Vec<ToolSpec>,
    pub(crate) notebook: Notebook,
    /// Files whose lines the model has in its context.
    pub(crate) observed_files: Arc<crate::tools::ObservedFiles>,
    pub(crate) stored_notes: Notes,
    /// Which job runs which call.
    pub(crate) jobs: CallJobs,
    /// Jobs of calls that an earlier process left without a result, until they are settled.
    pub(crate) unsettled: Option<UnsettledJobs>,
    /// The first words since the notes were stored.
    pub(crate) noted_since: Option<Seq>,
    pub(crate) control: Control,
    /// The children that work for it.
    pub(crate) children: DelegatedChildren,
    pub(crate) max_turns: u32,
    /// How deep below the conversation of a person it is; that one has 0.
    pub(crate) depth: u32,
    /// The parent's interrupt, which also interrupts this one.
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
    /// The memory; none for a child.
    pub(crate) memory: MemoryFeed,
    /// Names in the settings that stand for no tool, to be reported once.
    pub(crate) unknown_tools: Vec<String>,
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

    /// Returns the children that work for it, to be listed and interrupted.
    pub fn children(&self) -> DelegatedChildren {
        self.children.clone()
    }

    /// Returns who decides about dangerous commands in it.
    pub fn guard(&self) -> &Arc<Guard> {
        &self.guard
    }

    /// Returns where it works.
    pub fn sandbox(&self) -> &ConversationSandbox {
        &self.sandbox
    }

    /// Has its shell, and those of its children, begin in a directory of the
    /// sandbox; to be said before the first turn.
    pub fn start_in(&mut self, dir: &std::path::Path) {
        self.sandbox.start_in(dir);
    }

    /// Returns what the model sees.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns the number that the store has for the last of those messages.
    pub fn last_seq(&self) -> Option<Seq> {
        self.seqs.last().copied()
    }

    /// Says something and has the model work on it until it has an answer, or
    /// until something ends the turn. That is never an error of this call: the
    /// result says what happened, and what was said is stored either way.
    #[boxed]
    pub async fn run(&mut self, input: UserMessage, events: &EventSink) -> TurnResult {
        crate::turn::run(self, crate::turn::TurnInput::Message(input), events).await
    }
}

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversation")
            .field("id", &self.id)
            .field("messages", &self.messages.len())
            .field("sandbox", &self.sandbox)
            .finish_non_exhaustive()
    }
}

/// Opens a conversation, says one thing in it and closes it: the whole of a
/// one-shot.
#[boxed]
pub async fn run_conversation(
    agent: &Agent,
    opening: ConversationOptions,
    input: UserMessage,
    events: &EventSink,
) -> Result<TurnResult, OpenError> {
    let mut conversation = agent.open(opening).await?;
    let result = conversation.run(input, events).await;
    conversation.close(crate::EndReason::OneShot).await?;
    Ok(result)
}

/// How full the model's context is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextUsed {
    /// Tokens that the next request takes, as far as that is known.
    pub tokens: u64,
    /// Tokens that the model can hold, if known.
    pub window: Option<u64>,
}

/// What the next request is made of, in tokens by estimate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ContextParts {
    /// The instructions that come before everything else.
    pub system: u64,
    /// The descriptions of its tools.
    pub tools: u64,
    /// What people and the program said.
    pub user: u64,
    /// What the model said, with its calls.
    pub assistant: u64,
    /// What tools returned.
    pub tool_results: u64,
}

impl Conversation {
    /// Gives it a title that no other conversation has, and returns it as it became.
    #[boxed]
    pub async fn set_title(&mut self, title: &str) -> Result<String, Error> {
        let title = Title::Given(title.to_owned());
        let title = self.agent.parts.store.set_title(&self.id, &title).await?;
        // The first message must not replace it.
        self.untitled = false;
        Ok(title)
    }

    /// Tells the model something that a person did beside the conversation, as
    /// to go back to an earlier state of the sandbox. It reads that with what is
    /// said next.
    #[boxed]
    pub async fn add_note(&mut self, words: &str) -> Result<(), Error> {
        self.append_note(&format!("[{words}]")).await
    }

    /// Returns its title, if it has one.
    #[boxed]
    pub async fn title(&self) -> Result<Option<String>, Error> {
        Ok(self.agent.parts.store.get(&self.id).await?.title)
    }

    /// Returns how full the model's context is.
    pub fn context_used(&self) -> ContextUsed {
        let window = self.chat.context_length().tokens();
        ContextUsed { tokens: self.request_tokens(), window }
    }

    /// Returns what the next request is made of.
    pub fn context_parts(&self) -> ContextParts {
        let system = tokens(&self.system, &[], &[]);
        let tools = self.fixed_tokens().saturating_sub(system);
        let mut parts = ContextParts { system, tools, ..ContextParts::default() };
        for message in &self.messages {
            *match message {
                Message::User(_) => &mut parts.user,
                Message::Assistant(_) => &mut parts.assistant,
                Message::Tool(_) => &mut parts.tool_results,
            } += tokens_of(message);
        }
        parts
    }

    /// Returns what each model used over the whole conversation, in any process
    /// it; what was taken back included, what children took not: see
    /// [`Agent::usage`](crate::Agent::usage).
    #[boxed]
    pub async fn usage(&self) -> Result<Vec<ModelTotals>, Error> {
        self.agent.parts.store.usage(Some(&self.id)).await
    }

    /// Returns what the model has put on its list.
    pub fn todos(&self) -> Vec<Todo> {
        self.notebook.read().todos
    }

    /// Returns what it remembers beside its messages: the model's list, and the
    /// jobs it wants to hear of.
    pub fn notebook(&self) -> &Notebook {
        &self.notebook
    }
}

impl Conversation {
    /// Changes the models from the next turn on, in this conversation only: the first of
    /// the chain is asked, and the next one if it fails. A process that resumes the
    /// conversation uses the same model.
    #[boxed]
    pub async fn set_chain(&mut self, chain: Vec<Endpoint>) -> Result<(), Error> {
        if let Some(Endpoint { name, model, .. }) = chain.first() {
            self.agent.parts.store.set_model(&self.id, name, model).await?;
        }
        self.chat = self.agent.parts.models.chat(chain.clone());
        self.chain = chain;
        // Another model counts tokens differently and has another context length.
        self.counted = None;
        self.shown_of_results = None;
        self.without_optional_pictures = false;
        Ok(())
    }

    /// Chooses how much the models think from the next request on, in this conversation only and
    /// also when it is resumed; none: as configured for each model.
    #[boxed]
    pub async fn set_reasoning(
        &mut self,
        reasoning: Option<ReasoningOptions>,
    ) -> Result<(), Error> {
        let value = reasoning.map(|reasoning| serde_json::json!(reasoning));
        self.agent.parts.store.set_state(&self.id, REASONING, value.as_ref()).await?;
        self.reasoning = reasoning;
        Ok(())
    }

    /// Returns how much the model that is asked next thinks: as chosen in this conversation, or as
    /// configured for it.
    pub fn reasoning(&self) -> ReasoningOptions {
        let configured = || self.endpoint().map(|endpoint| endpoint.reasoning);
        self.reasoning.or_else(configured).unwrap_or_default()
    }

    /// Reports whether that was chosen in this conversation.
    pub fn is_reasoning_chosen(&self) -> bool {
        self.reasoning.is_some()
    }

    /// Returns the model that was chosen; none if none is configured.
    pub fn model(&self) -> Option<&Endpoint> {
        self.chain.first()
    }

    /// Returns the model that is asked next: the chosen one, or where that
    /// failed a moment ago the one that was asked in its place.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.chat.endpoint()
    }

    /// Returns the context length of that model.
    pub fn context_length(&self) -> ContextLimit {
        self.chat.context_length()
    }
}

impl Conversation {
    /// Returns what a tool works with during a call.
    pub(crate) fn tool_context(
        &self,
        call: &str,
        cancel: &CancellationToken,
        events: &EventSink,
    ) -> ToolContext {
        let parts = &self.agent.parts;
        ToolContext {
            conversation: self.id.clone(),
            call: call.to_owned(),
            sandbox: self.sandbox.clone(),
            cancel: cancel.clone(),
            events: events.clone(),
            guard: Arc::clone(&self.guard),
            human: Arc::clone(&self.human),
            redactor: Arc::clone(&parts.redactor),
            limits: Arc::clone(&parts.options.limits),
            notebook: self.notebook.clone(),
            observed_files: Arc::clone(&self.observed_files),
            jobs: self.jobs.clone(),
            delegates: Arc::new(Delegator::of(self)),
            hooks: Arc::clone(&parts.options.hooks),
            mode: self.mode.clone(),
            tools: Arc::clone(&self.tools),
        }
    }
}

/// Why a conversation is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// It was one question and one answer.
    OneShot,
    /// The person left.
    Left,
    /// Another one was started in its place.
    NewConversation,
    /// The child has done its part.
    Delegated,
}

impl EndReason {
    /// Returns the word that is stored.
    pub const fn word(self) -> &'static str {
        match self {
            Self::OneShot => "one_shot",
            Self::Left => "left",
            Self::NewConversation => "new_conversation",
            Self::Delegated => "delegated",
        }
    }
}

impl Conversation {
    /// Closes the conversation: its end is stored, and the sandbox is let go
    /// of as configured. It can be resumed; one in which nothing was ever
    /// said is deleted. Waits for a limited time until its memory has every event.
    pub async fn close(self, reason: EndReason) -> Result<(), Error> {
        self.close_without(reason, None).await
    }

    /// The same, and removes an entry of the conversation's state as its end is stored: many that end at
    /// one instant wait for one another as little as can be.
    #[boxed]
    pub async fn close_without(
        mut self,
        reason: EndReason,
        state: Option<&str>,
    ) -> Result<(), Error> {
        self.keep_notes().await?;
        let left = if self.depth == 0 {
            self.sandbox.close()
        } else {
            // The shell of a child is not used again. If it were kept, each child would leave
            // one in the sandbox.
            match self.sandbox.attached() {
                Some(sandbox) => sandbox.reset_session(self.sandbox.session()).await,
                None => Ok(()),
            }
        };
        if let Err(error) = left {
            tracing::warn!(%error, "the sandbox could not be left as it should be");
        }
        // A conversation with only commands of the person has messages but no title.
        let was_never_used = self.untitled && self.messages.is_empty();
        let Self { agent, id, memory, _lease: lease, .. } = self;
        let store = &agent.parts.store;
        let ended = if was_never_used {
            // Nothing was ever said: there is nothing to resume.
            store.delete(&id).await
        } else {
            match state {
                Some(state) => store.end_without(&id, reason.word(), state).await,
                None => store.end(&id, reason.word()).await,
            }
        };
        // Everything is stored, so a process that resumes it need not wait for the memory.
        drop(lease);
        memory.close((store, &id)).await;
        ended
    }
}
