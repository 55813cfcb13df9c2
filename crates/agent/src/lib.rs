//! The agent. See the crate's README for the contract and an example.

mod agent;
mod call_jobs;
mod compress;
mod conversation;
mod delegation;
mod event;
mod human;
mod limits;
mod memory;
mod notebook;
mod prompt;
mod registry;
#[cfg(test)]
mod testing;
mod tool;
mod turn;
mod workshop;

pub mod approvals;
pub mod redact;
pub mod settings;
pub mod slash;
pub mod tools;

pub use agent::{Agent, ChildrenUsage, ConversationUsage, Delegation, Options, Parts};
pub use call_jobs::CallJobs;
pub use compress::Compression;
pub use conversation::{
    Compressed, ContextUsed, Conversation, EndReason, NotCompressed, NotSwitched, OpenError,
    Opening, Start, Switch, ToolInfo, Undone, run_conversation, undo_stored,
};
pub use delegation::{Assignment, Delegates, NoDelegates, Report};
pub use event::{Event, EventSink};
pub use human::{Approval, ApprovalRequest, Human, Nobody, Question};
pub use limits::Limits;
pub use memory::{CompletedTurn, Memory, Patience, Recalled};
pub use notebook::{Notebook, Notes, Todo, TodoStatus, Watched};
pub use prompt::{PromptParts, Workspace, persona};
pub use registry::{ALL, Registry, Selection, ToolSource};
pub use tool::{Footprint, Oversized, Tool, ToolContext, ToolOutput};
pub use turn::{Control, CostSum, Guardrails, Outcome, TurnError, TurnResult};
pub use workshop::Workshop;
