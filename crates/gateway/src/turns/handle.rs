//! A turn as its caller sees it: the request, the running turn, and its end.

use std::sync::Arc;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};
use vestal_agent::{Human, NoHuman, TurnEvent, TurnResult};
use vestal_conversations::{ConversationId, Seq};
use vestal_model::{Message, UserMessage};
use vestal_runtime::OpenRequest;

/// A turn to be run.
pub(crate) struct TurnRequest {
    /// Which conversation, and how.
    pub(crate) open: OpenRequest,
    /// What was said before, by the client's account; for a new conversation only.
    pub(crate) history: Vec<Message>,
    /// What is said now.
    pub(crate) message: UserMessage,
    /// Who can be asked during the turn.
    pub(crate) human: Arc<dyn Human>,
    /// The message that the turn must follow; if something was said after it, the turn is refused.
    pub(crate) follows: Option<Seq>,
}

impl TurnRequest {
    /// Returns a turn without a history, and with nobody to ask.
    pub(crate) fn new(open: OpenRequest, message: UserMessage) -> Self {
        Self { open, history: Vec::new(), message, human: Arc::new(NoHuman), follows: None }
    }
}

impl std::fmt::Debug for TurnRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TurnRequest").field("open", &self.open).finish_non_exhaustive()
    }
}

/// A turn that is on record and has not begun. Dropped, it never begins, and nothing is left of it.
#[derive(Debug)]
pub(crate) struct PreparedTurn {
    pub(super) turn: StartedTurn,
    pub(super) begin: oneshot::Sender<()>,
}

impl PreparedTurn {
    /// Returns its conversation.
    pub(crate) fn conversation(&self) -> &ConversationId {
        &self.turn.conversation
    }

    /// Lets it begin.
    pub(crate) fn begin(self) -> StartedTurn {
        // If its task is gone, the turn says that it was lost.
        self.begin.send(()).ok();
        self.turn
    }
}

/// A turn that runs. Dropping it interrupts the turn, and says that nobody wants it any more.
#[derive(Debug)]
pub(crate) struct StartedTurn {
    /// Its conversation.
    pub(crate) conversation: ConversationId,
    /// Its number among the turns of this process.
    pub(crate) number: u64,
    /// What happens in it.
    pub(crate) events: UnboundedReceiver<TurnEvent>,
    pub(super) end: oneshot::Receiver<EndedTurn>,
    pub(super) interrupt: CancellationToken,
    pub(super) _interrupt_on_drop: DropGuard,
}

impl StartedTurn {
    /// Waits for the next event; nothing once there are no more.
    pub(crate) async fn next_event(&mut self) -> Option<TurnEvent> {
        self.events.recv().await
    }

    /// Interrupts the turn and its commands. Its last events and its result still come.
    pub(crate) fn interrupt(&self) {
        self.interrupt.cancel();
    }

    /// Waits for the result; nothing if the turn met a bug.
    pub(crate) async fn result(&mut self) -> Option<TurnResult> {
        self.ended().await?.result
    }

    /// Waits for the end. The conversation of a turn that is a run stays open until the end is
    /// [settled](EndedTurn::settle).
    pub(crate) async fn ended(&mut self) -> Option<EndedTurn> {
        (&mut self.end).await.ok()
    }
}

/// The end of a turn.
#[derive(Debug)]
pub(crate) struct EndedTurn {
    /// Its result; nothing if it met a bug.
    pub(crate) result: Option<TurnResult>,
    /// Whether only the end of the gateway interrupted it: the next one continues it.
    pub(crate) is_suspended: bool,
    pub(super) settlement: Option<Settlement>,
}

/// What a turn waits for before it closes its conversation, and what says that it has.
#[derive(Debug)]
pub(super) struct Settlement {
    pub(super) is_stored: oneshot::Sender<bool>,
    pub(super) closed: oneshot::Receiver<()>,
}

impl EndedTurn {
    /// Says whether the owner of the turn has stored its end, and waits until the conversation is
    /// closed. The record of the turn goes after that of its owner: whatever a crash leaves of the
    /// two, the next process knows the outcome of the turn.
    pub(crate) async fn settle(self, is_stored: bool) {
        if let Some(Settlement { is_stored: stored, closed }) = self.settlement {
            // A task that is gone has closed its conversation.
            stored.send(is_stored).ok();
            closed.await.ok();
        }
    }
}
