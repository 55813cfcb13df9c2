//! What the dashboard asks of this program.

use async_trait::async_trait;
use vestal_api::dashboard::{QuestionAnswer, WaitingQuestionView};
use vestal_api::{
    DispatchPlanView, GatewayStatusView, HealthReportView, SchedulesRunner, WorkerEnd,
};
use vestal_board::boards::Slug;
use vestal_board::{Board, Run, TaskId};
use vestal_config::{Environment, Override, ProfileName};
use vestal_dashboard::{GatewayChange, ProgramHost, QuestionAddress};
use vestal_dispatcher::{DiffRange, TaskDiff};

use crate::cli::Global;
use crate::commands::{doctor, gateway, kanban};
use crate::console::Console;
use crate::context::Context;
use crate::error::CommandFailure;

/// What the dashboard asks of this program.
#[derive(Debug)]
pub(super) struct DashboardHost {
    console: Console,
    environment: Environment,
    set: Vec<Override>,
}

impl DashboardHost {
    pub(super) fn new(context: &Context) -> Self {
        let environment = context.environment().clone();
        Self { console: context.console, environment, set: context.global().set.clone() }
    }

    fn context(&self, profile: &ProfileName) -> Context {
        let profile = Some(profile.to_string());
        let global = Global { profile, set: self.set.clone(), json: false, verbose: false };
        Context::new(self.console, self.environment.clone(), global)
    }
}

/// Returns what went wrong and what to do about it, for a page.
fn in_words(failure: &CommandFailure) -> String {
    let message = failure.message().unwrap_or("it failed").to_owned();
    let lines: Vec<String> = std::iter::once(message).chain(failure.advice().to_vec()).collect();
    lines.join("\n")
}

#[async_trait]
impl ProgramHost for DashboardHost {
    async fn gateways(&self) -> Result<GatewayStatusView, String> {
        let context = self.context(&ProfileName::default_profile());
        let found = gateway::find_gateways(&context, None).await;
        found.map_err(|failure| failure.message().unwrap_or("gateways cannot be asked").to_owned())
    }

    async fn change_gateway(
        &self,
        profile: &ProfileName,
        change: GatewayChange,
    ) -> Result<(), String> {
        let changed = gateway::change(&self.context(profile), change).await;
        changed.map_err(|failure| in_words(&failure))
    }

    async fn gateway_questions(
        &self,
        profile: &ProfileName,
    ) -> Result<Vec<WaitingQuestionView>, String> {
        let home = self.context(profile).home().map_err(|failure| in_words(&failure))?;
        let asked = vestal_gateway::ask_questions(&home.dir()).await;
        asked.map_err(|error| error.to_string())
    }

    async fn answer_gateway_question(
        &self,
        profile: &ProfileName,
        question: &QuestionAddress,
        answer: QuestionAnswer,
    ) -> Result<(), String> {
        let home = self.context(profile).home().map_err(|failure| in_words(&failure))?;
        let QuestionAddress { asked_by, session, question } = question;
        let home = home.dir();
        let answered = vestal_gateway::answer_question(&home, *asked_by, session, question, answer);
        answered.await.map_err(|error| error.to_string())
    }

    async fn stop_before_removal(&self, profile: &ProfileName) -> Result<(), String> {
        let context = self.context(&ProfileName::default_profile());
        let stopped = gateway::stop_before_removal(&context, profile).await;
        stopped.map_err(|failure| in_words(&failure))
    }

    async fn schedules_runner(&self, profile: &ProfileName) -> SchedulesRunner {
        let home = self.context(profile).home().map(|home| home.dir());
        match home {
            Ok(home) => vestal_gateway::schedules_runner(&home, profile.as_str()).await,
            Err(failure) => {
                SchedulesRunner { is_running: false, pid: None, reason: Some(in_words(&failure)) }
            }
        }
    }

    async fn health(&self, profile: &ProfileName) -> Result<HealthReportView, String> {
        let context = self.context(profile);
        Ok(HealthReportView::new(self.version(), doctor::examine(&context).await))
    }

    async fn dispatch_plan(&self, board: &Slug) -> Result<DispatchPlanView, String> {
        let context = self.context(&ProfileName::default_profile());
        let planned = kanban::dispatch_plan(&context, board).await;
        planned.map_err(|failure| failure.message().unwrap_or("no plan can be made").to_owned())
    }

    async fn scratch_diff(&self, board: &Board, task: &TaskId) -> Result<TaskDiff, String> {
        let context = self.context(&ProfileName::default_profile());
        let found = kanban::scratch_diff(&context, board, task, DiffRange::Whole).await;
        found.map_err(|failure| in_words(&failure))
    }

    async fn stop_worker(&self, board: &Board, run: &Run) -> WorkerEnd {
        let context = self.context(&ProfileName::default_profile());
        match kanban::stop_worker(&context, board, run).await {
            Ok(end) => end,
            Err(failure) => {
                // The change is made, whatever becomes of the worker.
                let error = failure.message().unwrap_or_default().to_owned();
                tracing::warn!(error, run = %run.id, "a worker was not stopped");
                WorkerEnd::Survives
            }
        }
    }

    fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}
