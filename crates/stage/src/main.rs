//! Builds sandboxes of namespaces and copies their files. See the crate's README.

fn main() -> std::process::ExitCode {
    vestal_stage::main()
}
