//! The dashboard as an operator meets it. Its gate and its pages are tested in its own crate.

use rustix::process::Signal;
use serde_json::json;

use crate::support::ProgramFixture;

#[test]
fn a_home_has_one_dashboard_that_is_found_linked_to_and_stopped() {
    let fixture = ProgramFixture::new();
    let none = fixture.vestal(["dashboard", "--status", "--json"]).exits(1).json();
    let expected = json!({ "running": false, "pid": null, "url": null, "address": null, "started_at": null, "insecure": false });
    assert_eq!(none, expected);
    fixture.vestal(["dashboard", "--stop"]).exits(1);
    let no_link = fixture.vestal(["dashboard", "link"]).exits(1);
    assert!(no_link.stderr.contains("to start one: vestal dashboard"), "{no_link:?}");

    let mut first = fixture.start(["dashboard", "--port", "0", "--no-open"]);
    let link = first.line();
    let (base, secret) = link.trim().split_once("/login#").unwrap();
    assert_eq!(secret.len(), 43, "256 bits");
    let status = fixture.vestal(["dashboard", "--status", "--json"]).exits(0).json();
    assert_eq!(status["url"], base);
    assert_eq!(status["pid"], first.pid());
    // A second one leads to the first.
    let second = fixture.vestal(["dashboard", "--port", "0", "--no-open"]).exits(0);
    assert!(second.text().starts_with(&format!("{base}/login#")), "{second:?}");
    let refused = fixture.vestal(["dashboard", "run", "--port", "0"]).exits(1);
    assert!(refused.stderr.contains("runs already"), "{refused:?}");
    let viewer = fixture.vestal(["dashboard", "link", "--viewer", "--json"]).exits(0).json();
    assert_eq!(viewer["right"], "viewer");
    assert!(viewer["url"].as_str().unwrap().starts_with(base), "{viewer}");
    let out = fixture.vestal(["dashboard", "logout"]).exits(0);
    assert!(out.stderr.contains("no link counts any more"), "{out:?}");

    fixture.vestal(["dashboard", "--stop"]).exits(0);
    let (code, printed) = first.end();
    assert_eq!(code, 0, "{printed}");
    fixture.vestal(["dashboard", "--status"]).exits(1);
}

#[test]
fn an_address_that_others_can_reach_needs_a_way_to_log_in() {
    let fixture = ProgramFixture::new();
    let refused = fixture.vestal(["dashboard", "--host", "0.0.0.0", "--port", "0"]).exits(1);
    for way in ["vestal dashboard password", "dashboard.proxy_user_header", "--insecure"] {
        assert!(refused.stderr.contains(way), "{refused:?}");
    }
    let supervised = ["dashboard", "run", "--supervised", "--host", "0.0.0.0", "--port", "0"];
    fixture.vestal(supervised).exits(78);
    let short = fixture.vestal_with(["dashboard", "password"], b"short\n").exits(1);
    assert!(short.stderr.contains("needs at least 12"), "{short:?}");
    fixture.vestal_with(["dashboard", "password"], b"correct horse battery\n").exits(0);
    let mut served = fixture.start(["dashboard", "--host", "0.0.0.0", "--port", "0", "--no-open"]);
    assert!(served.line().contains("/login#"));
    // It was not stopped on purpose, so its supervisor starts it again.
    served.signal(Signal::TERM);
    assert_eq!(served.end().0, 1);
    fixture.vestal(["dashboard", "password", "--remove"]).exits(0);
    fixture.vestal(["dashboard", "run", "--host", "0.0.0.0", "--port", "0"]).exits(1);
}

#[test]
fn a_dashboard_without_a_login_says_so() {
    let fixture = ProgramFixture::new();
    let mut served = fixture.start(["dashboard", "run", "--insecure", "--port", "0"]);
    assert!(served.error_line().contains("served without a login"));
    let status = fixture.vestal(["dashboard", "--status", "--json"]).exits(0).json();
    assert_eq!(status["insecure"], true);
    served.signal(Signal::INT);
    assert_eq!(served.end().0, 0);
}
