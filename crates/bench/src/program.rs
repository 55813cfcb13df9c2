//! The program that is measured.

use std::path::PathBuf;
use std::process::Command;

use vestal_config::Environment;

/// The program, or why there is none.
pub type BenchProgram = Result<PathBuf, String>;

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
