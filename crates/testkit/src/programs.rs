//! Programs that a test runs as other processes.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Output};

/// Returns the lines that a child prints; its output must be a pipe.
pub fn lines(child: &mut Child) -> Lines<BufReader<ChildStdout>> {
    BufReader::new(child.stdout.take().unwrap()).lines()
}

/// Reads `count` lines of a child, kills it, and returns all lines it printed until then.
pub fn kill_after(mut child: Child, count: usize) -> Vec<String> {
    let mut output = lines(&mut child);
    let mut printed: Vec<String> = output.by_ref().take(count).map(Result::unwrap).collect();
    child.kill().unwrap();
    // Lines printed before the kill took effect count as well.
    printed.extend(output.map(Result::unwrap));
    child.wait().unwrap();
    printed
}

/// Runs a shell script as root of a user and mount namespace of its own; its arguments are `$1` and
/// so on.
pub fn in_namespace<A: AsRef<OsStr>>(script: &str, arguments: &[A]) -> Output {
    Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-euc", script, "sh"])
        .args(arguments)
        .output()
        .unwrap()
}
