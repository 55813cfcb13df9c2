//! Delegation: children work on parts of a task, each with a conversation and a
//! shell session of its own, all in the sandbox of the parent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use tokio_util::sync::CancellationToken;
use vestal_conversations::ConversationId;
use vestal_model::{Endpoint, Part, ReasoningOptions, UserMessage};
use vestal_sandbox::{Isolation, Overrides};

use crate::EndReason;
use crate::agent::Agent;
use crate::approvals::Guard;
use crate::conversation::{Conversation, ConversationOptions, OpenError, ParentContext, Start};
use crate::event::EventSink;
use crate::human::NoHuman;
use crate::mode::ModeSwitch;
use crate::prompt::PromptParts;
use crate::registry::{Registry, Selection};
use crate::sandbox::ConversationSandbox;
use crate::turn::Control;

/// The children at work for a conversation, to be listed and interrupted one by one. Cheap to
/// clone; clones share everything.
#[derive(Debug, Clone, Default)]
pub struct DelegatedChildren(Arc<Mutex<BTreeMap<ConversationId, Control>>>);

impl DelegatedChildren {
    /// Returns the conversations of the children that work now, in the order they began.
    pub fn working(&self) -> Vec<ConversationId> {
        self.lock().keys().cloned().collect()
    }

    /// Interrupts one child; the others and the parent continue, and the parent reads that it was
    /// interrupted. Returns whether it was at work.
    pub fn interrupt(&self, child: &ConversationId) -> bool {
        let control = self.lock().get(child).cloned();
        control.is_some_and(|control| control.interrupt())
    }

    /// Lists a child until the value is dropped.
    fn enter(&self, child: &Conversation) -> WorkingChild {
        self.lock().insert(child.id().clone(), child.control());
        WorkingChild { children: self.clone(), id: child.id().clone() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ConversationId, Control>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A child that is listed.
struct WorkingChild {
    children: DelegatedChildren,
    id: ConversationId,
}

impl Drop for WorkingChild {
    fn drop(&mut self) {
        self.children.lock().remove(&self.id);
    }
}

/// A part of the work, to be done by a child with a conversation of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// What is to be reached.
    pub goal: String,
    /// What the child has to know.
    pub context: Option<String>,
    /// The toolsets it may use; none: those of its parent.
    pub toolsets: Vec<String>,
}

/// The result of a child.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ChildReport {
    /// How it ended, in a word: see [`crate::TurnOutcome`].
    pub status: String,
    /// Its report.
    pub summary: String,
    /// What went wrong, if something did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Calls of the model it made.
    pub api_calls: u32,
    /// The child's conversation.
    pub conversation: Option<String>,
    /// How long it took.
    pub duration_seconds: f64,
}

/// Who has children work.
#[async_trait]
pub trait Delegates: Send + Sync {
    /// Runs all parts, as many at once as the settings allow, and returns
    /// the result of each, in order; or why none was started.
    async fn delegate(
        &self,
        parts: Vec<Assignment>,
        events: &EventSink,
        cancel: &CancellationToken,
    ) -> Result<Vec<ChildReport>, String>;
}

/// Nobody to give work to.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoDelegates;

#[async_trait]
impl Delegates for NoDelegates {
    async fn delegate(
        &self,
        _: Vec<Assignment>,
        _: &EventSink,
        _: &CancellationToken,
    ) -> Result<Vec<ChildReport>, String> {
        Err("no agent is available to delegate to".to_owned())
    }
}

/// Tools that a child does not get: it cannot ask the person, and what it does
/// must be seen step by step.
const NOT_FOR_CHILDREN: &[&str] = &["clarify", "execute_code"];

/// What lets work be given to others.
const DELEGATE: &str = "delegate_task";

/// The source of children's conversations in the store.
pub(crate) const SOURCE: &str = "delegate";

/// Tasks of one call, at most.
const MOST_PARTS: usize = 64;

/// Where a conversation's work is handed out.
pub(crate) struct Delegator {
    agent: Agent,
    parent: ConversationId,
    chain: Vec<Endpoint>,
    reasoning: Option<ReasoningOptions>,
    mode: ModeSwitch,
    sandbox: ConversationSandbox,
    guard: Arc<Guard>,
    tools: Arc<Registry>,
    depth: u32,
    profile: String,
    children: DelegatedChildren,
}

impl Delegator {
    pub(crate) fn of(conversation: &Conversation) -> Self {
        Self {
            agent: conversation.agent.clone(),
            parent: conversation.id.clone(),
            chain: conversation.chain.clone(),
            reasoning: conversation.reasoning,
            mode: conversation.mode.clone(),
            sandbox: conversation.sandbox.clone(),
            guard: Arc::clone(&conversation.guard),
            tools: Arc::clone(&conversation.tools),
            depth: conversation.depth,
            profile: conversation.sandbox.engine().profile().to_string(),
            children: conversation.children.clone(),
        }
    }
}

#[async_trait]
impl Delegates for Delegator {
    async fn delegate(
        &self,
        parts: Vec<Assignment>,
        events: &EventSink,
        cancel: &CancellationToken,
    ) -> Result<Vec<ChildReport>, String> {
        let delegation = self.agent.parts.options.delegation;
        if self.depth >= delegation.max_depth {
            return Err("children of this depth cannot give work to others".to_owned());
        }
        if parts.is_empty() || parts.len() > MOST_PARTS {
            return Err(format!("between 1 and {MOST_PARTS} tasks can be given at once"));
        }
        let children = parts.into_iter().enumerate().map(|(index, part)| async move {
            let began = Instant::now();
            let mut report = match Box::pin(self.child(index, part, events, cancel)).await {
                Ok(report) => report,
                Err(error) => ChildReport {
                    status: "failed".to_owned(),
                    summary: String::new(),
                    error: Some(error.to_string()),
                    api_calls: 0,
                    conversation: None,
                    duration_seconds: 0.0,
                },
            };
            report.duration_seconds = began.elapsed().as_secs_f64();
            report
        });
        // In order, and never more at once than the settings allow.
        Ok(stream::iter(children).buffered(delegation.max_concurrent.max(1)).collect().await)
    }
}

impl Delegator {
    async fn child(
        &self,
        index: usize,
        part: Assignment,
        events: &EventSink,
        cancel: &CancellationToken,
    ) -> Result<ChildReport, OpenError> {
        let delegation = self.agent.parts.options.delegation;
        let parent_context = ParentContext {
            parent: self.parent.clone(),
            sandbox: self.sandbox.clone(),
            depth: self.depth + 1,
            cancel: cancel.clone(),
            guard: Arc::new(self.guard.for_child(delegation.auto_approve)),
            tools: Arc::clone(&self.tools),
            mode: self.mode.clone(),
            reasoning: self.reasoning,
        };
        let mut conversation =
            self.agent.open_with(self.opening(&part), Some(parent_context)).await?;
        let id = conversation.id().clone();
        let watched = events.of_child(id.clone(), index);
        let working = self.children.enter(&conversation);
        let result = conversation.run(task_of(&part), &watched).await;
        drop(working);
        // Its result is worth reading, even if its conversation could not be closed.
        if let Err(error) = conversation.close(EndReason::Delegated).await {
            tracing::warn!(%error, conversation = %id, "a child's conversation could not be closed");
        }
        let most = delegation.max_report_chars;
        let summary = match result.text.char_indices().nth(most) {
            Some((end, _)) => {
                format!("{}\n[… cut off after {most} characters]", &result.text[..end])
            }
            None => result.text,
        };
        Ok(ChildReport {
            status: result.outcome.word().to_owned(),
            summary,
            error: result.outcome.error(),
            api_calls: result.model_calls,
            conversation: Some(id.to_string()),
            duration_seconds: 0.0,
        })
    }

    fn opening(&self, part: &Assignment) -> ConversationOptions {
        let delegation = self.agent.parts.options.delegation;
        let may_delegate = self.depth + 1 < delegation.max_depth;
        let kept = |name: &str| {
            !NOT_FOR_CHILDREN.contains(&name)
                && self.tools.get(name).is_some_and(|tool| tool.is_for_children())
                && (may_delegate || name != DELEGATE)
        };
        let toolsets = if part.toolsets.is_empty() {
            Selection::default().toolsets
        } else {
            part.toolsets.clone()
        };
        let without_tools =
            self.tools.names().filter(|name| !kept(name)).map(str::to_owned).collect();
        ConversationOptions {
            start: Start::New { source: SOURCE.to_owned(), title: None, state: Vec::new() },
            chain: self.chain.clone(),
            task: self.sandbox.task().clone(),
            isolation: Isolation::Shared,
            overrides: Overrides::default(),
            human: Arc::new(NoHuman),
            selection: Selection { toolsets, without_toolsets: Vec::new(), without_tools },
            prompt: PromptParts {
                instructions: Some(CHILD.to_owned()),
                profile: self.profile.clone(),
                ..PromptParts::default()
            },
            cwd: None,
            max_turns: Some(delegation.max_turns),
        }
    }
}

const CHILD: &str = "\
You work on one part of a larger task for another agent, in a sandbox that others use at the same time: keep to your part, and change only files that belong to it. \
Your last message is your report: say what you did, what you found, which files you changed, and what is left.";

fn task_of(part: &Assignment) -> UserMessage {
    let text = match &part.context {
        Some(context) => format!("{}\n\nWhat you should know:\n{context}", part.goal),
        None => part.goal.clone(),
    };
    UserMessage { parts: vec![Part::Text { text }] }
}
