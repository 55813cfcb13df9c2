//! The tools that come with the agent, one file each.

pub mod arguments;
mod clarify;
mod delegate_task;
mod execute_code;
mod files;
mod lint;
mod output;
mod patch;
mod pictures;
mod present_plan;
mod process;
mod read_file;
mod search_files;
mod spill;
mod terminal;
mod todo;
mod write_file;

use std::sync::Arc;

use crate::registry::Registry;

pub use arguments::BadArgument;
pub use clarify::Clarify;
pub use delegate_task::DelegateTask;
pub use execute_code::ExecuteCode;
pub use files::ObservedFiles;
pub use patch::Patch;
pub use pictures::{ShownPicture, shown_base64, shown_picture};
pub use process::{JobWatch, ProcessTool};
pub use read_file::ReadFile;
pub use search_files::SearchFiles;
pub use spill::keep_file;
pub use terminal::TerminalTool;
pub use todo::TodoList;
pub use write_file::WriteFile;

pub(crate) use present_plan::{PRESENT_PLAN, PresentPlan};
pub(crate) use process::job_updates;
pub(crate) use spill::fit;
pub(crate) use terminal::{kill_and_drain, run_for_person, settle};

/// Returns all of them.
pub fn standard() -> Registry {
    let mut registry = Registry::default();
    registry.add(Arc::new(Clarify));
    registry.add(Arc::new(DelegateTask));
    registry.add(Arc::new(ExecuteCode));
    registry.add(Arc::new(Patch));
    registry.add(Arc::new(ProcessTool));
    registry.add(Arc::new(ReadFile));
    registry.add(Arc::new(SearchFiles));
    registry.add(Arc::new(TerminalTool));
    registry.add(Arc::new(TodoList));
    registry.add(Arc::new(WriteFile));
    registry
}
