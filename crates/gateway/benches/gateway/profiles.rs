//! Measures the memory of many profiles under one supervisor.

use serde_json::Value;
use vestal_bench::Result;
use vestal_bench::process::proportional;
use vestal_bench::report::{Bar, BenchRow, Figure};

use crate::Plan;
use crate::stage::Stage;

pub(crate) fn measure(stage: &Stage, plan: Plan) -> Result<Vec<BenchRow>> {
    // `default` is one of them.
    for number in 1..plan.profiles {
        let name = format!("p{number}");
        stage.vestal(&["profile", "create", &name])?;
        let home = stage.home().join("profiles").join(name);
        std::fs::write(home.join("config.yaml"), stage.config(false))?;
    }
    stage.vestal(&["gateway", "start", "--all"])?;
    let status = stage.vestal(&["gateway", "status", "--all", "--json"])?;
    let status: Value = serde_json::from_slice(&status.stdout)?;
    let gateways = status["gateways"].as_array().ok_or("no gateways")?;
    let pids = gateways.iter().chain([&status["manager"]]).filter_map(|one| one["pid"].as_u64());
    let mut bytes = 0;
    for pid in pids {
        bytes += proportional(u32::try_from(pid)?)?;
    }
    stage.vestal(&["gateway", "stop", "--all"])?;
    stage.vestal(&["supervise", "--stop"])?;
    let what = format!("memory of {} profiles and their supervisor", gateways.len());
    Ok(vec![
        BenchRow::single(what, Figure::size(bytes))
            .bar(Bar::AtMost(Figure::Mebibytes(400.0)))
            .note("pages that processes share are divided among them"),
    ])
}
