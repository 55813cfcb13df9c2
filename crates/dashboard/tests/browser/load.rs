//! A home with a busy year in it, in a real browser. It takes minutes to be filled, so it is not among the everyday
//! tests; what the server takes over such lists is measured by the benchmark.

/// Named so that everyday runs leave it out.
mod full {
    use std::io::Write as _;

    use tokio::io::AsyncReadExt as _;
    use vestal_dashboard::gate::Right;

    use crate::support::DashboardFixture;
    use crate::{browser, fixtures, say};

    const TASKS: usize = 10_000;
    const CONVERSATIONS: usize = 10_000;
    const LOG_BYTES: usize = 100_000_000;
    const SANDBOXES: usize = 200;

    /// How long it may take on a slow machine.
    const WITHIN: std::time::Duration = std::time::Duration::from_mins(5);

    /// Looks at a board, conversations, sandboxes and a log that nobody can look through, and finds one thing in each.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_busy_year_is_looked_at_and_searched_in_the_browser() {
        let fixture = DashboardFixture::start().await;
        let config = "terminal: {backend: local}\nkanban: {durability: normal}\n";
        std::fs::write(fixture.home.join("config.yaml"), config).unwrap();
        fixtures::start_sandboxes(&fixture.home, SANDBOXES).await;
        let titles: Vec<String> =
            (0..TASKS).map(|number| format!("Task {number:05} of a busy year")).collect();
        let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
        fixtures::add_tasks(&fixture.home, "default", &titles).await;
        let store = fixtures::conversations(&fixture.home, "default").await;
        for number in 0..CONVERSATIONS {
            let words = format!("question {number:05}: why does the build fail?");
            fixtures::converse(&store, None, &[fixtures::user_message(&words)]).await;
        }
        store.close().await.unwrap();
        let log = std::fs::File::create(fixture.home.join("logs/agent.log")).unwrap();
        let mut log = std::io::BufWriter::new(log);
        let (mut written, mut number) = (0, 0_u64);
        while written < LOG_BYTES {
            let (minute, second) = (number / 60_000 % 60, number / 1000 % 60);
            let line = format!(
                "2026-11-15T10:{minute:02}:{second:02}.{:03}Z INFO [-] t: entry {number} of a long log\n",
                number % 1000
            );
            log.write_all(line.as_bytes()).unwrap();
            (written, number) = (written + line.len(), number + 1);
        }
        log.flush().unwrap();
        let mut command = browser(&fixture, "load.mjs");
        command.env("LAST", (number - 1).to_string());
        let mut child = command.spawn().expect("node is not installed; scripts/test installs it");
        let mut stdin = child.stdin.take().unwrap();
        say(&mut stdin, &fixture.link(Right::Operator).await).await;
        let ended = tokio::time::timeout(WITHIN, child.wait()).await;
        let status = ended.expect("the browser does not come to an end").unwrap();
        let mut reply = String::new();
        child.stderr.take().unwrap().read_to_string(&mut reply).await.unwrap();
        fixture.stop_sandboxes().await;
        assert!(status.success(), "{reply}");
        fixture.stop().await;
    }
}
