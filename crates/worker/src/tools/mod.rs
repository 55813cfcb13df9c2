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

use crate::context::BoardContext;
use tool::BoardTool;

pub(crate) use tool::ToolError;

/// The toolset's name, by which the tools are enabled and disabled.
pub const TOOLSET: &str = "kanban";

/// Adds the tools of a worker, or those of a chat that acts for a person.
pub fn add_to(registry: &mut Registry, kanban: &BoardContext) {
    let mut add = |tool| registry.add(tool);
    add(BoardTool::<read::Show>::tool(kanban));
    add(BoardTool::<finish::Complete>::tool(kanban));
    add(BoardTool::<finish::Block>::tool(kanban));
    add(BoardTool::<tasks::Comment>::tool(kanban));
    add(BoardTool::<tasks::Create>::tool(kanban));
    add(BoardTool::<tasks::Link>::tool(kanban));
    add(BoardTool::<files::Attach>::tool(kanban));
    add(BoardTool::<read::Attachments>::tool(kanban));
    match kanban.role() {
        Some(role) => {
            add(BoardTool::<tasks::Beat>::tool(kanban));
            match role {
                Role::Work => add(BoardTool::<finish::Submit>::tool(kanban)),
                Role::Review => add(BoardTool::<finish::RequestChanges>::tool(kanban)),
            }
        }
        None => {
            add(BoardTool::<read::List>::tool(kanban));
            add(BoardTool::<finish::Unblock>::tool(kanban));
            add(BoardTool::<finish::Submit>::tool(kanban));
            add(BoardTool::<finish::RequestChanges>::tool(kanban));
        }
    }
}
