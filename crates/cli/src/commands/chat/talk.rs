//! One question and its answer.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use vestal_agent::{
    Agent, Conversation, EndReason, Event, EventSink, Human, Nobody, Opening, Registry, Selection,
    Start, TurnResult,
};
use vestal_config::{Settings, keys};
use vestal_conversations::{ConversationId, Title};
use vestal_model::{Endpoint, UserMessage};
use vestal_sandbox::{Overrides, Task, Termination, Terminations};

use super::ChatArgs;
use super::screen::Screen;
use crate::agent::{self, Asking, Person, Workplace};
use crate::cli::Wanted;
use crate::context::Context;
use crate::error::Failure;
use crate::follow::unless_terminated;
use crate::suggest;

/// What the store knows a conversation's place of work by.
const PLACE: &str = "place";

/// A question that is about to be asked.
pub(super) struct Talk<'a> {
    pub(super) context: &'a Context,
    pub(super) args: &'a ChatArgs,
}

/// How it ended.
pub(super) enum Talked {
    /// With this, whatever it is; perhaps because of a signal.
    Turn { result: Box<TurnResult>, signal: Option<Termination> },
    /// A signal came before it began.
    NotBegun(Termination),
    /// A second signal came before it had ended.
    Left(Termination),
    /// Nobody reads the answer any more, or it cannot be written.
    NoReader(Failure),
}

/// The sandbox that a conversation works in, so that it is found again
/// wherever the conversation is gone on with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    task: String,
    #[serde(default)]
    overrides: Overrides,
}

impl Talk<'_> {
    pub(super) async fn run(self, question: UserMessage) -> Result<Talked, Failure> {
        let settings = Arc::new(self.context.settings()?);
        // First of all: without a model nothing is made and nothing opened.
        let chain = agent::endpoints(&settings, self.args.model.as_deref())?;
        let mut signals =
            Terminations::listen().map_err(|error| Failure::io("listen for signals", &error))?;
        let toolsets = self.toolsets(&settings)?;
        let agent = agent::build(self.context, &settings, &toolsets).await?;
        let talked = self.talk(&agent, &settings, chain, question, &mut signals).await;
        match &talked {
            Ok(Talked::Left(_)) => return talked,
            Ok(Talked::Turn { signal: None, .. }) => self.context.finish(agent.engine()).await,
            _ => self.context.close(agent.engine()).await,
        }
        if let Err(error) = agent.store().clone().close().await {
            tracing::debug!(%error, "the conversations were not closed");
        }
        talked
    }

    async fn talk(
        &self,
        agent: &Agent,
        settings: &Settings,
        chain: Vec<Endpoint>,
        question: UserMessage,
        signals: &mut Terminations,
    ) -> Result<Talked, Failure> {
        let asking = Asking::default();
        let opening = self.opening(agent, settings, chain, &asking);
        let opened = async {
            let (opening, place) = opening.await?;
            let conversation = agent.open(opening).await?;
            self.settle(agent, &conversation, place).await?;
            Ok::<Conversation, Failure>(conversation)
        };
        let mut conversation = match unless_terminated(signals, Box::pin(opened)).await {
            Ok(opened) => opened?,
            Err(signal) => return Ok(Talked::NotBegun(signal)),
        };
        let args = self.args;
        conversation.guard().set_yolo(args.yolo);
        let (mut screen, sink, mut events) =
            Screen::new(self.context.console, args.answer(), !args.is_silent(), asking)?;
        let turn = Turn { conversation: &mut conversation, sink: &sink, signals };
        let talked = turn.run(question, &mut screen, &mut events).await?;
        if !matches!(talked, Talked::Left(_))
            && let Err(error) = conversation.close(EndReason::OneShot).await
        {
            self.context.console.warn(&format!("the conversation could not be closed: {error}"));
        }
        Ok(talked)
    }

    /// Returns who is asked in a conversation that is gone on with: the model
    /// it was held with last, as long as that can be asked.
    async fn chain_of(
        &self,
        agent: &Agent,
        settings: &Settings,
        id: &ConversationId,
        configured: Vec<Endpoint>,
    ) -> Result<Vec<Endpoint>, Failure> {
        let known = agent.store().get(id).await?;
        let asks =
            |endpoint: &Endpoint| endpoint.name == known.provider && endpoint.model == known.model;
        if known.model.is_empty() || configured.first().is_some_and(asks) {
            return Ok(configured);
        }
        let named = format!("{}:{}", known.provider, known.model);
        match vestal_agent::settings::endpoints(settings, Some(&named)) {
            Ok(chain) if chain.first().is_some_and(asks) => Ok(chain),
            _ => {
                let text = format!("{named} cannot be asked any more; asking the configured model");
                self.context.console.note(&text);
                Ok(configured)
            }
        }
    }

    async fn opening(
        &self,
        agent: &Agent,
        settings: &Settings,
        chain: Vec<Endpoint>,
        asking: &Asking,
    ) -> Result<(Opening, Option<Place>), Failure> {
        let resumed = self.resumed(agent).await?;
        let kept = match &resumed {
            Some(id) => agent.store().state(id, PLACE).await?,
            None => None,
        };
        let (task, overrides) =
            self.place(kept.and_then(|kept| serde_json::from_value(kept).ok()))?;
        let human: Arc<dyn Human> = if agent::is_present() {
            let patience = settings.get(&keys::APPROVALS_TIMEOUT)?.value.duration();
            Arc::new(Person::new(self.context.console, asking.clone(), patience))
        } else {
            Arc::new(Nobody)
        };
        let chain = match &resumed {
            Some(id) if self.args.model.is_none() => {
                self.chain_of(agent, settings, id, chain).await?
            }
            _ => chain,
        };
        let Workplace { cwd, prompt } =
            Workplace::find(agent.engine(), settings, &overrides, human.is_present())?;
        let place = Place { task: task.to_string(), overrides: overrides.clone() };
        let is_usual = task == Task::default_task() && overrides.is_empty();
        let opening = Opening {
            start: match resumed {
                Some(id) => Start::Resume(id),
                None => Start::New {
                    source: "cli".to_owned(),
                    title: self.args.title.clone().map(Title::Given),
                },
            },
            chain,
            task,
            isolation: settings.get(&keys::ISOLATION)?.value,
            overrides,
            human,
            selection: self.selection(settings, agent.tools())?,
            prompt,
            cwd,
            max_turns: self.args.max_turns,
        };
        Ok((opening, Some(place).filter(|_| !is_usual)))
    }

    /// Returns the conversation to go on with, if one is.
    async fn resumed(&self, agent: &Agent) -> Result<Option<ConversationId>, Failure> {
        Ok(match &self.args.resume {
            Some(wanted) => Some(agent.store().find(wanted).await?),
            None if self.args.goes_on => Some(agent.store().latest().await?),
            None => None,
        })
    }

    /// Returns the sandbox to work in: the one asked for, else the one that the
    /// conversation works in.
    fn place(&self, kept: Option<Place>) -> Result<(Task, Overrides), Failure> {
        let ChatArgs { task, backend, mount_cwd, .. } = self.args;
        if task.is_none()
            && backend.is_none()
            && !mount_cwd
            && let Some(Place { task, overrides }) = kept
            && let Ok(task) = task.parse()
        {
            return Ok((task, overrides));
        }
        let wanted = Wanted { backend: backend.clone(), image: None, mount_cwd: *mount_cwd };
        let task = task.clone().unwrap_or_else(Task::default_task);
        Ok((task, self.context.overrides(&wanted)?))
    }

    /// Returns the toolsets that are asked for by name.
    fn toolsets(&self, settings: &Settings) -> Result<Vec<String>, Failure> {
        match &self.args.toolsets {
            Some(wanted) => Ok(wanted.clone()),
            None => Ok(vestal_agent::settings::selection(settings)?.toolsets),
        }
    }

    fn selection(&self, settings: &Settings, tools: &Registry) -> Result<Selection, Failure> {
        let selection = vestal_agent::settings::selection(settings)?;
        let Some(wanted) = &self.args.toolsets else {
            return Ok(selection);
        };
        let known = tools.toolsets();
        for name in wanted {
            if name != vestal_agent::ALL && !known.contains(name.as_str()) {
                let names: Vec<&str> = known.iter().copied().collect();
                let failure = Failure::usage(format!("there is no toolset {name:?}"));
                return Err(match suggest::closest(name, names.iter().copied()) {
                    Some(meant) => failure.advise(format!("did you mean {meant}?")),
                    None => failure.advise(format!("there are: {}, all", names.join(", "))),
                });
            }
        }
        Ok(Selection { toolsets: wanted.clone(), ..selection })
    }

    /// Keeps what was asked for a conversation beside what is said in it.
    async fn settle(
        &self,
        agent: &Agent,
        conversation: &Conversation,
        place: Option<Place>,
    ) -> Result<(), Failure> {
        let (store, id) = (agent.store(), conversation.id());
        if let Some(place) = place {
            store.set_state(id, PLACE, Some(&serde_json::json!(place))).await?;
        }
        let goes_on = self.args.goes_on || self.args.resume.is_some();
        if let Some(title) = self.args.title.clone().filter(|_| goes_on) {
            store.set_title(id, &Title::Given(title)).await?;
        }
        Ok(())
    }
}

/// A turn that is about to run.
struct Turn<'a> {
    conversation: &'a mut Conversation,
    sink: &'a EventSink,
    signals: &'a mut Terminations,
}

impl Turn<'_> {
    /// Runs the turn and shows it. The first signal interrupts it, and then it
    /// is waited for: what was said is stored, and what ran is killed. A second
    /// one ends the waiting.
    async fn run(
        self,
        question: UserMessage,
        screen: &mut Screen,
        events: &mut tokio::sync::mpsc::UnboundedReceiver<Event>,
    ) -> Result<Talked, Failure> {
        let control = self.conversation.control();
        let mut turn = Box::pin(self.conversation.run(question, self.sink));
        let mut signal = None;
        let mut unread = None;
        let result = loop {
            tokio::select! {
                biased;
                next = self.signals.next() => match signal {
                    Some(first) => return Ok(Talked::Left(first)),
                    None => {
                        signal = Some(next);
                        control.interrupt();
                    }
                },
                shown = screen.follow(events), if unread.is_none() => {
                    unread = shown.err();
                    control.interrupt();
                }
                result = &mut turn => break result,
            }
        };
        drop(turn);
        if unread.is_none() {
            unread = screen.finish(events).await.err();
        }
        Ok(match unread {
            Some(failure) => Talked::NoReader(failure),
            None => Talked::Turn { result: Box::new(result), signal },
        })
    }
}
