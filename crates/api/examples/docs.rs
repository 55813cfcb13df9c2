//! Prints `docs/configuration.md`.

use std::io::Write;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(vestal_api::schema().markdown().as_bytes())
}
