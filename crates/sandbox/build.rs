//! Builds the guest and the stage as static files and hands their paths to the
//! crate, which embeds them: one program installs everything.
//!
//! They need their own profile, target and linkage, hence a nested cargo with
//! its own target directory beside the outer one.

#![expect(clippy::disallowed_methods, reason = "cargo talks to build scripts by environment")]

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs that are embedded: package and what its variables are named
/// after. A variable `VESTAL_<NAME>_BINARY` names one that is built already.
const PROGRAMS: [(&str, &str); 2] = [("vestal-guest", "GUEST"), ("vestal-stage", "STAGE")];

/// One static file. A fixed address, no unwind tables and no build id take a
/// third off its size: it does not unwind, and it is in every sandbox.
const GUEST_FLAGS: [&str; 4] = [
    "-Ctarget-feature=+crt-static",
    "-Crelocation-model=static",
    "-Cforce-unwind-tables=no",
    "-Clink-arg=-Wl,--build-id=none",
];

/// The linker script that leaves out the unwind tables of libraries.
const LINKER_SCRIPT: &str = "crates/guest/no-unwind-tables.ld";

fn main() {
    if let Err(message) = build() {
        println!("cargo::error={message}");
    }
}

fn build() -> Result<(), String> {
    let mut built = None;
    for (package, name) in PROGRAMS {
        let variable = format!("VESTAL_{name}_BINARY");
        println!("cargo::rerun-if-env-changed={variable}");
        let program = match env::var_os(&variable) {
            Some(prebuilt) => PathBuf::from(prebuilt),
            None => {
                let dir: &PathBuf = match &built {
                    Some(dir) => dir,
                    None => built.insert(build_programs()?),
                };
                dir.join(package)
            }
        };
        embed(package, name, &program)?;
    }
    Ok(())
}

fn embed(package: &str, name: &str, program: &Path) -> Result<(), String> {
    let bytes = std::fs::read(program)
        .map_err(|error| format!("cannot read {package} at {}: {error}", program.display()))?;
    // A copy under OUT_DIR, so that a later build with other features does not
    // change what this build embeds.
    let copy = PathBuf::from(var("OUT_DIR")?).join(package);
    if std::fs::read(&copy).ok().as_deref() != Some(&bytes) {
        std::fs::write(&copy, &bytes)
            .map_err(|error| format!("cannot write {}: {error}", copy.display()))?;
    }
    println!("cargo::rustc-env=VESTAL_EMBEDDED_{name}={}", copy.display());
    println!("cargo::rustc-env=VESTAL_EMBEDDED_{name}_ID={:016x}", fingerprint(&bytes));
    Ok(())
}

/// Returns a number that tells builds apart (FNV-1a; nothing secret hangs on it).
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Builds the programs and returns the directory they are in.
fn build_programs() -> Result<PathBuf, String> {
    let crates = PathBuf::from(var("CARGO_MANIFEST_DIR")?)
        .parent()
        .map(Path::to_owned)
        .ok_or("the crate has no parent directory")?;
    let workspace = crates.parent().ok_or("the crates have no parent directory")?;
    for watched in ["crates/guest", "crates/stage", "crates/wire", "Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", workspace.join(watched).display());
    }

    let arch = var("CARGO_CFG_TARGET_ARCH")?;
    let target = format!("{arch}-unknown-linux-gnu");
    let target_dir = nested_target_dir()?;
    let mut cargo = Command::new(var_os("CARGO")?);
    cargo
        .current_dir(workspace)
        .args(["build", "--locked", "--bins"])
        .args(PROGRAMS.iter().flat_map(|(package, _)| ["--package", package]))
        .args(["--profile", "guest", "--target", &target])
        .arg("--target-dir")
        .arg(&target_dir);
    if env::var_os("CARGO_FEATURE_FAILPOINTS").is_some() {
        cargo.args(["--features", "vestal-guest/failpoints,vestal-stage/failpoints"]);
    }
    // The outer build's flags are for the outer build: the programs must come
    // out the same whatever lints, wrappers, profiles or choice of features surround it.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let foreign = text.starts_with("CARGO_PROFILE_")
            || matches!(
                &*text,
                "RUSTFLAGS"
                    | "CARGO_ENCODED_RUSTFLAGS"
                    | "RUSTC_WORKSPACE_WRAPPER"
                    | "CARGO_TARGET_DIR"
                    | "CARGO_RESOLVER_FEATURE_UNIFICATION"
            );
        if foreign {
            cargo.env_remove(&name);
        }
    }
    let script = workspace.join(LINKER_SCRIPT);
    let script = script.to_str().ok_or("the path of the workspace is not UTF-8")?;
    // `-Xlinker` hands on one argument as it is, also with a comma in the path.
    let script = ["-Xlinker", "-T", "-Xlinker", script].map(|part| format!("-Clink-arg={part}"));
    let flags: Vec<&str> =
        GUEST_FLAGS.into_iter().chain(script.iter().map(String::as_str)).collect();
    // Cargo's own separator, so that the path may have blanks.
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));

    let output = cargo.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        for line in String::from_utf8_lossy(&output.stderr).lines() {
            println!("cargo::warning={line}");
        }
        return Err("the guest and the stage do not build".into());
    }
    Ok(target_dir.join(&target).join("guest"))
}

/// Returns a target directory for the nested build: beside the outer one, so
/// that check, clippy, test and build share it. The outer one is the nearest
/// ancestor of `OUT_DIR` that cargo has tagged as a cache.
fn nested_target_dir() -> Result<PathBuf, String> {
    let out = PathBuf::from(var("OUT_DIR")?);
    let outer = out.ancestors().find(|dir| dir.join("CACHEDIR.TAG").exists()).unwrap_or(&out);
    let features =
        if env::var_os("CARGO_FEATURE_FAILPOINTS").is_some() { "-failpoints" } else { "" };
    Ok(outer.join(format!("guest{features}")))
}

fn var(name: &str) -> Result<String, String> {
    env::var(name).map_err(|_| format!("{name} is not set"))
}

fn var_os(name: &str) -> Result<OsString, String> {
    env::var_os(name).ok_or_else(|| format!("{name} is not set"))
}
