//! The gate from outside: a dashboard that listens on loopback, asked over real connections.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[expect(dead_code, reason = "the browser uses the rest")]
mod support;

mod client;

#[expect(dead_code, reason = "the browser uses the rest")]
mod fixtures;

mod admin;
mod attacks;
mod board;
mod chat;
mod lists;
mod questions;
mod sandboxes;

use client::Asked;
use serde_json::{Value, json};
use support::DashboardFixture;
use vestal_dashboard::gate::{Right, RouteKind};

/// Paths with something in the place of their parameters.
fn concrete(path: &str) -> String {
    path.replace("{profile}", "default")
        .replace("{task}", "web")
        .replace("{job}", "j-01")
        .replace("{port}", "8080")
        .replace("{board}", "default")
        .replace("{id}", "x")
        .replace("{name}", "x")
        .replace("{target}", "memory")
        .replace("{version}", "0")
        .replace("{*name}", "x.js")
        .replace("{message}", "1")
        .replace("{number}", "0")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_refuses_who_has_no_session_that_counts() {
    let fixture = DashboardFixture::start().await;
    let other = DashboardFixture::start().await;
    let routes = fixture.routes.clone();
    assert!(routes.len() > 30, "{}", routes.len());
    let revoked = fixture.login(Right::Operator).await;
    let out = fixture.post("/api/auth/logout", &json!({})).cookie(&revoked).send().await;
    assert_eq!(out.status, 200);
    let credentials = [
        ("no session", None),
        ("a revoked session", Some(revoked.clone())),
        ("an expired session", Some(fixture.expired().await)),
        ("a session of another home", Some(other.login(Right::Operator).await)),
        ("nonsense", Some(fixture.cookie_of("nonsense"))),
        ("an empty one", Some(fixture.cookie_of(""))),
    ];
    // The session of another home, also under the name that this home's cookie has.
    let stolen = credentials[3].1.as_deref().unwrap().split_once('=').unwrap().1.to_owned();
    let renamed = fixture.cookie_of(&stolen);
    let credentials =
        credentials.into_iter().chain([("another home's under this name", Some(renamed))]);
    for (what, cookie) in credentials {
        for route in &routes {
            let path = concrete(route.path);
            let mut asked = Asked::new(&fixture, route.method.as_str(), &path);
            if let Some(cookie) = &cookie {
                asked = asked.cookie(cookie);
            }
            if route.method != "GET" {
                asked = asked.own_origin().json(&json!({}));
            }
            if route.kind == RouteKind::WebSocket {
                asked = asked.own_origin().upgrade();
            }
            let answer = asked.send().await;
            let name = format!("{} {path} with {what}", route.method);
            if route.right == Right::Public && route.kind == RouteKind::Http {
                assert_ne!(answer.status, 500, "{name}");
                continue;
            }
            if path.starts_with("/api/") {
                assert_eq!(answer.status, 401, "{name}");
                assert_eq!(answer.json()["login_url"], "/login", "{name}");
            } else {
                assert_eq!(answer.status, 303, "{name}");
                assert!(answer.header("location").unwrap().starts_with("/login"), "{name}");
            }
        }
    }
    // What is not a route is not told apart from one.
    let unknown = fixture.get("/api/no-such-thing").send().await;
    assert_eq!(unknown.status, 401);
    fixture.stop().await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_public_routes_are_the_login_and_files() {
    let fixture = DashboardFixture::start().await;
    let public: Vec<&str> = fixture
        .routes
        .iter()
        .filter(|route| route.right == Right::Public)
        .map(|route| route.path)
        .collect();
    assert_eq!(
        public,
        [
            "/api/auth/oidc",
            "/login/callback",
            "/login",
            "/api/auth/link",
            "/api/auth/password",
            "/assets/{version}/{*name}",
            "/favicon.ico"
        ]
    );
    for route in fixture.routes.iter().filter(|route| route.method != "GET") {
        let is_own = route.path.starts_with("/api/auth/");
        assert!(is_own || route.right == Right::Operator, "{} changes something", route.path);
    }
    let page = fixture.get("/login").send().await;
    let home = fixture.home.to_str().unwrap();
    assert!(!page.body.contains(home), "a public page tells nothing of the home");
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_viewer_changes_nothing() {
    let fixture = DashboardFixture::start().await;
    let viewer = fixture.login(Right::Viewer).await;
    for route in &fixture.routes {
        let path = concrete(route.path);
        let asked = Asked::new(&fixture, route.method.as_str(), &path).cookie(&viewer);
        if route.right == Right::Operator {
            let asked = asked.own_origin().json(&json!({ "text": "x" }));
            let asked = if route.kind == RouteKind::WebSocket { asked.upgrade() } else { asked };
            assert_eq!(asked.send().await.status, 403, "{} {path}", route.method);
        }
    }
    let me = fixture.get("/api/auth/me").cookie(&viewer).send().await;
    assert_eq!(me.json(), json!({ "name": "link", "right": "viewer", "method": "link" }));
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_needs_the_origin_of_the_dashboard() {
    let fixture = DashboardFixture::start().await;
    let session = fixture.login(Right::Operator).await;
    let ticket = || fixture.post_without_origin("/api/auth/ws-ticket", &json!({})).cookie(&session);
    assert_eq!(ticket().send().await.status, 403, "an absent origin is not the right one");
    for origin in [
        "http://evil.example",
        "null",
        "http://127.0.0.1",
        &format!("https://{}", fixture.authority()),
        &format!("http://{}.evil.example", fixture.authority()),
        "",
    ] {
        let answer = ticket().header("origin", origin).send().await;
        assert_eq!(
            (answer.status, &answer.json()["error"]),
            (403, &json!("bad_origin")),
            "{origin}"
        );
    }
    let twice = ticket().own_origin().header("origin", "http://evil.example").send().await;
    assert_eq!(twice.status, 403);
    let own = ticket().own_origin().send().await;
    assert_eq!(own.status, 200);
    // A page of another program on this machine is of the same site.
    for site in ["same-site", "cross-site"] {
        let asked = fixture.get("/api/now").cookie(&session).header("sec-fetch-site", site);
        assert_eq!(asked.send().await.status, 403, "{site}");
    }
    let asked =
        fixture.get("/api/auth/me").cookie(&session).header("sec-fetch-site", "same-origin");
    assert_eq!(asked.send().await.status, 200);
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_host_is_refused() {
    let fixture = DashboardFixture::start().await;
    let session = fixture.login(Right::Operator).await;
    for host in
        ["evil.example", "127.0.0.1:1", "localhost", &format!("evil.example:{}", fixture.port())]
    {
        for path in ["/", "/api/now", "/login", "/assets/0/x"] {
            let answer = fixture.get(path).cookie(&session).host(host).send().await;
            assert_eq!(
                (answer.status, &answer.json()["error"]),
                (400, &json!("bad_host")),
                "{host}"
            );
        }
    }
    let local = format!("localhost:{}", fixture.port());
    assert_eq!(fixture.get("/api/auth/me").cookie(&session).host(&local).send().await.status, 200);
    let forwarded = fixture.get("/api/auth/me").cookie(&session).header("x-forwarded-host", "evil");
    assert_eq!(forwarded.send().await.status, 200, "nobody is a proxy here, so it is ignored");
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_carries_the_headers() {
    let fixture = DashboardFixture::start().await;
    let session = fixture.login(Right::Operator).await;
    let answers = [
        fixture.get("/").cookie(&session).send().await,
        fixture.get("/login").send().await,
        fixture.get("/api/now").cookie(&session).send().await,
        fixture.get("/api/now").send().await,
        fixture.get("/nothing").cookie(&session).send().await,
        fixture.get("/api/now").host("evil.example").send().await,
        fixture.get("/assets/0/none.js").send().await,
    ];
    for answer in answers {
        let policy = answer.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self';",
            "style-src 'self';",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.contains(part), "{part} in {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("http") && !policy.contains('*'));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("x-frame-options"), Some("DENY"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("cross-origin-opener-policy"), Some("same-origin"));
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert!(answer.header("permissions-policy").is_some());
        assert!(answer.header("access-control-allow-origin").is_none());
    }
    let page = fixture.get("/").cookie(&session).send().await;
    let script = page.body.split("src=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let script = fixture.get(&script).send().await;
    assert_eq!(script.status, 200);
    assert_eq!(script.header("cache-control"), Some("public, max-age=31536000, immutable"));
    assert_eq!(script.header("content-type"), Some("text/javascript; charset=utf-8"));
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_websocket_needs_a_ticket_of_its_session_that_counts_once() {
    let fixture = DashboardFixture::start().await;
    let (mine, theirs) =
        (fixture.login(Right::Operator).await, fixture.login(Right::Operator).await);
    let path = "/api/sandboxes/default/web/jobs/j-01/input";
    let ticket = async |cookie: &str| {
        let answer = fixture.post("/api/auth/ws-ticket", &json!({})).cookie(cookie).send().await;
        answer.json()["ticket"].as_str().unwrap().to_owned()
    };
    let connect = async |cookie: &str, ticket: &str| {
        let path = format!("{path}?ticket={ticket}");
        let asked = Asked::new(&fixture, "GET", &path).cookie(cookie).own_origin().upgrade();
        asked.send().await.status
    };
    assert_eq!(connect(&mine, "").await, 401);
    assert_eq!(connect(&mine, "nonsense").await, 401);
    let good = ticket(&mine).await;
    let foreign = Asked::new(&fixture, "GET", &format!("{path}?ticket={good}")).cookie(&mine);
    assert_eq!(foreign.upgrade().send().await.status, 403, "without an origin");
    assert_eq!(connect(&mine, &good).await, 101, "a refused origin does not use it up");
    assert_eq!(connect(&mine, &good).await, 401, "it was used");
    let other = ticket(&theirs).await;
    assert_eq!(connect(&mine, &other).await, 401, "it is another session's");
    let late = ticket(&mine).await;
    fixture.post("/api/auth/logout", &json!({})).cookie(&mine).send().await;
    assert_eq!(connect(&mine, &late).await, 401, "the session has ended");
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_becomes_a_session_that_a_restart_keeps_and_a_logout_ends() {
    let fixture = DashboardFixture::start().await;
    let token = fixture.link(Right::Operator).await;
    let redeem = |token: &str| fixture.post("/api/auth/link", &json!({ "token": token }));
    let (first, second) = tokio::join!(redeem(&token).send(), redeem(&token).send());
    let mut statuses = [first.status, second.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 401], "of two at once, one gets in");
    let winner = if first.status == 200 { first } else { second };
    let cookie = winner.header("set-cookie").unwrap().to_owned();
    for part in ["; HttpOnly", "; SameSite=Strict", "; Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!winner.body.contains(&token) && !cookie.contains(&token));
    let session = cookie.split(';').next().unwrap().to_owned();
    assert_eq!(fixture.get("/api/auth/me").cookie(&session).send().await.status, 200);

    let fixture = fixture.restart().await;
    assert_eq!(fixture.get("/api/auth/me").cookie(&session).send().await.status, 200);
    let out = fixture.post("/api/auth/logout", &json!({})).cookie(&session).send().await;
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"));
    let gone = fixture.get("/api/auth/me").cookie(&session).send().await;
    assert_eq!((gone.status, &gone.json()["error"]), (401, &json!("session_expired")));
    let none = fixture.get("/api/auth/me").send().await;
    assert_eq!((none.status, &none.json()["error"]), (401, &json!("unauthenticated")));
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_is_not_guessed_by_trying() {
    let fixture = DashboardFixture::start().await;
    fixture.set_password("correct horse battery").await;
    let attempt =
        |password: &str| fixture.post("/api/auth/password", &json!({ "password": password }));
    let right = attempt("correct horse battery").send().await;
    assert_eq!(right.status, 200, "{}", right.body);
    assert_eq!(right.json()["method"], "password");
    for _ in 0..5 {
        assert_eq!(attempt("guess").send().await.status, 401);
    }
    let refused = attempt("correct horse battery").send().await;
    assert_eq!(refused.status, 429, "the right one is not tried any more either");
    assert!(refused.header("retry-after").is_some());
    let page = fixture.get("/login").send().await;
    assert!(page.body.contains("password-form"));
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_in_the_audit_log() {
    let fixture = DashboardFixture::start().await;
    let token = fixture.link(Right::Operator).await;
    let used = fixture.post("/api/auth/link", &json!({ "token": token })).send().await;
    let session = used.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    fixture.post("/api/auth/link", &json!({ "token": token })).send().await;
    fixture.post("/api/auth/password", &json!({ "password": "hunter2hunter2" })).send().await;
    let stop = fixture.post("/api/sandboxes/default/none/stop?x=secret-query", &json!({}));
    stop.cookie(&session).send().await;
    fixture.post("/api/auth/logout-everywhere", &json!({})).cookie(&session).send().await;
    let log = std::fs::read_to_string(fixture.home.join("logs/dashboard-audit.log")).unwrap();
    let value = session.split_once('=').unwrap().1;
    for secret in [token.as_str(), value, "hunter2hunter2", "secret-query"] {
        assert!(!log.contains(secret), "{log}");
    }
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let reported: Vec<(String, String)> = lines
        .iter()
        .map(|line| {
            let word = |key: &str| line[key].as_str().unwrap().to_owned();
            (word("event"), word("outcome"))
        })
        .collect();
    let reported: Vec<(&str, &str)> =
        reported.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    assert_eq!(
        reported,
        [
            // The one that this fixture is made with.
            ("login", "done"),
            ("login", "done"),
            ("login", "refused"),
            ("login", "refused"),
            ("change", "failed"),
            ("logout", "done"),
            ("change", "done"),
        ]
    );
    fixture.stop().await;
}

/// What agents, jobs and files may say.
const HOSTILE: &[&str] = &[
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    "</script><svg/onload=alert(1)>",
    "\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}gpj.exe",
    "{{constructor.constructor('alert(1)')()}}",
    "\u{2028}alert(1)//",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_agents_say_stays_json() {
    let fixture = DashboardFixture::start().await;
    let session = fixture.login(Right::Operator).await;
    for text in HOSTILE {
        // A title is a line of plain text; a body is anything.
        let is_plain = |c: char| !c.is_control() && !('\u{2000}'..='\u{206f}').contains(&c);
        let title = if text.chars().all(is_plain) { text } else { "with escapes" };
        fixture.create_task_with(title, text).await;
    }
    for path in ["/api/now", "/api/board", "/api/settings", "/api/logs", "/api/sandboxes"] {
        let answer = fixture.get(path).cookie(&session).send().await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert_eq!(answer.header("content-type"), Some("application/json"), "{path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        answer.json();
    }
    let board = fixture.get("/api/board").cookie(&session).send().await;
    assert!(!board.body.contains('\u{1b}'), "control characters are escaped");
    let board = board.json();
    let ready = board["columns"].as_array().unwrap();
    let titles: Vec<&str> = ready
        .iter()
        .flat_map(|column| column["tasks"].as_array().unwrap())
        .map(|task| task["title"].as_str().unwrap())
        .collect();
    assert_eq!(titles.len(), HOSTILE.len());
    assert!(titles.contains(&"<script>alert(1)</script>"), "{titles:?}");
    // An error repeats what was asked for, as text.
    let asked = fixture.get("/api/sandboxes/default/%3Cscript%3E").cookie(&session).send().await;
    assert_eq!(asked.header("content-type"), Some("application/json"));
    let page = fixture.get("/board/%3Cscript%3Ealert(1)").cookie(&session).send().await;
    assert!(!page.body.contains("<script>alert"), "{}", page.body);
    let login = fixture.get("/login?next=%22%3E%3Cscript%3Ealert(1)").send().await;
    assert!(!login.body.contains("<script>alert"), "{}", login.body);
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_is_reported_and_the_rest_is_shown() {
    let fixture = DashboardFixture::start().await;
    let session = fixture.login(Right::Operator).await;
    fixture.create_task("a good one").await;
    fixture.break_board("broken");
    let now = fixture.get("/api/now").cookie(&session).send().await;
    assert_eq!(now.status, 200, "{}", now.body);
    let now = now.json();
    assert_eq!(now["troubles"][0]["subject"], "board broken", "{now}");
    let board = fixture.get("/api/board").cookie(&session).send().await;
    assert_eq!(board.status, 200, "{}", board.body);
    assert!(board.body.contains("a good one"));
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_gets_changes_with_a_cursor_and_none_after_its_session_ended() {
    let fixture = DashboardFixture::start().await;
    fixture.create_task("first").await;
    let session = fixture.login(Right::Operator).await;
    let mut events = fixture.get("/api/events?topics=board").cookie(&session).stream().await;
    let hello = events.next_event().await.unwrap();
    assert_eq!(hello.name, "hello");
    fixture.create_task("second").await;
    let changed = events.next_event().await.unwrap();
    assert_eq!(
        (changed.name.as_str(), changed.data["topics"].clone()),
        ("changed", json!(["board"]))
    );
    drop(events);
    // A client with an old cursor gets at once what it missed.
    let path = format!("/api/events?topics=board,settings&cursor={}", hello.id);
    let mut again = fixture.get(&path).cookie(&session).stream().await;
    assert_eq!(again.next_event().await.unwrap().name, "hello");
    assert_eq!(again.next_event().await.unwrap().data["topics"], json!(["board"]));
    fixture.post("/api/auth/logout", &json!({})).cookie(&session).send().await;
    fixture.create_task("third").await;
    // What was on its way before the logout may still come; then the stream ends.
    while again.next_event().await.is_some() {}
    fixture.stop().await;
}
