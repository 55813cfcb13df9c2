//! The `kanban_*` tools, grouped by what they do.

mod files;
mod finish;
mod read;
mod tasks;
mod tool;

#[cfg(test)]
#[path = "tools_tests.rs"]
mod tests;

use vestal_agent::Registry;
use vestal_board::Role;

use crate::context::AgentBoard;
use tool::BoardTool;

pub(crate) use tool::{BoardArgument, TaskArgument, ToolError};

/// The toolset's name, by which the tools are enabled and disabled.
pub const TOOLSET: &str = "kanban";

/// Adds the tools of a worker, or those of a chat that acts for a person.
pub fn add_to(registry: &mut Registry, kanban: &AgentBoard) {
    let mut add = |tool| registry.add(tool);
    add(BoardTool::<read::ShowTask>::tool(kanban));
    add(BoardTool::<finish::CompleteTask>::tool(kanban));
    add(BoardTool::<finish::BlockTask>::tool(kanban));
    add(BoardTool::<tasks::AddComment>::tool(kanban));
    add(BoardTool::<tasks::CreateTask>::tool(kanban));
    add(BoardTool::<tasks::LinkTasks>::tool(kanban));
    add(BoardTool::<files::AttachFile>::tool(kanban));
    add(BoardTool::<read::ListAttachments>::tool(kanban));
    match kanban.role() {
        Some(role) => {
            add(BoardTool::<tasks::SendHeartbeat>::tool(kanban));
            match role {
                Role::Work => add(BoardTool::<finish::SubmitTask>::tool(kanban)),
                Role::Review => add(BoardTool::<finish::RequestChanges>::tool(kanban)),
            }
        }
        None => {
            add(BoardTool::<read::ListTasks>::tool(kanban));
            add(BoardTool::<finish::UnblockTask>::tool(kanban));
            add(BoardTool::<finish::SubmitTask>::tool(kanban));
            add(BoardTool::<finish::RequestChanges>::tool(kanban));
        }
    }
}
