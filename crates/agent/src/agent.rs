//! What all conversations of a process share.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use vestal_conversations::{
    ConversationFilter, ConversationId, ConversationStore, Error, ModelTotals, ParentKind,
};
use vestal_model::Models;
use vestal_sandbox::Engine;

use crate::approvals::{ApprovalPolicy, Remember};
use crate::compress::CompressionPolicy;
use crate::hooks::Hooks;
use crate::limits::ToolLimits;
use crate::memory::{Memory, MemoryTimeouts};
use crate::redact::Redactor;
use crate::registry::{Registry, ToolSource};
use crate::turn::Guardrails;

/// One profile's agent in one process. Cheap to clone; any number of
/// conversations run on it at the same time.
#[derive(Clone)]
pub struct Agent {
    pub(crate) parts: Arc<AgentParts>,
}

/// What an agent is made of.
pub struct AgentParts {
    /// Where commands run.
    pub engine: Engine,
    /// Where conversations are kept.
    pub store: ConversationStore,
    /// Who is asked.
    pub models: Models,
    /// The tools that are always there.
    pub tools: Registry,
    /// Who has further tools, which may come and go.
    pub sources: Vec<Arc<dyn ToolSource>>,
    /// Who remembers from conversation to conversation.
    pub memory: Option<Arc<dyn Memory>>,
    /// What keeps secrets out of what is stored and shown.
    pub redactor: Arc<Redactor>,
    /// What the settings say.
    pub options: AgentOptions,
    /// Keeps an approval that is to last.
    pub remember: Remember,
}

/// The settings for turns.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// Calls of the model that a turn may take.
    pub max_turns: u32,
    /// Tokens an answer may take; none: as many as the provider lets it.
    pub max_output_tokens: Option<u64>,
    /// When conversations are summarised.
    pub compression: CompressionPolicy,
    /// When a model that repeats itself is stopped.
    pub guardrails: Guardrails,
    /// Limits of times, outputs and results.
    pub limits: Arc<ToolLimits>,
    /// What is asked about, and what happens when nobody can be asked.
    pub policy: ApprovalPolicy,
    /// How work is given to others.
    pub delegation: Delegation,
    /// How long a memory is waited for.
    pub memory_timeouts: MemoryTimeouts,
    /// Commands that run before and after calls of tools.
    pub hooks: Arc<Hooks>,
}

/// How work is given to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delegation {
    /// Calls of the model that a child's turn may take.
    pub max_turns: u32,
    /// Children that work at the same time.
    pub max_concurrent: usize,
    /// How deep children may have children.
    pub max_depth: u32,
    /// Whether children may do what is dangerous without anybody being asked.
    pub auto_approve: bool,
    /// Characters of a child's report.
    pub max_report_chars: usize,
}

impl Default for Delegation {
    fn default() -> Self {
        Self {
            max_turns: 50,
            max_concurrent: 3,
            max_depth: 1,
            auto_approve: false,
            max_report_chars: 24_000,
        }
    }
}

impl Agent {
    /// Makes an agent.
    pub fn new(parts: AgentParts) -> Self {
        Self { parts: Arc::new(parts) }
    }

    /// Returns the same agent with one more source of tools, for conversations of its own.
    #[must_use]
    pub fn with_source(&self, source: Arc<dyn ToolSource>) -> Self {
        let parts = &*self.parts;
        let sources = parts.sources.iter().cloned().chain([source]).collect();
        Self::new(AgentParts {
            engine: parts.engine.clone(),
            store: parts.store.clone(),
            models: parts.models.clone(),
            tools: parts.tools.clone(),
            sources,
            memory: parts.memory.clone(),
            redactor: Arc::clone(&parts.redactor),
            options: parts.options.clone(),
            remember: Arc::clone(&parts.remember),
        })
    }

    /// Returns where conversations are kept.
    pub fn store(&self) -> &ConversationStore {
        &self.parts.store
    }

    /// Returns where commands run.
    pub fn engine(&self) -> &Engine {
        &self.parts.engine
    }

    /// Returns who is asked.
    pub fn models(&self) -> &Models {
        &self.parts.models
    }

    /// Returns what keeps secrets out of what is stored and shown.
    pub fn redactor(&self) -> &Redactor {
        &self.parts.redactor
    }

    /// Returns the tools that are always there.
    pub fn tools(&self) -> &Registry {
        &self.parts.tools
    }
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("tools", &self.parts.tools).finish_non_exhaustive()
    }
}

/// What a conversation took.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConversationUsage {
    /// By model, the most tokens first; what was taken back included.
    pub own: Vec<ModelTotals>,
    /// What the children took that parts of the work were given to.
    pub children: ChildrenUsage,
}

/// What the children of a conversation took, and theirs, whatever became of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChildrenUsage {
    /// How many children there were.
    pub count: u64,
    /// By model, the most tokens first.
    pub models: Vec<ModelTotals>,
}

impl Agent {
    /// Returns what a conversation used, from the store: so it is the same
    /// in every process, while a turn runs and after a crash.
    #[boxed]
    pub async fn usage(&self, id: &ConversationId) -> Result<ConversationUsage, Error> {
        let store = self.store();
        let own = store.usage(Some(id)).await?;
        let mut children = ChildrenUsage::default();
        for child in self.children(id).await? {
            children.count += 1;
            for taken in store.usage(Some(&child)).await? {
                add(&mut children.models, taken);
            }
        }
        children.models.sort_by_key(|taken| std::cmp::Reverse(taken.totals.usage.total()));
        Ok(ConversationUsage { own, children })
    }

    /// Returns those that a part of its work was given to, and those that a part
    /// of theirs was.
    async fn children(&self, id: &ConversationId) -> Result<Vec<ConversationId>, Error> {
        let filter = ConversationFilter {
            source: Some(crate::delegation::SOURCE.to_owned()),
            limit: u32::MAX,
            include_delegated: true,
            ..ConversationFilter::default()
        };
        let delegated: Vec<(ConversationId, ConversationId)> = self
            .store()
            .list(&filter)
            .await?
            .into_iter()
            .filter_map(|summary| {
                let parent = summary.conversation.parent?;
                let is_part = parent.kind == ParentKind::Delegation;
                Some((parent.id.filter(|_| is_part)?, summary.conversation.id))
            })
            .collect();
        let mut family = vec![id.clone()];
        let mut next = 0;
        while let Some(parent) = family.get(next).cloned() {
            let of_parent = delegated.iter().filter(|(of, _)| *of == parent);
            family.extend(of_parent.map(|(_, child)| child.clone()));
            next += 1;
        }
        family.remove(0);
        Ok(family)
    }
}

fn add(models: &mut Vec<ModelTotals>, taken: ModelTotals) {
    let same =
        |known: &&mut ModelTotals| known.provider == taken.provider && known.model == taken.model;
    match models.iter_mut().find(same) {
        Some(known) => known.totals += taken.totals,
        None => models.push(taken),
    }
}
