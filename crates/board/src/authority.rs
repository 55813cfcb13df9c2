//! Who asks for a change.

use vestal_config::ProfileName;

use crate::host::HostName;
use crate::id::{RunId, TaskId};

/// A worker's hold on its task. The store takes what a worker writes only while
/// this is the task's current run, so one that was taken for dead and woke up
/// can write nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The task.
    pub task: TaskId,
    /// The run, whose number is the fencing token.
    pub run: RunId,
    /// The profile that works.
    pub profile: ProfileName,
}

/// Who asks for a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authority {
    /// A person, or a program in their name, who may do anything.
    Person(String),
    /// A worker, who may change its own task while it holds it, and otherwise
    /// only add: comments, tasks, links between tasks it made.
    Worker(Fence),
    /// A dispatcher.
    Dispatcher(HostName),
}

impl Authority {
    /// Returns the name that is written down.
    pub fn name(&self) -> &str {
        match self {
            Self::Person(name) => name,
            Self::Worker(fence) => fence.profile.as_str(),
            Self::Dispatcher(_) => "dispatcher",
        }
    }

    /// Returns the worker's hold, where a worker asks.
    pub fn fence(&self) -> Option<&Fence> {
        match self {
            Self::Worker(fence) => Some(fence),
            Self::Person(_) | Self::Dispatcher(_) => None,
        }
    }
}
