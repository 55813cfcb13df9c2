//! Files of a sandbox and logs of its jobs as resources: `vestal://task/…`.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rmcp::model::{ErrorData, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use vestal_sandbox::files::Links;
use vestal_sandbox::job::{self, JobFilter, OutputWindow};
use vestal_sandbox::{FileKind, JobId, JobInfo, TaskName};

use crate::call::Call;
use crate::failure::ToolFailure;
use crate::limits::{MAX_LOG_BYTES, RESOURCE_BYTES, RESOURCES_LISTED};
use crate::server::protocol_error;

/// The beginning of every URI.
const PREFIX: &str = "vestal://task/";

/// What stands for itself in a URI.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
const PLAIN_PATH: &AsciiSet = &PLAIN.remove(b'/');

/// What a URI names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Named {
    /// A file, by its whole path.
    File { task: String, path: String },
    /// One stream of a job's log.
    Log { task: String, job: String, stream: LogStream },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogStream {
    Stdout,
    Stderr,
}

impl Named {
    fn parse(uri: &str) -> Option<Self> {
        let (task, rest) = uri.strip_prefix(PREFIX)?.split_once('/')?;
        let decoded = |text: &str| {
            percent_decode_str(text).decode_utf8().ok().map(std::borrow::Cow::into_owned)
        };
        let task = decoded(task)?;
        if let Some(path) = rest.strip_prefix("files/") {
            return Some(Self::File { task, path: format!("/{}", decoded(path)?) });
        }
        let (job, stream) = rest.strip_prefix("jobs/")?.split_once('/')?;
        let stream = match stream {
            "stdout" => LogStream::Stdout,
            "stderr" => LogStream::Stderr,
            _ => return None,
        };
        Some(Self::Log { task, job: decoded(job)?, stream })
    }
}

fn task_uri(task: &TaskName) -> String {
    format!("{PREFIX}{}", utf8_percent_encode(task.as_str(), PLAIN))
}

/// Returns the URI of a file by its whole path.
pub(crate) fn file_uri(task: &TaskName, path: &str) -> String {
    let path = utf8_percent_encode(path.trim_start_matches('/'), PLAIN_PATH);
    format!("{}/files/{path}", task_uri(task))
}

/// Returns the URI of a job's standard output.
pub(crate) fn log_uri(task: &TaskName, job: &JobId) -> String {
    format!("{}/jobs/{job}/stdout", task_uri(task))
}

/// Returns the forms that URIs have.
pub(crate) fn templates() -> Vec<ResourceTemplate> {
    let template = |path: &str| format!("{PREFIX}{{task}}/{path}");
    vec![
        ResourceTemplate::new(template("files/{+path}"), "file")
            .with_title("File of a sandbox")
            .with_description("A file by its absolute path without the leading slash, at most 1 MiB. file_read reads parts of larger ones."),
        ResourceTemplate::new(template("jobs/{job}/stdout"), "job-stdout")
            .with_title("Standard output of a job")
            .with_description("The newest 256 KiB of what a job wrote. job_logs reads other parts.")
            .with_mime_type("text/plain"),
        ResourceTemplate::new(template("jobs/{job}/stderr"), "job-stderr")
            .with_title("Standard error of a job")
            .with_description("The newest 256 KiB of what a job wrote to standard error.")
            .with_mime_type("text/plain"),
    ]
}

/// Returns the newest jobs of the client's own sandbox and the files in its workspace. A sandbox that
/// does not run is not started for that, and has none.
pub(crate) async fn list(call: &Call) -> Vec<Resource> {
    let task = call.own();
    let Ok(connection) = call.engine().observe(task).await else { return Vec::new() };
    let mut found = Vec::new();
    if let Ok(jobs) = job::jobs(&connection, JobFilter::All, RESOURCES_LISTED).await {
        found.extend(jobs.jobs.iter().rev().map(|job| of_job(task, job)));
    }
    if let Ok(sandbox) = call.sandbox(None).await
        && let Ok(files) = sandbox.files(None).await
        && let Ok(here) = files.stat(".", Links::Follow).await
        && let Ok(page) = files.list(".", RESOURCES_LISTED).await
    {
        let directory = String::from_utf8_lossy(&here.path).into_owned();
        for entry in page.entries.iter().filter(|entry| entry.kind == FileKind::File) {
            let Ok(name) = std::str::from_utf8(&entry.name) else { continue };
            let path = format!("{}/{name}", directory.trim_end_matches('/'));
            found.push(Resource::new(file_uri(task, &path), name).with_size(entry.size));
        }
    }
    found
}

fn of_job(task: &TaskName, job: &JobInfo) -> Resource {
    Resource::new(log_uri(task, &job.id), format!("log of {}", job.id))
        .with_description(job.summary.clone())
        .with_mime_type("text/plain")
        .with_size(job.stdout_bytes)
}

/// Returns what a URI names.
pub(crate) async fn read(call: &Call, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let unknown = |why: &str| ErrorData::resource_not_found(format!("{uri}: {why}"), None);
    let named = Named::parse(uri).ok_or_else(|| {
        unknown("a resource is vestal://task/TASK/files/PATH or vestal://task/TASK/jobs/JOB/stdout")
    })?;
    let contents = match named {
        Named::File { task, path } => {
            let task = call.task(Some(&task)).map_err(protocol_error)?;
            let sandbox = call.existing_sandbox(&task).await;
            let sandbox = sandbox.map_err(|error| unknown(&error.to_string()))?;
            let read = async {
                let files = sandbox.files(None).await?;
                let content = files.read_range(Path::new(&path), 0, RESOURCE_BYTES).await?;
                Ok::<_, ToolFailure>(content)
            };
            let content = read.await.map_err(|failure| unknown(&failure.to_string()))?;
            if !content.eof {
                return Err(ErrorData::invalid_params(
                    format!(
                        "{uri} has {} bytes, and at most {RESOURCE_BYTES} are read as a resource; file_read with `path` {path:?} and `offset` reads parts of it",
                        content.metadata.version.size
                    ),
                    None,
                ));
            }
            match String::from_utf8(content.bytes) {
                Ok(text) => ResourceContents::text(text, uri),
                Err(binary) => ResourceContents::blob(STANDARD.encode(binary.as_bytes()), uri)
                    .with_mime_type("application/octet-stream"),
            }
        }
        Named::Log { task, job, stream } => {
            let task = call.task(Some(&task)).map_err(protocol_error)?;
            let id: JobId = job.parse().map_err(|_| unknown("no job has such an id"))?;
            let text = log_tail(call, &task, &id, stream).await;
            let text = text.map_err(|error| unknown(&error.to_string()))?;
            ResourceContents::text(text, uri)
        }
    };
    Ok(ReadResourceResult::new(vec![contents]))
}

/// Returns the end of a job's log, with a line that says what is left out before it.
async fn log_tail(
    call: &Call,
    task: &TaskName,
    id: &JobId,
    stream: LogStream,
) -> Result<String, ToolFailure> {
    let connection = call.existing_connection(task).await?;
    let info = job::wait(&connection, id, Some(Duration::ZERO)).await?;
    let written = match stream {
        LogStream::Stdout => info.stdout_bytes,
        LogStream::Stderr => info.stderr_bytes,
    };
    let from = written.saturating_sub(MAX_LOG_BYTES);
    let window = match stream {
        LogStream::Stdout => {
            OutputWindow { stdout_from: from, stderr_from: info.stderr_bytes, limit: MAX_LOG_BYTES }
        }
        LogStream::Stderr => {
            OutputWindow { stdout_from: info.stdout_bytes, stderr_from: from, limit: MAX_LOG_BYTES }
        }
    };
    let output = call.engine().job_output(task, &info, window).await?;
    let part = match stream {
        LogStream::Stdout => output.stdout,
        LogStream::Stderr => output.stderr,
    };
    let text = String::from_utf8_lossy(&part.bytes);
    Ok(match from + part.omitted {
        0 => text.into_owned(),
        omitted => {
            format!("[… {omitted} bytes before this are left out; job_logs reads them …]\n{text}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_names_what_it_was_made_of_whatever_the_names_contain() {
        for (task, path) in [("mcp-x-1", "/workspace/a.txt"), ("a b@/home/ada/ä", "/tmp/100% #?\n")]
        {
            let task: TaskName = task.parse().unwrap();
            let uri = file_uri(&task, path);
            assert!(uri.is_ascii() && !uri.contains(' '), "{uri}");
            let named = Named::File { task: task.to_string(), path: path.to_owned() };
            assert_eq!(Named::parse(&uri), Some(named));
        }
        let log = Named::parse("vestal://task/t/jobs/j-1/stderr");
        let (task, job) = ("t".to_owned(), "j-1".to_owned());
        assert_eq!(log, Some(Named::Log { task, job, stream: LogStream::Stderr }));
        for other in [
            "",
            "file:///etc/passwd",
            "vestal://task/t",
            "vestal://task/t/jobs/j/x",
            "vestal://task/%ff/files/a",
        ] {
            assert_eq!(Named::parse(other), None, "{other}");
        }
    }
}
