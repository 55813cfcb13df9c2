//! What every command works with.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use vestal_api::MachineAddress;
use vestal_config::{
    AnyKey as _, Audience, Environment, Home, HomeNotFound, Override, ProfileName, SettingValue,
    Settings,
};
use vestal_operations::{Action, ActionError, Done, Recording};
use vestal_profiles::Profiles;
use vestal_sandbox::backend::Declaration;
use vestal_sandbox::{
    BackendChoice, CLOSE_WITHIN, Engine, EngineOptions, Error, Notice, Overrides, Sandbox,
    StateBefore, TaskName, keys, registered_backends,
};

use crate::cli::{Global, SandboxFlags};
use crate::console::{ActivityLine, Console, status, text};
use crate::error::CommandFailure;
use crate::exit;
use crate::follow::unless_terminated;
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
    /// Whether that was reported.
    warned: AtomicBool,
    /// Whether nobody chose the directory that this program was started in.
    is_service: AtomicBool,
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
            is_service: AtomicBool::new(false),
            pending: Mutex::new(None),
        }
    }

    /// Returns another one for the same command line.
    pub(crate) fn again(&self) -> Self {
        Self::new(self.console, self.environment.clone(), self.global.clone())
    }

    /// Has commands start in the sandbox's own workspace, and not where this program was started: a
    /// supervisor starts it in the home of Vestal.
    pub(crate) fn become_service(&self) {
        self.is_service.store(true, Ordering::Relaxed);
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
    pub(crate) fn fall_back_to_default(&self) -> Option<HomeNotFound> {
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

    /// Opens an engine whose sandboxes are guests on a machine, without isolation, and end with
    /// this process.
    pub(crate) fn engine_visiting(
        &self,
        address: &MachineAddress,
    ) -> Result<Engine, CommandFailure> {
        let MachineAddress { host, user, port } = address;
        // User and port of another machine are none of this one's.
        let configured = self.settings()?.get_by_name("terminal.ssh_host")?.value;
        let is_other = configured != SettingValue::Text(host.clone());
        let given = |value: Option<String>| value.or_else(|| is_other.then(String::new));
        let mut settings = vec![
            "terminal.backend=ssh".to_owned(),
            "terminal.ssh_isolation=none".to_owned(),
            "terminal.persist_across_processes=false".to_owned(),
            format!("terminal.ssh_host={host}"),
        ];
        let port = port.map(|port| port.to_string());
        settings.extend(given(user.clone()).map(|user| format!("terminal.ssh_user={user}")));
        settings.extend(given(port).map(|port| format!("terminal.ssh_port={port}")));
        let schema = vestal_api::schema();
        let given = settings.iter().map(|text| Override::parse(&schema, text));
        self.engine_with(self.home()?, given.collect::<Result<_, _>>()?)
    }

    /// Opens the engine of another profile's home.
    pub(crate) fn engine_of(&self, home: Home) -> Result<Engine, CommandFailure> {
        self.engine_with(home, Vec::new())
    }

    fn engine_with(&self, home: Home, given: Vec<Override>) -> Result<Engine, CommandFailure> {
        let settings = self.settings_with(home, given);
        // A directory that was removed still has a name, for error messages.
        let removed = || self.environment.get("PWD").map(PathBuf::from);
        let options = EngineOptions {
            launch_dir: if self.is_service.load(Ordering::Relaxed) {
                None
            } else {
                std::env::current_dir().ok().or_else(removed)
            },
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
        let choice = vestal_sandbox::backend_in_effect(choice, &self.settings()?)?;
        if let Some(declared) = choice.named().and_then(declared_backend) {
            refuse_unsupported_flag(declared, flag, image.is_some())?;
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
        self.print_notices(&sandbox);
        if let Some(dir) = &overrides.mount
            && sandbox.state_before() == StateBefore::Absent
        {
            let place = match sandbox.synced_directory().await {
                Some(_) => "is copied to the workspace of this sandbox and back",
                None => "is /workspace in this sandbox",
            };
            self.console.note(&format!(
                "{} {place}, whose task is {}",
                dir.display(),
                sandbox.task()
            ));
        }
        Ok(sandbox)
    }

    /// Says what syncs of a mounted directory have had to say.
    pub(crate) fn print_sync_notes(&self, sandbox: &Sandbox) {
        status::clear();
        for note in sandbox.take_sync_notes() {
            self.console.warn(&text::printable(&note));
        }
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
    fn print_notices(&self, sandbox: &Sandbox) {
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
            && let Ok(mut signals) = exit::listen()
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

    /// Puts an action of this process on record, with the steps that the engine reports.
    pub(crate) fn record(
        &self,
        engine: &Engine,
        task: &TaskName,
        action: &Action,
    ) -> CommandRecording {
        let home = engine.settings().home();
        let recording = match Recording::begin(home, task, action, "vestal") {
            Ok(recording) => Some(recording),
            // The action is worth more than its record.
            Err(error) => {
                tracing::warn!(%error, "the action is not on record");
                None
            }
        };
        self.activity.record_to(recording.clone());
        CommandRecording(recording)
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
            tracing::debug!("the orphan reaper continues next time");
        }
    }
}

/// The record of an action of this process, where it could be made.
#[derive(Debug)]
pub(crate) struct CommandRecording(Option<Recording>);

impl CommandRecording {
    pub(crate) fn done(self, done: Done) {
        if let Some(recording) = self.0 {
            recording.done(done);
        }
    }

    pub(crate) fn failed(&self, error: &ActionError) {
        self.0.iter().for_each(|recording| recording.failed(error));
    }

    pub(crate) fn given_up(&self, is_undone: bool) {
        self.0.iter().for_each(|recording| recording.given_up(is_undone));
    }
}

/// Returns what the backend with this name declares.
pub(crate) fn declared_backend(name: &str) -> Option<&'static Declaration> {
    registered_backends().find(|declared| declared.name == name)
}

/// Refuses a flag that a backend does not support, and names the backends that do.
fn refuse_unsupported_flag(
    declared: &Declaration,
    flag: &str,
    image: bool,
) -> Result<(), CommandFailure> {
    let suits = |declared: &Declaration| {
        if image { declared.takes_images } else { declared.takes_host_directory() }
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
