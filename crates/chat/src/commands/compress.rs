//! `/compress`.

use vestal_agent::CompressError;

use crate::chat::Chat;
use crate::program::Trouble;
use crate::text;

pub(super) fn run(chat: &mut Chat) {
    chat.begin_work("summing up", |mut conversation, sink| async move {
        let came = match conversation.compress(&sink).await {
            // How much was summed up has been told by then.
            Ok(done) => Ok(Some(format!(
                "about {} tokens by now, {} before",
                text::tokens(done.tokens),
                text::tokens(done.tokens_before),
            ))),
            // Nothing went wrong.
            Err(reason @ (CompressError::TooShort { .. } | CompressError::Interrupted)) => {
                Ok(Some(reason.to_string()))
            }
            Err(reason @ CompressError::Model(_)) => {
                Err((reason.to_string(), "try again, or ask another model: /model NAME"))
            }
            Err(reason @ (CompressError::Empty | CompressError::Store(_))) => {
                Err((reason.to_string(), "try again"))
            }
        };
        let came =
            came.map_err(|(problem, advice)| Trouble { problem, advice: vec![advice.to_owned()] });
        (conversation, came)
    });
}
