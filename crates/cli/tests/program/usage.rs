//! `vestal usage`, over conversations made through the library.

use serde_json::Value;

use crate::conversations::seed;
use crate::support::World;

#[test]
fn what_was_spent_is_told_also_after_its_conversation_was_deleted() {
    let world = World::new();
    seed(&world);
    world.vestal(["conversations", "delete", "-y", "Fix the build"]).exits(0);
    let text = world.vestal(["usage", "--by", "model"]).exits(0).text();
    assert!(
        text.contains("acme:large-1") && text.contains("1,200") && text.contains("$0.0123"),
        "{text}"
    );
    let report: Value =
        serde_json::from_str(&world.vestal(["usage", "--json", "--by", "source"]).exits(0).text())
            .unwrap();
    assert_eq!(report["lines"][0]["source"], "cli");
    assert_eq!(report["total"]["cost_usd"], 0.0123);
    let days = world.vestal(["usage", "--since", "all"]).exits(0).text();
    assert!(days.starts_with("DAY"), "{days}");
}

#[test]
fn a_profile_whose_ledger_cannot_be_read_hides_no_other() {
    let world = World::new();
    seed(&world);
    let broken = world.home().join("profiles/broken");
    std::fs::create_dir_all(&broken).unwrap();
    std::fs::write(broken.join("state.db"), "this is no database, whatever its name says").unwrap();
    let told = world.vestal(["usage", "--by", "profile"]).exits(1);
    assert!(told.text().contains("default"), "{told:?}");
    assert!(told.stderr.contains("profile broken"), "{told:?}");
}

#[test]
fn looking_at_usage_where_there_is_none_makes_nothing() {
    let world = World::new();
    let told = world.vestal(["usage"]).exits(0);
    assert!(told.stderr.contains("nothing was spent"), "{told:?}");
    world.vestal(["usage", "--since", "1h", "--until", "2h"]).exits(2);
    assert!(!world.home().exists());
}
