//! Directories of one test, and what is done when it ends.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A directory with the home of a user in it, Vestal's home and room beside both. It is removed
/// when it is dropped.
#[derive(Debug)]
pub struct TestHome {
    dir: TempDir,
}

impl TestHome {
    /// Makes the directory and the user's home.
    pub fn create() -> Self {
        let home = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir(home.user()).unwrap();
        home
    }

    /// The same below another directory than that of temporary files.
    pub fn create_in(dir: &Path) -> Self {
        let home = Self { dir: tempfile::tempdir_in(dir).unwrap() };
        std::fs::create_dir(home.user()).unwrap();
        home
    }

    /// Returns the directory that all else is in.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the user's home.
    pub fn user(&self) -> PathBuf {
        self.beside("user")
    }

    /// Returns Vestal's home, which is not there until something makes it.
    pub fn vestal(&self) -> PathBuf {
        self.beside("vestal")
    }

    /// Returns a path beside both.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the variables that a program needs: `HOME`, and the tests' own `PATH`.
    #[expect(clippy::disallowed_methods, reason = "a test finds programs where its caller does")]
    pub fn variables(&self) -> Vec<(String, String)> {
        let home = self.user().to_str().unwrap().to_owned();
        vec![("HOME".to_owned(), home), ("PATH".to_owned(), std::env::var("PATH").unwrap())]
    }

    /// Returns the same and `VESTAL_HOME`: all that the program `vestal` needs.
    pub fn program_variables(&self) -> Vec<(String, String)> {
        let mut variables = self.variables();
        variables.push(("VESTAL_HOME".to_owned(), self.vestal().to_str().unwrap().to_owned()));
        variables
    }

    /// Returns a program with nothing in its environment but
    /// [`program_variables`](Self::program_variables). It starts in the user's home, without input.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(self.program_variables());
        command.current_dir(self.user()).stdin(Stdio::null());
        command
    }

    /// Writes `config.yaml` into Vestal's home, which is made if it is missing.
    pub fn write_config(&self, text: &str) {
        std::fs::create_dir_all(self.vestal()).unwrap();
        std::fs::write(self.vestal().join("config.yaml"), text).unwrap();
    }
}

/// Does asynchronous work in a `drop`. A drop cannot wait for a future, and the runtime it happens
/// in may be ending, so the work gets a thread and a runtime of its own. When it fails the test
/// fails, unless it has failed already.
pub fn clean_up<F: Future<Output = ()>>(work: impl FnOnce() -> F + Send + 'static) {
    let working = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(work());
    });
    let done = working.join();
    if !std::thread::panicking() {
        done.unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Cleans(PathBuf);

    impl Drop for Cleans {
        fn drop(&mut self) {
            let path = self.0.clone();
            clean_up(move || async move {
                tokio::task::yield_now().await;
                std::fs::write(path, "clean").unwrap();
            });
        }
    }

    #[tokio::test]
    async fn a_drop_inside_a_runtime_waits_for_its_work() {
        let home = TestHome::create();
        let file = home.beside("file");
        drop(Cleans(file.clone()));
        assert_eq!(std::fs::read_to_string(file).unwrap(), "clean");
    }

    #[test]
    fn a_program_gets_nothing_of_the_callers_environment() {
        let home = TestHome::create();
        let printed = crate::programs::run(home.command("env").arg("-0"));
        let text = printed.text();
        let mut names: Vec<&str> =
            text.split_terminator('\0').filter_map(|line| Some(line.split_once('=')?.0)).collect();
        names.sort_unstable();
        assert_eq!(names, ["HOME", "PATH", "VESTAL_HOME"]);
        let printed = crate::programs::run(&mut home.command("pwd")).text();
        assert_eq!(Path::new(printed.trim_end()), home.user().canonicalize().unwrap());
    }

    #[test]
    fn a_home_leaves_nothing() {
        let home = TestHome::create();
        let path = home.path().to_owned();
        assert!(home.user().is_dir() && !home.vestal().exists());
        drop(home);
        assert!(!path.exists());
    }
}
