//! `vestal model setup`: who is asked, in two or three questions.

mod keep;
mod questions;

use std::time::Duration;

use clap::Args;
use vestal_agent::settings::{self, Candidate};
use vestal_config::Settings;
use vestal_model::{Endpoint, Message, ModelError, ModelInfo, Models, Options, Request};

use crate::agent;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use keep::keep;
use questions::{AfterFailure, Key, Questions};

/// Tokens that a model may take to say that it is there. Some think before
/// they speak, and a smaller budget would be spent on that.
const HELLO_TOKENS: u64 = 512;

const HELLO: &str = "Answer with the one word: hello";

/// How long a server may say nothing that is to list its models. To answer it
/// may take longer: it may have to load one first.
const LIST_IDLE: Duration = Duration::from_secs(15);

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
struct Answers {
    candidate: Candidate,
    key: Key,
    model: String,
}

/// What comes after a question.
enum Next<T> {
    With(T),
    /// The questions about a server at another address.
    At(Candidate),
    /// The first question, again.
    Other,
    /// Nothing: nobody wants to go on.
    Leave,
}

struct Setup<'a> {
    context: &'a Context,
    questions: Questions<'a>,
    lists: Models,
    models: Models,
}

impl<'a> Setup<'a> {
    fn new(context: &'a Context, settings: &'a Settings) -> Result<Self, Failure> {
        // A server that is only tried leaves nothing in the kept lists.
        let options = Options { retries: 0, lists: None, ..settings::model_options(settings)? };
        let idle_timeout = options.idle_timeout.min(LIST_IDLE);
        Ok(Self {
            context,
            questions: Questions { console: context.console, settings },
            lists: Models::new(Options { idle_timeout, ..options.clone() })?,
            models: Models::new(options)?,
        })
    }

    async fn ask(&self) -> Result<Option<Answers>, Failure> {
        let mut corrected = None;
        loop {
            let candidate = match corrected.take() {
                Some(candidate) => Some(candidate),
                None => self.questions.provider()?,
            };
            let Some(candidate) = candidate else { return Ok(None) };
            match Box::pin(self.ask_about(candidate)).await? {
                Next::With(answers) => return Ok(Some(answers)),
                Next::At(candidate) => corrected = Some(candidate),
                Next::Other => {}
                Next::Leave => return Ok(None),
            }
        }
    }

    async fn ask_about(&self, mut candidate: Candidate) -> Result<Next<Answers>, Failure> {
        let Some(mut key) = self.questions.key(&candidate)? else { return Ok(Next::Leave) };
        let offered = match self.offered(&mut candidate, &mut key).await? {
            Next::With(offered) => offered,
            Next::At(candidate) => return Ok(Next::At(candidate)),
            Next::Other => return Ok(Next::Other),
            Next::Leave => return Ok(Next::Leave),
        };
        Ok(match self.answering(&candidate, &mut key, &offered).await? {
            Next::With(model) => Next::With(Answers { candidate, key, model }),
            Next::At(candidate) => Next::At(candidate),
            Next::Other => Next::Other,
            Next::Leave => Next::Leave,
        })
    }

    /// Returns the models there are to choose from: none where nobody says. A
    /// key that is refused is asked for again, and an address that lacks its
    /// usual end gets it.
    async fn offered(
        &self,
        candidate: &mut Candidate,
        key: &mut Key,
    ) -> Result<Next<Vec<ModelInfo>>, Failure> {
        loop {
            let error = match self.list(candidate, key).await {
                Ok(offered) => return Ok(Next::With(offered)),
                Err(error) => error,
            };
            if may_be_elsewhere(&error)
                && let Some(meant) = candidate.with_version()
                && let Ok(offered) = self.list(&meant, key).await
            {
                self.context.console.note(&format!("its address is {}", meant.base_url));
                *candidate = meant;
                return Ok(Next::With(offered));
            }
            if is_without_list(&error) {
                return Ok(Next::With(Vec::new()));
            }
            self.explain(&error);
            if is_of_key(&error) {
                match self.questions.new_key(candidate)? {
                    Some(new) => *key = new,
                    None => return Ok(Next::Leave),
                }
                continue;
            }
            match self.questions.after_failure(candidate) {
                AfterFailure::Again => {}
                AfterFailure::Address => return Ok(self.elsewhere(candidate)),
                AfterFailure::Other => return Ok(Next::Other),
                AfterFailure::Leave => return Ok(Next::Leave),
                AfterFailure::Anyway => return Ok(Next::With(Vec::new())),
            }
        }
    }

    /// Returns a model that answers, or that is to be kept although it does not.
    async fn answering(
        &self,
        candidate: &Candidate,
        key: &mut Key,
        offered: &[ModelInfo],
    ) -> Result<Next<String>, Failure> {
        let mut chosen: Option<String> = None;
        loop {
            let model = match chosen.take() {
                Some(model) => model,
                None => match self.questions.model(candidate, offered) {
                    Some(model) => model,
                    None => return Ok(Next::Leave),
                },
            };
            let Err(error) = self.greet(candidate, key, &model).await else {
                return Ok(Next::With(model));
            };
            self.explain(&error);
            // Some show their list to everybody, and the key is refused only here.
            if is_of_key(&error) {
                match self.questions.new_key(candidate)? {
                    Some(new) => *key = new,
                    None => return Ok(Next::Leave),
                }
                chosen = Some(model);
                continue;
            }
            match self.questions.after_failure(candidate) {
                // Another name is asked for where this one is the trouble.
                AfterFailure::Again if is_without_list(&error) => {}
                AfterFailure::Again => chosen = Some(model),
                AfterFailure::Address => return Ok(self.elsewhere(candidate)),
                AfterFailure::Other => return Ok(Next::Other),
                AfterFailure::Anyway => return Ok(Next::With(model)),
                AfterFailure::Leave => return Ok(Next::Leave),
            }
        }
    }

    /// Asks for another address. The key is asked for anew, too: it belongs to
    /// the address it was given for.
    fn elsewhere<T>(&self, candidate: &Candidate) -> Next<T> {
        self.questions.address(&candidate.base_url).map_or(Next::Leave, Next::At)
    }

    async fn list(&self, candidate: &Candidate, key: &Key) -> Result<Vec<ModelInfo>, ModelError> {
        let endpoint = endpoint(candidate, key, "");
        let what = format!("asking {} which models it has", candidate.label());
        self.context.console.while_waiting(&what, self.lists.list(&endpoint)).await
    }

    /// Says something to the model, and hears whether it answers.
    async fn greet(&self, candidate: &Candidate, key: &Key, name: &str) -> Result<(), ModelError> {
        let chat = self.models.chat(vec![endpoint(candidate, key, name)]);
        let messages = [Message::user(HELLO)];
        let request = Request {
            messages: &messages,
            max_output_tokens: Some(HELLO_TOKENS),
            ..Request::default()
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
fn endpoint(candidate: &Candidate, key: &Key, model: &str) -> Endpoint {
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
