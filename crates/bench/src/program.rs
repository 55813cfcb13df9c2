//! The program that is measured, the memory of processes, and the command line of a benchmark.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use vestal_config::Environment;

use crate::Result;
use crate::report::{BenchReport, ReportFormat};

/// The program, or why there is none.
pub type BenchProgram = std::result::Result<PathBuf, String>;

/// Names the program to measure, for those who have just built it.
const GIVEN: &str = "VESTAL_TEST_PROGRAM";

/// Returns the program: the one given, else one built from the sources that the
/// benchmark was built from, since one that is there may be of earlier ones.
pub fn build() -> BenchProgram {
    if let Some(given) = Environment::capture().non_empty(GIVEN) {
        return Ok(given.into());
    }
    // This is <target>/<profile>/deps/<benchmark>-….
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let profile_dir = own.ancestors().nth(2);
    let (Some(profile_dir), Some(target_dir)) = (profile_dir, own.ancestors().nth(3)) else {
        return Err("the benchmark is in no target directory".to_owned());
    };
    let environment = Environment::capture();
    let cargo = environment.get("CARGO").map_or_else(|| "cargo".into(), PathBuf::from);
    let mut command = Command::new(cargo);
    // What cargo tells a benchmark about its own package would make the build
    // scripts of some dependencies run again, and all above them be built twice.
    for (name, _) in environment.iter() {
        let prefixes = ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_BIN_", "CARGO_CRATE_"];
        if name.to_str().is_some_and(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
        {
            command.env_remove(name);
        }
    }
    let output = command
        .args(["build", "--quiet", "--release", "--locked", "--package", "vestal-cli"])
        .arg("--target-dir")
        .arg(target_dir)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .map_err(|error| format!("the program cannot be built: cargo: {error}"))?;
    if output.status.success() {
        return Ok(profile_dir.join("vestal"));
    }
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let first = stderr.lines().find(|line| line.starts_with("error")).unwrap_or("no reason given");
    Err(format!("the program does not build: {first}"))
}

/// Returns the resident memory of a process in bytes.
pub fn resident(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kibibytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"))
        .ok_or("no VmRSS")?;
    Ok(kibibytes.parse::<u64>()? << 10)
}

/// Returns the memory of a process in bytes, with pages that several processes
/// have shared out among them.
pub fn proportional(pid: u32) -> Result<u64> {
    of_rollup(pid, "Pss:")
}

/// Returns the memory of a process in bytes that is in no file: what it has to itself and the
/// kernel cannot drop.
pub fn anonymous(pid: u32) -> Result<u64> {
    of_rollup(pid, "Anonymous:")
}

fn of_rollup(pid: u32, name: &str) -> Result<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let kibibytes = rollup
        .lines()
        .find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB"))
        .ok_or_else(|| format!("no {name} in smaps_rollup"))?;
    Ok(kibibytes.parse::<u64>()? << 10)
}

/// Measures as the command line asks: `[--short] [--json]`. Returns the exit
/// code: 1 when a bar is missed, 2 when something did not work.
pub fn run<P>(
    short: P,
    long: P,
    measure: impl FnOnce(&mut BenchReport, P) -> Result<()>,
) -> ExitCode {
    match measured(short, long, measure) {
        Ok(report) if report.missed() == 0 => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => {
            // If standard error is closed there is nobody left to tell.
            writeln!(std::io::stderr(), "the benchmark failed: {error}").ok();
            ExitCode::from(2)
        }
    }
}

fn measured<P>(
    short: P,
    long: P,
    measure: impl FnOnce(&mut BenchReport, P) -> Result<()>,
) -> Result<BenchReport> {
    let (mut is_short, mut format) = (false, ReportFormat::Table);
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--short" => is_short = true,
            "--json" => format = ReportFormat::Json,
            "--bench" => {}
            other => return Err(format!("{other}: only --short and --json are known").into()),
        }
    }
    let mut report = BenchReport::new(machine_facts());
    let measured = measure(&mut report, if is_short { short } else { long });
    match format {
        ReportFormat::Table => report.print_table()?,
        ReportFormat::Json => report.print_json()?,
    }
    measured.map(|()| report)
}

/// Returns facts about this machine, for people who compare numbers.
pub fn machine_facts() -> Vec<(&'static str, String)> {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let model = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or_else(|| "unknown".to_owned(), |(_, model)| model.to_owned());
    let load: Vec<_> = read("/proc/loadavg").split(' ').take(3).map(str::to_owned).collect();
    vec![
        ("cores", format!("{cores} × {model}")),
        ("kernel", read("/proc/sys/kernel/osrelease").trim().to_owned()),
        ("load", load.join(" ")),
    ]
}
