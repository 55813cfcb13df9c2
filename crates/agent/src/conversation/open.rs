//! Begins a conversation, resumes one, or branches off one.

use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use jiff::Zoned;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use vestal_conversations::{ConversationId, ConversationStore, Error, New, ParentKind, Title};
use vestal_model::{Endpoint, ReasoningOptions};
use vestal_sandbox::{Command, InvalidTask, Isolation, Overrides, TaskName};

use super::record::NOTES;
use super::tools::{SWITCHED, SourceVersions, ToolSwitches};
use super::{Conversation, REASONING};
use crate::agent::Agent;
use crate::approvals::Guard;
use crate::call_jobs::{CallJobs, UnsettledJobs};
use crate::human::Human;
use crate::memory::MemoryFeed;
use crate::mode::{MODE, ModeSwitch, StoredMode};
use crate::notebook::{Notebook, Notes};
use crate::prompt::{self, PromptParts};
use crate::registry::{Registry, Selection};
use crate::sandbox::ConversationSandbox;
use crate::turn::Control;

/// What a conversation is opened with.
pub struct ConversationOptions {
    /// Whether it is new or resumed.
    pub start: Start,
    /// Who is asked, and who is asked where that one fails.
    pub chain: Vec<Endpoint>,
    /// The task whose sandbox it works in.
    pub task: TaskName,
    /// How conversations share sandboxes.
    pub isolation: Isolation,
    /// What is asked for the sandbox alone.
    pub overrides: Overrides,
    /// Who can be asked.
    pub human: Arc<dyn Human>,
    /// The tools it gets.
    pub selection: Selection,
    /// The instructions for the model, if the conversation is started.
    pub prompt: PromptParts,
    /// Where it was started, on this machine.
    pub cwd: Option<PathBuf>,
    /// Calls of the model that a turn may take; none: as configured.
    pub max_turns: Option<u32>,
}

/// Whether a conversation is new or resumed.
#[derive(Debug, Clone)]
pub enum Start {
    /// It is started.
    New {
        /// Who begins it: `cli`, `api`, …
        source: String,
        /// Its title; none: it is taken from what is said first.
        title: Option<Title>,
        /// What its state in the store has from its first moment on, by name.
        state: Vec<(String, Value)>,
    },
    /// It is resumed.
    Resume(ConversationId),
}

/// Why a conversation could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store has a reason.
    #[error(transparent)]
    Store(#[from] Error),
    /// It cannot have a sandbox of its own.
    #[error(transparent)]
    Task(#[from] InvalidTask),
    /// The system has no randomness to give.
    #[error("failed to name the conversation: {0}")]
    Name(#[from] std::io::Error),
}

/// What a child has from its parent.
pub(crate) struct ParentContext {
    pub(crate) parent: ConversationId,
    pub(crate) sandbox: ConversationSandbox,
    pub(crate) depth: u32,
    pub(crate) cancel: CancellationToken,
    pub(crate) guard: Arc<Guard>,
    /// The tools the parent has.
    pub(crate) tools: Arc<Registry>,
    /// How the parent works.
    pub(crate) mode: ModeSwitch,
    /// How much the parent's models think, where that was chosen.
    pub(crate) reasoning: Option<ReasoningOptions>,
}

impl Agent {
    /// Opens a conversation. Nothing is asked of a model and no sandbox is
    /// touched before the first turn needs it.
    #[boxed]
    pub async fn open(&self, opening: ConversationOptions) -> Result<Conversation, OpenError> {
        self.open_with(opening, None).await
    }

    /// Opens a conversation, of a child where there is a parent.
    pub(crate) async fn open_with(
        &self,
        mut opening: ConversationOptions,
        parent_context: Option<ParentContext>,
    ) -> Result<Conversation, OpenError> {
        let store = &self.parts.store;
        let options = &self.parts.options;
        // A child needs no memory: its parent has one.
        let memory = self.parts.memory.as_ref().filter(|_| parent_context.is_none());
        let redactor = Arc::clone(&self.parts.redactor);
        let mut memory = MemoryFeed::new(memory.cloned(), options.memory_timeouts, redactor);
        if matches!(&opening.start, Start::New { .. })
            && let Some(words) = memory.recall().await
        {
            let before = opening.prompt.memory.take();
            opening.prompt.memory =
                Some(before.into_iter().chain([words]).collect::<Vec<_>>().join("\n\n"));
        }
        let untitled = matches!(&opening.start, Start::New { title: None, .. });
        let begun = match &opening.start {
            Start::New { source, title, state } => {
                let parent = parent_context.as_ref();
                let parent = parent.map(|child| (ParentKind::Delegation, child.parent.clone()));
                let new = New {
                    title: title.clone(),
                    source: source.clone(),
                    parent,
                    state: state.clone(),
                    ..New::default()
                };
                StoredConversation::new(self, &opening, new).await?
            }
            Start::Resume(id) => {
                let found = StoredConversation::found(self, id, &opening).await?;
                store.touch(id).await?;
                found
            }
        };
        let StoredConversation {
            id,
            lease,
            system,
            messages,
            seqs,
            notes,
            switched,
            works_in,
            reasoning,
            mode: stored_mode,
            jobs,
            unsettled,
        } = begun;
        let session = format!("c-{id}");
        let depth = parent_context.as_ref().map_or(0, |child| child.depth);
        let inherited = parent_context.as_ref().map(|child| Arc::clone(&child.tools));
        let reasoning = parent_context.as_ref().map_or(reasoning, |child| child.reasoning);
        let mode = match &parent_context {
            Some(child) => child.mode.clone(),
            None => ModeSwitch::new(stored_mode.mode),
        };
        let (sandbox, guard, parent_cancel) = match parent_context {
            Some(child) => (child.sandbox.with_session(&session), child.guard, Some(child.cancel)),
            None => {
                let task = own_task(&opening, &id, works_in.as_ref())?;
                let (engine, overrides) = (self.parts.engine.clone(), opening.overrides);
                let mut sandbox = ConversationSandbox::new(engine, task, overrides, &session);
                if let Some(dir) = works_in.and_then(|place| place.dir) {
                    sandbox.start_in(&dir);
                }
                let remember = Arc::clone(&self.parts.remember);
                let guard = Guard::new(options.policy.clone(), remember);
                (sandbox, Arc::new(guard), None)
            }
        };
        let all = inherited.as_deref().unwrap_or(&self.parts.tools);
        let (tools, mut unknown_tools) = all.select(&opening.selection);
        // What a source may yet have is not missing.
        unknown_tools
            .retain(|name| !self.parts.sources.iter().any(|source| source.may_offer(name)));
        let specs = tools.specs();
        let mut conversation = Conversation {
            agent: self.clone(),
            id,
            _lease: lease,
            system,
            messages,
            seqs,
            chat: self.parts.models.chat(opening.chain.clone()),
            chain: opening.chain,
            reasoning,
            sandbox,
            guard,
            human: opening.human,
            mode,
            stored_mode,
            selection: opening.selection,
            inherited,
            source_versions: SourceVersions::default(),
            switched,
            tools: Arc::new(tools),
            specs,
            notebook: Notebook::new(notes.clone()),
            observed_files: Arc::default(),
            stored_notes: notes,
            jobs,
            unsettled,
            noted_since: None,
            control: Control::default(),
            children: crate::delegation::DelegatedChildren::default(),
            max_turns: opening.max_turns.unwrap_or(options.max_turns),
            depth,
            parent_cancel,
            counted: None,
            shown_of_results: None,
            without_optional_pictures: false,
            untitled,
            memory,
            unknown_tools,
        };
        conversation.choose_tools();
        Ok(conversation)
    }
}

/// What the store has of a conversation.
struct StoredConversation {
    id: ConversationId,
    lease: vestal_conversations::Lease,
    system: String,
    messages: Vec<vestal_model::Message>,
    seqs: Vec<vestal_conversations::Seq>,
    notes: Notes,
    switched: ToolSwitches,
    works_in: Option<WorksIn>,
    reasoning: Option<ReasoningOptions>,
    mode: StoredMode,
    jobs: CallJobs,
    unsettled: Option<UnsettledJobs>,
}

impl StoredConversation {
    /// Creates a conversation in one transaction, with all that is recorded about it.
    async fn new(
        agent: &Agent,
        opening: &ConversationOptions,
        mut new: New,
    ) -> Result<Self, OpenError> {
        let store = &agent.parts.store;
        let id = ConversationId::generate()?;
        // Before it is made: from its first moment on nobody else may run it.
        let lease = store.lease(&id)?;
        let system = prompt::build(&opening.prompt, Zoned::now().date());
        let model = opening.chain.first();
        let (jobs, jobs_entry) = CallJobs::begin(store, &id);
        new.state.push(jobs_entry);
        let new = New {
            id: Some(id.clone()),
            provider: model.map(|model| model.name.clone()).unwrap_or_default(),
            model: model.map(|model| model.model.clone()).unwrap_or_default(),
            cwd: opening.cwd.clone(),
            system_prompt: system.clone(),
            ..new
        };
        store.create(new).await?;
        Ok(Self {
            id,
            lease,
            system,
            messages: Vec::new(),
            seqs: Vec::new(),
            notes: Notes::default(),
            switched: ToolSwitches::default(),
            works_in: None,
            reasoning: None,
            mode: StoredMode::default(),
            jobs,
            unsettled: None,
        })
    }

    async fn found(
        agent: &Agent,
        id: &ConversationId,
        opening: &ConversationOptions,
    ) -> Result<Self, OpenError> {
        let store = &agent.parts.store;
        let lease = store.lease(id)?;
        let known = store.get(id).await?;
        if let Some(Endpoint { name, model, .. }) = opening.chain.first()
            && (*name != known.provider || *model != known.model)
        {
            store.set_model(id, name, model).await?;
        }
        let mut system = store.system_prompt(id).await?;
        if system.is_empty() {
            // It was held in another program, whose instructions mean nothing here.
            system = prompt::build(&opening.prompt, Zoned::now().date());
            store.set_system_prompt(id, &system).await?;
        }
        let stored = store.messages(id).await?;
        let (mut seqs, mut messages): (Vec<_>, Vec<_>) =
            stored.into_iter().map(|stored| (stored.seq, stored.message)).unzip();
        if let Some((seq, message)) = crate::turn::recover(store, id, seqs.last().copied()).await? {
            seqs.push(seq);
            messages.push(message);
        }
        // What cannot be read of these is a loss of convenience, not of words.
        let notes = read(store, id, NOTES).await?.unwrap_or_default();
        let switched = read(store, id, SWITCHED).await?.unwrap_or_default();
        let works_in = read(store, id, WORKS_IN).await?;
        let reasoning = read(store, id, REASONING).await?;
        let mode = read(store, id, MODE).await?.unwrap_or_default();
        let (jobs, record) = CallJobs::found(store, id).await?;
        let (id, unsettled) = (id.clone(), Some(UnsettledJobs(record)));
        Ok(Self {
            id,
            lease,
            system,
            messages,
            seqs,
            notes,
            switched,
            works_in,
            reasoning,
            mode,
            jobs,
            unsettled,
        })
    }
}

/// Returns something that a conversation remembers, if it can be read.
async fn read<T: DeserializeOwned>(
    store: &ConversationStore,
    id: &ConversationId,
    name: &str,
) -> Result<Option<T>, Error> {
    let value = store.state(id, name).await?;
    Ok(value.and_then(|value| serde_json::from_value(value).ok()))
}

/// Returns the task whose sandbox a conversation works in.
fn own_task(
    opening: &ConversationOptions,
    id: &ConversationId,
    works_in: Option<&WorksIn>,
) -> Result<TaskName, InvalidTask> {
    match (opening.isolation, works_in) {
        (Isolation::Shared | Isolation::Task, _) => Ok(opening.task.clone()),
        (Isolation::Conversation, Some(place)) => place.task.parse(),
        (Isolation::Conversation, None) => format!("conversation-{id}").parse(),
    }
}

/// The key of a branch's sandbox and directory in the store.
pub(crate) const WORKS_IN: &str = "works_in";

/// How long the shell may take to say where it is.
const START_DIR_TIMEOUT: Duration = Duration::from_secs(3);

/// Where a branch works: where the conversation worked that it comes from,
/// wherever conversations of its own kind would.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorksIn {
    /// The task whose sandbox it is.
    pub(crate) task: String,
    /// Where its shell begins, if that is known.
    #[serde(default)]
    pub(crate) dir: Option<PathBuf>,
}

impl Conversation {
    /// Makes another conversation of all that the model sees here, with the same
    /// model, tools and notes, in the same sandbox, and returns its name. It has
    /// a shell of its own, which begins in the directory where this one is, and
    /// nothing is approved in it beforehand. Without a title it gets this one's
    /// with a number.
    #[boxed]
    pub async fn branch(&mut self, title: Option<&str>) -> Result<ConversationId, Error> {
        self.keep_notes().await?;
        let place = WorksIn { task: self.sandbox.task().to_string(), dir: self.shell_dir().await };
        let place = serde_json::json!(place);
        let title = title.map(|title| Title::Given(title.to_owned()));
        let store = &self.agent.parts.store;
        // At once: a branch without its place would go on somewhere else.
        let branch = store.branch_with_state(&self.id, title, &[(WORKS_IN, &place)]).await?.id;
        Ok(branch)
    }

    /// Returns where the shell is, if it has been used and says so.
    async fn shell_dir(&self) -> Option<PathBuf> {
        let sandbox = self.sandbox.attached()?;
        let command = self.sandbox.in_session(Command::shell("pwd")).timeout(START_DIR_TIMEOUT);
        let output =
            tokio::time::timeout(2 * START_DIR_TIMEOUT, sandbox.run(command)).await.ok()?.ok()?;
        let dir = PathBuf::from(std::ffi::OsStr::from_bytes(&output.cwd));
        dir.is_absolute().then_some(dir)
    }
}
