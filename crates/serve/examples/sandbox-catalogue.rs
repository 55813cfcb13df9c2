//! Prints `docs/serve-sandboxes.json`.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut stdout, &vestal_serve::sandbox_catalogue())?;
    writeln!(stdout)
}
