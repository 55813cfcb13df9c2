//! Commands on the agent: `/model`, `/reasoning`, `/plan`, `/tools`, `/approvals`, `/yolo`.

use std::sync::Arc;
use std::time::Duration;

use vestal_agent::settings::{self, EndpointError, ModelNameCheck, check_model_name};
use vestal_agent::slash::{self, Invocation, ReasoningRequest};
use vestal_agent::{ConversationMode, Switch, SwitchToolError, ToolInfo};
use vestal_config::ProfileName;
use vestal_model::{Freshness, ReasoningEffort, ReasoningOptions};
use vestal_tui::{Line, PickerItem, Span, Submission, format, style};

use crate::chat::Chat;
use crate::commands::conversations::{self, refresh};
use crate::commands::{self, report_usage_error};
use crate::host::ChatError;

pub(super) async fn model(chat: &mut Chat, invocation: &Invocation) {
    match invocation.strs().as_slice() {
        ["--global" | "-g", name] | [name, "--global" | "-g"] => {
            use_model_globally(chat, name).await;
        }
        ["--global" | "-g"] => report_usage_error(chat, invocation, "which model?"),
        [] => offer_models(chat).await,
        // Same output as the command line.
        ["list" | "set", ..] => {
            chat.run_host_command(verb(["model"].into_iter().chain(invocation.strs()))).await;
        }
        [flag, ..] if flag.starts_with('-') => {
            chat.run_host_command(verb(["model"].into_iter().chain(invocation.strs()))).await;
        }
        [name] => use_model(chat, name).await,
        _ => report_usage_error(chat, invocation, "too many arguments"),
    }
}

/// Lets the user choose a model of those that the providers list, or shows why there are none.
async fn offer_models(chat: &mut Chat) {
    chat.reload_settings();
    let settings = Arc::clone(&chat.settings);
    if settings::known_models(&settings).is_empty() {
        let asking = vestal_runtime::list_models(&settings, Freshness::Cached);
        // What went wrong is shown by the list of the command line below.
        if let Err(failure) = chat.wait_for("asking the providers for their models", asking).await {
            return chat.show_error(&failure);
        }
    }
    let known = settings::known_models(&settings);
    if known.is_empty() {
        chat.run_host_command(verb(["model"])).await;
        return;
    }
    let now = chat.info.endpoint.clone();
    let marked = known.iter().position(|name| *name == now);
    let item = |name: &String| PickerItem {
        label: name.clone(),
        about: if *name == now { "in use".to_owned() } else { String::new() },
    };
    let items = known.iter().map(item).collect();
    let title = "Which model for this conversation? (/model --global NAME for all)";
    commands::pick(chat, title, items, marked.unwrap_or(0), move |chosen| {
        commands::parse_command(&format!("/model {}", slash::quoted(known.get(chosen)?)))
    });
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
    // It may be another one for another model.
    let reasoning = match conversation.reasoning() {
        ReasoningOptions::AUTO => String::new(),
        options => slash::describe_reasoning(options),
    };
    chat.info.reasoning = reasoning;
    chat.info.model.clone_from(&model);
    chat.info.endpoint = format!("{provider}:{model}");
    chat.status.model.clone_from(&model);
    // The last answer was from another model.
    chat.live.usage_totals.model = None;
    refresh(chat);
    chat.note(&format!("this conversation now uses {provider}:{model}"));
}

/// Shows or changes how much the model thinks.
pub(super) async fn reasoning(chat: &mut Chat, invocation: &Invocation) {
    let now = chat.conversation().map(|held| (held.reasoning(), held.is_reasoning_chosen()));
    let Some((now, is_chosen)) = now else {
        let now = if chat.info.reasoning.is_empty() { "auto" } else { &chat.info.reasoning };
        let words = format!("reasoning: {now}; it can be changed when the turn has ended");
        return chat.note(&words);
    };
    let request = match slash::read_reasoning(&invocation.strs(), now) {
        Ok(request) => request,
        Err(problem) => return report_usage_error(chat, invocation, &problem),
    };
    let wanted = match request {
        ReasoningRequest::Show => return offer_reasoning(chat, now, is_chosen),
        ReasoningRequest::Configured => None,
        ReasoningRequest::Set(options) => Some(options),
    };
    let Some(conversation) = chat.conversation() else { return };
    if let Err(error) = conversation.set_reasoning(wanted).await {
        return chat.show_error(&conversations::store_error(&error));
    }
    let words = slash::describe_reasoning(conversation.reasoning());
    let source = if wanted.is_some() { "in this conversation" } else { "as the settings say" };
    chat.info.reasoning = if words == "auto" { String::new() } else { words.clone() };
    chat.is_dirty = true;
    chat.note(&format!("reasoning from the next request on: {words} ({source})"));
}

/// Lets the user choose how much the model thinks.
fn offer_reasoning(chat: &mut Chat, now: ReasoningOptions, is_chosen: bool) {
    let efforts = ReasoningEffort::ALL.into_iter();
    let efforts = efforts.map(|it| (Some(it), it.as_str(), slash::about_effort(it)));
    let auto = (None, "auto", "as much as the provider sees fit");
    let mut offered: Vec<(&str, String)> = Vec::new();
    let mut marked = 0;
    for (effort, word, about) in std::iter::once(auto).chain(efforts) {
        if effort == now.effort {
            marked = offered.len();
            let budget = now.budget_tokens.map(|budget| format!(", {budget} tokens"));
            offered.push((word, format!("{about} · now{}", budget.unwrap_or_default())));
        } else {
            offered.push((word, about.to_owned()));
        }
    }
    if is_chosen {
        offered.push(("default", "as the settings say".to_owned()));
    }
    let item = |(word, about): &(&str, String)| PickerItem {
        label: (*word).to_owned(),
        about: about.clone(),
    };
    let items = offered.iter().map(item).collect();
    let title = "How much shall the model think? (a number of tokens: /reasoning 16000)";
    commands::pick(chat, title, items, marked, move |chosen| {
        commands::parse_command(&format!("/reasoning {}", offered.get(chosen)?.0))
    });
}

/// Turns plan mode on or off, or on with something to plan.
pub(super) async fn plan(chat: &mut Chat, invocation: &Invocation) {
    let mode = match invocation.strs().as_slice() {
        [] => other_mode(chat),
        ["on"] => ConversationMode::Plan,
        ["off"] => ConversationMode::Work,
        _ => {
            if !switch_mode(chat, ConversationMode::Plan).await {
                return;
            }
            let text = invocation.rest.clone();
            return chat.say(Submission { shown: text.clone(), text });
        }
    };
    if !switch_mode(chat, mode).await {
        return;
    }
    match mode {
        ConversationMode::Plan => chat.note(
            "plan mode: the agent only reads, and presents a plan for you to approve (Shift-Tab or /plan off ends it)",
        ),
        ConversationMode::Work => chat.note("plan mode is off: the agent works on what you ask"),
    }
}

fn other_mode(chat: &Chat) -> ConversationMode {
    match chat.info.mode.get() {
        ConversationMode::Work => ConversationMode::Plan,
        ConversationMode::Plan => ConversationMode::Work,
    }
}

/// Switches the mode of the conversation, also while a turn runs. Returns whether it could; why not
/// was reported.
async fn switch_mode(chat: &mut Chat, mode: ConversationMode) -> bool {
    let stored = match chat.conversation() {
        Some(conversation) => conversation.set_mode(mode).await,
        None => {
            chat.info.mode.set(mode);
            Ok(())
        }
    };
    chat.is_dirty = true;
    if let Err(error) = stored {
        chat.show_error(&conversations::store_error(&error));
        return false;
    }
    true
}

/// How long a hint about the mode stays: the status line shows the mode itself.
const HINT: Duration = Duration::from_secs(2);

impl Chat {
    /// Goes on to the next mode. It leaves no trace in the transcript: the key is often pressed twice.
    pub(crate) async fn cycle_mode(&mut self) {
        let mode = other_mode(self);
        if !switch_mode(self, mode).await {
            return;
        }
        let words = match mode {
            ConversationMode::Plan => "plan mode: the agent only reads, and presents a plan",
            ConversationMode::Work => "plan mode is off",
        };
        self.hint(words, HINT);
    }
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
            let guard = Arc::clone(&chat.info.guard);
            let approvals = guard.approvals();
            let gone = approvals.iter().filter(|approval| guard.withdraw(approval)).count();
            chat.note(&format!("{} withdrawn", format::count(gone, "approval")));
        }
        ["forget", number] => forget_approval(chat, invocation, number),
        _ => report_usage_error(chat, invocation, "unknown argument"),
    }
}

fn list_approvals(chat: &mut Chat) {
    let guard = Arc::clone(&chat.info.guard);
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
    let guard = Arc::clone(&chat.info.guard);
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
