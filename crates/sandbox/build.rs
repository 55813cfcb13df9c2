//! Builds the guest as one static file and hands its path to the crate, which
//! embeds it: one program installs everything.
//!
//! The guest needs its own profile, target and linkage, hence a nested cargo
//! with its own target directory beside the outer one.

#![expect(clippy::disallowed_methods, reason = "cargo talks to build scripts by environment")]

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One static file. A fixed address, no unwind tables and no build id take a
/// fifth off its size: it does not unwind, and it is in every sandbox.
const GUEST_FLAGS: &str = "-C target-feature=+crt-static -C relocation-model=static \
    -C force-unwind-tables=no -C link-arg=-Wl,--build-id=none";

fn main() {
    if let Err(message) = build() {
        println!("cargo::error={message}");
    }
}

fn build() -> Result<(), String> {
    println!("cargo::rerun-if-env-changed=VESTAL_GUEST_BINARY");
    let guest = match env::var_os("VESTAL_GUEST_BINARY") {
        Some(prebuilt) => PathBuf::from(prebuilt),
        None => build_guest()?,
    };
    let bytes = std::fs::read(&guest)
        .map_err(|error| format!("cannot read the guest at {}: {error}", guest.display()))?;
    // A copy under OUT_DIR, so that a later build of the guest with other
    // features does not change what this build embeds.
    let copy = PathBuf::from(var("OUT_DIR")?).join("vestal-guest");
    if std::fs::read(&copy).ok().as_deref() != Some(&bytes) {
        std::fs::write(&copy, &bytes)
            .map_err(|error| format!("cannot write {}: {error}", copy.display()))?;
    }
    println!("cargo::rustc-env=VESTAL_EMBEDDED_GUEST={}", copy.display());
    println!("cargo::rustc-env=VESTAL_EMBEDDED_GUEST_ID={:016x}", fingerprint(&bytes));
    Ok(())
}

/// Returns a number that tells builds apart (FNV-1a; nothing secret hangs on it).
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn build_guest() -> Result<PathBuf, String> {
    let crates = PathBuf::from(var("CARGO_MANIFEST_DIR")?)
        .parent()
        .map(Path::to_owned)
        .ok_or("the crate has no parent directory")?;
    let workspace = crates.parent().ok_or("the crates have no parent directory")?;
    for watched in ["crates/guest", "crates/wire", "Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", workspace.join(watched).display());
    }

    let arch = var("CARGO_CFG_TARGET_ARCH")?;
    let target = format!("{arch}-unknown-linux-gnu");
    let target_dir = nested_target_dir()?;
    let mut cargo = Command::new(var_os("CARGO")?);
    cargo
        .current_dir(workspace)
        .args(["build", "--locked", "--package", "vestal-guest", "--bin", "vestal-guest"])
        .args(["--profile", "guest", "--target", &target])
        .arg("--target-dir")
        .arg(&target_dir);
    if env::var_os("CARGO_FEATURE_FAILPOINTS").is_some() {
        cargo.args(["--features", "failpoints"]);
    }
    // The outer build's flags are for the outer build: the guest must come out
    // the same whatever lints, wrappers or profiles surround it.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let foreign = text.starts_with("CARGO_PROFILE_")
            || matches!(
                &*text,
                "RUSTFLAGS"
                    | "CARGO_ENCODED_RUSTFLAGS"
                    | "RUSTC_WORKSPACE_WRAPPER"
                    | "CARGO_TARGET_DIR"
            );
        if foreign {
            cargo.env_remove(&name);
        }
    }
    cargo.env("RUSTFLAGS", GUEST_FLAGS);

    let output = cargo.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        for line in String::from_utf8_lossy(&output.stderr).lines() {
            println!("cargo::warning={line}");
        }
        return Err("the guest does not build".into());
    }
    Ok(target_dir.join(&target).join("guest").join("vestal-guest"))
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
