//! `/sandbox switch`: the same conversation in another task's sandbox.

use vestal_sandbox::{SummaryState, Task};

use super::remark;
use crate::chat::Chat;
use crate::program::{Open, Trouble};

pub(super) async fn run(chat: &mut Chat, name: &str) {
    let task: Task = match name.parse() {
        Ok(task) => task,
        Err(error) => {
            let problem = format!("{error}");
            return chat.trouble(&Trouble { problem, advice: Vec::new() });
        }
    };
    if task == *chat.about.workshop.task() {
        return chat.note(&format!("this is where it works: {task}"));
    }
    let id = chat.about.id.clone();
    let from = chat.about.workshop.task().clone();
    let Some(conversation) = chat.conversation() else { return };
    let what = if conversation.messages().is_empty() {
        // One in which nothing was said is not kept: there is nothing to resume.
        let model = conversation.model().map(|model| format!("{}:{}", model.name, model.model));
        Open::New { task: Some(task.clone()), model, title: None }
    } else {
        Open::Resume { id, task: Some(task.clone()), model: None }
    };
    if let Err(trouble) = chat.switch(what).await {
        return chat.trouble(&trouble);
    }
    let words = format!(
        "The user has moved this conversation to another sandbox, that of the task {task}. Files, tools, jobs and the shell that you knew are in the sandbox of the task {from}, which you do not see any more."
    );
    remark(chat, &words).await;
    let engine = chat.agent.engine().clone();
    let looked = chat.wait_for("looking at the sandbox", Box::pin(engine.inspect(&task))).await;
    let is_there = looked.is_ok_and(|found| {
        found.is_ok_and(|found| found.iter().any(|summary| summary.state != SummaryState::Absent))
    });
    let made = if is_there { "" } else { ", which is made by the first command" };
    chat.note(&format!(
        "it works in the sandbox of {task} from now on{made}; back: /sandbox switch {from}"
    ));
}
