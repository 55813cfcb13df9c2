//! Now: what needs a person and what runs, of all profiles.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use vestal_api::dashboard::{
    AskingTurn, DiskView, HomeView, NowView, QuestionAnswer, QuestionsView, TroubleView,
    WaitingQuestionView,
};
use vestal_api::{BoardTaskView, SandboxState, SandboxView};
use vestal_board::Status;
use vestal_board::store::{Order, TaskQuery};
use vestal_config::ProfileName;
use vestal_runtime::AnswerError;
use vestal_serve::WaitingQuestion;

use super::task::read;
use super::{ProfileQuery, sandboxes};
use crate::app::{App, AppState};
use crate::data::QuestionAddress;
use crate::error::PageError;
use crate::gate::{DeclaredRoute, Right, Route};

/// Tasks of each kind that are shown.
const SHOWN: u32 = 50;

pub(super) fn routes() -> Vec<DeclaredRoute<App>> {
    vec![
        Route::get("/api/now", now).needs(Right::Viewer),
        Route::get("/api/home", home).needs(Right::Viewer),
        Route::get("/api/questions", waiting).needs(Right::Viewer),
        Route::post("/api/questions/{profile}/{session}/{question}", answer).needs(Right::Operator),
    ]
}

async fn home(State(app): State<App>) -> Json<HomeView> {
    Json(HomeView {
        version: app.host.version().to_owned(),
        profiles: app.data.profiles().iter().map(ToString::to_string).collect(),
        home: app.data.root().root().to_string_lossy().into_owned(),
    })
}

async fn now(
    State(app): State<App>,
    Query(query): Query<ProfileQuery>,
) -> Result<Json<NowView>, PageError> {
    let profiles = app.data.profiles_of(query.profile.as_deref())?;
    let of_one = query.profile.filter(|name| !name.is_empty());
    let (found, tasks) =
        tokio::join!(sandboxes::list(&app, &profiles), tasks(&app, of_one.as_deref()));
    let mut view = NowView {
        disk: disk(&app),
        needs_you: tasks.needs_you,
        needs_you_total: tasks.total,
        running_tasks: tasks.running,
        sandboxes_total: found.sandboxes.len() as u64,
        sandboxes_running: 0,
        sandboxes: Vec::new(),
        troubles: tasks.troubles,
    };
    view.troubles.extend(found.troubles);
    for sandbox in found.sandboxes {
        view.sandboxes_running += u64::from(sandbox.state == SandboxState::Running);
        if is_shown_now(&sandbox) {
            view.sandboxes.push(sandbox);
        }
    }
    Ok(Json(view))
}

/// Returns how full the disk of the home is, if the system says.
fn disk(app: &AppState) -> Option<DiskView> {
    let root = app.data.root().root();
    let found = rustix::fs::statvfs(root).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    let path = root.to_string_lossy().into_owned();
    Some(DiskView::new(path, bytes(found.f_bavail), bytes(found.f_blocks)))
}

/// What turns wait for, and why it is not all of it.
pub(super) struct QuestionsNow {
    pub(super) questions: Vec<WaitingQuestionView>,
    troubles: Vec<TroubleView>,
}

/// Returns what turns of open conversations wait for: those of the dashboard's chats, and those of the
/// gateways. One gateway that cannot be asked keeps no other from being shown.
pub(super) async fn questions(app: &AppState, profiles: &[ProfileName]) -> QuestionsNow {
    let of_chats = app.chats.questions().await.into_iter();
    let view = |(profile, waiting): (ProfileName, WaitingQuestion)| {
        let WaitingQuestion { session, conversation, title, question } = waiting;
        WaitingQuestionView {
            profile: profile.to_string(),
            asked_by: AskingTurn::Chat,
            session,
            conversation,
            title,
            question: question.into(),
        }
    };
    let mut found = QuestionsNow {
        questions: of_chats.filter(|(of, _)| profiles.contains(of)).map(view).collect(),
        troubles: Vec::new(),
    };
    let ask = |profile: &ProfileName| {
        let profile = profile.clone();
        async move { (app.host.gateway_questions(&profile).await, profile) }
    };
    for (asked, profile) in futures_util::future::join_all(profiles.iter().map(ask)).await {
        match asked {
            Ok(questions) => found.questions.extend(questions),
            Err(error) => found.troubles.push(
                TroubleView::new(format!("questions of the gateway of profile {profile}"), &error)
                    .advise(format!("vestal -p {profile} gateway status says more")),
            ),
        }
    }
    found
}

async fn waiting(
    State(app): State<App>,
    Query(query): Query<ProfileQuery>,
) -> Result<Json<QuestionsView>, PageError> {
    let profiles = app.data.profiles_of(query.profile.as_deref())?;
    let QuestionsNow { questions, troubles } = questions(&app, &profiles).await;
    Ok(Json(QuestionsView { questions, troubles }))
}

/// An answer to a question of a turn that runs: one of the two.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerBody {
    /// Whose turn asks.
    #[serde(default)]
    asked_by: AskingTurn,
    /// To a request for approval.
    choice: Option<ApprovalChoice>,
    /// To a question of the model; empty: there is none.
    answer: Option<String>,
}

/// What may be done. What lasts longer than the conversation is a matter of its page.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ApprovalChoice {
    Once,
    Session,
    Deny,
}

async fn answer(
    State(app): State<App>,
    Path((profile, session, question)): Path<(String, String, String)>,
    body: Result<Json<AnswerBody>, JsonRejection>,
) -> Result<Json<()>, PageError> {
    let Json(body) = read(body)?;
    let home = app.data.profile(&profile)?;
    let answer = match (body.choice, body.answer) {
        (Some(ApprovalChoice::Once), None) => QuestionAnswer::Once,
        (Some(ApprovalChoice::Session), None) => QuestionAnswer::Session,
        (Some(ApprovalChoice::Deny), None) => QuestionAnswer::Deny,
        (None, Some(words)) => {
            QuestionAnswer::Words(Some(words).filter(|words| !words.trim().is_empty()))
        }
        _ => return Err(PageError::invalid("either choice or answer is needed")),
    };
    if body.asked_by == AskingTurn::Chat {
        let answered = app.chats.answer(home.profile(), &session, &question, answer.into()).await;
        answered.map_err(|error| match error {
            AnswerError::NotOpen => PageError::conflict("the question does not wait any more"),
            error => PageError::invalid(error.to_string()),
        })?;
    } else {
        let address = QuestionAddress { asked_by: body.asked_by, session, question };
        let answered = app.host.answer_gateway_question(home.profile(), &address, answer).await;
        answered.map_err(PageError::conflict)?;
    }
    Ok(Json(()))
}

/// Reports whether a sandbox is worth a line on the first page.
fn is_shown_now(sandbox: &SandboxView) -> bool {
    let is_silent = matches!(sandbox.state, SandboxState::Unresponsive | SandboxState::Unknown);
    is_silent || sandbox.jobs_running > 0 || !sandbox.drift.is_empty() || sandbox.trouble.is_some()
}

#[derive(Default)]
pub(super) struct TasksNow {
    pub(super) needs_you: Vec<BoardTaskView>,
    total: u64,
    running: Vec<BoardTaskView>,
    troubles: Vec<TroubleView>,
}

/// Reads all boards. One that cannot be read keeps no other from being shown.
pub(super) async fn tasks(app: &AppState, profile: Option<&str>) -> TasksNow {
    let mut found = TasksNow::default();
    let boards = match app.data.boards() {
        Ok(boards) => boards,
        Err(error) => {
            found.troubles.push(TroubleView::new("boards", &error.detail()));
            return found;
        }
    };
    let names = match boards.names() {
        Ok(names) => names,
        Err(error) => {
            found.troubles.push(TroubleView::new("boards", &error));
            return found;
        }
    };
    let assignee = profile.map(|name| Some(name.to_owned()));
    for slug in names {
        let of_board = async {
            let Some(board) = app.data.board(&boards, &slug).await? else { return Ok(()) };
            let mut read = board.read().await?;
            let base = TaskQuery {
                assignee: assignee.clone(),
                limit: Some(SHOWN),
                order: Order::Board,
                ..TaskQuery::default()
            };
            let attention = TaskQuery { needs_attention: true, ..base.clone() };
            let waiting =
                TaskQuery { statuses: vec![Status::Review, Status::Blocked], ..base.clone() };
            let running = TaskQuery { statuses: vec![Status::Running], ..base };
            let view = |task: &vestal_board::Task| BoardTaskView::new(&slug, task);
            let needed = read.list(&attention).await?;
            // Work that a person has to look at, where no reviewer of its own does, and tasks that wait
            // for one without having been given up: somebody has blocked them.
            let waiting = read.list(&waiting).await?;
            let is_new = |task: &&vestal_board::Task| {
                let waits_for_person = match task.status {
                    Status::Review => task.reviewer.is_none(),
                    _ => task.wake_at.is_none(),
                };
                waits_for_person && needed.iter().all(|other| other.id != task.id)
            };
            let waiting: Vec<_> = waiting.iter().filter(is_new).map(view).collect();
            found.total += read.count(&attention).await? + waiting.len() as u64;
            found.needs_you.extend(needed.iter().map(view));
            found.needs_you.extend(waiting);
            found.running.extend(read.list(&running).await?.iter().map(view));
            Ok::<_, PageError>(())
        };
        let read = of_board.await;
        if let Err(error) = read {
            found.troubles.push(
                TroubleView::new(format!("board {slug}"), &error.detail())
                    .advise("vestal kanban boards list says more"),
            );
        }
    }
    found
}
