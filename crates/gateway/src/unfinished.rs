//! What a gateway has begun and not finished: turns, and background jobs that it waits for.
//!
//! It is stored with the conversation before the turn runs, and removed when there is nothing left
//! to do. So whatever ends the process, the next one finds what it has to continue, and a
//! conversation that is deleted takes its record along.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use vestal_conversations::{
    ConversationId, ConversationStore, Error, MessageKind, MessageStanding, Seq, Stored,
};
use vestal_model::{AssistantMessage, FinishReason, Message, Part, UserMessage};

/// The name of the record in the state of a conversation.
const NAME: &str = "gateway";

/// The version of the record.
const VERSION: u32 = 1;

/// Processes that may die over a turn. After that it is left alone: it may be what kills them.
const MAX_DEATHS: u32 = 3;

/// How long after its start a gateway continues a turn over which one process has died. Each
/// further death makes it ten times as long, so that everything else is served meanwhile.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Who wants the answer of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum TurnOwner {
    /// A client that waits for it over a connection, which ends with the process.
    Client,
    /// The gateway itself: background jobs had news.
    JobNews,
    /// A run that clients ask about by its id, also after a restart.
    Run {
        /// The id.
        id: String,
    },
}

impl TurnOwner {
    /// Reports whether somebody still wants the answer when another process serves the profile.
    const fn outlives_the_process(&self) -> bool {
        match self {
            Self::Client => false,
            Self::JobNews | Self::Run { .. } => true,
        }
    }

    /// Returns how many messages of a person belong to the turn.
    const fn prompts_in_turn(&self) -> usize {
        match self {
            Self::Client | Self::Run { .. } => 1,
            Self::JobNews => 0,
        }
    }
}

/// A turn that was begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UnfinishedTurn {
    owner: TurnOwner,
    /// The last message before it.
    after: Option<Seq>,
    /// Processes that died while it ran, without the one that runs it.
    #[serde(default)]
    deaths: u32,
    /// Whether the process that ran it interrupted it in order to end.
    #[serde(default)]
    was_interrupted: bool,
    /// What is said in it, as the conversation stores it. A run is acknowledged before that is
    /// stored there, so it must not be lost with the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input: Option<UserMessage>,
}

/// How far a turn has come that an earlier process left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TurnStanding {
    /// Nothing was said in it yet: this is.
    NotBegun(UserMessage),
    /// It has no answer yet.
    Open,
    /// It came to this answer.
    Answered(String),
    /// Something else was said since, or nothing is known of it.
    MovedOn,
}

/// What is to be done about a turn that an earlier process left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leftover {
    /// Nobody wants its answer any more.
    Unwanted,
    /// It is resumed after this time.
    Resume {
        /// The time.
        after: Duration,
    },
    /// Too many processes have died over it.
    LeaveAlone,
}

impl UnfinishedTurn {
    /// Returns the record of a turn that begins after a message.
    pub(crate) const fn new(owner: TurnOwner, after: Option<Seq>) -> Self {
        Self { owner, after, deaths: 0, was_interrupted: false, input: None }
    }

    /// Keeps what is said in the turn, if its owner counts on it. `mask` removes secrets, as the
    /// conversation does when it stores a message.
    pub(crate) fn with_input(self, message: UserMessage, mask: impl Fn(&str) -> String) -> Self {
        if self.run().is_none() {
            return self;
        }
        let masked = |part: Part| match part {
            Part::Text { text } => Part::Text { text: mask(&text) },
            picture @ Part::Image(_) => picture,
        };
        let parts = message.parts.into_iter().map(masked).collect();
        Self { input: Some(UserMessage { parts }), ..self }
    }

    /// Returns the run that it is the turn of.
    pub(crate) fn run(&self) -> Option<&str> {
        match &self.owner {
            TurnOwner::Run { id } => Some(id),
            TurnOwner::Client | TurnOwner::JobNews => None,
        }
    }

    /// Reports whether somebody still wants the answer when another process serves the profile.
    pub(crate) const fn outlives_the_process(&self) -> bool {
        self.owner.outlives_the_process()
    }

    /// Reports whether its process interrupted it in order to end, and did not die over it.
    pub(crate) const fn was_interrupted(&self) -> bool {
        self.was_interrupted
    }

    /// Decides about a turn that an earlier process left.
    pub(crate) fn leftover(&self) -> Leftover {
        if !self.owner.outlives_the_process() {
            return Leftover::Unwanted;
        }
        let deaths = self.deaths_so_far();
        if deaths >= MAX_DEATHS {
            return Leftover::LeaveAlone;
        }
        let after = match deaths.checked_sub(1) {
            None => Duration::ZERO,
            Some(more) => FIRST_PAUSE * 10_u32.pow(more),
        };
        Leftover::Resume { after }
    }

    /// Returns the record for the process that resumes it.
    pub(crate) fn resumed(self) -> Self {
        Self { deaths: self.deaths_so_far(), was_interrupted: false, ..self }
    }

    /// Returns the record of a turn that its process interrupted in order to end.
    pub(crate) fn interrupted(self) -> Self {
        Self { was_interrupted: true, ..self }
    }

    /// Returns what the model reads when it goes on.
    pub(crate) const fn note(&self) -> &'static str {
        if self.was_interrupted {
            "[The program that runs you was restarted and interrupted your work; the user did not. \
             Look at what the interrupted calls have left, then go on where you were.]"
        } else {
            "[The program that runs you ended unexpectedly while you worked, and was started again. \
             Results of calls that were cut off say what became of them. Go on where you were.]"
        }
    }

    /// Returns the number of the first message that can be one of the turn.
    pub(crate) fn first_message(&self) -> Seq {
        self.after.map_or(Seq(i64::MIN), |Seq(after)| Seq(after.saturating_add(1)))
    }

    /// Finds out how far it has come by everything that is stored of the conversation from
    /// [its first message](Self::first_message) on: a long turn may have been summarised meanwhile.
    pub(crate) fn standing(&self, since: &[Stored]) -> TurnStanding {
        let dialogue: Vec<&Stored> = since
            .iter()
            .filter(|stored| stored.kind == MessageKind::Dialogue)
            .filter(|stored| matches!(stored.message, Message::User(_)))
            .collect();
        if dialogue.iter().any(|stored| stored.standing == MessageStanding::Undone) {
            return TurnStanding::MovedOn;
        }
        match (&self.input, dialogue.first()) {
            (Some(input), None) => return TurnStanding::NotBegun(input.clone()),
            // Somebody else may have said something before the turn did.
            (Some(input), Some(first)) if first.message != Message::User(input.clone()) => {
                return TurnStanding::MovedOn;
            }
            _ => {}
        }
        if dialogue.len() > self.owner.prompts_in_turn() || since.is_empty() {
            return TurnStanding::MovedOn;
        }
        answer(since).map_or(TurnStanding::Open, TurnStanding::Answered)
    }

    /// A death is counted when the turn is taken up again: a process that was asked to end, or that
    /// ended before it came to the turn, has not died over it.
    fn deaths_so_far(&self) -> u32 {
        self.deaths.saturating_add(u32::from(!self.was_interrupted))
    }
}

/// Returns the answer that a conversation ends with, if it is complete.
fn answer(messages: &[Stored]) -> Option<String> {
    let mut active = messages.iter().filter(|stored| stored.standing == MessageStanding::Active);
    match active.next_back().map(|stored| &stored.message) {
        Some(Message::Assistant(AssistantMessage { text, calls, finish, .. })) => {
            let is_complete = calls.is_empty()
                && !matches!(finish, FinishReason::Interrupted | FinishReason::Length);
            is_complete.then(|| text.clone())
        }
        Some(Message::User(_) | Message::Tool(_)) | None => None,
    }
}

/// What a gateway has to continue in a conversation: a turn, if there is one, and then the
/// background jobs that its model watches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Commitment {
    version: u32,
    #[serde(default)]
    pub(crate) turn: Option<UnfinishedTurn>,
}

impl Commitment {
    /// The entry of a conversation's state that it is.
    pub(crate) const STATE: &str = NAME;

    /// Stores that a turn runs, or that background jobs are waited for.
    pub(crate) async fn store(
        store: &ConversationStore,
        id: &ConversationId,
        turn: Option<&UnfinishedTurn>,
    ) -> Result<(), Error> {
        let (name, value) = Self::entry(turn);
        store.set_state(id, &name, Some(&value)).await
    }

    /// Returns the entry of the state that records a turn, for a conversation that is created with it.
    pub(crate) fn entry(turn: Option<&UnfinishedTurn>) -> (String, Value) {
        let commitment = Self { version: VERSION, turn: turn.cloned() };
        (NAME.to_owned(), serde_json::json!(commitment))
    }

    /// Returns the turn that is on record in a conversation.
    pub(crate) async fn of(
        store: &ConversationStore,
        id: &ConversationId,
    ) -> Result<Option<UnfinishedTurn>, Error> {
        let stored = store.state(id, NAME).await?;
        let read = stored.and_then(|value| serde_json::from_value::<Self>(value).ok());
        Ok(read.and_then(|commitment| commitment.turn))
    }

    /// Removes the record: nothing is left to do.
    pub(crate) async fn remove(
        store: &ConversationStore,
        id: &ConversationId,
    ) -> Result<(), Error> {
        match store.set_state(id, NAME, None).await {
            // It took its record along.
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns what earlier processes left. A record that cannot be read, as one of a newer
    /// program, is left as it is.
    pub(crate) async fn all(
        store: &ConversationStore,
    ) -> Result<Vec<(ConversationId, Self)>, Error> {
        let stored = store.with_state(NAME).await?;
        let read = |(id, value): (ConversationId, serde_json::Value)| match serde_json::from_value::<
            Self,
        >(value)
        {
            Ok(commitment) if commitment.version == VERSION => Some((id, commitment)),
            Ok(Self { version, .. }) => {
                tracing::warn!(conversation = %id, version, "a newer program left work in a conversation; it is not touched");
                None
            }
            Err(error) => {
                tracing::warn!(conversation = %id, %error, "the record of unfinished work cannot be read");
                None
            }
        };
        Ok(stored.into_iter().filter_map(read).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(owner: TurnOwner, deaths: u32, was_interrupted: bool) -> UnfinishedTurn {
        UnfinishedTurn { deaths, was_interrupted, ..UnfinishedTurn::new(owner, Some(Seq(1))) }
    }

    #[test]
    fn a_turn_that_kills_its_process_is_resumed_later_each_time_and_then_left_alone() {
        let seconds = |after| Leftover::Resume { after: Duration::from_secs(after) };
        let mut turn = turn(TurnOwner::JobNews, 0, false);
        let mut decisions = Vec::new();
        for _ in 0..4 {
            decisions.push(turn.leftover());
            turn = turn.resumed();
        }
        let alone = Leftover::LeaveAlone;
        assert_eq!(decisions, [seconds(1), seconds(10), alone, alone]);
    }

    #[test]
    fn a_restart_is_no_death_of_the_turn() {
        let mut turn = turn(TurnOwner::Run { id: "r".to_owned() }, 2, false);
        for _ in 0..10 {
            turn = turn.interrupted();
            assert!(matches!(turn.leftover(), Leftover::Resume { .. }));
            turn = turn.resumed();
            assert_eq!(turn.deaths, 2);
        }
    }

    #[test]
    fn a_turn_of_a_client_that_is_gone_is_not_resumed() {
        assert_eq!(turn(TurnOwner::Client, 0, false).leftover(), Leftover::Unwanted);
        assert!(!turn(TurnOwner::Client, 0, false).outlives_the_process());
    }

    fn stored(seq: i64, message: Message) -> Stored {
        Stored {
            seq: Seq(seq),
            kind: MessageKind::Dialogue,
            standing: MessageStanding::Active,
            at: jiff::Timestamp::UNIX_EPOCH,
            message,
            usage: None,
            cost: None,
            provider: None,
            model: None,
        }
    }

    fn assistant_message(text: &str, finish: FinishReason) -> Message {
        Message::Assistant(AssistantMessage {
            text: text.to_owned(),
            finish,
            ..AssistantMessage::default()
        })
    }

    #[test]
    fn a_run_goes_on_from_wherever_its_process_died() {
        let input = || UserMessage { parts: vec![Part::Text { text: "key x".to_owned() }] };
        let run = turn(TurnOwner::Run { id: "r".to_owned() }, 0, false)
            .with_input(input(), |text| text.replace('x', "***"));
        let masked = UserMessage { parts: vec![Part::Text { text: "key ***".to_owned() }] };
        assert_eq!(run.first_message(), Seq(2));
        let mut messages = Vec::new();
        assert_eq!(run.standing(&messages), TurnStanding::NotBegun(masked.clone()));
        // A call that an earlier turn left gets its result before anything is said.
        messages.push(stored(2, Message::Tool(vestal_model::ToolResult::default())));
        assert_eq!(run.standing(&messages), TurnStanding::NotBegun(masked.clone()));
        messages.push(stored(3, Message::User(masked)));
        assert_eq!(run.standing(&messages), TurnStanding::Open);
        // A summary takes the place of what was said.
        messages[1].standing = MessageStanding::Compacted;
        messages.push(stored(4, assistant_message("half an", FinishReason::Interrupted)));
        assert_eq!(run.standing(&messages), TurnStanding::Open);
        messages.push(stored(5, assistant_message("an answer", FinishReason::Stop)));
        assert_eq!(run.standing(&messages), TurnStanding::Answered("an answer".to_owned()));
        messages.push(stored(6, Message::user("and now?")));
        assert_eq!(run.standing(&messages), TurnStanding::MovedOn);
    }

    #[test]
    fn a_run_in_whose_place_somebody_else_spoke_does_not_take_their_answer_for_its_own() {
        let input = UserMessage { parts: vec![Part::Text { text: "mine".to_owned() }] };
        let run = turn(TurnOwner::Run { id: "r".to_owned() }, 0, false)
            .with_input(input, ToOwned::to_owned);
        let messages = [
            stored(2, Message::user("theirs")),
            stored(3, assistant_message("an answer", FinishReason::Stop)),
        ];
        assert_eq!(run.standing(&messages), TurnStanding::MovedOn);
    }
}
