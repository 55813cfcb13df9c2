//! Commands on the agent: `/model`, `/tools`, `/approvals`, `/yolo`.

use vestal_agent::settings::{self, EndpointError};
use vestal_agent::slash::{Invocation, nearest};
use vestal_agent::{NotSwitched, Switch, ToolInfo};
use vestal_config::{ProfileName, Settings};
use vestal_model::Endpoint;
use vestal_tui::{Line, Span, style};

use crate::chat::Chat;
use crate::commands::conversations::{self, refresh};
use crate::commands::misused;
use crate::format;
use crate::host::Trouble;

pub(super) async fn model(chat: &mut Chat, invocation: &Invocation) {
    match invocation.strs().as_slice() {
        ["--global" | "-g", name] | [name, "--global" | "-g"] => ask_from_now_on(chat, name).await,
        ["--global" | "-g"] => misused(chat, invocation, "which model is meant?"),
        // Exactly what the command line shows.
        [] | ["list" | "set", ..] => {
            chat.aside(verb(["model"].into_iter().chain(invocation.strs()))).await;
        }
        [flag, ..] if flag.starts_with('-') => {
            chat.aside(verb(["model"].into_iter().chain(invocation.strs()))).await;
        }
        [name] => ask_another(chat, name).await,
        _ => misused(chat, invocation, "one model is enough"),
    }
}

fn verb<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    words.into_iter().map(str::to_owned).collect()
}

/// Has another model asked in all conversations that are begun, and in this one.
async fn ask_from_now_on(chat: &mut Chat, name: &str) {
    if chat.aside(verb(["model", "set", name])).await {
        ask_another(chat, name).await;
    }
}

/// Has another model asked in this conversation.
async fn ask_another(chat: &mut Chat, name: &str) {
    // Somebody may have made it known a moment ago.
    chat.reread_settings();
    let chain = match settings::endpoints(&chat.settings, Some(name)) {
        Ok(chain) => chain,
        Err(error) => {
            let trouble = endpoint_trouble(&error, chat.settings.home().profile());
            return chat.trouble(&trouble);
        }
    };
    let Some(first) = chain.first() else { return };
    let (provider, model) = (first.name.clone(), first.model.clone());
    match judge(&chat.settings, name, first) {
        Judged::Fine => {}
        Judged::Unlisted => chat.warn(&format!("{provider} does not list a model {model}")),
        Judged::Slip(meant) => {
            let problem = format!("{provider} does not list a model {model}");
            let advice = vec![
                format!("did you mean /model {meant}?"),
                format!("to ask it all the same: /model {provider}:{model}"),
            ];
            return chat.trouble(&Trouble { problem, advice });
        }
    }
    let Some(conversation) = chat.conversation() else {
        return chat.note("a turn runs; /model asks another one when it has ended");
    };
    if let Err(error) = conversation.set_chain(chain).await {
        return chat.trouble(&conversations::store_trouble(&error));
    }
    chat.about.model.clone_from(&model);
    chat.status.model.clone_from(&model);
    // What answered last is not what answers next.
    chat.live.tally.model = None;
    refresh(chat);
    chat.note(&format!("{provider}:{model} is asked in this conversation from now on"));
}

/// What is known about a name.
#[derive(Debug, PartialEq, Eq)]
enum Judged {
    /// It is listed, or nobody knows what is.
    Fine,
    /// It is not listed, and nothing like it is, or it was named in full.
    Unlisted,
    /// Something else was meant.
    Slip(String),
}

fn judge(settings: &Settings, name: &str, endpoint: &Endpoint) -> Judged {
    let lists = settings::model_lists(settings);
    let Some(listed) = lists.kept(endpoint) else { return Judged::Fine };
    if listed.models.iter().any(|known| known.id == endpoint.model) {
        return Judged::Fine;
    }
    // Who names the provider, too, means it.
    if name == format!("{}:{}", endpoint.name, endpoint.model) {
        return Judged::Unlisted;
    }
    let known = known_models(settings);
    // Another provider's model, or a slip in the name of one of this provider's.
    let elsewhere = known
        .iter()
        .find(|known| known.split_once(':').is_some_and(|(_, model)| model == endpoint.model));
    if let Some(elsewhere) = elsewhere {
        return Judged::Slip(elsewhere.clone());
    }
    match nearest(&endpoint.model, listed.models.iter().map(|known| &*known.id)) {
        Some(meant) => Judged::Slip(meant.to_owned()),
        None => Judged::Unlisted,
    }
}

/// Returns the models that are known without anybody being asked, each with its
/// provider.
pub(crate) fn known_models(settings: &Settings) -> Vec<String> {
    let lists = settings::model_lists(settings);
    let rows = settings::provider_rows(settings).unwrap_or_default();
    let mut known = Vec::new();
    for row in rows {
        let Ok(endpoint) = row.endpoint else { continue };
        let listed = lists.kept(&endpoint).map(|listed| listed.models).unwrap_or_default();
        known.extend(listed.into_iter().map(|model| format!("{}:{}", row.name, model.id)));
    }
    known
}

fn endpoint_trouble(error: &EndpointError, profile: &ProfileName) -> Trouble {
    Trouble { problem: error.to_string(), advice: error.advice_in(profile) }
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
        ["enable" | "on" | "disable" | "off"] => misused(chat, invocation, "which tool is meant?"),
        [other, ..] => misused(chat, invocation, &format!("{other:?} is not understood")),
    }
}

/// Lists the tools by toolset; those the model does not have are marked.
fn list_tools(chat: &mut Chat) {
    let Some(conversation) = chat.conversation() else { return };
    let tools = conversation.tools();
    let widest = tools.iter().map(|tool| tool.name.chars().count()).max().unwrap_or(0);
    let columns = usize::from(chat.screen.size().columns);
    for set in tools.chunk_by(|a, b| a.toolset == b.toolset) {
        if let Some(first) = set.first() {
            chat.say(Line::styled(&first.toolset, style::BOLD));
        }
        for tool in set {
            chat.say(tool_row(tool, widest, columns));
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
            Err(NotSwitched::Store(error)) => {
                return chat.trouble(&conversations::store_trouble(&error));
            }
            Err(error @ NotSwitched::Unknown { .. }) => {
                let problem = error.to_string();
                let NotSwitched::Unknown { nearest, .. } = error else { return };
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

pub(super) fn approvals(chat: &mut Chat, invocation: &Invocation) {
    match invocation.strs().as_slice() {
        [] => list_approvals(chat),
        ["forget", "all"] => {
            let guard = std::sync::Arc::clone(&chat.about.guard);
            let approvals = guard.approvals();
            let gone = approvals.iter().filter(|approval| guard.withdraw(approval)).count();
            chat.note(&format!("{} taken back", format::count(gone, "approval")));
        }
        ["forget", number] => forget_approval(chat, invocation, number),
        _ => misused(chat, invocation, "that is not understood"),
    }
}

fn list_approvals(chat: &mut Chat) {
    let guard = std::sync::Arc::clone(&chat.about.guard);
    let approvals = guard.approvals();
    if guard.is_yolo() {
        chat.note("nothing is asked about in this conversation (/yolo off)");
    }
    if approvals.is_empty() {
        chat.note("nothing is approved for this conversation");
    } else {
        chat.say(Line::styled("approved for this conversation", style::BOLD));
    }
    for (number, approval) in (1..).zip(&approvals) {
        let shown = one_line(&chat.agent.redactor().redact(approval));
        chat.say(Line::plain(format!("  {number}  {shown}")));
    }
    let lasting = guard.lasting_approvals();
    if !lasting.is_empty() {
        chat.say(Line::styled("approved for always (command_allowlist)", style::BOLD));
    }
    for approval in lasting {
        let shown = one_line(&chat.agent.redactor().redact(approval));
        chat.say(Line::plain(format!("     {shown}")));
    }
}

fn forget_approval(chat: &mut Chat, invocation: &Invocation, number: &str) {
    let approvals = chat.about.guard.approvals();
    let place = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let Some(approval) = place.and_then(|place| approvals.get(place)) else {
        return misused(chat, invocation, &format!("there is no approval {number}"));
    };
    chat.about.guard.withdraw(approval);
    let shown = one_line(&chat.agent.redactor().redact(approval));
    chat.note(&format!("asked about again: {shown}"));
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(super) fn yolo(chat: &mut Chat, invocation: &Invocation) {
    let guard = std::sync::Arc::clone(&chat.about.guard);
    let on = match invocation.strs().as_slice() {
        [] => !guard.is_yolo(),
        ["on"] => true,
        ["off"] => false,
        _ => return misused(chat, invocation, "it is switched on or off"),
    };
    guard.set_yolo(on);
    chat.status.is_yolo = on;
    chat.is_dirty = true;
    if on {
        chat.warn(
            "nothing is asked about in this conversation any more; what is never allowed stays refused (/yolo off)",
        );
    } else {
        chat.note("what is dangerous is asked about again");
    }
}
