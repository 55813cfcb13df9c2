//! A sandbox from outside: its terminals, its files, what is done to it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use vestal_config::{Environment, Home, Settings};
use vestal_dashboard::gate::Right;
use vestal_sandbox::{Command, Engine, FilesOnRemoval, TaskName};

use crate::client::Socket;
use crate::fixtures;
use crate::support::DashboardFixture;

/// A dashboard whose home has a sandbox that runs.
struct Workshop {
    fixture: DashboardFixture,
    engine: Engine,
    task: TaskName,
    cookie: String,
}

impl Workshop {
    async fn open() -> Self {
        let fixture = DashboardFixture::start().await;
        std::fs::write(fixture.home.join("config.yaml"), "terminal:\n  backend: local\n").unwrap();
        let user = fixture.home.to_str().unwrap();
        let environment = Environment::from_pairs([("HOME", user), ("PATH", "/usr/bin:/bin")]);
        let home = Home::at(&fixture.home);
        let settings = Settings::load(&vestal_api::schema(), home, environment, Vec::new());
        let engine = Engine::open(settings).unwrap();
        let task: TaskName = "web".parse().unwrap();
        let sandbox = engine.sandbox(&task).await.unwrap();
        sandbox.run(Command::shell("true")).await.unwrap();
        let cookie = fixture.login(Right::Operator).await;
        Self { fixture, engine, task, cookie }
    }

    async fn close(self) {
        self.engine.remove(&self.task, FilesOnRemoval::Remove).await.ok();
        self.engine.close(Duration::from_mins(1)).await;
        self.fixture.stop().await;
    }

    async fn get(&self, path: &str) -> Value {
        let path = format!("/api/sandboxes/default/web{path}");
        let answer = self.fixture.get(&path).cookie(&self.cookie).send().await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.json()
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        let path = format!("/api/sandboxes/default/web{path}");
        let answer = self.fixture.post(&path, &body).cookie(&self.cookie).send().await;
        (answer.status, answer.json())
    }

    /// Connects to a terminal; `from` as a page that has seen everything before it.
    async fn terminal(&self, id: &str, from: Option<u64>) -> Screen {
        let path = format!("/api/sandboxes/default/web/terminals/{id}");
        let from = from.map_or_else(String::new, |from| format!("&from={from}"));
        let query = format!("&rows=24&cols=80{from}");
        let mut socket = self.fixture.socket_with(&path, &query, &self.cookie).await;
        let Some(Message::Text(begin)) = socket.message().await else { panic!("no beginning") };
        let begin: Value = serde_json::from_str(&begin).unwrap();
        assert_eq!(begin["type"], "begin", "{begin}");
        Screen { socket, from: begin["from"].as_u64().unwrap(), seen: Vec::new() }
    }
}

/// What a page has of a terminal.
struct Screen {
    socket: Socket,
    from: u64,
    seen: Vec<u8>,
}

impl Screen {
    async fn type_in(&mut self, text: &str) {
        self.socket.say(Message::binary(text.as_bytes().to_vec())).await;
    }

    /// Reads on until a text was seen.
    async fn until(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.seen).contains(text) {
            match self.socket.message().await {
                Some(Message::Binary(bytes)) => self.seen.extend_from_slice(&bytes),
                other => panic!("{other:?} after {}", String::from_utf8_lossy(&self.seen)),
            }
        }
    }

    fn position(&self) -> u64 {
        self.from + self.seen.len() as u64
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_that_is_left_and_come_back_to_loses_and_doubles_no_byte() {
    let workshop = Workshop::open().await;
    let (status, made) = workshop.post("/terminals", json!({ "rows": 24, "cols": 80 })).await;
    assert_eq!(status, 200, "{made}");
    let id = made["id"].as_str().unwrap();
    let mut page = workshop.terminal(id, Some(0)).await;
    page.type_in("echo one-$((1+1))\r").await;
    page.until("one-2\r\n").await;
    page.type_in("echo two-$((1+2)); sleep 0.2; echo three-$((2+2))\r").await;
    page.until("two-3\r\n").await;
    let (mut all, position) = (page.seen.clone(), page.position());
    // The line is lost in the middle of what is printed, and more is printed meanwhile.
    drop(page);
    let job = format!("/jobs/{id}");
    while workshop.get(&job).await["stdout_bytes"].as_u64().unwrap() < position + 5 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut page = workshop.terminal(id, Some(position)).await;
    assert_eq!(page.from, position);
    page.until("three-4\r\n").await;
    all.extend_from_slice(&page.seen);
    let listed = workshop.get("/terminals").await;
    assert_eq!(listed["terminals"][0]["id"], id);

    // A client that has seen nothing gets the same bytes.
    let mut other = workshop.terminal(id, Some(0)).await;
    other.until("three-4\r\n").await;
    assert_eq!(String::from_utf8_lossy(&other.seen[..all.len()]), String::from_utf8_lossy(&all));

    page.type_in("exit\r").await;
    loop {
        match page.socket.message().await.unwrap() {
            Message::Binary(_) => {}
            Message::Text(text) => {
                let reply: Value = serde_json::from_str(&text).unwrap();
                assert_eq!(
                    (&reply["type"], &reply["job"]["exit_code"]),
                    (&json!("ended"), &json!(0))
                );
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(workshop.get("/terminals").await, json!({ "terminals": [] }));
    workshop.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_draws_slowly_slows_a_flood_down_and_gets_all_of_it() {
    const FLOOD: usize = 3_000_000;
    let workshop = Workshop::open().await;
    let (_, made) = workshop.post("/terminals", json!({ "rows": 24, "cols": 80 })).await;
    let mut page = workshop.terminal(made["id"].as_str().unwrap(), Some(0)).await;
    let line = format!("head -c {FLOOD} /dev/zero | tr '\\0' x; echo; echo over-$((6*6))\r");
    page.type_in(&line).await;
    let mut undrawn = 0;
    let end = |seen: &[u8]| {
        String::from_utf8_lossy(&seen[seen.len().saturating_sub(200)..]).contains("over-36\r\n")
    };
    while !end(&page.seen) {
        match page.socket.message().await {
            Some(Message::Binary(bytes)) => {
                undrawn += bytes.len();
                page.seen.extend_from_slice(&bytes);
                // No more comes than a page may have undrawn, and a piece.
                assert!(undrawn <= (512 << 10) + (64 << 10), "{undrawn}");
                if undrawn >= 400 << 10 {
                    let drawn = json!({ "drawn": page.position() }).to_string();
                    page.socket.say(Message::text(drawn)).await;
                    undrawn = 0;
                }
            }
            other => panic!("{other:?}"),
        }
    }
    let flood = page.seen.split(|byte| *byte == b'x').count() - 1;
    // The `x` of what was typed is echoed, too.
    assert!((FLOOD..FLOOD + 10).contains(&flood), "{flood}");
    workshop.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_saved_only_over_the_version_that_was_opened() {
    let workshop = Workshop::open().await;
    let path = workshop.fixture.home.join("notes.txt");
    std::fs::write(&path, "first").unwrap();
    let shown = path.to_str().unwrap();
    let view = workshop.get(&format!("/files/view?path={shown}")).await;
    assert_eq!((&view["text"], &view["is_whole"]), (&json!("first"), &json!(true)));
    let save = |text: &str, version: Value| {
        workshop.post("/files/save", json!({ "path": shown, "text": text, "version": version }))
    };
    let (status, saved) = save("second", view["version"].clone()).await;
    assert_eq!(status, 200, "{saved}");
    let (status, refused) = save("third", view["version"].clone()).await;
    assert_eq!((status, &refused["error"]), (409, &json!("changed")), "{refused}");
    let (status, refused) = save("new", Value::Null).await;
    assert_eq!((status, &refused["error"]), (409, &json!("conflict")), "it is there already");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "second");
    let (status, _) = save("third", saved["version"].clone()).await;
    assert_eq!(status, 200);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "third");
    workshop.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_action_goes_on_without_its_page_and_is_found_again() {
    let workshop = Workshop::open().await;
    let plan = workshop.get("/plan?verb=remove&files=true").await;
    assert_eq!(plan["what"], "removing it with its files", "{plan}");
    let (status, begun) =
        workshop.post("/actions", json!({ "verb": "snapshot", "snapshot": "good" })).await;
    assert_eq!(status, 200, "{begun}");
    let id = begun["id"].as_str().unwrap();
    let path = format!("/api/operations/default/{id}");
    let mut found = Value::Null;
    while found["state"].is_null() || found["state"] == "running" {
        let answer = workshop.fixture.get(&path).cookie(&workshop.cookie).send().await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        found = answer.json();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!((&found["state"], &found["what"]), (&json!("failed"), &json!("saving it as good")));
    assert!(found["result"].as_str().unwrap().contains("there is nothing to copy"), "{found}");
    // Another dashboard of the home finds it, too.
    let Workshop { fixture, engine, task, cookie } = workshop;
    let fixture = fixture.restart().await;
    let all = fixture.get("/api/operations").cookie(&cookie).send().await.json();
    assert_eq!(all["operations"][0]["id"], id, "{all}");
    Workshop { fixture, engine, task, cookie }.close().await;
}

/// Answers each request with the request itself, at any port that is free.
const MIRROR: &str = r#"exec perl -MIO::Socket::INET -e '
my $listener = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1") or die;
while (my $client = $listener->accept) {
    my $request = "";
    while (my $line = <$client>) { last if $line =~ /^\r?\n$/; $request .= $line; }
    print $client "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: ", length $request, "\r\n\r\n", $request;
    close $client;
}'"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_preview_behind_a_proxy_is_for_the_browser_that_opened_it_and_tells_the_sandbox_nothing()
{
    let config = "terminal: {backend: local}\ndashboard:\n  public_url: http://vestal.example\n  \
                  preview_url: http://*.preview.example\n  trusted_proxies: 127.0.0.1\n";
    let fixture = DashboardFixture::start_with_config(config, "").await;
    fixtures::start_job(&fixture.home, "mirror", MIRROR).await;
    let operator = fixture.login(Right::Operator).await;
    let sandbox = "/api/sandboxes/default/mirror";
    let listening = async {
        loop {
            let path = format!("{sandbox}/ports");
            let found = fixture.get(&path).cookie(&operator).send().await.json();
            if let Some(port) = found["ports"][0]["port"].as_u64() {
                return port;
            }
        }
    };
    let port = tokio::time::timeout(Duration::from_mins(1), listening).await.unwrap();
    let opened = fixture
        .post_without_origin(&format!("{sandbox}/ports/{port}/preview"), &json!({}))
        .host("vestal.example")
        .header("origin", "http://vestal.example")
        .cookie(&operator);
    let opened = opened.send().await.json();
    let url = opened["url"].as_str().unwrap().strip_prefix("http://").unwrap();
    let (host, ticket) = url.split_at(url.find('/').unwrap());
    assert!(host.ends_with(".preview.example"), "{host}");

    let fetch = |path: &str, site: &str, mode: &str, dest: &str| {
        let asked = fixture.get(path).host(host).header("sec-fetch-site", site);
        asked.header("sec-fetch-mode", mode).header("sec-fetch-dest", dest)
    };
    let visit = |path: &str| fetch(path, "cross-site", "navigate", "document");
    let framed = fetch(ticket, "cross-site", "navigate", "iframe").send().await;
    assert_eq!(framed.status, 403, "a ticket is not used up by a frame");
    let entered = visit(ticket).send().await;
    assert_eq!((entered.status, entered.header("location")), (303, Some("/")));
    let cookie = entered.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    assert_eq!(visit(ticket).send().await.status, 401, "it counts once");

    let shown = visit("/page?x=1")
        .cookie(&cookie)
        .header("x-forwarded-for", "203.0.113.9")
        .header("authorization", "Basic YW5uOnNlY3JldA==")
        .send()
        .await;
    assert_eq!(shown.status, 200, "{}", shown.body);
    assert!(shown.body.starts_with("GET /page?x=1 HTTP/1.1\r\n"), "{}", shown.body);
    for told in ["203.0.113.9", "Basic", "vestal_", "preview.example"] {
        assert!(!shown.body.contains(told), "{told}: {}", shown.body);
    }
    assert_eq!(visit("/").send().await.status, 401, "an address alone lets nobody in");
    let of_other = fetch("/", "same-site", "no-cors", "image").cookie(&cookie).send().await;
    assert_eq!(of_other.status, 403, "a page of another preview");
    let inside = fixture.get("/api/home").host("vestal.example").cookie(&cookie).send().await;
    assert_eq!(inside.status, 401, "it says nothing to the dashboard");
    fixture.end_sessions().await;
    assert_eq!(visit("/").cookie(&cookie).send().await.status, 401, "the session has ended");
    fixture.stop_sandboxes().await;
    fixture.stop().await;
}
