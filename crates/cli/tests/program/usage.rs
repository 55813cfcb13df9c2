//! `vestal usage`, over conversations made through the library.

use serde_json::Value;

use crate::conversations::seed;
use crate::support::ProgramFixture;

#[test]
fn what_was_spent_is_reported_also_after_its_conversation_was_deleted() {
    let fixture = ProgramFixture::new();
    seed(&fixture);
    fixture.vestal(["conversations", "delete", "-y", "Fix the build"]).exits(0);
    let text = fixture.vestal(["usage", "--by", "model"]).exits(0).text();
    assert!(
        text.contains("acme:large-1") && text.contains("1,200") && text.contains("$0.0123"),
        "{text}"
    );
    let report: Value = serde_json::from_str(
        &fixture.vestal(["usage", "--json", "--by", "source"]).exits(0).text(),
    )
    .unwrap();
    assert_eq!(report["lines"][0]["source"], "cli");
    assert_eq!(report["total"]["cost_usd"], 0.0123);
    let days = fixture.vestal(["usage", "--since", "all"]).exits(0).text();
    assert!(days.starts_with("DAY"), "{days}");
}

#[test]
fn a_profile_whose_ledger_cannot_be_read_hides_no_other() {
    let fixture = ProgramFixture::new();
    seed(&fixture);
    let broken = fixture.home().join("profiles/broken");
    std::fs::create_dir_all(&broken).unwrap();
    std::fs::write(broken.join("state.db"), "this is not a database, whatever its name says")
        .unwrap();
    let reported = fixture.vestal(["usage", "--by", "profile"]).exits(1);
    assert!(reported.text().contains("default"), "{reported:?}");
    assert!(reported.stderr.contains("profile broken"), "{reported:?}");
}

#[test]
fn looking_at_usage_where_there_is_none_makes_nothing() {
    let fixture = ProgramFixture::new();
    let reported = fixture.vestal(["usage"]).exits(0);
    assert!(reported.stderr.contains("nothing was spent"), "{reported:?}");
    fixture.vestal(["usage", "--since", "1h", "--until", "2h"]).exits(2);
    assert!(!fixture.home().exists());
}
