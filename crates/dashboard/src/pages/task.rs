//! A task: all about it, what its attempts took, its log and files, and what a person decides about it.

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use jiff::tz::TimeZone;
use serde::Deserialize;
use vestal_api::{
    BoardMoveView, MovedView, TaskDetailsView, TaskPageView, UsageGrouping, UsageReport,
    UsageReportView,
};
use vestal_board::verbs::TaskEdit;
use vestal_board::{
    AttachmentSource, Authority, Board, MAX_ATTACHMENT, NewAttachment, Status, TaskCompletion,
    TaskId,
};
use vestal_config::ProfileName;
use vestal_conversations::{LedgerFilter, WorkItem};

use super::bad_request;
use super::board::{settled, slug};
use super::received::ReceivedFile;
use super::usage::{add_ledgers, task_work};
use crate::app::{App, AppState};
use crate::error::PageError;
use crate::gate::{Caller, DeclaredRoute, Right, Route};

pub(super) fn routes() -> Vec<DeclaredRoute<App>> {
    vec![
        Route::get("/api/board/{board}/tasks/{task}", show).needs(Right::Viewer),
        Route::get("/api/board/{board}/tasks/{task}/usage", usage).needs(Right::Viewer),
        Route::get("/api/board/{board}/tasks/{task}/files/{file}", download).needs(Right::Viewer),
        Route::post("/api/board/{board}/tasks/{task}/files", attach).needs(Right::Operator),
        Route::post("/api/board/{board}/tasks/{task}/edit", edit).needs(Right::Operator),
        Route::post("/api/board/{board}/tasks/{task}/link", link).needs(Right::Operator),
        Route::post("/api/board/{board}/tasks/{task}/unlink", unlink).needs(Right::Operator),
        Route::post("/api/board/{board}/tasks/{task}/comment", comment).needs(Right::Operator),
        Route::post("/api/board/{board}/tasks/{task}/unblock", unblock).needs(Right::Operator),
        Route::post("/api/board/{board}/tasks/{task}/approve", approve).needs(Right::Operator),
        Route::post("/api/board/{board}/tasks/{task}/request-changes", request_changes)
            .needs(Right::Operator),
    ]
}

/// A task that a path names.
pub(super) async fn find(
    app: &AppState,
    board: &str,
    task: &str,
) -> Result<(Board, TaskId), PageError> {
    let boards = app.data.boards()?;
    let slug = slug(Some(board))?;
    let absent = || PageError::not_found(format!("there is no task {task} on the board {slug}"));
    let board = app.data.board(&boards, &slug).await?.ok_or_else(absent)?;
    let id = board.find(task).await?;
    Ok((board, id))
}

async fn show(
    State(app): State<App>,
    Path((board, task)): Path<(String, String)>,
) -> Result<Json<TaskPageView>, PageError> {
    let (board, id) = find(&app, &board, &task).await?;
    let Json(details) = details(&board, &id).await?;
    let moves = BoardMoveView::all(details.task.status);
    let log = std::fs::symlink_metadata(vestal_board::log_path(board.dir(), &id));
    let log_bytes = log.ok().map(|found| found.len());
    Ok(Json(TaskPageView { details, moves, log_bytes }))
}

async fn details(board: &Board, id: &TaskId) -> Result<Json<TaskDetailsView>, PageError> {
    let sheet = board.show(id).await?;
    Ok(Json(TaskDetailsView::new(board, &sheet)))
}

/// Sums up what each attempt took. The ledger keeps that also when its conversation is deleted.
async fn usage(
    State(app): State<App>,
    Path((board, task)): Path<(String, String)>,
) -> Result<Json<UsageReportView>, PageError> {
    let (board, id) = find(&app, &board, &task).await?;
    let work: WorkItem = task_work(board.slug(), &id);
    let filter = LedgerFilter { work: Some(work), ..LedgerFilter::default() };
    let mut report = UsageReport::new(UsageGrouping::Attempt, TimeZone::UTC, None, None);
    // Any profile may have worked on it; a deleted profile took its ledger with it.
    add_ledgers(&app, &app.data.profiles(), &filter, UsageGrouping::Attempt, &mut report).await;
    Ok(Json(report.finish()))
}

/// Sends a file of a task as a download, never to be shown: its content is the attacher's.
async fn download(
    State(app): State<App>,
    Path((board, task, file)): Path<(String, String, i64)>,
) -> Result<Response, PageError> {
    let (board, id) = find(&app, &board, &task).await?;
    let found = board.show(&id).await?.attachments.into_iter().find(|one| one.id == file);
    let found =
        found.ok_or_else(|| PageError::not_found(format!("task {id} has no file {file}")))?;
    if found.host != board.host().name {
        let detail = format!("the file {} is on the host {}", found.filename, found.host);
        return Err(PageError::conflict(detail));
    }
    let path = board.attachment_path(&found);
    // At most 25 MiB.
    let bytes = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
    let bytes = bytes.map_err(|error| PageError::internal(error.to_string()))?;
    let bytes = bytes.map_err(|error| {
        PageError::unavailable(format!("the file {} cannot be read: {error}", found.filename))
    })?;
    Ok(as_download(&found.filename, Body::from(bytes)))
}

/// Returns bytes that a browser keeps and never shows.
pub(super) fn as_download(name: &str, body: Body) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("application/octet-stream");
    headers.insert(header::CONTENT_TYPE, kind);
    let disposition = HeaderValue::try_from(disposition(name));
    let disposition = disposition.unwrap_or(HeaderValue::from_static("attachment"));
    headers.insert(header::CONTENT_DISPOSITION, disposition);
    response
}

/// Returns the header that names a file, with every byte that could end it written as a number.
fn disposition(name: &str) -> String {
    use std::fmt::Write as _;

    let mut text = String::from("attachment; filename*=UTF-8''");
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            write!(text, "%{byte:02X}").ok();
        }
    }
    text
}

/// A file that somebody adds; its bytes are the body.
#[derive(Debug, Deserialize)]
pub(super) struct AttachQuery {
    name: String,
    #[serde(default)]
    content_type: String,
}

async fn attach(
    State(app): State<App>,
    caller: Caller,
    Path((board, task)): Path<(String, String)>,
    query: Result<Query<AttachQuery>, QueryRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<TaskDetailsView>, PageError> {
    let Query(query) = query.map_err(|error| bad_request(error.status(), error.body_text()))?;
    let (board, id) = find(&app, &board, &task).await?;
    let run = app.data.root().run_dir();
    let too_large = || {
        let detail = format!("a file of a task may have at most {} MiB", MAX_ATTACHMENT >> 20);
        PageError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
    };
    let received = ReceivedFile::new(&run, &headers, body, MAX_ATTACHMENT).await?;
    let received = received.ok_or_else(too_large)?;
    let new = NewAttachment {
        name: query.name,
        content_type: Some(query.content_type).filter(|kind| !kind.is_empty()),
        source: AttachmentSource::File(received.path()),
    };
    board.attach(&by(&caller), &id, new).await?;
    details(&board, &id).await
}

/// What is changed of a task; what is not there stays.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EditBody {
    title: Option<String>,
    body: Option<String>,
    priority: Option<i64>,
    /// The profile that works on it; empty: nobody.
    assignee: Option<String>,
}

async fn edit(
    State(app): State<App>,
    caller: Caller,
    Path((board, task)): Path<(String, String)>,
    body: Result<Json<EditBody>, JsonRejection>,
) -> Result<Json<TaskDetailsView>, PageError> {
    let Json(EditBody { title, body, priority, assignee }) = read(body)?;
    let (board, id) = find(&app, &board, &task).await?;
    if title.is_some() || body.is_some() || priority.is_some() {
        let edit = TaskEdit { title, body, priority, ..TaskEdit::default() };
        board.edit(&by(&caller), &id, edit).await?;
    }
    if let Some(name) = assignee {
        let to = match name.trim() {
            "" => None,
            name => Some(
                ProfileName::new(name).map_err(|error| PageError::invalid(error.to_string()))?,
            ),
        };
        board.assign(&by(&caller), &id, to).await?;
    }
    details(&board, &id).await
}

/// A task that another waits for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkBody {
    parent: String,
}

async fn link(
    State(app): State<App>,
    caller: Caller,
    Path((board, task)): Path<(String, String)>,
    body: Result<Json<LinkBody>, JsonRejection>,
) -> Result<Json<TaskDetailsView>, PageError> {
    let Json(LinkBody { parent }) = read(body)?;
    let (board, id) = find(&app, &board, &task).await?;
    let parent = board.find(&parent).await?;
    board.link(&by(&caller), &parent, &id).await?;
    details(&board, &id).await
}

async fn unlink(
    State(app): State<App>,
    caller: Caller,
    Path((board, task)): Path<(String, String)>,
    body: Result<Json<LinkBody>, JsonRejection>,
) -> Result<Json<TaskDetailsView>, PageError> {
    let Json(LinkBody { parent }) = read(body)?;
    let (board, id) = find(&app, &board, &task).await?;
    let parent = board.find(&parent).await?;
    board.unlink(&by(&caller), &parent, &id).await?;
    details(&board, &id).await
}

/// What a person says.
#[derive(Debug, Deserialize)]
pub(super) struct Words {
    #[serde(default)]
    text: String,
}

type WordsBody = Result<Json<Words>, JsonRejection>;

pub(super) fn read<T>(body: Result<Json<T>, JsonRejection>) -> Result<Json<T>, PageError> {
    body.map_err(|rejection| bad_request(rejection.status(), rejection.body_text()))
}

fn words(body: WordsBody) -> Result<String, PageError> {
    let Json(words) = read(body)?;
    Ok(words.text.trim().to_owned())
}

fn needed(text: &str, what: &str) -> Result<(), PageError> {
    if text.is_empty() {
        return Err(PageError::invalid(format!("{what} is missing")));
    }
    Ok(())
}

/// Returns in whose name something is done: a person, by the name they logged in with.
pub(super) fn by(caller: &Caller) -> Authority {
    let name = match caller.principal.method {
        "proxy" => caller.principal.name.clone(),
        _ => "user".to_owned(),
    };
    Authority::Person(name)
}

async fn comment(
    State(app): State<App>,
    caller: Caller,
    Path((board, task)): Path<(String, String)>,
    body: WordsBody,
) -> Result<Json<TaskDetailsView>, PageError> {
    let text = words(body)?;
    needed(&text, "the comment")?;
    let (board, id) = find(&app, &board, &task).await?;
    board.comment(&by(&caller), &id, &text).await?;
    details(&board, &id).await
}

/// Lets a task go on that waits for a person or before it is tried again. What they say is a comment,
/// which the next attempt reads.
async fn unblock(
    State(app): State<App>,
    caller: Caller,
    Path((board, task)): Path<(String, String)>,
    body: WordsBody,
) -> Result<Json<MovedView>, PageError> {
    let text = words(body)?;
    let (board, id) = find(&app, &board, &task).await?;
    let reason = (!text.is_empty()).then_some(text.as_str());
    let moved = match board.get(&id).await?.status {
        // A rough idea, or one that was blocked again and again: somebody has decided.
        Status::Triage => {
            let reason = text.clone();
            let promotion = vestal_board::Promotion { reason, ..Default::default() };
            board.promote(&by(&caller), &id, promotion).await?
        }
        _ => board.unblock(&by(&caller), &id, reason).await?,
    };
    Ok(Json(settled(&app, &board, moved).await))
}

/// Ends a task whose work was looked at.
async fn approve(
    State(app): State<App>,
    caller: Caller,
    Path((board, task)): Path<(String, String)>,
    body: WordsBody,
) -> Result<Json<MovedView>, PageError> {
    let text = words(body)?;
    let (board, id) = find(&app, &board, &task).await?;
    expect(&board, &id, &[Status::Review]).await?;
    let summary = (!text.is_empty()).then_some(text);
    let done = TaskCompletion { summary, ..TaskCompletion::default() };
    let moved = board.complete(&by(&caller), &id, done).await?;
    Ok(Json(settled(&app, &board, moved).await))
}

/// Sends work back that was looked at. What is wrong with it is read by the next attempt.
async fn request_changes(
    State(app): State<App>,
    caller: Caller,
    Path((board, task)): Path<(String, String)>,
    body: WordsBody,
) -> Result<Json<MovedView>, PageError> {
    let text = words(body)?;
    needed(&text, "what is to be changed")?;
    let (board, id) = find(&app, &board, &task).await?;
    expect(&board, &id, &[Status::Review]).await?;
    let moved = board.request_changes(&by(&caller), &id, &text).await?;
    Ok(Json(settled(&app, &board, moved).await))
}

/// Refuses a decision about a task that is not what it was when somebody looked at it.
pub(super) async fn expect(
    board: &Board,
    id: &TaskId,
    statuses: &[Status],
) -> Result<(), PageError> {
    let task = board.get(id).await?;
    if statuses.contains(&task.status) && task.current_run.is_none() {
        return Ok(());
    }
    let detail = format!("the task is {} by now, so this was not done", task.status);
    Err(PageError::conflict(detail).advise("look at the task again"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_cannot_end_its_header() {
        let name = disposition("a \"b\"\r\nset-cookie: x; é.txt");
        assert_eq!(
            name,
            "attachment; filename*=UTF-8''a%20%22b%22%0D%0Aset-cookie%3A%20x%3B%20%C3%A9.txt"
        );
    }
}
