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

use vestal_supervisor::{MainProgram, become_main_program};

fn main() {
    let mut arguments = std::env::args_os().skip(1).peekable();
    let what = arguments.next().unwrap();
    let dir = PathBuf::from(arguments.next().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let code = match what.to_str().unwrap() {
        "supervise" => {
            let reaps = arguments.next_if(|option| option == "--reaps").is_some();
            let own = std::env::current_exe().unwrap();
            let launcher = vec![own.into(), "become".into(), dir.clone().into()];
            let main = arguments.next().map(|program| MainProgram {
                program,
                arguments: arguments.collect(),
                launcher,
            });
            runtime.block_on(parent::run(dir, reaps, main))
        }
        "become" => {
            let supervisor = arguments.next().unwrap().to_str().unwrap().parse().unwrap();
            let program = arguments.by_ref().nth(1).unwrap();
            let error = become_main_program(supervisor, &program, arguments);
            eprintln!("cannot run {}: {error}", program.to_string_lossy());
            127
        }
        "child" => runtime.block_on(child::run(&dir)),
        other => panic!("{other}"),
    };
    std::process::exit(code);
}
