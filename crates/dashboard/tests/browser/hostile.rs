//! A home in which every word is hostile, in a real browser.

use tokio::io::AsyncReadExt as _;
use vestal_dashboard::gate::Right;

use crate::support::World;
use crate::{WITHIN, browser, fixtures, say};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_anybody_says_is_text_on_every_page() {
    let world = World::start().await;
    let pages = fixtures::fill_with_hostility(&world.home).await;
    let mut child = browser(&world, "hostile.mjs")
        .spawn()
        .expect("node is not installed; scripts/test installs it");
    let mut stdin = child.stdin.take().unwrap();
    say(&mut stdin, &world.link(Right::Operator).await).await;
    say(&mut stdin, &serde_json::to_string(&pages).unwrap()).await;
    let mut said = String::new();
    let mut stderr = child.stderr.take().unwrap();
    let told = async { tokio::join!(stderr.read_to_string(&mut said), child.wait()).1.unwrap() };
    let status =
        tokio::time::timeout(WITHIN, told).await.expect("the browser does not come to an end");
    world.stop_sandboxes().await;
    assert!(status.success(), "{said}");
    world.stop().await;
}
