//! `/model`.

use vestal_agent::settings::{self, EndpointError};
use vestal_agent::slash::{Invocation, nearest};
use vestal_config::{ProfileName, Settings};
use vestal_model::Endpoint;

use super::turns::refresh;
use super::{misused, store};
use crate::chat::Chat;
use crate::program::Trouble;

pub(super) async fn run(chat: &mut Chat, invocation: &Invocation) {
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
            let trouble = trouble(&error, chat.settings.home().profile());
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
        return chat.trouble(&store::trouble(&error));
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

fn trouble(error: &EndpointError, profile: &ProfileName) -> Trouble {
    Trouble { problem: error.to_string(), advice: error.advice_in(profile) }
}
