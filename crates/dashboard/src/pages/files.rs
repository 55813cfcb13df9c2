//! Files of a sandbox: browsed, looked at, changed, uploaded and downloaded.
//!
//! What a file says is hostile. It reaches a page as JSON, which pages show as text, as a picture of a
//! few kinds that are not documents, or as a download. No file is ever an answer that a browser
//! would open as a page of this server.

use std::io;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use futures_util::TryStreamExt as _;
use serde::Deserialize;
use tokio::io::AsyncWriteExt as _;
use tokio_util::io::{ReaderStream, StreamReader};
use vestal_api::{DirectoryPageView, EntryView, FilePageView, FileShape, FileView, WrittenView};
use vestal_sandbox::client::CallError;
use vestal_sandbox::files::{
    Depth, FileError, Files, Links, Overwrite, Parents, WriteOptions, Written,
};
use vestal_sandbox::{CreateMode, FaultCode, FileKind, FileVersion, Metadata};

use super::bad_request;
use super::sandboxes::ProfileSandbox;
use crate::app::{App, AppState};
use crate::error::PageError;
use crate::gate::{DeclaredRoute, Right, Route};

/// Entries that one answer lists.
const LISTED: u32 = 1000;

/// How much of a text is shown. A longer one is downloaded to be read in whole, and not changed here.
const MAX_TEXT: u64 = 512 << 10;

/// How large a picture may be to be shown.
const MAX_PICTURE: u64 = 16 << 20;

/// Bytes that are copied at a time.
const PIECE: usize = 64 << 10;

/// Bytes by which a picture is known.
const SIGNATURE: u64 = 16;

pub(super) fn routes() -> Vec<DeclaredRoute<App>> {
    // A viewer does not see files: in a sandbox of this machine these are all files of the user who
    // runs the dashboard, with keys and passwords among them.
    const DIRECTORY: &str = "/api/sandboxes/{profile}/{task}/files";
    vec![
        Route::get(DIRECTORY, list).needs(Right::Operator),
        Route::get("/api/sandboxes/{profile}/{task}/files/view", view).needs(Right::Operator),
        Route::get("/api/sandboxes/{profile}/{task}/files/picture", picture).needs(Right::Operator),
        Route::get("/api/sandboxes/{profile}/{task}/files/download", download)
            .needs(Right::Operator),
        Route::post("/api/sandboxes/{profile}/{task}/files/save", save).needs(Right::Operator),
        Route::post("/api/sandboxes/{profile}/{task}/files/upload", upload).needs(Right::Operator),
        Route::post("/api/sandboxes/{profile}/{task}/files/mkdir", mkdir).needs(Right::Operator),
        Route::post("/api/sandboxes/{profile}/{task}/files/rename", rename).needs(Right::Operator),
        Route::post("/api/sandboxes/{profile}/{task}/files/delete", delete).needs(Right::Operator),
    ]
}

type SandboxPath = Path<(String, String)>;

/// Returns the files of a sandbox that runs. Looking at them starts nothing, and is no use of it.
async fn files(app: &AppState, profile: &str, task: &str) -> Result<Files, PageError> {
    let target = ProfileSandbox::find(app, profile, task).await?;
    let connection = target.engine.observe(&target.task).await?;
    Ok(Files::new(connection))
}

fn queried<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, PageError> {
    query.map(|Query(query)| query).map_err(|error| bad_request(error.status(), error.body_text()))
}

fn given<T>(body: Result<Json<T>, JsonRejection>) -> Result<T, PageError> {
    body.map(|Json(body)| body).map_err(|error| bad_request(error.status(), error.body_text()))
}

#[expect(clippy::needless_pass_by_value, reason = "errors are given away by `map_err`")]
fn refused(error: FileError) -> PageError {
    let detail = error.to_string();
    let fault = match &error {
        FileError::Call(CallError::Fault(fault)) => fault.code,
        FileError::Call(_) | FileError::Io(_) => return PageError::unavailable(detail),
        FileError::TooLarge { .. } | FileError::Invalid(_) => return PageError::invalid(detail),
    };
    match fault {
        FaultCode::NotFound => PageError::not_found(detail),
        FaultCode::Exists | FaultCode::Busy => PageError::conflict(detail),
        FaultCode::Conflict => PageError::new(StatusCode::CONFLICT, "changed", detail)
            .advise("it was changed since it was opened; look at what it is now before saving"),
        FaultCode::Denied => PageError::new(StatusCode::FORBIDDEN, "denied", detail)
            .advise("commands of the sandbox may not do that either"),
        FaultCode::WrongKind | FaultCode::Invalid => PageError::invalid(detail),
        _ => PageError::unavailable(detail),
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct DirectoryQuery {
    /// The directory; where commands start unless given.
    #[serde(default)]
    path: String,
    /// Entries to pass over.
    #[serde(default)]
    skip: u32,
}

async fn list(
    State(app): State<App>,
    Path((profile, task)): SandboxPath,
    query: Result<Query<DirectoryQuery>, QueryRejection>,
) -> Result<Json<DirectoryPageView>, PageError> {
    let DirectoryQuery { path, skip } = queried(query)?;
    let files = files(&app, &profile, &task).await?;
    let path = if path.is_empty() { "." } else { &path };
    let metadata = files.stat(path, Links::Follow).await.map_err(refused)?;
    if metadata.kind != FileKind::Directory {
        return Err(PageError::invalid(format!("{path} is not a directory")));
    }
    let page = files.list_page(path, skip, LISTED).await.map_err(refused)?;
    let count = u32::try_from(page.entries.len()).unwrap_or(u32::MAX);
    let path = FileView::from(&metadata).path;
    let parent = path.rsplit_once('/').filter(|_| path != "/");
    Ok(Json(DirectoryPageView {
        parent: parent.map(|(above, _)| if above.is_empty() { "/" } else { above }.to_owned()),
        entries: page.entries.iter().map(EntryView::from).collect(),
        next: page.more.then(|| skip.saturating_add(count)),
        path,
    }))
}

#[derive(Debug, Deserialize)]
pub(super) struct FileQuery {
    path: String,
}

/// Returns a file as a page shows it. Of one that is not text only its description is sent.
async fn view(
    State(app): State<App>,
    Path((profile, task)): SandboxPath,
    query: Result<Query<FileQuery>, QueryRejection>,
) -> Result<Json<FilePageView>, PageError> {
    let FileQuery { path } = queried(query)?;
    let files = files(&app, &profile, &task).await?;
    let metadata = files.stat(&path, Links::Follow).await.map_err(refused)?;
    if metadata.kind != FileKind::File {
        let file = FileView::from(&metadata);
        let version = version_text(&metadata.version);
        let shape = FileShape::Binary;
        return Ok(Json(FilePageView { file, shape, text: None, is_whole: false, version }));
    }
    let content = files.read_range(&path, 0, MAX_TEXT).await.map_err(refused)?;
    let metadata = content.metadata;
    let text = text_of(&content.bytes, content.eof);
    let shape = match &text {
        Some(_) => FileShape::Text,
        None if picture_kind(&content.bytes).is_some() && metadata.version.size <= MAX_PICTURE => {
            FileShape::Picture
        }
        None => FileShape::Binary,
    };
    let is_whole = text.is_some() && content.eof;
    let version = version_text(&metadata.version);
    Ok(Json(FilePageView { file: (&metadata).into(), shape, text, is_whole, version }))
}

/// Returns bytes as text; nothing if they are not. A cut may go through a character.
fn text_of(bytes: &[u8], is_whole: bool) -> Option<String> {
    if bytes.contains(&0) {
        return None;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text.to_owned()),
        Err(error) if !is_whole && error.error_len().is_none() => {
            let text = bytes.get(..error.valid_up_to())?;
            Some(String::from_utf8_lossy(text).into_owned())
        }
        Err(_) => None,
    }
}

/// Returns the type of a picture that is not a document, by its first bytes. SVG is a document.
pub(super) fn picture_kind(bytes: &[u8]) -> Option<&'static str> {
    let is_webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    let is_avif = matches!(bytes.get(4..12), Some(b"ftypavif" | b"ftypavis"));
    match bytes {
        _ if bytes.starts_with(b"\x89PNG\r\n\x1a\n") => Some("image/png"),
        _ if bytes.starts_with(b"\xff\xd8\xff") => Some("image/jpeg"),
        _ if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") => Some("image/gif"),
        _ if is_webp => Some("image/webp"),
        _ if is_avif => Some("image/avif"),
        _ => None,
    }
}

/// Returns a picture, as nothing but one.
async fn picture(
    State(app): State<App>,
    Path((profile, task)): SandboxPath,
    query: Result<Query<FileQuery>, QueryRejection>,
) -> Result<Response, PageError> {
    let FileQuery { path } = queried(query)?;
    let files = files(&app, &profile, &task).await?;
    let first = files.read_range(&path, 0, SIGNATURE).await.map_err(refused)?;
    let kind = picture_kind(&first.bytes)
        .filter(|_| first.metadata.version.size <= MAX_PICTURE)
        .ok_or_else(|| PageError::invalid("it is not a picture that is shown here"))?;
    // A file that was changed between the two reads is not sent as what it was.
    let bytes = files.read(&path, MAX_PICTURE).await.map_err(refused)?;
    if picture_kind(&bytes) != Some(kind) {
        return Err(PageError::conflict("the file has changed meanwhile"));
    }
    let mut response = Response::new(Body::from(bytes));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    mark_as_download(&mut response, &first.metadata)?;
    Ok(response)
}

/// Sends a file of any size, as it is read.
async fn download(
    State(app): State<App>,
    Path((profile, task)): SandboxPath,
    query: Result<Query<FileQuery>, QueryRejection>,
) -> Result<Response, PageError> {
    let FileQuery { path } = queried(query)?;
    let files = files(&app, &profile, &task).await?;
    let metadata = files.stat(&path, Links::Follow).await.map_err(refused)?;
    if metadata.kind != FileKind::File {
        return Err(PageError::invalid(format!("{path} is not a regular file")));
    }
    let size = metadata.version.size;
    // Files of the kernel say that they are empty.
    let limit = (size > 0).then_some(size);
    let (mut writer, reader) = tokio::io::duplex(PIECE);
    let (failed, failure) = tokio::sync::oneshot::channel::<io::Error>();
    tokio::spawn(async move {
        match files.read_to(&path, &mut writer, 0, limit).await {
            Ok(_) => {}
            // The stream ends with the error, so that nobody takes a part for the whole.
            Err(error) => {
                tracing::debug!(%error, "a download was cut");
                failed.send(io::Error::other(error.to_string())).ok();
            }
        }
        writer.shutdown().await.ok();
    });
    let end = futures_util::stream::once(async move {
        match failure.await {
            Ok(error) => Err(error),
            Err(_) => Ok(axum::body::Bytes::new()),
        }
    });
    let content = ReaderStream::with_capacity(reader, PIECE);
    let mut response =
        Response::new(Body::from_stream(futures_util::StreamExt::chain(content, end)));
    let octets = HeaderValue::from_static("application/octet-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, octets);
    if let Some(limit) = limit {
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(limit));
    }
    mark_as_download(&mut response, &metadata)?;
    Ok(response)
}

/// Lets a browser save an answer and not open it, under the name of the file.
fn mark_as_download(response: &mut Response, metadata: &Metadata) -> Result<(), PageError> {
    let path = String::from_utf8_lossy(&metadata.path).into_owned();
    let name = path.rsplit('/').next().unwrap_or_default();
    let disposition = format!("attachment; filename*=UTF-8''{}", percent_encoded(name));
    let disposition = crate::gate::header_value(&disposition)?;
    response.headers_mut().insert(header::CONTENT_DISPOSITION, disposition);
    Ok(())
}

/// Returns a name as RFC 8187 has it: everything but letters, digits and a few signs in hexadecimal.
fn percent_encoded(name: &str) -> String {
    name.bytes().fold(String::with_capacity(name.len()), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            use std::fmt::Write as _;
            // Writing to a string cannot fail.
            write!(text, "%{byte:02X}").ok();
        }
        text
    })
}

/// Returns a version as a page keeps it: numbers of 64 bits are more than a script can hold.
fn version_text(version: &FileVersion) -> String {
    format!("{}.{}.{}", version.inode, version.size, version.mtime_ns)
}

fn version_of(text: &str) -> Result<FileVersion, PageError> {
    let parse = || {
        let mut parts = text.split('.');
        let version = FileVersion {
            inode: parts.next()?.parse().ok()?,
            size: parts.next()?.parse().ok()?,
            mtime_ns: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(version)
    };
    parse().ok_or_else(|| PageError::invalid("the version of the file is invalid"))
}

#[derive(Debug, Deserialize)]
pub(super) struct SaveRequest {
    path: String,
    text: String,
    /// The version that was changed; nothing: the file must not be there.
    version: Option<String>,
}

/// Makes a text the content of a file, if it is still the one that was changed.
async fn save(
    State(app): State<App>,
    Path((profile, task)): SandboxPath,
    body: Result<Json<SaveRequest>, JsonRejection>,
) -> Result<Json<FilePageView>, PageError> {
    let SaveRequest { path, text, version } = given(body)?;
    let files = files(&app, &profile, &task).await?;
    let expect = version.as_deref().map(version_of).transpose()?;
    let create = if expect.is_some() { CreateMode::Existing } else { CreateMode::New };
    let options = WriteOptions { create, expect, ..WriteOptions::default() };
    let written = files.write(&path, text.as_bytes(), options).await.map_err(refused)?;
    let Written { metadata, .. } = written;
    Ok(Json(FilePageView {
        version: version_text(&metadata.version),
        file: (&metadata).into(),
        shape: FileShape::Text,
        text: None,
        is_whole: true,
    }))
}

#[derive(Debug, Deserialize)]
pub(super) struct UploadQuery {
    path: String,
    /// Whether a file of that name is replaced.
    #[serde(default)]
    replace: bool,
}

/// Makes the body the content of a file, of any size. If the browser breaks off, or the sandbox has
/// no room, the file stays as it was.
async fn upload(
    State(app): State<App>,
    Path((profile, task)): SandboxPath,
    query: Result<Query<UploadQuery>, QueryRejection>,
    body: Body,
) -> Result<Json<WrittenView>, PageError> {
    let UploadQuery { path, replace } = queried(query)?;
    let files = files(&app, &profile, &task).await?;
    let create = if replace { CreateMode::Any } else { CreateMode::New };
    let options = WriteOptions { create, ..WriteOptions::default() };
    let mut reader = StreamReader::new(body.into_data_stream().map_err(io::Error::other));
    let written = files.write_from(&path, &mut reader, options).await.map_err(refused)?;
    Ok(Json((&written).into()))
}

#[derive(Debug, Deserialize)]
pub(super) struct MkdirRequest {
    path: String,
}

async fn mkdir(
    State(app): State<App>,
    Path((profile, task)): SandboxPath,
    body: Result<Json<MkdirRequest>, JsonRejection>,
) -> Result<Json<()>, PageError> {
    let MkdirRequest { path } = given(body)?;
    let files = files(&app, &profile, &task).await?;
    files.mkdir(&path, Parents::MustExist, None).await.map_err(refused)?;
    Ok(Json(()))
}

#[derive(Debug, Deserialize)]
pub(super) struct RenameFileRequest {
    from: String,
    to: String,
}

async fn rename(
    State(app): State<App>,
    Path((profile, task)): SandboxPath,
    body: Result<Json<RenameFileRequest>, JsonRejection>,
) -> Result<Json<()>, PageError> {
    let RenameFileRequest { from, to } = given(body)?;
    let files = files(&app, &profile, &task).await?;
    files.rename(&from, &to, Overwrite::Never).await.map_err(refused)?;
    Ok(Json(()))
}

#[derive(Debug, Deserialize)]
pub(super) struct DeleteFileRequest {
    path: String,
    /// Whether a directory goes with all that is in it.
    #[serde(default)]
    recursive: bool,
}

async fn delete(
    State(app): State<App>,
    Path((profile, task)): SandboxPath,
    body: Result<Json<DeleteFileRequest>, JsonRejection>,
) -> Result<Json<()>, PageError> {
    let DeleteFileRequest { path, recursive } = given(body)?;
    let files = files(&app, &profile, &task).await?;
    let depth = if recursive { Depth::Recursive } else { Depth::One };
    files.delete(&path, depth).await.map_err(refused)?;
    Ok(Json(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pictures_that_are_no_documents_are_sent_as_pictures() {
        assert_eq!(picture_kind(b"\x89PNG\r\n\x1a\n...."), Some("image/png"));
        assert_eq!(picture_kind(b"\xff\xd8\xff\xe0"), Some("image/jpeg"));
        assert_eq!(picture_kind(b"RIFF....WEBPVP8 "), Some("image/webp"));
        assert_eq!(picture_kind(b"....ftypavif"), Some("image/avif"));
        for document in [
            &b"<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"alert(1)\">"[..],
            b"<html>",
            b"%PDF-1.7",
            b"GIF8",
            b"",
            b"BM",
        ] {
            assert_eq!(picture_kind(document), None, "{document:?}");
        }
    }

    #[test]
    fn a_name_cannot_end_the_header_that_carries_it() {
        assert_eq!(percent_encoded("a b\"\r\nx: y.png"), "a%20b%22%0D%0Ax%3A%20y.png");
        assert_eq!(percent_encoded("ä/\u{202e}"), "%C3%A4%2F%E2%80%AE");
    }

    #[test]
    fn a_version_is_read_as_it_was_written_and_nothing_else_is() {
        let version = FileVersion { inode: u64::MAX, size: 7, mtime_ns: -1 };
        assert_eq!(version_of(&version_text(&version)).unwrap(), version);
        for bad in ["", "1", "1.2", "1.2.3.4", "1.-2.3", "x.2.3"] {
            assert!(version_of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_text_that_is_cut_through_a_character_is_still_text() {
        let bytes = "grün".as_bytes();
        assert_eq!(text_of(bytes, true).as_deref(), Some("grün"));
        assert_eq!(text_of(&bytes[..3], false).as_deref(), Some("gr"));
        assert_eq!(text_of(&bytes[..3], true), None, "the file itself is not text");
        assert_eq!(text_of(b"a\0b", true), None);
        assert_eq!(text_of(b"\xff", false), None);
    }
}
