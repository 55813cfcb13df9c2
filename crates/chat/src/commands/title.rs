//! `/title`.

use vestal_agent::slash::Invocation;

use super::store::trouble;
use crate::chat::Chat;

pub(super) async fn run(chat: &mut Chat, invocation: &Invocation) {
    let Some(conversation) = chat.conversation() else { return };
    let id = conversation.id().short().to_owned();
    if invocation.rest.is_empty() {
        return match conversation.title().await {
            Ok(Some(title)) => chat.note(&format!("this conversation is {title:?} ({id})")),
            Ok(None) => chat.note(&format!(
                "this conversation ({id}) has no title yet; its first words become it"
            )),
            Err(error) => chat.trouble(&trouble(&error)),
        };
    }
    match conversation.set_title(&invocation.rest).await {
        Ok(title) => chat.note(&format!("this conversation is {title:?} now")),
        Err(error) => chat.trouble(&trouble(&error)),
    }
}
