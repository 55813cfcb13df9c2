//! One question and its answer.

use std::sync::Arc;

use vestal_agent::{Conversation, EndReason, Event, EventSink, Human, NoHuman, TurnResult};
use vestal_config::keys;
use vestal_model::UserMessage;
use vestal_runtime::{Opened, Runtime};
use vestal_sandbox::{Termination, Terminations};

use super::ChatArgs;
use super::interactive::agreed_mount;
use super::opening::toolsets;
use super::screen::Screen;
use crate::agent::{self, Asking, Person};
use crate::context::Context;
use crate::error::Failure;
use crate::follow::unless_terminated;

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

impl Talk<'_> {
    pub(super) async fn run(self, question: UserMessage) -> Result<Talked, Failure> {
        let settings = Arc::new(self.context.settings()?);
        // First of all: without a model nothing is made and nothing opened.
        drop(vestal_runtime::endpoints(&settings, self.args.model.as_deref())?);
        let mut signals =
            Terminations::listen().map_err(|error| Failure::io("listen for signals", &error))?;
        let toolsets = toolsets(&settings, self.args.toolsets.as_deref())?;
        let runtime = agent::build(self.context, &settings, &toolsets).await?;
        let talked = self.talk(&runtime, question, &mut signals).await;
        let engine = runtime.agent().engine();
        match &talked {
            Ok(Talked::Left(_)) => return talked,
            Ok(Talked::Turn { signal: None, .. }) => self.context.finish(engine).await,
            _ => self.context.close(engine).await,
        }
        runtime.close().await;
        talked
    }

    async fn talk(
        &self,
        runtime: &Runtime,
        question: UserMessage,
        signals: &mut Terminations,
    ) -> Result<Talked, Failure> {
        let asking = Asking::default();
        let human: Arc<dyn Human> = if agent::is_present() {
            let patience = runtime.settings().get(&keys::APPROVALS_TIMEOUT)?.value.duration();
            Arc::new(Person::new(self.context.console, asking.clone(), patience))
        } else {
            Arc::new(NoHuman)
        };
        let mut request = self.args.request(self.context)?;
        if let Some(placement) = agreed_mount(self.context, runtime.settings(), &request)? {
            request.placement = placement;
        }
        let opened = Box::pin(runtime.open(request, human));
        let Opened { mut conversation, notices, .. } =
            match unless_terminated(signals, opened).await {
                Ok(opened) => opened?,
                Err(signal) => return Ok(Talked::NotBegun(signal)),
            };
        for notice in &notices {
            self.context.console.note(notice);
        }
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
