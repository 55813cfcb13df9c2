//! The `kanban_*` tools, one file per verb.

mod attach;
mod attachments;
mod block;
mod comment;
mod complete;
mod create;
mod files;
mod heartbeat;
mod link;
mod list;
mod request_changes;
mod show;
mod submit;
mod trouble;
mod unblock;
mod verb;
mod view;
mod words;

#[cfg(test)]
#[path = "tools_tests.rs"]
mod tests;

use vestal_agent::Registry;
use vestal_board::Role;

use crate::desk::Desk;
use verb::Kanban;

pub(crate) use trouble::Trouble;

/// What the tools are enabled and disabled with.
pub const TOOLSET: &str = "kanban";

/// Adds the tools that fit whoever sits at the desk: a worker's, or those of an
/// agent that acts in somebody's name.
pub fn add_to(registry: &mut Registry, desk: &Desk) {
    let mut add = |tool| registry.add(tool);
    add(Kanban::<show::Show>::tool(desk));
    add(Kanban::<complete::Complete>::tool(desk));
    add(Kanban::<block::Block>::tool(desk));
    add(Kanban::<comment::Comment>::tool(desk));
    add(Kanban::<create::Create>::tool(desk));
    add(Kanban::<link::Link>::tool(desk));
    add(Kanban::<attach::Attach>::tool(desk));
    add(Kanban::<attachments::Attachments>::tool(desk));
    match desk.role() {
        Some(role) => {
            add(Kanban::<heartbeat::Beat>::tool(desk));
            match role {
                Role::Work => add(Kanban::<submit::Submit>::tool(desk)),
                Role::Review => add(Kanban::<request_changes::RequestChanges>::tool(desk)),
            }
        }
        None => {
            add(Kanban::<list::List>::tool(desk));
            add(Kanban::<unblock::Unblock>::tool(desk));
            add(Kanban::<submit::Submit>::tool(desk));
            add(Kanban::<request_changes::RequestChanges>::tool(desk));
        }
    }
}
