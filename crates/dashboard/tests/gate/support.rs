//! A dashboard of the test's own, and a client that says exactly what a test wants.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_util::sync::CancellationToken;
use vestal_api::dashboard::{QuestionAnswer, WaitingQuestionView};
use vestal_api::{
    DispatchPlanView, GatewayStatusView, HealthReportView, ManagerKind, ManagerView,
    SchedulesRunner, WorkerEnd,
};
use vestal_board::boards::{Make, Slug};
use vestal_board::dispatch::DispatchResult;
use vestal_board::{Authority, Block, BlockKind, Board, NewTask, Run, TaskId};
use vestal_config::{Environment, Home, ProfileName, Settings};
use vestal_dashboard::gate::{Right, RouteEntry};
use vestal_dashboard::{
    AuthStore, Dashboard, DashboardSettings, GatewayChange, ProgramHost, QuestionAddress,
    store_path,
};
use vestal_dispatcher::TaskDiff;
use vestal_scripted_model::ScriptedModel;
use vestal_testkit::TestHome;

use crate::client::{Asked, Socket};

/// A program with nothing around the dashboard but the gateways that a test writes down.
#[derive(Debug)]
struct NoProgram(PathBuf);

/// Where a test says which gateways there are.
pub(crate) fn gateways_path(home: &std::path::Path) -> PathBuf {
    home.join("run/gateways.json")
}

/// What the gateway of this home asks.
pub(crate) fn questions_path(home: &std::path::Path) -> PathBuf {
    home.join("run/questions.json")
}

#[async_trait]
impl ProgramHost for NoProgram {
    async fn gateways(&self) -> Result<GatewayStatusView, String> {
        if let Ok(reported) = std::fs::read(gateways_path(&self.0)) {
            return serde_json::from_slice(&reported).map_err(|error| error.to_string());
        }
        let manager =
            ManagerView { kind: ManagerKind::None, pid: None, host: None, since: None, unit: None };
        Ok(GatewayStatusView { manager, gateways: Vec::new(), dashboard: None })
    }

    async fn change_gateway(&self, _: &ProfileName, _: GatewayChange) -> Result<(), String> {
        Err("there is no program to start one".to_owned())
    }

    async fn gateway_questions(
        &self,
        profile: &ProfileName,
    ) -> Result<Vec<WaitingQuestionView>, String> {
        let Ok(asked) = std::fs::read(questions_path(&self.0)) else { return Ok(Vec::new()) };
        let all: Vec<WaitingQuestionView> =
            serde_json::from_slice(&asked).map_err(|error| error.to_string())?;
        Ok(all.into_iter().filter(|one| one.profile == profile.as_str()).collect())
    }

    async fn answer_gateway_question(
        &self,
        _: &ProfileName,
        question: &QuestionAddress,
        answer: QuestionAnswer,
    ) -> Result<(), String> {
        if !questions_path(&self.0).exists() {
            return Err("the gateway refused: no question with this id is open".to_owned());
        }
        let reply = serde_json::json!({ "of": question.session, "question": question.question, "answer": answer });
        std::fs::write(self.0.join("run/answered.json"), reply.to_string()).unwrap();
        std::fs::remove_file(questions_path(&self.0)).unwrap();
        Ok(())
    }

    async fn stop_before_removal(&self, _: &ProfileName) -> Result<(), String> {
        Ok(())
    }

    async fn schedules_runner(&self, _: &ProfileName) -> SchedulesRunner {
        let reason = Some("no gateway runs".to_owned());
        SchedulesRunner { is_running: false, pid: None, reason }
    }

    async fn health(&self, _: &ProfileName) -> Result<HealthReportView, String> {
        Ok(HealthReportView::new("0", Vec::new()))
    }

    async fn dispatch_plan(&self, _: &Slug) -> Result<DispatchPlanView, String> {
        Ok(DispatchPlanView {
            policy: "dispatching nothing".to_owned(),
            warnings: Vec::new(),
            watched: false,
            would: DispatchResult::default(),
            titles: BTreeMap::new(),
        })
    }

    async fn scratch_diff(&self, _: &Board, task: &TaskId) -> Result<TaskDiff, String> {
        let Ok(text) = std::fs::read(self.0.join("run/scratch.txt")) else {
            return Err(format!("task {task} has no files"));
        };
        let (path, environment) = ("notes.txt".into(), Environment::capture());
        let file = vestal_dispatcher::NewFile { path, is_executable: false, bytes: text };
        let made = vestal_dispatcher::diff_of_new(
            "/workspace/kanban".into(),
            vec![file],
            Vec::new(),
            &environment,
        );
        made.await.map_err(|error| error.to_string())
    }

    async fn stop_worker(&self, _: &Board, _: &Run) -> WorkerEnd {
        WorkerEnd::None
    }

    fn version(&self) -> &'static str {
        "0"
    }
}

pub(crate) struct DashboardFixture {
    dir: TestHome,
    pub(crate) home: PathBuf,
    pub(crate) address: SocketAddr,
    pub(crate) routes: Vec<RouteEntry>,
    mark: String,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl DashboardFixture {
    pub(crate) async fn start() -> Self {
        Self::start_in(TestHome::create()).await
    }

    /// Starts one with these files in its home.
    pub(crate) async fn start_with_config(config: &str, dotenv: &str) -> Self {
        let dir = TestHome::create();
        dir.write_config(config);
        if !dotenv.is_empty() {
            std::fs::write(dir.vestal().join(".env"), dotenv).unwrap();
        }
        Self::start_in(dir).await
    }

    /// Starts one whose profile asks a scripted model.
    pub(crate) async fn start_with_model(model: &ScriptedModel) -> Self {
        let dir = TestHome::create();
        let config = format!(
            "model:\n  base_url: {}\n  default: m\nterminal:\n  backend: local\nagent:\n  \
             api_max_retries: 0\n",
            model.base_url()
        );
        dir.write_config(&config);
        Self::start_in(dir).await
    }

    /// Opens a WebSocket as a page does: with a ticket of the session.
    pub(crate) async fn socket(&self, path: &str, cookie: &str) -> Socket {
        self.socket_with(path, "", cookie).await
    }

    /// Opens a WebSocket with more in its query, which begins with `&`.
    pub(crate) async fn socket_with(&self, path: &str, query: &str, cookie: &str) -> Socket {
        let answer = self.post("/api/auth/ws-ticket", &serde_json::json!({})).cookie(cookie);
        let ticket = answer.send().await.json()["ticket"].as_str().unwrap().to_owned();
        let url = format!("ws://{}{path}?ticket={ticket}{query}", self.address);
        let mut request = url.into_client_request().unwrap();
        let origin = format!("http://{}", self.authority());
        for (name, value) in [("origin", origin.as_str()), ("cookie", cookie)] {
            request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
        }
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (socket, _) = tokio_tungstenite::client_async(request, stream).await.unwrap();
        Socket { socket, next: 1 }
    }

    /// Stops the sandboxes that conversations began: their guests outlive their process.
    pub(crate) async fn stop_sandboxes(&self) {
        let none: [(&str, &str); 0] = [];
        let schema = vestal_api::schema();
        let environment = Environment::from_pairs(none);
        let settings = Settings::load(&schema, Home::at(&self.home), environment, Vec::new());
        let engine = vestal_sandbox::Engine::open(settings).unwrap();
        for summary in engine.list().await.unwrap() {
            engine.stop(&summary.task.parse().unwrap()).await.ok();
        }
        engine.close(Duration::from_mins(1)).await;
    }

    async fn start_in(dir: TestHome) -> Self {
        Self::start_at(dir, 0).await
    }

    async fn start_at(dir: TestHome, port: u16) -> Self {
        let home = dir.vestal();
        std::fs::create_dir_all(&home).unwrap();
        let root = Home::at(&home);
        let environment = Environment::from_pairs(dir.variables());
        let settings =
            Settings::load(&vestal_api::schema(), root.clone(), environment.clone(), Vec::new());
        let settings = DashboardSettings::new(&settings, None, Some(port)).unwrap();
        let dashboard =
            Dashboard::start(&root, environment, &settings, Arc::new(NoProgram(home.clone())))
                .await
                .unwrap();
        let (address, routes) = (dashboard.address(), dashboard.routes());
        let stop = CancellationToken::new();
        let serving = tokio::spawn(dashboard.serve(stop.clone()));
        let mark = String::new();
        let mut fixture = Self { dir, home, address, routes, mark, stop, serving };
        let cookie = fixture.login(Right::Viewer).await;
        let name = cookie.split_once('=').unwrap().0;
        name.strip_prefix("vestal_session_").unwrap().clone_into(&mut fixture.mark);
        fixture
    }

    pub(crate) async fn restart(self) -> Self {
        self.go_away().await.come_back().await
    }

    /// Stops, to begin again at the same address.
    pub(crate) async fn go_away(self) -> Away {
        let port = self.port();
        self.stop.cancel();
        self.serving.await.unwrap();
        Away { dir: self.dir, port }
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.serving.await.unwrap();
    }

    async fn store(&self) -> AuthStore {
        AuthStore::open(&store_path(&self.home)).await.unwrap()
    }

    /// Makes a link, as another process does, and returns its secret.
    pub(crate) async fn link(&self, right: Right) -> String {
        self.link_at(right, Timestamp::now()).await
    }

    async fn link_at(&self, right: Right, now: Timestamp) -> String {
        let store = self.store().await;
        let link = store.create_link(right, now).await.unwrap();
        store.close().await;
        link.url("").split_once('#').unwrap().1.to_owned()
    }

    pub(crate) async fn set_password(&self, password: &str) {
        let store = self.store().await;
        store.set_password(password, Timestamp::now()).await.unwrap();
        store.close().await;
    }

    /// Logs in and returns the cookie.
    pub(crate) async fn login(&self, right: Right) -> String {
        let token = self.link(right).await;
        let body = serde_json::json!({ "token": token });
        let answer = self.post("/api/auth/link", &body).send().await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
    }

    /// Returns the cookie of a session that was last used thirteen hours ago. All others of the
    /// home are as old then.
    pub(crate) async fn expired(&self) -> String {
        const AGE: &str = "UPDATE sessions SET seen_at = seen_at - 46800000";
        let cookie = self.login(Right::Operator).await;
        vestal_testkit::sqlite::execute(&store_path(&self.home), AGE).await;
        cookie
    }

    /// Returns a cookie of this home's name with any value.
    pub(crate) fn cookie_of(&self, value: &str) -> String {
        format!("vestal_session_{}={value}", self.mark)
    }

    /// Returns the home of the user who runs the dashboard.
    pub(crate) fn user(&self) -> PathBuf {
        self.dir.user()
    }

    pub(crate) fn authority(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn get(&self, path: &str) -> Asked<'_> {
        Asked::new(self, "GET", path)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Asked<'_> {
        self.post_without_origin(path, body).own_origin()
    }

    /// Begins a request whose body is no JSON.
    pub(crate) fn upload(&self, path: &str) -> Asked<'_> {
        Asked::new(self, "POST", path).own_origin()
    }

    pub(crate) fn post_without_origin(&self, path: &str, body: &Value) -> Asked<'_> {
        Asked::new(self, "POST", path).json(body)
    }

    /// Sends bytes as they are and returns everything that is answered until the server hangs up.
    pub(crate) async fn raw(&self, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // A refusal may come, and the connection end, before everything is sent.
        stream.write_all(request).await.ok();
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        tokio::time::timeout(Duration::from_mins(1), read).await.unwrap().ok();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Adds a task to the default board, as another process does.
    pub(crate) async fn create_task(&self, title: &str) {
        self.create_task_with(title, "").await;
    }

    pub(crate) async fn create_task_with(&self, title: &str, body: &str) {
        let board = self.board().await;
        let (title, body) = (title.to_owned(), body.to_owned());
        let new = NewTask { title, body, ..NewTask::default() };
        board.create(&Authority::Person("user".into()), new).await.unwrap();
        board.close().await.unwrap();
    }

    async fn board(&self) -> Board {
        let none: [(&str, &str); 0] = [];
        let settings = Settings::load(
            &vestal_api::schema(),
            Home::at(&self.home),
            Environment::from_pairs(none),
            Vec::new(),
        );
        let boards = vestal_board::settings::boards(&settings).unwrap();
        boards.open(&Slug::default_board(), Make::IfMissing).await.unwrap()
    }

    /// Adds a task that waits for a person.
    pub(crate) async fn create_blocked_task(&self, title: &str, question: &str) {
        let board = self.board().await;
        let person = Authority::Person("user".into());
        let new = NewTask { title: title.to_owned(), ..NewTask::default() };
        let task = board.create(&person, new).await.unwrap().task;
        let block = Block { kind: Some(BlockKind::NeedsInput), reason: question.to_owned() };
        board.block(&person, &task.id, block).await.unwrap();
        board.close().await.unwrap();
    }

    /// Returns the status of the task with this title.
    pub(crate) async fn status_of(&self, title: &str) -> String {
        let board = self.board().await;
        let tasks = board.list(&vestal_board::store::TaskQuery::default()).await.unwrap();
        board.close().await.unwrap();
        tasks.iter().find(|task| task.title == title).unwrap().status.to_string()
    }

    /// Ends all sessions, as `vestal dashboard logout` does.
    pub(crate) async fn end_sessions(&self) {
        let store = self.store().await;
        store.end_all().await.unwrap();
        store.close().await;
    }

    /// Makes a board whose file is not a database.
    pub(crate) fn break_board(&self, slug: &str) {
        let root = vestal_board::settings::boards_dir(&Home::at(&self.home));
        let dir = root.join("boards").join(slug);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("kanban.db"), "this is not a database, and long enough to show it")
            .unwrap();
    }
}

/// A fixture whose dashboard does not run.
pub(crate) struct Away {
    dir: TestHome,
    port: u16,
}

impl Away {
    pub(crate) fn home(&self) -> PathBuf {
        self.dir.vestal()
    }

    pub(crate) async fn come_back(self) -> DashboardFixture {
        DashboardFixture::start_at(self.dir, self.port).await
    }
}
