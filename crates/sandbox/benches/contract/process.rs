//! What the kernel says of a process.

use std::fs;

use vestal_sandbox::Sandbox;

use crate::Result;
use crate::fixture::ContractBench;

/// Returns the process id of a sandbox's guest, as it says itself. Of no use
/// where the guest counts processes otherwise than this machine does.
pub(crate) async fn guest_pid(bench: &ContractBench, sandbox: &Sandbox) -> Result<u32> {
    let file = bench
        .engine
        .sandboxes_dir()
        .join(sandbox.key().dir_name())
        .join("instances")
        .join(sandbox.instance().await)
        .join("io/guest.json");
    let identity: serde_json::Value = serde_json::from_slice(&fs::read(file)?)?;
    let pid = identity["pid"].as_u64().ok_or("the guest does not say its pid")?;
    Ok(u32::try_from(pid)?)
}
