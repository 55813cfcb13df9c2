//! The first process of every sandbox. See the crate's README.

/// Runs the program with the process's arguments.
pub fn main() -> std::process::ExitCode {
    std::process::ExitCode::FAILURE
}
