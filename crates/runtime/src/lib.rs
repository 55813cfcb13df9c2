#![doc = include_str!("../README.md")]

mod conversation;
mod idle_memory;
mod models;
pub mod panics;
mod remote_human;
mod runtime;
mod sandbox_command;
mod schedule_tool;
mod schedules;
mod signals;
mod verbs;

pub use conversation::{
    ConversationChoice, OpenRequest, Opened, SANDBOX_CHOICE, SandboxChoice, SandboxPlacement,
    Toolsets,
};
pub use idle_memory::IdleMemory;
pub use models::{
    ChooseModelError, ListModelsError, ModelChoice, ProviderModels, choose_model, list_models,
};
pub use remote_human::{
    AnswerError, ApprovalReach, QuestionEvent, RemoteAnswer, RemoteHuman, RemoteQuestion,
    RemoteQuestionKind,
};
pub use runtime::{Runtime, RuntimeBuilder, RuntimeError, endpoints, redactor};
pub use sandbox_command::{SandboxCommand, SandboxCommandError, SandboxVerb};
pub use schedule_tool::SCHEDULED_SOURCE;
pub use schedules::{ProfileSchedules, ScheduleError};
pub use signals::{SignalListeners, Termination, Terminations};
pub use verbs::{NoVerbs, ProgramVerbs, VerbOutput, Verbs};
