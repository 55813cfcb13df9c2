//! The rows of the backend `docker`, beside the engine's own way to run a
//! command in the same container.

mod api;
mod lives;
mod program;
mod rows;

use vestal_config::Environment;

pub(crate) use self::api::Api;
use crate::Result;
use crate::fixture::{BenchBackend, BenchHome};
use crate::options::Plan;
use vestal_bench::program::BenchProgram;
use vestal_bench::report::{BenchReport, BenchRow};

/// An engine that may be given.
struct Given {
    name: &'static str,
    /// The variable that holds its address.
    variable: &'static str,
    /// The rows that are measured with it.
    rows: &'static [&'static str],
}

const DOCKER: Given =
    Given { name: "docker", variable: "VESTAL_TEST_DOCKER_HOST", rows: &rows::DOCKER };
const PODMAN: Given =
    Given { name: "podman", variable: "VESTAL_TEST_PODMAN_HOST", rows: &rows::PODMAN };

/// Measures everything with Docker.
pub(crate) fn docker(report: &mut BenchReport, plan: Plan, ours: &BenchProgram) -> Result<()> {
    DOCKER.with(report, |api, home, report| {
        let api = &api;
        report.add(home.measure(async |bench| rows::commands(&bench, api, plan).await)?);
        report.add(home.measure(async |bench| program::run(&bench, api, plan, ours).await)?);
        report.add(home.measure(async |bench| rows::files(&bench, plan).await)?);
        report.add(home.measure(async |bench| rows::memory(&bench, api).await)?);
        report.add(home.measure(async |bench| rows::streaming(&bench, api, plan).await)?);
        report.add(home.measure(async |bench| program::stream(&bench, api, plan, ours).await)?);
        report.add(home.measure(async |bench| rows::over_exec(&bench, plan).await)?);
        report.add(home.measure(async |bench| lives::measure(&bench, plan).await)?);
        Ok(())
    })
}

/// Measures commands with Podman.
pub(crate) fn podman(report: &mut BenchReport, plan: Plan) -> Result<()> {
    PODMAN.with(report, |api, home, report| {
        let api = &api;
        report.add(home.measure(async |bench| rows::reported(&bench, api, plan).await)?);
        Ok(())
    })
}

impl Given {
    /// Measures with the engine, if there is one.
    fn with(
        &self,
        report: &mut BenchReport,
        measurement: impl FnOnce(Api, &BenchHome, &mut BenchReport) -> Result<()>,
    ) -> Result<()> {
        let environment = Environment::capture();
        let host = environment.get(self.variable).and_then(|host| host.to_str());
        let Some(host) = host.filter(|host| !host.is_empty()) else {
            let why = format!("{} names no engine", self.variable);
            let row = |what: &&str| BenchRow::not_run(format!("{}: {what}", self.name), &*why);
            report.add(self.rows.iter().map(row).collect());
            return Ok(());
        };
        let api = Api::at(host)?;
        report.fact(self.name, api.version()?);
        let home =
            BenchHome::open(&BenchBackend::Containers { name: self.name, host: host.to_owned() })?;
        measurement(api, &home, report)?;
        home.close()
    }
}
