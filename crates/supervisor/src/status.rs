//! What a supervisor tells about a slot.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::policy::ChildEnd;
use crate::slot::{BootRule, SlotService};
use crate::state::{self, Desired, PartState, Prior};

/// What a slot does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotState {
    /// It is down. What is desired says whether that is wanted; if not, there is no supervisor.
    Stopped,
    /// Its child was started and is not ready yet.
    Starting,
    /// Its child is ready.
    Running,
    /// Its child ended and is started again later.
    Backoff,
    /// Its child was asked to end.
    Stopping,
    /// It is down until somebody asks for it; the reason says why.
    Failed,
}

/// How the last child of a slot ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastExit {
    /// How.
    pub ended: ChildEnd,
    /// When, in RFC 3339.
    pub at: String,
}

/// All that a supervisor knows of a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotStatus {
    /// Its name.
    pub name: String,
    /// What it does.
    pub state: SlotState,
    /// Its process.
    pub pid: Option<u32>,
    /// When its process was started.
    pub started_at: Option<String>,
    /// When its process announced that it is ready.
    pub ready_at: Option<String>,
    /// How often its child ended by itself and was started again since the supervisor began.
    pub restarts: u64,
    /// How its last child ended.
    pub last_exit: Option<LastExit>,
    /// When it is started again.
    pub next_start_at: Option<String>,
    /// What is wanted of it; nothing if nobody ever said.
    pub desired: Option<Desired>,
    /// The state in its child's own words.
    pub actual: Option<String>,
    /// The parts of its child, in its own words.
    #[serde(default)]
    pub parts: BTreeMap<String, PartState>,
    /// Why it is not running although it should.
    pub reason: Option<String>,
    /// The directory of its log.
    pub log: PathBuf,
}

/// What an order came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderResult {
    /// It was started and is ready.
    Started,
    /// It was running and ready before.
    WasRunning,
    /// It was ended, and every process of it is gone.
    Stopped,
    /// It was not running before.
    WasStopped,
}

impl SlotStatus {
    /// Returns the status of a slot that was never started.
    pub(crate) fn new(name: &str, log: PathBuf) -> Self {
        Self {
            name: name.to_owned(),
            state: SlotState::Stopped,
            pid: None,
            started_at: None,
            ready_at: None,
            restarts: 0,
            last_exit: None,
            next_start_at: None,
            desired: None,
            actual: None,
            parts: BTreeMap::new(),
            reason: None,
            log,
        }
    }

    /// Returns the status of what cannot be a slot.
    pub(crate) fn broken(name: &str, reason: String, log: PathBuf) -> Self {
        Self { state: SlotState::Failed, reason: Some(reason), ..Self::new(name, log) }
    }

    /// Adds what the files of the slot say. Where they do not tell whether it is wanted, it is not
    /// simply down: it has failed.
    pub(crate) fn with_files(mut self, service: &SlotService) -> Self {
        let desired = state::read_desired(&service.desired);
        let actual = state::read_actual(&service.actual);
        let mut trouble = None;
        match desired {
            Ok(desired) => self.desired = desired,
            Err(error) => trouble = Some(error.to_string()),
        }
        match actual {
            Ok(Some(mut actual)) => {
                // What a process served that is gone is not served any more; what it could not
                // serve may be why it is gone.
                if actual.is_of_another(self.pid) {
                    actual.parts.retain(|_, part| part.error_message.is_some());
                    actual.parts.values_mut().for_each(|part| part.address = None);
                }
                self.actual = Some(actual.state);
                self.parts = actual.parts;
            }
            Ok(None) => {}
            Err(error) => trouble = trouble.or(Some(error.to_string())),
        }
        if self.state == SlotState::Stopped && Prior::read(service).is_err() {
            self.state = SlotState::Failed;
        }
        if service.boot == BootRule::Always && self.state != SlotState::Stopped {
            self.desired = Some(Desired::Running);
        }
        self.reason = self.reason.or(trouble);
        self
    }
}
