//! `/yolo`.

use vestal_agent::slash::Invocation;

use super::misused;
use crate::chat::Chat;

pub(super) fn run(chat: &mut Chat, invocation: &Invocation) {
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
