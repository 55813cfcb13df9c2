//! Asks the linker for packed relocations.
//!
//! The program is linked as a position-independent executable, and its tables of functions hold hundreds of
//! thousands of addresses that the loader corrects at every start. As `.rela.dyn` each takes 24 bytes,
//! which are read by every process and stay in its memory: megabytes for each gateway. Packed they take
//! a few bits.

#![expect(clippy::disallowed_methods, reason = "cargo talks to build scripts by environment")]

use std::process::Command;

/// Set where the program is built for other machines, as `scripts/package` does.
const PORTABLE: &str = "VESTAL_PORTABLE";

/// The first version of glibc whose loader knows packed relocations.
const GLIBC: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={PORTABLE}");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    let is_gnu = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    let is_native = std::env::var("TARGET") == std::env::var("HOST");
    // What is built for other machines runs with their C library, not with this one's.
    let is_portable = std::env::var_os(PORTABLE).is_some();
    if is_gnu && is_native && !is_portable && glibc().is_some_and(|version| version >= GLIBC) {
        // A linker that is too old for it says so and goes on without.
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Returns the version of this machine's glibc; it prints `glibc 2.36`.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
