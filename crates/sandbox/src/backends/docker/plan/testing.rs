//! A blueprint for tests, with everything at its default.

use serde_json::Value;
use vestal_config::{Environment, Home, Override, Settings};

use super::blueprint::{Blueprint, ImageUser, MountSource, PlannedContainer, Ulimits, plan};
use crate::backend::{BackendError, Owner};
use crate::backends::docker::api::{EngineInfo, Flavour, ImageInfo};
use crate::backends::docker::settings::{DockerSettings, HostUser};
use crate::backends::own_system::LimitKind;
use crate::mounts::Mounts;
use crate::{HomeId, Key, Overrides};

pub(super) const INSTANCE: &str = "0123456789abcdef";

/// The facts that a blueprint refers to.
pub(super) struct Bench {
    pub(super) key: Key,
    pub(super) home: HomeId,
    pub(super) owner: Option<Owner>,
    pub(super) settings: DockerSettings,
    pub(super) image: ImageInfo,
    pub(super) info: EngineInfo,
    pub(super) user: ImageUser,
    pub(super) boot: MountSource,
    pub(super) workspace: MountSource,
    pub(super) home_dir: MountSource,
    pub(super) mounts: Mounts,
    pub(super) hidden: Vec<std::path::PathBuf>,
    pub(super) leave_out: Vec<LimitKind>,
    pub(super) ulimits: Option<Ulimits>,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::with(&[])
    }

    /// Returns a bench with some settings that are not the default.
    pub(super) fn with(sets: &[&str]) -> Self {
        Self::asking(sets, &Overrides::default())
    }

    pub(super) fn asking(sets: &[&str], overrides: &Overrides) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let sets =
            sets.iter().map(|text| Override::parse(&crate::schema(), text).unwrap()).collect();
        let env = Environment::from_pairs([("HOME", "/home/ada")]);
        let settings = Settings::load(&crate::schema(), Home::at(dir.path()), env, sets);
        let mut settings = DockerSettings::read(&settings, overrides).unwrap();
        // Independent of the user who runs the tests.
        settings.host_user = settings.host_user.map(|_| HostUser { uid: 1000, gid: 100 });
        let home = HomeId("feedface".into());
        Self {
            key: Key::new(home.clone(), "default", "my task".parse().unwrap()),
            home,
            owner: None,
            settings,
            image: image(),
            info: engine(Flavour::Docker),
            user: ImageUser { uid: 0, gid: 0, name: Some("root".into()), home: "/root".into() },
            boot: MountSource::Bind("/s/boot".into()),
            workspace: MountSource::Bind("/s/workspace".into()),
            home_dir: MountSource::Bind("/s/home".into()),
            mounts: Mounts::default(),
            hidden: Vec::new(),
            leave_out: Vec::new(),
            ulimits: None,
        }
    }

    /// Makes the image's user one that is not root.
    pub(super) fn non_root(mut self) -> Self {
        self.image.user = Some("app:staff".into());
        let name = Some("app".into());
        self.user = ImageUser { uid: 1001, gid: 50, name, home: "/home/app".into() };
        self
    }

    pub(super) fn try_plan(&self) -> Result<PlannedContainer, BackendError> {
        plan(&Blueprint {
            key: &self.key,
            home: &self.home,
            generation: 3,
            instance: INSTANCE,
            owner: self.owner.as_ref(),
            spec_hash: "c0ffee",
            settings: &self.settings,
            image: &self.image,
            info: &self.info,
            user: &self.user,
            boot: self.boot.clone(),
            io: MountSource::Bind("/s/i:o".into()),
            state: MountSource::Bind("/s/state".into()),
            workspace: self.workspace.clone(),
            home_dir: self.home_dir.clone(),
            mounts: &self.mounts,
            hidden: &self.hidden,
            leave_out: &self.leave_out,
            ulimits: self.ulimits,
        })
    }

    pub(super) fn plan(&self) -> PlannedContainer {
        self.try_plan().unwrap()
    }

    /// Returns the request as JSON.
    pub(super) fn json(&self) -> Value {
        serde_json::to_value(self.plan().body).unwrap()
    }

    /// Returns what differs from the defaults in the host's part.
    pub(super) fn host(&self) -> Value {
        self.json()["HostConfig"].take()
    }
}

fn image() -> ImageInfo {
    ImageInfo {
        name: "debian:12".into(),
        id: "sha256:1234".into(),
        user: None,
        entrypoint: vec!["/entrypoint.sh".into()],
        cmd: vec!["bash".into()],
        volumes: Vec::new(),
        env: vec!["PATH=/bin".into()],
        working_dir: String::new(),
        stop_signal: None,
        layers: 1,
        is_bare: false,
    }
}

pub(super) fn engine(flavour: Flavour) -> EngineInfo {
    EngineInfo {
        id: "engine".into(),
        flavour,
        version: "20.10.24".into(),
        api_version: "1.41".into(),
        rootless: false,
        userns_remap: false,
        storage_driver: "overlay2".into(),
        backing_filesystem: "xfs".into(),
        cgroup_version: "2".into(),
        cgroup_driver: "systemd".into(),
        can_limit_memory: true,
        can_limit_cpu: true,
        can_limit_pids: true,
        can_limit_disk: true,
        live_restore: false,
        seccomp: true,
        architecture: "x86_64".to_owned(),
        operating_system: "Debian".into(),
        default_runtime: "runc".into(),
    }
}
