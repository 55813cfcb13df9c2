//! Two profiles, a viewer, a server that is away for a while, a gateway that is restarted, and the ways
//! out, in a real browser.

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use vestal_dashboard::gate::Right;

use crate::support::{Away, DashboardFixture};
use crate::{WITHIN, browser, fixtures, say};

enum Server {
    Here(DashboardFixture),
    Away(Away),
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_page_follows_what_comes_and_goes_and_a_logout_ends_all_of_it() {
    let fixture = DashboardFixture::start().await;
    let home = fixture.home.clone();
    fixtures::make_profile(&home, "work");
    fixtures::add_tasks(&home, "default", &["For the first"]).await;
    fixtures::add_tasks(&home, "work", &["For the second"]).await;
    fixture.create_blocked_task("Choose a name", "which one?").await;
    for (profile, words) in [("default", "said at home"), ("work", "said at work")] {
        let store = fixtures::conversations(&home, profile).await;
        fixtures::converse(&store, None, &[fixtures::user_message(words)]).await;
        store.close().await.unwrap();
    }
    fixtures::order_gateway(&home, 4001, 0, "up");
    let mut child = browser(&fixture, "sessions.mjs")
        .spawn()
        .expect("node is not installed; scripts/test installs it");
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    say(&mut stdin, &fixture.link(Right::Operator).await).await;
    say(&mut stdin, &fixture.link(Right::Viewer).await).await;
    let mut server = Server::Here(fixture);
    let story = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            server = match (line.as_str(), server) {
                ("restart the gateway", here) => {
                    fixtures::order_gateway(&home, 4002, 1, "up");
                    here
                }
                ("go away", Server::Here(fixture)) => Server::Away(fixture.go_away().await),
                ("come back with a task", Server::Away(away)) => {
                    fixtures::add_tasks(&away.home(), "default", &["Made while it was away"]).await;
                    Server::Here(away.come_back().await)
                }
                (other, _) => panic!("nobody knows how to {other}"),
            };
            say(&mut stdin, "done").await;
        }
        server
    };
    let server =
        tokio::time::timeout(WITHIN, story).await.expect("the browser does not come to an end");
    let status = child.wait().await.unwrap();
    let mut reply = String::new();
    child.stderr.take().unwrap().read_to_string(&mut reply).await.unwrap();
    assert!(status.success(), "{reply}");
    if let Server::Here(fixture) = server {
        fixture.stop().await;
    }
}
