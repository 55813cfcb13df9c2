//! Files of a sandbox, byte-exact. Paths are the sandbox's: `~` is its home, and relative ones
//! start where its commands do.

use axum::Json;
use axum::body::Body;
use axum::extract::Query;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post, put};
use futures_util::TryStreamExt as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::io::StreamReader;
use vestal_api::{DirectoryView, EntryView, FileView, FoundView, WrittenView};
use vestal_sandbox::SearchQuery;
use vestal_sandbox::files::{Depth, Links, Parents, WriteOptions};

use super::SandboxTarget;
use crate::http::error::ApiError;
use crate::http::openapi::{DescribedRoutes, RouteOperation};

/// How much of a file one answer has, unless the request says otherwise, and at most.
const READ_BYTES: u64 = 1 << 20;
const MAX_READ_BYTES: u64 = 16 << 20;

/// Entries that one answer lists, unless the request says otherwise, and at most.
const LISTED: u32 = 1000;
const MAX_LISTED: u32 = 10_000;

/// Matches that one answer has, unless the request says otherwise, and at most.
const FOUND: u32 = 100;
const MAX_FOUND: u32 = 1000;

/// How large the file is.
const SIZE: HeaderName = HeaderName::from_static("x-vestal-file-size");

/// Whether the answer reaches to the end of the file.
const EOF: HeaderName = HeaderName::from_static("x-vestal-file-eof");

pub(super) fn routes(routes: DescribedRoutes, tag: &'static str) -> DescribedRoutes {
    let operation = |summary: &'static str| RouteOperation::new(tag, summary);
    routes
        .get("/api/sandboxes/{task}/files", get(read), operation("Returns bytes of a file")
            .query::<ReadQuery>().answers_bytes())
        .put("/api/sandboxes/{task}/files", put(write), operation("Makes the body the content of a file, of any size; the sandbox is made or started for it")
            .query::<WriteQuery>().takes_bytes().answers::<WrittenView>())
        .delete("/api/sandboxes/{task}/files", axum::routing::delete(delete), operation("Deletes a file, or a directory; of a symbolic link the link")
            .query::<DeleteQuery>().answers::<FileDeletedView>())
        .get("/api/sandboxes/{task}/files/list", get(list), operation("Lists a directory in the order of names")
            .query::<DirectoryListQuery>().answers::<DirectoryView>())
        .get("/api/sandboxes/{task}/files/stat", get(stat), operation("Describes a file")
            .query::<StatQuery>().answers::<FileView>())
        .post("/api/sandboxes/{task}/files/search", post(search), operation("Finds files by name and lines by content")
            .takes::<SearchRequest>().answers::<FoundView>())
}

/// Which bytes.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ReadQuery {
    /// The file.
    path: String,
    /// The first byte.
    #[serde(default)]
    offset: u64,
    /// At most so many bytes: 1 MiB unless given, 16 MiB at most.
    #[serde(default)]
    limit: Option<u64>,
}

/// What to write to.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct WriteQuery {
    /// The file.
    path: String,
    /// Whether missing directories are made.
    #[serde(default)]
    parents: bool,
    /// Permission bits in octal, as `755`; those of the file that is replaced unless given.
    #[serde(default)]
    mode: Option<String>,
}

/// What to delete.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct DeleteQuery {
    /// The file or directory.
    path: String,
    /// Whether a directory goes with all that is in it.
    #[serde(default)]
    recursive: bool,
}

/// A file that is gone.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct FileDeletedView {
    /// `file.deleted`.
    object: &'static str,
    /// True.
    deleted: bool,
    /// What it was.
    file: FileView,
}

/// Which part of a directory.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct DirectoryListQuery {
    /// The directory; where commands start unless given.
    #[serde(default)]
    path: Option<String>,
    /// At most so many entries: 1,000 unless given, 10,000 at most.
    #[serde(default)]
    limit: Option<u32>,
}

/// Which file.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct StatQuery {
    /// The file.
    path: String,
    /// Whether a symbolic link is followed; true unless given.
    #[serde(default)]
    follow: Option<bool>,
}

/// What to look for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchRequest {
    /// The directory or file to search; where commands start unless given.
    #[serde(default)]
    path: Option<String>,
    /// A glob for the path below it, or for the name if it has no `/`.
    #[serde(default)]
    glob: Option<String>,
    /// A regular expression for lines; without it, names are found.
    #[serde(default)]
    regex: Option<String>,
    /// Whether case does not matter.
    #[serde(default)]
    ignore_case: bool,
    /// Whether hidden files are searched.
    #[serde(default)]
    hidden: bool,
    /// Whether files that `.gitignore` names are searched.
    #[serde(default)]
    ignored: bool,
    /// Matches to pass over.
    #[serde(default)]
    skip: u32,
    /// At most so many matches: 100 unless given, 1,000 at most.
    #[serde(default)]
    limit: Option<u32>,
    /// Lines around each match, 20 at most.
    #[serde(default)]
    context: u32,
}

type Queried<T> = Result<Query<T>, QueryRejection>;

fn queried<T>(query: Queried<T>) -> Result<T, ApiError> {
    query.map(|Query(query)| query).map_err(|error| ApiError::of_query(&error))
}

async fn read(target: SandboxTarget, query: Queried<ReadQuery>) -> Result<Response, ApiError> {
    let query = queried(query)?;
    let limit = query.limit.unwrap_or(READ_BYTES).min(MAX_READ_BYTES);
    let files = target.engine.existing_sandbox(&target.task).await?.files(None).await?;
    let content = files.read_range(&query.path, query.offset, limit).await?;
    let mut response = content.bytes.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(SIZE, HeaderValue::from(content.metadata.version.size));
    headers.insert(EOF, HeaderValue::from_static(if content.eof { "true" } else { "false" }));
    Ok(response)
}

async fn write(
    target: SandboxTarget,
    query: Queried<WriteQuery>,
    body: Body,
) -> Result<Json<WrittenView>, ApiError> {
    let query = queried(query)?;
    let mode = query.mode.as_deref().map(|mode| {
        u32::from_str_radix(mode, 8)
            .ok()
            .filter(|mode| *mode <= 0o7777)
            .ok_or_else(|| ApiError::invalid("mode", "must be permission bits in octal, as 755"))
    });
    let options = WriteOptions {
        parents: if query.parents { Parents::Make } else { Parents::MustExist },
        mode: mode.transpose()?,
        ..WriteOptions::default()
    };
    let sandbox = target.engine.sandbox(&target.task).await?;
    let files = sandbox.files(None).await?;
    // If the client breaks off, the file stays as it was.
    let mut reader = StreamReader::new(body.into_data_stream().map_err(std::io::Error::other));
    let written = files.write_from(&query.path, &mut reader, options).await?;
    Ok(Json((&written).into()))
}

async fn delete(
    target: SandboxTarget,
    query: Queried<DeleteQuery>,
) -> Result<Json<FileDeletedView>, ApiError> {
    let query = queried(query)?;
    let depth = if query.recursive { Depth::Recursive } else { Depth::One };
    let files = target.engine.existing_sandbox(&target.task).await?.files(None).await?;
    let removed = files.stat(&query.path, Links::Keep).await?;
    files.delete(&query.path, depth).await?;
    Ok(Json(FileDeletedView { object: "file.deleted", deleted: true, file: (&removed).into() }))
}

async fn list(
    target: SandboxTarget,
    query: Queried<DirectoryListQuery>,
) -> Result<Json<DirectoryView>, ApiError> {
    let query = queried(query)?;
    let limit = query.limit.unwrap_or(LISTED).min(MAX_LISTED);
    let files = target.engine.existing_sandbox(&target.task).await?.files(None).await?;
    let page = files.list(query.path.as_deref().unwrap_or("."), limit).await?;
    let entries = page.entries.iter().map(EntryView::from).collect();
    Ok(Json(DirectoryView { entries, more: page.more }))
}

async fn stat(
    target: SandboxTarget,
    query: Queried<StatQuery>,
) -> Result<Json<FileView>, ApiError> {
    let query = queried(query)?;
    let links = if query.follow == Some(false) { Links::Keep } else { Links::Follow };
    let files = target.engine.existing_sandbox(&target.task).await?.files(None).await?;
    Ok(Json((&files.stat(&query.path, links).await?).into()))
}

async fn search(
    target: SandboxTarget,
    body: Result<Json<SearchRequest>, JsonRejection>,
) -> Result<Json<FoundView>, ApiError> {
    let Json(request) = body?;
    let query = SearchQuery {
        root: request.path.unwrap_or_else(|| ".".to_owned()).into_bytes().into(),
        glob: request.glob,
        regex: request.regex,
        ignore_case: request.ignore_case,
        hidden: request.hidden,
        ignored: request.ignored,
        skip: request.skip,
        limit: request.limit.unwrap_or(FOUND).min(MAX_FOUND),
        context: request.context.min(20),
    };
    let files = target.engine.existing_sandbox(&target.task).await?.files(None).await?;
    Ok(Json((&files.search(query).await?).into()))
}
