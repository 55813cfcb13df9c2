//! Events: what a client hears without having asked.

use schemars::JsonSchema;
use serde::Serialize;

use crate::views::{SessionInfo, TurnUsage};

/// An event, by its `type`, with its `payload`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", content = "payload")]
pub(crate) enum EventBody {
    /// The first frame of a connection: requests are taken.
    #[serde(rename = "gateway.ready")]
    GatewayReady {
        /// The version of the program.
        version: String,
        /// The version of this protocol; it grows when something is added.
        protocol: u32,
        /// The profile that is served.
        profile: String,
        /// Bytes that a frame of the client may have.
        max_frame_bytes: usize,
        /// Sessions that may be live at once.
        max_live_sessions: usize,
    },
    /// The last frame of a connection that the server ends.
    #[serde(rename = "connection.closed")]
    ConnectionClosed {
        /// Why.
        reason: String,
    },
    /// What is known of a session has changed.
    #[serde(rename = "session.info")]
    SessionInfo(Box<SessionInfo>),
    /// A session is live no more. Its conversation can be resumed.
    #[serde(rename = "session.closed")]
    SessionClosed {
        /// Why.
        reason: String,
    },
    /// Messages that were there before are gone or another stands for them: a client reads
    /// `session.history` again.
    #[serde(rename = "history.changed")]
    HistoryChanged {
        /// What changed them.
        cause: HistoryCause,
    },
    /// A turn begins.
    #[serde(rename = "message.start")]
    MessageStart {
        /// What began it.
        trigger: TurnTrigger,
        /// The prompt.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// Pictures that go with it.
        #[serde(skip_serializing_if = "is_none")]
        images: usize,
    },
    /// Prompts that were taken and are not said to the model: what ran was interrupted, or the
    /// session ends, or the server is stopping. A client may offer them to be sent again.
    #[serde(rename = "prompt.returned")]
    PromptReturned {
        /// In the order they came.
        prompts: Vec<ReturnedPrompt>,
        /// Why.
        reason: String,
    },
    /// More words of the answer. Those since `message.start`, `message.interim` or
    /// `message.discard` together are the text of the `message.interim` or `message.complete` that
    /// follows.
    #[serde(rename = "message.delta")]
    MessageDelta {
        /// The words.
        text: String,
    },
    /// What the model said before it called tools.
    #[serde(rename = "message.interim")]
    MessageInterim {
        /// The words.
        text: String,
    },
    /// The words since the last `message.start` or `message.interim` are void; the model is asked
    /// again.
    #[serde(rename = "message.discard")]
    MessageDiscard {
        /// Why.
        reason: String,
        /// Seconds until the next attempt.
        #[serde(skip_serializing_if = "Option::is_none")]
        retry_after_s: Option<f64>,
    },
    /// A turn has ended.
    #[serde(rename = "message.complete")]
    MessageComplete(Box<MessageComplete>),
    /// More of what the model thinks.
    #[serde(rename = "reasoning.delta")]
    ReasoningDelta {
        /// The words.
        text: String,
    },
    /// The model has begun to call a tool; its arguments are still coming.
    #[serde(rename = "tool.generating")]
    ToolGenerating {
        /// The tool.
        name: String,
    },
    /// A tool begins to work.
    #[serde(rename = "tool.start")]
    ToolStart {
        /// The id of the call.
        tool_id: String,
        /// The tool.
        name: String,
        /// What it is about, in a line.
        context: String,
    },
    /// A tool prints something. Of a tool that prints faster than the client reads, the beginning
    /// is left out.
    #[serde(rename = "tool.output")]
    ToolOutput {
        /// The id of the call.
        tool_id: String,
        /// What.
        text: String,
        /// Bytes before `text` that were left out.
        #[serde(skip_serializing_if = "is_zero")]
        omitted: u64,
    },
    /// A tool has changed a file.
    #[serde(rename = "tool.diff")]
    ToolDiff {
        /// The id of the call.
        tool_id: String,
        /// The file, as the model named it.
        path: String,
        /// What has changed, as a unified diff.
        diff: String,
    },
    /// A tool has done its work.
    #[serde(rename = "tool.complete")]
    ToolComplete {
        /// The id of the call.
        tool_id: String,
        /// The tool.
        name: String,
        /// How long it took.
        duration_s: f64,
        /// Whether it failed.
        is_error: bool,
        /// The beginning of what the model reads.
        result: String,
    },
    /// Something dangerous waits for `approval.respond`.
    #[serde(rename = "approval.request")]
    ApprovalRequest(ApprovalQuestion),
    /// A request for approval needs no answer any more: it was answered, or nobody answered in
    /// time, or its turn has ended.
    #[serde(rename = "approval.expire")]
    ApprovalExpire {
        /// The request.
        request_id: String,
        /// Whether it was answered.
        answered: bool,
    },
    /// The model asks something, and waits for `clarify.respond`.
    #[serde(rename = "clarify.request")]
    ClarifyRequest(ClarifyQuestion),
    /// A question needs no answer any more.
    #[serde(rename = "clarify.expire")]
    ClarifyExpire {
        /// The question.
        request_id: String,
        /// Whether it was answered.
        answered: bool,
    },
    /// Something to show beside the answer.
    #[serde(rename = "status.update")]
    StatusUpdate {
        /// What kind it is.
        kind: StatusKind,
        /// What to show.
        text: String,
    },
    /// A subagent begins to work on a part.
    #[serde(rename = "subagent.start")]
    SubagentStart {
        /// Its conversation; `subagent.interrupt` takes it.
        subagent_id: String,
        /// Which part, from 0.
        index: usize,
    },
    /// A subagent says something.
    #[serde(rename = "subagent.text")]
    SubagentText {
        /// Its conversation.
        subagent_id: String,
        /// The words.
        text: String,
    },
    /// A subagent thinks something.
    #[serde(rename = "subagent.thinking")]
    SubagentThinking {
        /// Its conversation.
        subagent_id: String,
        /// The words.
        text: String,
    },
    /// A tool begins to work for a subagent.
    #[serde(rename = "subagent.tool")]
    SubagentTool {
        /// Its conversation.
        subagent_id: String,
        /// The tool.
        name: String,
        /// What it is about, in a line.
        context: String,
    },
    /// A subagent has ended.
    #[serde(rename = "subagent.complete")]
    SubagentComplete {
        /// Its conversation.
        subagent_id: String,
        /// How, in a word, as `turn_exit_reason` of `vestal chat --json`.
        outcome: String,
    },
    /// What `prompt.background` began has ended.
    #[serde(rename = "background.complete")]
    BackgroundComplete {
        /// The task.
        task_id: String,
        /// The conversation it was done in.
        stored_session_id: Option<String>,
        /// How it ended.
        status: TurnStatus,
        /// The answer.
        text: String,
        /// What went wrong.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// Something went wrong outside a request.
    #[serde(rename = "error")]
    Error {
        /// What.
        message: String,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_none(count: &usize) -> bool {
    *count == 0
}

/// What changed earlier messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HistoryCause {
    /// Turns were taken back.
    Undo,
    /// A summary stands for them.
    Compress,
}

/// A prompt that is given back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct ReturnedPrompt {
    /// What was to be said.
    pub(crate) text: String,
    /// Pictures that went with it.
    #[serde(skip_serializing_if = "is_none")]
    pub(crate) images: usize,
}

impl ReturnedPrompt {
    /// Returns something that was said during a turn.
    pub(crate) fn new(text: String) -> Self {
        Self { text, images: 0 }
    }
}

/// What began a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TurnTrigger {
    /// A prompt.
    Prompt,
    /// News of background jobs that the model watches.
    Jobs,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TurnStatus {
    /// The model answered.
    Complete,
    /// It was interrupted.
    Interrupted,
    /// There is no whole answer; `error` says why.
    Error,
}

/// What kind of thing is to be shown beside the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StatusKind {
    /// Something to know about; the turn goes on.
    Warning,
    /// Something to know about when the conversation was opened.
    Notice,
    /// The beginning of the conversation is being summarised.
    Compressing,
    /// It was.
    Compressed,
    /// What was said during the turn has reached the model.
    Steered,
    /// A prompt waits for the end of the turn.
    Queued,
}

/// A turn that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct MessageComplete {
    /// What the model said last.
    pub(crate) text: String,
    /// How the turn ended.
    pub(crate) status: TurnStatus,
    /// The same as `turn_exit_reason` of `vestal chat --json`.
    pub(crate) outcome: String,
    /// What the model thought before that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reasoning: Option<String>,
    /// Why there is no whole answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// What to do about the error.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) advice: Vec<String>,
    /// What the turn took.
    pub(crate) usage: TurnUsage,
    /// Prompts that wait and are next.
    pub(crate) queued: usize,
}

/// A request for approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct ApprovalQuestion {
    /// Its id, for `approval.respond`.
    pub(crate) request_id: String,
    /// The command or call, secrets masked.
    pub(crate) command: String,
    /// Why it is dangerous.
    pub(crate) description: String,
    /// What a lasting approval is remembered as.
    pub(crate) pattern: String,
    /// The answers that are taken.
    pub(crate) choices: Vec<String>,
    /// Seconds after which it counts as denied.
    pub(crate) timeout_s: u64,
}

/// A question of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct ClarifyQuestion {
    /// Its id, for `clarify.respond`.
    pub(crate) request_id: String,
    /// The question.
    pub(crate) question: String,
    /// Answers to choose from; others are taken as well.
    pub(crate) choices: Vec<String>,
}
