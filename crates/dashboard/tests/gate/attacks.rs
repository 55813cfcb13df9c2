//! What somebody tries who wants in: requests that two readers would read in two ways, paths and methods
//! that no route has, words of proxies that there are none of, and cookies that almost count.

use std::time::Duration;

use serde_json::json;
use vestal_dashboard::gate::{Right, RouteKind};

use crate::client::Asked;
use crate::concrete;
use crate::fixtures;
use crate::support::DashboardFixture;

/// What only somebody who is in can read.
const INSIDE: &str = "\"profiles\"";

fn statuses(answer: &str) -> Vec<u16> {
    let lines = answer.lines().filter_map(|line| line.strip_prefix("HTTP/1.1 "));
    lines.filter_map(|line| line.get(..3)?.parse().ok()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_can_be_read_in_two_ways_lets_nobody_in() {
    let fixture = DashboardFixture::start().await;
    let host = fixture.authority();
    let cookie = fixture.login(Right::Operator).await;
    let inner = format!("GET /api/home HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    let chunked = format!("0\r\n\r\n{inner}");
    let post = |headers: &str, body: &str| {
        format!(
            "POST /api/auth/link HTTP/1.1\r\nhost: {host}\r\norigin: http://{host}\r\n{headers}\r\n\r\n{body}"
        )
    };
    let length = chunked.len();
    let requests = [
        // A length and pieces: one reader ends the body where another goes on.
        post(&format!("content-length: {length}\r\ntransfer-encoding: chunked"), &chunked),
        post(&format!("transfer-encoding: chunked\r\ncontent-length: {length}"), &chunked),
        post(&format!("content-length: {length}\r\ncontent-length: 0"), &inner),
        post("content-length: 5, 0", &inner),
        post("content-length: +5", &inner),
        post("transfer-encoding: chunked, identity", &chunked),
        post("transfer-encoding: xchunked", &chunked),
        post("transfer-encoding : chunked", &chunked),
        post("transfer-encoding:\x0bchunked", &chunked),
        post("x: y\r\n transfer-encoding: chunked", &chunked),
        // Heads that are none.
        format!("GET /api/home HTTP/1.1\nconnection: close\nhost: {host}\n\n"),
        format!("GET /api/home HTTP/1.1\r\nhost: {host}\r\nx\0y: z\r\n\r\n"),
        format!("GET /api/home\0 HTTP/1.1\r\nhost: {host}\r\n\r\n"),
        format!("GET /api/home HTTP/1.1\r\nhost: {host}\r\ncookie: a\r\ncookie: b\r\n\r\n"),
        format!(
            "GET /api/home HTTP/1.1\r\nhost: {host}\r\nhost: {host}\r\ncookie: {cookie}\r\n\r\n"
        ),
        format!("GET /api/home HTTP/1.1\r\ncookie: {cookie}\r\n\r\n"),
        format!("GET /api/home HTTP/1.0\r\ncookie: {cookie}\r\n\r\n"),
        // The request line names another host than the header that is checked.
        format!(
            "GET http://evil.example/api/home HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\n\r\n"
        ),
        format!(
            "GET http://{host}/api/home HTTP/1.1\r\nhost: evil.example\r\ncookie: {cookie}\r\n\r\n"
        ),
        format!(
            "GET http://x@{host}/api/home HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\n\r\n"
        ),
        format!("CONNECT {host} HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\n\r\n"),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        format!("OPTIONS * HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\n\r\n"),
        format!("TRACE /api/home HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\n\r\n"),
        // An upgrade that is none of ours.
        format!(
            "GET /api/home HTTP/1.1\r\nhost: {host}\r\nconnection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AA\r\ncookie: {cookie}\r\n\r\n"
        ),
    ];
    for request in requests {
        // So that the end of what is answered is seen.
        let closed = request.replacen("HTTP/1.1\r\n", "HTTP/1.1\r\nconnection: close\r\n", 1);
        let answer = fixture.raw(closed.as_bytes()).await;
        let shown = request.lines().take(6).collect::<Vec<_>>().join(" | ");
        assert!(!answer.contains(INSIDE), "{shown}: {answer}");
        assert!(!statuses(&answer).contains(&200), "{shown}: {answer}");
        assert!(!answer.contains(&cookie), "nothing is echoed: {shown}");
    }
    // The same, as it should be, is answered: the requests above fail for what is wrong with them.
    let good = format!(
        "GET http://{host}/api/home HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n"
    );
    assert!(fixture.raw(good.as_bytes()).await.contains(INSIDE));
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_path_and_no_method_leads_around_the_gate() {
    let fixture = DashboardFixture::start().await;
    let paths = [
        "//api/home",
        "/api//home",
        "/api/home/",
        "/api/./home",
        "/api/x/../home",
        "/api/%68ome",
        "/%61pi/home",
        "/API/home",
        "/api/home;x",
        "/api/home%00",
        "/api/home%2f",
        "/login/../api/home",
        "/login/..%2fapi/home",
        "/assets/0/../../api/home",
        "/assets/0/..%2f..%2fapi%2fhome",
        "/assets/0/%2e%2e/%2e%2e/api/home",
        "/assets/../api/home",
        "/favicon.ico/../api/home",
        "/api/auth/link/../../home",
        "/?/api/home",
        "/\\api/home",
        "/.well-known/x",
        "/assets/0/../../../../../../etc/passwd",
        "/assets/0/%2fetc%2fpasswd",
    ];
    for path in paths {
        for method in ["GET", "HEAD", "POST"] {
            let mut request = Asked::new(&fixture, method, path).header("connection", "close");
            if method == "POST" {
                request = request.own_origin().json(&json!({}));
            }
            let answer = fixture.raw(&request.bytes()).await;
            let got = statuses(&answer);
            assert!(
                !answer.contains(INSIDE) && !answer.contains("root:"),
                "{method} {path}: {answer}"
            );
            assert!(!got.contains(&200), "{method} {path}: {answer}");
            assert!(!got.contains(&500), "{method} {path}: {answer}");
        }
    }
    // Who is in and opens what is not there is shown a page; a script gets an answer to read.
    let operator = fixture.login(Right::Operator).await;
    for (path, kind) in [("/nothing", "text/html; charset=utf-8"), ("/api/x", "application/json")] {
        let answer = fixture.get(path).cookie(&operator).send().await;
        assert_eq!((answer.status, answer.header("content-type")), (404, Some(kind)), "{path}");
    }
    // A method that a route does not have needs a login like the one it has, and does nothing.
    for route in &fixture.routes {
        let path = concrete(route.path);
        for method in ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"] {
            if fixture.routes.iter().any(|other| other.path == route.path && other.method == method)
            {
                continue;
            }
            let name = format!("{method} {path}");
            let asked = Asked::new(&fixture, method, &path);
            assert_eq!(asked.send().await.status, 403, "{name} without an origin");
            let asked = Asked::new(&fixture, method, &path).own_origin();
            let status = asked.send().await.status;
            if route.right != Right::Public || route.kind == RouteKind::WebSocket {
                assert_eq!(status, 401, "{name} without a session");
            }
            let asked = Asked::new(&fixture, method, &path).own_origin().cookie(&operator);
            let status = asked.send().await.status;
            assert!([401, 405].contains(&status), "{name}: {status}");
        }
    }
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cookie_that_is_almost_the_session_is_none() {
    let fixture = DashboardFixture::start().await;
    let good = fixture.login(Right::Operator).await;
    let (name, value) = good.split_once('=').unwrap();
    let cut = &value[..value.len() - 1];
    let flipped = value.chars().rev().collect::<String>();
    for cookie in [
        format!("{name}={cut}"),
        format!("{name}={value}x"),
        format!("{name}={flipped}"),
        format!("{name}=\"{value}\""),
        format!("{name}={value}={value}"),
        format!("{name}={}", value.to_ascii_uppercase()),
        format!("__Host-{name}={value}"),
        format!("{}={value}", name.to_ascii_uppercase()),
        format!("{name}[]={value}"),
        format!("{name} x={value}"),
        format!("{name}={value}; {name}={value}"),
        format!("{name}={value}; {name}=planted"),
        format!("{name}=; {name}={value}"),
        format!("{name}={value}\u{1}"),
        format!("{name}=' OR 1=1 --"),
        format!("{name}={}", "a".repeat(20_000)),
    ] {
        let request = fixture.get("/api/home").cookie(&cookie).header("connection", "close");
        let answer = fixture.raw(&request.bytes()).await;
        assert!(!answer.contains(INSIDE), "{cookie:.200}: {answer}");
    }
    // A session does not count anywhere but in the cookie.
    for header in ["authorization", "x-session", "x-vestal-session", "proxy-authorization"] {
        let asked = fixture.get("/api/home").header(header, &format!("Bearer {value}"));
        assert_eq!(asked.send().await.status, 401, "{header}");
    }
    for path in ["/api/home?session=", "/api/home?token=", "/api/home?cookie="] {
        let asked = fixture.get(&format!("{path}{value}"));
        assert_eq!(asked.send().await.status, 401, "{path}");
    }
    let twice = fixture.get("/api/home").cookie("a=b").cookie(&good).send().await;
    assert_eq!(twice.status, 200, "other cookies do not matter");
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_words_of_a_proxy_that_nobody_listed_change_nothing() {
    let fixture = DashboardFixture::start().await;
    let cookie = fixture.login(Right::Viewer).await;
    let reply = [
        ("x-forwarded-host", "evil.example"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-for", "10.0.0.1"),
        ("x-real-ip", "10.0.0.1"),
        ("forwarded", "for=10.0.0.1;host=evil.example;proto=https"),
        ("x-remote-user", "admin"),
        ("x-forwarded-user", "admin"),
        ("x-original-url", "/api/auth/link"),
        ("x-rewrite-url", "/api/auth/link"),
        ("x-http-method-override", "POST"),
        ("x-forwarded-prefix", "//evil.example"),
    ];
    let mut nobody = fixture.get("/api/home");
    let mut viewer = fixture.get("/api/auth/me").cookie(&cookie);
    let mut page = fixture.get("/board");
    for (name, value) in reply {
        nobody = nobody.header(name, value);
        viewer = viewer.header(name, value);
        page = page.header(name, value);
    }
    assert_eq!(nobody.send().await.status, 401);
    let viewer = viewer.send().await;
    assert_eq!((viewer.status, viewer.json()["right"].as_str()), (200, Some("viewer")));
    assert_eq!(page.send().await.header("location"), Some("/login?next=/board"));
    let link = fixture.link(Right::Viewer).await;
    let asked = fixture.post("/api/auth/link", &json!({ "token": link }));
    let entered = asked.header("x-forwarded-proto", "https").send().await;
    let set = entered.header("set-cookie").unwrap();
    assert!(!set.contains("__Host-") && !set.contains("Secure"), "{set}");
    let log = std::fs::read_to_string(fixture.home.join("logs/dashboard-audit.log")).unwrap();
    assert!(!log.contains("10.0.0.1"), "{log}");
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_large_is_refused_and_not_kept() {
    let fixture = DashboardFixture::start().await;
    let host = fixture.authority();
    let cookie = fixture.login(Right::Operator).await;
    let head = format!(
        "POST /api/auth/link HTTP/1.1\r\nhost: {host}\r\norigin: http://{host}\r\ncontent-type: application/json\r\nconnection: close\r\n"
    );
    let mut huge = format!("{head}content-length: 3000000\r\n\r\n").into_bytes();
    huge.resize(huge.len() + 3_000_000, b' ');
    assert_eq!(statuses(&fixture.raw(&huge).await), [413]);
    let many = "x: y\r\n".repeat(200);
    let long = format!("x: {}\r\n", "y".repeat(900_000));
    for extra in [many, long] {
        let request =
            format!("GET /api/home HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\n{extra}\r\n");
        let got = statuses(&fixture.raw(request.as_bytes()).await);
        assert!(got.iter().all(|status| *status == 431), "{got:?}");
    }
    let path = format!("/{}", "a".repeat(200_000));
    let answer = fixture.raw(&fixture.get(&path).header("connection", "close").bytes()).await;
    assert!(!statuses(&answer).contains(&200));
    // It serves on.
    assert_eq!(fixture.get("/api/home").cookie(&cookie).send().await.status, 200);
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_never_rests_ends_with_the_session_that_reads_it() {
    let fixture = DashboardFixture::start().await;
    let job =
        fixtures::start_job(&fixture.home, "talker", "while :; do echo x; sleep 0.05; done").await;
    let session = fixture.login(Right::Viewer).await;
    let path = format!("/api/sandboxes/default/talker/jobs/{job}/log");
    let mut log = fixture.get(&path).cookie(&session).stream().await;
    log.next_event().await.unwrap();
    fixture.end_sessions().await;
    // What was on its way may still come.
    let ended = async { while log.next_event().await.is_some() {} };
    tokio::time::timeout(Duration::from_mins(1), ended).await.unwrap();
    fixture.stop_sandboxes().await;
    fixture.stop().await;
}
