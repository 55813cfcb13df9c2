//! Opens conversations, new and resumed ones.

use std::path::PathBuf;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use serde::{Deserialize, Serialize};
use vestal_agent::approvals::Unattended;
use vestal_agent::{
    Conversation, ConversationOptions, Human, PromptParts, Registry, Selection, Start,
};
use vestal_config::Settings;
use vestal_conversations::{ConversationId, Title};
use vestal_model::Endpoint;
use vestal_sandbox::{Isolation, Overrides, TaskName, keys};

use crate::runtime::PromptContext;
use crate::{Runtime, RuntimeError, endpoints};

/// The name that the store of conversations keeps a [`SandboxChoice`] under.
pub const SANDBOX_CHOICE: &str = "place";

/// A conversation to be opened.
#[derive(Debug, Clone)]
pub struct OpenRequest {
    /// Which conversation.
    pub which: ConversationChoice,
    /// Who opens it: `cli`, `kanban`, …
    pub source: String,
    /// The title of a new conversation, or the new title of another.
    pub title: Option<Title>,
    /// What the state of a new conversation has in the store from its first moment on, by name.
    pub state: Vec<(String, serde_json::Value)>,
    /// `MODEL` or `PROVIDER:MODEL`. Without it a new conversation asks the
    /// configured model, and another the one that it was held with.
    pub model: Option<String>,
    /// The sandbox it works in.
    pub placement: SandboxPlacement,
    /// The directory that the person is in.
    pub cwd: Option<PathBuf>,
    /// The tools it gets.
    pub toolsets: Toolsets,
    /// The model's role, if it is more than to talk to the user.
    pub role: Option<String>,
    /// Calls of the model that a turn may take; none: as configured.
    pub max_turns: Option<u32>,
    /// The directory of the sandbox that its shell begins in; none: where the sandbox has it.
    pub start_in: Option<PathBuf>,
    /// What happens to something dangerous when nobody can be asked; none: as configured.
    pub unattended: Option<Unattended>,
}

impl OpenRequest {
    /// Returns a request for a new conversation, as the settings have it.
    pub fn new(source: impl Into<String>) -> Self {
        Self {
            which: ConversationChoice::New,
            source: source.into(),
            title: None,
            state: Vec::new(),
            model: None,
            placement: SandboxPlacement::Remembered,
            cwd: None,
            toolsets: Toolsets::Configured,
            role: None,
            max_turns: None,
            start_in: None,
            unattended: None,
        }
    }
}

/// Which conversation is meant.
#[derive(Debug, Clone)]
pub enum ConversationChoice {
    /// A new one.
    New,
    /// The one that a person at the command line used last.
    Latest,
    /// The one that a person means by this id, prefix or title.
    Named(String),
    /// This one.
    Id(ConversationId),
}

/// The sandbox that a conversation works in.
#[derive(Debug, Clone)]
pub enum SandboxPlacement {
    /// The one it worked in before; for a new conversation that of the default task.
    Remembered,
    /// This one, now and when it is resumed.
    In(SandboxChoice),
    /// One that the caller has attached. It is not recorded with the conversation.
    Attached {
        /// Its task and what was asked for it.
        choice: SandboxChoice,
        /// The backend it is on.
        backend: String,
        /// The directory that the conversation is about, if it is a project's.
        project: Option<PathBuf>,
    },
}

/// The task of a sandbox and what was asked for that sandbox alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxChoice {
    /// The task.
    pub task: TaskName,
    /// What was asked for.
    pub overrides: Overrides,
}

/// A [`SandboxChoice`] as the store keeps it.
#[derive(Serialize, Deserialize)]
struct StoredChoice {
    task: String,
    #[serde(default)]
    overrides: Overrides,
}

impl SandboxChoice {
    /// Returns the choice of a task's sandbox.
    pub fn new(task: TaskName, overrides: Overrides) -> Self {
        Self { task, overrides }
    }

    /// Reads what the store kept; nothing if it cannot be read.
    fn from_stored(stored: serde_json::Value) -> Option<Self> {
        let stored: StoredChoice = serde_json::from_value(stored).ok()?;
        Some(Self { task: stored.task.parse().ok()?, overrides: stored.overrides })
    }

    /// Returns what the store keeps; nothing for the default.
    fn to_stored(&self) -> Option<serde_json::Value> {
        let task = self.task.to_string();
        let stored = StoredChoice { task, overrides: self.overrides.clone() };
        (*self != Self::default()).then(|| serde_json::json!(stored))
    }
}

impl Default for SandboxChoice {
    fn default() -> Self {
        Self::new(TaskName::default_task(), Overrides::default())
    }
}

/// The tools that a conversation gets.
#[derive(Debug, Clone)]
pub enum Toolsets {
    /// As configured.
    Configured,
    /// These toolsets, and no others.
    Only(Vec<String>),
    /// As configured, and this toolset whatever they say.
    Also(String),
}

/// A conversation that was opened.
#[derive(Debug)]
pub struct Opened {
    /// The conversation.
    pub conversation: Conversation,
    /// The sandbox it works in.
    pub choice: SandboxChoice,
    /// Whether it was started before.
    pub is_resumed: bool,
    /// What a person should know.
    pub notices: Vec<String>,
}

impl Runtime {
    /// Opens a conversation. `human` answers questions and approvals.
    #[boxed]
    pub async fn open(
        &self,
        request: OpenRequest,
        human: Arc<dyn Human>,
    ) -> Result<Opened, RuntimeError> {
        let mut notices = Vec::new();
        let resumed = self.resumed(&request.which).await?;
        let choice = self.choice(&request.placement, resumed.as_ref(), &mut notices).await?;
        // A front end may run for days: settings that changed meanwhile are used.
        let today = self.settings.reload();
        let configured = endpoints(&today, request.model.as_deref());
        let chain = match (&resumed, &request.model) {
            (Some(id), None) => self.chain_of(id, &today, configured, &mut notices).await?,
            _ => configured?,
        };
        let PromptContext { cwd, prompt } = self.prompt_context(&today, &request, &choice)?;
        let store = self.agent.store();
        // Before it is opened: a title that another has is refused with nothing open.
        if let (Some(id), Some(title)) = (&resumed, &request.title) {
            store.set_title(id, title).await?;
        }
        let is_attached = matches!(request.placement, SandboxPlacement::Attached { .. });
        let opening = ConversationOptions {
            start: match &resumed {
                Some(id) => Start::Resume(id.clone()),
                None => Start::New {
                    source: request.source,
                    title: request.title,
                    state: request.state,
                },
            },
            chain,
            task: choice.task.clone(),
            isolation: if is_attached {
                Isolation::Shared
            } else {
                today.get(&keys::ISOLATION)?.value
            },
            overrides: choice.overrides.clone(),
            selection: selection(&today, self.agent.tools(), request.toolsets)?,
            prompt: PromptParts { is_attended: human.is_present(), role: request.role, ..prompt },
            human,
            cwd,
            max_turns: request.max_turns,
        };
        let mut conversation = self.agent.open(opening).await?;
        if let Some(dir) = &request.start_in {
            conversation.start_in(dir);
        }
        if let Some(unattended) = request.unattended {
            conversation.guard().set_unattended(unattended);
        }
        let is_resumed = resumed.is_some();
        if matches!(request.placement, SandboxPlacement::In(_)) {
            let kept = choice.to_stored();
            if is_resumed || kept.is_some() {
                store.set_state(conversation.id(), SANDBOX_CHOICE, kept.as_ref()).await?;
            }
        }
        Ok(Opened { conversation, choice, is_resumed, notices })
    }

    async fn resumed(
        &self,
        which: &ConversationChoice,
    ) -> Result<Option<ConversationId>, RuntimeError> {
        let store = self.agent.store();
        Ok(match which {
            ConversationChoice::New => None,
            ConversationChoice::Latest => Some(store.latest().await?),
            ConversationChoice::Named(wanted) => Some(store.find(wanted).await?),
            ConversationChoice::Id(id) => Some(id.clone()),
        })
    }

    async fn choice(
        &self,
        placement: &SandboxPlacement,
        resumed: Option<&ConversationId>,
        notices: &mut Vec<String>,
    ) -> Result<SandboxChoice, RuntimeError> {
        let kept = match (placement, resumed) {
            (SandboxPlacement::In(choice) | SandboxPlacement::Attached { choice, .. }, _) => {
                return Ok(choice.clone());
            }
            (SandboxPlacement::Remembered, Some(id)) => {
                self.agent.store().state(id, SANDBOX_CHOICE).await?
            }
            (SandboxPlacement::Remembered, None) => None,
        };
        let Some(kept) = kept else { return Ok(SandboxChoice::default()) };
        Ok(SandboxChoice::from_stored(kept).unwrap_or_else(|| {
            notices.push(
                "the record of this conversation's sandbox cannot be read; it continues in the \
                 sandbox of the task default"
                    .to_owned(),
            );
            SandboxChoice::default()
        }))
    }

    /// Returns the models to ask in a resumed conversation: the one
    /// it was held with last, as long as that can be asked.
    async fn chain_of(
        &self,
        id: &ConversationId,
        settings: &Settings,
        configured: Result<Vec<Endpoint>, RuntimeError>,
        notices: &mut Vec<String>,
    ) -> Result<Vec<Endpoint>, RuntimeError> {
        let known = self.agent.store().get(id).await?;
        let asks =
            |endpoint: &Endpoint| endpoint.name == known.provider && endpoint.model == known.model;
        let is_asked =
            |chain: &[Endpoint]| known.model.is_empty() || chain.first().is_some_and(asks);
        if configured.as_ref().is_ok_and(|chain| is_asked(chain)) {
            return configured;
        }
        let named = format!("{}:{}", known.provider, known.model);
        match endpoints(settings, Some(&named)) {
            Ok(chain) if chain.first().is_some_and(asks) => Ok(chain),
            _ => {
                notices.push(format!(
                    "{named} is no longer configured; using the configured model instead"
                ));
                configured
            }
        }
    }

    fn prompt_context(
        &self,
        settings: &Settings,
        request: &OpenRequest,
        choice: &SandboxChoice,
    ) -> Result<PromptContext, RuntimeError> {
        match &request.placement {
            SandboxPlacement::Attached { backend, project, .. } => Ok(PromptContext {
                cwd: project.clone(),
                prompt: PromptParts {
                    project: project.clone(),
                    backend: Some(backend.clone()),
                    ..self.base_prompt(settings)?
                },
            }),
            SandboxPlacement::Remembered | SandboxPlacement::In(_) => {
                // A conversation that gets a sandbox of its own has no name yet.
                let isolation = settings.get(&keys::ISOLATION)?.value;
                let task = (isolation != Isolation::Conversation).then_some(&choice.task);
                Ok(self.person_context(settings, request.cwd.clone(), task, &choice.overrides)?)
            }
        }
    }
}

fn selection(
    settings: &Settings,
    tools: &Registry,
    toolsets: Toolsets,
) -> Result<Selection, RuntimeError> {
    let mut selection = vestal_agent::settings::selection(settings)?;
    match toolsets {
        Toolsets::Configured => {}
        Toolsets::Also(name) => {
            selection.without_toolsets.retain(|without| *without != name);
            selection.toolsets.push(name);
        }
        Toolsets::Only(wanted) => {
            let known = tools.toolsets();
            // Servers may have tools that are not known yet.
            let may_come = |name: &str| name == "mcp" || name.starts_with("mcp-");
            let unknown = wanted.iter().find(|name| {
                *name != vestal_agent::ALL && !may_come(name) && !known.contains(name.as_str())
            });
            if let Some(name) = unknown {
                let known = known.iter().map(|&name| name.to_owned()).collect();
                return Err(RuntimeError::UnknownToolset { name: name.clone(), known });
            }
            selection.toolsets = wanted;
        }
    }
    Ok(selection)
}
