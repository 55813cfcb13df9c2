//! What the pages about one sandbox show beyond what the command line prints.

use serde::{Deserialize, Serialize};
use vestal_sandbox::ListeningPort;

use crate::dashboard::TroubleView;
use crate::{EntryView, FileView, JobView, OperationView};

/// The terminals of a sandbox that somebody can come back to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalsView {
    /// Jobs that run on a terminal, the oldest first.
    pub terminals: Vec<JobView>,
}

/// A directory of a sandbox, a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryPageView {
    /// The absolute path in the sandbox.
    pub path: String,
    /// The directory above; null at the top.
    pub parent: Option<String>,
    /// The entries, in the order of names.
    pub entries: Vec<EntryView>,
    /// Where the next part begins; null at the end.
    pub next: Option<u32>,
}

/// What a page makes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileShape {
    /// Text, which is shown and can be changed.
    Text,
    /// A picture that is shown.
    Picture,
    /// Anything else, which can be downloaded.
    Binary,
}

/// A file of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePageView {
    /// What it is.
    #[serde(flatten)]
    pub file: FileView,
    /// What can be made of it.
    pub shape: FileShape,
    /// Its text, where it is text; the beginning of a long one.
    pub text: Option<String>,
    /// Whether `text` is all of it, so that it may be changed.
    pub is_whole: bool,
    /// Which version of the file this is; a change has to name it.
    pub version: String,
}

/// What an action takes away and what it leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionPlanView {
    /// What is done, such as `restoring it to good`.
    pub what: String,
    /// What goes and what stays, in parts of a sentence.
    pub parts: Vec<String>,
    /// Jobs that run and would be in the way.
    pub jobs_running: u32,
    /// Backends that a sandbox can move to, the best first.
    pub backends: Vec<String>,
}

/// A long action that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedOperationView {
    /// Its id.
    pub id: String,
}

/// Long actions of one profile or of all, the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationsView {
    /// The actions.
    pub operations: Vec<OperationView>,
    /// What could not be read.
    pub troubles: Vec<TroubleView>,
}

/// What a sandbox consumed at a moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UsageSampleView {
    /// When, in milliseconds of Unix time.
    pub at: i64,
    /// Processors in use since the sample before; null for the first one.
    pub cpus: Option<f64>,
    /// Memory of its processes.
    pub memory_bytes: u64,
    /// Its processes.
    pub processes: u32,
    /// Jobs whose shell runs.
    pub jobs_running: u32,
    /// What it takes on the disk of this machine; null until that was counted.
    pub disk_bytes: Option<u64>,
}

/// A port that a process of a sandbox listens on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortView {
    /// The port.
    pub port: u16,
    /// The address, as the sandbox sees it.
    pub address: String,
    /// The process, as the sandbox numbers it.
    pub pid: u32,
    /// The name of its program.
    pub program: String,
    /// The job it is of.
    pub job: Option<String>,
}

impl From<&ListeningPort> for PortView {
    fn from(port: &ListeningPort) -> Self {
        let ListeningPort { port, address, pid, program, job } = port.clone();
        Self { port, address, pid, program, job: job.map(|job| job.to_string()) }
    }
}

/// The ports of a sandbox, and whether they can be looked at in a browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortsView {
    /// The ports, by number.
    pub ports: Vec<PortView>,
    /// Why there is no preview of them; null where there is one.
    pub no_preview: Option<String>,
}

/// A preview of a port that was opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviewView {
    /// Where a browser finds it; a secret until it was opened once, within half a minute.
    pub url: String,
}
