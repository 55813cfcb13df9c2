//! Schedules.

use vestal_scripted_model::{BilledUsage, Script, ScriptedModel, ScriptedReply};

use super::Transcript;
use crate::support::ProgramFixture;

#[test]
fn schedules() {
    let fixture = ProgramFixture::new();
    let usage = BilledUsage { input: 120, output: 4, ..BilledUsage::default() };
    let model =
        ScriptedModel::start(Script::replies([ScriptedReply::text("all is quiet").usage(usage)]));
    let mut calls = Transcript::new(&fixture);
    calls.variables = vec![
        ("TZ", "UTC".to_owned()),
        ("VESTAL_MODEL", "m".to_owned()),
        ("VESTAL_BASE_URL", model.base_url()),
    ];
    let made = calls.learn(&[
        "cron",
        "create",
        "at 2099-12-24T18:00",
        "look at the logs",
        "--name",
        "logs",
    ]);
    let id = calls.name(&made["id"], "id");
    calls.call(&["cron", "list"]);
    calls.call(&["cron", "run", &id]);
    calls.call(&["cron", "runs"]);
    calls.call_exiting(&["cron", "status"], 1);
    calls.call(&["cron", "remove", "-y", &id]);
    insta::assert_snapshot!(calls.text);
}
