//! The tools: what each is called, takes, returns and does.

pub(crate) mod board;
mod files;
mod jobs;
mod lines;
mod run;
mod sandboxes;
mod snapshots;
mod tool;

use tool::counted;
pub(crate) use tool::{Answer, SandboxTool, ToolEffect, ToolTable};
