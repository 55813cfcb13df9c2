//! Prints the document that describes the API server, for `docs/openapi.json`.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    let document = serde_json::to_string_pretty(&vestal_gateway::openapi_document())?;
    writeln!(std::io::stdout(), "{document}")
}
