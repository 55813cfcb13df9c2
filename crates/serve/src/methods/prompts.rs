//! What is said in a session, and answers to its questions.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vestal_agent::{Approval, EndReason, EventSink, TurnResult};
use vestal_api::keys::BusyInputMode;
use vestal_conversations::MessageKind;
use vestal_model::{Message, Part, UserMessage};
use vestal_runtime::{OpenRequest, RemoteAnswer, RemoteQuestionKind};

use super::images::{ImageInput, check_room};
use super::{MethodCall, SessionParams};
use crate::admission::TurnPermit;
use crate::error::{self, RpcError};
use crate::events::{EventBody, TurnStatus};
use crate::session::{Prompt, Session, Submitted};
use crate::turns::status_of;

/// A prompt.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct SubmitParams {
    /// The live session.
    session_id: String,
    /// What is said; it may be empty beside pictures.
    #[serde(default)]
    text: String,
    /// Pictures that go with it, after those of `image.attach`.
    #[serde(default)]
    images: Vec<ImageInput>,
    /// Takes back the person's message of this number, from 0, and everything after it, before
    /// this is said in its place.
    #[serde(default)]
    truncate_before_user_ordinal: Option<u32>,
}

/// What became of a prompt.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SubmitResult {
    /// `streaming`: its turn begins; `queued`: it waits for the turn that runs; `steered`: the
    /// model is told during the turn that runs.
    status: SubmitStatus,
}

/// What became of a prompt.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SubmitStatus {
    Streaming,
    Queued,
    Steered,
}

pub(super) async fn submit(
    call: MethodCall,
    params: SubmitParams,
) -> Result<SubmitResult, RpcError> {
    let session = call.server.session(&params.session_id)?;
    // A client that submits a prompt wants the answer.
    session.watch(call.connection, &call.outbox);
    let undo = match params.truncate_before_user_ordinal {
        Some(ordinal) => turns_from(&session, ordinal).await?,
        None => 0,
    };
    let given = params.images.iter().map(ImageInput::read).collect::<Result<Vec<_>, _>>()?;
    let mut images = session.with_pictures(std::mem::take);
    let attached = images.clone();
    images.extend(given);
    let submitted = check_room(&images)
        .and_then(|()| submit_prompt(&session, Prompt { text: params.text, images, undo }));
    if submitted.is_err() {
        // They stay for the prompt that is taken.
        session.with_pictures(|pictures| pictures.splice(..0, attached).for_each(drop));
    }
    submitted
}

/// Says something in a session, as `prompt.submit` does.
pub(crate) fn submit_prompt(
    session: &Arc<Session>,
    prompt: Prompt,
) -> Result<SubmitResult, RpcError> {
    if prompt.text.trim().is_empty() && prompt.images.is_empty() {
        return Err(RpcError::empty("text"));
    }
    // A prompt that takes turns back cannot be passed to the turn that runs.
    let mode = (prompt.undo > 0).then_some(BusyInputMode::Queue);
    let status = match session.submit(prompt, mode)? {
        Submitted::Streaming => SubmitStatus::Streaming,
        Submitted::Queued => SubmitStatus::Queued,
        Submitted::Steered => SubmitStatus::Steered,
    };
    Ok(SubmitResult { status })
}

/// Returns how many turns there are from a message of the person's on.
async fn turns_from(session: &Session, ordinal: u32) -> Result<u32, RpcError> {
    if session.is_running() {
        return Err(RpcError::busy("editing an earlier message"));
    }
    let prompts = match session.stored() {
        Some(id) => {
            let messages = session.runtime.agent().store().messages(&id).await?;
            let is_prompt = |message: &Message| matches!(message, Message::User(_));
            let prompts = messages.iter().filter(|stored| {
                stored.kind == MessageKind::Dialogue && is_prompt(&stored.message)
            });
            u32::try_from(prompts.count()).unwrap_or(u32::MAX)
        }
        None => 0,
    };
    prompts.checked_sub(ordinal).filter(|turns| *turns > 0).ok_or_else(|| {
        let message = format!("there is no message {ordinal} of the person any more");
        RpcError::new(error::STALE, message).advise("read session.history again")
    })
}

/// What was interrupted.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct InterruptResult {
    /// `interrupted`, or `idle` if nothing ran.
    status: InterruptStatus,
    /// Prompts that waited and were dropped.
    dropped: usize,
}

/// Whether something was interrupted.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum InterruptStatus {
    Interrupted,
    Idle,
}

pub(super) async fn interrupt(
    call: MethodCall,
    params: SessionParams,
) -> Result<InterruptResult, RpcError> {
    let (was_running, dropped) = call.server.session(&params.session_id)?.interrupt();
    let status = if was_running { InterruptStatus::Interrupted } else { InterruptStatus::Idle };
    Ok(InterruptResult { status, dropped })
}

/// Something to be said during a turn.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct SteerParams {
    /// The live session.
    session_id: String,
    /// What is said.
    text: String,
}

/// Whether it will be heard.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SteerResult {
    /// `queued`: the model hears it at its next step, or in a turn of its own if that was the last;
    /// `rejected`: no turn runs that could hear it.
    status: SteerStatus,
}

/// Whether it will be heard.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SteerStatus {
    Queued,
    Rejected,
}

pub(super) async fn steer(call: MethodCall, params: SteerParams) -> Result<SteerResult, RpcError> {
    if params.text.trim().is_empty() {
        return Err(RpcError::empty("text"));
    }
    let is_heard = call.server.session(&params.session_id)?.steer(&params.text);
    let status = if is_heard { SteerStatus::Queued } else { SteerStatus::Rejected };
    Ok(SteerResult { status })
}

/// Something to be done beside the conversation.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct BackgroundParams {
    /// The live session, whose model and sandbox it is done with and whose watchers hear of it.
    session_id: String,
    /// What is to be done.
    text: String,
}

/// What was begun.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BackgroundResult {
    /// The id that `background.complete` carries.
    task_id: String,
}

pub(super) async fn background(
    call: MethodCall,
    params: BackgroundParams,
) -> Result<BackgroundResult, RpcError> {
    if params.text.trim().is_empty() {
        return Err(RpcError::empty("text"));
    }
    let session = call.server.session(&params.session_id)?;
    let admitted = call.server.admission().admit();
    let admitted = admitted.map_err(|reason| RpcError::new(error::REFUSED, reason))?;
    let mut random = [0_u8; 4];
    getrandom::fill(&mut random)
        .map_err(|error| RpcError::new(error::INTERNAL, error.to_string()))?;
    let task_id = format!("bg-{:08x}", u32::from_be_bytes(random));
    let id = task_id.clone();
    let source = call.server.source().to_owned();
    call.server.tasks().spawn(async move {
        let done = Box::pin(run_background(&session, source, params.text, &admitted)).await;
        let body = match done {
            Ok(result) => EventBody::BackgroundComplete {
                task_id: id,
                stored_session_id: Some(result.conversation.to_string()),
                status: status_of(&result.outcome),
                text: result.text.trim().to_owned(),
                error: result.outcome.error(),
            },
            Err(error) => EventBody::BackgroundComplete {
                task_id: id,
                stored_session_id: None,
                status: TurnStatus::Error,
                text: String::new(),
                error: Some(error.message),
            },
        };
        session.hub.emit(&body);
        drop(admitted);
    });
    Ok(BackgroundResult { task_id })
}

/// Runs one turn in a conversation of its own. Its questions are asked in the session that began
/// it, and it ends with that session.
async fn run_background(
    session: &Arc<Session>,
    source: String,
    text: String,
    admitted: &TurnPermit,
) -> Result<TurnResult, RpcError> {
    let facts = session.facts();
    let model = facts.provider.zip(facts.model).map(|(name, model)| format!("{name}:{model}"));
    let cwd = facts.cwd.map(Into::into);
    let request = OpenRequest { model, cwd, ..OpenRequest::new(source) };
    let human = Arc::clone(&session.human);
    let mut conversation = Box::pin(session.runtime.open(request, human)).await?.conversation;
    conversation.guard().set_yolo(session.is_yolo());
    let control = conversation.control();
    let message = UserMessage { parts: vec![Part::Text { text }] };
    let sink = EventSink::new(|event| event.log());
    let turn = control.interruptible(&session.life, conversation.run(message, &sink));
    let result = control.interruptible(&admitted.interrupt, turn).await;
    if let Err(error) = conversation.close(EndReason::OneShot).await {
        tracing::warn!(%error, "a conversation was not closed");
    }
    Ok(result)
}

/// An answer to requests for approval.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ApproveParams {
    /// The live session.
    session_id: String,
    /// The answer.
    choice: ApprovalAnswer,
    /// The request that is answered; the oldest one without it.
    #[serde(default)]
    request_id: Option<String>,
    /// Whether all open requests of the session are answered alike.
    #[serde(default)]
    all: bool,
    /// Why it is denied, for the model.
    #[serde(default)]
    reason: Option<String>,
}

/// An answer to a request for approval.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ApprovalAnswer {
    /// This once.
    Once,
    /// Whenever it comes up in this conversation.
    Session,
    /// Whenever it comes up in this profile.
    Always,
    /// No.
    Deny,
}

/// What was answered.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ApproveResult {
    /// How many requests.
    resolved: usize,
}

pub(super) async fn approve(
    call: MethodCall,
    params: ApproveParams,
) -> Result<ApproveResult, RpcError> {
    let session = call.server.session(&params.session_id)?;
    let approval = match params.choice {
        ApprovalAnswer::Once => Approval::Once,
        ApprovalAnswer::Session => Approval::Conversation,
        ApprovalAnswer::Always => Approval::Always,
        ApprovalAnswer::Deny => Approval::Deny(params.reason),
    };
    let open = session.human.open_questions().into_iter();
    let open = open.filter(|question| matches!(question.kind, RemoteQuestionKind::Approval(_)));
    let open: Vec<String> = open.map(|question| question.id).collect();
    let meant: Vec<String> = match &params.request_id {
        Some(wanted) => {
            let (of, id) = split_request_id(wanted);
            open.into_iter().filter(|known| of == Some(&*session.id) && known == id).collect()
        }
        None if params.all => open,
        None => open.into_iter().take(1).collect(),
    };
    if meant.is_empty() {
        let message = "no such request for approval is open in this session";
        return Err(RpcError::new(error::BUSY, message));
    }
    let mut resolved = 0;
    for id in meant {
        match answer(&session, &id, RemoteAnswer::Approval(approval.clone())) {
            Ok(()) => resolved += 1,
            Err(error) if resolved == 0 => return Err(error),
            // It was closed meanwhile.
            Err(_) => {}
        }
    }
    Ok(ApproveResult { resolved })
}

/// An answer to a question of the model.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ClarifyParams {
    /// The question.
    request_id: String,
    /// The answer; without one the model is told that there is none.
    #[serde(default)]
    answer: Option<String>,
}

/// Whether the answer was taken.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ClarifyResult {
    /// `ok`, or `expired` if the question waits no more.
    status: ClarifyStatus,
}

/// Whether the answer was taken.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ClarifyStatus {
    Ok,
    Expired,
}

pub(super) async fn clarify(
    call: MethodCall,
    params: ClarifyParams,
) -> Result<ClarifyResult, RpcError> {
    let (session, id) = split_request_id(&params.request_id);
    let session = session.and_then(|session| call.server.session(session).ok());
    let expired = Ok(ClarifyResult { status: ClarifyStatus::Expired });
    let Some(session) = session else { return expired };
    let given = params.answer.filter(|answer| !answer.trim().is_empty());
    match answer(&session, id, RemoteAnswer::Clarification(given)) {
        Ok(()) => Ok(ClarifyResult { status: ClarifyStatus::Ok }),
        Err(RpcError { code: error::BUSY, .. }) => expired,
        Err(error) => Err(error),
    }
}

/// Splits the id that clients know a question by into its session and its own id.
fn split_request_id(request: &str) -> (Option<&str>, &str) {
    match request.split_once('-') {
        Some((session, id)) => (Some(session), id),
        None => (None, request),
    }
}

fn answer(session: &Session, id: &str, answer: RemoteAnswer) -> Result<(), RpcError> {
    Ok(session.answer(id, answer)?)
}
