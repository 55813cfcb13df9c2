//! One question and its answer: `vestal chat -q`.

use std::sync::Arc;

use vestal_agent::{
    Conversation, EndReason, EventSink, Human, NoHuman, TurnEvent, TurnOutcome, TurnResult, keys,
};
use vestal_api::{CostStatus, KnownCost};
use vestal_model::UserMessage;
use vestal_runtime::{Opened, Runtime, Termination, Terminations};

use super::interactive::agreed_mount;
use super::output::TurnOutput;
use super::{ChatArgs, toolsets};
use crate::agent::{self, Asking, TerminalHuman};
use crate::console::{status, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit;
use crate::follow::unless_terminated;
use crate::values::quoted;

/// A question that is asked once, outside of an interactive chat.
pub(super) struct OneShot<'a> {
    pub(super) context: &'a Context,
    pub(super) args: &'a ChatArgs,
}

/// How a question ended.
pub(super) enum QuestionEnd {
    /// The turn ended with this result, perhaps because of a signal.
    Turn { result: Box<TurnResult>, signal: Option<Termination> },
    /// A signal came before it began.
    NotBegun(Termination),
    /// A second signal came before it had ended.
    Left(Termination),
    /// The reader of the answer is gone, or it cannot be written.
    NoReader(CommandFailure),
}

impl OneShot<'_> {
    pub(super) async fn run(self, question: UserMessage) -> Result<QuestionEnd, CommandFailure> {
        let settings = Arc::new(self.context.settings()?);
        // Checked first: without a model, nothing is made or opened.
        drop(vestal_runtime::endpoints(&settings, self.args.model.as_deref())?);
        let mut signals = exit::listen_or_fail()?;
        let toolsets = toolsets(&settings, self.args.toolsets.as_deref())?;
        let runtime = agent::build(self.context, &settings, &toolsets).await?;
        let end = self.ask(&runtime, question, &mut signals).await;
        let engine = runtime.agent().engine();
        match &end {
            Ok(QuestionEnd::Left(_)) => return end,
            Ok(QuestionEnd::Turn { signal: None, .. }) => self.context.finish(engine).await,
            _ => self.context.close(engine).await,
        }
        runtime.close().await;
        end
    }

    async fn ask(
        &self,
        runtime: &Runtime,
        question: UserMessage,
        signals: &mut Terminations,
    ) -> Result<QuestionEnd, CommandFailure> {
        let asking = Asking::default();
        let human: Arc<dyn Human> = if agent::is_present() {
            let timeout = runtime.settings().get(&keys::APPROVALS_TIMEOUT)?.value.duration();
            Arc::new(TerminalHuman::new(self.context.console, asking.clone(), timeout))
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
                Err(signal) => return Ok(QuestionEnd::NotBegun(signal)),
            };
        for notice in &notices {
            self.context.console.note(notice);
        }
        let args = self.args;
        conversation.guard().set_yolo(args.yolo);
        let (mut output, sink, mut events) =
            TurnOutput::new(self.context.console, args.answer(), !args.is_silent(), asking)?;
        let turn = OneTurn { conversation: &mut conversation, sink: &sink, signals };
        let end = turn.run(question, &mut output, &mut events).await?;
        if !matches!(end, QuestionEnd::Left(_))
            && let Err(error) = conversation.close(EndReason::OneShot).await
        {
            self.context.console.warn(&format!("the conversation could not be closed: {error}"));
        }
        Ok(end)
    }
}

/// A turn that is about to run.
struct OneTurn<'a> {
    conversation: &'a mut Conversation,
    sink: &'a EventSink,
    signals: &'a mut Terminations,
}

impl OneTurn<'_> {
    /// Runs the turn and shows it. The first signal interrupts the turn, which then stores what was
    /// said and kills what it started. A second signal ends the wait for that.
    async fn run(
        self,
        question: UserMessage,
        output: &mut TurnOutput,
        events: &mut tokio::sync::mpsc::UnboundedReceiver<TurnEvent>,
    ) -> Result<QuestionEnd, CommandFailure> {
        let control = self.conversation.control();
        let mut turn = Box::pin(self.conversation.run(question, self.sink));
        let mut signal = None;
        let mut unread = None;
        let result = loop {
            tokio::select! {
                biased;
                next = self.signals.next() => match signal {
                    Some(first) => return Ok(QuestionEnd::Left(first)),
                    None => {
                        signal = Some(next);
                        control.interrupt();
                    }
                },
                shown = output.follow(events), if unread.is_none() => {
                    unread = shown.err();
                    control.interrupt();
                }
                result = &mut turn => break result,
            }
        };
        drop(turn);
        if unread.is_none() {
            unread = output.finish(events).await.err();
        }
        Ok(match unread {
            Some(failure) => QuestionEnd::NoReader(failure),
            None => QuestionEnd::Turn { result: Box::new(result), signal },
        })
    }
}

/// Says what a turn took and how to go on, to a person at a terminal.
pub(super) fn print_summary(context: &Context, result: &TurnResult) {
    if status::is_possible() {
        context.console.aside(&summary_line(result, context.profile()));
    }
}

fn summary_line(result: &TurnResult, profile: Option<&str>) -> String {
    let mut parts = vec![result.conversation.short().to_owned()];
    if matches!(result.outcome, TurnOutcome::Interrupted) {
        parts.push("interrupted".to_owned());
    }
    parts.push(text::count(result.usage.total(), "token"));
    let cost = KnownCost::new(result.cost, !result.provider.is_empty());
    if let Some(usd) = cost.usd {
        let about = if cost.status == CostStatus::Partial { "at least " } else { "" };
        parts.push(format!("{about}${usd:.4}"));
    }
    parts.push(text::took(result.took));
    let profile = profile.map(|name| format!(" -p {}", quoted(name))).unwrap_or_default();
    parts.push(format!("to go on: vestal{profile} chat -c -q …"));
    parts.join(" · ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use vestal_agent::CostSum;
    use vestal_model::TokenUsage;

    use super::*;

    #[test]
    fn the_line_says_what_it_took_and_how_to_go_on() {
        let mut result = TurnResult {
            conversation: "20261115-103001-k3f9ab".parse().unwrap(),
            outcome: TurnOutcome::Completed,
            text: String::new(),
            reasoning: String::new(),
            model_calls: 2,
            tool_calls: 1,
            usage: TokenUsage { input: 1200, output: 34, ..TokenUsage::default() },
            cost: CostSum { micro_usd: 12_300, unknown_calls: 0, estimated: true },
            provider: "mine".to_owned(),
            model: "m".to_owned(),
            last_prompt_tokens: 1200,
            pending_steer: Vec::new(),
            took: Duration::from_millis(3400),
        };
        assert_eq!(
            summary_line(&result, None),
            "k3f9ab · 1,234 tokens · $0.0123 · 3.4s · to go on: vestal chat -c -q …"
        );
        result.outcome = TurnOutcome::Interrupted;
        result.cost = CostSum { unknown_calls: 1, ..CostSum::default() };
        assert_eq!(
            summary_line(&result, Some("work")),
            "k3f9ab · interrupted · 1,234 tokens · 3.4s · to go on: vestal -p work chat -c -q …"
        );
    }
}
