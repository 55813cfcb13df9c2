//! `todo`: the conversation's list of what is to be done.

use async_trait::async_trait;
use serde_json::{Value, json};
use vestal_model::ToolSpec;

use super::arguments::{Arguments, BadArgument};
use crate::notebook::{Todo, TodoStatus};
use crate::tool::{Tool, ToolContext, ToolOutput};

/// Items a list may have.
const MOST: usize = 200;

/// Characters an item may have.
const LONGEST: usize = 2000;

const DESCRIPTION: &str = "\
Keeps a list of what is to be done, for work of several steps or several requests at once. Without `todos` it is read. \
With `todos` it is replaced, or with merge=true changed: items with a known id are updated, others added at the end. \
The order is the order of doing. Keep one item in_progress, and mark each completed as soon as it is. \
The whole list is returned every time.";

/// The tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct TodoList;

#[async_trait]
impl Tool for TodoList {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "todo".to_owned(),
            description: DESCRIPTION.to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "todos": {
                        "type": "array",
                        "description": "The items to write; absent to read the list.",
                        "items": {
                            "type": "object",
                            "properties": {
                                "id": {"type": "string"},
                                "content": {"type": "string"},
                                "status": {"type": "string", "enum": ["pending", "in_progress", "completed", "cancelled"]}
                            },
                            "required": ["id", "content", "status"]
                        }
                    },
                    "merge": {"type": "boolean", "description": "Changes the list instead of replacing it. Default false."}
                }
            }),
        }
    }

    fn toolset(&self) -> &'static str {
        "todo"
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> ToolOutput {
        match write(context, arguments) {
            Ok(todos) => ToolOutput::json(&view(&todos)),
            Err(bad) => bad.into(),
        }
    }
}

fn write(context: &ToolContext, arguments: Value) -> Result<Vec<Todo>, BadArgument> {
    let arguments = Arguments::new(arguments)?;
    let merge = arguments.flag("merge")?;
    let Some(items) = arguments.list("todos")? else { return Ok(context.notebook.read().todos) };
    let changes = items.into_iter().map(Change::read).collect::<Result<Vec<_>, _>>()?;
    context.notebook.write(|notes| {
        let mut todos = if merge { notes.todos.clone() } else { Vec::new() };
        for change in changes {
            change.apply(&mut todos)?;
        }
        if todos.len() > MOST {
            return Err(BadArgument::new(format!("a list has at most {MOST} items")));
        }
        notes.todos.clone_from(&todos);
        Ok(todos)
    })
}

/// An item as the model gave it: of one that is known it may leave things out.
struct Change {
    id: String,
    content: Option<String>,
    status: Option<TodoStatus>,
}

impl Change {
    fn read(item: Value) -> Result<Self, BadArgument> {
        let item = Arguments::new(item).map_err(|_| {
            BadArgument::new("each of `todos` must be an object with id, content and status")
        })?;
        let content = item.optional_text("content")?.filter(|content| !content.trim().is_empty());
        if content.as_ref().is_some_and(|content| content.chars().nth(LONGEST).is_some()) {
            return Err(BadArgument::new(format!("`content` is at most {LONGEST} characters")));
        }
        let status = item.optional_text("status")?.map(|word| status(&word)).transpose()?;
        Ok(Self { id: item.words("id")?.trim().to_owned(), content, status })
    }

    fn apply(self, todos: &mut Vec<Todo>) -> Result<(), BadArgument> {
        let Self { id, content, status } = self;
        if let Some(known) = todos.iter_mut().find(|todo| todo.id == id) {
            known.content = content.unwrap_or_else(|| known.content.clone());
            known.status = status.unwrap_or(known.status);
            return Ok(());
        }
        let content = content
            .ok_or_else(|| BadArgument::new(format!("item {id:?} is new and needs `content`")))?;
        todos.push(Todo { id, content, status: status.unwrap_or_default() });
        Ok(())
    }
}

fn status(word: &str) -> Result<TodoStatus, BadArgument> {
    match word.trim().to_ascii_lowercase().replace([' ', '-'], "_").as_str() {
        "pending" | "todo" | "" => Ok(TodoStatus::Pending),
        "in_progress" | "active" | "doing" => Ok(TodoStatus::InProgress),
        "completed" | "complete" | "done" => Ok(TodoStatus::Completed),
        "cancelled" | "canceled" => Ok(TodoStatus::Cancelled),
        _ => Err(BadArgument::new(format!(
            "`status` must be pending, in_progress, completed or cancelled, got {word:?}"
        ))),
    }
}

fn view(todos: &[Todo]) -> Value {
    let count = |status: TodoStatus| todos.iter().filter(|todo| todo.status == status).count();
    json!({
        "todos": todos,
        "summary": {
            "total": todos.len(),
            "pending": count(TodoStatus::Pending),
            "in_progress": count(TodoStatus::InProgress),
            "completed": count(TodoStatus::Completed),
            "cancelled": count(TodoStatus::Cancelled),
        },
    })
}

#[cfg(test)]
#[path = "todo_tests.rs"]
mod tests;
