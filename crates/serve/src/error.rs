//! Errors as clients see them: a code that stays the same, a sentence, and what to do.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use vestal_agent::{OpenError, SideShellError, SwitchToolError};
use vestal_conversations::Error as StoreError;
use vestal_runtime::{AnswerError, RuntimeError};
use vestal_skills::SkillError;

/// Declares the codes, with what they mean.
macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident = $code:literal,)*) => {
        $($(#[doc = $doc])* pub(crate) const $name: i32 = $code;)*

        /// All codes with what they mean.
        pub(crate) const CODES: &[(i32, &str)] = &[$(($code, concat!($($doc,)*)),)*];
    };
}

codes! {
    /// The frame is not JSON.
    PARSE = -32700,
    /// The frame is not a request: no object, no version, no method, too long.
    INVALID_REQUEST = -32600,
    /// There is no such method.
    UNKNOWN_METHOD = -32601,
    /// `params` is not an object, or a member of it is missing or of the wrong type.
    BAD_PARAMS = -32602,
    /// A bug in the server.
    INTERNAL = -32603,
    /// The request cannot be taken now: too many are under way, or the server is stopping.
    REFUSED = -32000,
    /// No live session has this id.
    NO_SESSION = 4001,
    /// A value is empty or cannot be used.
    BAD_VALUE = 4002,
    /// A client over a network may not do this; who is at the machine may.
    NOT_PERMITTED = 4003,
    /// The id of a session is needed.
    ID_REQUIRED = 4006,
    /// There is no such conversation, command or key.
    NOT_FOUND = 4007,
    /// Nothing was said yet, so there is nothing to branch from.
    NOTHING_TO_BRANCH = 4008,
    /// The session is busy, another process holds the conversation, or no question is open.
    BUSY = 4009,
    /// What the request is about has changed since.
    STALE = 4018,
    /// The conversation is open in a live session.
    ACTIVE = 4023,
    /// There is no such process.
    NO_PROCESS = 4044,
    /// As many sessions are live as may be.
    SESSION_LIMIT = 4090,
    /// The store of conversations failed.
    STORE = 5006,
    /// The sandbox or the machine failed.
    HOST = 5019,
    /// The agent could not be set up.
    AGENT = 5032,
}

/// Why a request was not carried out.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct RpcError {
    /// What kind of error it is.
    pub(crate) code: i32,
    /// What happened.
    pub(crate) message: String,
    /// `advice`: what to do about it; `pid`: the process that is in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<Value>,
}

impl RpcError {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Says what to do about it.
    pub(crate) fn advise(self, advice: impl Into<String>) -> Self {
        self.with_advice(&[advice.into()])
    }

    fn with_advice(mut self, advice: &[String]) -> Self {
        if !advice.is_empty() {
            self.data = Some(json!({ "advice": advice }));
        }
        self
    }

    pub(crate) fn busy(what: &str) -> Self {
        Self::new(BUSY, format!("{what} is not possible while a turn runs"))
            .advise("wait for message.complete, or send session.interrupt")
    }

    pub(crate) fn empty(name: &str) -> Self {
        Self::new(BAD_VALUE, format!("{name} is empty"))
    }
}

impl From<StoreError> for RpcError {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        match error {
            StoreError::NotFound { .. } | StoreError::NoneYet => {
                Self::new(NOT_FOUND, message).advise("session.list lists the conversations")
            }
            StoreError::Ambiguous { .. } => {
                Self::new(NOT_FOUND, message).advise("use the whole id or the whole title")
            }
            StoreError::Busy { pid, .. } => {
                let advice = ["close it there, or branch it: vestal conversations branch"];
                let data = json!({ "pid": pid, "advice": advice });
                Self { data: Some(data), ..Self::new(BUSY, message) }
            }
            StoreError::TitleTaken { .. } => {
                Self::new(BAD_VALUE, message).advise("choose another title")
            }
            StoreError::InvalidTitle(_) | StoreError::InvalidId(_) => Self::new(BAD_VALUE, message),
            StoreError::NoMessage { .. } => Self::new(STALE, message),
            StoreError::NoSummary
            | StoreError::Exists { .. }
            | StoreError::Io { .. }
            | StoreError::Unreadable { .. }
            | StoreError::Unwritable(_)
            | StoreError::Database(_) => {
                Self::new(STORE, message).advise("`vestal doctor` checks the disk")
            }
        }
    }
}

impl From<RuntimeError> for RpcError {
    fn from(error: RuntimeError) -> Self {
        let message = error.to_string();
        match error {
            RuntimeError::Store(error) | RuntimeError::Open(OpenError::Store(error)) => {
                error.into()
            }
            RuntimeError::Endpoint { reason, profile } => {
                Self::new(AGENT, message).with_advice(&reason.advice_in(&profile))
            }
            RuntimeError::Config(_)
            | RuntimeError::Model(_)
            | RuntimeError::Open(_)
            | RuntimeError::UnknownToolset { .. } => Self::new(AGENT, message),
        }
    }
}

impl From<vestal_sandbox::Error> for RpcError {
    fn from(error: vestal_sandbox::Error) -> Self {
        if let vestal_sandbox::Error::NotPermitted { backend, .. } = &error {
            let advice = format!("at the machine: vestal config set api_server.backends {backend}");
            return Self::new(NOT_PERMITTED, error.to_string()).advise(advice);
        }
        Self::new(HOST, error.to_string()).advise("`vestal doctor` checks what works here")
    }
}

impl From<SideShellError> for RpcError {
    fn from(error: SideShellError) -> Self {
        match error {
            SideShellError::Refused(refusal) => Self::new(REFUSED, refusal.message),
            SideShellError::Interrupted => Self::new(REFUSED, error.to_string()),
            SideShellError::Nul => Self::new(BAD_VALUE, error.to_string()),
            SideShellError::Sandbox(error) => error.into(),
        }
    }
}

impl From<SwitchToolError> for RpcError {
    fn from(error: SwitchToolError) -> Self {
        let message = error.to_string();
        match error {
            SwitchToolError::Unknown { nearest, .. } => {
                let advice = nearest.map(|meant| format!("did you mean {meant}?"));
                Self::new(NOT_FOUND, message).with_advice(advice.as_slice())
            }
            SwitchToolError::Store(error) => error.into(),
        }
    }
}

impl From<SkillError> for RpcError {
    fn from(error: SkillError) -> Self {
        let message = error.to_string();
        let code = match error {
            SkillError::Unknown { .. } | SkillError::NoFile { .. } => NOT_FOUND,
            SkillError::Config(_) | SkillError::Set(_) | SkillError::Io { .. } => HOST,
            SkillError::Name(_)
            | SkillError::Broken(_)
            | SkillError::Disabled(_)
            | SkillError::Exists { .. }
            | SkillError::Fetch { .. }
            | SkillError::Address(_)
            | SkillError::NoCatalogue
            | SkillError::Occupied { .. }
            | SkillError::Path { .. }
            | SkillError::TooLarge(_)
            | SkillError::Change(_)
            | SkillError::Source { .. } => BAD_VALUE,
        };
        Self::new(code, message)
    }
}

impl From<AnswerError> for RpcError {
    fn from(error: AnswerError) -> Self {
        let code = match error {
            AnswerError::NotOpen => BUSY,
            AnswerError::WrongKind | AnswerError::MayNotLast => BAD_VALUE,
        };
        Self::new(code, error.to_string())
    }
}
