//! `/approvals`.

use vestal_agent::slash::Invocation;

use super::misused;
use crate::chat::Chat;
use crate::text;
use vestal_tui::{Line, style};

pub(super) fn run(chat: &mut Chat, invocation: &Invocation) {
    match invocation.strs().as_slice() {
        [] => list(chat),
        ["forget", "all"] => {
            let guard = std::sync::Arc::clone(&chat.about.guard);
            let approvals = guard.approvals();
            let gone = approvals.iter().filter(|approval| guard.withdraw(approval)).count();
            chat.note(&format!("{} taken back", text::count(gone, "approval")));
        }
        ["forget", number] => forget(chat, invocation, number),
        _ => misused(chat, invocation, "that is not understood"),
    }
}

fn list(chat: &mut Chat) {
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

fn forget(chat: &mut Chat, invocation: &Invocation, number: &str) {
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
