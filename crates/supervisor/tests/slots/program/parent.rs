//! A supervisor with a slot for each directory below `profiles`, and one that the home has once for
//! each directory below `services`.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use vestal_supervisor::{
    BootRule, FoundSlot, MainProgram, Manager, Slot, SlotName, SlotService, SlotSource, Supervisor,
    SupervisorOptions,
};

struct Profiles {
    root: PathBuf,
}

impl Profiles {
    fn dirs(&self, below: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.root.join(below)).into_iter().flatten().flatten();
        let mut dirs: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        dirs.sort();
        dirs
    }

    fn profile(&self, dir: &Path) -> FoundSlot {
        let name = dir.file_name().unwrap();
        let Some(text) = name.to_str() else {
            let name = String::from_utf8_lossy(name.as_bytes()).into_owned();
            return FoundSlot::Broken { name, reason: "its name is not UTF-8".to_owned() };
        };
        match SlotName::new(text) {
            Err(error) => FoundSlot::Broken { name: text.to_owned(), reason: error.to_string() },
            Ok(name) => {
                let log_dir = self.root.join("logs/gateways").join(text);
                let service = service(dir, log_dir, BootRule::AsBefore);
                FoundSlot::Slot(Box::new(Slot { name, service }))
            }
        }
    }

    fn service(&self, dir: &Path) -> FoundSlot {
        let name = dir.file_name().unwrap().to_str().unwrap();
        let always = dir.join("always").exists();
        let boot = if always { BootRule::Always } else { BootRule::IfDesired };
        let service = service(dir, self.root.join("logs").join(name), boot);
        let name = SlotName::new(&format!("@{name}")).unwrap();
        FoundSlot::Slot(Box::new(Slot { name, service }))
    }
}

impl SlotSource for Profiles {
    fn slots(&self) -> Vec<FoundSlot> {
        let profiles = self.dirs("profiles");
        let services = self.dirs("services");
        let profiles = profiles.iter().map(|dir| self.profile(dir));
        profiles.chain(services.iter().map(|dir| self.service(dir))).collect()
    }

    fn watched(&self) -> Vec<PathBuf> {
        vec![self.root.join("profiles")]
    }
}

fn service(dir: &Path, log_dir: PathBuf, boot: BootRule) -> SlotService {
    let program = std::env::current_exe().unwrap();
    let milliseconds = |file: &str, default: u64| {
        let text = std::fs::read_to_string(dir.join(file)).ok();
        Duration::from_millis(text.map_or(default, |text| text.trim().parse().unwrap()))
    };
    SlotService {
        argv: vec![program.into(), "child".into(), dir.into()],
        env: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
        dir: dir.into(),
        desired: dir.join("desired.json"),
        actual: dir.join("gateway_state.json"),
        log_dir,
        boot,
        stop_within: milliseconds("stop_ms", 60_000),
        ready_within: milliseconds("ready_ms", 60_000),
    }
}

pub(crate) async fn run(root: PathBuf, reaps: bool, main: Option<MainProgram>) -> i32 {
    if reaps {
        // Orphans come to this process, as to process 1.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    }
    let options = SupervisorOptions {
        run_dir: root.join("run"),
        logs_dir: root.join("logs"),
        source: Arc::new(Profiles { root }),
        output: Box::new(std::io::stdout()),
        manager: Manager::None,
        reaps,
        main,
    };
    let supervisor = match Supervisor::take(options).await {
        Ok(supervisor) => supervisor,
        Err(error) => {
            eprintln!("{error}");
            return 1;
        }
    };
    match supervisor.run(|| eprintln!("ready")).await {
        Ok(None) => 0,
        Ok(Some(status)) => status.code().unwrap_or(255),
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}
