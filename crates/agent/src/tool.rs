//! Tools: the trait, and what a tool may use during a call.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use vestal_conversations::ConversationId;
use vestal_model::{Image, ToolSpec};

use crate::approvals::Guard;
use crate::delegation::{Delegates, NoDelegates};
use crate::event::{EventSink, TurnEvent};
use crate::hooks::Hooks;
use crate::human::{Human, NoHuman};
use crate::limits::ToolLimits;
use crate::mode::ModeSwitch;
use crate::notebook::Notebook;
use crate::redact::Redactor;
use crate::sandbox::ConversationSandbox;

/// Bytes of a diff that an event carries.
const DIFF: usize = 64 << 10;

/// Something the model can do. Implementations hold no state of a
/// conversation: that is in the [`ToolContext`].
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns what the model is told of it.
    fn spec(&self) -> ToolSpec;

    /// Returns the group it is enabled and disabled with.
    fn toolset(&self) -> &str;

    /// Reports whether children that work on a part get it, too.
    fn is_for_children(&self) -> bool {
        true
    }

    /// Reports whether it is of no use where nobody can be asked.
    fn needs_person(&self) -> bool {
        false
    }

    /// Returns what may run beside a call with these arguments.
    fn footprint(&self, arguments: &Value) -> Footprint {
        let _ = arguments;
        Footprint::Exclusive
    }

    /// Reports whether a call with these arguments changes nothing: those are let run in plan mode.
    /// Unless a tool knows better, it is what may run beside others that read.
    fn only_reads(&self, arguments: &Value) -> bool {
        self.footprint(arguments) == Footprint::Reads
    }

    /// Does it. The future is dropped when the turn is interrupted and the tool
    /// has not come back by itself soon after [`ToolContext::cancel`] fired, so
    /// whatever must be undone is undone by guards.
    async fn call(&self, context: &ToolContext, arguments: Value) -> ToolOutput;
}

/// What a call touches, which decides what may run beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Footprint {
    /// Nothing is changed: it may run beside anything but an exclusive call.
    Reads,
    /// These files are changed, as the model wrote their paths: it may run
    /// beside calls that touch others.
    Writes(Vec<String>),
    /// It may change anything, or asks a person: it runs alone.
    Exclusive,
    /// It may run beside others of its own kind, and nothing else.
    Siblings,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// What the model reads.
    pub content: String,
    /// Whether it is to be taken for a failure.
    pub is_error: bool,
    /// Whether an oversized content is put into a file with a preview in its place.
    pub oversized: Oversized,
    /// Pictures that the model sees with the content.
    pub images: Vec<Image>,
}

/// What happens to a content that is too long for the conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Oversized {
    /// It goes into a file in the sandbox, and the model gets a preview.
    #[default]
    Spill,
    /// The tool has bounded it itself.
    Keep,
}

impl ToolOutput {
    /// Returns the result of a successful call.
    pub fn ok(content: impl Into<String>) -> Self {
        let (is_error, oversized) = (false, Oversized::Spill);
        Self { content: content.into(), is_error, oversized, images: Vec::new() }
    }

    /// Returns the result of a successful call, as JSON.
    pub fn json(value: &Value) -> Self {
        Self::ok(value.to_string())
    }

    /// Returns a failure in the shape every tool has for it: `{"error": …}`.
    pub fn error(message: impl Into<String>) -> Self {
        let content = serde_json::json!({ "error": message.into() }).to_string();
        Self { content, is_error: true, oversized: Oversized::Spill, images: Vec::new() }
    }
}

/// What a tool works with during one call.
#[derive(Clone)]
pub struct ToolContext {
    /// The conversation it works for.
    pub conversation: ConversationId,
    /// The call's id, which its events carry.
    pub call: String,
    /// The sandbox and the conversation's shell session in it.
    pub sandbox: ConversationSandbox,
    /// Fires when the turn is interrupted: stop what runs, and come back.
    pub cancel: CancellationToken,
    /// Where progress is reported.
    pub events: EventSink,
    /// Who decides whether a command may run.
    pub guard: Arc<Guard>,
    /// Who can be asked.
    pub human: Arc<dyn Human>,
    /// What keeps secrets out of what the model reads.
    pub redactor: Arc<Redactor>,
    /// Limits of times, outputs and results.
    pub limits: Arc<ToolLimits>,
    /// What the conversation remembers between calls.
    pub notebook: Notebook,
    /// Which files it has seen, and in which version.
    pub observed_files: Arc<crate::tools::ObservedFiles>,
    /// Which job of the sandbox the call becomes.
    pub jobs: crate::call_jobs::CallJobs,
    /// What lets work be given to others.
    pub delegates: Arc<dyn Delegates>,
    /// Commands that run before and after calls.
    pub hooks: Arc<Hooks>,
    /// How the conversation works.
    pub mode: ModeSwitch,
    /// The other tools of this conversation, for those that call them.
    pub tools: Arc<crate::registry::Registry>,
}

impl ToolContext {
    /// Returns a context outside a turn: nobody listens or can be asked, and everything else is as
    /// without settings. For callers that run a tool by themselves, such as a tool's tests.
    pub fn new(conversation: ConversationId, sandbox: ConversationSandbox) -> Self {
        Self {
            conversation,
            call: "call-1".to_owned(),
            sandbox,
            cancel: CancellationToken::new(),
            events: EventSink::discard(),
            guard: Arc::default(),
            human: Arc::new(NoHuman),
            redactor: Arc::default(),
            limits: Arc::default(),
            notebook: Notebook::default(),
            observed_files: Arc::default(),
            jobs: crate::call_jobs::CallJobs::default(),
            delegates: Arc::new(NoDelegates),
            hooks: Arc::default(),
            mode: ModeSwitch::default(),
            tools: Arc::default(),
        }
    }

    /// Emits output of the call.
    pub fn emit_output(&self, text: impl Into<String>) {
        self.events.emit(TurnEvent::ToolOutput { call: self.call.clone(), text: text.into() });
    }

    /// Emits a change of a file: secrets are
    /// masked, and more than anybody would read is left out.
    pub fn emit_file_change(&self, path: impl Into<String>, diff: &str) {
        let masked = self.redactor.redact_file(diff);
        let end = masked.floor_char_boundary(DIFF);
        let end =
            if end < masked.len() { masked[..end].rfind('\n').map_or(0, |at| at + 1) } else { end };
        let (call, diff) = (self.call.clone(), masked[..end].to_owned());
        self.events.emit(TurnEvent::FileChanged { call, path: path.into(), diff });
    }
}
