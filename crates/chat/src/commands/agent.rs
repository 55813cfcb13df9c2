//! Commands on the agent: `/model`, `/tools`, `/approvals`, `/yolo`.

use vestal_agent::settings::{self, EndpointError, ModelNameCheck, check_model_name};
use vestal_agent::slash::Invocation;
use vestal_agent::{Switch, SwitchToolError, ToolInfo};
use vestal_config::ProfileName;
use vestal_tui::{Line, Span, format, style};

use crate::chat::Chat;
use crate::commands::conversations::{self, refresh};
use crate::commands::report_usage_error;
use crate::host::ChatError;

pub(super) async fn model(chat: &mut Chat, invocation: &Invocation) {
    match invocation.strs().as_slice() {
        ["--global" | "-g", name] | [name, "--global" | "-g"] => {
            use_model_globally(chat, name).await;
        }
        ["--global" | "-g"] => report_usage_error(chat, invocation, "which model?"),
        // Same output as the command line.
        [] | ["list" | "set", ..] => {
            chat.run_host_command(verb(["model"].into_iter().chain(invocation.strs()))).await;
        }
        [flag, ..] if flag.starts_with('-') => {
            chat.run_host_command(verb(["model"].into_iter().chain(invocation.strs()))).await;
        }
        [name] => use_model(chat, name).await,
        _ => report_usage_error(chat, invocation, "too many arguments"),
    }
}

fn verb<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    words.into_iter().map(str::to_owned).collect()
}

/// Uses another model in this conversation and in all new ones.
async fn use_model_globally(chat: &mut Chat, name: &str) {
    if chat.run_host_command(verb(["model", "set", name])).await {
        use_model(chat, name).await;
    }
}

/// Uses another model in this conversation.
async fn use_model(chat: &mut Chat, name: &str) {
    // The model may have just been configured.
    chat.reload_settings();
    let chain = match settings::endpoints(&chat.settings, Some(name)) {
        Ok(chain) => chain,
        Err(error) => {
            let failure = endpoint_error(&error, chat.settings.home().profile());
            return chat.show_error(&failure);
        }
    };
    let Some(first) = chain.first() else { return };
    let (provider, model) = (first.name.clone(), first.model.clone());
    match check_model_name(&chat.settings, name, first) {
        ModelNameCheck::Listed => {}
        ModelNameCheck::Unlisted => chat.warn(&format!("{provider} does not list a model {model}")),
        ModelNameCheck::Typo(meant) => {
            let problem = format!("{provider} does not list a model {model}");
            let advice = vec![
                format!("did you mean /model {meant}?"),
                format!("to use it anyway: /model {provider}:{model}"),
            ];
            return chat.show_error(&ChatError { problem, advice });
        }
    }
    let Some(conversation) = chat.conversation() else {
        return chat.note("a turn is running; /model works when it has ended");
    };
    if let Err(error) = conversation.set_chain(chain).await {
        return chat.show_error(&conversations::store_error(&error));
    }
    chat.info.model.clone_from(&model);
    chat.status.model.clone_from(&model);
    // The last answer was from another model.
    chat.live.usage_totals.model = None;
    refresh(chat);
    chat.note(&format!("this conversation now uses {provider}:{model}"));
}

fn endpoint_error(error: &EndpointError, profile: &ProfileName) -> ChatError {
    ChatError { problem: error.to_string(), advice: error.advice_in(profile) }
}

pub(super) async fn tools(chat: &mut Chat, invocation: &Invocation) {
    match invocation.strs().as_slice() {
        [] | ["list"] => list_tools(chat),
        ["enable" | "on", names @ ..] if !names.is_empty() => {
            switch_tools(chat, names, Switch::On).await;
        }
        ["disable" | "off", names @ ..] if !names.is_empty() => {
            switch_tools(chat, names, Switch::Off).await;
        }
        ["enable" | "on" | "disable" | "off"] => {
            report_usage_error(chat, invocation, "which tool?");
        }
        [other, ..] => report_usage_error(chat, invocation, &format!("unknown argument {other:?}")),
    }
}

/// Lists the tools by toolset; disabled ones are marked.
fn list_tools(chat: &mut Chat) {
    let Some(conversation) = chat.conversation() else { return };
    let tools = conversation.tools();
    let widest = tools.iter().map(|tool| tool.name.chars().count()).max().unwrap_or(0);
    let columns = usize::from(chat.screen.size().columns);
    for set in tools.chunk_by(|a, b| a.toolset == b.toolset) {
        if let Some(first) = set.first() {
            chat.print_line(Line::styled(&first.toolset, style::BOLD));
        }
        for tool in set {
            chat.print_line(tool_row(tool, widest, columns));
        }
    }
}

fn tool_row(tool: &ToolInfo, widest: usize, columns: usize) -> Line {
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

async fn switch_tools(chat: &mut Chat, names: &[&str], switch: Switch) {
    for name in names {
        let Some(conversation) = chat.conversation() else { return };
        match conversation.switch_tool(name, switch).await {
            Ok(changed) => {
                let change = match (switch, changed.is_empty()) {
                    (Switch::On, true) => format!("{name} is already enabled"),
                    (Switch::Off, true) => format!("{name} is already disabled"),
                    (Switch::On, false) => {
                        format!("{} enabled", changed.join(", "))
                    }
                    (Switch::Off, false) => {
                        format!("{} disabled", changed.join(", "))
                    }
                };
                chat.note(&format!("{change} in this conversation"));
            }
            Err(SwitchToolError::Store(error)) => {
                return chat.show_error(&conversations::store_error(&error));
            }
            Err(error @ SwitchToolError::Unknown { .. }) => {
                let problem = error.to_string();
                let SwitchToolError::Unknown { nearest, .. } = error else { return };
                let advice = match nearest {
                    Some(meant) => format!("did you mean {meant}?"),
                    None => "/tools lists them".to_owned(),
                };
                return chat.show_error(&ChatError { problem, advice: vec![advice] });
            }
        }
    }
    refresh(chat);
}

pub(super) fn approvals(chat: &mut Chat, invocation: &Invocation) {
    match invocation.strs().as_slice() {
        [] => list_approvals(chat),
        ["forget", "all"] => {
            let guard = std::sync::Arc::clone(&chat.info.guard);
            let approvals = guard.approvals();
            let gone = approvals.iter().filter(|approval| guard.withdraw(approval)).count();
            chat.note(&format!("{} withdrawn", format::count(gone, "approval")));
        }
        ["forget", number] => forget_approval(chat, invocation, number),
        _ => report_usage_error(chat, invocation, "unknown argument"),
    }
}

fn list_approvals(chat: &mut Chat) {
    let guard = std::sync::Arc::clone(&chat.info.guard);
    let approvals = guard.approvals();
    if guard.is_yolo() {
        chat.note("approvals are off in this conversation; /yolo off turns them on");
    }
    if approvals.is_empty() {
        chat.note("there are no approvals for this conversation");
    } else {
        chat.print_line(Line::styled("approved for this conversation", style::BOLD));
    }
    for (number, approval) in (1..).zip(&approvals) {
        let shown = one_line(&chat.agent.redactor().redact(approval));
        chat.print_line(Line::plain(format!("  {number}  {shown}")));
    }
    let lasting = guard.lasting_approvals();
    if !lasting.is_empty() {
        chat.print_line(Line::styled("always approved (command_allowlist)", style::BOLD));
    }
    for approval in lasting {
        let shown = one_line(&chat.agent.redactor().redact(approval));
        chat.print_line(Line::plain(format!("     {shown}")));
    }
}

fn forget_approval(chat: &mut Chat, invocation: &Invocation, number: &str) {
    let approvals = chat.info.guard.approvals();
    let index = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let Some(approval) = index.and_then(|index| approvals.get(index)) else {
        return report_usage_error(chat, invocation, &format!("there is no approval {number}"));
    };
    chat.info.guard.withdraw(approval);
    let shown = one_line(&chat.agent.redactor().redact(approval));
    chat.note(&format!("approval withdrawn: {shown}"));
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(super) fn yolo(chat: &mut Chat, invocation: &Invocation) {
    let guard = std::sync::Arc::clone(&chat.info.guard);
    let on = match invocation.strs().as_slice() {
        [] => !guard.is_yolo(),
        ["on"] => true,
        ["off"] => false,
        _ => return report_usage_error(chat, invocation, "expected `on` or `off`"),
    };
    guard.set_yolo(on);
    chat.status.is_yolo = on;
    chat.is_dirty = true;
    if on {
        chat.warn(
            "the agent no longer asks for approval in this conversation; forbidden commands stay refused (/yolo off)",
        );
    } else {
        chat.note("the agent asks before dangerous commands again");
    }
}
