//! The first process of every sandbox. See the crate's README.

fn main() -> std::process::ExitCode {
    vestal_guest::main()
}
