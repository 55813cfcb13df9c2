//! How long the server takes over a page of a home with much in it.

use std::time::Instant;

use vestal_bench::Result;
use vestal_bench::report::{Bar, BenchRow, Figure};
use vestal_bench::sample::Samples;

use crate::Plan;
use crate::client::Client;
use crate::fixture::DashboardBench;

pub(crate) async fn measure(bench: &DashboardBench, plan: Plan) -> Result<Vec<BenchRow>> {
    let mut rows = vec![first_page(bench, plan).await?];
    let Plan { tasks, conversations, sandboxes, .. } = plan;
    let megabytes = plan.log_bytes / 1_000_000;
    let asked = [
        (format!("the board with {tasks} tasks"), "/api/board"),
        (format!("a text among {tasks} tasks"), "/api/board?search=4711"),
        (format!("the page Now with {tasks} tasks and {sandboxes} sandboxes"), "/api/now"),
        (format!("{conversations} conversations, the newest"), "/api/conversations"),
        (format!("a text in {conversations} conversations"), "/api/conversations/search?q=4711"),
        (format!("the end of a log of {megabytes} MB"), "/api/logs?entries=400"),
        (format!("{sandboxes} sandboxes"), "/api/sandboxes"),
    ];
    for (what, path) in asked {
        let mut client = Client::connect(&bench.login).await?;
        let mut samples = Samples::default();
        // The first one opens what is then kept open.
        client.get(path).await?;
        for _ in 0..plan.requests {
            let start = Instant::now();
            client.get(path).await?;
            samples.push(start.elapsed());
        }
        rows.push(BenchRow::times(what, &samples).bar(Bar::AtMost(Figure::Milliseconds(30.0))));
    }
    Ok(rows)
}

/// Loads the first page as a browser does that has nothing of it yet: the document, its files one
/// after the other, and what they ask for.
async fn first_page(bench: &DashboardBench, plan: Plan) -> Result<BenchRow> {
    let mut samples = Samples::default();
    for _ in 0..plan.requests {
        let mut client = Client::connect(&bench.login).await?;
        let start = Instant::now();
        let document = String::from_utf8(client.get("/").await?.body)?;
        let files = document.split('"').filter(|part| part.starts_with("/assets/"));
        let base = document.split('"').find_map(|part| part.strip_suffix("/app.js"));
        for file in files {
            client.get(file).await?;
        }
        client.get(&format!("{}/pages/now.js", base.ok_or("there is no script")?)).await?;
        for path in ["/api/auth/me", "/api/home", "/api/now"] {
            client.get(path).await?;
        }
        samples.push(start.elapsed());
    }
    Ok(BenchRow::times("the first page with its files and what it shows", &samples)
        .bar(Bar::AtMost(Figure::Milliseconds(100.0)))
        .note("without what a browser takes to draw it"))
}
