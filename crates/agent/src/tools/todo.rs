//! `todo`: the conversation's list of what is to be done.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::de::IntoDeserializer as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use vestal_model::ToolSpec;

use super::arguments::{BadArgument, NonEmptyString, parse, tool_spec};
use crate::notebook::{Todo, TodoStatus};
use crate::tool::{Tool, ToolContext, ToolOutput};

/// Items a list may have.
const MOST: usize = 200;

/// Characters an item may have.
const LONGEST: usize = 2000;

const DESCRIPTION: &str = "\
Keeps a todo list for work with several steps, or for several requests at once. Without `todos` it returns the list. \
With `todos` it replaces the list, or with merge=true changes it: items with a known id are updated, others are added at the end. \
Items are in the order of work. Keep one item in_progress, and mark each item completed as soon as it is done. \
The result is always the whole list.";

/// The tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct TodoList;

#[async_trait]
impl Tool for TodoList {
    fn spec(&self) -> ToolSpec {
        tool_spec::<TodoArguments>("todo", DESCRIPTION)
    }

    fn toolset(&self) -> &'static str {
        "todo"
    }

    fn only_reads(&self, _: &Value) -> bool {
        true
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> ToolOutput {
        match write(context, arguments) {
            Ok(todos) => ToolOutput::json(&view(&todos)),
            Err(bad) => bad.into(),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct TodoArguments {
    /// The items to write; absent to read the list.
    todos: Option<Vec<TodoItem>>,
    /// Changes the list instead of replacing it. Default false.
    #[serde(default)]
    merge: bool,
}

/// An item as the model gives it: one that is known may leave things out.
#[derive(Deserialize, JsonSchema)]
struct TodoItem {
    id: NonEmptyString,
    #[schemars(required)]
    content: Option<String>,
    #[serde(default, deserialize_with = "status")]
    #[schemars(required)]
    status: Option<TodoStatus>,
}

/// Reads a status, also by other common words for it.
fn status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<TodoStatus>, D::Error> {
    let word = String::deserialize(deserializer)?;
    let word = word.trim().to_ascii_lowercase().replace([' ', '-'], "_");
    let word = match word.as_str() {
        "todo" | "" => "pending",
        "active" | "doing" => "in_progress",
        "complete" | "done" => "completed",
        "canceled" => "cancelled",
        other => other,
    };
    TodoStatus::deserialize(word.into_deserializer()).map(Some)
}

fn write(context: &ToolContext, arguments: Value) -> Result<Vec<Todo>, BadArgument> {
    let TodoArguments { todos, merge } = parse(arguments)?;
    let Some(items) = todos else { return Ok(context.notebook.read().todos) };
    context.notebook.write(|notes| {
        let mut todos = if merge { notes.todos.clone() } else { Vec::new() };
        for item in items {
            item.apply(&mut todos)?;
        }
        if todos.len() > MOST {
            return Err(BadArgument::new(format!("a list has at most {MOST} items")));
        }
        notes.todos.clone_from(&todos);
        Ok(todos)
    })
}

impl TodoItem {
    fn apply(self, todos: &mut Vec<Todo>) -> Result<(), BadArgument> {
        let Self { id, content, status } = self;
        let id = id.trim().to_owned();
        let content = content.filter(|content| !content.trim().is_empty());
        if content.as_ref().is_some_and(|content| content.chars().nth(LONGEST).is_some()) {
            return Err(BadArgument::new(format!("`content` is at most {LONGEST} characters")));
        }
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
mod tests {
    use serde_json::{Value, json};

    use super::TodoList;
    use crate::testing::AgentFixture;

    async fn write(stage: &AgentFixture, arguments: Value) -> Value {
        stage.call(&TodoList, arguments).await
    }

    fn item(id: &str, content: &str, status: &str) -> Value {
        json!({"id": id, "content": content, "status": status})
    }

    #[tokio::test]
    async fn a_list_is_written_read_and_changed() {
        let stage = AgentFixture::new();
        let empty = write(&stage, json!({})).await;
        assert_eq!(empty["todos"], json!([]));
        let written =
            json!({"todos": [item("1", "first", "in_progress"), item("2", "second", "pending")]});
        write(&stage, written.clone()).await;
        assert_eq!(write(&stage, json!({})).await["todos"], written["todos"]);
        // A change may leave out what stays, and come as models err.
        let change = json!({"merge": "true", "todos": [
        {"id": 1, "status": "done"}, {"id": "3", "content": "third"}]});
        let changed = write(&stage, change).await;
        let expected = [
            item("1", "first", "completed"),
            item("2", "second", "pending"),
            item("3", "third", "pending"),
        ];
        assert_eq!(changed["todos"], json!(expected));
        assert_eq!(
            changed["summary"],
            json!({"total": 3, "pending": 2, "in_progress": 0, "completed": 1, "cancelled": 0})
        );
        // Replacing forgets.
        write(&stage, json!({"todos": []})).await;
        assert_eq!(stage.context.notebook.read().todos, []);
    }

    #[tokio::test]
    async fn a_list_that_cannot_be_is_refused_and_changes_nothing() {
        let stage = AgentFixture::new();
        write(&stage, json!({"todos": [item("1", "first", "pending")]})).await;
        let before = stage.context.notebook.read();
        let many: Vec<Value> = (0..201).map(|n| item(&n.to_string(), "x", "pending")).collect();
        for (todos, complaint) in [
            (json!("soon"), "`todos` must be a list"),
            (json!([1]), "each of `todos` must be an object"),
            (json!([{"content": "x"}]), "`id` is required"),
            (json!([{"id": "9"}]), "needs `content`"),
            (json!([item("9", "x", "later")]), "`status` must be pending"),
            (json!([item("9", &"x".repeat(2001), "pending")]), "at most 2000 characters"),
            (json!(many), "at most 200 items"),
        ] {
            let result = write(&stage, json!({"todos": todos, "merge": true})).await;
            assert!(result["error"].as_str().unwrap().contains(complaint), "{result}");
            assert_eq!(stage.context.notebook.read(), before);
        }
    }
}
