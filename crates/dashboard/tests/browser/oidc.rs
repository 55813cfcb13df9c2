//! People who log in at a provider, a certified one that runs on loopback.

use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::Command;

use crate::support::DashboardFixture;
use crate::{WITHIN, browser, packages, say};

/// Of the test's own, so that it may stand in files and variables.
const SECRET: &str = "of:the-test/100%+1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_log_in_at_a_provider_and_nobody_who_is_not_named() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/provider.mjs");
    let mut provider = Command::new("node")
        .arg(script)
        .env("PACKAGES", packages())
        .env("CLIENT_SECRET", SECRET)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("node is not installed; scripts/test installs it");
    let mut stdin = provider.stdin.take().unwrap();
    let mut lines = BufReader::new(provider.stdout.take().unwrap()).lines();
    let issuer = lines.next_line().await.unwrap().expect("the provider does not start");
    let config = format!(
        "dashboard:\n  oidc_issuer: {issuer}\n  oauth_client_id: vestal\n  oidc_operators: \
         ann@example.org, claims-ann@example.org\n  oidc_viewers: bob\n"
    );
    let dotenv = format!("VESTAL_DASHBOARD_OAUTH_CLIENT_SECRET='{SECRET}'\n");
    let fixture = DashboardFixture::start_with_config(&config, &dotenv).await;
    say(&mut stdin, &format!("http://{}", fixture.authority())).await;
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("ready"));
    let mut child = browser(&fixture, "oidc.mjs").env("ISSUER", &issuer).spawn().unwrap();
    let ended = tokio::time::timeout(WITHIN, child.wait()).await;
    let status = ended.expect("the browser does not come to an end").unwrap();
    let mut reply = String::new();
    child.stderr.take().unwrap().read_to_string(&mut reply).await.unwrap();
    assert!(status.success(), "{reply}");
    drop(stdin);
    provider.wait().await.unwrap();
    let log = std::fs::read_to_string(fixture.home.join("logs/dashboard-audit.log")).unwrap();
    for outcome in ["not_allowed", "unknown_attempt", "refused_by_provider", "done"] {
        assert!(log.contains(&format!("\"outcome\":\"{outcome}\"")), "{outcome} in {log}");
    }
    assert!(!log.contains(SECRET) && !log.contains("code="), "{log}");
    fixture.stop().await;
}
