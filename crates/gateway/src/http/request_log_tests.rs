//! What the log says about requests.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::response::AppendHeaders;
use axum::routing::get;
use futures_util::{StreamExt as _, stream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tracing::level_filters::LevelFilter;
use vestal_logs::{Destinations, Level, LogFiles};

use super::*;

/// A server with the log, and the texts of its entries.
struct Logged {
    address: String,
    entries: Arc<Mutex<Vec<String>>>,
    dir: tempfile::TempDir,
    _guard: tracing::subscriber::DefaultGuard,
}

impl Logged {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let entries = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&entries);
        let (layer, handle) = vestal_logs::layer("vestal", LevelFilter::OFF, |_| {});
        // The runtime of the test has one thread, which serves as well.
        let guard = tracing::subscriber::set_default(layer.into_subscriber());
        handle.begin(Destinations {
            files: vec![(Level::Debug, LogFiles::new(dir.path().join("log"), 1 << 20, 1))],
            echo: None,
            redact: Box::new(move |text| {
                taken.lock().unwrap().push(text.to_owned());
                text.to_owned()
            }),
        });
        let session = AppendHeaders([(SESSION_HEADER, "20260131-100000-k3v9qd")]);
        let app = Router::new()
            .route("/health", get(async || "ok"))
            .route("/answer", get(async move || (session, "four")))
            .route("/fails", get(async || ApiError::internal("no disk")))
            .route("/panics", get(async || -> &'static str { panic!("no such {}", "thing") }))
            .route("/breaks", get(broken))
            .layer(axum::middleware::from_fn(log));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let service = app.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(axum::serve(listener, service).into_future());
        Self { address, entries, dir, _guard: guard }
    }

    /// Returns the status and all that comes after the headers.
    async fn get(&self, path: &str) -> (u16, String) {
        let mut connection = tokio::net::TcpStream::connect(&self.address).await.unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer key-of-the-server\r\nConnection: close\r\n\r\n"
        );
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// Waits for the line of a request, and returns all lines until then.
    async fn lines(&self, count: usize) -> Vec<String> {
        loop {
            let taken = self.entries.lock().unwrap().clone();
            if taken.len() >= count {
                return taken.iter().map(|line| shown(line)).collect();
            }
            tokio::task::yield_now().await;
        }
    }
}

/// A body that ends before it should.
async fn broken() -> Body {
    let half = stream::once(async { Ok(Bytes::from_static(b"half")) });
    let failure = stream::once(async {
        // What there is leaves first.
        tokio::task::yield_now().await;
        Err(std::io::Error::other("gone"))
    });
    Body::from_stream(half.chain(failure))
}

/// Leaves out what is different each time.
fn shown(line: &str) -> String {
    let words = line.split(' ').map(|word| match word.split_once('=') {
        Some((key @ ("ms" | "remote"), _)) => key,
        _ => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_request_is_one_line_without_its_query_and_its_key() {
    let server = Logged::start().await;
    assert_eq!(server.get("/answer?key=secret").await, (200, "four".to_owned()));
    let lines = server.lines(1).await;
    assert_eq!(lines, ["request method=GET path=\"/answer\" status=200 ms bytes=4 remote"]);
    let written = std::fs::read_to_string(server.dir.path().join("log")).unwrap();
    let (_, rest) = written.split_once(' ').unwrap();
    assert!(rest.starts_with("INFO [20260131-100000-k3v9qd] "), "{written}");
    assert!(written.contains(" remote=127.0.0.1:") && !written.contains("secret"), "{written}");
    assert!(!written.contains("key-of-the-server"), "{written}");
}

#[tokio::test]
async fn a_probe_is_a_detail_and_a_fault_of_the_server_a_warning() {
    let server = Logged::start().await;
    assert_eq!(server.get("/health").await.0, 200);
    assert_eq!(server.get("/fails").await.0, 500);
    // It ends without the mark of its end.
    assert_eq!(server.get("/breaks").await, (200, "4\r\nhalf\r\n".to_owned()));
    assert_eq!(server.get("/nothing").await.0, 404);
    let lines = server.lines(5).await;
    assert_eq!(
        lines[3],
        "request method=GET path=\"/breaks\" status=200 ms bytes=4 remote ended=\"broken\""
    );
    let written = std::fs::read_to_string(server.dir.path().join("log")).unwrap();
    let levels: Vec<&str> = written.lines().map(|line| line.split(' ').nth(1).unwrap()).collect();
    assert_eq!(levels, ["DEBUG", "WARN", "ERROR", "WARN", "INFO"]);
}

#[tokio::test]
async fn a_handler_that_panics_is_an_error_and_answered() {
    let server = Logged::start().await;
    let (status, body) = server.get("/panics").await;
    assert_eq!(status, 500);
    assert!(body.contains("internal_error") && !body.contains("no such thing"), "{body}");
    let lines = server.lines(2).await;
    assert_eq!(lines[0], "a request was not answered: no such thing method=GET path=\"/panics\"");
    assert!(lines[1].starts_with("request method=GET path=\"/panics\" status=500 "), "{lines:?}");
    // The server goes on.
    assert_eq!(server.get("/answer").await.0, 200);
    assert!(!crate::panics::is_contained());
}
