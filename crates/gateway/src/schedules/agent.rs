//! A scheduled run with the agent: a conversation of its own, and its result.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use tokio_util::sync::CancellationToken;
use vestal_agent::approvals::Unattended as UnattendedPolicy;
use vestal_agent::settings::Unattended;
use vestal_agent::{Conversation, EndReason, EventSink, NoHuman, TurnOutcome, TurnResult, keys};
use vestal_conversations::{ConversationId, Error as StoreError, NewMessage, Title, WorkAttempt};
use vestal_model::{Message, Part, UserMessage};
use vestal_runtime::panics::caught;
use vestal_runtime::{
    OpenRequest, Opened, Runtime, SCHEDULED_SOURCE, SandboxChoice, SandboxPlacement, Toolsets,
};
use vestal_sandbox::{Command, Overrides, TaskName};
use vestal_schedules::{
    DeliveryError, RunJob, RunOutcome, RunReport, Schedule, ScheduleDelivery, ScheduleRun,
};

/// Bytes of each end of what a script prints that the model is given.
const SCRIPT_OUTPUT: u32 = 32 << 10;

/// Why a run has no answer of the agent.
struct NotRun {
    outcome: RunOutcome,
    reason: String,
}

impl NotRun {
    #[expect(clippy::needless_pass_by_value, reason = "it is what errors are mapped with")]
    fn failed(reason: impl ToString) -> Self {
        Self { outcome: RunOutcome::Failed, reason: reason.to_string() }
    }

    fn bug() -> Self {
        Self::failed(
            "it met a bug in vestal; the log says which: vestal gateway logs --level error",
        )
    }

    fn interrupted() -> Self {
        let reason = "it was interrupted before the agent was asked".to_owned();
        Self { outcome: RunOutcome::Interrupted, reason }
    }
}

/// Carries out a run of a schedule: a new conversation, in which nobody can be asked, begins in the
/// sandbox of its task. `stop` interrupts it with its commands.
#[boxed]
pub async fn run_schedule(
    runtime: &Runtime,
    job: &RunJob,
    events: &EventSink,
    stop: &CancellationToken,
) -> RunReport {
    let opening = caught("a scheduled run was not started", open(runtime, &job.schedule));
    let mut conversation = match opening.await.unwrap_or_else(|| Err(NotRun::bug())) {
        Ok(conversation) => conversation,
        Err(NotRun { outcome, reason }) => return RunReport::without_answer(outcome, reason),
    };
    let id = conversation.id().clone();
    job.note_conversation(id.as_str()).await;
    // A bug fails this run alone, and its conversation is closed all the same.
    let asking = ask(runtime, &mut conversation, &job.schedule, events, stop);
    let asked = caught("a scheduled run has failed", asking).await;
    let asked = asked.unwrap_or_else(|| Err(NotRun::bug()));
    if let Err(error) = Box::pin(conversation.close(EndReason::OneShot)).await {
        tracing::warn!(conversation = %id, %error, "a conversation was not closed");
    }
    let redact = |text: &str| runtime.agent().redactor().redact(text).into_owned();
    match asked {
        Ok(result) => {
            let report = report_of(&result);
            RunReport {
                output: redact(&report.output),
                error: report.error.as_deref().map(redact),
                ..report
            }
        }
        Err(NotRun { outcome, reason }) => RunReport {
            conversation: Some(id.to_string()),
            ..RunReport::without_answer(outcome, redact(&reason))
        },
    }
}

async fn open(runtime: &Runtime, schedule: &Schedule) -> Result<Conversation, NotRun> {
    let settings = runtime.settings().reload();
    let mode = settings.get(&keys::APPROVALS_CRON_MODE).map_err(NotRun::failed)?.value;
    let task: TaskName = schedule.task.parse().map_err(NotRun::failed)?;
    let toolsets = schedule.toolsets.clone();
    let request = OpenRequest {
        title: Some(Title::Generated(schedule.name.clone())),
        model: schedule.model.clone(),
        placement: SandboxPlacement::In(SandboxChoice::new(task, Overrides::default())),
        toolsets: toolsets.map_or(Toolsets::Configured, Toolsets::Only),
        role: Some(role(schedule)),
        start_in: schedule.workdir.as_ref().map(Into::into),
        unattended: Some(match mode {
            Unattended::Deny => UnattendedPolicy::Deny,
            Unattended::Allow => UnattendedPolicy::Allow,
        }),
        ..OpenRequest::new(SCHEDULED_SOURCE)
    };
    let opened = runtime.open(request, Arc::new(NoHuman)).await.map_err(NotRun::failed)?;
    let Opened { conversation, notices, .. } = opened;
    for notice in notices {
        tracing::warn!(conversation = %conversation.id(), notice, "a conversation was opened with a notice");
    }
    let work = WorkAttempt {
        kind: SCHEDULED_SOURCE.to_owned(),
        group: String::new(),
        item: schedule.id.to_string(),
        attempt: conversation.id().to_string(),
    };
    // Before the first call of the model: what it takes is counted for the schedule.
    if let Err(error) = runtime.agent().store().set_work(conversation.id(), &work).await {
        tracing::warn!(conversation = %conversation.id(), %error, "usage is not counted for the schedule");
    }
    Ok(conversation)
}

/// Returns what the model is told of its situation.
fn role(schedule: &Schedule) -> String {
    format!(
        "This conversation was started by the schedule {:?} ({}), not by a person who waits. \
         Your last message is kept as the result of this run and may be read much later: \
         say in it what you found and did, and what failed.",
        schedule.name, schedule.timing
    )
}

async fn ask(
    runtime: &Runtime,
    conversation: &mut Conversation,
    schedule: &Schedule,
    events: &EventSink,
    stop: &CancellationToken,
) -> Result<TurnResult, NotRun> {
    let mut parts = Vec::new();
    for skill in &schedule.skills {
        parts.push(runtime.skills().invocation(skill, "").map_err(NotRun::failed)?);
    }
    parts.push(schedule.prompt.clone());
    if let Some(script) = &schedule.script {
        let printed = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(NotRun::interrupted()),
            printed = Box::pin(run_script(conversation, script, events)) => printed?,
        };
        parts.push(format!("What the script of this schedule printed just now:\n\n{printed}"));
    }
    let text = parts.join("\n\n");
    let message = UserMessage { parts: vec![Part::Text { text }] };
    if stop.is_cancelled() {
        return Err(NotRun::interrupted());
    }
    Ok(run_turn(conversation, message, events, stop).await)
}

/// Runs the script in the shell of the conversation. One that fails ends the run: what it was to
/// find out is missing.
async fn run_script(
    conversation: &Conversation,
    script: &str,
    events: &EventSink,
) -> Result<String, NotRun> {
    let sandbox = conversation.sandbox();
    let attached = sandbox.attach(events).await.map_err(NotRun::failed)?;
    let command = Command::shell(script.to_owned()).merge().kill_on_drop();
    let command = sandbox.in_session(command.capture(SCRIPT_OUTPUT, SCRIPT_OUTPUT));
    let output = attached.run(command).await.map_err(NotRun::failed)?;
    let printed = output.stdout.text();
    if output.exit.code == Some(0) {
        return Ok(printed);
    }
    let last = printed.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let how = match output.exit.code {
        Some(code) => format!("exited with {code}"),
        None => "did not end as it should".to_owned(),
    };
    Err(NotRun::failed(format!("the script {how}: {last}")))
}

async fn run_turn(
    conversation: &mut Conversation,
    message: UserMessage,
    events: &EventSink,
    stop: &CancellationToken,
) -> TurnResult {
    let control = conversation.control();
    control.interruptible(stop, conversation.run(message, events)).await
}

/// Returns what a turn came to. Only an answer is a success.
fn report_of(result: &TurnResult) -> RunReport {
    let outcome = match &result.outcome {
        TurnOutcome::Completed => RunOutcome::Succeeded,
        TurnOutcome::Interrupted => RunOutcome::Interrupted,
        TurnOutcome::BudgetExhausted
        | TurnOutcome::Refused
        | TurnOutcome::Looping { .. }
        | TurnOutcome::Failed(_) => RunOutcome::Failed,
    };
    let interrupted =
        || (outcome == RunOutcome::Interrupted).then(|| "it was interrupted".to_owned());
    let is_priced = result.cost.unknown_calls == 0 && result.model_calls > 0;
    RunReport {
        outcome,
        output: result.text.trim().to_owned(),
        error: result.outcome.error().or_else(interrupted),
        conversation: Some(result.conversation.to_string()),
        tokens: (result.model_calls > 0).then(|| result.usage.total()),
        micro_usd: is_priced.then_some(result.cost.micro_usd),
    }
}

/// Adds what a run said to the conversation that its schedule names, as a note that the model reads
/// with what is said next.
#[boxed]
pub async fn deliver_output(
    runtime: &Runtime,
    schedule: &Schedule,
    run: &ScheduleRun,
) -> Result<(), DeliveryError> {
    let ScheduleDelivery::Conversation(wanted) = &schedule.delivery else { return Ok(()) };
    let failed = |error: StoreError| match error {
        StoreError::Busy { .. } => DeliveryError::Busy(error.to_string()),
        _ => DeliveryError::Failed(error.to_string()),
    };
    let store = runtime.agent().store();
    let id: ConversationId = match wanted.parse() {
        Ok(id) => id,
        Err(_) => store.find(wanted).await.map_err(failed)?,
    };
    // A turn in this conversation must not find a message in between.
    let _lease = store.lease(&id).map_err(failed)?;
    let note = NewMessage::note(Message::user(words(schedule, run)));
    store.append(&id, &[note]).await.map_err(failed)?;
    Ok(())
}

fn words(schedule: &Schedule, run: &ScheduleRun) -> String {
    let at =
        run.ended_at.map(|at| schedule.zone.show(at).strftime("%Y-%m-%d %H:%M %Z").to_string());
    let mut text = format!(
        "[Run {} of the schedule {:?} ({}) {} at {}.]",
        run.id,
        schedule.name,
        schedule.id,
        run.status.word(),
        at.unwrap_or_default()
    );
    for part in [run.error.as_deref(), Some(run.output.as_str())].into_iter().flatten() {
        if !part.is_empty() {
            text.push_str("\n\n");
            text.push_str(part);
        }
    }
    text
}
