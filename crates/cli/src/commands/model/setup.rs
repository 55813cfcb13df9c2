//! `vestal model setup`: asks for a provider, a key and a model, tries them, and saves them.

mod questions;

use std::time::Duration;

use clap::Args;
use vestal_agent::keys;
use vestal_agent::settings::{self, KeyOwner, ProviderCandidate};
use vestal_config::{AnyKey as _, EnvName, Resolved, Settings, ValueSource};
use vestal_model::{Endpoint, Message, ModelError, ModelInfo, ModelOptions, ModelRequest, Models};

use self::questions::{AfterFailure, ProviderKey, SetupQuestions};
use crate::agent;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

/// Tokens that a model may take to say that it is there. Some think before
/// they speak, and a smaller budget would be spent on that.
const HELLO_TOKENS: u64 = 512;

const HELLO: &str = "Answer with the one word: hello";

/// How long a server may say nothing that is to list its models. To answer it
/// may take longer: it may have to load one first.
const LIST_IDLE: Duration = Duration::from_secs(15);

#[derive(Debug, Args)]
pub(super) struct SetupArgs {}

pub(super) async fn run(context: &Context, _: SetupArgs) -> Result<Exit, CommandFailure> {
    if !agent::is_present() {
        return Err(CommandFailure::usage("questions need a terminal")
            .advise("without one: vestal config set model.provider NAME, vestal model set NAME")
            .advise("and the key in .env beside the file that `vestal config path` names"));
    }
    Ok(if set_up(context).await? { Exit::Success } else { Exit::No })
}

/// Asks who is to be asked, tries it, and keeps what works. Nothing is written
/// before the last question is answered; returns whether anything was.
pub(crate) async fn set_up(context: &Context) -> Result<bool, CommandFailure> {
    let settings = context.settings()?;
    let Some(answers) = Setup::new(context, &settings)?.ask().await? else {
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
pub(super) struct SetupAnswers {
    candidate: ProviderCandidate,
    key: ProviderKey,
    model: String,
}

/// What comes after a question.
enum NextQuestion<T> {
    With(T),
    /// The questions about a server at another address.
    At(ProviderCandidate),
    /// The first question, again.
    Other,
    /// The person wants to stop.
    Leave,
}

struct Setup<'a> {
    context: &'a Context,
    questions: SetupQuestions<'a>,
    lists: Models,
    models: Models,
}

impl<'a> Setup<'a> {
    fn new(context: &'a Context, settings: &'a Settings) -> Result<Self, CommandFailure> {
        // A server that is only tried leaves nothing in the kept lists.
        let options =
            ModelOptions { retries: 0, lists: None, ..settings::model_options(settings)? };
        let idle_timeout = options.idle_timeout.min(LIST_IDLE);
        Ok(Self {
            context,
            questions: SetupQuestions { console: context.console, settings },
            lists: Models::new(ModelOptions { idle_timeout, ..options.clone() })?,
            models: Models::new(options)?,
        })
    }

    async fn ask(&self) -> Result<Option<SetupAnswers>, CommandFailure> {
        let mut corrected = None;
        loop {
            let candidate = match corrected.take() {
                Some(candidate) => Some(candidate),
                None => self.questions.provider()?,
            };
            let Some(candidate) = candidate else { return Ok(None) };
            match Box::pin(self.ask_about(candidate)).await? {
                NextQuestion::With(answers) => return Ok(Some(answers)),
                NextQuestion::At(candidate) => corrected = Some(candidate),
                NextQuestion::Other => {}
                NextQuestion::Leave => return Ok(None),
            }
        }
    }

    async fn ask_about(
        &self,
        mut candidate: ProviderCandidate,
    ) -> Result<NextQuestion<SetupAnswers>, CommandFailure> {
        let Some(mut key) = self.questions.key(&candidate)? else { return Ok(NextQuestion::Leave) };
        let offered = match self.offered(&mut candidate, &mut key).await? {
            NextQuestion::With(offered) => offered,
            NextQuestion::At(candidate) => return Ok(NextQuestion::At(candidate)),
            NextQuestion::Other => return Ok(NextQuestion::Other),
            NextQuestion::Leave => return Ok(NextQuestion::Leave),
        };
        Ok(match self.answering(&candidate, &mut key, &offered).await? {
            NextQuestion::With(model) => NextQuestion::With(SetupAnswers { candidate, key, model }),
            NextQuestion::At(candidate) => NextQuestion::At(candidate),
            NextQuestion::Other => NextQuestion::Other,
            NextQuestion::Leave => NextQuestion::Leave,
        })
    }

    /// Returns the models there are to choose from: none where nobody says. A
    /// key that is refused is asked for again, and an address that lacks its
    /// usual end gets it.
    async fn offered(
        &self,
        candidate: &mut ProviderCandidate,
        key: &mut ProviderKey,
    ) -> Result<NextQuestion<Vec<ModelInfo>>, CommandFailure> {
        loop {
            let error = match self.list(candidate, key).await {
                Ok(offered) => return Ok(NextQuestion::With(offered)),
                Err(error) => error,
            };
            if may_be_elsewhere(&error)
                && let Some(meant) = candidate.with_version()
                && let Ok(offered) = self.list(&meant, key).await
            {
                self.context.console.note(&format!("its address is {}", meant.base_url));
                *candidate = meant;
                return Ok(NextQuestion::With(offered));
            }
            if is_without_list(&error) {
                return Ok(NextQuestion::With(Vec::new()));
            }
            self.explain(&error);
            if is_of_key(&error) {
                match self.questions.new_key(candidate)? {
                    Some(new) => *key = new,
                    None => return Ok(NextQuestion::Leave),
                }
                continue;
            }
            match self.questions.after_failure(candidate) {
                AfterFailure::Again => {}
                AfterFailure::Address => return Ok(self.elsewhere(candidate)),
                AfterFailure::Other => return Ok(NextQuestion::Other),
                AfterFailure::Leave => return Ok(NextQuestion::Leave),
                AfterFailure::Anyway => return Ok(NextQuestion::With(Vec::new())),
            }
        }
    }

    /// Returns a model that answers, or that is to be kept although it does not.
    async fn answering(
        &self,
        candidate: &ProviderCandidate,
        key: &mut ProviderKey,
        offered: &[ModelInfo],
    ) -> Result<NextQuestion<String>, CommandFailure> {
        let mut chosen: Option<String> = None;
        loop {
            let model = match chosen.take() {
                Some(model) => model,
                None => match self.questions.model(candidate, offered) {
                    Some(model) => model,
                    None => return Ok(NextQuestion::Leave),
                },
            };
            let Err(error) = self.greet(candidate, key, &model).await else {
                return Ok(NextQuestion::With(model));
            };
            self.explain(&error);
            // Some show their list to everybody, and the key is refused only here.
            if is_of_key(&error) {
                match self.questions.new_key(candidate)? {
                    Some(new) => *key = new,
                    None => return Ok(NextQuestion::Leave),
                }
                chosen = Some(model);
                continue;
            }
            match self.questions.after_failure(candidate) {
                // Another name is asked for where this one is the trouble.
                AfterFailure::Again if is_without_list(&error) => {}
                AfterFailure::Again => chosen = Some(model),
                AfterFailure::Address => return Ok(self.elsewhere(candidate)),
                AfterFailure::Other => return Ok(NextQuestion::Other),
                AfterFailure::Anyway => return Ok(NextQuestion::With(model)),
                AfterFailure::Leave => return Ok(NextQuestion::Leave),
            }
        }
    }

    /// Asks for another address. The key is asked for anew, too: it belongs to
    /// the address it was given for.
    fn elsewhere<T>(&self, candidate: &ProviderCandidate) -> NextQuestion<T> {
        self.questions.address(&candidate.base_url).map_or(NextQuestion::Leave, NextQuestion::At)
    }

    async fn list(
        &self,
        candidate: &ProviderCandidate,
        key: &ProviderKey,
    ) -> Result<Vec<ModelInfo>, ModelError> {
        let endpoint = endpoint(candidate, key, "");
        let what = format!("asking {} which models it has", candidate.label());
        self.context.console.while_waiting(&what, self.lists.list(&endpoint)).await
    }

    /// Says something to the model, and hears whether it answers.
    async fn greet(
        &self,
        candidate: &ProviderCandidate,
        key: &ProviderKey,
        name: &str,
    ) -> Result<(), ModelError> {
        let chat = self.models.chat(vec![endpoint(candidate, key, name)]);
        let messages = [Message::user(HELLO)];
        let request = ModelRequest {
            messages: &messages,
            max_output_tokens: Some(HELLO_TOKENS),
            ..ModelRequest::default()
        };
        let began = std::time::Instant::now();
        let what = format!("asking {name} to say hello");
        let mut unwatched = |_| {};
        let console = self.context.console;
        console.while_waiting(&what, chat.complete(&request, &mut unwatched)).await?;
        let took = crate::console::text::took(began.elapsed());
        console.note(&format!("{name} answered in {took}"));
        Ok(())
    }

    fn explain(&self, error: &ModelError) {
        self.context.console.warn(&error.to_string());
        self.context.console.note(&error.advice());
    }
}

/// Returns where a model is asked, by a name that says something to somebody
/// who has not read the settings.
fn endpoint(candidate: &ProviderCandidate, key: &ProviderKey, model: &str) -> Endpoint {
    Endpoint { name: candidate.label(), ..candidate.endpoint(key.get(), model) }
}

/// Reports whether the provider is there and has no list to show: many servers
/// of one model have none.
fn is_without_list(error: &ModelError) -> bool {
    matches!(error, ModelError::NotFound { .. } | ModelError::BadRequest { .. })
}

/// Reports whether somebody answers who may be reached at a longer address.
fn may_be_elsewhere(error: &ModelError) -> bool {
    is_without_list(error) || matches!(error, ModelError::Protocol { .. })
}

/// Reports whether another key may be better.
fn is_of_key(error: &ModelError) -> bool {
    matches!(error, ModelError::Authentication { .. })
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

/// Writes what was chosen. Whatever this is stopped after, no key stands beside
/// the address of another server: a key that is somebody else's goes first, then
/// the server is named, then its own key is written.
pub(super) fn keep(
    context: &Context,
    settings: &Settings,
    answers: &SetupAnswers,
) -> Result<(), CommandFailure> {
    let SetupAnswers { candidate, key, model } = answers;
    let place = KeyPlace::find(settings, candidate, key)?;
    if place == KeyPlace::AfterAnother {
        take_back(context, settings, candidate)?;
    }
    let set = |key: &str, value: &str| -> Result<(), CommandFailure> {
        let outcome = vestal_config::set(settings, key, value)?;
        let message = format!("set {} to {value} in {}", outcome.name, outcome.path.display());
        context.console.note(&message);
        if let Some(source) = outcome.hidden_by {
            let message = format!("it has no effect, because {source} overrides it");
            context.console.warn(&message);
        }
        Ok(())
    };
    if !candidate.is_built_in() {
        set(keys::MODEL_BASE_URL.name(), &candidate.base_url)?;
    }
    set(keys::MODEL_PROVIDER.name(), candidate.provider)?;
    keep_key(context, settings, candidate, key, place)?;
    set(keys::MODEL_DEFAULT.name(), model)
}

/// Where the key of the chosen server is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyPlace {
    /// In the variable of the server.
    Own,
    /// In `model.api_key`, which goes before the variable of a built-in provider.
    Model,
    /// In the variable of the server, once the key of another server is out of
    /// `model.api_key`.
    AfterAnother,
}

impl KeyPlace {
    fn find(
        settings: &Settings,
        candidate: &ProviderCandidate,
        key: &ProviderKey,
    ) -> Result<Self, CommandFailure> {
        let owner = settings::key_owner(settings)?;
        let Resolved { value, source } = settings.get(&keys::MODEL_API_KEY)?;
        let stays_elsewhere = candidate.is_built_in() && matches!(owner, KeyOwner::Address(_));
        match value.expose() {
            None => Ok(Self::Own),
            Some(_) if stays_elsewhere => Ok(Self::Own),
            Some(_) if candidate.may_take(&owner) => Ok(Self::Model),
            Some(own) if key.get() == Some(own) => Ok(Self::Model),
            Some(_) if matches!(source, ValueSource::DotEnv { .. }) => Ok(Self::AfterAnother),
            Some(_) => {
                let whose = match owner {
                    KeyOwner::Address(base_url) => format!("is the key of {base_url}"),
                    KeyOwner::BuiltIn(name) => format!("is the key of {name}"),
                    KeyOwner::Nobody => "may be a key of another server".to_owned(),
                };
                let label = candidate.label();
                let name = keys::MODEL_API_KEY.name();
                let what = format!("{name} from {source} {whose}, and would be sent to {label}");
                Err(CommandFailure::new(what)
                    .advise("take it out of there, then: vestal model setup"))
            }
        }
    }
}

/// Takes another server's key out of `.env`.
fn take_back(
    context: &Context,
    settings: &Settings,
    candidate: &ProviderCandidate,
) -> Result<(), CommandFailure> {
    let Some(variable) = model_key_variable() else { return Ok(()) };
    let path = vestal_config::set_variable(settings, &variable, "")
        .map_err(|error| CommandFailure::new(error.to_string()))?;
    let label = candidate.label();
    context.console.note(&format!(
        "took the key in {variable} out of {}: it is not the key of {label}",
        path.display()
    ));
    // One that it hid would be taken now.
    let Resolved { value, source } = context.settings()?.get(&keys::MODEL_API_KEY)?;
    if value.expose().is_none() {
        return Ok(());
    }
    let name = keys::MODEL_API_KEY.name();
    Err(CommandFailure::new(format!("{name} from {source} would be sent to {label}"))
        .advise("take it out of there, then: vestal model setup"))
}

fn model_key_variable() -> Option<EnvName> {
    keys::MODEL_API_KEY.env().first().and_then(|name| EnvName::new(name))
}

/// Writes the key that was given.
fn keep_key(
    context: &Context,
    settings: &Settings,
    candidate: &ProviderCandidate,
    key: &ProviderKey,
    place: KeyPlace,
) -> Result<(), CommandFailure> {
    let ProviderKey::New(given) = key else { return Ok(()) };
    let variable = match place {
        KeyPlace::Model => model_key_variable(),
        KeyPlace::Own | KeyPlace::AfterAnother => candidate.variable(),
    };
    let Some(variable) = variable else { return Ok(()) };
    let path = vestal_config::set_variable(settings, &variable, given)
        .map_err(|error| CommandFailure::new(error.to_string()))?;
    let message = format!("kept the key as {variable} in {}, for you alone", path.display());
    context.console.note(&message);
    // The environment of the process goes before the file.
    if let Ok(Some(found)) = context.settings()?.variable(&variable)
        && found.value != given.as_str()
    {
        let message = format!("it has no effect, because {} overrides it", found.source);
        context.console.warn(&message);
        context.console.note(&format!("to have it taken: unset {variable}"));
    }
    Ok(())
}
