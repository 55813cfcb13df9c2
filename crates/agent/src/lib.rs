#![doc = include_str!("../README.md")]

mod agent;
mod call_jobs;
mod compress;
mod conversation;
mod delegation;
mod event;
mod hooks;
mod human;
mod limits;
mod memory;
mod mode;
mod notebook;
mod prompt;
mod registry;
mod sandbox;
#[cfg(test)]
mod testing;
mod tool;
mod turn;

pub mod approvals;
pub mod redact;
pub mod settings;
pub mod slash;
pub mod tools;

pub use agent::{Agent, AgentOptions, AgentParts, ChildrenUsage, ConversationUsage, Delegation};
pub use call_jobs::CallJobs;
pub use compress::CompressionPolicy;
pub use conversation::{
    CompressError, Compressed, ContextParts, ContextUsed, Conversation, ConversationOptions,
    EndReason, OpenError, SideShell, SideShellError, SideShellOutput, Start, Switch,
    SwitchToolError, ToolInfo, UndoneTurns, run_conversation, undo_stored,
};
pub use delegation::{Assignment, ChildReport, DelegatedChildren, Delegates, NoDelegates};
pub use event::{EventSink, TurnEvent};
pub use hooks::{Hook, Hooks};
pub use human::{Approval, ApprovalRequest, Human, NoHuman, PlanAnswer, Question};
pub use limits::ToolLimits;
pub use memory::{CompletedTurn, Memory, MemoryTimeouts, Recalled};
pub use mode::{ConversationMode, ModeSwitch};
pub use notebook::{Notebook, Notes, Todo, TodoStatus, Watched};
pub use prompt::{PromptParts, WorkspaceView, persona};
pub use registry::{ALL, Registry, Selection, ToolSource};
pub use sandbox::ConversationSandbox;
pub use settings::{keys, schema};
pub use tool::{Footprint, Oversized, Tool, ToolContext, ToolOutput};
pub use turn::{Control, CostSum, Guardrails, TurnError, TurnOutcome, TurnResult, call_summary};
