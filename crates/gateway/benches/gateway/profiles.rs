//! Measures the memory of many profiles under one supervisor.

use serde_json::Value;
use vestal_bench::Result;
use vestal_bench::program::{anonymous, proportional, resident};
use vestal_bench::report::{Bar, BenchRow, Figure};

use crate::Plan;
use crate::fixture::GatewayBench;

pub(crate) fn measure(bench: &GatewayBench, plan: Plan) -> Result<Vec<BenchRow>> {
    // `default` is one of them.
    for number in 1..plan.profiles {
        let name = format!("p{number}");
        bench.vestal(&["profile", "create", &name])?;
        let home = bench.home().join("profiles").join(name);
        std::fs::write(home.join("config.yaml"), bench.config(false))?;
    }
    bench.vestal(&["gateway", "start", "--all"])?;
    let status = bench.vestal(&["gateway", "status", "--all", "--json"])?;
    let status: Value = serde_json::from_slice(&status.stdout)?;
    let gateways = status["gateways"].as_array().ok_or("no gateways")?;
    let pids = gateways.iter().chain([&status["manager"]]).filter_map(|one| one["pid"].as_u64());
    let (mut shares, mut all, mut own) = (0, 0, 0);
    for pid in pids {
        let pid = u32::try_from(pid)?;
        shares += proportional(pid)?;
        all += resident(pid)?;
        own += anonymous(pid)?;
    }
    bench.vestal(&["gateway", "stop", "--all"])?;
    bench.vestal(&["supervise", "--stop"])?;
    let what = format!("memory of {} profiles and their supervisor", gateways.len());
    Ok(vec![
        BenchRow::single(what, Figure::size(shares))
            .bar(Bar::AtMost(Figure::Mebibytes(400.0)))
            .note("pages that processes share are divided among them"),
        BenchRow::single("… resident, shared pages counted for each", Figure::size(all)),
        BenchRow::single("… their own, in no file", Figure::size(own)),
    ])
}
