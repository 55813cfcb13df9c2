//! `vestal model setup`: who is asked, in two or three questions.

mod questions;

use clap::Args;
use vestal_agent::settings::{self, Candidate};
use vestal_config::{AnyKey as _, EnvName, Settings, keys};
use vestal_model::{Endpoint, Message, ModelError, ModelInfo, Models, Options, Request};

use crate::agent;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use questions::{AfterFailure, Key, Questions};

/// Tokens that a model may take to say that it is there. Some think before
/// they speak, and a smaller budget would be spent on that.
const HELLO_TOKENS: u64 = 512;

const HELLO: &str = "Answer with the one word: hello";

#[derive(Debug, Args)]
pub(super) struct SetupArgs {}

pub(super) async fn run(context: &Context, _: SetupArgs) -> Result<Exit, Failure> {
    if !agent::is_present() {
        return Err(Failure::usage("questions need a terminal, and there is none")
            .advise("without one: vestal config set model.provider NAME, vestal model set NAME")
            .advise("and the key in .env beside the file that `vestal config path` names"));
    }
    Ok(if set_up(context).await? { Exit::Success } else { Exit::No })
}

/// Asks who is to be asked, tries it, and keeps what works. Nothing is written
/// before the last question is answered; returns whether anything was.
pub(crate) async fn set_up(context: &Context) -> Result<bool, Failure> {
    let settings = context.settings()?;
    let questions = Questions { console: context.console, settings: &settings };
    let Some(answers) = ask(context, &settings, &questions).await? else {
        context.console.note("nothing was changed; to be asked again: vestal model setup");
        context.console.note(
            "by hand: vestal config set model.base_url URL, vestal model set NAME, and the key in .env",
        );
        return Ok(false);
    };
    keep(context, &settings, &answers)?;
    Ok(true)
}

/// What was chosen.
struct Answers {
    candidate: Candidate,
    key: Key,
    model: String,
}

async fn ask(
    context: &Context,
    settings: &Settings,
    questions: &Questions<'_>,
) -> Result<Option<Answers>, Failure> {
    let options = settings::model_options(settings)?;
    let models = Models::new(Options { retries: 0, ..options })?;
    'provider: loop {
        let Some(candidate) = questions.provider()? else { return Ok(None) };
        let mut refused = false;
        loop {
            let Some(key) = questions.key(&candidate, refused)? else {
                return Ok(None);
            };
            let endpoint = candidate.endpoint(key.get(), "");
            let what = format!("asking {} which models it has", candidate.provider);
            let listed = context.console.while_waiting(&what, models.list(&endpoint)).await;
            let offered = match listed {
                Ok(offered) => offered,
                Err(error) if is_without_list(&error) => Vec::new(),
                Err(error) => {
                    explain(context, &error);
                    refused = matches!(error, ModelError::Authentication { .. });
                    if refused {
                        continue;
                    }
                    match questions.after_failure() {
                        AfterFailure::Again => continue,
                        AfterFailure::Other => continue 'provider,
                        AfterFailure::Leave => return Ok(None),
                        AfterFailure::Anyway => Vec::new(),
                    }
                }
            };
            loop {
                let Some(model) = questions.model(&candidate, &offered) else { return Ok(None) };
                let endpoint = candidate.endpoint(key.get(), &model);
                let tried = try_model(context, &models, endpoint).await;
                let answers = || Answers { candidate: candidate.clone(), key: key.clone(), model };
                match tried {
                    Ok(()) => return Ok(Some(answers())),
                    Err(error) => {
                        explain(context, &error);
                        match questions.after_failure() {
                            AfterFailure::Again => {}
                            AfterFailure::Other => continue 'provider,
                            AfterFailure::Anyway => return Ok(Some(answers())),
                            AfterFailure::Leave => return Ok(None),
                        }
                    }
                }
            }
        }
    }
}

/// Says something to the model, and hears whether it answers.
async fn try_model(
    context: &Context,
    models: &Models,
    endpoint: Endpoint,
) -> Result<(), ModelError> {
    let name = endpoint.model.clone();
    let chat = models.chat(vec![endpoint]);
    let messages = [Message::user(HELLO)];
    let request = Request {
        messages: &messages,
        max_output_tokens: Some(HELLO_TOKENS),
        ..Request::default()
    };
    let began = std::time::Instant::now();
    let what = format!("asking {name} to say hello");
    let mut unwatched = |_| {};
    context.console.while_waiting(&what, chat.complete(&request, &mut unwatched)).await?;
    let took = crate::console::text::took(began.elapsed());
    context.console.note(&format!("{name} answered in {took}"));
    Ok(())
}

/// Reports whether the provider is there and has no list to show: many servers
/// of one model have none.
fn is_without_list(error: &ModelError) -> bool {
    matches!(error, ModelError::NotFound { .. } | ModelError::BadRequest { .. })
}

fn explain(context: &Context, error: &ModelError) {
    context.console.warn(&error.to_string());
    context.console.note(&error.advice());
}

/// Writes what was chosen: the key first, so that what names it never stands
/// without it.
fn keep(context: &Context, settings: &Settings, answers: &Answers) -> Result<(), Failure> {
    let Answers { candidate, key, model } = answers;
    if let Key::New(key) = key
        && let Some(variable) = variable_for(settings, candidate)?
    {
        let path = vestal_config::set_variable(settings, &variable, key)
            .map_err(|error| Failure::new(error.to_string()))?;
        let told = format!("kept the key as {variable} in {}, for you alone", path.display());
        context.console.note(&told);
    }
    let set = |key: &str, value: &str| -> Result<(), Failure> {
        let outcome = vestal_config::set(settings, key, value)?;
        let told = format!("set {} to {value} in {}", outcome.name, outcome.path.display());
        context.console.note(&told);
        if let Some(source) = outcome.hidden_by {
            let told = format!("it has no effect as long as {source} says something else");
            context.console.warn(&told);
        }
        Ok(())
    };
    if !candidate.is_built_in() {
        set(keys::MODEL_BASE_URL.name(), &candidate.base_url)?;
    }
    set(keys::MODEL_PROVIDER.name(), candidate.provider)?;
    set(keys::MODEL_DEFAULT.name(), model)
}

/// Returns where the key goes. One that the settings have for whatever model
/// goes before those of the providers, so it is the one to be replaced.
fn variable_for(settings: &Settings, candidate: &Candidate) -> Result<Option<EnvName>, Failure> {
    let is_set = settings.get(&keys::MODEL_API_KEY)?.value.expose().is_some();
    let general = keys::MODEL_API_KEY.env().first().and_then(|name| EnvName::new(name));
    Ok(if is_set { general } else { candidate.variable() })
}

/// Returns the models whose name has the words in it, best first.
fn matching<'a>(offered: &'a [ModelInfo], words: &str) -> Vec<&'a ModelInfo> {
    let words = words.to_lowercase();
    let exact = offered.iter().filter(|model| model.id.to_lowercase() == words);
    let part = offered.iter().filter(|model| {
        let id = model.id.to_lowercase();
        id != words && id.contains(&words)
    });
    exact.chain(part).collect()
}
