//! What every command works with.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use vestal_config::{
    AnyKey as _, Audience, Environment, Home, HomeNotFound, Override, ProfileName, Settings,
};
use vestal_profiles::Profiles;
use vestal_sandbox::backend::Declaration;
use vestal_sandbox::{
    BackendChoice, CLOSE_WITHIN, Engine, EngineOptions, Error, Notice, Overrides, Sandbox,
    StateBefore, TaskName, keys, registered_backends,
};

use crate::cli::{Global, SandboxFlags};
use crate::console::{ActivityLine, Console};
use crate::error::CommandFailure;
use crate::follow::unless_terminated;
use crate::signals;
use crate::values::quoted;

/// How long a command waits at its end for the sweep that it started.
const SWEEP_WITHIN: Duration = Duration::from_secs(2);

/// The console, the environment and the options every command has.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) console: Console,
    environment: Environment,
    global: Global,
    activity: ActivityLine,
    /// Whether `default` is used because the chosen profile cannot be.
    tolerant: AtomicBool,
    /// Whether a message has said so.
    warned: AtomicBool,
    /// A sandbox that is being attached to, started or made.
    pending: Mutex<Option<JoinHandle<Result<Sandbox, Error>>>>,
}

impl Context {
    pub(crate) fn new(console: Console, environment: Environment, global: Global) -> Self {
        Self {
            console,
            environment,
            global,
            activity: ActivityLine::default(),
            tolerant: AtomicBool::new(false),
            warned: AtomicBool::new(false),
            pending: Mutex::new(None),
        }
    }

    /// Returns another one for the same command line.
    pub(crate) fn again(&self) -> Self {
        Self::new(self.console, self.environment.clone(), self.global.clone())
    }

    /// Returns the options that every command has.
    pub(crate) fn global(&self) -> &Global {
        &self.global
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Returns the sink that shows what a sandbox waits for.
    pub(crate) fn activity(&self) -> &ActivityLine {
        &self.activity
    }

    /// Returns the profile that the command line names.
    pub(crate) fn profile(&self) -> Option<&str> {
        self.global.profile.as_deref()
    }

    /// Finds the home of the profile.
    pub(crate) fn home(&self) -> Result<Home, CommandFailure> {
        if self.tolerant.load(Ordering::Relaxed) {
            return self.home_or_default();
        }
        Ok(Home::locate(&self.environment, self.global.profile.as_deref())?)
    }

    /// As [`Context::home`], for commands that must always work: falls back to `default`
    /// if the chosen profile cannot be used, and says so once.
    pub(crate) fn home_or_default(&self) -> Result<Home, CommandFailure> {
        let option = self.global.profile.as_deref();
        let (home, trouble) = Home::locate_or_default(&self.environment, option)?;
        if let Some(trouble) = trouble
            && !self.warned.swap(true, Ordering::Relaxed)
        {
            self.console.warn(&trouble.to_string());
        }
        Ok(home)
    }

    /// Finds the home of the profile for commands that work without one.
    pub(crate) fn home_if_any(&self) -> Option<Home> {
        Home::locate(&self.environment, self.global.profile.as_deref()).ok()
    }

    /// Falls back to `default` from now on if the chosen profile cannot be used, and returns
    /// the reason, which the caller prints.
    pub(crate) fn tolerate_choice(&self) -> Option<HomeNotFound> {
        self.tolerant.store(true, Ordering::Relaxed);
        let option = self.global.profile.as_deref();
        let (_, trouble) = Home::locate_or_default(&self.environment, option).ok()?;
        self.warned.store(trouble.is_some(), Ordering::Relaxed);
        trouble
    }

    /// Refuses a profile that `-p` names and that does not exist, for commands that work
    /// without one.
    pub(crate) fn refuse_unknown_option(&self) -> Result<(), CommandFailure> {
        if self.global.profile.is_some() {
            self.home()?;
        }
        Ok(())
    }

    /// Finds all profiles.
    pub(crate) fn profiles(&self) -> Result<Profiles, CommandFailure> {
        Ok(Profiles::locate(&vestal_api::schema(), &self.environment)?)
    }

    /// Finds the home of another profile.
    pub(crate) fn home_of(&self, profile: &ProfileName) -> Result<Home, CommandFailure> {
        Ok(Home::locate(&self.environment, Some(profile.as_str()))?)
    }

    /// Loads the settings.
    pub(crate) fn settings(&self) -> Result<Settings, CommandFailure> {
        Ok(self.settings_with(self.home()?, Vec::new()))
    }

    /// Loads the settings of the default profile.
    pub(crate) fn settings_of_default(&self) -> Result<Settings, CommandFailure> {
        let home = self.home()?.sibling(ProfileName::default_profile());
        Ok(self.settings_with(home, Vec::new()))
    }

    /// Loads the settings of a profile as a process with this environment does.
    pub(crate) fn settings_of(
        &self,
        profile: ProfileName,
        environment: Environment,
    ) -> Result<Settings, CommandFailure> {
        let home = self.home()?.sibling(profile);
        Ok(Settings::load(&vestal_api::schema(), home, environment, Vec::new()))
    }

    fn settings_with(&self, home: Home, more: Vec<Override>) -> Settings {
        let overrides = self.global.set.iter().cloned().chain(more).collect();
        Settings::load(&vestal_api::schema(), home, self.environment.clone(), overrides)
    }

    /// Warns about names in the settings that have no effect, once per change of the files.
    pub(crate) fn warn_of_unknown_names(&self) {
        // Without a home there are no settings; commands that need one say so.
        let Some(home) = self.home_if_any() else { return };
        let audience =
            if std::io::stderr().is_terminal() { Audience::Person } else { Audience::Log };
        for finding in self.settings_with(home, Vec::new()).unannounced_names(audience) {
            self.console.warn(&finding.message);
        }
    }

    /// Opens the engine of the profile.
    pub(crate) fn engine(&self) -> Result<Engine, CommandFailure> {
        self.engine_of(self.home()?)
    }

    /// Opens the engine of another profile's home.
    pub(crate) fn engine_of(&self, home: Home) -> Result<Engine, CommandFailure> {
        let settings = self.settings_with(home, Vec::new());
        // A directory that was removed still has a name, for error messages.
        let removed = || self.environment.get("PWD").map(PathBuf::from);
        let options = EngineOptions {
            launch_dir: std::env::current_dir().ok().or_else(removed),
            progress: self.activity.sink(self.console),
        };
        let engine = Engine::open_with(settings, options)?;
        // Variables that skills ask for are forwarded to every command.
        vestal_skills::from_settings(engine.settings()).forward(&engine);
        Ok(engine)
    }

    /// Returns the backend that a name on the command line stands for.
    pub(crate) fn backend_named(&self, name: &str) -> Result<BackendChoice, CommandFailure> {
        let named =
            Override::parse(&vestal_api::schema(), &format!("{}={name}", keys::BACKEND.name()))?
                .given_as("-b");
        Ok(self.settings_with(self.home()?, vec![named]).get(&keys::BACKEND)?.value)
    }

    /// Returns what is asked for one sandbox alone.
    pub(crate) fn overrides(&self, wanted: &SandboxFlags) -> Result<Overrides, CommandFailure> {
        let SandboxFlags { backend, image, mount_cwd } = wanted;
        if backend.is_none() && image.is_none() && !mount_cwd {
            return Ok(Overrides::default());
        }
        let choice = match backend {
            Some(name) => self.backend_named(name)?,
            None => self.settings()?.get(&keys::BACKEND)?.value,
        };
        let mut overrides = Overrides {
            image: image.clone(),
            backend: backend.as_ref().map(|_| choice.as_str().to_owned()),
            ..Overrides::default()
        };
        let flag = match (image, mount_cwd) {
            (Some(_), _) => "--image",
            (None, true) => "--mount-cwd",
            (None, false) => return Ok(overrides),
        };
        // Of `auto`, the engine chooses among the backends that can give it.
        if let Some(declared) = choice.named().and_then(declared_backend) {
            refuse_unsuited(declared, flag, image.is_some())?;
        }
        if *mount_cwd {
            let here = std::env::current_dir();
            let here =
                here.map_err(|error| CommandFailure::io("find the current directory", &error))?;
            overrides.mount = Some(here);
        }
        Ok(overrides)
    }

    /// Returns the sandbox of a task, attached to, started or made, and says
    /// what there is to know about it.
    pub(crate) async fn sandbox(
        &self,
        engine: &Engine,
        task: &TaskName,
        overrides: &Overrides,
    ) -> Result<Sandbox, CommandFailure> {
        let attach = Box::pin(self.attach(engine, task, overrides));
        let sandbox = self.activity.while_waiting(attach).await?;
        if overrides.image.is_some() {
            refuse_other_image(engine, &sandbox)?;
        }
        self.tell(&sandbox);
        if let Some(dir) = &overrides.mount
            && sandbox.state_before() == StateBefore::Absent
        {
            self.console.note(&format!(
                "{} is /workspace in this sandbox, whose task is {}",
                dir.display(),
                sandbox.task()
            ));
        }
        Ok(sandbox)
    }

    /// Attaches in a task of its own, so that a signal leaves nothing half-made: the caller
    /// stops waiting, and [`Context::close`] waits for the task.
    async fn attach(
        &self,
        engine: &Engine,
        task: &TaskName,
        overrides: &Overrides,
    ) -> Result<Sandbox, CommandFailure> {
        let (engine, task, overrides) = (engine.clone(), task.clone(), overrides.clone());
        let mut pending = self.pending.lock().await;
        let attach =
            tokio::spawn(async move { Box::pin(engine.sandbox_with(&task, &overrides)).await });
        let attached = pending.insert(attach).await;
        *pending = None;
        let failed = |error| CommandFailure::new(format!("the sandbox was given up: {error}"));
        Ok(attached.map_err(failed)??)
    }

    /// Prints the notices about a sandbox that was just attached to.
    fn tell(&self, sandbox: &Sandbox) {
        for text in sandbox.notice_texts() {
            self.console.note(&text);
        }
    }

    /// Waits for an attach that a signal interrupted; another signal ends the waiting. A
    /// pull is not waited for: it may take very long, and nothing is made before its end.
    async fn see_through(&self) {
        let mut pending = self.pending.lock().await;
        let Some(attach) = pending.as_mut() else { return };
        if !self.activity.is_pull()
            && let Ok(mut signals) = signals::listen()
        {
            let attached = tokio::time::timeout(CLOSE_WITHIN, &mut *attach);
            let attached = unless_terminated(&mut signals, attached);
            let what = "finishing the start of the sandbox";
            if let Ok(Ok(_)) = self.console.while_waiting(what, attached).await {
                return;
            }
        }
        attach.abort();
    }

    /// Closes the engine.
    pub(crate) async fn close(&self, engine: &Engine) {
        self.see_through().await;
        if !engine.close(CLOSE_WITHIN).await {
            self.console.warn("a sandbox of this process was not removed in time; it ends by itself within a minute");
        }
    }

    /// As [`Context::close`], and waits for an orphan reaper that is running.
    pub(crate) async fn finish(&self, engine: &Engine) {
        self.close(engine).await;
        if tokio::time::timeout(SWEEP_WITHIN, engine.finish_sweep()).await.is_err() {
            tracing::debug!("the orphan reaper goes on next time");
        }
    }
}

/// Returns what the backend with this name declares.
pub(crate) fn declared_backend(name: &str) -> Option<&'static Declaration> {
    registered_backends().find(|declared| declared.name == name)
}

/// Refuses a flag that a backend does not support, and names the backends that do.
fn refuse_unsuited(declared: &Declaration, flag: &str, image: bool) -> Result<(), CommandFailure> {
    let suits = |declared: &Declaration| {
        if image { declared.takes_images } else { declared.mounts_host_directories() }
    };
    if suits(declared) {
        return Ok(());
    }
    let others = registered_backends().filter(|other| suits(other));
    let others: Vec<String> = others.map(|other| format!("-b {}", other.name)).collect();
    let others = others.join(" or ");
    let advice = match declared.system_setting {
        Some(setting) => format!("for a container: {others}; for another system: {setting}"),
        None => format!("for a sandbox with a root filesystem of its own: {others}"),
    };
    let message = format!("the backend {} does not support {flag}", declared.name);
    Err(CommandFailure::usage(message).advise(advice))
}

/// Refuses a sandbox that was made from another image than the one asked for:
/// the command was written for that one.
fn refuse_other_image(engine: &Engine, sandbox: &Sandbox) -> Result<(), CommandFailure> {
    let (task, backend) = (sandbox.task(), sandbox.backend());
    if engine.takes_images(backend) == Some(false) {
        let message = format!("sandbox {task} is on the backend {backend}, which has no images");
        let mut failure =
            CommandFailure::new(message).advise("to give the image a sandbox of its own: -t TASK");
        if let Some(other) = registered_backends().find(|other| other.takes_images) {
            let task = quoted(task.as_str());
            let moving =
                format!("to move this one: vestal rebuild {task} --backend {}", other.name);
            failure = failure.advise(moving);
        }
        return Err(failure);
    }
    let image = keys::DOCKER_IMAGE.name();
    let drift = sandbox.notices().iter().find_map(|notice| match notice {
        Notice::Drift(drift) => drift.iter().find(|drift| drift.key == image),
        _ => None,
    });
    let Some(drift) = drift else { return Ok(()) };
    let default = || keys::DOCKER_IMAGE.default_value().as_str().to_owned();
    let (was, now) = (drift.was.clone(), drift.now.clone());
    Err(CommandFailure::new(format!(
        "sandbox {} was created from image {}, not from {}",
        sandbox.task(),
        was.unwrap_or_else(default),
        now.unwrap_or_else(default)
    ))
    .advise("to give the image a sandbox of its own: -t TASK")
    .advise(
        "to recreate it from that image: --set terminal.on_config_change=recreate; only workspace and home are kept",
    ))
}
