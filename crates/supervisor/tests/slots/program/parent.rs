//! A supervisor with a slot for each directory below `profiles`.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use vestal_supervisor::{Found, Manager, Options, Slot, SlotName, SlotSource, Supervisor};

struct Profiles {
    root: PathBuf,
}

impl SlotSource for Profiles {
    fn slots(&self) -> Vec<Found> {
        let entries = std::fs::read_dir(self.root.join("profiles")).into_iter().flatten().flatten();
        let mut dirs: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        dirs.sort();
        dirs.into_iter().map(|dir| found(&dir)).collect()
    }

    fn watched(&self) -> Vec<PathBuf> {
        vec![self.root.join("profiles")]
    }
}

fn found(dir: &Path) -> Found {
    let name = dir.file_name().unwrap();
    let name = name.to_str().ok_or_else(|| String::from_utf8_lossy(name.as_bytes()).into_owned());
    match name {
        Err(name) => Found::Broken { name, reason: "its name is not UTF-8".to_owned() },
        Ok(name) => match SlotName::new(name) {
            Err(error) => Found::Broken { name: name.to_owned(), reason: error.to_string() },
            Ok(name) => Found::Slot(Box::new(slot(name, dir))),
        },
    }
}

fn slot(name: SlotName, dir: &Path) -> Slot {
    let program = std::env::current_exe().unwrap();
    let milliseconds = |file: &str, default: u64| {
        let text = std::fs::read_to_string(dir.join(file)).ok();
        Duration::from_millis(text.map_or(default, |text| text.trim().parse().unwrap()))
    };
    Slot {
        name,
        argv: vec![program.into(), "child".into(), dir.into()],
        env: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
        dir: dir.into(),
        desired: dir.join("desired.json"),
        actual: dir.join("gateway_state.json"),
        stop_within: milliseconds("stop_ms", 60_000),
        ready_within: milliseconds("ready_ms", 60_000),
    }
}

pub(crate) async fn run(root: PathBuf, reaps: bool) -> i32 {
    if reaps {
        // Orphans come to this process, as to process 1.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    }
    let options = Options {
        run_dir: root.join("run"),
        logs_dir: root.join("logs"),
        source: Arc::new(Profiles { root }),
        output: Box::new(std::io::stdout()),
        manager: Manager::None,
        reaps,
    };
    let supervisor = match Supervisor::take(options).await {
        Ok(supervisor) => supervisor,
        Err(error) => {
            eprintln!("{error}");
            return 1;
        }
    };
    match supervisor.run(|| eprintln!("ready")).await {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}
