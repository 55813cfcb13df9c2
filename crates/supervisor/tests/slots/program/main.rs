//! What the tests start: a supervisor of the directories below `profiles`, and its children.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program of the tests, not of users"
)]

mod child;
mod parent;

use std::path::PathBuf;

use vestal_supervisor::MainProgram;

fn main() {
    let mut arguments = std::env::args_os().skip(1).peekable();
    let what = arguments.next().unwrap();
    let dir = PathBuf::from(arguments.next().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let code = match what.to_str().unwrap() {
        "supervise" => {
            let reaps = arguments.next_if(|option| option == "--reaps").is_some();
            let main = arguments
                .next()
                .map(|program| MainProgram { program, arguments: arguments.collect() });
            runtime.block_on(parent::run(dir, reaps, main))
        }
        "child" => runtime.block_on(child::run(&dir)),
        other => panic!("{other}"),
    };
    std::process::exit(code);
}
