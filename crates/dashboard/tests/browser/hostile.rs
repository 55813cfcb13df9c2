//! A home in which every word is hostile, in a real browser.

use tokio::io::AsyncReadExt as _;
use vestal_dashboard::gate::Right;

use crate::support::DashboardFixture;
use crate::{WITHIN, browser, fixtures, say};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_anybody_says_is_text_on_every_page() {
    let fixture = DashboardFixture::start().await;
    let pages = fixtures::fill_with_hostility(&fixture.home).await;
    let mut child = browser(&fixture, "hostile.mjs")
        .spawn()
        .expect("node is not installed; scripts/test installs it");
    let mut stdin = child.stdin.take().unwrap();
    say(&mut stdin, &fixture.link(Right::Operator).await).await;
    say(&mut stdin, &serde_json::to_string(&pages).unwrap()).await;
    let mut reply = String::new();
    let mut stderr = child.stderr.take().unwrap();
    let reported =
        async { tokio::join!(stderr.read_to_string(&mut reply), child.wait()).1.unwrap() };
    let status =
        tokio::time::timeout(WITHIN, reported).await.expect("the browser does not come to an end");
    fixture.stop_sandboxes().await;
    assert!(status.success(), "{reply}");
    fixture.stop().await;
}
