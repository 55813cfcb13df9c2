//! What every command works with.

use std::time::Duration;

use vestal_config::{Environment, Home, Override, ProfileName, Settings};
use vestal_sandbox::{CLOSE_WITHIN, Engine, Notice, Sandbox, Task};

use crate::cli::Global;
use crate::console::Console;
use crate::error::Failure;

/// How long the end of a command waits for the sweep its beginning set off.
const SWEEP_WITHIN: Duration = Duration::from_secs(2);

/// The console, the environment and the options every command has.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) console: Console,
    environment: Environment,
    global: Global,
}

impl Context {
    pub(crate) fn new(console: Console, environment: Environment, global: Global) -> Self {
        Self { console, environment, global }
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Finds the home of the profile.
    pub(crate) fn home(&self) -> Result<Home, Failure> {
        Ok(Home::locate(&self.environment, self.global.profile.as_deref())?)
    }

    /// Finds the home of another profile.
    pub(crate) fn home_of(&self, profile: &ProfileName) -> Result<Home, Failure> {
        Ok(Home::locate(&self.environment, Some(profile.as_str()))?)
    }

    /// Loads the settings.
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        Ok(self.settings_with(self.home()?, Vec::new()))
    }

    fn settings_with(&self, home: Home, more: Vec<Override>) -> Settings {
        let overrides = self.global.set.iter().cloned().chain(more).collect();
        Settings::load(home, self.environment.clone(), overrides)
    }

    /// Opens the engine of the profile.
    pub(crate) fn engine(&self) -> Result<Engine, Failure> {
        self.engine_with(Vec::new())
    }

    /// Opens the engine with settings of this command's own.
    pub(crate) fn engine_with(&self, more: Vec<Override>) -> Result<Engine, Failure> {
        self.engine_of(self.home()?, more)
    }

    /// Opens the engine of another profile's home.
    pub(crate) fn engine_of(&self, home: Home, more: Vec<Override>) -> Result<Engine, Failure> {
        Ok(Engine::open(self.settings_with(home, more))?)
    }

    /// Returns the sandbox of a task, attached to, started or made, and says
    /// what there is to know about it.
    pub(crate) async fn sandbox(&self, engine: &Engine, task: &Task) -> Result<Sandbox, Failure> {
        let attach = Box::pin(engine.sandbox(task));
        let sandbox = self.console.while_waiting("starting the sandbox", attach).await?;
        self.tell(&sandbox);
        Ok(sandbox)
    }

    /// Says what there is to know about a sandbox that was just attached to.
    fn tell(&self, sandbox: &Sandbox) {
        let task = sandbox.task();
        for notice in sandbox.notices() {
            self.console.note(&describe(notice, task.as_str(), sandbox.backend()));
        }
    }

    /// Ends this process's part in the sandboxes.
    pub(crate) async fn close(&self, engine: &Engine) {
        if !engine.close(CLOSE_WITHIN).await {
            self.console.warn("a sandbox of this process was not removed in time; it ends by itself within a minute");
        }
    }

    /// As [`Context::close`], and lets the orphan reaper finish.
    pub(crate) async fn finish(&self, engine: &Engine) {
        self.close(engine).await;
        if tokio::time::timeout(SWEEP_WITHIN, engine.orphans_swept()).await.is_err() {
            tracing::debug!("the orphan reaper goes on next time");
        }
    }
}

fn describe(notice: &Notice, task: &str, backend: &str) -> String {
    match notice {
        Notice::NoIsolation => format!(
            "sandbox {task} runs on the backend {backend}: commands run as you, without isolation"
        ),
        Notice::Drift(drift) => {
            let keys: Vec<String> = drift
                .iter()
                .map(|drift| {
                    let value = |value: &Option<String>| {
                        value.clone().unwrap_or_else(|| "default".to_owned())
                    };
                    format!("{} ({} → {})", drift.key, value(&drift.was), value(&drift.now))
                })
                .collect();
            format!(
                "settings changed since sandbox {task} was started: {}; to apply them: vestal stop {}",
                keys.join(", "),
                crate::values::quoted(task),
            )
        }
        Notice::Recreated { reason } => {
            format!(
                "sandbox {task} could not be started and was made anew, its files kept: {reason}"
            )
        }
    }
}
