//! What the model has put on its list.

use vestal_agent::{Todo, TodoStatus};
use vestal_tui::{Line, style};

use super::wrapped;

/// Items that are shown at once; `/status` shows all.
const SHOWN: usize = 20;

/// Shows the list, below the call that changed it.
pub(crate) fn todos(todos: &[Todo], width: usize) -> Vec<Line> {
    let item = |todo: &Todo| {
        let style = match todo.status {
            TodoStatus::InProgress => style::BOLD,
            TodoStatus::Pending => vestal_tui::Style::default(),
            TodoStatus::Completed | TodoStatus::Cancelled => style::DIM,
        };
        let content = todo.content.split_whitespace().collect::<Vec<_>>().join(" ");
        let words = format!("  {} {content}", todo_mark(todo.status));
        wrapped(&words, width, "      ", |_, text| Line::styled(text, style))
    };
    let mut lines: Vec<Line> = todos.iter().take(SHOWN).flat_map(item).collect();
    if todos.len() > SHOWN {
        let more = format!("  … and {} more; /status shows all", todos.len() - SHOWN);
        lines.push(Line::styled(more, style::DIM));
    }
    lines
}

/// Returns how far an item is, as a mark.
pub(crate) const fn todo_mark(status: TodoStatus) -> &'static str {
    match status {
        TodoStatus::Pending => "[ ]",
        TodoStatus::InProgress => "[>]",
        TodoStatus::Completed => "[x]",
        TodoStatus::Cancelled => "[-]",
    }
}
