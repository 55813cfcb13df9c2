//! `schedule`: has the agent asked something at set times.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::de::IntoDeserializer as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use vestal_agent::tools::arguments::{
    BadArgument, NonEmptyString, blank_as_absent, parse, tool_spec,
};
use vestal_agent::{Footprint, Tool, ToolContext, ToolOutput};
use vestal_api::{ScheduleRequest, ScheduleRunView, ScheduleView};
use vestal_config::Settings;
use vestal_conversations::ConversationStore;
use vestal_model::ToolSpec;
use vestal_schedules::{MissedPolicy, ScheduleId, ScheduleStore, keys};

use crate::schedules::{ProfileSchedules, ScheduleError};

/// The group the tool is enabled and disabled with.
const TOOLSET: &str = "schedule";

/// The origin that the store has for the conversation of a scheduled run.
pub const SCHEDULED_SOURCE: &str = "cron";

/// The word for a delivery into the conversation of the call.
const HERE: &str = "this_conversation";

/// Runs that `show` lists.
const RUNS: u32 = 5;

/// Characters of a prompt that a person is shown before it is approved.
const SHOWN: usize = 300;

const DESCRIPTION: &str = "\
Makes and manages schedules: at set times you are asked `prompt` in a new conversation, which has no user to ask and does not know this conversation. \
So write the prompt to stand alone: what to do, where, and what to report. \
`schedule` is a cron expression of five fields (0 9 * * 1-5), an interval (every 2h), or one moment (at 2026-12-24T18:00, in 20m), by the clock in `timezone`. \
Actions: create (schedule, prompt); list; show, edit, pause, resume, run and remove (id, or the name). \
edit changes what is given; run asks for one run now. \
What each run says is kept; deliver=this_conversation adds it to this conversation as well. \
Only make a schedule that the user wants. The user may be asked to approve of it. \
The profile's gateway runs what is due; `vestal cron status` says whether one is running.";

#[derive(Debug, Clone)]
pub(crate) struct ScheduleTool {
    settings: Arc<Settings>,
    schedules: ProfileSchedules,
    conversations: ConversationStore,
}

impl ScheduleTool {
    pub(crate) fn new(settings: &Arc<Settings>, conversations: ConversationStore) -> Self {
        let schedules = ProfileSchedules::new(settings);
        Self { settings: Arc::clone(settings), schedules, conversations }
    }
}

#[derive(Deserialize, JsonSchema)]
struct ScheduleArguments {
    #[serde(deserialize_with = "action")]
    action: ScheduleAction,
    /// The schedule that is meant: its id, a beginning of it, or its name. For all but create and list.
    #[serde(default, deserialize_with = "blank_as_absent")]
    id: Option<NonEmptyString>,
    /// When it is due.
    #[serde(default, deserialize_with = "blank_as_absent")]
    schedule: Option<NonEmptyString>,
    /// What is asked then.
    #[serde(default, deserialize_with = "blank_as_absent")]
    prompt: Option<NonEmptyString>,
    /// A name to find it by. Default: how the prompt begins.
    #[serde(default, deserialize_with = "blank_as_absent")]
    name: Option<NonEmptyString>,
    /// The time zone, such as Europe/Berlin. Default: that of the machine.
    #[serde(default, deserialize_with = "blank_as_absent")]
    timezone: Option<NonEmptyString>,
    /// Skills whose instructions are given along.
    skills: Option<Vec<String>>,
    /// The model, as MODEL or PROVIDER:MODEL. Default: the configured one.
    #[serde(default, deserialize_with = "blank_as_absent")]
    model: Option<NonEmptyString>,
    /// The task whose sandbox it works in. Default: that of this conversation.
    #[serde(default, deserialize_with = "blank_as_absent")]
    task: Option<NonEmptyString>,
    /// The directory of the sandbox to begin in.
    #[serde(default, deserialize_with = "blank_as_absent")]
    workdir: Option<NonEmptyString>,
    /// A shell command that is run first; what it prints is added to the prompt.
    #[serde(default, deserialize_with = "blank_as_absent")]
    script: Option<NonEmptyString>,
    /// Where the output goes besides its record: `local`, `this_conversation`, or `conversation:ID`. Default local.
    #[serde(default, deserialize_with = "blank_as_absent")]
    deliver: Option<NonEmptyString>,
    /// What happens to moments at which no gateway ran: run (one run makes up for them) or skip. Default run.
    missed: Option<Missed>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ScheduleAction {
    Create,
    List,
    Show,
    Edit,
    Pause,
    Resume,
    Run,
    Remove,
}

impl ScheduleAction {
    const fn word(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::List => "list",
            Self::Show => "show",
            Self::Edit => "edit",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Run => "run",
            Self::Remove => "remove",
        }
    }

    /// Reports whether it only looks.
    const fn is_reading(self) -> bool {
        matches!(self, Self::List | Self::Show)
    }

    /// Reports whether runs come of it that would not come without.
    const fn makes_runs(self) -> bool {
        matches!(self, Self::Create | Self::Edit | Self::Resume | Self::Run)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Missed {
    Run,
    Skip,
}

/// Reads an action, also by other common words for it.
fn action<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ScheduleAction, D::Error> {
    let word = String::deserialize(deserializer)?.trim().to_ascii_lowercase();
    let word = match word.as_str() {
        "add" | "new" => "create",
        "update" | "change" => "edit",
        "delete" => "remove",
        "status" | "view" | "get" => "show",
        other => other,
    };
    ScheduleAction::deserialize(word.into_deserializer())
}

impl ScheduleArguments {
    /// Returns what is asked of a schedule, in the conversation of a call.
    fn request(self, context: &ToolContext) -> ScheduleRequest {
        let text = |value: Option<NonEmptyString>| value.map(|text| text.trim().to_owned());
        let deliver = text(self.deliver).map(|target| match target.as_str() {
            HERE => format!("conversation:{}", context.conversation),
            _ => target,
        });
        ScheduleRequest {
            name: text(self.name),
            schedule: text(self.schedule),
            timezone: text(self.timezone),
            prompt: text(self.prompt),
            skills: self.skills,
            model: text(self.model).map(Some),
            toolsets: None,
            task: text(self.task),
            workdir: text(self.workdir).map(Some),
            script: text(self.script).map(Some),
            deliver,
            missed: self.missed.map(|missed| match missed {
                Missed::Run => MissedPolicy::Run,
                Missed::Skip => MissedPolicy::Skip,
            }),
        }
    }
}

/// Why a call came to nothing, in words for the model.
struct RefusedSchedule(String);

impl From<ScheduleError> for RefusedSchedule {
    fn from(error: ScheduleError) -> Self {
        Self(error.to_string())
    }
}

impl From<vestal_schedules::Error> for RefusedSchedule {
    fn from(error: vestal_schedules::Error) -> Self {
        Self(error.to_string())
    }
}

#[async_trait]
impl Tool for ScheduleTool {
    fn spec(&self) -> ToolSpec {
        tool_spec::<ScheduleArguments>("schedule", DESCRIPTION)
    }

    fn toolset(&self) -> &'static str {
        TOOLSET
    }

    // A child works on a part; what is to last is the parent's to say.
    fn is_for_children(&self) -> bool {
        false
    }

    fn footprint(&self, arguments: &Value) -> Footprint {
        match parse::<ScheduleArguments>(arguments.clone()) {
            Ok(call) if call.action.is_reading() => Footprint::Reads,
            _ => Footprint::Exclusive,
        }
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> ToolOutput {
        let call: ScheduleArguments = match parse(arguments) {
            Ok(call) => call,
            Err(bad) => return bad.into(),
        };
        if let Some(missing) = missing(&call) {
            return BadArgument::missing(missing).into();
        }
        match self.carry_out(context, call).await {
            Ok(result) => ToolOutput::json(&result),
            Err(RefusedSchedule(reason)) => ToolOutput::error(reason),
        }
    }
}

/// Returns the argument that is needed and not given.
fn missing(call: &ScheduleArguments) -> Option<&'static str> {
    match call.action {
        ScheduleAction::Create if call.schedule.is_none() => Some("schedule"),
        ScheduleAction::Create if call.prompt.is_none() => Some("prompt"),
        ScheduleAction::Create | ScheduleAction::List => None,
        _ if call.id.is_none() => Some("id"),
        _ => None,
    }
}

impl ScheduleTool {
    async fn carry_out(
        &self,
        context: &ToolContext,
        call: ScheduleArguments,
    ) -> Result<Value, RefusedSchedule> {
        let action = call.action;
        if action.makes_runs() {
            self.refuse_in_runs(context).await?;
        }
        // Looking makes no file.
        let store = if action == ScheduleAction::Create {
            Some(self.schedules.open().await?)
        } else {
            self.schedules.open_existing().await?
        };
        let Some(store) = store else {
            return match action {
                ScheduleAction::List => Ok(json!({ "schedules": [] })),
                _ => Err(RefusedSchedule("there are no schedules yet".to_owned())),
            };
        };
        let done = self.with_store(&store, context, call).await;
        if let Err(error) = store.close().await {
            // All that was written is safe in the log.
            tracing::debug!(%error, "the schedules were not closed tidily");
        }
        done
    }

    async fn with_store(
        &self,
        store: &ScheduleStore,
        context: &ToolContext,
        call: ScheduleArguments,
    ) -> Result<Value, RefusedSchedule> {
        let action = call.action;
        if action == ScheduleAction::List {
            return list(store).await;
        }
        let id = match (&call.id, action) {
            (_, ScheduleAction::Create) | (None, _) => None,
            (Some(wanted), _) => Some(store.find(wanted).await?),
        };
        if !action.is_reading() {
            self.approve(store, context, &call, id.as_ref()).await?;
        }
        let now = Timestamp::now();
        let view = |schedule| json!(ScheduleView::new(schedule, now));
        let Some(id) = id else {
            let mut request = call.request(context);
            request.task.get_or_insert_with(|| context.sandbox.task().to_string());
            return Ok(view(&self.schedules.create(store, request, now).await?));
        };
        Ok(match action {
            ScheduleAction::Create | ScheduleAction::List | ScheduleAction::Show => {
                let runs = store.runs(Some(&id), RUNS).await?;
                let runs: Vec<ScheduleRunView> = runs.iter().map(Into::into).collect();
                json!({ "schedule": view(&store.get(&id).await?), "runs": runs })
            }
            ScheduleAction::Edit => {
                let request = call.request(context);
                view(&self.schedules.edit(store, &id, request, now).await?)
            }
            ScheduleAction::Pause => view(&store.pause(&id, now).await?),
            ScheduleAction::Resume => view(&store.resume(&id, now).await?),
            ScheduleAction::Run => json!(ScheduleRunView::from(&store.request(&id, now).await?)),
            ScheduleAction::Remove => json!({ "removed": store.remove(&id).await?.id }),
        })
    }

    /// Refuses to have a scheduled run make further runs, unless the settings allow it: a schedule
    /// that makes schedules would continue without end and without anybody who sees it.
    async fn refuse_in_runs(&self, context: &ToolContext) -> Result<(), RefusedSchedule> {
        let found = self.conversations.get(&context.conversation).await;
        let is_run = found.is_ok_and(|found| found.source == SCHEDULED_SOURCE);
        // A person who continues the conversation of a run is there to see it.
        if !is_run || context.human.is_present() {
            return Ok(());
        }
        let allowed = self.settings.reload().get(&keys::CRON_RUNS_MAY_SCHEDULE);
        if allowed.is_ok_and(|allowed| allowed.value) {
            return Ok(());
        }
        Err(RefusedSchedule(
            "a scheduled run may not make, change, resume or start schedules; say in your answer what should be scheduled, so that the user can do it (cron.runs_may_schedule allows it)"
                .to_owned(),
        ))
    }

    /// Has a person approve of what will last, as of other calls with effects outside the sandbox.
    async fn approve(
        &self,
        store: &ScheduleStore,
        context: &ToolContext,
        call: &ScheduleArguments,
        id: Option<&ScheduleId>,
    ) -> Result<(), RefusedSchedule> {
        let word = call.action.word();
        let mut text = format!("schedule {word}");
        if let Some(id) = id {
            let name = store.get(id).await.map(|schedule| schedule.name).unwrap_or_default();
            text = format!("{text} {id} ({name})");
        }
        for (what, value) in [
            ("when", &call.schedule),
            ("prompt", &call.prompt),
            ("script", &call.script),
            ("task", &call.task),
        ] {
            if let Some(value) = value {
                let shown: String = value.chars().take(SHOWN).collect();
                let more = if shown.len() < value.len() { "…" } else { "" };
                text = format!("{text}\n{what}: {shown}{more}");
            }
        }
        let name = format!("schedule {word}");
        let cleared = context.guard.outside(context, &name, &text).await;
        cleared.map(drop).map_err(|refusal| RefusedSchedule(refusal.message))
    }
}

/// Lists the schedules, what is due next first, each in a few words.
async fn list(store: &ScheduleStore) -> Result<Value, RefusedSchedule> {
    let now = Timestamp::now();
    let (mut schedules, mut unreadable) = (Vec::new(), Vec::new());
    for schedule in store.list().await? {
        match schedule {
            Ok(schedule) => {
                let view = ScheduleView::new(&schedule, now);
                schedules.push(json!({
                    "id": view.id,
                    "name": view.name,
                    "state": view.state,
                    "schedule": view.schedule,
                    "timezone": view.timezone,
                    "next_run_at": view.next_run_at,
                    "overdue": view.overdue,
                    "last_status": view.last_status,
                    "runs": view.runs,
                }));
            }
            Err(error) => unreadable.push(error.to_string()),
        }
    }
    Ok(json!({ "schedules": schedules, "unreadable": unreadable }))
}
