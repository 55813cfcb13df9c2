//! A server for tests, written with the official SDK. What it does wrong, it
//! does on request: `mcp-test-server MODE [OPTION VALUE]…`.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::expect_used,
    reason = "it speaks over its streams, and a server for tests that cannot go on ends"
)]

mod tools;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rmcp::ServiceExt as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tools::Workbench;

/// What was asked for.
#[derive(Debug, Clone, Default)]
struct Options {
    mode: String,
    /// Written to when a call is cancelled, and with the process id at the start.
    notes: Option<PathBuf>,
    /// The key that requests must have.
    key: Option<String>,
    /// A program that is started and outlives nobody.
    child: Option<String>,
    millis: u64,
}

fn options() -> Options {
    let mut words = std::env::args().skip(1);
    let mut options =
        Options { mode: words.next().unwrap_or_else(|| "stdio".to_owned()), ..Options::default() };
    while let Some(word) = words.next() {
        let value = words.next().expect("a value");
        match word.as_str() {
            "--notes" => options.notes = Some(value.into()),
            "--key" => options.key = Some(value),
            "--child" => options.child = Some(value),
            "--millis" => options.millis = value.parse().expect("a number"),
            other => panic!("what is {other}?"),
        }
    }
    options
}

#[tokio::main]
async fn main() {
    let options = options();
    if let Some(seconds) = &options.child {
        // It neither reads what is written to us nor goes when it is asked to.
        let child = std::process::Command::new("sh")
            .args(["-c", "trap '' TERM HUP INT; sleep $0; sleep $0", seconds])
            .stdin(std::process::Stdio::null())
            .spawn()
            .expect("a child");
        // It is left to itself on purpose.
        drop(child);
    }
    match options.mode.as_str() {
        "stdio" => stdio(&options).await,
        "http" => http(&options).await,
        "chatty" => {
            println!("Starting the server\u{1b}[1m...");
            stdio(&options).await;
        }
        "flood" => {
            std::thread::spawn(|| {
                let line = "x".repeat(200);
                for _ in 0..100_000 {
                    eprintln!("{line}");
                }
            });
            stdio(&options).await;
        }
        "late" => {
            tokio::time::sleep(Duration::from_millis(options.millis)).await;
            stdio(&options).await;
        }
        "garbage" => loop {
            println!("this is not JSON");
            println!("{{\"nor\": \"is this a message\"}}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        },
        "hold" => {
            // Not a server but one who uses them, for tests to kill.
            let home = vestal_config::Home::at(options.notes.expect("a home"));
            let environment = vestal_config::Environment::capture();
            let settings = vestal_config::Settings::load(
                &vestal_agent::schema().with([&vestal_mcp::keys::GROUP]),
                home,
                environment,
                Vec::new(),
            );
            let servers = vestal_mcp::Servers::from_settings(&settings);
            std::future::pending::<()>().await;
            drop(servers);
        }
        "silent" => std::future::pending().await,
        "exit" => {
            eprintln!("there is no licence for this server");
            std::process::exit(7);
        }
        other => panic!("what is {other}?"),
    }
}

async fn stdio(options: &Options) {
    let workbench = Workbench::new(options.notes.clone());
    let running = workbench.serve(rmcp::transport::stdio()).await.expect("served");
    drop(running.waiting().await);
}

async fn http(options: &Options) {
    let notes = options.notes.clone();
    let service = StreamableHttpService::new(
        move || Ok(Workbench::new(notes.clone())),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let key = options.key.clone();
    let guard = axum::middleware::from_fn(
        move |request: axum::extract::Request, next: axum::middleware::Next| {
            let key = key.clone();
            async move {
                let given = request.headers().get("x-key").and_then(|given| given.to_str().ok());
                if key.is_some() && given != key.as_deref() {
                    return axum::response::Response::builder()
                        .status(401)
                        .header("www-authenticate", "Bearer")
                        .body(axum::body::Body::from("no key"))
                        .expect("a response");
                }
                next.run(request).await
            }
        },
    );
    let router = axum::Router::new().nest_service("/mcp", service).layer(guard);
    let port = u16::try_from(options.millis).expect("a port");
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.expect("bound");
    println!("{}", listener.local_addr().expect("an address"));
    std::io::stdout().flush().expect("told");
    axum::serve(listener, router).await.expect("served");
}
