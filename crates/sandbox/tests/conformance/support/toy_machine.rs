//! The machine of the toy backend: a directory which nobody else looks into, and requests over TCP.

use std::collections::HashSet;
use std::fs;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use vestal_testkit::link::{LinkReply, SlowLink};

use super::guest_process::{self, remove_tree};

#[derive(Debug)]
pub(crate) struct ToyMachine {
    pub(crate) files: Arc<MachineFiles>,
    /// How it is reached: slowly, and sometimes not.
    pub(crate) link: SlowLink,
}

#[derive(Debug)]
pub(crate) struct MachineFiles {
    root: PathBuf,
    /// Ids of removed instances, which are never made again. Held while a request is answered.
    removed: Mutex<HashSet<String>>,
}

impl ToyMachine {
    /// Starts a machine that keeps its files in `root`.
    pub(crate) fn start(root: PathBuf) -> Self {
        fs::create_dir_all(root.join("instances")).unwrap();
        guest_process::install(&root.join("guest"));
        let files = Arc::new(MachineFiles { root, removed: Mutex::default() });
        let serving = Arc::clone(&files);
        let answer = move |request: &Value| serving.answer(request);
        Self { files, link: SlowLink::serve(Duration::from_micros(500), 7, answer) }
    }
}

impl MachineFiles {
    /// Returns the directory of an instance.
    pub(crate) fn instance_dir(&self, id: &str) -> PathBuf {
        self.root.join("instances").join(id)
    }

    /// Returns the directory of a sandbox's files, by the hash of its key.
    pub(crate) fn files_dir(&self, key: &str) -> PathBuf {
        self.root.join("files").join(key)
    }

    fn answer(&self, request: &Value) -> Result<LinkReply> {
        let mut removed = self.removed.lock().unwrap();
        let id = request["id"].as_str().unwrap_or_default();
        let (dir, files) = (self.instance_dir(id), self.files_dir(id));
        match request["verb"].as_str().unwrap_or_default() {
            "connect" => return Ok(LinkReply::Stream(dir.join("io/guest.sock"))),
            "launch" if removed.contains(id) => return Err(Error::other("it was removed")),
            // A request that is sent again gets what is there.
            "launch" if guest_process::pid(&dir).is_some() => {}
            "launch" => self.launch(&dir, request)?,
            "end" => guest_process::kill(&dir),
            "remove" => {
                removed.insert(id.to_owned());
                guest_process::kill(&dir);
                remove_tree(&dir)?;
            }
            "remove-state" => remove_tree(&files.join("state"))?,
            "remove-files" => remove_tree(&files)?,
            "volumes" => {
                let volumes = ["workspace", "home"].map(|name| files.join(name));
                let volumes = volumes.iter().filter(|path| path.is_dir());
                return Ok(LinkReply::Line(volumes.map(|path| json!(path)).collect()));
            }
            "find" => {
                let dirs = fs::read_dir(self.root.join("instances"))?.flatten();
                return Ok(LinkReply::Line(dirs.map(|entry| describe(&entry.path())).collect()));
            }
            _ => {}
        }
        Ok(LinkReply::Line(describe(&dir)))
    }

    fn launch(&self, dir: &Path, request: &Value) -> Result<()> {
        let bytes: Vec<u8> = serde_json::from_value(request["guest"].clone())?;
        let guest: vestal_wire::GuestSettings =
            vestal_wire::decode(&bytes).map_err(Error::other)?;
        let files = self.files_dir(&guest.key);
        let mut label = request["label"].clone();
        label["workspace"] = json!(files.join("workspace"));
        fs::create_dir_all(dir.join("io"))?;
        fs::write(dir.join("label.json"), label.to_string())?;
        let failpoint = request["failpoint"].as_str();
        guest_process::start(&self.root.join("guest"), dir, &files, guest, failpoint)
    }
}

/// Returns what is known of an instance.
fn describe(dir: &Path) -> Value {
    let label = fs::read(dir.join("label.json")).unwrap_or_default();
    let label: Value = serde_json::from_slice(&label).unwrap_or_default();
    // The end of a guest removes its files there and so moves the time.
    let since = fs::metadata(dir.join("io")).and_then(|io| io.modified()).ok();
    let millis = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap().as_millis();
    let since = since.map(|at| u64::try_from(millis(at)).unwrap());
    let state = match since {
        _ if guest_process::pid(dir).is_some() => "running",
        Some(_) => "stopped",
        None => "absent",
    };
    let id = dir.file_name().map(|id| id.to_string_lossy());
    json!({ "id": id, "state": state, "since": since, "label": label })
}
