//! `/tools`.

use vestal_agent::slash::Invocation;
use vestal_agent::{Switch, SwitchToolError, ToolInfo};
use vestal_tui::{Line, Span, style};

use super::turns::refresh;
use super::{misused, store};
use crate::chat::Chat;
use crate::program::Trouble;

pub(super) async fn run(chat: &mut Chat, invocation: &Invocation) {
    match invocation.strs().as_slice() {
        [] | ["list"] => list(chat),
        ["enable" | "on", names @ ..] if !names.is_empty() => {
            switch(chat, names, Switch::On).await;
        }
        ["disable" | "off", names @ ..] if !names.is_empty() => {
            switch(chat, names, Switch::Off).await;
        }
        ["enable" | "on" | "disable" | "off"] => misused(chat, invocation, "which tool is meant?"),
        [other, ..] => misused(chat, invocation, &format!("{other:?} is not understood")),
    }
}

/// Lists the tools by toolset; those the model does not have are marked.
fn list(chat: &mut Chat) {
    let Some(conversation) = chat.conversation() else { return };
    let tools = conversation.tools();
    let widest = tools.iter().map(|tool| tool.name.chars().count()).max().unwrap_or(0);
    let columns = usize::from(chat.screen.size().columns);
    for set in tools.chunk_by(|a, b| a.toolset == b.toolset) {
        if let Some(first) = set.first() {
            chat.say(Line::styled(&first.toolset, style::BOLD));
        }
        for tool in set {
            chat.say(row(tool, widest, columns));
        }
    }
}

fn row(tool: &ToolInfo, widest: usize, columns: usize) -> Line {
    let mark = if tool.is_on { "  " } else { "✗ " };
    let name = format!("{:widest$}  ", tool.name);
    let about = if tool.is_on { tool.about.clone() } else { format!("(off) {}", tool.about) };
    let line = Line::from_spans(vec![
        Span::new(mark, style::RED),
        Span::plain(name),
        Span::new(about, style::DIM),
    ]);
    line.cut(columns)
}

async fn switch(chat: &mut Chat, names: &[&str], switch: Switch) {
    for name in names {
        let Some(conversation) = chat.conversation() else { return };
        match conversation.switch_tool(name, switch).await {
            Ok(changed) => {
                let said = match (switch, changed.is_empty()) {
                    (Switch::On, true) => format!("the model has {name} already"),
                    (Switch::Off, true) => format!("the model does not have {name}"),
                    (Switch::On, false) => {
                        format!("the model has {} from now on", changed.join(", "))
                    }
                    (Switch::Off, false) => {
                        format!("the model does not have {} any more", changed.join(", "))
                    }
                };
                chat.note(&format!("{said}, in this conversation"));
            }
            Err(SwitchToolError::Store(error)) => return chat.trouble(&store::trouble(&error)),
            Err(error @ SwitchToolError::Unknown { .. }) => {
                let problem = error.to_string();
                let SwitchToolError::Unknown { nearest, .. } = error else { return };
                let advice = match nearest {
                    Some(meant) => format!("did you mean {meant}?"),
                    None => "/tools lists them".to_owned(),
                };
                return chat.trouble(&Trouble { problem, advice: vec![advice] });
            }
        }
    }
    refresh(chat);
}
