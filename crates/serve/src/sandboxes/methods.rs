//! The methods: one table, from which requests are carried out and the catalogue is made.

use std::pin::Pin;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use vestal_api as api;
use vestal_sandbox::TaskName;

use super::connection::SandboxCall;
use super::failure::SandboxFailure;
use super::{board, files, jobs, lifecycle, run, snapshots};
use crate::error::RpcError;
use crate::methods::{read, schema, write};

/// When a request is answered, and what becomes of it when it is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MethodPace {
    /// At once, before the next frame is read.
    AtOnce,
    /// When it is done, also if the client has closed its side meanwhile. A cancelled one is given up
    /// where it is.
    Brief,
    /// When it is done, which may take any time. A cancelled one, or one whose client is gone, is given up
    /// where it is.
    Long,
    /// When it is done. It sees itself to being cancelled.
    Minded,
}

type Answering = Pin<Box<dyn Future<Output = Result<Value, RpcError>> + Send>>;

/// A method.
pub(super) struct SandboxMethod {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) pace: MethodPace,
    pub(super) params: fn() -> Value,
    pub(super) result: fn() -> Value,
    pub(super) call: fn(SandboxCall, Map<String, Value>) -> Answering,
}

/// Declares the table: pace, name, handler, and what it does.
macro_rules! methods {
    ($($pace:ident $name:literal = $handler:path, $params:ty => $result:ty: $about:literal;)*) => {
        /// All methods, in the order of the catalogue.
        pub(super) static METHODS: &[SandboxMethod] = &[$(SandboxMethod {
            name: $name,
            about: $about,
            pace: MethodPace::$pace,
            params: schema::<$params>,
            result: schema::<$result>,
            call: |call, params| Box::pin(async move {
                let params: $params = read(params)?;
                let result: $result = $handler(call, params).await?;
                write(&result)
            }),
        },)*];
    };
}

methods! {
    Long "sandbox.open" = lifecycle::open, lifecycle::OpenParams => lifecycle::OpenResult:
        "Attaches to the sandbox of a task, starts it if it was stopped, and makes it if there is none.";
    Brief "sandbox.list" = lifecycle::list, NoParams => lifecycle::SandboxListResult:
        "Lists the sandboxes of the profile, as `vestal ps --all --json` does.";
    Brief "sandbox.touch" = lifecycle::touch, TaskParams => Acknowledged:
        "Keeps a sandbox that runs from idling out.";
    Long "sandbox.stop" = lifecycle::stop, TaskParams => api::StoppedView:
        "Stops a sandbox: its jobs end, its files stay.";
    Long "sandbox.remove" = lifecycle::remove, lifecycle::RemoveParams => api::RemovedView:
        "Removes a sandbox; workspace, home and snapshots go only with `files`.";
    Long "sandbox.fork" = snapshots::fork, snapshots::ForkParams => api::ForkedView:
        "Makes the sandbox of another task as a copy.";
    Minded "run" = run::run, run::RunParams => run::RunResult:
        "Runs a command and waits for it. Cancelling the request kills the command and everything it started. A `job` that is known already is not run again: the answer is about the first one.";
    Brief "job.start" = run::start, run::StartParams => api::JobView:
        "Starts a command in the background. A `job` that is known already is not started again.";
    Brief "job.list" = jobs::list, jobs::JobListParams => jobs::JobListResult:
        "Lists the jobs of a sandbox, whoever started them.";
    Brief "job.logs" = jobs::logs, jobs::LogsParams => api::LogsView:
        "Returns what a job has written, from offsets on.";
    Long "job.follow" = jobs::follow, jobs::FollowParams => api::JobView:
        "Sends what a job writes as events `job.output`, and answers when it has ended. Cancelling it does not end the job.";
    Long "job.wait" = jobs::wait, jobs::WaitParams => api::JobView:
        "Waits until a job has ended or the time is up; its `state` says which.";
    Brief "job.kill" = jobs::kill, jobs::JobKillParams => api::JobView:
        "Kills every process of a job and answers when none is left, or sends its foreground processes a signal.";
    Long "job.write" = jobs::write, jobs::JobWriteParams => jobs::JobWriteResult:
        "Writes to the standard input of a job, as fast as it reads.";
    Brief "file.read" = files::read, files::ReadParams => files::ReadResult:
        "Returns bytes of a file.";
    Brief "file.write" = files::write, files::FileWriteParams => api::WrittenView:
        "Makes bytes the whole content of a file, in one step; missing directories are made.";
    Brief "file.patch" = files::patch, files::PatchParams => files::PatchResult:
        "Replaces pieces of a file, all or none.";
    Brief "file.list" = files::list, files::FileListParams => api::DirectoryView:
        "Lists a directory in the order of names.";
    Brief "file.search" = files::search, files::SearchParams => api::FoundView:
        "Finds lines by a regular expression, or files by name.";
    Brief "file.stat" = files::stat, files::StatParams => api::FileView:
        "Describes a file.";
    Brief "file.mkdir" = files::mkdir, files::MkdirParams => Acknowledged:
        "Makes a directory with those above it; one that is there is left alone.";
    Brief "file.move" = files::rename, files::MoveParams => Acknowledged:
        "Renames a file or a directory.";
    Brief "file.delete" = files::delete, files::FileDeleteParams => Acknowledged:
        "Deletes a file, or a directory; of a symbolic link the link.";
    Long "snapshot.create" = snapshots::create, snapshots::SnapshotCreateParams => api::SnapshotView:
        "Keeps a copy of a sandbox, which is stopped for it and started by its next use.";
    Brief "snapshot.list" = snapshots::list, snapshots::SnapshotListParams => snapshots::SnapshotListResult:
        "Lists snapshots, the oldest of each sandbox first.";
    Long "snapshot.restore" = snapshots::restore, snapshots::RestoreParams => api::RestoredView:
        "Makes a sandbox what it was when a snapshot was kept.";
    Brief "snapshot.delete" = snapshots::delete, snapshots::SnapshotDeleteParams => api::SnapshotView:
        "Deletes a snapshot.";
    Brief "board.create" = board::create, board::BoardCreateParams => AsPrinted<board::BoardCreateResult>:
        "Creates a task on the board.";
    Brief "board.list" = board::list, board::BoardListParams => AsPrinted<board::BoardListResult>:
        "Lists tasks of the board.";
    Brief "board.show" = board::show, board::BoardShowParams => AsPrinted<api::TaskDetailsView>:
        "Returns a task with its comments, events and runs, as `vestal kanban show --json` does.";
    Brief "board.comment" = board::comment, board::BoardCommentParams => AsPrinted<api::CommentedView>:
        "Adds a comment to a task.";
    Brief "board.complete" = board::complete, board::BoardCompleteParams => AsPrinted<board::BoardCompleteResult>:
        "Marks a task as done; one that needs a review goes to it.";
    AtOnce "request.cancel" = cancel, CancelParams => CancelResult:
        "Cancels a request that is under way: it is answered with error -32800 and, if it is a `run`, when nothing of its command is left.";
    AtOnce "request.grant" = grant, GrantParams => GrantResult:
        "Lets a request with `window` send so many more bytes of output.";
}

/// A method that takes nothing.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NoParams {}

/// It is done, and there is nothing to say about it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Acknowledged {}

/// A method about a sandbox.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskParams {
    /// The task of the sandbox.
    pub(super) task: String,
}

/// What the command line prints with `--json`: docs/compatibility.md has its members.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct AsPrinted<T>(pub(super) T);

impl<T> JsonSchema for AsPrinted<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Object".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "object",
            "description": "As the command line prints it with `--json`; docs/compatibility.md has its members.",
        })
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CancelParams {
    /// The `id` of the request.
    id: Value,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CancelResult {
    /// Whether it was under way.
    cancelled: bool,
}

async fn cancel(call: SandboxCall, params: CancelParams) -> Result<CancelResult, SandboxFailure> {
    Ok(CancelResult { cancelled: call.requests.cancel(&params.id) })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GrantParams {
    /// The `id` of the request.
    id: Value,
    /// How many bytes.
    bytes: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct GrantResult {
    /// Whether it is under way.
    granted: bool,
}

async fn grant(call: SandboxCall, params: GrantParams) -> Result<GrantResult, SandboxFailure> {
    Ok(GrantResult { granted: call.requests.grant(&params.id, params.bytes) })
}

/// Reads the name of a task.
pub(super) fn task_of(text: &str) -> Result<TaskName, SandboxFailure> {
    text.parse().map_err(|error| SandboxFailure::param("task", error))
}

/// Returns a text that is not empty.
pub(super) fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// Returns the bytes that a client sends, as text or in base64; nothing if it sends neither.
pub(super) fn sent_bytes(
    text: Option<String>,
    base64: Option<&str>,
) -> Result<Option<Vec<u8>>, SandboxFailure> {
    use base64::Engine as _;
    match (text, base64) {
        (Some(_), Some(_)) => Err(SandboxFailure::param("base64", "give either it or the text")),
        (Some(text), None) => Ok(Some(text.into_bytes())),
        (None, Some(encoded)) => base64::engine::general_purpose::STANDARD
            .decode(encoded)
            .map(Some)
            .map_err(|error| SandboxFailure::param("base64", error)),
        (None, None) => Ok(None),
    }
}
