#![doc = include_str!("../README.md")]

mod conversation;
mod models;
mod prompt;
mod remote_human;
mod runtime;
mod signals;

pub use conversation::{
    OpenRequest, Opened, Placement, SANDBOX_CHOICE, SandboxChoice, Toolsets, Which,
};
pub use models::{ListModelsError, ProviderModels, list_models};
pub use remote_human::{
    AnswerError, QuestionEvent, RemoteAnswer, RemoteHuman, RemoteQuestion, RemoteQuestionKind,
};
pub use runtime::{Runtime, RuntimeBuilder, RuntimeError, endpoints, redactor};
pub use signals::{Termination, Terminations};
